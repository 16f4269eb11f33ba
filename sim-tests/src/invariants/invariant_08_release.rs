//! Invariant 8: one epoch is stepped down at most once; from the sending of its release on, nobody serves
//! under it.
//!
//! Where the lease object was lost before an epoch came to its fence, nothing anywhere tells of that epoch,
//! and it may come again: it never served.
//!
//! And what `AdminService` says about a step down is what happened (D-38).
//!
//! Not checked: that a call is answered at all (see the simulated operators).

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::ids::{Epoch, ProcessId};
use dexzd_core::log::Entry;
use dexzd_core::node::{AdminAnswer, AdminRequest, StepDownOutcome};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct ReleasedIsOver {
    released: BTreeMap<Epoch, ProcessNumber>,
    fenced: BTreeSet<Epoch>,
    lease_was_lost: bool,
    stepped_down: BTreeMap<Epoch, ProcessNumber>,
    /// Who held which epoch, of every lease write that landed.
    holders: BTreeMap<Epoch, BTreeSet<ProcessId>>,
}

impl ReleasedIsOver {
    fn must_not_be_released(&self, process: ProcessNumber, epoch: Epoch, what: &str) -> Result<(), String> {
        match self.released.get(&epoch) {
            Some(by) if self.lease_was_lost && *by != process => Ok(()),
            Some(by) => Err(format!("p{process} {what} under epoch {epoch}, which p{by} had released")),
            None => Ok(()),
        }
    }
}

impl ReleasedIsOver {
    fn must_be_true(
        &self,
        process: ProcessNumber,
        process_id: ProcessId,
        request: &AdminRequest,
        answer: &AdminAnswer,
    ) -> Result<(), String> {
        let held = |epoch: &Epoch, holder: &ProcessId| {
            self.holders.get(epoch).is_some_and(|holders| holders.contains(holder))
        };
        let (right, what) = match (request, answer) {
            (AdminRequest::Describe, AdminAnswer::Described { epoch, holder, .. }) => {
                (*holder == process_id && held(epoch, holder), "described")
            }
            (
                AdminRequest::StepDown { epoch, .. },
                AdminAnswer::SteppedDown { released_epoch, outcome, .. },
            ) => {
                let right = released_epoch == epoch
                    && self.released.contains_key(epoch)
                    && match outcome {
                        StepDownOutcome::TakenOver { active } => active.is_none_or(|active| {
                            active.holder != process_id && held(&active.epoch, &active.holder)
                        }),
                        StepDownOutcome::TakenBack { active } => {
                            active.holder == process_id
                                && active.epoch > *epoch
                                && held(&active.epoch, &active.holder)
                        }
                        StepDownOutcome::Unknown { .. } => true,
                    };
                (right, "stepped down")
            }
            _ => (false, "answered"),
        };
        if right { Ok(()) } else { Err(format!("p{process} {what} to {request:?}: {answer:?}")) }
    }
}

impl Watcher for ReleasedIsOver {
    fn rule(&self) -> &'static str {
        "invariant 8 (release)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EntryDurable { entry, .. } => {
                if let Ok((entry, _)) = Entry::decode(entry, NODE) {
                    self.fenced.insert(entry.origin.epoch);
                }
            }
            Seen::Fenced { epoch, .. } => {
                self.fenced.insert(*epoch);
            }
            // Until its holder has read the log, an epoch that is over may be renewed (D-55).
            Seen::RenewalSent { .. } if self.lease_was_lost => {}
            Seen::LeaseLanded { record, .. } => {
                self.holders.entry(record.epoch).or_default().insert(record.holder);
            }
            Seen::SteppingDown { process, epoch } => {
                self.must_not_be_released(*process, *epoch, "stepped down")?;
                if let Some(by) = self.stepped_down.insert(*epoch, *process) {
                    return Err(format!("epoch {epoch} was stepped down twice, by p{by} and by p{process}"));
                }
            }
            Seen::AdminAnswered { process, process_id, request, answer: Ok(answer) } => {
                self.must_be_true(*process, *process_id, request, answer)?;
            }
            Seen::LeaseLost => {
                self.lease_was_lost = true;
                let fenced = &self.fenced;
                self.released.retain(|epoch, _| fenced.contains(epoch));
            }
            Seen::Died { process, .. } if self.lease_was_lost => {
                let fenced = &self.fenced;
                self.released.retain(|epoch, by| by != process || fenced.contains(epoch));
            }
            // An old lease that was put back can be taken and released again; it never comes to serving.
            Seen::ReleaseSent { process, epoch } if self.lease_was_lost => {
                self.released.insert(*epoch, *process);
            }
            Seen::ReleaseSent { process, epoch } => {
                self.must_not_be_released(*process, *epoch, "sent a release")?;
                self.released.insert(*epoch, *process);
            }
            Seen::GateOpen { process, epoch, until } if *until > at => {
                self.must_not_be_released(*process, *epoch, "opened its gate")?;
            }
            Seen::RenewalSent { process, epoch, .. } => {
                self.must_not_be_released(*process, *epoch, "sent a renewal")?;
            }
            Seen::AnswerLeft { process, epoch, .. } => {
                self.must_not_be_released(*process, *epoch, "sent an answer")?;
            }
            Seen::TaskLeft { process, epoch, .. } => {
                self.must_not_be_released(*process, *epoch, "handed out a task")?;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ReleasedIsOver;
    use crate::invariants::made_up::{open, tell};
    use dexzd_core::ids::Epoch;
    use dexzd_io_sim::watch::Seen;

    const RELEASE: Seen<'static> = Seen::ReleaseSent { process: 0, epoch: Epoch(7) };

    #[test]
    fn another_epoch_may_serve() {
        let story = [(0, open(0, 7, 10)), (1, RELEASE), (2, open(0, 8, 12))];
        assert_eq!(tell(ReleasedIsOver::default(), &story), Ok(()));
    }

    #[test]
    fn a_renewal_after_the_release_is_seen() {
        let renewal = Seen::RenewalSent { process: 0, epoch: Epoch(7), nonce: 3, instant_us: 2 };
        assert_eq!(
            tell(ReleasedIsOver::default(), &[(1, RELEASE), (2, renewal)]),
            Err("p0 sent a renewal under epoch 7, which p0 had released".to_owned())
        );
    }

    #[test]
    fn a_second_release_is_seen() {
        assert_eq!(
            tell(ReleasedIsOver::default(), &[(1, RELEASE), (2, RELEASE)]),
            Err("p0 sent a release under epoch 7, which p0 had released".to_owned())
        );
    }
    #[test]
    fn an_epoch_that_is_stepped_down_twice_is_seen() {
        let down = |process| Seen::SteppingDown { process, epoch: Epoch(7) };
        let twice = "epoch 7 was stepped down twice, by p0 and by p1".to_owned();
        assert_eq!(tell(ReleasedIsOver::default(), &[(1, down(0)), (2, down(1))]), Err(twice));
    }
}
