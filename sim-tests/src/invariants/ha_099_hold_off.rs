//! HA-99, HA-104 and HA-107: after a step down a process competes for the lease only when its hold-off is over
//! and the store of the ended tenure is closed.
//!
//! Not checked: when a process whose store stays open ends (a frozen one is late; a script checks the time).

use std::collections::BTreeMap;

use dexzd_core::node::Role;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Debug)]
pub struct HoldsOff {
    /// Of each process, in microseconds by its own clock.
    hold_offs_us: Vec<u64>,
    processes: BTreeMap<ProcessNumber, SteppedDown>,
}

#[derive(Default, Debug)]
struct SteppedDown {
    store_is_open: bool,
    /// By its own clock.
    held_off_since: Option<u64>,
}

impl HoldsOff {
    /// With the hold-off of each process, in microseconds.
    #[must_use]
    pub fn new(hold_offs_us: Vec<u64>) -> Self {
        Self { hold_offs_us, processes: BTreeMap::new() }
    }
}

impl Watcher for HoldsOff {
    fn rule(&self) -> &'static str {
        "HA-99 and HA-104 (hold-off)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::RoleChanged { process, role, instant_us, .. } => {
                let it = self.processes.entry(*process).or_default();
                match role {
                    Role::Opening => *it = SteppedDown { store_is_open: true, ..SteppedDown::default() },
                    Role::HoldOff => it.held_off_since = Some(*instant_us),
                    _ => {}
                }
            }
            Seen::StoreClosed { process } => {
                self.processes.entry(*process).or_default().store_is_open = false;
            }
            Seen::TakeoverSent { process, epoch, instant_us, .. } => {
                let Some(SteppedDown { held_off_since: Some(since), store_is_open, .. }) =
                    self.processes.get(process)
                else {
                    return Ok(());
                };
                if *store_is_open {
                    return Err(format!("p{process} takes epoch {epoch} with the old store still open"));
                }
                if *instant_us < since + self.hold_offs_us[usize::from(*process)] {
                    return Err(format!(
                        "p{process} takes epoch {epoch} {} us after it stepped down",
                        instant_us.saturating_sub(*since)
                    ));
                }
            }
            Seen::Died { process, .. } => {
                self.processes.remove(process);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::HoldsOff;
    use crate::invariants::made_up::{takeover, tell};
    use dexzd_core::node::Role;
    use dexzd_io_sim::watch::Seen;

    const CLOSED: Seen<'static> = Seen::StoreClosed { process: 0 };

    fn takes(instant_us: u64) -> Seen<'static> {
        takeover(8, 1, None, instant_us)
    }

    fn role(role: Role) -> Seen<'static> {
        Seen::RoleChanged { process: 0, role, epoch: None, instant_us: 9 }
    }

    fn watcher() -> HoldsOff {
        HoldsOff::new(vec![5_000_000])
    }

    #[test]
    fn after_both_it_may_compete() {
        let story =
            [(0, role(Role::Opening)), (9, role(Role::HoldOff)), (10, CLOSED), (5_000_009, takes(5_000_009))];
        assert_eq!(tell(watcher(), &story), Ok(()));
    }

    #[test]
    fn too_early_and_with_an_open_store_are_seen() {
        let story =
            [(0, role(Role::Opening)), (9, role(Role::HoldOff)), (10, CLOSED), (4_999_999, takes(4_999_999))];
        assert!(tell(watcher(), &story).is_err());
        let story = [(0, role(Role::Opening)), (9, role(Role::HoldOff)), (9_000_000, takes(9_000_000))];
        assert!(tell(watcher(), &story).is_err());
    }
}
