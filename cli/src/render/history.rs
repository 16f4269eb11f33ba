//! One event of a Flow's history.

use dexzd_proto::history_event::{Kind, method_failed};
use dexzd_proto::{Durability, HistoryEvent, MessageDeletion, Method, StepContext, StopKind};
use serde_json::{Value, json};

use super::Object;
use super::parts::{
    attribute, decision, durability_name, failure, flow_error, key, lineage, method_name, named_value,
    output, publication, status_name, step_id, stop_name, value, wait,
};
use super::time::timestamp;

pub(crate) fn event(event: &HistoryEvent) -> Value {
    let object = Object::new().with("number", event.number).with("time", timestamp(event.unix_ms));
    let Some(kind) = &event.kind else {
        return object.with("type", "unknown").build();
    };
    match kind {
        Kind::FlowStarted(it) => object
            .with("type", "flowStarted")
            .with("flowType", it.flow_type.as_str())
            .with("requestId", it.request_id.as_str())
            .with_some("startStep", it.start_step.clone())
            .with_some("input", it.input.as_ref().map(value))
            .with_some("previousRunId", it.previous_run_id.clone()),
        Kind::FlowClosed(it) => object
            .with("type", "flowClosed")
            .with("status", status_name(it.status))
            .with_list("outputs", it.outputs.iter().map(output))
            .with_some("error", it.error.as_ref().map(flow_error)),
        Kind::WaitForCompleted(it) => context(object.with("type", "waitForCompleted"), it.context.as_ref())
            .with_some("wait", it.wait.as_ref().map(wait))
            .with_list("attributes", it.attributes.iter().map(attribute))
            .with_list("publications", it.publications.iter().map(publication))
            .with_list("recorded", it.recorded.iter().map(named_value)),
        Kind::ExecuteCompleted(it) => context(object.with("type", "executeCompleted"), it.context.as_ref())
            .with_some("decision", it.decision.as_ref().map(decision))
            .with_list("attributes", it.attributes.iter().map(attribute))
            .with_list("publications", it.publications.iter().map(publication))
            .with_list("recorded", it.recorded.iter().map(named_value)),
        Kind::MethodFailed(it) => context(object.with("type", "methodFailed"), it.context.as_ref())
            .with_some("failure", it.failure.as_ref().map(failure))
            .with_some("then", it.then.as_ref().map(then)),
        Kind::Published(it) => object
            .with("type", "published")
            .with("requestId", it.request_id.as_str())
            .with_list("publications", it.publications.iter().map(publication))
            .with_list("messageIds", it.message_ids.iter().map(|id| json!(id))),
        Kind::AttributesWritten(it) => object
            .with("type", "attributesWritten")
            .with("requestId", it.request_id.as_str())
            .with_list("attributes", it.writes.iter().map(attribute)),
        Kind::MessagesDeleted(it) => object
            .with("type", "messagesDeleted")
            .with("requestId", it.request_id.as_str())
            .with_list("deletions", it.deletions.iter().map(deletion)),
        Kind::TimerSkipped(it) => object
            .with("type", "timerSkipped")
            .with("requestId", it.request_id.as_str())
            .with_some("step", it.step.as_ref().map(step_id))
            .with("timer", if it.step.is_none() { "flowTimeout" } else { it.timer.as_str() }),
        Kind::StopRequested(it) => object
            .with("type", "stopRequested")
            .with("requestId", it.request_id.as_str())
            .with("stopType", stop_name(StopKind::try_from(it.kind).unwrap_or_default()))
            .with_text("reason", &it.reason),
        Kind::StepCancelled(it) => object
            .with("type", "stepCancelled")
            .with_some("step", it.step.as_ref().map(step_id))
            .with_some("by", it.by.as_ref().map(step_id)),
        Kind::FlowTimedOut(it) => object.with("type", "flowTimedOut").with("skipped", it.skipped),
    }
    .build()
}

fn context(object: Object, context: Option<&StepContext>) -> Object {
    let Some(context) = context else {
        return object;
    };
    object
        .with_some("step", context.step.as_ref().map(step_id))
        .with("method", method_name(Method::try_from(context.method).unwrap_or_default()))
        .with("attempt", context.attempt)
        .with("durability", durability_name(Durability::try_from(context.durability).unwrap_or_default()))
        .with_some("startedTime", context.started_unix_ms.map(timestamp))
        .with_some("worker", context.worker.clone())
        .with_some("input", context.input.as_ref().map(value))
        .with_some("lastFailure", context.last_failure.as_ref().map(failure))
        .with_some("lineage", context.lineage.as_ref().map(lineage))
}

fn deletion(deletion: &MessageDeletion) -> Value {
    json!({
        "channel": deletion.channel.as_ref().map(key).unwrap_or_default(),
        "messageId": deletion.message_id,
    })
}

fn then(then: &method_failed::Then) -> Value {
    match then {
        method_failed::Then::FlowFails(_) => json!({ "kind": "flowFails" }),
        method_failed::Then::Execute(_) => json!({ "kind": "execute" }),
        method_failed::Then::Recovery(step) => json!({ "kind": "recovery", "step": step_id(step) }),
    }
}
