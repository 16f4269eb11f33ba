//! Starting a run: idempotency first, then the reuse policy (concepts.md 1.1).

use super::call::{Answer, CallError, StartFlow};
use super::close::Close;
use super::history::EventKind;
use super::io::EngineEvent;
use super::keys::{self, TimerKind};
use super::limits;
use super::model::{ErrorCategory, FlowError, FlowStatus, IdReusePolicy, Lineage, TimeoutPolicy};
use super::record::{CurrentRun, FlowTimeout, RunBase, RunHead};
use super::run::{Run, attribute_bytes, encode};
use super::turn::{Turn, millis};
use super::{Engine, state::StateRead};
use crate::ids::{CallId, Name, RunId};

/// What the reuse policy says to a start.
enum Verdict {
    Start,
    TerminateAndStart,
    Reject,
}

impl<S: StateRead> Engine<S> {
    pub(super) fn start_flow(&mut self, call: CallId, start: StartFlow) {
        let written: u64 = start
            .attributes
            .iter()
            .filter_map(|write| write.value.as_ref().map(|value| attribute_bytes(&write.key, value)))
            .sum();
        if written > limits::ATTRIBUTES_BYTES {
            let limit = "the Attributes of one run may take 4 MiB".into();
            return self.cx.reply(call, None, Err(CallError::LimitExceeded { limit }));
        }
        let latest = match self.latest_run(&start.flow_id) {
            Ok(latest) => latest,
            Err(error) => return self.cx.reply(call, None, Err(error)),
        };
        let Some(latest) = latest else {
            return self.create_run(call, start, None);
        };
        let (status, same_request) = match self.read_run(latest) {
            Ok(run) => (run.head().status, run.base.request_id == start.request_id),
            Err(error) => return self.cx.reply(call, None, Err(error)),
        };
        if same_request {
            let answer = Answer::Started { run_id: latest, newly: false };
            return self.cx.reply(call, Some(latest), Ok(answer));
        }
        match verdict(start.id_reuse, status) {
            Verdict::Start => self.create_run(call, start, Some(latest)),
            Verdict::TerminateAndStart => {
                let error = FlowError {
                    category: ErrorCategory::ClientApi,
                    error_type: Name::default(),
                    text: "terminated by the start of another run".into(),
                };
                if let Ok(mut turn) = self.turn(latest) {
                    turn.close(Close::Terminated(error));
                }
                self.create_run(call, start, Some(latest));
            }
            // `ignore_already_started` asks for the run of the same request: that case is handled above.
            Verdict::Reject => {
                let error = CallError::AlreadyStarted { run_id: latest, status };
                self.cx.reply(call, Some(latest), Err(error));
            }
        }
    }

    fn create_run(&mut self, call: CallId, start: StartFlow, previous_run: Option<RunId>) {
        let id = self.cx.new_run_id();
        let time = self.cx.time;
        let first_run_id = previous_run
            .and_then(|previous| self.runs.loaded(previous))
            .map_or(id, |previous| previous.base.first_run_id);
        let start_at =
            start.start_delay_ms.filter(|delay| *delay > 0).map(|delay| time.saturating_add(millis(delay)));
        let timeout = start.timeout_ms.filter(|timeout| *timeout > 0).map(|timeout| FlowTimeout {
            // The timeout is about the Flow's work: it begins when the first Step may.
            due: start_at.unwrap_or(time).saturating_add(millis(timeout)),
            policy: start.timeout_policy.unwrap_or(if start.has_timeout_handler {
                TimeoutPolicy::Handler
            } else {
                TimeoutPolicy::Fail
            }),
            handler: start.timeout_handler.unwrap_or_default(),
        });
        let base = RunBase {
            flow_id: start.flow_id.clone(),
            flow_type: start.flow_type.clone(),
            request_id: start.request_id.clone(),
            start_time: time,
            first_run_id,
            previous_run,
            timeout,
            retention_ms: start.retention_ms,
            start_at,
        };
        let head = RunHead { config: start.config, ..RunHead::default() };
        let mut run = Run::new(id, base, head);
        run.change_index(keys::current_run(&start.flow_id), Some(encode(&CurrentRun { run_id: id })));
        let mut turn = Turn { run: &mut run, cx: &mut self.cx };
        turn.record_event(EventKind::FlowStarted {
            flow_type: start.flow_type.clone(),
            request_id: start.request_id,
            input: start.start.as_ref().and_then(|movement| movement.input.clone()),
            start_step: start.start.as_ref().map(|movement| movement.step_type.clone()),
            previous_run,
        });
        turn.run.write_attributes(&start.attributes);
        if let Some(due) = turn.run.base.timeout.as_ref().map(|timeout| timeout.due) {
            turn.run.head_mut().timeout_pending = true;
            let timer = turn.run.timer(due, TimerKind::FlowTimeout);
            turn.cx.set_timer(turn.run, timer);
        }
        if let Some(movement) = start.start {
            turn.schedule(movement, Lineage::FlowStart, None, start_at);
        }
        self.cx.event(EngineEvent::FlowStarted { flow_type: start.flow_type });
        self.runs.insert(run);
        self.cx.reply(call, Some(id), Ok(Answer::Started { run_id: id, newly: true }));
    }
}

/// The table of concepts.md 1.1.
fn verdict(policy: IdReusePolicy, latest: FlowStatus) -> Verdict {
    match (policy, latest) {
        (IdReusePolicy::Disallow, _)
        | (IdReusePolicy::AllowIfPreviousAbnormal | IdReusePolicy::AllowIfNotRunning, FlowStatus::Running)
        | (IdReusePolicy::AllowIfPreviousAbnormal, FlowStatus::Completed) => Verdict::Reject,
        (
            IdReusePolicy::AllowIfPreviousAbnormal,
            FlowStatus::Failed | FlowStatus::Canceled | FlowStatus::Terminated,
        )
        | (
            IdReusePolicy::AllowIfNotRunning | IdReusePolicy::TerminateIfRunning,
            FlowStatus::Completed | FlowStatus::Failed | FlowStatus::Canceled | FlowStatus::Terminated,
        ) => Verdict::Start,
        (IdReusePolicy::TerminateIfRunning, FlowStatus::Running) => Verdict::TerminateAndStart,
    }
}
