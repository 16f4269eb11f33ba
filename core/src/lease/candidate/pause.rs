//! The pause before an available lease is taken (HA-57 to HA-59).
//!
//! ```text
//! seen available
//!  |- 0 to 50 ms -| write                                        hot, or cold
//!  |------- laggingTakeoverDelay -------|- 0 to 50 ms -| write   not hot: the hot one comes first
//!  |---------- becomes hot |- 0 to 50 ms -| write
//! ```

use core::time::Duration;

use super::{Candidate, Step, Target};
use crate::lease::Look;
use crate::mutant::{self, Mutant};
use crate::store::Version;
use crate::time::Instant;

/// Spreads the writes of candidates that saw one release (HA-57).
const LONGEST_JITTER: Duration = Duration::from_millis(50);

/// The write comes at `until`, unless the lease changes before.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Pause {
    pub(super) until: Instant,
    pub(super) target: Target,
    jitter: Duration,
}

impl Pause {
    /// Whether it waits to take exactly this state of the lease.
    pub(super) fn is_on(&self, version: Option<&Version>) -> bool {
        self.target.base.as_ref() == version
    }
}

impl Candidate {
    /// Whether the follower is `following` from now on (HA-59). A standby that waits for others to go
    /// first waits no longer once it is hot.
    pub fn set_hot(&mut self, look: Look, is_hot: bool) {
        if self.is_hot == is_hot {
            return;
        }
        self.is_hot = is_hot;
        let not_before = self.own_turn_at();
        if let Step::Pausing(pause) = &mut self.step {
            let planned = look.now.instant.max(not_before).saturating_add(pause.jitter);
            pause.until = if is_hot { pause.until.min(planned) } else { pause.until.max(planned) };
        }
    }

    pub(super) fn take_after_jitter(&mut self, look: Look, target: Target) {
        let known = self.available.as_ref().is_some_and(|(base, _)| *base == target.base);
        if !known {
            self.available = Some((target.base.clone(), look.now.instant));
        }
        if !self.may_take(look, &target) {
            return;
        }
        let jitter = Duration::from_micros(self.rng.up_to(crate::time::micros(LONGEST_JITTER)));
        let until = look.now.instant.max(self.own_turn_at()).saturating_add(jitter);
        self.step = Step::Pausing(Pause { until, target, jitter });
    }

    pub(super) fn take_pause(&mut self) -> Option<Pause> {
        match core::mem::replace(&mut self.step, Step::Watching) {
            Step::Pausing(pause) => Some(pause),
            other @ (Step::Watching | Step::Surveying { .. } | Step::Writing { .. } | Step::Over) => {
                self.step = other;
                None
            }
        }
    }

    /// A standby that is not hot leaves an available lease to others for a while (HA-58).
    fn own_turn_at(&self) -> Instant {
        match (self.pace.lagging_takeover_delay, &self.available) {
            (Some(_), Some(_)) if mutant::is(Mutant::NoLaggingDelay) => Instant::ZERO,
            (Some(delay), Some((_, since))) if !self.is_hot => since.saturating_add(delay),
            (Some(_) | None, Some(_) | None) => Instant::ZERO,
        }
    }
}
