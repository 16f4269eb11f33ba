//! Health names and the standby gauges: what probes and alerts see of a node (HA-64 to HA-70, HA-82,
//! HA-83).

use core::time::Duration;

use super::machine::Node;
use crate::mutant::{self, Mutant};
use crate::standby::FollowerState;
use crate::time::Instant;

/// The health names that are SERVING on the active only (HA-64). The empty one is the whole process.
pub const READINESS_NAMES: [&str; 3] = ["", "dex.FlowService", "dex.WorkerTaskService"];
/// The health name that is SERVING while a hot standby is hot (HA-65).
pub const HOT_STANDBY_NAME: &str = "dex.HotStandby";

/// What the health service answers: SERVING or NOT_SERVING.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// Under [`READINESS_NAMES`].
    pub is_serving: bool,
    /// Under [`HOT_STANDBY_NAME`].
    pub is_hot_standby: bool,
}

/// `dexzd_hot_standby_state` and `dexzd_hot_standby_lag_seconds`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StandbyGauges {
    /// The series that is 1; `None`: all are 0, as on an active or a cold process (HA-82).
    pub state: Option<FollowerState>,
    /// Zero on an active or a cold process (HA-83, D-14).
    pub lag: Duration,
}

/// What the gauges of a standby follow from, now and at any later instant: another thread can keep a copy
/// and ask it without waiting for `node`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// What the follower reported last; `None`: this process is no hot standby.
    pub(super) reported: Option<FollowerState>,
    /// The lag counts from here.
    pub(super) since: Option<Instant>,
    /// The lag above which it is behind (HA-46).
    pub(super) behind_lag_threshold: Duration,
}

impl Standing {
    /// Time since everything known was applied (D-14): since the begin of the standby period, if it never
    /// was.
    pub(super) fn lag(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_since(since))
    }

    /// The state that a hot standby shows; nothing on any other process.
    #[must_use]
    pub fn state(&self, now: Instant) -> Option<FollowerState> {
        // A follower that hangs says nothing: silence is lag too.
        let is_late = self.lag(now) > self.behind_lag_threshold && !mutant::is(Mutant::BlindIsClose);
        self.reported.map(|state| match state {
            FollowerState::Following if is_late => FollowerState::Behind,
            FollowerState::Following
            | FollowerState::Bootstrapping
            | FollowerState::Behind
            | FollowerState::Restarting
            | FollowerState::Failed => state,
        })
    }

    /// What the gauges of a standby show at this instant.
    #[must_use]
    pub fn gauges(&self, now: Instant) -> StandbyGauges {
        let state = self.state(now);
        StandbyGauges { state, lag: if state.is_some() { self.lag(now) } else { Duration::ZERO } }
    }

    /// Whether [`HOT_STANDBY_NAME`] is SERVING at this instant (HA-65).
    #[must_use]
    pub fn is_hot(&self, now: Instant) -> bool {
        self.state(now).is_some_and(FollowerState::is_hot)
    }
}

impl Node {
    /// What the health service answers at this instant. An ended lease shows at once, before the node was
    /// even called (HA-70); one in doubt may well be this process's own, and still counts.
    #[must_use]
    pub fn health(&self, now: Instant) -> Health {
        let lease_lasts = self.tenure().is_some_and(|tenure| now < tenure.ends_at());
        Health {
            is_serving: self.role().is_serving() && lease_lasts,
            is_hot_standby: self.standing().is_hot(now),
        }
    }

    /// What the gauges of a standby show at this instant.
    #[must_use]
    pub fn standby_gauges(&self, now: Instant) -> StandbyGauges {
        self.standing().gauges(now)
    }
}
