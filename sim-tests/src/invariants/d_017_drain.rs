//! D-17 and HA-89: from the order to drain on, an engine hands no task out.
//!
//! Not checked: that it goes on serving calls.

use std::collections::BTreeSet;

use dexzd_core::engine::{Input, NodeOrder, Output, ServerFrame};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct DrainHandsNothingOut {
    draining: BTreeSet<ProcessNumber>,
}

impl Watcher for DrainHandsNothingOut {
    fn rule(&self) -> &'static str {
        "D-17 (a drain hands nothing out)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EngineTold { process, input: Input::Node(NodeOrder::Drain) } => {
                self.draining.insert(*process);
            }
            Seen::EngineTold { process, input: Input::Node(NodeOrder::Serve) }
            | Seen::Died { process, .. } => {
                self.draining.remove(process);
            }
            Seen::EngineSaid { process, output: Output::Send { frame: ServerFrame::Task(task), .. } }
                if self.draining.contains(process) =>
            {
                return Err(format!("p{process} handed out {} of {} in its drain", task.step, task.flow_id));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dexzd_core::engine::{Input, NodeOrder, Output, ServerFrame};
    use dexzd_core::ids::{Position, StreamId};
    use dexzd_io_sim::watch::Seen;

    use super::DrainHandsNothingOut;
    use crate::invariants::made_up::{task, tell};

    fn story(order: NodeOrder) -> Result<(), String> {
        let input = Input::Node(order);
        let frame = ServerFrame::Task(task(1, 1, 1).into());
        let output = Output::Send { stream: StreamId(1), after: Position(1), frame };
        tell(
            DrainHandsNothingOut::default(),
            &[
                (1, Seen::EngineTold { process: 0, input: &input }),
                (2, Seen::EngineSaid { process: 0, output: &output }),
            ],
        )
    }

    #[test]
    fn whoever_serves_hands_out() {
        assert_eq!(story(NodeOrder::Serve), Ok(()));
    }

    #[test]
    fn whoever_drains_does_not() {
        assert!(story(NodeOrder::Drain).is_err());
    }
}
