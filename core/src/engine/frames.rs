//! What Workers say, and when they fall silent.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::attempt::FailedAttempt;
use super::context::{RunningTask, Staged};
use super::deadlines::Deadline;
use super::frame::{Hello, ServerFrame, WorkerFrame};
use super::io::{AttemptOutcome, EngineEvent, Output};
use super::limits;
use super::model::{Decision, Durability, Effects, Value, Wait, failure_type};
use super::record::StepPhase;
use super::turn::millis;
use super::validate;
use super::{Engine, state::StateRead};
use crate::ids::{HandoutId, Name, Position, StreamId};
use crate::mutant::{self, Mutant};

/// What a Worker's method returned.
pub(super) enum Outcome {
    WaitFor(Wait, Effects),
    Execute(Decision, Effects),
}

impl<S: StateRead> Engine<S> {
    pub(super) fn frame(&mut self, id: StreamId, frame: WorkerFrame) {
        let now = self.cx.now.instant;
        match (self.cx.streams.get_mut(id), frame) {
            (None, WorkerFrame::Hello(hello)) => self.hello(id, hello),
            (None, _) => self.refuse(id, "the first frame of a stream must be a hello"),
            (Some(_), WorkerFrame::Hello(_)) => self.refuse(id, "hello: a stream says hello once"),
            (Some(stream), frame) => {
                stream.heard = now;
                self.known_frame(id, frame);
            }
        }
    }

    fn known_frame(&mut self, id: StreamId, frame: WorkerFrame) {
        // What breaks a rule costs the attempt that it speaks of, and nothing else.
        let broken = validate::validate_frame(&frame).err().map(|error| Name::from(error.to_string()));
        match frame {
            WorkerFrame::Hello(_) | WorkerFrame::Pong => {}
            WorkerFrame::StopTaking => self.cx.streams.stop_taking(id),
            WorkerFrame::Heartbeat { handout, checkpoint } => self.heartbeat(id, handout, checkpoint, broken),
            WorkerFrame::WaitForDone { handout, wait, effects } => {
                self.result(id, handout, Outcome::WaitFor(wait, effects), broken);
            }
            WorkerFrame::ExecuteDone { handout, decision, effects } => {
                self.result(id, handout, Outcome::Execute(decision, effects), broken);
            }
            WorkerFrame::Failed { handout, failure, non_retryable, retry_after_ms } => {
                let Some(task) = self.current_task(id, handout) else {
                    return self.drop_late(id, handout);
                };
                let failed = match broken {
                    Some(rule) => FailedAttempt::by_server(failure_type::INVALID_RESULT, &rule),
                    None => {
                        let failure = validate::cut_failure(failure);
                        FailedAttempt { failure, non_retryable, retry_after_ms }
                    }
                };
                self.settle_failed(id, handout, &task, failed);
            }
            WorkerFrame::Decline { handout } => {
                if let Some(task) = self.current_task(id, handout) {
                    self.cx.streams.declined(id, &task.key);
                    self.take_back(&task);
                }
            }
            WorkerFrame::Return { handout } => {
                if let Some(task) = self.current_task(id, handout) {
                    self.take_back(&task);
                }
            }
        }
    }

    fn hello(&mut self, id: StreamId, hello: Hello) {
        if let Err(error) = validate::validate_hello(&hello) {
            return self.refuse(id, &error.to_string());
        }
        let now = self.cx.now.instant;
        self.cx.streams.open(id, &hello, now);
        self.cx.deadlines.set(now.saturating_add(millis(limits::PING_INTERVAL_MS)), Deadline::Stream(id));
        self.cx.event(EngineEvent::WorkerConnected { worker: hello.worker, slots: hello.slots });
    }

    /// Ends a stream that broke the protocol, and says why.
    fn refuse(&mut self, id: StreamId, message: &str) {
        let frame = ServerFrame::Refused { message: message.into() };
        self.cx.outputs.push_back(Output::Send { stream: id, after: Position(0), frame });
        self.cx.outputs.push_back(Output::CloseStream { stream: id });
        self.stream_closed(id, "its Worker broke the protocol of the stream");
    }

    /// The task, if this is the stream that carries it and it is still current (D-44).
    fn current_task(&self, id: StreamId, handout: HandoutId) -> Option<RunningTask> {
        self.cx
            .running
            .get(&handout)
            .filter(|task| task.stream == id || mutant::is(Mutant::ResultFromAnyStream))
            .cloned()
    }

    fn heartbeat(
        &mut self,
        id: StreamId,
        handout: HandoutId,
        checkpoint: Option<Value>,
        broken: Option<Name>,
    ) {
        let now = self.cx.now.instant;
        let Some(task) = self.cx.running.get_mut(&handout).filter(|task| task.stream == id) else {
            return;
        };
        task.heard = now;
        let task = task.clone();
        if let Some(rule) = broken {
            let failed = FailedAttempt::by_server(failure_type::INVALID_RESULT, &rule);
            self.cx.tell_timed_out(&task, handout);
            return self.settle_failed(id, handout, &task, failed);
        }
        let Ok(turn) = self.turn(task.run_id) else {
            return;
        };
        // A heartbeat without a value clears the stored one (concepts.md 1.13); most change nothing.
        if turn.run.steps.get(&task.step).is_some_and(|step| step.call.checkpoint != checkpoint)
            && let Some(step) = turn.run.steps.get_mut(&task.step)
        {
            step.call.checkpoint = checkpoint;
        }
    }

    fn result(&mut self, id: StreamId, handout: HandoutId, outcome: Outcome, broken: Option<Name>) {
        let Some(task) = self.current_task(id, handout) else {
            return self.drop_late(id, handout);
        };
        let Ok(mut turn) = self.turn(task.run_id) else {
            return;
        };
        let Some(step) = turn.run.steps.get(&task.step) else {
            return;
        };
        let durability = step.call.durability;
        let refused = broken.or_else(|| turn.check_outcome(&outcome, step.call.method).err());
        if let Some(rule) = refused {
            let failed = FailedAttempt::by_server(failure_type::INVALID_RESULT, &rule);
            return self.settle_failed(id, handout, &task, failed);
        }
        if turn.run.head().closing.is_some() {
            turn.attempt_failed(&task.step, FailedAttempt::not_completed("the Flow is closing"));
            return self.settled(id, handout, false, durability);
        }
        if let Some(StepPhase::Running { work, .. }) =
            turn.run.steps.get(&task.step).map(|step| step.phase.clone())
        {
            turn.cx.end_task(handout);
            match outcome {
                Outcome::WaitFor(wait, effects) => {
                    turn.cx.dequeue(turn.run, work, &task.step);
                    turn.wait_for_done(&task.step, wait, effects);
                }
                Outcome::Execute(decision, effects) => turn.execute_done(&task.step, decision, effects),
            }
            turn.cx.attempt_ended(&task.step.step_type, AttemptOutcome::Completed);
        }
        self.settled(id, handout, true, durability);
    }

    fn settle_failed(&mut self, id: StreamId, handout: HandoutId, task: &RunningTask, failed: FailedAttempt) {
        if let Ok(mut turn) = self.turn(task.run_id) {
            turn.attempt_failed(&task.step, failed);
        }
        self.settled(id, handout, true, Durability::Sync);
    }

    /// A SYNC result is acknowledged when it is durable; an ASYNC one at once (D-48).
    fn settled(&mut self, stream: StreamId, handout: HandoutId, accepted: bool, durability: Durability) {
        let frame = ServerFrame::Settled { handout, accepted };
        self.cx.staged.push(match durability {
            Durability::Sync if !mutant::is(Mutant::ResultAcknowledgedEarly) => {
                Staged::Committed { stream, frame }
            }
            Durability::Sync | Durability::Async => Staged::Following { stream, after: Position(0), frame },
        });
    }

    fn drop_late(&mut self, stream: StreamId, handout: HandoutId) {
        self.cx.attempt_ended(&Name::default(), AttemptOutcome::Late);
        let frame = ServerFrame::Settled { handout, accepted: false };
        self.cx.staged.push(Staged::Following { stream, after: Position(0), frame });
    }

    fn take_back(&mut self, task: &RunningTask) {
        if let Ok(mut turn) = self.turn(task.run_id) {
            turn.hand_back(&task.step);
        }
    }

    /// A stream is gone: its attempts failed, except those whose frame never left (D-23).
    pub(super) fn stream_closed(&mut self, id: StreamId, why: &str) {
        let Some(stream) = self.cx.streams.close(id) else {
            return;
        };
        let mut lost_attempts = 0;
        for handout in stream.tasks {
            let Some(task) = self.cx.running.get(&handout).cloned() else {
                continue;
            };
            let never_left = task.leaves_after > self.appender.durable();
            if never_left {
                // Where the engine ends the stream, the frame still waits, and must not leave before the end.
                self.cx.outputs.push_back(Output::Withdraw { stream: id, handout });
            }
            let Ok(mut turn) = self.turn(task.run_id) else {
                continue;
            };
            if never_left {
                turn.unsent(&task.step);
            } else {
                lost_attempts += 1;
                turn.attempt_failed(&task.step, FailedAttempt::not_completed(why));
            }
            self.collect(task.run_id);
        }
        self.cx.event(EngineEvent::WorkerDisconnected { worker: stream.worker, lost_attempts });
    }

    /// A deadline in memory has come.
    pub(super) fn deadline(&mut self, deadline: Deadline) {
        match deadline {
            Deadline::Attempt(handout) => {
                let failed =
                    FailedAttempt::by_server(failure_type::METHOD_TIMEOUT, "the method timeout ran out");
                self.attempt_timed_out(handout, failed);
            }
            Deadline::Heartbeat(handout) => self.heartbeat_due(handout),
            Deadline::Stream(id) => self.stream_due(id),
            Deadline::Poll(call) => {
                if let Some(poll) = self.cx.polls.remove(call) {
                    self.cx.reply(call, Some(poll.run_id), Err(super::call::CallError::LongPollTimeout));
                }
            }
        }
    }

    fn attempt_timed_out(&mut self, handout: HandoutId, failed: FailedAttempt) {
        let Some(task) = self.cx.running.get(&handout).cloned() else {
            return;
        };
        self.cx.tell_timed_out(&task, handout);
        if let Ok(mut turn) = self.turn(task.run_id) {
            turn.attempt_failed(&task.step, failed);
            self.collect(task.run_id);
        }
    }

    fn heartbeat_due(&mut self, handout: HandoutId) {
        let Some(task) = self.cx.running.get(&handout) else {
            return;
        };
        let Some(timeout) = task.heartbeat_timeout else {
            return;
        };
        let due = task.heard.saturating_add(timeout);
        if due > self.cx.now.instant {
            self.cx.deadlines.set(due, Deadline::Heartbeat(handout));
            return;
        }
        let failed =
            FailedAttempt::by_server(failure_type::HEARTBEAT_TIMEOUT, "no heartbeat arrived in time");
        self.attempt_timed_out(handout, failed);
    }

    fn stream_due(&mut self, id: StreamId) {
        let now = self.cx.now.instant;
        let Some(stream) = self.cx.streams.get_mut(id) else {
            return;
        };
        let dead = stream.heard.saturating_add(millis(limits::PING_TIMEOUT_MS));
        let quiet = stream.heard.saturating_add(millis(limits::PING_INTERVAL_MS));
        if now >= dead {
            self.cx.outputs.push_back(Output::CloseStream { stream: id });
            self.stream_closed(id, "its Worker fell silent");
        } else if now < quiet {
            self.cx.deadlines.set(quiet, Deadline::Stream(id));
        } else {
            let frame = ServerFrame::Ping;
            self.cx.outputs.push_back(Output::Send { stream: id, after: Position(0), frame });
            let next = now.saturating_add(millis(limits::PING_INTERVAL_MS));
            self.cx.deadlines.set(next.min(dead), Deadline::Stream(id));
        }
    }

    pub(super) fn all_streams(&self) -> Vec<StreamId> {
        self.cx.streams.ids().collect()
    }
}
