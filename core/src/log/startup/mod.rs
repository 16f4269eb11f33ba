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

mod ask;
mod io;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use self::ask::Ask;
pub use self::io::{DiscardReason, ListOutcome, ReadEnd, StartupInput, StartupOptions, StartupOutput};
use super::entry::{Entry, EntryBody, EntryError, LogEnd};
use super::write::{EntryWrite, Progress, Request};
use crate::engine::Change;
use crate::ids::{Blob, Epoch, Position, ProcessId, RequestId};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, Version};
use crate::time::{Instant, Now, Timestamp};

/// One range of entries, and so one batch of the local store: 1,024 entries or 4 MiB.
const RANGE_ENTRIES: u32 = 1_024;
const RANGE_BYTES: u64 = 4 << 20;
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
#[derive(Debug)]
pub struct Startup {
    options: StartupOptions,
    now: Now,
    phase: Phase,
    /// The last entry read; behind it the next one is expected.
    end: LogEnd,
    /// Whether the entry at `end` is still to be compared with the log's (D-43).
    unverified: bool,
    /// Who wrote the last entry read.
    last_writer: Option<(Epoch, ProcessId)>,
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

#[derive(Debug)]
enum Phase {
    /// Of entries; `again` after a listing showed something behind a missing one.
    Reading {
        ask: Ask,
        again: bool,
    },
    /// Behind a missing entry.
    Listing(Ask),
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

#[derive(Debug, Default)]
struct Batch {
    end: LogEnd,
    changes: Vec<Change>,
    entries: u64,
}

/// What an entry is to the epoch that starts.
enum Verdict {
    Applies,
    EpochBehind(Option<u64>),
    Taken,
    Broken,
}

impl Startup {
    /// A start, right after the lease was won and confirmed (HA-19).
    #[must_use]
    pub fn new(now: Now, options: StartupOptions) -> Self {
        let mut startup = Self {
            now,
            phase: Phase::Over,
            end: LogEnd::default(),
            unverified: false,
            last_writer: None,
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
                    self.end = fence;
                    self.batches.push_back(Batch { end: fence, changes: Vec::new(), entries: 1 });
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
            Phase::Reading { ask, .. } if self.batches.is_empty() => {
                let request = ask.poll(now, &mut self.next_request)?;
                Some(StartupOutput::Read {
                    request,
                    from: self.next_position(),
                    at_most: RANGE_ENTRIES,
                    at_most_bytes: RANGE_BYTES,
                })
            }
            Phase::Listing(ask) => {
                let request = ask.poll(now, &mut self.next_request)?;
                let after = self.next_position();
                Some(StartupOutput::List { request, after })
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
            Phase::Reading { .. }
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
            Phase::Reading { ask, .. } if self.batches.is_empty() => Some(ask.due()),
            Phase::Listing(ask) => Some(ask.due()),
            Phase::Fencing { write, .. } => Some(write.due()),
            Phase::Reading { .. }
            | Phase::Replacing
            | Phase::Confirming { .. }
            | Phase::Finishing { .. }
            | Phase::Over => None,
        }
    }

    /// D-43, first half: is it new enough to be worth a look at the log?
    fn try_local(&mut self, local: LogEnd) {
        self.end = local;
        self.last_writer = None;
        // The entry at the trim bound and all above it are there; position 1 is the first of all.
        let lowest_usable = self.options.trimmed_below;
        if local.position == Position(0) {
            self.unverified = false;
            if lowest_usable > Position(1) {
                // Nothing is left to rebuild from.
                return self.fail(StopReason::LogHole, Position(1), None);
            }
        } else if local.position < lowest_usable {
            return self.discard(DiscardReason::BelowTrimBound);
        } else {
            self.unverified = true;
        }
        self.read_on();
    }

    fn read_on(&mut self) {
        self.phase = Phase::Reading { ask: Ask::new(self.now.instant), again: false };
    }

    fn discard(&mut self, reason: DiscardReason) {
        self.replacements += 1;
        if self.replacements > REPLACEMENTS {
            return self.fail(StopReason::TakeoverFailed, self.end.position, None);
        }
        self.phase = Phase::Replacing;
        self.outputs.push_back(StartupOutput::DiscardLocalStore(reason));
    }

    fn next_position(&self) -> Position {
        if self.unverified { self.end.position } else { self.end.position.next() }
    }

    fn on_read(&mut self, request: RequestId, entries: Vec<Blob>, then: ReadEnd) {
        match &mut self.phase {
            Phase::Reading { ask, .. } if ask.awaits(request) => {
                if self.take_in(&entries) {
                    self.on_range_end(entries.is_empty(), then);
                }
            }
            Phase::Fencing { write, .. } => {
                let outcome = read_back(entries, then);
                let progress = write.read(self.now.instant, request, outcome, &mut self.rng);
                self.on_fence(progress);
            }
            Phase::Reading { .. }
            | Phase::Listing(_)
            | Phase::Replacing
            | Phase::Confirming { .. }
            | Phase::Finishing { .. }
            | Phase::Over => {}
        }
    }

    /// Checks entries and gathers their changes. False: they ended the reading.
    fn take_in(&mut self, entries: &[Blob]) -> bool {
        let mut batch = Batch::default();
        for bytes in entries {
            let at = self.next_position();
            let (entry, end) = match self.decode(bytes, at) {
                Ok(decoded) => decoded,
                Err(error) => {
                    self.fail(StopReason::LogUnreadable, at, Some(error));
                    return false;
                }
            };
            if self.unverified {
                if end.chain != self.end.chain {
                    self.discard(DiscardReason::OtherChain);
                    return false;
                }
            } else if entry.follows(&self.end).is_err() {
                self.fail(StopReason::LogUnreadable, at, Some(EntryError::BrokenChain));
                return false;
            }
            match self.judge(&entry) {
                Verdict::Applies => {}
                Verdict::EpochBehind(lease_duration_ms) => {
                    self.phase = Phase::Over;
                    self.outputs.push_back(StartupOutput::EpochBehind {
                        found: entry.origin.epoch,
                        lease_duration_ms,
                    });
                    return false;
                }
                Verdict::Taken => {
                    self.fail(StopReason::LeaseTaken, at, None);
                    return false;
                }
                Verdict::Broken => {
                    self.fail(StopReason::LogUnreadable, at, Some(EntryError::BrokenChain));
                    return false;
                }
            }
            self.last_writer = Some((entry.origin.epoch, entry.origin.process_id));
            self.newest_time = self.newest_time.max(entry.time);
            self.end = end;
            // The entry that the local store already has is only looked at.
            if !mem::take(&mut self.unverified) {
                batch.end = end;
                batch.entries += 1;
                if let EntryBody::Changes(changes) = entry.body {
                    batch.changes.extend(changes);
                }
            }
        }
        if batch.entries > 0 {
            self.batches.push_back(batch);
        }
        true
    }

    fn decode(&self, bytes: &[u8], at: Position) -> Result<(Entry, LogEnd), EntryError> {
        let (entry, chain) = Entry::decode(bytes, &self.options.origin.node_id)?;
        if entry.position != at {
            return Err(EntryError::BrokenChain);
        }
        let position = at;
        Ok((entry, LogEnd { position, chain }))
    }

    /// Epochs never go down, each begins with its fence and is written by one process (invariant 1), and
    /// the one that starts is above them all.
    fn judge(&self, entry: &Entry) -> Verdict {
        let writer = (entry.origin.epoch, entry.origin.process_id);
        let own = self.options.origin.epoch;
        let fence_duration_ms = match &entry.body {
            EntryBody::Fence { lease_duration_ms } => Some(*lease_duration_ms),
            EntryBody::Changes(_) => None,
        };
        if writer.0 > own {
            return Verdict::EpochBehind(fence_duration_ms);
        }
        if writer.0 == own {
            return Verdict::Taken;
        }
        // Of the entry at which reading begins only the checksum is known to be right: enough.
        let fits = match self.last_writer {
            None => self.unverified || fence_duration_ms.is_some(),
            Some(last) if last.0 == writer.0 => last == writer && fence_duration_ms.is_none(),
            Some(last) => last.0 < writer.0 && fence_duration_ms.is_some(),
        };
        if fits { Verdict::Applies } else { Verdict::Broken }
    }

    fn on_range_end(&mut self, nothing_read: bool, then: ReadEnd) {
        let now = self.now.instant;
        let Phase::Reading { ask, again } = &mut self.phase else {
            return;
        };
        match then {
            ReadEnd::Full if nothing_read => ask.retry(now, None, &mut self.rng),
            ReadEnd::Full => self.read_on(),
            ReadEnd::Missing if self.unverified => self.discard(DiscardReason::BeyondLog),
            ReadEnd::Missing if *again && nothing_read => {
                let at = self.next_position();
                self.fail(StopReason::LogHole, at, None);
            }
            ReadEnd::Missing => self.phase = Phase::Listing(Ask::new(now)),
            ReadEnd::Transient { retry_after_ms } if nothing_read => {
                ask.retry(now, retry_after_ms, &mut self.rng);
            }
            ReadEnd::Transient { retry_after_ms } => {
                let mut ask = Ask::new(now);
                ask.retry(now, retry_after_ms, &mut self.rng);
                self.phase = Phase::Reading { ask, again: false };
            }
            ReadEnd::Permanent => self.fail_reading(StopReason::StoragePermanent),
            ReadEnd::LocalFailure => self.fail_reading(StopReason::LocalStoreFailed),
        }
    }

    fn on_listed(&mut self, request: RequestId, outcome: ListOutcome) {
        let now = self.now.instant;
        let Phase::Listing(ask) = &mut self.phase else {
            return;
        };
        if !ask.awaits(request) {
            return;
        }
        match outcome {
            ListOutcome::First(None) => self.on_log_end(),
            // It may have been written between the two looks: the second look decides (D-41).
            ListOutcome::First(Some(_)) => {
                self.phase = Phase::Reading { ask: Ask::new(now), again: true };
            }
            ListOutcome::Transient { retry_after_ms } => {
                ask.retry(now, retry_after_ms, &mut self.rng);
            }
            ListOutcome::Permanent => self.fail_reading(StopReason::StoragePermanent),
            ListOutcome::LocalFailure => self.fail_reading(StopReason::LocalStoreFailed),
        }
    }

    fn on_log_end(&mut self) {
        let (known, found) = (self.options.log_end, self.end.position);
        if found < known {
            if self.options.synced {
                return self.fail(StopReason::LogShort, found, None);
            }
            self.outputs.push_back(StartupOutput::LogShorter { known, found });
        }
        let position = found.next();
        self.newest_time = self.newest_time.max(self.now.wall);
        let fence = Entry {
            origin: self.options.origin.clone(),
            position,
            nonce: self.rng.next_u64(),
            time: self.newest_time,
            previous: self.end.chain,
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
                self.outputs.push_back(StartupOutput::FenceAccepted { end: fence });
            }
            Progress::Occupied(bytes) => self.on_occupied(&bytes),
            Progress::Failed(reason) => self.fail(reason, fence.position, None),
        }
    }

    /// A late entry of a lower epoch belongs to the log and is applied; anything else ends the start (D-42).
    fn on_occupied(&mut self, bytes: &Blob) {
        let at = self.next_position();
        match self.decode(bytes, at) {
            Ok((entry, _)) if entry.follows(&self.end).is_err() => {
                self.fail(StopReason::LeaseTaken, at, Some(EntryError::BrokenChain));
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
            self.phase = Phase::Over;
            self.outputs.push_back(StartupOutput::Ready {
                end: fence,
                newest_time: self.newest_time,
                entries_applied: self.entries_applied,
            });
        }
    }

    fn on_tick(&mut self) {
        let now = self.now.instant;
        match &mut self.phase {
            Phase::Reading { ask, .. } | Phase::Listing(ask) => ask.time_passed(now, &mut self.rng),
            Phase::Fencing { write, .. } => {
                let progress = write.time_passed(now, &mut self.rng);
                self.on_fence(progress);
            }
            Phase::Replacing | Phase::Confirming { .. } | Phase::Finishing { .. } | Phase::Over => {}
        }
    }

    fn fail_reading(&mut self, reason: StopReason) {
        self.fail(reason, self.next_position(), None);
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
