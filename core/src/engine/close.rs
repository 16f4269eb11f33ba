//! Closing a run: at once, or cooperatively.

use alloc::vec::Vec;

use super::call::CallError;
use super::frame::CancelReason;
use super::history::EventKind;
use super::io::EngineEvent;
use super::keys::TimerKind;
use super::limits;
use super::model::{ErrorCategory, FlowError, FlowStatus, StopKind, TimeoutPolicy, failure_type};
use super::record::{Closing, StepPhase};
use super::turn::{Turn, millis};
use crate::ids::{Name, StepExecutionId};

/// How a run closes.
#[derive(Debug)]
pub(super) enum Close {
    Completed,
    Failed(FlowError),
    Canceled(FlowError),
    Terminated(FlowError),
}

impl Turn<'_> {
    /// Closes the run now: the rest is cancelled, pending messages vanish.
    pub(super) fn close(&mut self, how: Close) {
        if !self.run.is_active() {
            return;
        }
        let steps: Vec<StepExecutionId> = self.run.steps.keys().cloned().collect();
        for id in steps {
            self.end_step(&id, CancelReason::FlowClosed);
        }
        self.run.drop_messages();
        self.clear_flow_timers();
        let (status, error) = match how {
            Close::Completed => (FlowStatus::Completed, None),
            Close::Failed(error) => (FlowStatus::Failed, Some(error)),
            Close::Canceled(error) => (FlowStatus::Canceled, Some(error)),
            Close::Terminated(error) => (FlowStatus::Terminated, Some(error)),
        };
        let outputs = self.run.head().outputs.clone();
        self.record_event(EventKind::FlowClosed { status, outputs, error: error.clone() });
        let time = self.cx.time;
        let head = self.run.head_mut();
        head.error = error;
        head.skips.clear();
        self.run.set_closed(status, time);
        let retention_ms = self.run.base.retention_ms.unwrap_or(self.cx.default_retention_ms);
        let timer = self.run.timer(time.saturating_add(millis(retention_ms)), TimerKind::Retention);
        self.cx.set_timer(self.run, timer);
        let flow_type = self.run.base.flow_type.clone();
        self.cx.event(EngineEvent::FlowClosed { flow_type, status });
    }

    fn clear_flow_timers(&mut self) {
        if self.run.head().timeout_pending {
            self.run.head_mut().timeout_pending = false;
            if let Some(due) = self.run.base.timeout.as_ref().map(|timeout| timeout.due) {
                let timer = self.run.timer(due, TimerKind::FlowTimeout);
                self.cx.clear_timer(self.run, &timer);
            }
        }
        if let Some(until) = self.run.head().closing.as_ref().map(|closing| closing.until) {
            let timer = self.run.timer(until, TimerKind::Closing);
            self.cx.clear_timer(self.run, &timer);
        }
    }

    /// A client stops the run.
    pub(super) fn stop(&mut self, kind: StopKind, reason: &Name) -> Result<(), CallError> {
        match kind {
            StopKind::Terminate => self.close(Close::Terminated(client_error(reason))),
            StopKind::Cancel | StopKind::Fail => {
                if self.run.head().closing.is_some() {
                    return Err(CallError::Closing);
                }
                self.begin_closing(kind, reason.clone());
            }
        }
        Ok(())
    }

    /// Everything that does not run is cancelled; running attempts are asked to, and the run closes
    /// with the last of them.
    fn begin_closing(&mut self, kind: StopKind, reason: Name) {
        let (running, idle): (Vec<_>, Vec<_>) = self
            .run
            .steps
            .iter()
            .map(|(id, step)| match step.phase {
                StepPhase::Running { handout, .. } => (id.clone(), Some(handout)),
                StepPhase::Delayed(_)
                | StepPhase::Queued(_)
                | StepPhase::BackingOff(_)
                | StepPhase::Waiting(_) => (id.clone(), None),
            })
            .partition(|(_, handout)| handout.is_some());
        for (id, _) in idle {
            self.end_step(&id, CancelReason::FlowClosed);
        }
        for handout in running.into_iter().filter_map(|(_, handout)| handout) {
            if let Some(task) = self.cx.running.get(&handout).cloned() {
                self.cx.send_cancel(&task, handout, CancelReason::FlowClosed);
            }
        }
        let until = self.cx.time.saturating_add(millis(limits::CLOSING_MS));
        self.run.head_mut().closing = Some(Closing { kind, reason, until });
        let timer = self.run.timer(until, TimerKind::Closing);
        self.cx.set_timer(self.run, timer);
        self.complete_if_done();
    }

    /// The cooperative stop has waited for all it waits for.
    pub(super) fn finish_closing(&mut self) {
        let Some(closing) = self.run.head().closing.clone() else {
            return;
        };
        let error = client_error(&closing.reason);
        self.close(match closing.kind {
            StopKind::Fail => Close::Failed(error),
            StopKind::Cancel | StopKind::Terminate => Close::Canceled(error),
        });
    }

    /// The Flow's timeout fires, or a client skips it.
    pub(super) fn flow_timeout(&mut self, skipped: bool) {
        let Some(policy) = self.run.base.timeout.as_ref().map(|timeout| timeout.policy) else {
            return;
        };
        if !self.run.head().timeout_pending || !self.run.is_active() {
            return;
        }
        self.run.head_mut().timeout_pending = false;
        if self.run.head().closing.is_some() {
            return;
        }
        self.record_event(EventKind::FlowTimedOut { skipped });
        let error = FlowError {
            category: ErrorCategory::FlowTimeout,
            error_type: failure_type::FLOW_TIMEOUT.into(),
            text: "the Flow's timeout ran out".into(),
        };
        match policy {
            TimeoutPolicy::Fail => self.close(Close::Failed(error)),
            TimeoutPolicy::Cancel => self.close(Close::Canceled(error)),
            TimeoutPolicy::Handler => self.schedule_timeout_handler(),
        }
    }
}

fn client_error(reason: &Name) -> FlowError {
    FlowError { category: ErrorCategory::ClientApi, error_type: Name::default(), text: reason.clone() }
}
