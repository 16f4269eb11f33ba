//! Every field of a client's call, checked before it reaches the log.
//!
//! An error names the field as the protocol does, the value found, the rule, and what to do. What is
//! malformed is an invalid argument; what is well-formed and too big exceeds a limit.

mod options;
mod rules;
mod worker;

pub use options::validate_options;
pub use worker::{
    cut_failure, cut_text, validate_decision, validate_effects, validate_frame, validate_hello, validate_wait,
};

use alloc::collections::BTreeSet;
use alloc::format;

use self::options::{check_attribute_writes, check_method, check_movement, check_recovery};
use self::rules::{Check, Path, invalid};
use super::call::{Call, SearchFilter, StartFlow, Target, TimerTarget};
use super::limits::{ITEMS, PAGE_SIZE};
use super::model::TimeoutPolicy;
use crate::ids::{MessageId, Name, StepExecutionId};

/// Checks a client's call.
///
/// # Errors
///
/// [`CallError::InvalidArgument`](super::CallError::InvalidArgument) or
/// [`CallError::LimitExceeded`](super::CallError::LimitExceeded), for the first fault found.
pub fn validate_call(call: &Call) -> Check {
    match call {
        Call::Start(start) => check_start(start)?,
        Call::Stop { request_id, target, kind: _, reason } => {
            check_mutation(request_id, target)?;
            rules::text(&Path::field("reason"), reason)?;
        }
        Call::Publish { request_id, target, publications } => {
            check_mutation(request_id, target)?;
            let path = Path::field("publications");
            rules::some_items(&path, publications.len(), ITEMS)?;
            options::check_publications(&path, publications)?;
        }
        Call::WriteAttributes { request_id, target, writes } => {
            check_mutation(request_id, target)?;
            let path = Path::field("writes");
            rules::some_items(&path, writes.len(), ITEMS)?;
            check_attribute_writes(&path, writes)?;
        }
        Call::DeleteMessages { request_id, target, channel, messages } => {
            check_mutation(request_id, target)?;
            rules::key(&Path::field("channel"), channel)?;
            check_messages(messages)?;
        }
        Call::SkipTimer { request_id, target, timer } => {
            check_mutation(request_id, target)?;
            check_timer(timer)?;
        }
        Call::UpdateConfig { request_id, target, config: _ } => check_mutation(request_id, target)?,
        Call::Describe(target) | Call::State(target) => check_target(target)?,
        Call::History { target, start_event: _, page_size } => {
            check_target(target)?;
            check_page_size(*page_size)?;
        }
        Call::WaitForEvent { target, event, wait_ms } => {
            check_target(target)?;
            let path = Path::field("event");
            if *event == 0 {
                return invalid(&path, "0 is no event: they are numbered from 1".into());
            }
            rules::optional_duration(&Path::field("wait_ms"), *wait_ms)?;
        }
        Call::WaitForFlow { target, wait_ms } => {
            check_target(target)?;
            rules::optional_duration(&Path::field("wait_ms"), *wait_ms)?;
        }
        Call::WaitForStep { target, step, wait_ms } => {
            check_target(target)?;
            check_step(&Path::field("step"), step)?;
            rules::optional_duration(&Path::field("wait_ms"), *wait_ms)?;
        }
        Call::Search { filter, page_size, page_token: _ } => {
            check_filter(filter)?;
            check_page_size(*page_size)?;
        }
    }
    rules::total_size("the request", call)
}

fn check_start(start: &StartFlow) -> Check {
    rules::name(&Path::field("request_id"), &start.request_id)?;
    rules::name(&Path::field("flow_id"), &start.flow_id)?;
    rules::name(&Path::field("flow_type"), &start.flow_type)?;
    if let Some(movement) = &start.start {
        check_movement(&Path::field("start"), movement)?;
    }
    check_flow_timeout(start)?;
    rules::optional_duration(&Path::field("start_delay_ms"), start.start_delay_ms)?;
    rules::optional_duration(&Path::field("retention_ms"), start.retention_ms)?;
    let path = Path::field("attributes");
    rules::items(&path, start.attributes.len(), ITEMS)?;
    check_attribute_writes(&path, &start.attributes)
}

/// The timeout and everything that needs one (concepts.md 1.1).
fn check_flow_timeout(start: &StartFlow) -> Check {
    rules::optional_duration(&Path::field("timeout_ms"), start.timeout_ms)?;
    let has_timeout = start.timeout_ms.is_some_and(|timeout_ms| timeout_ms > 0);
    let policy_path = Path::field("timeout_policy");
    if start.timeout_policy.is_some() && !has_timeout {
        return invalid(
            &policy_path,
            "is given without a timeout: set timeout_ms to a positive number, or leave the policy out".into(),
        );
    }
    if start.timeout_policy == Some(TimeoutPolicy::Handler) && !start.has_timeout_handler {
        return invalid(
            &policy_path,
            format!(
                "HANDLER needs a timeout handler and the Flow type {:?} has none: choose FAIL or CANCEL, \
                 or define a handler",
                &*start.flow_type
            ),
        );
    }
    let Some(handler) = &start.timeout_handler else {
        return Ok(());
    };
    let path = Path::field("timeout_handler");
    let policy = start.timeout_policy.unwrap_or(if start.has_timeout_handler {
        TimeoutPolicy::Handler
    } else {
        TimeoutPolicy::Fail
    });
    if !has_timeout || policy != TimeoutPolicy::Handler {
        return invalid(
            &path,
            "handler options need a positive timeout_ms and the timeout policy HANDLER: set both, or leave the \
             options out"
                .into(),
        );
    }
    check_method(&path.child("method"), &handler.method)?;
    rules::optional_positive_duration(&path.child("heartbeat_timeout_ms"), handler.heartbeat_timeout_ms)?;
    handler
        .recovery
        .as_deref()
        .map_or(Ok(()), |recovery| check_recovery(&path.child("recovery"), recovery, 1))
}

fn check_mutation(request_id: &Name, target: &Target) -> Check {
    rules::name(&Path::field("request_id"), request_id)?;
    check_target(target)
}

fn check_target(target: &Target) -> Check {
    rules::name(&Path::field("target").child("flow_id"), &target.flow_id)
}

fn check_step(path: &Path<'_>, step: &StepExecutionId) -> Check {
    rules::name(&path.child("step_type"), &step.step_type)?;
    if step.number == 0 {
        return invalid(&path.child("number"), "0 is no Step execution: they are numbered from 1".into());
    }
    Ok(())
}

fn check_messages(messages: &[MessageId]) -> Check {
    let path = Path::field("message_ids");
    rules::some_items(&path, messages.len(), ITEMS)?;
    let mut seen = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        if !seen.insert(message) {
            return invalid(
                &path.at(index),
                format!("{message} is named twice: a message can be deleted once"),
            );
        }
    }
    Ok(())
}

fn check_timer(timer: &TimerTarget) -> Check {
    match timer {
        TimerTarget::Condition { step, id } => {
            let path = Path::field("condition");
            check_step(&path.child("step"), step)?;
            rules::name(&path.child("condition_id"), id)
        }
        TimerTarget::Index { step, index: _ } => check_step(&Path::field("index").child("step"), step),
        TimerTarget::FlowTimeout => Ok(()),
    }
}

fn check_page_size(page_size: u32) -> Check {
    if page_size == 0 || page_size > PAGE_SIZE {
        return invalid(
            &Path::field("page_size"),
            format!("{page_size} is out of range: ask for 1 to {PAGE_SIZE}"),
        );
    }
    Ok(())
}

fn check_filter(filter: &SearchFilter) -> Check {
    let path = Path::field("query");
    for names in [&filter.flow_types, &filter.flow_ids, &filter.active_step_types] {
        rules::items(&path, names.len(), ITEMS)?;
        for name in names {
            rules::name(&path, name)?;
        }
    }
    rules::items(&path, filter.statuses.len(), ITEMS)?;
    filter.flow_id_prefix.as_ref().map_or(Ok(()), |prefix| rules::short_text(&path, prefix))
}

#[cfg(test)]
mod tests;
