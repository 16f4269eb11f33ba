//! Walks over whatever in a machine is only a name or a point in time, for a checker that wants to see
//! that two states are the same (feature `exhaustive`).
//!
//! Request ids, counters of nonces and versions are drawn from counters that only grow, and instants
//! from clocks that only advance: two states that behave alike for ever differ in them. A checker
//! collects them in one walk and writes shorter ones back in a second. Every other field is compared as
//! it is, so that a field added later is never forgotten.

use crate::backoff::Backoff;
use crate::ids::{Epoch, ProcessId, RequestId};
use crate::lease::{LeaseRecord, Nonce, Tenure};
use crate::rng::Rng;
use crate::store::Version;
use crate::time::{Instant, Now, SlowInstant};

/// Who renames. What it is not interested in, it leaves.
pub trait Names {
    /// A request whose answer the machine may still be told.
    fn request(&mut self, request: &mut RequestId);

    /// The write whose answer the machine waits for: any answer to it moves the machine.
    fn current_write(&mut self, request: &mut RequestId) {
        self.request(request);
    }

    /// Whether an answer to this request may still come.
    fn may_be_answered(&self, request: RequestId) -> bool;

    /// Whether this record may still be seen, or the answer to this request may still come.
    fn may_be_seen(&self, record: &LeaseRecord, request: Option<RequestId>) -> bool;

    /// Whether the object had this version once and never has it again.
    fn is_gone(&self, version: &Version) -> bool;

    /// A wait that only grows: how many failures led to it, and when it is over.
    fn patience(&mut self, failures: &mut usize, until: &mut Instant) {
        let _counts = failures;
        self.deadline(until);
    }

    /// The next id of a counter.
    fn next_request(&mut self, next: &mut u64);

    /// Counter of a nonce of this process.
    fn nonce(&mut self, process_id: ProcessId, counter: &mut u64);

    /// The next one of this process.
    fn next_nonce(&mut self, process_id: ProcessId, next: &mut u64) {
        self.nonce(process_id, next);
    }

    /// A process, possibly a dead one. Called after the counters of its nonces.
    fn process(&mut self, process_id: &mut ProcessId);

    /// A tenure's number.
    fn epoch(&mut self, epoch: &mut Epoch);

    /// The highest one that was seen in the lease: it matters only where the lease can vanish.
    fn seen_epoch(&mut self, epoch: &mut Epoch) {
        self.epoch(epoch);
    }

    /// A version of the lease object.
    fn version(&mut self, version: &mut Version);

    /// An instant of which only one thing matters: how far it is ahead, if it is.
    fn deadline(&mut self, at: &mut Instant);

    /// The end of somebody's patience, which a checker without clocks never reaches.
    fn limit(&mut self, at: &mut Instant) {
        self.deadline(at);
    }

    /// A wait that grows with each failure.
    fn backoff(&mut self, backoff: &mut Backoff) {
        let _as_it_is = backoff;
    }

    /// An instant from which something counts.
    fn origin(&mut self, at: &mut Instant);

    /// The same by the slower clock.
    fn slow_origin(&mut self, at: &mut SlowInstant);

    /// The last look at the clocks.
    fn look(&mut self, now: &mut Now);

    /// A generator: what it draws next is chance.
    fn chance(&mut self, rng: &mut Rng);

    /// All of a lease record.
    fn record(&mut self, record: &mut LeaseRecord) {
        self.nonce(record.nonce.process_id, &mut record.nonce.counter);
        self.process(&mut record.nonce.process_id);
        self.process(&mut record.holder);
        self.epoch(&mut record.epoch);
    }

    /// What a candidate observes.
    fn sight(&mut self, version: &mut Version, nonce: &mut Nonce) {
        self.version(version);
        self.nonce(nonce.process_id, &mut nonce.counter);
        self.process(&mut nonce.process_id);
    }

    /// All of a tenure.
    fn tenure(&mut self, tenure: &mut Tenure) {
        self.record(&mut tenure.record);
        self.version(&mut tenure.version);
        self.origin(&mut tenure.since);
    }
}

/// What has names.
pub trait Named {
    /// Shows every name in it, always in the same order.
    fn name(&mut self, names: &mut dyn Names);
}
