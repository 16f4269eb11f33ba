//! HA-25 and D-8: from 100 ms before the end of its period on, a holder whose renewal is not known to have
//! landed has stopped: nothing that it learns later prolongs that epoch.
//!
//! Not checked: that it stops at that moment and not earlier; and the last 10 ms of the margin, so that
//! clocks within the bounds of 1.7 need no exact account.

use std::collections::BTreeMap;

use dexzd_core::ids::Epoch;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};
use dexzd_io_sim::{MILLISECOND, TrueTime};

/// The margin before the end of the period, less what clocks may be wrong by.
const MARGIN: TrueTime = 85 * MILLISECOND;

/// See the module.
#[derive(Default, Debug)]
pub struct CutOffIsFinal {
    open: BTreeMap<ProcessNumber, (Epoch, TrueTime)>,
}

impl Watcher for CutOffIsFinal {
    fn rule(&self) -> &'static str {
        "HA-25 (cut-off)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Prolonged { process, epoch, decided_at, until } => {
                if let Some((of, ended)) = self.open.get(process)
                    && of == epoch
                    && decided_at + MARGIN > *ended
                    && until > ended
                {
                    return Err(format!(
                        "p{process} prolonged epoch {epoch} {} us before its end, behind the cut-off",
                        i128::from(*ended) - i128::from(*decided_at)
                    ));
                }
                self.open.insert(*process, (*epoch, *until));
            }
            Seen::Died { process, .. } => {
                self.open.remove(process);
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

    use super::CutOffIsFinal;

    fn open(decided_at: u64, until: u64) -> Seen<'static> {
        Seen::Prolonged { process: 0, epoch: Epoch(1), decided_at, until }
    }

    #[test]
    fn a_renewal_in_time_is_right() {
        let mut watcher = CutOffIsFinal::default();
        assert_eq!(watcher.observe(0, &open(0, 10_000_000)), Ok(()));
        assert_eq!(watcher.observe(9_890_000, &open(9_890_000, 13_000_000)), Ok(()));
    }

    #[test]
    fn a_renewal_behind_the_cut_off_is_seen() {
        let mut watcher = CutOffIsFinal::default();
        assert_eq!(watcher.observe(0, &open(0, 10_000_000)), Ok(()));
        assert!(watcher.observe(9_950_000, &open(9_950_000, 13_000_000)).is_err());
    }
}
