//! Stepping down: drain, release, hold-off, and who holds the lease then (HA-87 to HA-109, D-37, D-38).
//!
//! ```text
//! accepted            release sent  confirmed                 hold-off over
//!  |--- drain, commit -----|----------|----- stepDownHoldOff ------|- one try to take it back -|
//!                          |          | the call ends when another is seen to hold the lease   | or now
//!                          |------ 64 s: a local store that is still open ends the process -----...
//! ```

use core::time::Duration;

use super::admin::{ActiveProcess, AdminAnswer, AdminError, AdminReason, StepDownOutcome};
use super::connections::RolePeriod;
use super::event::NodeEvent;
use super::io::Output;
use super::machine::{Lease, Node};
use super::role::{Role, Trigger};
use crate::ids::{CallId, Epoch};
use crate::lease::{
    Candidate, CandidateConfig, LeaseRecord, LeaseState, Look, Pace, ReleaseOutcome, UnknownHolder,
};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::time::Instant;

/// From the sending of the release on, the store of the ended tenure has so long to close (HA-105, D-19).
const STORE_LIMIT: Duration = Duration::from_secs(64);

/// A step down whose call waits for its answer. Without one the process shuts down, or has done with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepDown {
    call: CallId,
    /// The tenure that ends.
    epoch: Epoch,
    /// The release found that another process had the lease since.
    is_taken_over: bool,
}

impl Node {
    /// The present role period, as connections are judged by it (D-16).
    #[must_use]
    pub fn period(&self) -> RolePeriod {
        let is_standby = match self.role {
            Role::Waiting | Role::Withdrawing | Role::Releasing | Role::HoldOff | Role::Stopped => true,
            Role::Opening
            | Role::Outwaiting
            | Role::Raising
            | Role::Confirming
            | Role::Recovering
            | Role::Active
            | Role::Draining
            | Role::Interrupting
            | Role::Committing
            | Role::Closing
            | Role::Abandoning => false,
        };
        let standby_since = self.standby_since.unwrap_or(Instant::ZERO);
        RolePeriod { number: self.period, is_standby, standby_since }
    }

    /// The checks are passed: the drain begins.
    pub(super) fn begin_step_down(&mut self, look: Look, call: CallId, epoch: Epoch) {
        self.step_down = Some(StepDown { call, epoch, is_taken_over: false });
        self.tell(NodeEvent::SteppingDown { epoch });
        self.trigger(look, Trigger::StepDown);
    }

    /// The call ends without an outcome, and the process does not live on. Whether there was one.
    pub(super) fn end_step_down(&mut self, error: AdminError) -> bool {
        let Some(step_down) = self.step_down.take() else {
            return false;
        };
        self.push(Output::Admin { call: step_down.call, answer: Err(error) });
        true
    }

    /// A lease lost in the drain leaves the outcome unknown (D-20). Once the release was sent the caller
    /// learns that nobody is known to have taken over (HA-106).
    pub(super) const fn error_of_end(&self, reason: StopReason) -> AdminError {
        let ended = AdminReason::Ended(reason);
        match self.role {
            Role::Releasing | Role::HoldOff | Role::Waiting => AdminError::internal(ended),
            Role::Withdrawing
            | Role::Opening
            | Role::Outwaiting
            | Role::Raising
            | Role::Confirming
            | Role::Recovering
            | Role::Active
            | Role::Draining
            | Role::Interrupting
            | Role::Committing
            | Role::Closing
            | Role::Abandoning
            | Role::Stopped => AdminError::unavailable(ended),
        }
    }

    /// The release is being sent: from now on an open store has its limit (HA-105).
    pub(super) fn plan_store_limit(&mut self, look: Look) {
        if self.step_down.is_some() && self.is_store_open {
            self.store_limit_at = Some(look.now.instant.saturating_add(STORE_LIMIT));
        }
    }

    /// What the end of the release means to the process.
    pub(super) fn after_release(&mut self, outcome: ReleaseOutcome) -> Trigger {
        let Some(step_down) = &mut self.step_down else {
            return Trigger::Released;
        };
        step_down.is_taken_over = matches!(outcome, ReleaseOutcome::TakenOver { .. });
        Trigger::SteppedDown
    }

    /// Watches the lease and takes nothing. The hold-off counts from here: the release is confirmed, or
    /// given up (D-37, D-38).
    pub(super) fn hold_off(&mut self, look: Look) {
        let Lease::Release(release) = core::mem::replace(&mut self.lease, Lease::Nobody) else {
            unreachable!("only a release leads to a hold-off");
        };
        let (pen, own_ended) = release.into_pen_and_own();
        // The other rules of a start are for the start only (D-36, D-2 b).
        let config =
            CandidateConfig { lock_held: self.config.candidate.lock_held, ..CandidateConfig::default() };
        let candidate = Candidate::new(pen, config, Rng::new(self.rng.next_u64()))
            .with_pace(Pace::of(&self.config.standby))
            .holding_off(own_ended);
        self.lease = Lease::Candidate(candidate);
        self.deadline = Some(look.now.instant.saturating_add(self.config.standby.step_down_hold_off()));
    }

    /// The last thing that used the store of the ended tenure is gone (HA-104). While a tenure lasts its
    /// store is open, whoever says otherwise.
    pub(super) fn store_closed(&mut self, look: Look) {
        if matches!(self.lease, Lease::Holder(_)) {
            return;
        }
        self.is_store_open = false;
        self.store_limit_at = None;
        self.follow_if_allowed();
        self.end_hold_off(look);
    }

    /// Both must be over: the hold-off, and the closing of the store (HA-99, HA-104). A store that does not
    /// close ends the process, whoever holds the lease by then (HA-107).
    pub(super) fn end_hold_off(&mut self, look: Look) {
        if self.store_limit_at.is_some_and(|limit| look.now.instant >= limit) {
            self.store_limit_at = None;
            self.fail(look, StopReason::StoreNotClosed);
        }
        if self.role == Role::HoldOff
            && self.deadline.is_none()
            && (!self.is_store_open || mutant::is(Mutant::StoreCloseNotAwaited))
        {
            self.trigger(look, Trigger::HeldOff);
        }
    }

    /// After the hold-off: one try to take the lease back, then a candidate like any other (HA-102).
    pub(super) fn compete(&mut self, look: Look) {
        if let Lease::Candidate(candidate) = &mut self.lease {
            candidate.compete(look);
        }
        self.drain_lease(look);
    }

    /// A record stands in the lease that was not seen before.
    pub(super) fn lease_seen(&mut self, record: &LeaseRecord) {
        self.follow_lease(record);
        if record.holder == self.config.process_id {
            return;
        }
        // A free one too: it names its last holder, who therefore had taken over (D-38).
        let active = match record.state {
            LeaseState::Held => Some(ActiveProcess { epoch: record.epoch, holder: record.holder }),
            LeaseState::Free => None,
        };
        self.answer_step_down(StepDownOutcome::TakenOver { active });
    }

    /// The lease is this process's own again (D-38).
    pub(super) fn taken_back(&mut self, epoch: Epoch) {
        let active = ActiveProcess { epoch, holder: self.config.process_id };
        self.answer_step_down(StepDownOutcome::TakenBack { active });
    }

    /// The try after the hold-off came to nothing that is known.
    pub(super) fn retake_failed(&mut self, detail: UnknownHolder) {
        let known = self.step_down.is_some_and(|step_down| step_down.is_taken_over);
        self.answer_step_down(if known {
            StepDownOutcome::TakenOver { active: None }
        } else {
            StepDownOutcome::Unknown { detail }
        });
    }

    fn answer_step_down(&mut self, outcome: StepDownOutcome) {
        let Some(step_down) = self.step_down.take() else {
            return;
        };
        self.tell(NodeEvent::SteppedDown(outcome));
        let hold_off = self.config.standby.step_down_hold_off();
        let answer = AdminAnswer::SteppedDown {
            node_id: self.config.node_id.clone(),
            released_epoch: step_down.epoch,
            hold_off_ms: u64::try_from(hold_off.as_millis()).unwrap_or(u64::MAX),
            outcome,
        };
        self.push(Output::Admin { call: step_down.call, answer: Ok(answer) });
    }
}
