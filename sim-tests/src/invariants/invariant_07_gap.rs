//! Invariant 7, its bound: once faults have stopped, nobody serves for at most so long after the last lease
//! write that landed, and after the end of the last gate.
//!
//! Not checked: what comes before the end of faults, and each part of the bound on its own (scripts do that).

use std::collections::BTreeMap;

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Debug)]
pub struct GapIsBounded {
    longest_gap: TrueTime,
    healed: bool,
    /// The newest of: the end of faults, a lease write that landed, the end of a gate.
    since: TrueTime,
    open: BTreeMap<ProcessNumber, TrueTime>,
}

impl GapIsBounded {
    /// The bound comes from the configuration of the run.
    #[must_use]
    pub const fn new(longest_gap: TrueTime) -> Self {
        Self { longest_gap, healed: false, since: 0, open: BTreeMap::new() }
    }

    fn ended(&mut self, at: TrueTime, process: ProcessNumber) {
        if let Some(until) = self.open.remove(&process) {
            self.since = self.since.max(until.min(at));
        }
    }
}

impl Watcher for GapIsBounded {
    fn rule(&self) -> &'static str {
        "invariant 7 (gap)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        if self.healed && at > self.since + self.longest_gap {
            let ended = self.open.values().max().copied().unwrap_or_default();
            if ended < at && at > self.since.max(ended) + self.longest_gap {
                return Err(format!(
                    "nobody serves for {} s, and no fault strikes",
                    (at - self.since) / 1_000_000
                ));
            }
        }
        match seen {
            Seen::GateOpen { process, until, .. } => {
                self.open.insert(*process, *until);
            }
            Seen::GateShut { process, .. } | Seen::Died { process, .. } => self.ended(at, *process),
            Seen::LeaseLanded { .. } => self.since = at,
            Seen::Healed => {
                self.healed = true;
                self.since = self.since.max(at);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::GapIsBounded;
    use crate::invariants::made_up::{open, tell};
    use dexzd_io_sim::watch::Seen;

    const LOOK: Seen<'static> = Seen::Terminated { process: 1 };

    #[test]
    fn review_12_4_a_gap_within_the_bound_is_fine() {
        let story = [(0, open(0, 1, 10)), (5, Seen::Healed), (110, open(1, 2, 200)), (190, LOOK)];
        assert_eq!(tell(GapIsBounded::new(100), &story), Ok(()));
    }

    #[test]
    fn review_12_4_a_longer_one_is_seen() {
        let story = [(0, open(0, 1, 10)), (5, Seen::Healed), (111, LOOK)];
        assert_eq!(
            tell(GapIsBounded::new(100), &story),
            Err("nobody serves for 0 s, and no fault strikes".to_owned())
        );
    }

    #[test]
    fn faults_may_last_for_ever() {
        assert_eq!(tell(GapIsBounded::new(100), &[(0, open(0, 1, 10)), (1_000, LOOK)]), Ok(()));
    }
}
