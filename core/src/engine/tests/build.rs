//! Short forms of what scripts say.

use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::engine::*;
use crate::ids::{Blob, Name, StepExecutionId};

pub(super) fn key(name: &str) -> Key {
    Key { name: Name::new(name), instance: None }
}

pub(super) fn instance(name: &str, instance: &str) -> Key {
    Key { name: Name::new(name), instance: Some(Name::new(instance)) }
}

pub(super) fn value(text: &str) -> Value {
    Value { encoding: Name::new("text"), data: Blob::from(text.as_bytes()) }
}

pub(super) fn text_of(value: &Value) -> String {
    String::from_utf8_lossy(&value.data).into_owned()
}

pub(super) fn target(flow_id: &str) -> Target {
    Target { flow_id: Name::new(flow_id), run_id: None }
}

pub(super) fn step_id(step_type: &str, number: u32) -> StepExecutionId {
    StepExecutionId { step_type: Name::new(step_type), number }
}

/// A Step that has Execute only.
pub(super) fn step(step_type: &str) -> Movement {
    with_options(step_type, |options| options.skip_wait_for = true)
}

/// A Step that has both methods.
pub(super) fn waiting_step(step_type: &str) -> Movement {
    with_options(step_type, |_| {})
}

pub(super) fn with_options(step_type: &str, change: impl FnOnce(&mut StepOptions)) -> Movement {
    let mut options = StepOptions::default();
    change(&mut options);
    Movement { step_type: Name::new(step_type), input: Some(value("input")), options }
}

/// A Step that has Execute only, with options of Execute.
pub(super) fn step_with(step_type: &str, change: impl FnOnce(&mut MethodOptions)) -> Movement {
    with_options(step_type, |options| {
        options.skip_wait_for = true;
        change(&mut options.execute);
    })
}

/// A Step that has Execute only, which runs ASYNC.
pub(super) fn async_step(step_type: &str) -> Movement {
    step_with(step_type, |execute| execute.durability = Some(Durability::Async))
}

/// At most so many attempts.
pub(super) fn attempts(maximum_attempts: i32) -> Option<RetryPolicy> {
    Some(RetryPolicy { maximum_attempts, ..RetryPolicy::default() })
}

/// The Step that takes over when Execute has failed for good.
pub(super) fn recovery(step_type: &str) -> Option<std::boxed::Box<Recovery>> {
    let options = StepOptions { skip_wait_for: true, ..StepOptions::default() };
    Some(Recovery { step_type: Name::new(step_type), options }.into())
}

pub(super) fn complete(text: &str) -> DecisionKind {
    DecisionKind::GracefulComplete(Some(value(text)))
}

pub(super) fn go_to(step_types: &[&str]) -> DecisionKind {
    DecisionKind::GoTo(step_types.iter().map(|name| step(name)).collect())
}

pub(super) fn timer(duration_ms: u64) -> Condition {
    Condition { id: None, kind: ConditionKind::Timer { duration_ms } }
}

pub(super) fn one(channel: &str) -> Condition {
    bounded(channel, None, None)
}

pub(super) fn bounded(channel: &str, at_least: Option<u32>, at_most: Option<u32>) -> Condition {
    Condition { id: None, kind: ConditionKind::Channel { channel: key(channel), at_least, at_most } }
}

pub(super) fn named(id: &str, condition: Condition) -> Condition {
    Condition { id: Some(Name::new(id)), ..condition }
}

pub(super) fn until(condition: Condition) -> Wait {
    Wait { kind: WaitKind::UntilOne, conditions: vec![condition] }
}

pub(super) fn all_of(conditions: Vec<Condition>) -> Wait {
    Wait { kind: WaitKind::AllOf, conditions }
}

pub(super) fn any_of(conditions: Vec<Condition>) -> Wait {
    Wait { kind: WaitKind::AnyOf, conditions }
}

pub(super) fn set(name: &str, text: &str) -> AttributeWrite {
    AttributeWrite { key: key(name), value: Some(AttributeValue::String(Name::new(text))) }
}

pub(super) fn message(channel: &str, text: &str) -> Publication {
    Publication { channel: key(channel), value: value(text) }
}

/// Effects that write one Attribute and publish one message.
pub(super) fn writing(name: &str, text: &str) -> Effects {
    Effects {
        attributes: vec![set(name, text)],
        publications: vec![message(name, text)],
        ..Effects::default()
    }
}

/// The Attributes of a snapshot, as text: `name=text`.
pub(super) fn seen(task: &Task) -> Vec<String> {
    task.snapshot
        .attributes
        .iter()
        .map(|entry| match (&entry.key.instance, &entry.value) {
            (None, AttributeValue::String(text)) => std::format!("{}={text}", entry.key.name),
            (Some(instance), AttributeValue::String(text)) => {
                std::format!("{}/{instance}={text}", entry.key.name)
            }
            (_, other) => std::format!("{}={other:?}", entry.key.name),
        })
        .collect()
}

/// What Execute is told of its conditions, as text: `fired`, `waiting`, `a,b`.
pub(super) fn told(task: &Task) -> Vec<String> {
    task.conditions
        .iter()
        .map(|condition| match condition {
            ConditionResult::Timer { fired: true } => "fired".into(),
            ConditionResult::Timer { fired: false } => "waiting".into(),
            ConditionResult::Channel { values } => values.iter().map(text_of).collect::<Vec<_>>().join(","),
        })
        .collect()
}
