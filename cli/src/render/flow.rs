//! Summary, state and result of a Flow.

use dexzd_proto::{FlowResult, FlowState, FlowSummary, ServerInfo, StepPhase, StepState, TimerState};
use serde_json::{Value, json};

use super::Object;
use super::parts::{
    attribute, channel, condition_result, durability_name, failure, flow_error, lineage, method_name,
    named_value, output, search_name, status_name, step_id, value, wait,
};
use super::time::timestamp;

pub(crate) fn summary(summary: &FlowSummary) -> Value {
    Object::new()
        .with("flowId", summary.flow_id.as_str())
        .with("runId", summary.run_id.as_str())
        .with("flowType", summary.flow_type.as_str())
        .with("status", status_name(summary.status))
        .with("closing", summary.closing)
        .with("startTime", timestamp(summary.start_unix_ms))
        .with_some("closeTime", summary.close_unix_ms.map(timestamp))
        .with_some("error", summary.error.as_ref().map(flow_error))
        .with("activeStepTypes", json!(summary.active_step_types))
        .with("eventCount", summary.event_count)
        .with_text("firstRunId", &summary.first_run_id)
        .with_text("requestId", &summary.request_id)
        .build()
}

pub(crate) fn state(state: &FlowState) -> Value {
    Object::new()
        .with_some("summary", state.summary.as_ref().map(summary))
        .with_some("timeoutTime", state.timeout_unix_ms.map(timestamp))
        .with_some("startAtTime", state.start_at_unix_ms.map(timestamp))
        .with(
            "config",
            json!({
                "stepDurability": durability_name(state.step_durability()),
                "activeStepSearch": search_name(state.active_step_search()),
            }),
        )
        .with("steps", state.steps.iter().map(step).collect::<Vec<_>>())
        .with("attributes", state.attributes.iter().map(attribute).collect::<Vec<_>>())
        .with("channels", state.channels.iter().map(channel).collect::<Vec<_>>())
        .with("outputs", state.outputs.iter().map(output).collect::<Vec<_>>())
        .build()
}

fn step(step: &StepState) -> Value {
    Object::new()
        .with_some("step", step.step.as_ref().map(step_id))
        .with("phase", phase_name(step.phase()))
        .with("method", method_name(step.method()))
        .with("attempt", step.attempt)
        .with("sinceTime", timestamp(step.since_unix_ms))
        .with_some("pendingReason", step.pending_reason.clone())
        .with_some("nextAttemptTime", step.next_attempt_unix_ms.map(timestamp))
        .with_some("worker", step.worker.clone())
        .with_some("input", step.input.as_ref().map(value))
        .with_some("wait", step.wait.as_ref().map(wait))
        .with_list("timers", step.timers.iter().map(timer))
        .with_list("conditions", step.conditions.iter().map(condition_result))
        .with_list("locals", step.locals.iter().map(named_value))
        .with_some("lastFailure", step.last_failure.as_ref().map(failure))
        .with_some("lineage", step.lineage.as_ref().map(lineage))
        .build()
}

fn timer(timer: &TimerState) -> Value {
    Object::new()
        .with_some("conditionId", timer.condition_id.clone())
        .with("dueTime", timestamp(timer.due_unix_ms))
        .with("fired", timer.fired)
        .with("skipped", timer.skipped)
        .build()
}

fn phase_name(phase: StepPhase) -> &'static str {
    match phase {
        StepPhase::Unspecified => "unspecified",
        StepPhase::Queued => "queued",
        StepPhase::Running => "running",
        StepPhase::BackingOff => "backingOff",
        StepPhase::Waiting => "waiting",
        StepPhase::Delayed => "delayed",
    }
}

pub(crate) fn flow_result(flow_id: &str, result: &FlowResult) -> Value {
    Object::new()
        .with("flowId", flow_id)
        .with("runId", result.run_id.as_str())
        .with("status", status_name(result.status))
        .with("outputs", result.outputs.iter().map(output).collect::<Vec<_>>())
        .with_some("error", result.error.as_ref().map(flow_error))
        .build()
}

pub(crate) fn server_info(info: &ServerInfo) -> Value {
    json!({
        "version": info.version,
        "protocolMin": info.protocol_min,
        "protocolMax": info.protocol_max,
        "nodeId": info.node_id,
    })
}
