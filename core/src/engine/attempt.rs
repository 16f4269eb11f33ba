//! Attempts: handing a method call out, and what becomes of it.
//!
//! A result counts only from the current hand-out, on the stream that carried it (D-44). Everything
//! else is late and dropped whole.

use super::close::Close;
use super::context::{Context, RunningTask, Staged, task_key};
use super::deadlines::Deadline;
use super::frame::{CancelReason, ServerFrame, Snapshot, Task};
use super::history::{AfterFailure, EventKind};
use super::io::{AttemptOutcome, EngineEvent};
use super::keys::TimerKind;
use super::limits;
use super::model::{
    AttemptProgress, Durability, ErrorCategory, Failure, FlowError, Lineage, Method, RecoveryInfo,
    WaitForFailurePolicy, failure_type,
};
use super::record::{StepPhase, StepRecord};
use super::retry::{EffectiveRetry, RetryVerdict};
use super::turn::{Turn, method_options, millis, recovery_movement, step_context};
use crate::ids::{HandoutId, Name, StepExecutionId, StreamId};
use crate::mutant::{self, Mutant};

/// A failed attempt.
#[derive(Clone, Debug)]
pub(super) struct FailedAttempt {
    pub(super) failure: Failure,
    pub(super) non_retryable: bool,
    pub(super) retry_after_ms: Option<u64>,
}

impl FailedAttempt {
    /// A failure that the server itself states.
    pub(super) fn by_server(error_type: &str, detail: &str) -> Self {
        let failure = Failure { error_type: error_type.into(), detail: detail.into(), stack: None };
        Self { failure, non_retryable: false, retry_after_ms: None }
    }

    /// An attempt reached a Worker and its outcome is unknown (HA-20).
    pub(super) fn not_completed(detail: &str) -> Self {
        Self::by_server(failure_type::NOT_COMPLETED, detail)
    }
}

impl Turn<'_> {
    /// Hands the Step's queued method call to a Worker: start record and task in one change.
    pub(super) fn hand_out(&mut self, id: &StepExecutionId, stream: StreamId) {
        let Some(StepPhase::Queued(work)) = self.run.steps.get(id).map(|step| step.phase.clone()) else {
            return;
        };
        let Some(worker) = self.cx.streams.get(stream).map(|stream| stream.worker.clone()) else {
            return;
        };
        let mut handout = self.cx.new_handout();
        let snapshot = self.first_snapshot(id);
        let time = self.cx.time;
        let input = self.run.input(id);
        let Some(step) = self.run.steps.get_mut(id) else {
            return;
        };
        if mutant::is(Mutant::HandoutByAttempt) {
            let name = alloc::format!("{}{id}{:?}", self.run.id, step.call.method);
            let hash = name.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
            handout.counter = hash.wrapping_add(step.call.attempt.into());
        }
        step.call.first_handout.get_or_insert(time);
        step.phase = StepPhase::Running { work, handout, worker };
        step.since = time;
        let timeout = millis(method_options(step).timeout_ms.unwrap_or(limits::METHOD_TIMEOUT_MS));
        let heartbeat_timeout = step.options.heartbeat_timeout_ms.map(millis);
        let at_once = step.call.durability == Durability::Async;
        let task = Task {
            handout,
            flow_type: self.run.base.flow_type.clone(),
            flow_id: self.run.base.flow_id.clone(),
            run_id: self.run.id,
            step: id.clone(),
            method: step.call.method,
            attempt: step.call.attempt,
            deadline: time.saturating_add(timeout),
            heartbeat_timeout_ms: step.options.heartbeat_timeout_ms,
            input,
            snapshot,
            locals: step.locals.clone(),
            conditions: step.conditions.clone(),
            recovery: step.recovery_info.clone(),
            checkpoint: step.call.checkpoint.clone(),
            durability: step.call.durability,
            lineage: step.lineage.clone(),
            wait_for_failed: step.wait_for_failed,
            flow_start_time: self.run.base.start_time,
        };
        self.run.last_stream = Some(stream);
        self.cx.start_task(
            RunningTask {
                run_id: self.run.id,
                step: id.clone(),
                key: task_key(self.run, id),
                stream,
                leaves_after: crate::ids::Position(0),
                deadline: self.cx.now.instant.saturating_add(timeout),
                heartbeat_timeout,
                heard: self.cx.now.instant,
            },
            handout,
        );
        let frame = ServerFrame::Task(alloc::boxed::Box::new(task));
        self.cx.staged.push(Staged::Task { stream, handout, at_once, frame });
    }

    /// The snapshot of the call's first attempt; taken now if this is it. An ASYNC call takes a new one
    /// after a node failure (D-24).
    fn first_snapshot(&mut self, id: &StepExecutionId) -> Snapshot {
        let Some(step) = self.run.steps.get(id) else {
            return Snapshot::default();
        };
        let keeps = match step.call.snapshot_epoch {
            None => false,
            Some(epoch) => step.call.durability == Durability::Sync || epoch == self.cx.epoch,
        };
        if keeps && !mutant::is(Mutant::SnapshotTakenAgain) {
            return self.run.snapshots.get(id).cloned().unwrap_or_default();
        }
        let snapshot = self.run.snapshot(&method_options(step).loads);
        self.run.snapshots.remove(id);
        if snapshot != Snapshot::default() {
            self.run.snapshots.insert(id.clone(), snapshot.clone());
        }
        let epoch = self.cx.epoch;
        if let Some(step) = self.run.steps.get_mut(id) {
            step.call.snapshot_epoch = Some(epoch);
        }
        snapshot
    }

    /// The running attempt failed: back-off, or the end of the method call.
    pub(super) fn attempt_failed(&mut self, id: &StepExecutionId, failed: FailedAttempt) {
        let Some(step) = self.run.steps.get(id).cloned() else {
            return;
        };
        if let StepPhase::Running { work, handout, .. } = &step.phase {
            self.cx.dequeue(self.run, *work, id);
            self.cx.end_task(*handout);
        }
        if self.run.head().closing.is_some() {
            self.cx.attempt_ended(&id.step_type, AttemptOutcome::Cancelled);
            self.forget_ended_step(id);
            return;
        }
        let verdict = EffectiveRetry::from(method_options(&step).retry.as_ref()).next(
            step.call.attempt,
            step.call.first_handout,
            self.cx.time,
            failed.retry_after_ms,
            failed.non_retryable,
        );
        match verdict {
            RetryVerdict::RetryAt(due) => {
                self.cx.attempt_ended(&id.step_type, AttemptOutcome::Retried);
                self.set_phase(id, StepPhase::BackingOff(due));
                if let Some(step) = self.run.steps.get_mut(id) {
                    step.call.attempt += 1;
                    step.call.last_failure = Some(failed.failure);
                    if mutant::is(Mutant::CheckpointLost) {
                        step.call.checkpoint = None;
                    }
                }
                let timer = self.run.timer(due, TimerKind::Backoff(id.clone()));
                self.cx.set_timer(self.run, timer);
            }
            RetryVerdict::Exhausted => {
                self.cx.attempt_ended(&id.step_type, AttemptOutcome::Exhausted);
                self.method_failed(id, &step, failed.failure);
            }
        }
    }

    /// The method call failed for good.
    fn method_failed(&mut self, id: &StepExecutionId, step: &StepRecord, failure: Failure) {
        let context = step_context(self.run, id, step);
        let info = RecoveryInfo {
            error_type: failure.error_type.clone(),
            detail: failure.detail.clone(),
            progress: progress_of(&failure),
        };
        match (step.call.method, &step.options.recovery) {
            (Method::WaitFor, _) if step.options.wait_for_failure == WaitForFailurePolicy::Proceed => {
                self.record_event(EventKind::MethodFailed { context, failure, then: AfterFailure::Execute });
                if let Some(step) = self.run.steps.get_mut(id) {
                    step.recovery_info = Some(info);
                    step.wait_for_failed = true;
                }
                self.begin_execute(id);
            }
            (Method::Execute, Some(recovery)) => {
                let movement = recovery_movement(recovery.clone(), self.run.input(id));
                self.run.remove_step(id);
                let next = self.schedule(movement, Lineage::Recovery(id.clone()), Some(info), None);
                let then = AfterFailure::Recovery(next);
                self.record_event(EventKind::MethodFailed { context, failure, then });
            }
            (Method::WaitFor, _) | (Method::Execute, None) => {
                let error = flow_error(id, &failure);
                let then = AfterFailure::FlowFails;
                self.record_event(EventKind::MethodFailed { context, failure, then });
                self.close(Close::Failed(error));
            }
        }
    }

    /// The frame of a running attempt never left (D-23).
    pub(super) fn unsent(&mut self, id: &StepExecutionId) {
        if mutant::is(Mutant::UnsentCounts) {
            self.attempt_failed(id, FailedAttempt::not_completed("it never left"));
        } else {
            self.hand_back(id);
        }
    }

    /// A running attempt goes back into the queue: same number, same snapshot, no retry consumed.
    pub(super) fn hand_back(&mut self, id: &StepExecutionId) {
        let Some(StepPhase::Running { work, handout, .. }) =
            self.run.steps.get(id).map(|step| step.phase.clone())
        else {
            return;
        };
        self.cx.end_task(handout);
        self.cx.attempt_ended(&id.step_type, AttemptOutcome::HandedBack);
        if self.run.head().closing.is_some() {
            self.cx.dequeue(self.run, work, id);
            self.forget_ended_step(id);
            return;
        }
        if let Some(step) = self.run.steps.get_mut(id)
            && step.call.attempt == 1
        {
            // It certainly never ran: the budget starts anew with its next hand-out (concepts.md 1.3).
            step.call.first_handout = None;
        }
        self.set_phase(id, StepPhase::Queued(work));
        self.cx.enqueue_again(self.run, work, id);
    }

    /// An attempt of a run that is closing came to its end; its outcome is not wanted.
    pub(super) fn forget_ended_step(&mut self, id: &StepExecutionId) {
        self.run.remove_step(id);
        self.complete_if_done();
    }

    /// The back-off of a Step is over, or its start delay.
    pub(super) fn queue_again(&mut self, id: &StepExecutionId) {
        if matches!(
            self.run.steps.get(id).map(|step| &step.phase),
            Some(StepPhase::BackingOff(_) | StepPhase::Delayed(_))
        ) || mutant::is(Mutant::TimerFiresTwice) && self.run.steps.get(id).is_some()
        {
            self.queue(id);
        }
    }
}

impl Context {
    fn start_task(&mut self, task: RunningTask, handout: HandoutId) {
        self.deadlines.set(task.deadline, Deadline::Attempt(handout));
        if let Some(stream) = self.streams.get_mut(task.stream) {
            stream.tasks.insert(handout);
        }
        self.event(EngineEvent::AttemptStarted { step_type: task.step.step_type.clone() });
        self.running.insert(handout, task);
    }

    /// The task's frame leaves now: the Worker's silence counts from here, not from the hand-out.
    pub(super) fn task_left(&mut self, handout: HandoutId) {
        let Some(task) = self.running.get_mut(&handout) else {
            return;
        };
        task.heard = self.now.instant;
        if let Some(timeout) = task.heartbeat_timeout {
            self.deadlines.set(task.heard.saturating_add(timeout), Deadline::Heartbeat(handout));
        }
    }

    /// Tells a Worker that its attempt is over because a deadline passed.
    pub(super) fn tell_timed_out(&mut self, task: &RunningTask, handout: HandoutId) {
        self.send_cancel(task, handout, CancelReason::TimedOut);
    }
}

/// An attempt that was cut off may have had its effects (concepts.md 1.4).
fn progress_of(failure: &Failure) -> AttemptProgress {
    match &*failure.error_type {
        failure_type::NOT_COMPLETED | failure_type::METHOD_TIMEOUT | failure_type::HEARTBEAT_TIMEOUT => {
            AttemptProgress::NotCompleted
        }
        _ => AttemptProgress::Unspecified,
    }
}

fn flow_error(id: &StepExecutionId, failure: &Failure) -> FlowError {
    let category = if &*failure.error_type == failure_type::INVALID_DEFINITION {
        ErrorCategory::InvalidDefinition
    } else {
        ErrorCategory::WorkerFailure
    };
    let text = alloc::format!("{id}: {}", failure.detail);
    FlowError { category, error_type: failure.error_type.clone(), text: Name::from(text) }
}
