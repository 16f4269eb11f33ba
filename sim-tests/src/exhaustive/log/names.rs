//! Nothing here depends on time or on chance: every wait is over at once, every patience endless.

use dexzd_core::backoff::Backoff;
use dexzd_core::ids::{Epoch, ProcessId, RequestId};
use dexzd_core::lease::LeaseRecord;
use dexzd_core::names::Names;
use dexzd_core::rng::Rng;
use dexzd_core::store::Version;
use dexzd_core::time::{Instant, Now, SlowInstant};

/// The one request of a process that may be answered is called 1, the next one 2.
pub(super) struct Timeless {
    pub(super) awaited: Option<RequestId>,
}

const CURRENT: RequestId = RequestId(1);
/// When everything happens.
pub(super) const NOW: Instant = Instant::from_micros(1_000_000);

impl Names for Timeless {
    fn request(&mut self, request: &mut RequestId) {
        *request = if Some(*request) == self.awaited { CURRENT } else { RequestId(0) };
    }

    fn may_be_answered(&self, request: RequestId) -> bool {
        Some(request) == self.awaited
    }

    fn may_be_seen(&self, _: &LeaseRecord, _: Option<RequestId>) -> bool {
        true
    }

    fn is_gone(&self, _: &Version) -> bool {
        false
    }

    fn next_request(&mut self, next: &mut u64) {
        *next = CURRENT.0 + 1;
    }

    fn nonce(&mut self, _: ProcessId, _: &mut u64) {}
    fn process(&mut self, _: &mut ProcessId) {}
    fn epoch(&mut self, _: &mut Epoch) {}
    fn version(&mut self, _: &mut Version) {}

    fn deadline(&mut self, at: &mut Instant) {
        *at = NOW;
    }

    fn limit(&mut self, at: &mut Instant) {
        *at = Instant::MAX;
    }

    fn backoff(&mut self, backoff: &mut Backoff) {
        backoff.reset();
    }

    fn origin(&mut self, _: &mut Instant) {}
    fn slow_origin(&mut self, _: &mut SlowInstant) {}
    fn look(&mut self, _: &mut Now) {}

    fn chance(&mut self, rng: &mut Rng) {
        *rng = Rng::new(0);
    }
}
