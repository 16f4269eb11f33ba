//! Step options, which travel with the movement.

use dexzd_core::engine::{
    Load, MethodOptions, Movement, Recovery, RetryPolicy, StepOptions, TimeoutHandlerOptions,
    WaitForFailurePolicy,
};
use dexzd_core::ids::Name;
use dexzd_proto as proto;

use super::field::{Checked, Field, all, known, optional_duration_ms};
use super::value::{durability_in, durability_out, key_in, key_out, value_in, value_out};

pub(super) fn movement_in(field: Field<'_>, movement: proto::Movement) -> Checked<Movement> {
    Ok(Movement {
        step_type: Name::from(movement.step_type),
        input: movement.input.map(value_in),
        options: optional_step_options(field.child("options"), movement.options)?,
    })
}

pub(super) fn movement_out(movement: &Movement) -> proto::Movement {
    proto::Movement {
        step_type: movement.step_type.to_string(),
        input: movement.input.as_ref().map(value_out),
        options: Some(step_options_out(&movement.options)),
    }
}

fn optional_step_options(field: Field<'_>, options: Option<proto::StepOptions>) -> Checked<StepOptions> {
    options.map_or_else(|| Ok(StepOptions::default()), |options| step_options_in(field, options))
}

fn step_options_in(field: Field<'_>, options: proto::StepOptions) -> Checked<StepOptions> {
    Ok(StepOptions {
        wait_for: method_options_in(field.child("wait_for"), options.wait_for)?,
        execute: method_options_in(field.child("execute"), options.execute)?,
        heartbeat_timeout_ms: optional_duration_ms(
            field.child("heartbeat_timeout_ms"),
            options.heartbeat_timeout_ms,
        )?,
        wait_for_failure: match known(field.child("wait_for_failure"), options.wait_for_failure)? {
            proto::WaitForFailurePolicy::Unspecified | proto::WaitForFailurePolicy::FailFlow => {
                WaitForFailurePolicy::FailFlow
            }
            proto::WaitForFailurePolicy::Proceed => WaitForFailurePolicy::Proceed,
        },
        recovery: recovery_in(field.child("recovery"), options.recovery.map(|boxed| *boxed))?,
        skip_wait_for: options.skip_wait_for,
    })
}

fn step_options_out(options: &StepOptions) -> proto::StepOptions {
    proto::StepOptions {
        wait_for: Some(method_options_out(&options.wait_for)),
        execute: Some(method_options_out(&options.execute)),
        heartbeat_timeout_ms: options.heartbeat_timeout_ms.map(milliseconds_out),
        wait_for_failure: match options.wait_for_failure {
            WaitForFailurePolicy::FailFlow => proto::WaitForFailurePolicy::FailFlow,
            WaitForFailurePolicy::Proceed => proto::WaitForFailurePolicy::Proceed,
        }
        .into(),
        recovery: options.recovery.as_deref().map(|recovery| Box::new(recovery_out(recovery))),
        skip_wait_for: options.skip_wait_for,
    }
}

fn recovery_in(field: Field<'_>, recovery: Option<proto::Recovery>) -> Checked<Option<Box<Recovery>>> {
    let Some(recovery) = recovery else {
        return Ok(None);
    };
    Ok(Some(Box::new(Recovery {
        step_type: Name::from(recovery.step_type),
        options: optional_step_options(field.child("options"), recovery.options.map(|boxed| *boxed))?,
    })))
}

fn recovery_out(recovery: &Recovery) -> proto::Recovery {
    proto::Recovery {
        step_type: recovery.step_type.to_string(),
        options: Some(Box::new(step_options_out(&recovery.options))),
    }
}

fn method_options_in(field: Field<'_>, options: Option<proto::MethodOptions>) -> Checked<MethodOptions> {
    let Some(options) = options else {
        return Ok(MethodOptions::default());
    };
    Ok(MethodOptions {
        timeout_ms: optional_duration_ms(field.child("timeout_ms"), options.timeout_ms)?,
        retry: options.retry.map(retry_in),
        durability: durability_in(field.child("durability"), options.durability)?,
        loads: all(field.child("loads"), options.loads, load_in)?,
    })
}

fn method_options_out(options: &MethodOptions) -> proto::MethodOptions {
    proto::MethodOptions {
        timeout_ms: options.timeout_ms.map(milliseconds_out),
        retry: options.retry.as_ref().map(retry_out),
        durability: options.durability.map_or(proto::Durability::Unspecified, durability_out).into(),
        loads: options.loads.iter().map(load_out).collect(),
    }
}

pub(super) fn timeout_handler_in(
    field: Field<'_>,
    options: proto::TimeoutHandlerOptions,
) -> Checked<TimeoutHandlerOptions> {
    Ok(TimeoutHandlerOptions {
        method: method_options_in(field.child("method"), options.method)?,
        heartbeat_timeout_ms: optional_duration_ms(
            field.child("heartbeat_timeout_ms"),
            options.heartbeat_timeout_ms,
        )?,
        recovery: recovery_in(field.child("recovery"), options.recovery)?,
    })
}

fn retry_in(retry: proto::RetryPolicy) -> RetryPolicy {
    RetryPolicy {
        initial_interval_seconds: retry.initial_interval_seconds,
        backoff_coefficient: retry.backoff_coefficient,
        maximum_interval_seconds: retry.maximum_interval_seconds,
        maximum_attempts: retry.maximum_attempts,
        total_duration_seconds: retry.total_duration_seconds,
    }
}

fn retry_out(retry: &RetryPolicy) -> proto::RetryPolicy {
    proto::RetryPolicy {
        initial_interval_seconds: retry.initial_interval_seconds,
        backoff_coefficient: retry.backoff_coefficient,
        maximum_interval_seconds: retry.maximum_interval_seconds,
        maximum_attempts: retry.maximum_attempts,
        total_duration_seconds: retry.total_duration_seconds,
    }
}

fn load_in(field: Field<'_>, load: proto::Load) -> Checked<Load> {
    use proto::load::Kind;
    Ok(match load.kind {
        Some(Kind::AttributeInstance(key)) => Load::AttributeInstance(key_in(field, key)?),
        Some(Kind::AttributeMap(name)) => Load::AttributeMap(Name::from(name)),
        Some(Kind::Channel(key)) => Load::Channel(key_in(field, key)?),
        Some(Kind::ChannelMap(name)) => Load::ChannelMap(Name::from(name)),
        None => {
            return Err(field
                .child("kind")
                .invalid("is missing, or of a kind that the server does not know"));
        }
    })
}

fn load_out(load: &Load) -> proto::Load {
    use proto::load::Kind;
    proto::Load {
        kind: Some(match load {
            Load::AttributeInstance(key) => Kind::AttributeInstance(key_out(key)),
            Load::AttributeMap(name) => Kind::AttributeMap(name.to_string()),
            Load::Channel(key) => Kind::Channel(key_out(key)),
            Load::ChannelMap(name) => Kind::ChannelMap(name.to_string()),
        }),
    }
}

/// Durations were checked on their way in: they fit.
pub(super) fn milliseconds_out(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
