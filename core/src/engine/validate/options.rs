//! Movements, the options that travel with them, and the writes that clients and Workers share.

use alloc::format;

use super::rules::{self, Check, Path, invalid};
use crate::engine::limits::ITEMS;
use crate::engine::model::{
    AttributeWrite, Load, MethodOptions, Movement, Publication, Recovery, RetryPolicy, StepOptions,
};

/// How many recovery Steps may stand inside each other's options: a chain that long is a mistake, and
/// every reader of options may recurse so deep.
const RECOVERY_DEPTH: usize = 8;

/// Checks Step options, as they travel with a movement.
///
/// # Errors
///
/// [`CallError::InvalidArgument`](crate::engine::CallError::InvalidArgument) or
/// [`CallError::LimitExceeded`](crate::engine::CallError::LimitExceeded), for the first fault found.
pub fn validate_options(options: &StepOptions) -> Check {
    check_options(&Path::field("options"), options, 0)
}

pub(super) fn check_movements(path: &Path<'_>, movements: &[Movement]) -> Check {
    rules::some_items(path, movements.len(), ITEMS)?;
    for (index, movement) in movements.iter().enumerate() {
        check_movement(&path.at(index), movement)?;
    }
    Ok(())
}

pub(super) fn check_movement(path: &Path<'_>, movement: &Movement) -> Check {
    rules::step_type(&path.child("step_type"), &movement.step_type)?;
    rules::optional_value(&path.child("input"), movement.input.as_ref())?;
    check_options(&path.child("options"), &movement.options, 0)
}

fn check_options(path: &Path<'_>, options: &StepOptions, depth: usize) -> Check {
    check_method(&path.child("wait_for"), &options.wait_for)?;
    check_method(&path.child("execute"), &options.execute)?;
    rules::optional_positive_duration(&path.child("heartbeat_timeout_ms"), options.heartbeat_timeout_ms)?;
    options
        .recovery
        .as_deref()
        .map_or(Ok(()), |recovery| check_recovery(&path.child("recovery"), recovery, depth + 1))
}

/// `depth` counts from 1.
pub(super) fn check_recovery(path: &Path<'_>, recovery: &Recovery, depth: usize) -> Check {
    if depth > RECOVERY_DEPTH {
        return invalid(
            path,
            format!("recovery Steps are nested deeper than {RECOVERY_DEPTH}: let one of them recover itself"),
        );
    }
    rules::step_type(&path.child("step_type"), &recovery.step_type)?;
    check_options(&path.child("options"), &recovery.options, depth)
}

pub(super) fn check_method(path: &Path<'_>, options: &MethodOptions) -> Check {
    rules::optional_positive_duration(&path.child("timeout_ms"), options.timeout_ms)?;
    if let Some(retry) = &options.retry {
        check_retry(&path.child("retry"), retry)?;
    }
    let loads = path.child("loads");
    rules::items(&loads, options.loads.len(), ITEMS)?;
    for (index, load) in options.loads.iter().enumerate() {
        check_load(&loads.at(index), load)?;
    }
    Ok(())
}

fn check_retry(path: &Path<'_>, retry: &RetryPolicy) -> Check {
    let numbers = [
        ("initial_interval_seconds", retry.initial_interval_seconds),
        ("maximum_interval_seconds", retry.maximum_interval_seconds),
        ("maximum_attempts", retry.maximum_attempts),
        ("total_duration_seconds", retry.total_duration_seconds),
    ];
    for (name, number) in numbers {
        if number < 0 {
            return invalid(
                &path.child(name),
                format!("{number} is negative: give a positive number, or 0 for the default"),
            );
        }
    }
    let coefficient = retry.backoff_coefficient;
    if !(coefficient == 0.0 || (coefficient.is_finite() && coefficient >= 1.0)) {
        return invalid(
            &path.child("backoff_coefficient"),
            format!(
                "{coefficient} is out of range: give a finite number of at least 1, or 0 for the default"
            ),
        );
    }
    Ok(())
}

fn check_load(path: &Path<'_>, load: &Load) -> Check {
    match load {
        Load::AttributeInstance(key) => {
            let path = path.child("attribute_instance");
            if key.instance.is_none() {
                return invalid(
                    &path.child("instance"),
                    "is missing: ordinary Attributes are always loaded, only instances of a map are asked for"
                        .into(),
                );
            }
            rules::key(&path, key)
        }
        Load::AttributeMap(name) => rules::name(&path.child("attribute_map"), name),
        Load::Channel(key) => rules::key(&path.child("channel"), key),
        Load::ChannelMap(name) => rules::name(&path.child("channel_map"), name),
    }
}

pub(super) fn check_publications(path: &Path<'_>, publications: &[Publication]) -> Check {
    rules::items(path, publications.len(), ITEMS)?;
    for (index, publication) in publications.iter().enumerate() {
        let path = path.at(index);
        rules::key(&path.child("channel"), &publication.channel)?;
        rules::value(&path.child("value"), &publication.value)?;
    }
    Ok(())
}

pub(super) fn check_attribute_writes(path: &Path<'_>, writes: &[AttributeWrite]) -> Check {
    rules::items(path, writes.len(), ITEMS)?;
    for (index, write) in writes.iter().enumerate() {
        let path = path.at(index);
        rules::key(&path.child("key"), &write.key)?;
        if let Some(value) = &write.value {
            rules::attribute(&path.child("value"), value)?;
        }
    }
    Ok(())
}
