//! Invariant 3: no two gates are open at the same true instant; nothing public leaves through a shut one.
//!
//! Not checked: that an answer's gate was open after its state was read (the engine answers in one go, so
//! the look at the hand-over is later than the read). Runs whose clocks leave the conditions of the
//! invariant must not use this check.

use std::collections::BTreeMap;

use dexzd_core::ids::Epoch;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct Gates {
    open: BTreeMap<ProcessNumber, (Epoch, TrueTime)>,
}

impl Gates {
    fn must_be_open(
        &self,
        at: TrueTime,
        process: ProcessNumber,
        epoch: Epoch,
        what: &str,
    ) -> Result<(), String> {
        match self.open.get(&process) {
            Some((open, until)) if *open == epoch && *until > at => Ok(()),
            Some(_) | None => Err(format!("p{process} sent {what} while the gate of epoch {epoch} was shut")),
        }
    }
}

impl Watcher for Gates {
    fn rule(&self) -> &'static str {
        "invariant 3 (gates)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::GateOpen { process, epoch, until } => {
                if *until > at
                    && let Some((other, (theirs, _))) =
                        self.open.iter().find(|(other, (_, until))| *other != process && *until > at)
                {
                    return Err(format!(
                        "p{process} opened the gate of epoch {epoch} while p{other} held that of epoch {theirs} open"
                    ));
                }
                self.open.insert(*process, (*epoch, *until));
            }
            Seen::GateShut { process, .. } | Seen::Died { process, .. } => {
                self.open.remove(process);
            }
            Seen::AnswerLeft { process, epoch, .. } => {
                self.must_be_open(at, *process, *epoch, "an answer")?
            }
            Seen::TaskLeft { process, epoch, .. } => self.must_be_open(at, *process, *epoch, "a task")?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Gates;
    use crate::invariants::made_up::{open, tell};
    use dexzd_core::ids::Epoch;
    use dexzd_io_sim::watch::Seen;

    #[test]
    fn one_gate_after_the_other_is_fine() {
        let story = [(0, open(0, 1, 10)), (5, open(0, 1, 15)), (15, open(1, 2, 30))];
        assert_eq!(tell(Gates::default(), &story), Ok(()));
    }

    #[test]
    fn a_gate_that_was_shut_early_makes_room() {
        let shut = Seen::GateShut { process: 0, epoch: Epoch(1) };
        let story = [(0, open(0, 1, 10)), (3, shut), (4, open(1, 2, 30))];
        assert_eq!(tell(Gates::default(), &story), Ok(()));
    }

    #[test]
    fn two_open_gates_are_seen() {
        let story = [(0, open(0, 7, 10)), (9, open(1, 8, 30))];
        assert_eq!(
            tell(Gates::default(), &story),
            Err("p1 opened the gate of epoch 8 while p0 held that of epoch 7 open".to_owned())
        );
    }
}
