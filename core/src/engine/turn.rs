//! A run's turn: the handlers that move Step executions through their phases.
//!
//! ```text
//!             ┌─────────┐ start delay over
//!   schedule ─┤ Delayed ├──────────┐
//!      │      └─────────┘          ▼
//!      └───────────────────────► Queued ◄──────────────┐ back-off over
//!                                  │ ▲ declined,       │
//!                         hand-out │ │ returned   ┌────┴───────┐
//!                                  ▼ │            │ BackingOff │
//!                                Running ────────►└────────────┘
//!                                  │      attempt failed
//!               WaitFor returned   │   Execute returned
//!                ┌─────────────────┴──────────────────► ended: its decision is applied
//!                ▼
//!             Waiting ── conditions met ──► Queued (Execute)
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::context::Context;
use super::frame::CancelReason;
use super::history::{EventKind, StepContext};
use super::keys::TimerKind;
use super::model::{Lineage, Method, Movement, RecoveryInfo, Value, Wait};
use super::record::{MethodCall, StepPhase, StepRecord};
use super::run::Run;
use super::wait::{self, TimerSelector, WaitProgress};
use crate::ids::StepExecutionId;
use crate::time::Timestamp;

/// One run and the context it acts in.
pub(super) struct Turn<'a> {
    pub(super) run: &'a mut Run,
    pub(super) cx: &'a mut Context,
}

impl Turn<'_> {
    /// Creates a Step execution and queues its first method, or holds it back until `start_at`.
    pub(super) fn schedule(
        &mut self,
        movement: Movement,
        lineage: Lineage,
        recovery_info: Option<RecoveryInfo>,
        start_at: Option<Timestamp>,
    ) -> StepExecutionId {
        let id = self.run.next_step_id(&movement.step_type);
        let method = if movement.options.skip_wait_for { Method::Execute } else { Method::WaitFor };
        let phase = StepPhase::Delayed(start_at.unwrap_or(self.cx.time));
        let record = StepRecord {
            lineage,
            input: None,
            call: self.new_call(&movement.options, method),
            options: movement.options,
            phase,
            since: self.cx.time,
            locals: Vec::new(),
            wait: None,
            conditions: Vec::new(),
            recovery_info,
            wait_for_failed: false,
            waiting_order: 0,
        };
        self.run.add_step(id.clone(), record, movement.input);
        match start_at {
            Some(due) => {
                let timer = self.run.timer(due, TimerKind::StartDelay(id.clone()));
                self.cx.set_timer(self.run, timer);
            }
            None => self.queue(&id),
        }
        id
    }

    fn new_call(&self, options: &super::model::StepOptions, method: Method) -> MethodCall {
        MethodCall {
            method,
            durability: self.run.durability(options, method),
            attempt: 1,
            first_handout: None,
            checkpoint: None,
            last_failure: None,
            snapshot_epoch: None,
        }
    }

    /// Puts the Step's current method call into the task queue.
    pub(super) fn queue(&mut self, id: &StepExecutionId) {
        let work = self.cx.new_work();
        self.set_phase(id, StepPhase::Queued(work));
        self.cx.enqueue(self.run, work, id);
    }

    pub(super) fn set_phase(&mut self, id: &StepExecutionId, phase: StepPhase) {
        let time = self.cx.time;
        if let Some(step) = self.run.steps.get_mut(id) {
            step.phase = phase;
            step.since = time;
        }
    }

    /// Moves a Step on to Execute: its WaitFor is over, one way or the other.
    pub(super) fn begin_execute(&mut self, id: &StepExecutionId) {
        self.run.snapshots.remove(id);
        let Some(options) = self.run.steps.get(id).map(|step| step.options.clone()) else {
            return;
        };
        let call = self.new_call(&options, Method::Execute);
        if let Some(step) = self.run.steps.get_mut(id) {
            step.call = call;
        }
        self.queue(id);
    }

    /// Stores the Wait that WaitFor returned; Execute is queued once it is over.
    pub(super) fn accept_wait(&mut self, id: &StepExecutionId, wait: Wait) {
        self.run.snapshots.remove(id);
        let skips = self.take_skips(id);
        let progress = WaitProgress::accept(&wait, self.cx.time, &skips);
        let due = progress.next_due();
        let order = self.run.head().event_count;
        if let Some(step) = self.run.steps.get_mut(id) {
            step.wait = Some(wait);
            step.waiting_order = order;
        }
        self.set_phase(id, StepPhase::Waiting(progress));
        self.arm_condition_timer(id, due);
        self.run.waits_stale = true;
    }

    fn take_skips(&mut self, id: &StepExecutionId) -> Vec<TimerSelector> {
        if self.run.head().skips.iter().all(|skip| skip.step != *id) {
            return Vec::new();
        }
        let skips = core::mem::take(&mut self.run.head_mut().skips);
        let (mine, others): (Vec<_>, Vec<_>) = skips.into_iter().partition(|skip| skip.step == *id);
        self.run.head_mut().skips = others;
        mine.into_iter().map(|skip| skip.timer).collect()
    }

    fn arm_condition_timer(&mut self, id: &StepExecutionId, due: Option<Timestamp>) {
        if let Some(due) = due {
            let timer = self.run.timer(due, TimerKind::Condition(id.clone()));
            self.cx.set_timer(self.run, timer);
        }
    }

    /// The earliest timer of a stored Wait is due.
    pub(super) fn condition_timer_fired(&mut self, id: &StepExecutionId) {
        let time = self.cx.time;
        let Some(StepPhase::Waiting(progress)) = self.run.steps.get_mut(id).map(|step| &mut step.phase)
        else {
            return;
        };
        progress.fire_due(time);
        let next = progress.next_due();
        self.arm_condition_timer(id, next);
        self.run.waits_stale = true;
    }

    /// A client skips a timer of a waiting Step.
    pub(super) fn skip_timer(&mut self, id: &StepExecutionId, timer: &TimerSelector) -> wait::SkipOutcome {
        let Some(step) = self.run.steps.get_mut(id) else {
            return wait::SkipOutcome::NotFound;
        };
        let (StepPhase::Waiting(progress), Some(wait)) = (&mut step.phase, &step.wait) else {
            return wait::SkipOutcome::NotFound;
        };
        let before = progress.next_due();
        let outcome = progress.skip(wait, timer);
        let after = progress.next_due();
        if before != after {
            if let Some(due) = before {
                let timer = self.run.timer(due, TimerKind::Condition(id.clone()));
                self.cx.clear_timer(self.run, &timer);
            }
            self.arm_condition_timer(id, after);
        }
        self.run.waits_stale = true;
        outcome
    }

    /// The waiting Steps in the order in which they began to wait, if anything changed for them.
    pub(super) fn stale_waits(&mut self) -> Vec<StepExecutionId> {
        if !self.run.waits_stale {
            return Vec::new();
        }
        let mut waiting: Vec<(u64, StepExecutionId)> = self
            .run
            .steps
            .iter()
            .filter(|(_, step)| matches!(step.phase, StepPhase::Waiting(_)))
            .map(|(id, step)| (step.waiting_order, id.clone()))
            .collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    /// All Waits are judged. What they consumed cannot make another one come true: fewer messages meet
    /// fewer conditions.
    pub(super) fn waits_served(&mut self) {
        self.run.waits_stale = false;
        if let Some(timer) = self.run.waits_timer.take() {
            self.cx.clear_timer(self.run, &timer);
        }
    }

    /// The decision is cut before all Waits are judged: sees to it that they will be, whatever happens.
    pub(super) fn remember_stale_waits(&mut self) {
        if self.run.waits_stale && self.run.waits_timer.is_none() {
            // Not due in this very look.
            let due = self.cx.time.saturating_add(Duration::from_micros(1));
            let timer = self.run.timer(due, TimerKind::Waits);
            self.cx.set_timer(self.run, timer.clone());
            self.run.waits_timer = Some(timer);
        }
    }

    /// An earlier decision was cut before all Waits were judged.
    pub(super) fn waits_timer_fired(&mut self) {
        self.run.waits_timer = None;
        self.run.waits_stale = true;
    }

    /// Ends a Wait if its conditions are met; it consumes before the next one is judged.
    pub(super) fn evaluate_wait(&mut self, id: &StepExecutionId) {
        let Some(step) = self.run.steps.get(id) else {
            return;
        };
        let (StepPhase::Waiting(progress), Some(wait)) = (&step.phase, &step.wait) else {
            return;
        };
        let Some(outcome) = wait::evaluate(wait, progress, &|channel| self.run.channel_size(channel)) else {
            return;
        };
        let (progress, wait) = (progress.clone(), wait.clone());
        let mut consumed = Vec::new();
        for (condition, count) in wait.conditions.iter().zip(outcome.consumed) {
            let messages = match &condition.kind {
                super::model::ConditionKind::Channel { channel, .. } => self.run.consume(channel, count),
                super::model::ConditionKind::Timer { .. } => Vec::new(),
            };
            consumed.push(messages.into_iter().map(|message| message.value).collect());
        }
        if let Some(due) = progress.next_due() {
            let timer = self.run.timer(due, TimerKind::Condition(id.clone()));
            self.cx.clear_timer(self.run, &timer);
        }
        let results = wait::results(&wait, &progress, consumed);
        if let Some(step) = self.run.steps.get_mut(id) {
            step.conditions = results;
        }
        self.begin_execute(id);
    }

    /// Ends a Step execution, whatever it is doing, and forgets it.
    pub(super) fn end_step(&mut self, id: &StepExecutionId, reason: CancelReason) -> Option<StepRecord> {
        let step = self.run.remove_step(id)?;
        match &step.phase {
            StepPhase::Delayed(due) => {
                let timer = self.run.timer(*due, TimerKind::StartDelay(id.clone()));
                self.cx.clear_timer(self.run, &timer);
            }
            StepPhase::Queued(work) => self.cx.dequeue(self.run, *work, id),
            StepPhase::Running { work, handout, .. } => {
                self.cx.dequeue(self.run, *work, id);
                self.cx.cancel_task(*handout, reason);
            }
            StepPhase::BackingOff(until) => {
                let timer = self.run.timer(*until, TimerKind::Backoff(id.clone()));
                self.cx.clear_timer(self.run, &timer);
            }
            StepPhase::Waiting(progress) => {
                if let Some(due) = progress.next_due() {
                    let timer = self.run.timer(due, TimerKind::Condition(id.clone()));
                    self.cx.clear_timer(self.run, &timer);
                }
            }
        }
        Some(step)
    }

    /// Runs the timeout handler, as a Step execution of its own.
    pub(super) fn schedule_timeout_handler(&mut self) {
        let Some(timeout) = &self.run.base.timeout else {
            return;
        };
        let handler = timeout.handler.clone();
        let options = super::model::StepOptions {
            execute: handler.method,
            heartbeat_timeout_ms: handler.heartbeat_timeout_ms,
            recovery: handler.recovery,
            skip_wait_for: true,
            ..Default::default()
        };
        let movement =
            Movement { step_type: super::limits::TIMEOUT_HANDLER_STEP.into(), input: None, options };
        self.schedule(movement, Lineage::FlowTimeout, None, None);
    }

    pub(super) fn record_event(&mut self, kind: EventKind) {
        self.run.record_event(self.cx.time, kind);
    }
}

/// Which method call an event speaks of.
pub(super) fn step_context(run: &Run, id: &StepExecutionId, step: &StepRecord) -> StepContext {
    let worker = match &step.phase {
        StepPhase::Running { worker, .. } => Some(worker.clone()),
        StepPhase::Delayed(_) | StepPhase::Queued(_) | StepPhase::BackingOff(_) | StepPhase::Waiting(_) => {
            None
        }
    };
    StepContext {
        step: id.clone(),
        method: step.call.method,
        lineage: step.lineage.clone(),
        durability: step.call.durability,
        attempt: step.call.attempt,
        started: step.call.first_handout,
        input: run.input(id),
        last_failure: step.call.last_failure.clone(),
        worker,
    }
}

/// A duration in milliseconds, as options give it.
pub(super) const fn millis(duration_ms: u64) -> Duration {
    Duration::from_millis(duration_ms)
}

/// The options of the method that a Step is in.
pub(super) fn method_options(step: &StepRecord) -> &super::model::MethodOptions {
    match step.call.method {
        Method::WaitFor => &step.options.wait_for,
        Method::Execute => &step.options.execute,
    }
}

/// A recovery Step as a movement, with the failed Step's input.
pub(super) fn recovery_movement(recovery: Box<super::model::Recovery>, input: Option<Value>) -> Movement {
    let recovery = *recovery;
    Movement { step_type: recovery.step_type, input, options: recovery.options }
}
