//! A question to a store that is asked until it is answered.

#[cfg(feature = "exhaustive")]
mod names;

use core::time::Duration;

use crate::backoff::Backoff;
use crate::ids::RequestId;
use crate::log::write::wait;
use crate::rng::Rng;
use crate::time::Instant;

/// A question without an answer is asked anew after this: long enough for a full range from a slow store.
pub(crate) const CUT_OFF: Duration = Duration::from_secs(10);

/// Reading has no limit of its own: it goes on for as long as the lease is held (lesson C8).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ask {
    state: State,
    backoff: Backoff,
    cut_off: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Due(Instant),
    Sent { request: RequestId, cut_off: Instant },
}

impl Ask {
    /// A question to be asked at that time.
    pub(crate) const fn new(at: Instant) -> Self {
        Self::with(at, CUT_OFF, Backoff::lease())
    }

    /// A question to be asked at that time, asked anew without an answer after `cut_off`, and after a
    /// failure as `backoff` says.
    pub(crate) const fn with(at: Instant, cut_off: Duration, backoff: Backoff) -> Self {
        Self { state: State::Due(at), backoff, cut_off }
    }

    /// The request to send now, if it is time.
    pub(crate) fn poll(&mut self, now: Instant, next_request: &mut RequestId) -> Option<RequestId> {
        match self.state {
            State::Due(at) if at <= now => {
                let request = *next_request;
                next_request.0 += 1;
                self.state = State::Sent { request, cut_off: now.saturating_add(self.cut_off) };
                Some(request)
            }
            State::Due(_) | State::Sent { .. } => None,
        }
    }

    /// Whether this answer is awaited; a late one to a request that was given up is not.
    pub(crate) fn awaits(&self, answered: RequestId) -> bool {
        matches!(self.state, State::Sent { request, .. } if request == answered)
    }

    /// It failed, and may work later.
    pub(crate) fn retry(&mut self, now: Instant, retry_after_ms: Option<u64>, rng: &mut Rng) {
        let delay = wait(&mut self.backoff, retry_after_ms, rng);
        self.state = State::Due(now.saturating_add(delay));
    }

    /// Time has passed.
    pub(crate) fn time_passed(&mut self, now: Instant, rng: &mut Rng) {
        if matches!(self.state, State::Sent { cut_off, .. } if cut_off <= now) {
            self.retry(now, None, rng);
        }
    }

    /// When something becomes due.
    pub(crate) const fn due(&self) -> Instant {
        match self.state {
            State::Due(at) => at,
            State::Sent { cut_off, .. } => cut_off,
        }
    }
}
