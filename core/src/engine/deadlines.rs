//! Deadlines that live in memory only: they end with the epoch, as what they guard does.

use alloc::collections::BTreeSet;

use crate::ids::{CallId, HandoutId, StreamId};
use crate::time::Instant;

/// What a deadline guards. One that is no longer true when it comes is simply set again or dropped, so
/// that a heartbeat costs no bookkeeping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Deadline {
    /// One attempt of a method.
    Attempt(HandoutId),
    /// The time between two heartbeats of an attempt.
    Heartbeat(HandoutId),
    /// The silence of a Worker stream.
    Stream(StreamId),
    /// A bounded wait of a client.
    Poll(CallId),
}

#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_time: BTreeSet<(Instant, Deadline)>,
}

impl Deadlines {
    pub(super) fn set(&mut self, at: Instant, deadline: Deadline) {
        self.by_time.insert((at, deadline));
    }

    pub(super) fn clear(&mut self, at: Instant, deadline: Deadline) {
        self.by_time.remove(&(at, deadline));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Deadline> {
        if self.by_time.first()?.0 > now {
            return None;
        }
        self.by_time.pop_first().map(|(_, deadline)| deadline)
    }
}
