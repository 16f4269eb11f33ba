//! HA-28, D-9, D-10 (lessons A1 and A5): a process gives its lease up as taken only if another one has
//! written the lease or the log since. A condition lost to one's own write, or to a 409, is no loss.
//!
//! Not checked: processes that have not opened a gate yet; runs in which the lease object is lost or
//! written by hand.

use std::collections::BTreeMap;

use dexzd_core::ids::Epoch;
use dexzd_core::log::Entry;
use dexzd_core::stop::StopReason;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct LostForAReason {
    /// Under which epoch each process serves.
    serves: BTreeMap<ProcessNumber, Epoch>,
    /// The highest epoch in the lease or the log.
    highest: Epoch,
    by_hand: bool,
}

impl Watcher for LostForAReason {
    fn rule(&self) -> &'static str {
        "HA-28 (a loss has a reason)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::LeaseLanded { record, .. } => self.highest = self.highest.max(record.epoch),
            Seen::EntryDurable { entry, .. } => {
                if let Ok((entry, _)) = Entry::decode(entry, NODE) {
                    self.highest = self.highest.max(entry.origin.epoch);
                }
            }
            Seen::LeaseLost => self.by_hand = true,
            Seen::GateOpen { process, epoch, .. } => {
                self.serves.insert(*process, *epoch);
            }
            Seen::Died { process, reason } => {
                let served = self.serves.remove(process);
                if *reason == Some(StopReason::LeaseTaken)
                    && !self.by_hand
                    && let Some(epoch) = served.filter(|epoch| *epoch >= self.highest)
                {
                    return Err(format!(
                        "p{process} took epoch {epoch} for lost, which nobody else has taken"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dexzd_core::ids::Epoch;
    use dexzd_core::stop::StopReason;
    use dexzd_io_sim::watch::{Seen, Watcher};

    use super::LostForAReason;
    use dexzd_core::lease::LeaseState;

    use crate::invariants::made_up::lease;

    fn serves(epoch: u64) -> Seen<'static> {
        Seen::GateOpen { process: 0, epoch: Epoch(epoch), until: 10 }
    }

    const TAKEN: Seen<'static> = Seen::Died { process: 0, reason: Some(StopReason::LeaseTaken) };

    #[test]
    fn a_lease_that_another_has_taken_is_lost() {
        let mut watcher = LostForAReason::default();
        assert_eq!(watcher.observe(0, &serves(1)), Ok(()));
        let record = lease(1, 2, LeaseState::Held);
        assert_eq!(watcher.observe(0, &Seen::LeaseLanded { process: 1, record: &record }), Ok(()));
        assert_eq!(watcher.observe(0, &TAKEN), Ok(()));
    }

    #[test]
    fn a_lease_that_nobody_has_taken_is_not() {
        let mut watcher = LostForAReason::default();
        let record = lease(0, 1, LeaseState::Held);
        assert_eq!(watcher.observe(0, &Seen::LeaseLanded { process: 0, record: &record }), Ok(()));
        assert_eq!(watcher.observe(0, &serves(1)), Ok(()));
        assert!(watcher.observe(0, &TAKEN).is_err());
    }
}
