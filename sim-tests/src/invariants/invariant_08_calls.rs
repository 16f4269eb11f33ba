//! Invariant 8, the calls: one epoch is stepped down at most once, only with the right precondition and only
//! while its gate is open; each call is answered once, and what an answer says about the lease is true
//! (HA-88, HA-101, D-20, D-38). A connection of an earlier role accepts none (HA-109, D-16).
//!
//! Not checked: how long a call takes (scripts do that), calls whose process was killed.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::ids::{CallId, Epoch, ProcessId};
use dexzd_core::lease::LeaseState;
use dexzd_core::node::{ActiveProcess, AdminAnswer, AdminError, AdminRequest, StepDownOutcome};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct StepDowns {
    /// Calls that wait for an answer.
    calls: BTreeMap<(ProcessNumber, CallId), Asked>,
    /// As `node` knows them: a doubt that only the gate has found yet changes nothing, for a step down is safe
    /// in doubt as well (D-20).
    gates: BTreeMap<ProcessNumber, (Epoch, TrueTime)>,
    in_doubt: BTreeSet<ProcessNumber>,
    accepted: BTreeSet<Epoch>,
    /// Epoch and holder of every held lease that landed.
    held: BTreeSet<(Epoch, ProcessId)>,
    lease_was_lost: bool,
}

/// One open call.
#[derive(Debug)]
struct Asked {
    request: AdminRequest,
    /// The epoch whose gate was open when it came.
    open: Option<Epoch>,
    on_old_connection: bool,
}

impl StepDowns {
    fn accepted(&mut self, process: ProcessNumber, epoch: Epoch) -> Result<(), String> {
        let expects = |asked: &Asked| match &asked.request {
            AdminRequest::Describe => false,
            AdminRequest::StepDown { node_id, epoch: expected } => &**node_id == NODE && *expected == epoch,
        };
        let calls = || self.calls.iter().filter(|((whom, _), asked)| *whom == process && expects(asked));
        if calls().next().is_none() {
            return Err(format!("p{process} steps down from epoch {epoch}, and no open call expects that"));
        }
        let Some((_, asked)) = calls().find(|(_, asked)| !asked.on_old_connection) else {
            return Err(format!("p{process} steps down by a call on a connection of an earlier role"));
        };
        // Judged when the call was handled: what follows from it may be done after a freeze.
        if asked.open != Some(epoch) {
            return Err(format!("p{process} steps down while the gate of epoch {epoch} is shut"));
        }
        if !self.accepted.insert(epoch) {
            return Err(format!("epoch {epoch} is stepped down for the second time, by p{process}"));
        }
        Ok(())
    }

    fn must_have_held(&self, what: &str, active: ActiveProcess) -> Result<(), String> {
        if self.held.contains(&(active.epoch, active.holder)) {
            return Ok(());
        }
        Err(format!("an answer says {what} in epoch {}, but no such lease was ever written", active.epoch))
    }

    fn answered(&self, answer: &Result<AdminAnswer, AdminError>) -> Result<(), String> {
        let Ok(AdminAnswer::SteppedDown { released_epoch, outcome, .. }) = answer else {
            return Ok(());
        };
        let (what, active) = match outcome {
            StepDownOutcome::TakenOver { active: Some(active) } => ("taken over", *active),
            StepDownOutcome::TakenBack { active } => ("taken back", *active),
            StepDownOutcome::TakenOver { active: None } | StepDownOutcome::Unknown { .. } => return Ok(()),
        };
        if active.epoch <= *released_epoch && !self.lease_was_lost {
            return Err(format!("an answer names epoch {} after {released_epoch}", active.epoch));
        }
        self.must_have_held(what, active)
    }
}

impl Watcher for StepDowns {
    fn rule(&self) -> &'static str {
        "invariant 8 (step-down calls)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::CallAsked { process, call, request, on_old_connection } => {
                let open = self.gates.get(process).filter(|(_, until)| *until > at).map(|(epoch, _)| *epoch);
                let open = open.filter(|_| !self.in_doubt.contains(process));
                let (request, on_old_connection) = ((*request).clone(), *on_old_connection);
                self.calls.insert((*process, *call), Asked { request, open, on_old_connection });
            }
            Seen::CallAnswered { process, call, answer } => {
                if self.calls.remove(&(*process, *call)).is_none() {
                    return Err(format!("p{process} answers {call:?}, which is not open"));
                }
                return self.answered(answer);
            }
            Seen::SteppingDown { process, epoch } => return self.accepted(*process, *epoch),
            Seen::GateOpen { process, epoch, until } => {
                // In the gate's own doubt nobody sees how far `node` has moved its end meanwhile.
                let until = if *until > at { *until } else { TrueTime::MAX };
                self.gates.insert(*process, (*epoch, until));
            }
            Seen::Doubt { process, began: true } => {
                self.in_doubt.insert(*process);
            }
            Seen::Doubt { process, began: false } => {
                self.in_doubt.remove(process);
            }
            Seen::GateShut { process, .. } => {
                self.gates.remove(process);
                self.in_doubt.remove(process);
            }
            // An old state may have been brought back, and be what was seen.
            Seen::LeaseLost => self.lease_was_lost = true,
            Seen::LeaseLanded { record, .. } if record.state == LeaseState::Held => {
                self.held.insert((record.epoch, record.holder));
            }
            Seen::Died { process, reason } => {
                self.gates.remove(process);
                self.in_doubt.remove(process);
                let open = self.calls.keys().filter(|(whom, _)| whom == process).count();
                self.calls.retain(|(whom, _), _| whom != process);
                if reason.is_some() && open > 0 {
                    return Err(format!("p{process} ended in order and left {open} calls without an answer"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::StepDowns;
    use crate::invariants::made_up::{open, tell};
    use dexzd_core::ids::{CallId, Epoch, Name, ProcessId};
    use dexzd_core::node::{ActiveProcess, AdminAnswer, AdminRequest, StepDownOutcome};
    use dexzd_core::stop::StopReason;
    use dexzd_io_sim::watch::Seen;

    fn request(epoch: u64) -> AdminRequest {
        AdminRequest::StepDown { node_id: Name::from("node"), epoch: Epoch(epoch) }
    }

    fn asked(call: u64, request: &AdminRequest) -> Seen<'_> {
        Seen::CallAsked { process: 0, call: CallId(call), request, on_old_connection: false }
    }

    const ACCEPTED: Seen<'static> = Seen::SteppingDown { process: 0, epoch: Epoch(7) };

    #[test]
    fn the_right_call_at_an_open_gate_is_fine() {
        let right = request(7);
        let story = [(0, open(0, 7, 100)), (5, asked(1, &right)), (5, ACCEPTED)];
        assert_eq!(tell(StepDowns::default(), &story), Ok(()));
    }

    #[test]
    fn a_wrong_precondition_a_shut_gate_and_a_second_time_are_seen() {
        let (right, wrong) = (request(7), request(6));
        let story = [(0, open(0, 7, 100)), (5, asked(1, &wrong)), (5, ACCEPTED)];
        assert!(tell(StepDowns::default(), &story).is_err());
        let story = [(0, open(0, 7, 4)), (5, asked(1, &right)), (5, ACCEPTED)];
        assert!(tell(StepDowns::default(), &story).is_err());
        let story = [(0, open(0, 7, 100)), (5, asked(1, &right)), (5, ACCEPTED), (6, ACCEPTED)];
        assert!(tell(StepDowns::default(), &story).is_err());
    }

    #[test]
    fn an_answer_that_names_a_lease_nobody_wrote_is_seen() {
        let right = request(7);
        let active = ActiveProcess { epoch: Epoch(8), holder: ProcessId(2) };
        let answer = Ok(AdminAnswer::SteppedDown {
            node_id: Name::from("node"),
            released_epoch: Epoch(7),
            hold_off_ms: 5_000,
            outcome: StepDownOutcome::TakenOver { active: Some(active) },
        });
        let answered = Seen::CallAnswered { process: 0, call: CallId(1), answer: &answer };
        assert!(tell(StepDowns::default(), &[(0, asked(1, &right)), (1, answered)]).is_err());
    }

    #[test]
    fn a_call_that_an_orderly_end_leaves_open_is_seen() {
        let right = request(7);
        let died = |reason| Seen::Died { process: 0, reason };
        let story = [(0, asked(1, &right)), (1, died(Some(StopReason::Shutdown)))];
        assert!(tell(StepDowns::default(), &story).is_err());
        assert_eq!(tell(StepDowns::default(), &[(0, asked(1, &right)), (1, died(None))]), Ok(()));
    }
}
