//! A shell that answers from a log made by hand.

use std::collections::btree_map::Entry as Place;
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use super::super::*;
use crate::engine::Change;
pub(super) use crate::log::hand_made::*;
use crate::store::WriteOutcome;

pub(super) fn now_ms(millis: u64) -> Now {
    Now {
        instant: Instant::from_millis(millis),
        wall: Timestamp::from_millis(1_000_000 + millis),
        ..Now::default()
    }
}

/// The shell of a start: answers from the log, and keeps a list of what happened.
pub(super) struct Shell {
    pub(super) startup: Startup,
    pub(super) log: Log,
    pub(super) now_ms: u64,
    /// What is put in the place of a discarded local store, in order.
    pub(super) replacements: Vec<LogEnd>,
    pub(super) applied: Vec<(u64, Vec<Change>)>,
    pub(super) written: Vec<(u64, Blob)>,
    pub(super) discarded: Vec<DiscardReason>,
    pub(super) listed: Vec<u64>,
    pub(super) warnings: Vec<(u64, u64)>,
}

impl Shell {
    pub(super) fn new(log: Log, local: LogEnd) -> Self {
        Self::with(log, local, |_| {})
    }

    pub(super) fn with(log: Log, local: LogEnd, adjust: impl FnOnce(&mut StartupOptions)) -> Self {
        let mut options = StartupOptions {
            origin: origin(OWN),
            lease_duration_ms: 10_000,
            trimmed_below: Position(0),
            log_end: Position(0),
            synced: true,
            local,
            seed: 1,
        };
        adjust(&mut options);
        Self {
            startup: Startup::new(now_ms(0), options),
            log,
            now_ms: 0,
            replacements: vec![LogEnd::default()],
            applied: vec![],
            written: vec![],
            discarded: vec![],
            listed: vec![],
            warnings: vec![],
        }
    }

    pub(super) fn handle(&mut self, input: StartupInput) {
        self.startup.handle(now_ms(self.now_ms), input);
    }

    /// Lets time pass until something is due.
    pub(super) fn wait(&mut self) -> Duration {
        let due = self.startup.poll_timeout().expect("something is due");
        let waited = due.saturating_since(Instant::from_millis(self.now_ms));
        self.now_ms = due.as_micros().div_ceil(1_000);
        self.handle(StartupInput::Tick);
        waited
    }

    /// Does what is asked until something comes that the test wants to answer itself, or the end.
    pub(super) fn run(&mut self) -> StartupOutput {
        self.run_until(|_| false)
    }

    pub(super) fn run_until(&mut self, stop: impl Fn(&StartupOutput) -> bool) -> StartupOutput {
        loop {
            let output = self.startup.poll_output().expect("the start goes on");
            if stop(&output) {
                return output;
            }
            match output {
                StartupOutput::Read { request, from, .. } => {
                    let entries: Vec<Blob> =
                        (from.0..).map_while(|position| self.log.entries.get(&position).cloned()).collect();
                    self.handle(StartupInput::Read { request, entries, then: ReadEnd::Missing });
                }
                StartupOutput::List { request, after } => {
                    self.listed.push(after.0);
                    let first = self.log.entries.range(after.0 + 1..).next();
                    let outcome = ListOutcome::First(first.map(|(position, _)| Position(*position)));
                    self.handle(StartupInput::Listed { request, outcome });
                }
                StartupOutput::Write { request, position, entry } => {
                    let outcome = match self.log.entries.entry(position.0) {
                        Place::Occupied(_) => WriteOutcome::Refused,
                        Place::Vacant(free) => {
                            free.insert(entry.clone());
                            self.written.push((position.0, entry));
                            WriteOutcome::Done { version: Version(Blob::default()) }
                        }
                    };
                    self.handle(StartupInput::Written { request, outcome });
                }
                StartupOutput::Apply { end, changes } => {
                    let position = end.position;
                    self.applied.push((position.0, changes));
                    self.handle(StartupInput::Applied { position });
                }
                StartupOutput::DiscardLocalStore(reason) => {
                    self.discarded.push(reason);
                    self.applied.clear();
                    let end = self.replacements.remove(0);
                    self.handle(StartupInput::LocalStore { end });
                }
                StartupOutput::FenceAccepted { .. } => self.handle(StartupInput::LeaseConfirmed),
                StartupOutput::LogShorter { known, found } => {
                    self.warnings.push((known.0, found.0));
                }
                StartupOutput::EpochBehind { .. }
                | StartupOutput::Ready { .. }
                | StartupOutput::Failed { .. } => {
                    assert_eq!(self.startup.poll_output(), None);
                    assert_eq!(self.startup.poll_timeout(), None);
                    return output;
                }
            }
        }
    }

    /// Runs to `Ready` and says the fence's position and how many entries were applied.
    pub(super) fn run_to_ready(&mut self) -> (u64, u64) {
        match self.run() {
            StartupOutput::Ready { end, entries_applied, .. } => {
                assert_eq!(end, self.log.end_at(end.position.0));
                (end.position.0, entries_applied)
            }
            other => panic!("the start should have succeeded: {other:?}"),
        }
    }

    /// Runs to a failure, before which nothing may have been written.
    pub(super) fn run_to_failure(&mut self) -> (StopReason, u64, Option<EntryError>) {
        match self.run() {
            StartupOutput::Failed { reason, at, error } => {
                assert_eq!(self.written, vec![]);
                (reason, at.0, error)
            }
            other => panic!("the start should have failed: {other:?}"),
        }
    }
}
