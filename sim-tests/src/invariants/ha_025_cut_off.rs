//! HA-25 and D-8: from 100 ms before the end of its period on, a holder whose renewal is not known to have
//! landed has stopped: nothing that it learns later prolongs that epoch. All by its own clock, so exactly.
//!
//! Not checked: that it stops at that moment and not earlier (`AdoptsWhatLanded` and the scripts do).

use std::collections::BTreeMap;

use dexzd_core::ids::Epoch;
use dexzd_core::lease::CUT_OFF_MARGIN;
use dexzd_core::node::Role;
use dexzd_core::time::micros;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct CutOffIsFinal {
    /// What each process holds, and until when by its own clock.
    held: BTreeMap<ProcessNumber, (Epoch, u64)>,
}

impl Watcher for CutOffIsFinal {
    fn rule(&self) -> &'static str {
        "HA-25 (cut-off)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Prolonged { process, epoch, instant_us, until_us, .. } => {
                if let Some((of, ends_us)) = self.held.insert(*process, (*epoch, *until_us))
                    && of == *epoch
                    && instant_us + micros(CUT_OFF_MARGIN) >= ends_us
                {
                    return Err(format!(
                        "p{process} prolonged epoch {epoch} {} us before its end, behind the cut-off",
                        i128::from(ends_us) - i128::from(*instant_us)
                    ));
                }
            }
            // An old lease that was put back may bring the same epoch again.
            Seen::RoleChanged {
                process,
                role: Role::Waiting | Role::Withdrawing | Role::Releasing | Role::HoldOff,
                ..
            }
            | Seen::Died { process, .. } => {
                self.held.remove(process);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::CutOffIsFinal;
    use crate::invariants::made_up::{prolonged, tell};

    #[test]
    fn ha_025_a_renewal_in_time_is_right() {
        let story = [(0, prolonged(1, 0, 10_000_000)), (1, prolonged(2, 9_899_999, 13_000_000))];
        assert_eq!(tell(CutOffIsFinal::default(), &story), Ok(()));
    }

    #[test]
    fn ha_025_a_renewal_behind_the_cut_off_is_seen() {
        let story = [(0, prolonged(1, 0, 10_000_000)), (1, prolonged(2, 9_900_000, 13_000_000))];
        let sentence = "p0 prolonged epoch 7 100000 us before its end, behind the cut-off".to_owned();
        assert_eq!(tell(CutOffIsFinal::default(), &story), Err(sentence));
    }
}
