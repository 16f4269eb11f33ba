//! Starts against a store that answers in pieces, late, or not at all.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::*;
use super::shell::*;
use crate::store::WriteOutcome;

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Answered, a read with at most so many entries.
    Answered(usize),
    /// A read with at most so many entries, and then trouble; a write that landed, or did not.
    Unclear(usize),
    /// It may have landed; no answer comes.
    Silent { lands: bool },
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => (1..5_usize).prop_map(Fate::Answered),
        1 => (0..3_usize).prop_map(Fate::Unclear),
        1 => any::<bool>().prop_map(|lands| Fate::Silent { lands }),
    ]
}

/// Epochs from 1 on, each with its fence and so many entries.
fn log_of(epochs: &[u64]) -> Log {
    let mut log = Log::default();
    for (index, entries) in epochs.iter().enumerate() {
        let epoch = index as u64 + 1;
        log.epoch((epoch, u128::from(epoch)), *entries);
    }
    log
}

/// The keys that a local store has after this position: one for each entry that is no fence.
fn keys(log: &Log, last: u64) -> Vec<Vec<u8>> {
    let entries = log.entries.range(..=last).map(|(_, bytes)| bytes);
    let bodies = entries.map(|bytes| Entry::decode(bytes, NODE).expect("made here").0.body);
    bodies
        .flat_map(|body| match body {
            EntryBody::Changes(changes) => changes,
            EntryBody::Fence { .. } => vec![],
        })
        .map(|change| change.key)
        .collect()
}

struct World {
    shell: Shell,
    fates: Vec<Fate>,
    applied: Vec<Vec<u8>>,
}

impl World {
    fn read(&mut self, request: RequestId, from: Position, at_most: u32) {
        let log = &self.shell.log;
        let limit = |pieces: usize| pieces.min(at_most as usize);
        let entries = |pieces: usize| -> Vec<Blob> {
            let there = (from.0..).map_while(|position| log.entries.get(&position).cloned());
            there.take(limit(pieces)).collect()
        };
        let (entries, then) = match self.fates.pop().unwrap_or(Fate::Answered(9)) {
            Fate::Answered(pieces) => {
                let entries = entries(pieces);
                let full = entries.len() == limit(pieces);
                (entries, if full { ReadEnd::Full } else { ReadEnd::Missing })
            }
            Fate::Unclear(pieces) => (entries(pieces), ReadEnd::Transient { retry_after_ms: None }),
            Fate::Silent { .. } => return,
        };
        self.shell.handle(StartupInput::Read { request, entries, then });
    }

    fn write(&mut self, request: RequestId, position: Position, entry: Blob) {
        let taken = self.shell.log.entries.contains_key(&position.0);
        let fate = self.fates.pop().unwrap_or(Fate::Answered(9));
        let lands = match fate {
            Fate::Answered(_) => true,
            Fate::Unclear(pieces) => pieces > 0,
            Fate::Silent { lands } => lands,
        };
        if lands && !taken {
            self.shell.log.entries.insert(position.0, entry);
        }
        let outcome = match fate {
            Fate::Answered(_) if taken => WriteOutcome::Refused,
            Fate::Answered(_) => WriteOutcome::Done { version: Version(Blob::default()) },
            Fate::Unclear(_) => WriteOutcome::Transient { retry_after_ms: None },
            Fate::Silent { .. } => return,
        };
        self.shell.handle(StartupInput::Written { request, outcome });
    }

    fn list(&mut self, request: RequestId, after: Position) {
        let first = self.shell.log.entries.range(after.0 + 1..).next();
        let first = first.map(|(position, _)| Position(*position));
        let outcome = match self.fates.pop().unwrap_or(Fate::Answered(9)) {
            Fate::Answered(_) => ListOutcome::First(first),
            Fate::Unclear(_) => ListOutcome::Transient { retry_after_ms: None },
            Fate::Silent { .. } => return,
        };
        self.shell.handle(StartupInput::Listed { request, outcome });
    }

    fn run(&mut self) -> StartupOutput {
        loop {
            let Some(output) = self.shell.startup.poll_output() else {
                self.shell.wait();
                continue;
            };
            match output {
                StartupOutput::Read { request, from, at_most, .. } => self.read(request, from, at_most),
                StartupOutput::Write { request, position, entry } => self.write(request, position, entry),
                StartupOutput::List { request, after } => self.list(request, after),
                StartupOutput::Apply { end, changes } => {
                    self.applied.extend(changes.into_iter().map(|change| change.key));
                    self.shell.handle(StartupInput::Applied { position: end.position });
                }
                StartupOutput::DiscardLocalStore(_) => {
                    self.applied.clear();
                    self.shell.handle(StartupInput::LocalStore { end: LogEnd::default() });
                }
                StartupOutput::FenceAccepted { .. } => self.shell.handle(StartupInput::LeaseConfirmed),
                StartupOutput::LogShorter { .. }
                | StartupOutput::EpochBehind { .. }
                | StartupOutput::Ready { .. }
                | StartupOutput::Failed { .. } => return output,
            }
        }
    }
}

fn world(log: Log, local: LogEnd, fates: Vec<Fate>) -> World {
    let applied = keys(&log, local.position.0);
    World { shell: Shell::new(log, local), fates, applied }
}

proptest! {
    #[test]
    fn d_041_a_start_applies_the_whole_log_once_whatever_the_store_answers(
        epochs in proptest::collection::vec(0..6_u64, 0..4),
        at in any::<prop::sample::Index>(),
        wrong_chain in prop::bool::weighted(0.2),
        fates in proptest::collection::vec(any_fate(), 0..30),
    ) {
        let log = log_of(&epochs);
        let end = log.end.position.0;
        let position = at.index(usize::try_from(end).expect("short") + 1) as u64;
        let mut local = if position == 0 { LogEnd::default() } else { log.end_at(position) };
        if wrong_chain && position > 0 {
            local.chain.0[0] ^= 1;
        }
        let expected = keys(&log, end);
        let mut world = world(log, local, fates);
        match world.run() {
            StartupOutput::Ready { end: fence, .. } => {
                prop_assert_eq!(fence, world.shell.log.end_at(end + 1));
                prop_assert_eq!(world.applied, expected);
            }
            // Five fates of a fence can use up its ten seconds.
            StartupOutput::Failed { reason, .. } => prop_assert_eq!(reason, StopReason::LogWriteTimeout),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn d_041_a_hole_is_found_wherever_it_is_and_nothing_is_written(
        epochs in proptest::collection::vec(1..6_u64, 1..4),
        at in any::<prop::sample::Index>(),
        fates in proptest::collection::vec(any_fate(), 0..30),
    ) {
        let mut log = log_of(&epochs);
        let last = usize::try_from(log.end.position.0).expect("short") - 1;
        let hole = at.index(last) as u64 + 1;
        log.entries.remove(&hole);
        let before = log.entries.clone();
        let mut world = world(log, LogEnd::default(), fates);
        let output = world.run();
        prop_assert_eq!(
            output,
            StartupOutput::Failed { reason: StopReason::LogHole, at: Position(hole), error: None }
        );
        prop_assert!(world.shell.log.entries == before);
    }
}
