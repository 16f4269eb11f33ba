//! Invariant 8: one epoch is stepped down at most once; from the sending of its release on, nobody serves
//! under it.
//!
//! Where the lease object was lost before an epoch came to its fence, nothing anywhere tells of that epoch,
//! and it may come again: it never served.
//!
//! Not checked: step-down calls, which this storey of the simulator does not make.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::ids::Epoch;
use dexzd_core::log::Entry;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct ReleasedIsOver {
    released: BTreeMap<Epoch, ProcessNumber>,
    fenced: BTreeSet<Epoch>,
    lease_was_lost: bool,
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
            Seen::LeaseLost => {
                self.lease_was_lost = true;
                let fenced = &self.fenced;
                self.released.retain(|epoch, _| fenced.contains(epoch));
            }
            Seen::Died { process, .. } if self.lease_was_lost => {
                let fenced = &self.fenced;
                self.released.retain(|epoch, by| by != process || fenced.contains(epoch));
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
}
