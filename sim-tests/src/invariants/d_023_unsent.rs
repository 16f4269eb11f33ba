//! D-23 and HA-97: an attempt whose frame never left is no attempt: its number comes again, in the same epoch, and
//! in the next one if the commit drain was done.
//!
//! Not checked: what a process that crashed could not record any more.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::engine::{Method, NodeReport, Output, ServerFrame};
use dexzd_core::ids::{HandoutId, RunId, StepExecutionId};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct UnsentIsFree {
    last: BTreeMap<(RunId, StepExecutionId, Method), (u32, HandoutId)>,
    withdrawn: BTreeMap<ProcessNumber, BTreeSet<HandoutId>>,
    /// Those whose record is durable.
    recorded: BTreeSet<HandoutId>,
}

impl Watcher for UnsentIsFree {
    fn rule(&self) -> &'static str {
        "D-23 (what never left is no attempt)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EngineSaid { process, output } => match output {
                Output::Withdraw { handout, .. } => {
                    self.withdrawn.entry(*process).or_default().insert(*handout);
                }
                Output::Node(NodeReport::Committed) => {
                    self.recorded.extend(self.withdrawn.remove(process).unwrap_or_default());
                }
                Output::Send { frame: ServerFrame::Task(task), .. } => {
                    let call = (task.run_id, task.step.clone(), task.method);
                    if let Some((attempt, handout)) = self.last.insert(call, (task.attempt, task.handout)) {
                        let here = self.withdrawn.get(process).is_some_and(|it| it.contains(&handout));
                        if (here || self.recorded.contains(&handout)) && task.attempt != attempt {
                            return Err(format!(
                                "attempt {attempt} of {} {} never left, and attempt {} follows",
                                task.flow_id, task.step, task.attempt
                            ));
                        }
                    }
                }
                _ => {}
            },
            Seen::Died { process, .. } => {
                self.withdrawn.remove(process);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dexzd_core::engine::{NodeReport, Output, ServerFrame};
    use dexzd_core::ids::{Epoch, HandoutId, Position, StreamId};
    use dexzd_io_sim::watch::Seen;

    use super::UnsentIsFree;
    use crate::invariants::made_up::{task, tell};

    fn story(second: u32) -> Result<(), String> {
        let send = |attempt, epoch, counter| Output::Send {
            stream: StreamId(1),
            after: Position(1),
            frame: ServerFrame::Task(task(attempt, epoch, counter).into()),
        };
        let handout = HandoutId { epoch: Epoch(1), counter: 1 };
        let outputs = [
            send(1, 1, 1),
            Output::Withdraw { stream: StreamId(1), handout },
            Output::Node(NodeReport::Committed),
            send(second, 2, 1),
        ];
        let seen: Vec<_> =
            outputs.iter().map(|output| (1, Seen::EngineSaid { process: 0, output })).collect();
        tell(UnsentIsFree::default(), &seen)
    }

    #[test]
    fn its_number_comes_again() {
        assert_eq!(story(1), Ok(()));
    }

    #[test]
    fn a_charged_one_is_seen() {
        assert!(story(2).is_err());
    }
}
