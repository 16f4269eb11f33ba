//! Invariant 7, its first half: when faults have stopped for long enough, a process serves, and stays.
//!
//! Not checked here: that every Flow makes progress (see `NothingIsStranded`), and the bound for streams.

use std::collections::BTreeMap;

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Debug)]
pub struct SomebodyServes {
    /// From here on nobody stops any more, and at the end somebody serves.
    recovered_by: TrueTime,
    open: BTreeMap<ProcessNumber, TrueTime>,
}

impl SomebodyServes {
    /// The bound comes from the configuration of the run.
    #[must_use]
    pub const fn new(recovered_by: TrueTime) -> Self {
        Self { recovered_by, open: BTreeMap::new() }
    }
}

impl Watcher for SomebodyServes {
    fn rule(&self) -> &'static str {
        "invariant 7 (liveness)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::GateOpen { process, until, .. } => {
                self.open.insert(*process, *until);
            }
            Seen::GateShut { process, .. } => {
                self.open.remove(process);
            }
            Seen::Died { process, reason } => {
                self.open.remove(process);
                if let Some(reason) = reason
                    && at > self.recovered_by
                {
                    return Err(format!("p{process} stopped although all was well: {reason}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, at: TrueTime) -> Result<(), String> {
        if at < self.recovered_by || self.open.values().any(|until| *until > at) {
            return Ok(());
        }
        Err("faults stopped long ago, and nobody serves".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::SomebodyServes;
    use crate::invariants::made_up::{open, tell};
    use dexzd_core::stop::StopReason;
    use dexzd_io_sim::watch::Seen;

    #[test]
    fn an_open_gate_at_the_end_is_enough() {
        let story = [(0, open(0, 1, 10)), (9, open(0, 1, 20)), (15, Seen::Healed)];
        assert_eq!(tell(SomebodyServes::new(12), &story), Ok(()));
    }

    #[test]
    fn an_expired_gate_is_not() {
        let story = [(0, open(0, 1, 10)), (15, Seen::Healed)];
        assert_eq!(
            tell(SomebodyServes::new(12), &story),
            Err("faults stopped long ago, and nobody serves".to_owned())
        );
    }

    #[test]
    fn a_stop_without_a_cause_is_seen() {
        let died = Seen::Died { process: 0, reason: Some(StopReason::LeaseExpired) };
        assert_eq!(
            tell(SomebodyServes::new(12), &[(13, died)]),
            Err("p0 stopped although all was well: the lease expired: no renewal succeeded in time"
                .to_owned())
        );
    }
}
