//! D-8 and HA-28 (review 2.3, 2.4, 2.13): a holder that reads one of its own renewals in the lease knows from then on
//! that it has landed, whatever became of its answer.
//!
//! Not checked: reads that left before the newest renewal was known (what they show may be older), and those
//! whose answer came behind the cut-off (HA-25).

use std::collections::BTreeMap;

use dexzd_core::ids::{Epoch, Name, RequestId};
use dexzd_core::lease::{CUT_OFF_MARGIN, LeaseRecord, LeaseState};
use dexzd_core::node::Role;
use dexzd_core::stop::StopReason;
use dexzd_core::store::ReadOutcome;
use dexzd_core::time::micros;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct AdoptsWhatLanded {
    holders: BTreeMap<ProcessNumber, Held>,
}

#[derive(Debug)]
struct Held {
    epoch: Epoch,
    /// The newest write that it knows of, since when, and how long it counts; by its own clock.
    nonce: u64,
    known_us: u64,
    until_us: u64,
    /// Reads under way, and when each was decided on.
    asked: Vec<(RequestId, u64)>,
    /// A newer write that it was shown, and when.
    shown: Option<(u64, u64)>,
}

impl Held {
    /// By then what it was shown has told in what it does. Its tenure may end with the very read.
    fn must_know(&self, process: ProcessNumber, instant_us: u64) -> Result<(), String> {
        match self.shown {
            Some((nonce, shown_us)) if shown_us < instant_us => Err(format!(
                "p{process} read its own renewal {nonce} of epoch {} in time, and still counts on {}",
                self.epoch, self.nonce
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn shown(&mut self, request: RequestId, outcome: &ReadOutcome, instant_us: u64) {
        let Some(index) = self.asked.iter().position(|(it, _)| *it == request) else {
            return;
        };
        let (_, asked_us) = self.asked.swap_remove(index);
        let ReadOutcome::Found { body, .. } = outcome else {
            return;
        };
        let Ok(record) = LeaseRecord::decode(body, &Name::from(NODE)) else {
            return;
        };
        let is_newer = record.epoch == self.epoch
            && record.state == LeaseState::Held
            && record.nonce.counter > self.nonce;
        let is_in_time = instant_us + micros(CUT_OFF_MARGIN) < self.until_us;
        if is_newer && is_in_time && asked_us > self.known_us {
            self.shown = Some((record.nonce.counter, instant_us));
        }
    }
}

impl Watcher for AdoptsWhatLanded {
    fn rule(&self) -> &'static str {
        "D-8 (what landed is adopted)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Prolonged { process, epoch, nonce, instant_us, until_us } => {
                let held = Held {
                    epoch: *epoch,
                    nonce: *nonce,
                    known_us: *instant_us,
                    until_us: *until_us,
                    asked: Vec::new(),
                    shown: None,
                };
                self.holders.insert(*process, held);
            }
            Seen::LeaseAsked { process, request, instant_us } => {
                if let Some(held) = self.holders.get_mut(process) {
                    held.must_know(*process, *instant_us)?;
                    held.asked.push((*request, *instant_us));
                }
            }
            Seen::LeaseShown { process, request, outcome, instant_us } => {
                if let Some(held) = self.holders.get_mut(process) {
                    held.must_know(*process, *instant_us)?;
                    held.shown(*request, outcome, *instant_us);
                }
            }
            Seen::RenewalSent { process, instant_us, .. } => {
                if let Some(held) = self.holders.get(process) {
                    held.must_know(*process, *instant_us)?;
                }
            }
            Seen::Died { process, reason } => {
                if let Some(held) = self.holders.remove(process)
                    && *reason == Some(StopReason::LeaseExpired)
                {
                    held.must_know(*process, u64::MAX)?;
                }
            }
            // What a release or a candidate reads is no renewal any more, and a role may end with this very read.
            Seen::RoleChanged {
                process,
                role: Role::Waiting | Role::Withdrawing | Role::Releasing | Role::HoldOff,
                ..
            } => {
                self.holders.remove(process);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::AdoptsWhatLanded;
    use crate::invariants::made_up::{lease, prolonged, tell};
    use dexzd_core::ids::{Blob, Epoch, RequestId};
    use dexzd_core::lease::LeaseState;
    use dexzd_core::store::{ReadOutcome, Version};
    use dexzd_io_sim::watch::Seen;

    const RENEWAL: Seen<'static> = Seen::RenewalSent { process: 0, epoch: Epoch(7), nonce: 9, instant_us: 7 };

    const LATER: Seen<'static> =
        Seen::RenewalSent { process: 0, epoch: Epoch(7), nonce: 9, instant_us: 9_999_999 };

    fn asked(instant_us: u64) -> Seen<'static> {
        Seen::LeaseAsked { process: 0, request: RequestId(4), instant_us }
    }

    fn shown(outcome: &ReadOutcome, instant_us: u64) -> Seen<'_> {
        Seen::LeaseShown { process: 0, request: RequestId(4), outcome, instant_us }
    }

    fn own(counter: u64) -> ReadOutcome {
        let mut record = lease(0, 7, LeaseState::Held);
        record.nonce.counter = counter;
        ReadOutcome::Found { version: Version(Blob::default()), body: record.encode(), stamp_ms: None }
    }

    #[test]
    fn d_008_an_adopted_renewal_and_one_that_is_known_are_fine() {
        let (old, new) = (own(1), own(2));
        let story = [
            (0, prolonged(1, 0, 10_000_000)),
            (1, asked(5)),
            (2, shown(&old, 6)),
            (3, RENEWAL),
            (4, RENEWAL),
        ];
        assert_eq!(tell(AdoptsWhatLanded::default(), &story), Ok(()));
        let story = [
            (0, prolonged(1, 0, 10_000_000)),
            (1, asked(5)),
            (2, shown(&new, 6)),
            (2, prolonged(2, 6, 11_000_000)),
            (4, RENEWAL),
        ];
        assert_eq!(tell(AdoptsWhatLanded::default(), &story), Ok(()));
    }

    #[test]
    fn d_008_a_renewal_that_was_read_and_not_adopted_is_seen() {
        let new = own(2);
        let story = [(0, prolonged(1, 0, 10_000_000)), (1, asked(5)), (2, shown(&new, 6)), (3, RENEWAL)];
        let sentence = "p0 read its own renewal 2 of epoch 7 in time, and still counts on 1".to_owned();
        assert_eq!(tell(AdoptsWhatLanded::default(), &story), Err(sentence));
    }

    #[test]
    fn d_008_what_is_read_behind_the_cut_off_or_was_asked_before_is_no_matter() {
        let new = own(2);
        for (asked_us, shown_us) in [(5, 9_900_000), (0, 6)] {
            let story = [
                (0, prolonged(1, 0, 10_000_000)),
                (1, asked(asked_us)),
                (2, shown(&new, shown_us)),
                (3, LATER),
            ];
            assert_eq!(tell(AdoptsWhatLanded::default(), &story), Ok(()));
        }
    }
}
