//! One entry's way into the log: send, retry, read back, within 10 s (D-10).
//!
//! ```text
//!  sending ──done──────────────────────────────────────────▶ Accepted
//!     │ ├──refused──▶ reading ──the very same bytes──────────▶ Accepted
//!     │ │                │ ├────other bytes──────────────────▶ Occupied
//!     │ │                │ └────nothing there (a 409)─┐
//!     │ └──unknown, or cut off──▶ back-off ◀──────────┘
//!     │                             └──▶ sending, or reading
//!     └──permanent, disk failed, lock replaced, 10 s over────▶ Failed
//! ```
//!
//! A create whose outcome is unknown is simply sent again: it carries the same bytes, and if the
//! first one landed the second is refused and the read-back recognises it.

#[cfg(feature = "exhaustive")]
mod names;

use alloc::vec::Vec;
use core::time::Duration;

use crate::backoff::Backoff;
use crate::ids::{Blob, Position, RequestId};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};
use crate::time::Instant;

/// From the first send of an entry to its acceptance; fixed (HA-32, HA-33).
pub const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// A request without an answer is given up for a new one after this: three fit into the limit.
const ATTEMPT_CUT_OFF: Duration = Duration::from_secs(3);

/// What must be sent to the log's store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// Create the entry.
    Write { request: RequestId, entry: Blob },
    /// Read what stands at its position.
    Read { request: RequestId },
}

/// Where the entry is on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// Not there yet.
    Going,
    /// It is in the log, durably.
    Accepted,
    /// Something else stands at its position.
    Occupied(Blob),
    /// It will not get there.
    Failed(StopReason),
}

/// One entry on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct EntryWrite {
    position: Position,
    entry: Blob,
    deadline: Instant,
    phase: Phase,
    backoff: Backoff,
    /// Every write sent for this entry: a late positive answer counts.
    writes: Vec<RequestId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// `send` is due at `at`.
    Due { send: Kind, at: Instant },
    /// `kind` was sent.
    Sent { kind: Kind, request: RequestId, cut_off: Instant },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Write,
    Read,
}

impl EntryWrite {
    /// An entry that is about to be sent for the first time.
    pub(super) fn new(now: Instant, position: Position, entry: Blob) -> Self {
        Self {
            position,
            entry,
            deadline: now.saturating_add(WRITE_LIMIT),
            phase: Phase::Due { send: Kind::Write, at: now },
            backoff: Backoff::lease(),
            writes: Vec::new(),
        }
    }

    pub(super) const fn position(&self) -> Position {
        self.position
    }

    /// The request that is due, if one is.
    pub(super) fn poll_request(&mut self, now: Instant, next_request: &mut RequestId) -> Option<Request> {
        let Phase::Due { send, at } = self.phase else {
            return None;
        };
        if now < at {
            return None;
        }
        let request = *next_request;
        next_request.0 += 1;
        self.phase = Phase::Sent { kind: send, request, cut_off: now.saturating_add(ATTEMPT_CUT_OFF) };
        Some(match send {
            Kind::Write => {
                self.writes.push(request);
                Request::Write { request, entry: self.entry.clone() }
            }
            Kind::Read => Request::Read { request },
        })
    }

    /// A write was answered, this one's or an earlier entry's.
    pub(super) fn written(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: WriteOutcome,
        rng: &mut Rng,
    ) -> Progress {
        let ours = self.writes.contains(&request);
        let current = self.is_current(request);
        match outcome {
            // These speak of the machine, whichever request found out.
            WriteOutcome::LocalFailure => Progress::Failed(StopReason::LocalStoreFailed),
            WriteOutcome::LockReplaced => Progress::Failed(StopReason::DevLockReplaced),
            // Counts even after the limit: what was received goes before what became due (D-57).
            WriteOutcome::Done { .. } if ours => Progress::Accepted,
            WriteOutcome::Permanent if ours => Progress::Failed(StopReason::StoragePermanent),
            WriteOutcome::Refused if current && mutant::is(Mutant::RefusedIsAccepted) => Progress::Accepted,
            WriteOutcome::Refused if current && mutant::is(Mutant::RefusedIsLost) => {
                Progress::Failed(StopReason::LeaseTaken)
            }
            WriteOutcome::Refused if current => self.next(now, Kind::Read, now),
            WriteOutcome::Transient { retry_after_ms } if current => {
                self.back_off(now, Kind::Write, retry_after_ms, rng)
            }
            WriteOutcome::Done { .. }
            | WriteOutcome::Permanent
            | WriteOutcome::Refused
            | WriteOutcome::Transient { .. } => Progress::Going,
        }
    }

    /// A read-back was answered, this one's or an earlier entry's.
    pub(super) fn read(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: ReadOutcome,
        rng: &mut Rng,
    ) -> Progress {
        if outcome == ReadOutcome::LocalFailure {
            return Progress::Failed(StopReason::LocalStoreFailed);
        }
        if !self.is_current(request) {
            return Progress::Going;
        }
        match outcome {
            // Equal bytes: process id, epoch, position, nonce and checksum are all equal.
            ReadOutcome::Found { body, .. } if body == self.entry => Progress::Accepted,
            ReadOutcome::Found { body, .. } => Progress::Occupied(body),
            // A 409 that changed nothing (D-9).
            ReadOutcome::Missing => self.back_off(now, Kind::Write, None, rng),
            ReadOutcome::Transient { retry_after_ms } => self.back_off(now, Kind::Read, retry_after_ms, rng),
            ReadOutcome::Permanent => Progress::Failed(StopReason::StoragePermanent),
            ReadOutcome::LocalFailure => Progress::Failed(StopReason::LocalStoreFailed),
        }
    }

    /// Time has passed.
    pub(super) fn time_passed(&mut self, now: Instant, rng: &mut Rng) -> Progress {
        if now >= self.deadline {
            return Progress::Failed(StopReason::LogWriteTimeout);
        }
        match self.phase {
            Phase::Sent { kind, cut_off, .. } if now >= cut_off => self.back_off(now, kind, None, rng),
            Phase::Sent { .. } | Phase::Due { .. } => Progress::Going,
        }
    }

    /// When something becomes due.
    pub(super) fn due(&self) -> Instant {
        let next = match self.phase {
            Phase::Due { at, .. } => at,
            Phase::Sent { cut_off, .. } => cut_off,
        };
        next.min(self.deadline)
    }

    fn is_current(&self, request: RequestId) -> bool {
        matches!(self.phase, Phase::Sent { request: current, .. } if current == request)
    }

    fn back_off(&mut self, now: Instant, send: Kind, retry_after_ms: Option<u64>, rng: &mut Rng) -> Progress {
        let delay = wait(&mut self.backoff, retry_after_ms, rng);
        self.next(now, send, now.saturating_add(delay))
    }

    fn next(&mut self, now: Instant, send: Kind, at: Instant) -> Progress {
        if now >= self.deadline {
            return Progress::Failed(StopReason::LogWriteTimeout);
        }
        self.phase = Phase::Due { send, at };
        Progress::Going
    }
}

/// The back-off of lease writes serves here too; Retry-After raises it (D-4).
pub(super) fn wait(backoff: &mut Backoff, retry_after_ms: Option<u64>, rng: &mut Rng) -> Duration {
    backoff.draw(rng).max(Duration::from_millis(retry_after_ms.unwrap_or_default()))
}
