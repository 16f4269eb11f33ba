//! concepts.md 1.13: the next attempt of a method call gets the last checkpoint that the engine heard from the one
//! before, or what that one was given.
//!
//! Not checked: checkpoints across epochs, which a crash may lose (FD-12).

use std::collections::BTreeMap;

use dexzd_core::engine::{Input, Method, Output, ServerFrame, Task, Value, WorkerFrame};
use dexzd_core::ids::{HandoutId, RunId, StepExecutionId, StreamId};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct CheckpointsStay {
    calls: BTreeMap<(RunId, StepExecutionId, Method), Attempt>,
    running: BTreeMap<HandoutId, (RunId, StepExecutionId, Method)>,
}

#[derive(Debug)]
struct Attempt {
    handout: HandoutId,
    stream: StreamId,
    checkpoint: Option<Value>,
}

impl CheckpointsStay {
    fn task(&mut self, stream: StreamId, task: &Task) -> Result<(), String> {
        let call = (task.run_id, task.step.clone(), task.method);
        let attempt = Attempt { handout: task.handout, stream, checkpoint: task.checkpoint.clone() };
        self.running.insert(task.handout, call.clone());
        match self.calls.insert(call, attempt) {
            Some(last) if last.handout.epoch == task.handout.epoch && last.checkpoint != task.checkpoint => {
                Err(format!(
                    "attempt {} of {} {} begins with the checkpoint {:?}, and the last one was {:?}",
                    task.attempt, task.flow_id, task.step, task.checkpoint, last.checkpoint
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn heartbeat(&mut self, stream: StreamId, handout: HandoutId, checkpoint: &Option<Value>) {
        if let Some(attempt) = self.running.get(&handout).and_then(|call| self.calls.get_mut(call))
            && attempt.handout == handout
            && attempt.stream == stream
        {
            attempt.checkpoint.clone_from(checkpoint);
        }
    }

    fn stream_ended(&mut self, stream: StreamId) {
        let calls = &self.calls;
        self.running.retain(|_, call| calls.get(call).is_some_and(|attempt| attempt.stream != stream));
    }
}

impl Watcher for CheckpointsStay {
    fn rule(&self) -> &'static str {
        "concepts.md 1.13 (checkpoints)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EngineSaid { output, .. } => match output {
                Output::Send { stream, frame: ServerFrame::Task(task), .. } => self.task(*stream, task)?,
                Output::Send {
                    frame: ServerFrame::Cancel { handout, .. } | ServerFrame::Settled { handout, .. },
                    ..
                }
                | Output::Withdraw { handout, .. } => {
                    self.running.remove(handout);
                }
                Output::CloseStream { stream } => self.stream_ended(*stream),
                _ => {}
            },
            Seen::EngineTold { input, .. } => match input {
                Input::Frame { stream, frame: WorkerFrame::Heartbeat { handout, checkpoint } } => {
                    self.heartbeat(*stream, *handout, checkpoint);
                }
                Input::Frame {
                    frame: WorkerFrame::Decline { handout } | WorkerFrame::Return { handout },
                    ..
                } => {
                    self.running.remove(handout);
                }
                Input::StreamClosed { stream } => self.stream_ended(*stream),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dexzd_core::engine::{Input, Output, ServerFrame, Task, Value, WorkerFrame};
    use dexzd_core::ids::{Name, Position, StreamId};
    use dexzd_io_sim::watch::Seen;

    use super::CheckpointsStay;
    use crate::invariants::made_up::{task, tell};

    fn story(second: Option<Value>) -> Result<(), String> {
        let send = |task: Task| Output::Send {
            stream: StreamId(1),
            after: Position(1),
            frame: ServerFrame::Task(task.into()),
        };
        let first = send(task(1, 1, 1));
        let frame = WorkerFrame::Heartbeat { handout: task(1, 1, 1).handout, checkpoint: Some(half()) };
        let input = Input::Frame { stream: StreamId(1), frame };
        let next = send(Task { checkpoint: second, ..task(2, 1, 2) });
        tell(
            CheckpointsStay::default(),
            &[
                (1, Seen::EngineSaid { process: 0, output: &first }),
                (2, Seen::EngineTold { process: 0, input: &input }),
                (3, Seen::EngineSaid { process: 0, output: &next }),
            ],
        )
    }

    fn half() -> Value {
        Value { encoding: Name::new("text"), data: b"half".to_vec().into() }
    }

    #[test]
    fn the_last_one_is_given() {
        assert_eq!(story(Some(half())), Ok(()));
    }

    #[test]
    fn a_lost_one_is_seen() {
        assert!(story(None).is_err());
    }
}
