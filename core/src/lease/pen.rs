//! What a process needs to write the lease, and what it has written.

#[cfg(feature = "exhaustive")]
mod names;

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::record::{LeaseRecord, LeaseState, Nonce};
use super::{LeaseDuration, LeaseOperation, Look};
use crate::ids::{Epoch, Name, Position, ProcessId, RequestId};
use crate::mutant::{self, Mutant};
use crate::store::Version;
use crate::time::Instant;

/// The identity and the counters of a process that writes the lease. There is one per process; it moves
/// from machine to machine, so that no request id and no nonce ever repeats. Only a checker clones it, with
/// the whole process.
#[derive(Clone, Hash, Debug, PartialEq, Eq)]
pub struct Pen {
    node_id: Name,
    process_id: ProcessId,
    duration: LeaseDuration,
    next_request: u64,
    next_nonce: u64,
}

impl Pen {
    /// The pen of a process that has written nothing yet.
    #[must_use]
    pub const fn new(node_id: Name, process_id: ProcessId, duration: LeaseDuration) -> Self {
        Self { node_id, process_id, duration, next_request: 1, next_nonce: 1 }
    }

    /// The node whose lease it is.
    #[must_use]
    pub const fn node_id(&self) -> &Name {
        &self.node_id
    }

    /// The process that writes.
    #[must_use]
    pub const fn process_id(&self) -> ProcessId {
        self.process_id
    }

    /// The duration that it writes into the lease.
    #[must_use]
    pub const fn duration(&self) -> LeaseDuration {
        self.duration
    }

    /// A request id never used before.
    pub(super) const fn request(&mut self) -> RequestId {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        request
    }

    /// The counter of the next nonce: a write drawn from now on carries it or a higher one.
    pub(super) const fn next_nonce(&self) -> u64 {
        self.next_nonce
    }

    /// A record never written before (D-50).
    pub(super) fn record(
        &mut self,
        look: Look,
        epoch: Epoch,
        state: LeaseState,
        carried: Carried,
    ) -> LeaseRecord {
        let nonce = Nonce { process_id: self.process_id, counter: self.next_nonce, entropy: look.entropy };
        self.next_nonce += 1;
        LeaseRecord {
            node_id: self.node_id.clone(),
            epoch,
            holder: self.process_id,
            state,
            duration: self.duration,
            nonce,
            trimmed_below: carried.trimmed_below,
            log_end: carried.log_end,
        }
    }
}

/// What every lease write carries on (D-12).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Carried {
    pub(super) trimmed_below: Position,
    pub(super) log_end: Position,
}

impl Carried {
    pub(super) const fn of(record: &LeaseRecord) -> Self {
        Self { trimmed_below: record.trimmed_below, log_end: record.log_end }
    }
}

/// One write that was sent and may have landed, may land, or never will (D-8).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Try {
    pub(super) request: RequestId,
    pub(super) record: LeaseRecord,
    /// `None`: create if absent.
    pub(super) base: Option<Version>,
    pub(super) sent_at: Instant,
}

impl Try {
    pub(super) fn operation(&self) -> LeaseOperation {
        let body = self.record.encode();
        match &self.base {
            None => LeaseOperation::Create { body },
            Some(version) => LeaseOperation::Update { expected: version.clone(), body },
        }
    }
}

/// The tries that may still land. All of them are conditional on a version, so at most one of those with
/// the newest base can; the rest are dead.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Tries(Vec<Try>);

impl Tries {
    pub(super) fn push(&mut self, sent: Try) {
        self.0.push(sent);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &LeaseRecord> {
        self.0.iter().map(|sent| &sent.record)
    }

    pub(super) fn by_request(&self, request: RequestId) -> Option<&Try> {
        self.0.iter().find(|sent| sent.request == request)
    }

    /// The try whose whole record this is: a cloned process differs in the entropy of its nonce.
    pub(super) fn by_record(&self, record: &LeaseRecord) -> Option<&Try> {
        self.0.iter().find(|sent| sent.record == *record)
    }

    /// When the newest of them was sent, or never.
    pub(super) fn latest_sent_at(&self) -> Instant {
        self.0.last().map_or(Instant::ZERO, |sent| sent.sent_at)
    }

    /// Forgets those that can no longer land, as the object is known to have had this version.
    pub(super) fn keep_base(&mut self, base: Option<&Version>) {
        self.0.retain(|sent| sent.base.as_ref() == base);
    }

    /// Forgets the oldest ones: found in the lease later, they count as another's, which is safe.
    pub(super) fn keep_newest(&mut self, most: usize) {
        let excess = self.0.len().saturating_sub(most);
        self.0.drain(..excess);
    }
}

/// The lease as its holder knows it: what stands there, and from when its period counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub struct Tenure {
    /// What stands in the lease.
    #[n(0)]
    pub record: LeaseRecord,
    /// The version to build the next write on.
    #[n(1)]
    pub version: Version,
    /// The instant before that write was sent (D-1).
    #[n(2)]
    pub since: Instant,
}

impl Tenure {
    /// The end of the period (D-1): the gate is never open at or after it.
    #[must_use]
    pub fn ends_at(&self) -> Instant {
        self.since.saturating_add(self.record.duration.period())
    }

    /// When renewing it is given up (HA-25).
    #[must_use]
    pub fn renewal_cut_off(&self) -> Instant {
        self.since.saturating_add(self.record.duration.renewal_cut_off())
    }

    /// When the next renewal starts (HA-3).
    #[must_use]
    pub fn renewal_at(&self) -> Instant {
        let renewal = self.record.duration.renewal();
        self.since.saturating_add(if mutant::is(Mutant::RenewEarly) { renewal * 3 / 4 } else { renewal })
    }
}
