//! Reading the log in order: what the start of an epoch and a follower have in common.
//!
//! [`Reader`] checks entries and gathers their changes; [`Ranges`] asks for them, and finds out what a
//! missing one means (D-41).

#[cfg(feature = "exhaustive")]
mod names;

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use minicbor::{Decode, Encode};

use super::ask::Ask;
use super::entry::{Entry, EntryBody, EntryError, LogEnd};
use crate::backoff::Backoff;
use crate::engine::Change;
use crate::ids::{Blob, Epoch, Name, Position, ProcessId, RequestId};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::time::{Instant, Timestamp};

/// One range of entries, and so one batch of the local store: 1,024 entries or 4 MiB.
pub(crate) const RANGE_ENTRIES: u32 = 1_024;
pub(crate) const RANGE_BYTES: u64 = 4 << 20;

/// Why a range of entries ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ReadEnd {
    /// It is as long as was asked for.
    #[n(0)]
    Full,
    /// There is no entry at the next position.
    #[n(1)]
    Missing,
    /// As for every read; the entries before it count.
    #[n(2)]
    Transient {
        /// Retry-After, in milliseconds.
        #[n(0)]
        retry_after_ms: Option<u64>,
    },
    /// As for every read.
    #[n(3)]
    Permanent,
    /// As for every read.
    #[n(4)]
    LocalFailure,
}

/// What a listing shows behind a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ListOutcome {
    /// The lowest position above it that has an entry, if any.
    #[n(0)]
    First(#[n(0)] Option<Position>),
    /// As for reads.
    #[n(1)]
    Transient {
        /// Retry-After, in milliseconds.
        #[n(0)]
        retry_after_ms: Option<u64>,
    },
    /// As for reads.
    #[n(2)]
    Permanent,
    /// As for reads.
    #[n(3)]
    LocalFailure,
}

/// Why a local store cannot be used (D-43).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum DiscardReason {
    /// Entries that it lacks were trimmed.
    #[n(0)]
    BelowTrimBound,
    /// The log has another entry at its position.
    #[n(1)]
    OtherChain,
    /// The log does not reach to its position.
    #[n(2)]
    BeyondLog,
}

/// Where reading stands, and whether what is read belongs there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Reader {
    node_id: Name,
    /// The epoch that starts, above everything in the log; `None`: whoever writes is followed.
    own: Option<Epoch>,
    /// The last entry read; behind it the next one is expected.
    end: LogEnd,
    /// Whether the entry at `end` is still to be compared with the log's (D-43).
    unverified: bool,
    /// Who wrote the last entry read.
    last_writer: Option<(Epoch, ProcessId)>,
    newest_time: Timestamp,
}

/// The changes of entries that follow one another.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Batch {
    /// The first entry.
    pub(crate) first: Position,
    /// The last entry.
    pub(crate) end: LogEnd,
    pub(crate) changes: Vec<Change>,
    pub(crate) entries: u64,
}

/// Why reading cannot go on. It stands at [`Reader::next_position`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    /// The log has another entry where the local store ends (D-43).
    OtherChain,
    /// The entry is damaged, foreign, too new, or not what must come next (invariant 1).
    Unreadable(EntryError),
    /// It is of a higher epoch than the one that starts (D-55).
    EpochBehind { found: Epoch, lease_duration_ms: Option<u64> },
    /// It is of the epoch that starts, before that has written anything.
    Taken,
}

impl Reader {
    /// Reads for a node: for the start of an epoch, or as a follower.
    pub(crate) fn new(node_id: Name, own: Option<Epoch>) -> Self {
        Self {
            node_id,
            own,
            end: LogEnd::default(),
            unverified: false,
            last_writer: None,
            newest_time: Timestamp::ZERO,
        }
    }

    /// Goes on behind that local store, whose last entry is compared first; from the beginning if it
    /// is empty.
    pub(crate) fn start_behind(&mut self, local: LogEnd) {
        self.end = local;
        self.unverified = local.position > Position(0);
        self.last_writer = None;
    }

    /// The last entry read, or to be compared.
    pub(crate) const fn end(&self) -> LogEnd {
        self.end
    }

    /// Whether the entry at the end is still to be compared with the log's (D-43).
    pub(crate) const fn is_unverified(&self) -> bool {
        self.unverified
    }

    /// The newest time read.
    pub(crate) const fn newest_time(&self) -> Timestamp {
        self.newest_time
    }

    /// Where the next range begins.
    pub(crate) fn next_position(&self) -> Position {
        if self.unverified { self.end.position } else { self.end.position.next() }
    }

    /// Checks entries and gathers their changes. None: nothing new is among them. What was read before
    /// an obstacle is dropped, for nothing goes on behind it.
    pub(crate) fn take_in(&mut self, entries: &[Blob]) -> Result<Option<Batch>, Obstacle> {
        let mut batch = Batch::default();
        for bytes in entries {
            let (entry, end) = self.decode(bytes).map_err(Obstacle::Unreadable)?;
            if self.unverified {
                if end.chain != self.end.chain && !mutant::is(Mutant::ChainNotCompared) {
                    return Err(Obstacle::OtherChain);
                }
            } else {
                entry.follows(&self.end).map_err(Obstacle::Unreadable)?;
            }
            self.judge(&entry)?;
            self.last_writer = Some((entry.origin.epoch, entry.origin.process_id));
            self.newest_time = self.newest_time.max(entry.time);
            self.end = end;
            // The entry that the local store already has is only looked at.
            if !mem::take(&mut self.unverified) {
                if batch.entries == 0 {
                    batch.first = end.position;
                }
                batch.end = end;
                batch.entries += 1;
                if let EntryBody::Changes(changes) = entry.body {
                    batch.changes.extend(changes);
                }
            }
        }
        Ok((batch.entries > 0).then_some(batch))
    }

    /// The entry that these bytes are, if it is one of this node for the next position.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<(Entry, LogEnd), EntryError> {
        let (entry, chain) = Entry::decode(bytes, &self.node_id)?;
        let position = self.next_position();
        if entry.position != position {
            return Err(EntryError::BrokenChain);
        }
        Ok((entry, LogEnd { position, chain }))
    }

    /// Epochs never go down, each begins with its fence and is written by one process (invariant 1), and
    /// the one that starts is above them all.
    fn judge(&self, entry: &Entry) -> Result<(), Obstacle> {
        let writer = (entry.origin.epoch, entry.origin.process_id);
        let fence_duration_ms = match &entry.body {
            EntryBody::Fence { lease_duration_ms } => Some(*lease_duration_ms),
            EntryBody::Changes(_) => None,
        };
        if self.own.is_some_and(|own| writer.0 > own) {
            return Err(Obstacle::EpochBehind { found: writer.0, lease_duration_ms: fence_duration_ms });
        }
        if self.own == Some(writer.0) && !mutant::is(Mutant::EqualEpochTolerated) {
            return Err(Obstacle::Taken);
        }
        // Of the entry at which reading begins only the checksum is known to be right: enough.
        let fits = match self.last_writer {
            None => self.unverified || fence_duration_ms.is_some(),
            Some(last) if last.0 == writer.0 => last == writer && fence_duration_ms.is_none(),
            Some(last) => last.0 < writer.0 && fence_duration_ms.is_some(),
        };
        if fits { Ok(()) } else { Err(Obstacle::Unreadable(EntryError::BrokenChain)) }
    }
}

/// Asks for ranges of entries, and for what stands behind a missing one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ranges {
    /// Of entries; `again` after a listing showed something behind a missing one.
    Reading { ask: Ask, again: bool },
    /// Behind a missing entry.
    Listing(Ask),
}

/// What is to be asked now.
pub(crate) enum Question {
    /// A range from [`Reader::next_position`] on.
    Range(RequestId),
    /// What stands behind [`Reader::next_position`].
    Behind(RequestId),
}

/// What an answer means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// The next question is known.
    Going,
    /// The next entry is missing: the end, trimmed, or a hole. Nothing more is asked until the owner
    /// says what.
    Missing,
    /// It is missing, nothing stands behind it.
    NothingBehind,
    /// It is missing at the second look while something stands behind it (D-41).
    Hole,
    /// Asking on is no use.
    Failed(StopReason),
}

impl Ranges {
    /// Reads at that time.
    pub(crate) const fn read(at: Instant) -> Self {
        Self::Reading { ask: Ask::new(at), again: false }
    }

    /// Reads at that time, asking anew without an answer after `cut_off`.
    pub(crate) const fn poll_at(at: Instant, cut_off: Duration) -> Self {
        Self::Reading { ask: Ask::with(at, cut_off, Backoff::lease()), again: false }
    }

    /// Looks behind a missing entry.
    pub(crate) const fn look_behind(now: Instant) -> Self {
        Self::Listing(Ask::new(now))
    }

    /// Whether it looks behind a missing entry.
    pub(crate) const fn is_listing(&self) -> bool {
        matches!(self, Self::Listing(_))
    }

    /// What is to be asked now, if it is time.
    pub(crate) fn poll(&mut self, now: Instant, next_request: &mut RequestId) -> Option<Question> {
        match self {
            Self::Reading { ask, .. } => ask.poll(now, next_request).map(Question::Range),
            Self::Listing(ask) => ask.poll(now, next_request).map(Question::Behind),
        }
    }

    /// When something becomes due.
    pub(crate) const fn due(&self) -> Instant {
        match self {
            Self::Reading { ask, .. } | Self::Listing(ask) => ask.due(),
        }
    }

    /// Time has passed.
    pub(crate) fn time_passed(&mut self, now: Instant, rng: &mut Rng) {
        match self {
            Self::Reading { ask, .. } | Self::Listing(ask) => ask.time_passed(now, rng),
        }
    }

    /// Whether this range is awaited.
    pub(crate) fn awaits_range(&self, request: RequestId) -> bool {
        matches!(self, Self::Reading { ask, .. } if ask.awaits(request))
    }

    /// The awaited range ended so, after its entries were taken in.
    pub(crate) fn range_ended(
        &mut self,
        now: Instant,
        nothing_read: bool,
        then: ReadEnd,
        rng: &mut Rng,
    ) -> Seen {
        let Self::Reading { ask, again } = self else {
            return Seen::Going;
        };
        match then {
            ReadEnd::Full if nothing_read => ask.retry(now, None, rng),
            ReadEnd::Full => *self = Self::read(now),
            ReadEnd::Missing if *again && nothing_read => return Seen::Hole,
            ReadEnd::Missing => return Seen::Missing,
            ReadEnd::Transient { retry_after_ms } => {
                if !nothing_read {
                    *ask = Ask::new(now);
                    *again = false;
                }
                ask.retry(now, retry_after_ms, rng);
            }
            ReadEnd::Permanent => return Seen::Failed(StopReason::StoragePermanent),
            ReadEnd::LocalFailure => return Seen::Failed(StopReason::LocalStoreFailed),
        }
        Seen::Going
    }

    /// A listing was answered.
    pub(crate) fn listed(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: ListOutcome,
        rng: &mut Rng,
    ) -> Seen {
        let Self::Listing(ask) = self else {
            return Seen::Going;
        };
        if !ask.awaits(request) {
            return Seen::Going;
        }
        match outcome {
            ListOutcome::First(None) => return Seen::NothingBehind,
            // It may have been written between the two looks: the second look decides (D-41).
            ListOutcome::First(Some(_)) => *self = Self::Reading { ask: Ask::new(now), again: true },
            ListOutcome::Transient { retry_after_ms } => ask.retry(now, retry_after_ms, rng),
            ListOutcome::Permanent => return Seen::Failed(StopReason::StoragePermanent),
            ListOutcome::LocalFailure => return Seen::Failed(StopReason::LocalStoreFailed),
        }
        Seen::Going
    }
}
