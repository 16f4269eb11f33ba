//! Everything that a Worker sends.

use alloc::collections::BTreeSet;
use alloc::format;

use super::options::{check_attribute_writes, check_movements, check_publications};
use super::rules::{self, Check, Path, abridged, invalid};
use crate::engine::frame::{FlowTypeDefinition, Hello, WorkerFrame};
use crate::engine::limits::{ITEMS, STREAM_SLOTS, TEXT_BYTES};
use crate::engine::model::{
    Condition, ConditionKind, Decision, DecisionKind, Effects, Failure, Key, Method, NamedValue, Wait,
    WaitKind,
};
use crate::ids::Name;

/// Checks a frame, whichever it is.
///
/// A hello that fails this ends its stream. Any other frame is about one task, and only that task's
/// attempt suffers. The texts of a failure are not judged but cut: see [`cut_failure`].
///
/// # Errors
///
/// [`CallError::InvalidArgument`](crate::engine::CallError::InvalidArgument) or
/// [`CallError::LimitExceeded`](crate::engine::CallError::LimitExceeded), for the first fault found.
pub fn validate_frame(frame: &WorkerFrame) -> Check {
    match frame {
        WorkerFrame::Hello(hello) => return validate_hello(hello),
        WorkerFrame::Heartbeat { handout: _, checkpoint } => {
            return rules::optional_value(&Path::field("checkpoint"), checkpoint.as_ref());
        }
        WorkerFrame::WaitForDone { handout: _, wait, effects } => {
            validate_wait(wait)?;
            validate_effects(effects, Method::WaitFor)?;
        }
        WorkerFrame::ExecuteDone { handout: _, decision, effects } => {
            validate_decision(decision)?;
            validate_effects(effects, Method::Execute)?;
        }
        WorkerFrame::Failed { handout: _, failure: _, non_retryable: _, retry_after_ms } => {
            return rules::optional_duration(&Path::field("retry_after_ms"), *retry_after_ms);
        }
        WorkerFrame::Decline { .. }
        | WorkerFrame::Return { .. }
        | WorkerFrame::StopTaking
        | WorkerFrame::Pong => return Ok(()),
    }
    rules::total_size("the result", frame)
}

/// Checks the first frame of a stream.
///
/// # Errors
///
/// As [`validate_frame`].
pub fn validate_hello(hello: &Hello) -> Check {
    let path = Path::field("hello");
    rules::name(&path.child("worker"), &hello.worker)?;
    if hello.slots == 0 || hello.slots > STREAM_SLOTS {
        return invalid(
            &path.child("slots"),
            format!("{} is out of range: offer 1 to {STREAM_SLOTS} slots", hello.slots),
        );
    }
    let path = path.child("flow_types");
    rules::some_items(&path, hello.flow_types.len(), ITEMS)?;
    let mut seen = BTreeSet::new();
    for (index, definition) in hello.flow_types.iter().enumerate() {
        let path = path.at(index);
        check_definition(&path, definition)?;
        unique(&path.child("name"), &mut seen, &definition.name)?;
    }
    rules::total_size("the hello", hello)
}

fn check_definition(path: &Path<'_>, definition: &FlowTypeDefinition) -> Check {
    rules::name(&path.child("name"), &definition.name)?;
    let path = path.child("step_types");
    rules::items(&path, definition.step_types.len(), ITEMS)?;
    let mut seen = BTreeSet::new();
    for (index, step_type) in definition.step_types.iter().enumerate() {
        let path = path.at(index);
        rules::step_type(&path, step_type)?;
        unique(&path, &mut seen, step_type)?;
    }
    Ok(())
}

/// Checks what WaitFor returned.
///
/// # Errors
///
/// As [`validate_frame`].
pub fn validate_wait(wait: &Wait) -> Check {
    let root = Path::field("wait");
    let path = root.child("conditions");
    let count = wait.conditions.len();
    rules::items(&path, count, ITEMS)?;
    let mut ids = BTreeSet::new();
    for (index, condition) in wait.conditions.iter().enumerate() {
        let path = path.at(index);
        check_condition(&path, condition)?;
        if let Some(id) = &condition.id {
            unique(&path.child("condition_id"), &mut ids, id)?;
        }
    }
    match &wait.kind {
        WaitKind::Skip if count != 0 => {
            invalid(&path, format!("a Wait that is skipped has no conditions, this one has {count}"))
        }
        WaitKind::UntilOne if count != 1 => {
            invalid(&path, format!("a Wait until one has exactly 1 condition, this one has {count}"))
        }
        WaitKind::AnyOf if count == 0 => {
            invalid(&path, "is empty: any of nothing would never be over, give at least one".into())
        }
        // All of nothing is over at once, which is what a fan-out over nothing means.
        WaitKind::Skip | WaitKind::UntilOne | WaitKind::AllOf | WaitKind::AnyOf => Ok(()),
        WaitKind::AnyCombinationOf(groups) => {
            if let Some(index) = wait.conditions.iter().position(|condition| condition.id.is_none()) {
                return invalid(
                    &path.at(index).child("condition_id"),
                    "is missing: in combinations every condition needs an ID".into(),
                );
            }
            check_groups(&root.child("groups"), groups, &ids)
        }
    }
}

fn check_condition(path: &Path<'_>, condition: &Condition) -> Check {
    if let Some(id) = &condition.id {
        rules::name(&path.child("condition_id"), id)?;
    }
    match &condition.kind {
        ConditionKind::Timer { duration_ms } => {
            rules::duration(&path.child("timer").child("duration_ms"), *duration_ms)
        }
        ConditionKind::Channel { channel, at_least, at_most } => {
            let path = path.child("channel");
            rules::key(&path.child("channel"), channel)?;
            check_bounds(&path, *at_least, *at_most)
        }
    }
}

fn check_bounds(path: &Path<'_>, at_least: Option<u32>, at_most: Option<u32>) -> Check {
    let Some(most) = at_most else {
        return Ok(());
    };
    if most == 0 {
        return invalid(
            &path.child("at_most"),
            "0 would never consume anything: give at least 1, or leave it out".into(),
        );
    }
    match at_least {
        Some(least) if least > most => invalid(
            &path.child("at_least"),
            format!("{least} is more than at_most, which is {most}: no number of messages satisfies both"),
        ),
        Some(_) | None => Ok(()),
    }
}

fn check_groups(path: &Path<'_>, groups: &[alloc::vec::Vec<Name>], ids: &BTreeSet<&Name>) -> Check {
    rules::some_items(path, groups.len(), ITEMS)?;
    rules::items(path, groups.iter().map(alloc::vec::Vec::len).sum(), ITEMS)?;
    for (index, group) in groups.iter().enumerate() {
        let group_path = path.at(index);
        let path = group_path.child("condition_ids");
        rules::some_items(&path, group.len(), ITEMS)?;
        let mut seen = BTreeSet::new();
        for (index, id) in group.iter().enumerate() {
            let path = path.at(index);
            if !ids.contains(id) {
                return invalid(&path, format!("{} is the ID of no condition of this Wait", abridged(id)));
            }
            unique(&path, &mut seen, id)?;
        }
    }
    Ok(())
}

/// Checks what Execute returned. The reason of a failure is not judged but cut: see [`cut_text`].
///
/// # Errors
///
/// As [`validate_frame`].
pub fn validate_decision(decision: &Decision) -> Check {
    let path = Path::field("decision");
    check_types(&path.child("cancel_steps"), &decision.cancel_steps)?;
    check_types(&path.child("cancel_sibling_steps"), &decision.cancel_sibling_steps)?;
    match &decision.kind {
        DecisionKind::GoTo(movements) => check_movements(&path.child("go_to").child("movements"), movements),
        DecisionKind::GracefulComplete(output) => {
            rules::optional_value(&path.child("graceful_complete").child("output"), output.as_ref())
        }
        DecisionKind::ForceComplete(output) => {
            rules::optional_value(&path.child("force_complete").child("output"), output.as_ref())
        }
        DecisionKind::DeadEnd | DecisionKind::ForceFail(_) => Ok(()),
        DecisionKind::ForceCompleteIfChannelsEmpty { output, channels, fallback } => {
            let path = path.child("force_complete_if_channels_empty");
            rules::optional_value(&path.child("output"), output.as_ref())?;
            check_keys(&path.child("channels"), channels)?;
            check_movements(&path.child("fallback"), fallback)
        }
    }
}

fn check_types(path: &Path<'_>, step_types: &[Name]) -> Check {
    rules::items(path, step_types.len(), ITEMS)?;
    for (index, step_type) in step_types.iter().enumerate() {
        rules::step_type(&path.at(index), step_type)?;
    }
    Ok(())
}

fn check_keys(path: &Path<'_>, keys: &[Key]) -> Check {
    rules::some_items(path, keys.len(), ITEMS)?;
    for (index, key) in keys.iter().enumerate() {
        rules::key(&path.at(index), key)?;
    }
    Ok(())
}

/// Checks what a method staged.
///
/// # Errors
///
/// As [`validate_frame`].
pub fn validate_effects(effects: &Effects, method: Method) -> Check {
    let path = Path::field("effects");
    check_attribute_writes(&path.child("attributes"), &effects.attributes)?;
    check_publications(&path.child("publications"), &effects.publications)?;
    let deletions = path.child("deletions");
    rules::items(&deletions, effects.deletions.len(), ITEMS)?;
    for (index, deletion) in effects.deletions.iter().enumerate() {
        rules::key(&deletions.at(index).child("channel"), &deletion.channel)?;
    }
    let locals = path.child("locals");
    if method == Method::Execute && !effects.locals.is_empty() {
        return invalid(
            &locals,
            "only WaitFor sets locals: Execute is the last to read them, use an Attribute instead".into(),
        );
    }
    check_named_values(&locals, &effects.locals)?;
    check_named_values(&path.child("events"), &effects.events)
}

fn check_named_values(path: &Path<'_>, values: &[NamedValue]) -> Check {
    rules::items(path, values.len(), ITEMS)?;
    for (index, named) in values.iter().enumerate() {
        let path = path.at(index);
        rules::name(&path.child("name"), &named.name)?;
        rules::value(&path.child("value"), &named.value)?;
    }
    Ok(())
}

fn unique<'a>(path: &Path<'_>, seen: &mut BTreeSet<&'a Name>, name: &'a Name) -> Check {
    if seen.insert(name) {
        Ok(())
    } else {
        invalid(path, format!("{} is used twice: it must be unique here", abridged(name)))
    }
}

/// A failure whose texts are cut to what is kept. A handler does not choose the length of its stack.
#[must_use]
pub fn cut_failure(failure: Failure) -> Failure {
    Failure {
        error_type: cut_text(failure.error_type),
        detail: cut_text(failure.detail),
        stack: failure.stack.map(cut_text),
    }
}

/// A text cut to [`TEXT_BYTES`], between two characters.
#[must_use]
pub fn cut_text(text: Name) -> Name {
    if text.len() <= TEXT_BYTES {
        return text;
    }
    let fitting = (0..=TEXT_BYTES).rev().find(|end| text.is_char_boundary(*end));
    Name::new(&text[..fitting.expect("the beginning is a boundary")])
}
