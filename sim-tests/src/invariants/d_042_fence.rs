//! D-42: after a fence was accepted, the lease is confirmed by a write of the same epoch that lands later.
//! Before that nothing is served, and the fence is not applied to the local store.
//!
//! Not checked: that the write was *sent* later too.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::ids::{Epoch, Position, ProcessId};
use dexzd_core::lease::LeaseState;
use dexzd_core::log::{Entry, EntryBody};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct FenceIsConfirmed {
    fences: BTreeMap<Epoch, Position>,
    confirmed: BTreeSet<Epoch>,
    /// Who took an epoch.
    holders: BTreeMap<Epoch, ProcessId>,
    /// Who each process is in this life: a write may land after the life that sent it.
    lives: BTreeMap<ProcessNumber, ProcessId>,
}

impl Watcher for FenceIsConfirmed {
    fn rule(&self) -> &'static str {
        "D-42 (the lease is confirmed after the fence)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EntryDurable { position, entry } => {
                if let Ok((entry, _)) = Entry::decode(entry, NODE)
                    && matches!(entry.body, EntryBody::Fence { .. })
                {
                    self.fences.insert(entry.origin.epoch, *position);
                }
            }
            Seen::Started { process, process_id } => {
                self.lives.insert(*process, *process_id);
            }
            Seen::LeaseLanded { record, .. } if record.state == LeaseState::Held => {
                self.holders.insert(record.epoch, record.holder);
                if self.fences.contains_key(&record.epoch) {
                    self.confirmed.insert(record.epoch);
                }
            }
            Seen::GateOpen { process, epoch, until } if *until > at && !self.confirmed.contains(epoch) => {
                return Err(format!(
                    "p{process} serves epoch {epoch}, and its lease was not confirmed after its fence"
                ));
            }
            Seen::Applied { process, end, .. } => {
                let fence = self.fences.iter().find(|(_, position)| **position == end.position);
                if let Some((epoch, _)) = fence
                    // To whoever comes later it is an ordinary entry.
                    && self.holders.get(epoch).is_some_and(|holder| self.lives.get(process) == Some(holder))
                    && !self.confirmed.contains(epoch)
                {
                    return Err(format!(
                        "p{process} applied the fence of epoch {epoch} before the lease was confirmed"
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
    use dexzd_io_sim::watch::{Seen, Watcher};

    use super::FenceIsConfirmed;
    use dexzd_core::lease::LeaseState;

    use crate::invariants::made_up::{Log, lease};

    const SERVES: Seen<'static> = Seen::GateOpen { process: 0, epoch: Epoch(1), until: 10 };

    fn story(confirmed: bool) -> Result<(), String> {
        let mut watcher = FenceIsConfirmed::default();
        let record = lease(0, 1, LeaseState::Held);
        watcher.observe(0, &Seen::LeaseLanded { process: 0, record: &record })?;
        let mut log = Log::default();
        log.fence(0, 1);
        let (position, entry) = &log.entries[0];
        watcher.observe(1, &Seen::EntryDurable { position: *position, entry })?;
        if confirmed {
            watcher.observe(2, &Seen::LeaseLanded { process: 0, record: &record })?;
        }
        watcher.observe(3, &SERVES)
    }

    #[test]
    fn a_confirmed_epoch_may_serve() {
        assert_eq!(story(true), Ok(()));
    }

    #[test]
    fn one_without_a_confirmation_may_not() {
        assert!(story(false).is_err());
    }
}
