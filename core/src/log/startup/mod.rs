//! From a lease just taken to a fence in the log: what every start does (D-41, D-42, D-43, D-53).
//!
//! ```text
//! local store at p ── its entry read back: chain fits? ──no──▶ discard, next best, again
//!        │yes
//!        ▼
//! read p+1, p+2, … and apply ──missing──▶ list: something behind? ──yes──▶ read again ──missing──▶ hole
//!        ▲                                       │no
//!        │ an older epoch's late entry           ▼
//!        └────────────refused────────── write the fence there
//!                                                │accepted
//!                                                ▼
//!                       lease confirmed ──▶ apply the fence ──▶ ready
//! ```
//!
//! Until the fence nothing is written, and a log that cannot be read is left as it is.

mod io;
#[cfg(feature = "exhaustive")]
mod names;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use self::io::{StartupInput, StartupOptions, StartupOutput};
use super::entry::{Entry, EntryBody, EntryError, LogEnd};
use super::reader::{
    Batch, DiscardReason, ListOutcome, Obstacle, Question, RANGE_BYTES, RANGE_ENTRIES, Ranges, ReadEnd,
    Reader, Seen,
};
use super::write::{EntryWrite, Progress, Request};
use crate::ids::{Blob, Position, RequestId};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, Version};
use crate::time::{Instant, Now, Timestamp};

/// The shell has two checkpoints at most and an empty store; more replacements mean that it goes in circles.
const REPLACEMENTS: u32 = 16;

/// The start of one epoch.
///
/// ```text
/// new(now, options)
/// while let Some(output) = poll_output() { … }
/// handle(now, input)        an answer, or Tick when poll_timeout() is reached
/// ```
///
/// It is over after `Ready`, `EpochBehind` or `Failed`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Startup {
    options: StartupOptions,
    now: Now,
    phase: Phase,
    reader: Reader,
    /// Of the reader, and of the own fence.
    newest_time: Timestamp,
    /// Read and not yet given out: one at most while reading goes on.
    batches: VecDeque<Batch>,
    applying: Option<Position>,
    entries_applied: u64,
    replacements: u32,
    next_request: RequestId,
    rng: Rng,
    outputs: VecDeque<StartupOutput>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// To the end of the log.
    Reading(Ranges),
    /// A new local store is on its way.
    Replacing,
    /// The fence is on its way.
    Fencing {
        write: EntryWrite,
        fence: LogEnd,
    },
    /// The lease is being looked at.
    Confirming {
        fence: LogEnd,
    },
    /// The local store is applying the fence.
    Finishing {
        fence: LogEnd,
    },
    Over,
}

impl Startup {
    /// A start, right after the lease was won and confirmed (HA-19).
    #[must_use]
    pub fn new(now: Now, options: StartupOptions) -> Self {
        let mut startup = Self {
            now,
            phase: Phase::Over,
            reader: Reader::new(options.origin.node_id.clone(), Some(options.origin.epoch)),
            newest_time: Timestamp::ZERO,
            batches: VecDeque::new(),
            applying: None,
            entries_applied: 0,
            replacements: 0,
            next_request: RequestId(1),
            rng: Rng::new(options.seed),
            outputs: VecDeque::new(),
            options,
        };
        startup.try_local(startup.options.local);
        startup
    }

    /// Something happened. Answers to requests that were given up are dropped.
    pub fn handle(&mut self, now: Now, input: StartupInput) {
        self.now = now;
        match input {
            StartupInput::Read { request, entries, then } => self.on_read(request, entries, then),
            StartupInput::Listed { request, outcome } => self.on_listed(request, outcome),
            StartupInput::Written { request, outcome } => {
                if let Phase::Fencing { write, .. } = &mut self.phase {
                    let progress = write.written(now.instant, request, outcome, &mut self.rng);
                    self.on_fence(progress);
                }
            }
            StartupInput::Applied { position } => self.on_applied(position),
            StartupInput::LocalStore { end } => {
                if matches!(self.phase, Phase::Replacing) {
                    self.try_local(end);
                }
            }
            StartupInput::LeaseConfirmed => {
                if let Phase::Confirming { fence } = self.phase {
                    self.phase = Phase::Finishing { fence };
                    if mutant::is(Mutant::FenceAppliedFirst) {
                        return self.on_fence_applied(fence);
                    }
                    self.batches.push_back(Batch {
                        first: fence.position,
                        end: fence,
                        changes: Vec::new(),
                        entries: 1,
                    });
                }
            }
            StartupInput::Tick => self.on_tick(),
        }
    }

    /// What the shell must do: drain until None.
    pub fn poll_output(&mut self) -> Option<StartupOutput> {
        if self.applying.is_none()
            && let Some(batch) = self.batches.pop_front()
        {
            self.applying = Some(batch.end.position);
            self.entries_applied += batch.entries;
            return Some(StartupOutput::Apply { end: batch.end, changes: batch.changes });
        }
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        let now = self.now.instant;
        match &mut self.phase {
            // One batch at most waits in memory behind the one being applied.
            Phase::Reading(ranges) if self.batches.is_empty() || ranges.is_listing() => {
                let question = ranges.poll(now, &mut self.next_request)?;
                let position = self.reader.next_position();
                Some(match question {
                    Question::Range(request) => StartupOutput::Read {
                        request,
                        from: position,
                        at_most: RANGE_ENTRIES,
                        at_most_bytes: RANGE_BYTES,
                    },
                    Question::Behind(request) => StartupOutput::List { request, after: position },
                })
            }
            Phase::Fencing { write, .. } => {
                let position = write.position();
                match write.poll_request(now, &mut self.next_request)? {
                    Request::Write { request, entry } => {
                        Some(StartupOutput::Write { request, position, entry })
                    }
                    Request::Read { request } => Some(StartupOutput::Read {
                        request,
                        from: position,
                        at_most: 1,
                        at_most_bytes: RANGE_BYTES,
                    }),
                }
            }
            Phase::Reading(_)
            | Phase::Replacing
            | Phase::Confirming { .. }
            | Phase::Finishing { .. }
            | Phase::Over => None,
        }
    }

    /// When to hand in a `Tick`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Reading(ranges) if self.batches.is_empty() || ranges.is_listing() => Some(ranges.due()),
            Phase::Fencing { write, .. } => Some(write.due()),
            Phase::Reading(_)
            | Phase::Replacing
            | Phase::Confirming { .. }
            | Phase::Finishing { .. }
            | Phase::Over => None,
        }
    }

    /// D-43, first half: is it new enough to be worth a look at the log?
    fn try_local(&mut self, local: LogEnd) {
        self.reader.start_behind(local);
        // The entry at the trim bound and all above it are there; position 1 is the first of all.
        let no_bound = mutant::is(Mutant::MissingIsTheEnd);
        let lowest_usable = if no_bound { Position(0) } else { self.options.trimmed_below };
        if local.position == Position(0) {
            if lowest_usable > Position(1) {
                // Nothing is left to rebuild from, unless a snapshot is.
                if self.replacements > 0 {
                    return self.fail(StopReason::LogHole, Position(1), None);
                }
                return self.discard(DiscardReason::BelowTrimBound);
            }
        } else if local.position < lowest_usable {
            return self.discard(DiscardReason::BelowTrimBound);
        }
        self.read_on();
    }

    fn read_on(&mut self) {
        self.phase = Phase::Reading(Ranges::read(self.now.instant));
    }

    fn discard(&mut self, reason: DiscardReason) {
        self.replacements += 1;
        if self.replacements > REPLACEMENTS {
            return self.fail(StopReason::TakeoverFailed, self.reader.end().position, None);
        }
        self.phase = Phase::Replacing;
        self.outputs.push_back(StartupOutput::DiscardLocalStore(reason));
    }

    fn on_read(&mut self, request: RequestId, entries: Vec<Blob>, then: ReadEnd) {
        match &mut self.phase {
            Phase::Reading(ranges) if ranges.awaits_range(request) => {
                if self.take_in(&entries) {
                    self.on_range_end(entries.is_empty(), then);
                }
            }
            Phase::Fencing { write, .. } => {
                let outcome = read_back(entries, then);
                let progress = write.read(self.now.instant, request, outcome, &mut self.rng);
                self.on_fence(progress);
            }
            Phase::Reading(_)
            | Phase::Replacing
            | Phase::Confirming { .. }
            | Phase::Finishing { .. }
            | Phase::Over => {}
        }
    }

    /// Takes entries in. False: they ended the reading.
    fn take_in(&mut self, entries: &[Blob]) -> bool {
        match self.reader.take_in(entries) {
            Ok(batch) => {
                self.batches.extend(batch);
                return true;
            }
            Err(Obstacle::OtherChain) => self.discard(DiscardReason::OtherChain),
            Err(Obstacle::Unreadable(error)) => {
                self.fail(StopReason::LogUnreadable, self.reader.next_position(), Some(error));
            }
            Err(Obstacle::EpochBehind { found, lease_duration_ms }) => {
                self.phase = Phase::Over;
                self.outputs.push_back(StartupOutput::EpochBehind { found, lease_duration_ms });
            }
            Err(Obstacle::Taken) => self.fail_reading(StopReason::LeaseTaken),
        }
        false
    }

    fn on_range_end(&mut self, nothing_read: bool, then: ReadEnd) {
        let Phase::Reading(ranges) = &mut self.phase else {
            return;
        };
        match ranges.range_ended(self.now.instant, nothing_read, then, &mut self.rng) {
            Seen::Missing if self.reader.is_unverified() => self.discard(DiscardReason::BeyondLog),
            Seen::Missing if mutant::is(Mutant::HoleIsTheEnd) => self.on_log_end(),
            Seen::Missing => *ranges = Ranges::look_behind(self.now.instant),
            seen @ (Seen::Going | Seen::NothingBehind | Seen::Hole | Seen::Failed(_)) => self.on_seen(seen),
        }
    }

    fn on_listed(&mut self, request: RequestId, outcome: ListOutcome) {
        if let Phase::Reading(ranges) = &mut self.phase {
            let seen = ranges.listed(self.now.instant, request, outcome, &mut self.rng);
            self.on_seen(seen);
        }
    }

    fn on_seen(&mut self, seen: Seen) {
        match seen {
            Seen::Going | Seen::Missing => {}
            Seen::NothingBehind => self.on_log_end(),
            Seen::Hole => self.fail_reading(StopReason::LogHole),
            Seen::Failed(reason) => self.fail_reading(reason),
        }
    }

    fn on_log_end(&mut self) {
        let end = self.reader.end();
        let (known, found) = (self.options.log_end, end.position);
        if found < known {
            if self.options.synced {
                return self.fail(StopReason::LogShort, found, None);
            }
            self.outputs.push_back(StartupOutput::LogShorter { known, found });
        }
        let position = found.next();
        self.newest_time = self.newest_time.max(self.reader.newest_time()).max(self.now.wall);
        let fence = Entry {
            origin: self.options.origin.clone(),
            position,
            nonce: self.rng.next_u64(),
            time: self.newest_time,
            previous: end.chain,
            body: EntryBody::Fence { lease_duration_ms: self.options.lease_duration_ms },
        };
        let (bytes, chain) = fence.encode();
        self.phase = Phase::Fencing {
            write: EntryWrite::new(self.now.instant, position, bytes),
            fence: LogEnd { position, chain },
        };
    }

    fn on_fence(&mut self, progress: Progress) {
        let Phase::Fencing { fence, .. } = self.phase else {
            return;
        };
        match progress {
            Progress::Going => {}
            Progress::Accepted => {
                self.phase = Phase::Confirming { fence };
                if mutant::is(Mutant::FenceAppliedFirst) {
                    self.batches.push_back(Batch {
                        first: fence.position,
                        end: fence,
                        entries: 1,
                        ..Batch::default()
                    });
                }
                self.outputs.push_back(StartupOutput::FenceAccepted { end: fence });
            }
            Progress::Occupied(bytes) => self.on_occupied(&bytes),
            Progress::Failed(reason) => self.fail(reason, fence.position, None),
        }
    }

    /// A late entry of a lower epoch belongs to the log and is applied; anything else ends the start (D-42).
    fn on_occupied(&mut self, bytes: &Blob) {
        match self.reader.decode(bytes) {
            Ok((entry, _)) if entry.follows(&self.reader.end()).is_err() => {
                let at = self.reader.next_position();
                self.fail(StopReason::LeaseTaken, at, Some(EntryError::BrokenChain));
            }
            Ok(_) if mutant::is(Mutant::LateEntrySkipped) => {
                drop(self.reader.take_in(core::slice::from_ref(bytes)));
                self.read_on();
            }
            Ok(_) | Err(_) => {
                if self.take_in(core::slice::from_ref(bytes)) {
                    self.read_on();
                }
            }
        }
    }

    fn on_applied(&mut self, position: Position) {
        if self.applying != Some(position) {
            return;
        }
        self.applying = None;
        if let Phase::Finishing { fence } = self.phase
            && fence.position == position
        {
            self.on_fence_applied(fence);
        }
    }

    fn on_fence_applied(&mut self, fence: LogEnd) {
        self.phase = Phase::Over;
        self.outputs.push_back(StartupOutput::Ready {
            end: fence,
            newest_time: self.newest_time,
            entries_applied: self.entries_applied,
        });
    }

    fn on_tick(&mut self) {
        let now = self.now.instant;
        match &mut self.phase {
            Phase::Reading(ranges) => ranges.time_passed(now, &mut self.rng),
            Phase::Fencing { write, .. } => {
                let progress = write.time_passed(now, &mut self.rng);
                self.on_fence(progress);
            }
            Phase::Replacing | Phase::Confirming { .. } | Phase::Finishing { .. } | Phase::Over => {}
        }
    }

    fn fail_reading(&mut self, reason: StopReason) {
        self.fail(reason, self.reader.next_position(), None);
    }

    fn fail(&mut self, reason: StopReason, at: Position, error: Option<EntryError>) {
        self.phase = Phase::Over;
        self.batches.clear();
        self.outputs.push_back(StartupOutput::Failed { reason, at, error });
    }
}

/// A range of one, as the answer to a read-back.
fn read_back(entries: Vec<Blob>, then: ReadEnd) -> ReadOutcome {
    match (entries.into_iter().next(), then) {
        (Some(body), _) => ReadOutcome::Found { version: Version(Blob::default()), body, stamp_ms: None },
        (None, ReadEnd::Missing) => ReadOutcome::Missing,
        (None, ReadEnd::Transient { retry_after_ms }) => ReadOutcome::Transient { retry_after_ms },
        (None, ReadEnd::Full) => ReadOutcome::Transient { retry_after_ms: None },
        (None, ReadEnd::Permanent) => ReadOutcome::Permanent,
        (None, ReadEnd::LocalFailure) => ReadOutcome::LocalFailure,
    }
}

#[cfg(test)]
mod tests;
