//! The small messages that larger ones are made of.

use dexzd_proto::attribute_value::Kind as AttributeKind;
use dexzd_proto::{
    ActiveStepSearch, AttributeEntry, ChannelMessages, Condition, ConditionResult, Decision, Durability,
    ErrorCategory, Failure, FlowError, FlowOutput, FlowStatus, Key, Lineage, Method, Movement, NamedValue,
    Publication, StepExecutionId, StopKind, Value as ProtoValue, Wait, condition, condition_result, decision,
    lineage, wait,
};
use serde_json::{Value, json};

use super::Object;
use crate::value::JSON_ENCODING;

/// JSON as itself; any other encoding by its name and its bytes in base64.
pub(super) fn value(value: &ProtoValue) -> Value {
    if value.encoding == JSON_ENCODING
        && let Ok(json) = serde_json::from_slice(&value.data)
    {
        return json;
    }
    json!({ "encoding": value.encoding, "base64": base64(&value.data) })
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = (group >> (18 - 6 * place) & 63) as usize;
            text.push(if place <= chunk.len() { char::from(ALPHABET[digit]) } else { '=' });
        }
    }
    text
}

/// `Payment-1`: the name under which a Step execution is known everywhere.
pub(super) fn step_id(step: &StepExecutionId) -> String {
    format!("{}-{}", step.step_type, step.number)
}

/// `orders` or, for one Channel or Attribute of a map, `orders/berlin`.
pub(super) fn key(key: &Key) -> String {
    match &key.instance {
        Some(instance) => format!("{}/{instance}", key.name),
        None => key.name.clone(),
    }
}

fn optional_key(optional: Option<&Key>) -> String {
    optional.map(key).unwrap_or_default()
}

pub(super) fn attribute(entry: &AttributeEntry) -> Value {
    let written = entry.value.as_ref().and_then(|value| value.kind.as_ref());
    let written = match written {
        None => Value::Null,
        Some(AttributeKind::StringValue(text)) => json!(text),
        Some(AttributeKind::IntValue(integer)) => json!(integer),
        Some(AttributeKind::DoubleValue(double)) => json!(double),
        Some(AttributeKind::BoolValue(boolean)) => json!(boolean),
        Some(AttributeKind::ObjectValue(object)) => value(object),
    };
    json!({ "name": optional_key(entry.key.as_ref()), "value": written })
}

pub(super) fn named_value(named: &NamedValue) -> Value {
    Object::new()
        .with("name", named.name.as_str())
        .with_some("value", named.value.as_ref().map(value))
        .build()
}

pub(super) fn publication(publication: &Publication) -> Value {
    Object::new()
        .with("channel", optional_key(publication.channel.as_ref()))
        .with_some("value", publication.value.as_ref().map(value))
        .build()
}

pub(super) fn channel(channel: &ChannelMessages) -> Value {
    let messages: Vec<Value> = channel
        .messages
        .iter()
        .map(|message| {
            Object::new()
                .with("messageId", message.message_id.as_str())
                .with_some("value", message.value.as_ref().map(value))
                .build()
        })
        .collect();
    json!({ "channel": optional_key(channel.channel.as_ref()), "messages": messages })
}

pub(super) fn output(output: &FlowOutput) -> Value {
    Object::new()
        .with_some("step", output.step.as_ref().map(step_id))
        .with_some("value", output.value.as_ref().map(value))
        .build()
}

pub(super) fn failure(failure: &Failure) -> Value {
    Object::new()
        .with("errorType", failure.error_type.as_str())
        .with("detail", failure.detail.as_str())
        .with_some("stack", failure.stack.clone())
        .build()
}

pub(super) fn flow_error(error: &FlowError) -> Value {
    Object::new()
        .with("category", category_name(error.category()))
        .with_text("errorType", &error.error_type)
        .with_text("text", &error.text)
        .build()
}

pub(super) fn lineage(lineage: &Lineage) -> Value {
    match &lineage.kind {
        None => Value::Null,
        Some(lineage::Kind::FlowStart(_)) => json!({ "kind": "flowStart" }),
        Some(lineage::Kind::Step(step)) => json!({ "kind": "step", "step": step_id(step) }),
        Some(lineage::Kind::RecoveryOf(step)) => {
            json!({ "kind": "recoveryOf", "step": step_id(step) })
        }
        Some(lineage::Kind::FlowTimeout(_)) => json!({ "kind": "flowTimeout" }),
    }
}

pub(super) fn movement(movement: &Movement) -> Value {
    Object::new()
        .with("stepType", movement.step_type.as_str())
        .with_some("input", movement.input.as_ref().map(value))
        .build()
}

pub(super) fn decision(decision: &Decision) -> Value {
    let complete = |kind: &str, complete: &decision::Complete| {
        Object::new().with("kind", kind).with_some("output", complete.output.as_ref().map(value))
    };
    let object = match &decision.kind {
        None => Object::new(),
        Some(decision::Kind::GoTo(go_to)) => {
            Object::new().with("kind", "goTo").with_list("movements", go_to.movements.iter().map(movement))
        }
        Some(decision::Kind::GracefulComplete(it)) => complete("gracefulComplete", it),
        Some(decision::Kind::DeadEnd(_)) => Object::new().with("kind", "deadEnd"),
        Some(decision::Kind::ForceComplete(it)) => complete("forceComplete", it),
        Some(decision::Kind::ForceFail(fail)) => {
            Object::new().with("kind", "forceFail").with("reason", fail.reason.as_str())
        }
        Some(decision::Kind::ForceCompleteIfChannelsEmpty(it)) => Object::new()
            .with("kind", "forceCompleteIfChannelsEmpty")
            .with_some("output", it.output.as_ref().map(value))
            .with_list("channels", it.channels.iter().map(|channel| json!(key(channel))))
            .with_list("fallback", it.fallback.iter().map(movement)),
    };
    object
        .with_list("cancelSteps", decision.cancel_steps.iter().map(|step| json!(step)))
        .with_list("cancelSiblingSteps", decision.cancel_sibling_steps.iter().map(|step| json!(step)))
        .build()
}

pub(super) fn wait(wait: &Wait) -> Value {
    Object::new()
        .with("kind", wait_name(wait.kind()))
        .with_list("conditions", wait.conditions.iter().map(condition))
        .with_list("groups", wait.groups.iter().map(|group| json!(group.condition_ids)))
        .build()
}

fn condition(condition: &Condition) -> Value {
    let object = Object::new().with_some("conditionId", condition.condition_id.clone());
    match &condition.kind {
        None => object,
        Some(condition::Kind::Timer(timer)) => {
            object.with("kind", "timer").with("durationMs", timer.duration_ms)
        }
        Some(condition::Kind::Channel(channel)) => object
            .with("kind", "channel")
            .with("channel", optional_key(channel.channel.as_ref()))
            .with_some("atLeast", channel.at_least)
            .with_some("atMost", channel.at_most),
    }
    .build()
}

pub(super) fn condition_result(result: &ConditionResult) -> Value {
    match &result.kind {
        None => Value::Null,
        Some(condition_result::Kind::Timer(timer)) => {
            json!({ "kind": "timer", "fired": timer.fired })
        }
        Some(condition_result::Kind::Channel(channel)) => json!({
            "kind": "channel",
            "values": channel.values.iter().map(value).collect::<Vec<_>>(),
        }),
    }
}

/// A status by number: one that this release does not know keeps its number.
pub(crate) fn status_name(status: i32) -> String {
    match FlowStatus::try_from(status) {
        Ok(FlowStatus::Unspecified) => "unspecified".to_owned(),
        Ok(FlowStatus::Running) => "running".to_owned(),
        Ok(FlowStatus::Completed) => "completed".to_owned(),
        Ok(FlowStatus::Failed) => "failed".to_owned(),
        Ok(FlowStatus::Canceled) => "canceled".to_owned(),
        Ok(FlowStatus::Terminated) => "terminated".to_owned(),
        Err(_) => format!("unknown status {status}"),
    }
}

fn category_name(category: ErrorCategory) -> &'static str {
    match category {
        ErrorCategory::Unspecified => "unspecified",
        ErrorCategory::StepDecision => "stepDecision",
        ErrorCategory::ClientApi => "clientApi",
        ErrorCategory::WorkerFailure => "workerFailure",
        ErrorCategory::InvalidDefinition => "invalidDefinition",
        ErrorCategory::FlowTimeout => "flowTimeout",
        ErrorCategory::Internal => "internal",
    }
}

pub(super) fn method_name(method: Method) -> &'static str {
    match method {
        Method::Unspecified => "unspecified",
        Method::WaitFor => "waitFor",
        Method::Execute => "execute",
    }
}

pub(super) fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Unspecified => "unspecified",
        Durability::Sync => "sync",
        Durability::Async => "async",
    }
}

pub(super) fn search_name(search: ActiveStepSearch) -> &'static str {
    match search {
        ActiveStepSearch::Unspecified => "unspecified",
        ActiveStepSearch::All => "all",
        ActiveStepSearch::WaitForOnly => "waitForOnly",
        ActiveStepSearch::None => "none",
    }
}

pub(super) fn stop_name(kind: StopKind) -> &'static str {
    match kind {
        StopKind::Unspecified => "unspecified",
        StopKind::Cancel => "cancel",
        StopKind::Terminate => "terminate",
        StopKind::Fail => "fail",
    }
}

fn wait_name(kind: wait::Kind) -> &'static str {
    match kind {
        wait::Kind::Unspecified => "unspecified",
        wait::Kind::Skip => "skip",
        wait::Kind::UntilOne => "untilOne",
        wait::Kind::AllOf => "allOf",
        wait::Kind::AnyOf => "anyOf",
        wait::Kind::AnyCombinationOf => "anyCombinationOf",
    }
}
