//! `describe` and `stepDown` in every role (HA-88, HA-109, HA-113, D-16, D-17, D-20).

use super::admin::{AdminAnswer, AdminError, AdminReason, AdminRequest};
use super::connections::Period;
use super::io::Output;
use super::machine::{Lease, Node};
use super::role::Role;
use crate::ids::{CallId, Epoch, Name};
use crate::lease::Look;
use crate::mutant::{self, Mutant};

impl Node {
    pub(super) fn administer(&mut self, look: Look, call: CallId, opened_in: Period, request: &AdminRequest) {
        match request {
            AdminRequest::Describe => {
                let answer = self.describe(opened_in);
                self.push(Output::Admin { call, answer });
            }
            AdminRequest::StepDown { node_id, epoch } => match self.refusal(opened_in, node_id, *epoch) {
                Some(error) => self.push(Output::Admin { call, answer: Err(error) }),
                None => self.begin_step_down(look, call, *epoch),
            },
        }
    }

    fn describe(&self, opened_in: Period) -> Result<AdminAnswer, AdminError> {
        if self.is_stepping_down() {
            return Err(AdminError::failed_precondition(AdminReason::SteppingDown));
        }
        let reason = match self.role {
            Role::Waiting | Role::Withdrawing | Role::HoldOff => AdminReason::Standby,
            Role::Opening
            | Role::Outwaiting
            | Role::Raising
            | Role::Confirming
            | Role::Recovering
            | Role::Abandoning => AdminReason::TakingOver,
            Role::Releasing | Role::Stopped => AdminReason::LeaseEnded,
            Role::Active | Role::Draining | Role::Interrupting | Role::Committing | Role::Closing => {
                return self.describe_serving(opened_in);
            }
        };
        Err(AdminError::unavailable(reason))
    }

    /// Also in the drain of a shutdown (D-20).
    fn describe_serving(&self, opened_in: Period) -> Result<AdminAnswer, AdminError> {
        if opened_in != self.period {
            return Err(AdminError::unavailable(AdminReason::OldConnection));
        }
        let epoch = self.proven_epoch()?;
        let (node_id, holder) = (self.config.node_id.clone(), self.config.process_id);
        Ok(AdminAnswer::Described { node_id, epoch, holder })
    }

    /// Why a step down is not accepted; a refusal changes nothing.
    fn refusal(&self, opened_in: Period, node_id: &Name, epoch: Epoch) -> Option<AdminError> {
        let failed = AdminError::failed_precondition;
        if self.is_stepping_down() {
            return Some(failed(AdminReason::SteppingDown));
        }
        match self.role {
            Role::Waiting | Role::HoldOff => Some(failed(AdminReason::Standby)),
            Role::Opening | Role::Outwaiting | Role::Raising | Role::Confirming | Role::Recovering => {
                Some(failed(AdminReason::TakingOver))
            }
            Role::Stopped => Some(AdminError::unavailable(AdminReason::LeaseEnded)),
            Role::Releasing if self.reason.is_some() => {
                Some(AdminError::unavailable(AdminReason::LeaseEnded))
            }
            Role::Withdrawing
            | Role::Draining
            | Role::Interrupting
            | Role::Committing
            | Role::Closing
            | Role::Abandoning
            | Role::Releasing => Some(failed(AdminReason::ShuttingDown)),
            Role::Active if opened_in != self.period && !mutant::is(Mutant::OldConnectionAccepted) => {
                Some(failed(AdminReason::OldConnection))
            }
            Role::Active => match self.proven_epoch() {
                Err(error) => Some(error),
                Ok(_) if *node_id != self.config.node_id => Some(failed(AdminReason::OtherNode)),
                Ok(present) if epoch != present && !mutant::is(Mutant::AnyEpochStepsDown) => {
                    Some(failed(AdminReason::OtherEpoch { present }))
                }
                Ok(_) => None,
            },
        }
    }

    /// The present tenure, as long as its gate is open (D-20).
    fn proven_epoch(&self) -> Result<Epoch, AdminError> {
        match &self.lease {
            Lease::Holder(holder) if !holder.is_in_doubt() => Ok(holder.tenure().record.epoch),
            Lease::Holder(_) => Err(AdminError::unavailable(AdminReason::LeaseInDoubt)),
            Lease::Candidate(_) | Lease::Release(_) | Lease::Nobody => {
                Err(AdminError::unavailable(AdminReason::LeaseEnded))
            }
        }
    }

    /// Until its call is answered and its hold-off is over (HA-113).
    fn is_stepping_down(&self) -> bool {
        self.step_down.is_some() || self.role == Role::HoldOff
    }
}
