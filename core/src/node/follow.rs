//! Following the log as a hot standby: when, with which bounds, and how hot it is (HA-42, HA-59, HA-100,
//! D-14, D-38).

use super::event::NodeEvent;
use super::health::Standing;
use super::io::{FollowOrder, Output};
use super::machine::{Lease, Node};
use super::role::Role;
use crate::ids::Position;
use crate::lease::{LeaseRecord, Look};
use crate::standby::{FollowerReport, FollowerState};
use crate::time::Instant;

/// What a standby knows about its follower.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Follow {
    /// `trimmed_below` and `log_end` of the newest lease seen.
    bounds: Option<(Position, Position)>,
    is_on: bool,
    report: Option<FollowerReport>,
}

impl Node {
    /// What the state and the lag of a standby follow from.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let stands_by = matches!(self.role, Role::Waiting | Role::HoldOff);
        let is_hot_mode = self.config.standby.is_hot();
        let state = self.follow.report.map_or(FollowerState::Bootstrapping, |report| report.state);
        let caught_up_at = self.follow.report.and_then(|report| report.caught_up_at);
        Standing {
            reported: (is_hot_mode && stands_by).then_some(state),
            since: caught_up_at.or(self.standby_since),
            behind_lag_threshold: self.config.standby.behind_lag_threshold(),
        }
    }

    pub(super) fn follower_state(&self, now: Instant) -> Option<FollowerState> {
        self.standing().state(now)
    }

    pub(super) fn follower_reports(&mut self, look: Look, report: FollowerReport) {
        if !self.follow.is_on {
            return;
        }
        let before = self.follower_state(look.now.instant);
        self.follow.report = Some(report);
        let after = self.follower_state(look.now.instant);
        if let Some(state) = after.filter(|_| after != before) {
            self.tell(NodeEvent::Follower(state));
        }
    }

    /// The candidate's pauses depend on it (HA-58).
    pub(super) fn tell_heat(&mut self, look: Look) {
        let is_hot = self.follower_state(look.now.instant).is_some_and(FollowerState::is_hot);
        if let Lease::Candidate(candidate) = &mut self.lease {
            candidate.set_hot(look, is_hot);
        }
    }

    pub(super) fn follow_lease(&mut self, record: &LeaseRecord) {
        let (trimmed_below, log_end) = (record.trimmed_below, record.log_end);
        self.follow.bounds = Some((trimmed_below, log_end));
        if self.follow.is_on {
            self.push(Output::Follow(FollowOrder::Lease { trimmed_below, log_end }));
        } else {
            self.follow_if_allowed();
        }
    }

    /// Begins once a lease was seen, and the store of an ended tenure is closed (D-38).
    pub(super) fn follow_if_allowed(&mut self) {
        let stands_by = matches!(self.role, Role::Waiting | Role::HoldOff);
        if !self.config.standby.is_hot() || !stands_by || self.is_store_open || self.follow.is_on {
            return;
        }
        if let Some((trimmed_below, log_end)) = self.follow.bounds {
            self.follow.is_on = true;
            self.push(Output::Follow(FollowOrder::Start { trimmed_below, log_end }));
        }
    }

    pub(super) fn stop_following(&mut self) {
        if core::mem::take(&mut self.follow).is_on {
            self.push(Output::Follow(FollowOrder::Stop));
        }
    }
}
