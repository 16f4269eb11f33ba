//! HA-13 and HA-17: every acquisition raises the epoch, one process has an epoch to itself, and a held
//! lease is taken no earlier than its duration and a second after its last write landed.
//!
//! When the lease object was deleted by hand, a late create may bring an old epoch back for a moment: then
//! only the fences in the log count, which never repeat an epoch.
//!
//! Not checked: takeovers under `dev.lock`, which need no wait.

use std::collections::BTreeMap;

use dexzd_core::ids::{Epoch, ProcessId};
use dexzd_core::lease::{LeaseRecord, LeaseState};
use dexzd_core::time::micros;
use dexzd_io_sim::watch::{Seen, Watcher};
use dexzd_io_sim::{SECOND, TrueTime};

/// See the module.
#[derive(Debug)]
pub struct EpochsRise {
    /// Clocks may be so much faster than true time.
    drift_ppb: u64,
    fenced: Epoch,
    owners: BTreeMap<Epoch, ProcessId>,
    last: Option<(TrueTime, LeaseRecord)>,
}

impl EpochsRise {
    /// For clocks within this drift.
    #[must_use]
    pub const fn new(drift_ppb: u64) -> Self {
        Self { drift_ppb, fenced: Epoch(0), owners: BTreeMap::new(), last: None }
    }

    fn shortest_wait(&self, record: &LeaseRecord) -> TrueTime {
        // Not `takeover()`: a checker does not ask the code that it checks.
        let wait = micros(record.duration.period()) + SECOND;
        wait - wait / 1_000 * (self.drift_ppb / 1_000) / 1_000 - wait / 1_000_000
    }
}

impl Watcher for EpochsRise {
    fn rule(&self) -> &'static str {
        "HA-13 and HA-17 (epochs)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        let (process, record) = match seen {
            Seen::LeaseLanded { process, record } => (process, record),
            Seen::Fenced { process, epoch } => {
                if *epoch <= self.fenced {
                    return Err(format!("p{process} fenced epoch {epoch} after epoch {}", self.fenced));
                }
                self.fenced = *epoch;
                return Ok(());
            }
            Seen::LeaseLost => {
                self.owners.clear();
                self.last = None;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let epoch = record.epoch;
        if let Some((highest, _)) = self.owners.last_key_value()
            && *highest > epoch
        {
            return Err(format!("p{process} wrote epoch {epoch} after epoch {highest} had been written"));
        }
        let owner = *self.owners.entry(epoch).or_insert(record.holder);
        if owner != record.holder {
            return Err(format!("epoch {epoch} was taken by two processes, p{process} the second"));
        }
        if let Some((landed, before)) = &self.last
            && before.state == LeaseState::Held
            && before.holder != record.holder
            && at < landed + self.shortest_wait(before)
        {
            return Err(format!(
                "p{process} took epoch {epoch} {} us after a write of epoch {} had landed",
                at - landed,
                before.epoch
            ));
        }
        self.last = Some((at, (*record).clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::EpochsRise;
    use crate::invariants::made_up::{lease, tell};
    use dexzd_core::lease::{LeaseRecord, LeaseState};
    use dexzd_io_sim::watch::Seen;

    fn landed(process: u8, record: &LeaseRecord) -> Seen<'_> {
        Seen::LeaseLanded { process, record }
    }

    #[test]
    fn a_takeover_after_the_wait_is_fine() {
        let (first, second) = (lease(0, 1, LeaseState::Held), lease(1, 2, LeaseState::Held));
        let story = [(0, landed(0, &first)), (11_000_000, landed(1, &second))];
        assert_eq!(tell(EpochsRise::new(0), &story), Ok(()));
    }

    #[test]
    fn a_takeover_before_it_is_seen() {
        let (first, second) = (lease(0, 1, LeaseState::Held), lease(1, 2, LeaseState::Held));
        let story = [(0, landed(0, &first)), (10_900_000, landed(1, &second))];
        assert_eq!(
            tell(EpochsRise::new(0), &story),
            Err("p1 took epoch 2 10900000 us after a write of epoch 1 had landed".to_owned())
        );
    }

    #[test]
    fn a_shared_or_repeated_epoch_is_seen() {
        let (first, second) = (lease(0, 2, LeaseState::Free), lease(1, 2, LeaseState::Held));
        assert!(tell(EpochsRise::new(0), &[(0, landed(0, &first)), (1, landed(1, &second))]).is_err());
        let (first, second) = (lease(0, 2, LeaseState::Free), lease(1, 1, LeaseState::Held));
        assert!(tell(EpochsRise::new(0), &[(0, landed(0, &first)), (1, landed(1, &second))]).is_err());
    }
}
