//! Requests of clients, on their way in.

use dexzd_core::engine::limits::PAGE_SIZE;
use dexzd_core::engine::{
    ActiveStepSearch, Call, FlowConfig, IdReusePolicy, PageToken, SearchFilter, StartFlow, StopKind, Target,
    TimeoutPolicy, TimerTarget,
};
use dexzd_core::ids::{Name, RunId};
use dexzd_core::time::Timestamp;
use dexzd_proto as proto;

use super::field::{Checked, Field, Invalid, all, known, message_id, optional_duration_ms, required, run_id};
use super::options::{movement_in, timeout_handler_in};
use super::value::{attribute_write_in, durability_in, key_required, publication_in, step_in};

/// A page of a listing, unless the request says otherwise.
const DEFAULT_PAGE_SIZE: u32 = 100;
const _: () = assert!(DEFAULT_PAGE_SIZE <= PAGE_SIZE);

fn target_in(target: Option<proto::Target>) -> Checked<Target> {
    let field = Field::top("target");
    let target = required(field, target)?;
    Ok(Target {
        flow_id: Name::from(target.flow_id),
        run_id: target.run_id.map(|text| run_id(field.child("run_id"), &text)).transpose()?,
    })
}

fn wait_in(wait_ms: Option<i64>) -> Checked<Option<u64>> {
    optional_duration_ms(Field::top("wait_ms"), wait_ms)
}

fn page_size(size: u32) -> u32 {
    if size == 0 { DEFAULT_PAGE_SIZE } else { size }
}

fn config_in(config: Option<proto::FlowConfig>) -> Checked<FlowConfig> {
    let field = Field::top("config");
    let Some(config) = config else {
        return Ok(FlowConfig::default());
    };
    Ok(FlowConfig {
        active_step_search: match known(field.child("active_step_search"), config.active_step_search)? {
            proto::ActiveStepSearch::Unspecified => None,
            proto::ActiveStepSearch::All => Some(ActiveStepSearch::All),
            proto::ActiveStepSearch::WaitForOnly => Some(ActiveStepSearch::WaitForOnly),
            proto::ActiveStepSearch::None => Some(ActiveStepSearch::None),
        },
        step_durability: durability_in(field.child("step_durability"), config.step_durability)?,
    })
}

pub(crate) fn start_flow(request: proto::StartFlowRequest) -> Result<Call, Invalid> {
    if request.retry.is_some() {
        return Err(Field::top("retry").invalid(
            "a Flow has no retry policy: set one in the options of its Steps, and leave this field out",
        ));
    }
    let start = Field::top("start");
    let handler = Field::top("timeout_handler");
    let movement = request.start.map(|movement| movement_in(start, movement));
    let handler_options = request.timeout_handler.map(|options| timeout_handler_in(handler, options));
    Ok(Call::Start(Box::new(StartFlow {
        request_id: Name::from(request.request_id),
        flow_id: Name::from(request.flow_id),
        flow_type: Name::from(request.flow_type),
        start: movement.transpose()?,
        timeout_ms: optional_duration_ms(Field::top("timeout_ms"), request.timeout_ms)?,
        timeout_policy: match known(Field::top("timeout_policy"), request.timeout_policy)? {
            proto::TimeoutPolicy::Unspecified => None,
            proto::TimeoutPolicy::Fail => Some(TimeoutPolicy::Fail),
            proto::TimeoutPolicy::Cancel => Some(TimeoutPolicy::Cancel),
            proto::TimeoutPolicy::Handler => Some(TimeoutPolicy::Handler),
        },
        has_timeout_handler: request.has_timeout_handler,
        timeout_handler: handler_options.transpose()?,
        id_reuse: match known(Field::top("id_reuse_policy"), request.id_reuse_policy)? {
            proto::IdReusePolicy::Unspecified | proto::IdReusePolicy::Disallow => IdReusePolicy::Disallow,
            proto::IdReusePolicy::AllowIfPreviousAbnormal => IdReusePolicy::AllowIfPreviousAbnormal,
            proto::IdReusePolicy::AllowIfNotRunning => IdReusePolicy::AllowIfNotRunning,
            proto::IdReusePolicy::TerminateIfRunning => IdReusePolicy::TerminateIfRunning,
        },
        ignore_already_started: request.ignore_already_started,
        start_delay_ms: optional_duration_ms(Field::top("start_delay_ms"), request.start_delay_ms)?,
        attributes: all(Field::top("attributes"), request.attributes, attribute_write_in)?,
        config: config_in(request.config)?,
        retention_ms: optional_duration_ms(Field::top("retention_ms"), request.retention_ms)?,
    })))
}

pub(crate) fn stop_flow(request: proto::StopFlowRequest) -> Result<Call, Invalid> {
    Ok(Call::Stop {
        request_id: Name::from(request.request_id),
        target: target_in(request.target)?,
        kind: match known(Field::top("kind"), request.kind)? {
            proto::StopKind::Unspecified | proto::StopKind::Cancel => StopKind::Cancel,
            proto::StopKind::Terminate => StopKind::Terminate,
            proto::StopKind::Fail => StopKind::Fail,
        },
        reason: Name::from(request.reason),
    })
}

pub(crate) fn publish(request: proto::PublishToChannelRequest) -> Result<Call, Invalid> {
    Ok(Call::Publish {
        request_id: Name::from(request.request_id),
        target: target_in(request.target)?,
        publications: all(Field::top("publications"), request.publications, publication_in)?,
    })
}

pub(crate) fn delete_messages(request: proto::DeleteChannelMessagesRequest) -> Result<Call, Invalid> {
    Ok(Call::DeleteMessages {
        request_id: Name::from(request.request_id),
        target: target_in(request.target)?,
        channel: key_required(Field::top("channel"), request.channel)?,
        messages: all(Field::top("message_ids"), request.message_ids, |field, text| {
            message_id(field, &text)
        })?,
    })
}

pub(crate) fn write_attributes(request: proto::WriteAttributesRequest) -> Result<Call, Invalid> {
    Ok(Call::WriteAttributes {
        request_id: Name::from(request.request_id),
        target: target_in(request.target)?,
        writes: all(Field::top("writes"), request.writes, attribute_write_in)?,
    })
}

pub(crate) fn skip_timer(request: proto::SkipTimerRequest) -> Result<Call, Invalid> {
    use proto::skip_timer_request::Timer;
    let timer = match request.timer {
        Some(Timer::Condition(timer)) => TimerTarget::Condition {
            step: step_in(Field::top("condition").child("step"), timer.step)?,
            id: Name::from(timer.condition_id),
        },
        Some(Timer::Index(timer)) => TimerTarget::Index {
            step: step_in(Field::top("index").child("step"), timer.step)?,
            index: timer.index,
        },
        Some(Timer::FlowTimeout(_)) => TimerTarget::FlowTimeout,
        None => {
            return Err(Field::top("timer")
                .invalid("is missing: name the timer by condition, by index, or as the Flow's timeout"));
        }
    };
    Ok(Call::SkipTimer {
        request_id: Name::from(request.request_id),
        target: target_in(request.target)?,
        timer,
    })
}

pub(crate) fn update_config(request: proto::UpdateFlowConfigRequest) -> Result<Call, Invalid> {
    required(Field::top("config"), request.config.as_ref())?;
    Ok(Call::UpdateConfig {
        request_id: Name::from(request.request_id),
        target: target_in(request.target)?,
        config: config_in(request.config)?,
    })
}

pub(crate) fn describe(request: proto::DescribeFlowRequest) -> Result<Call, Invalid> {
    target_in(request.target).map(Call::Describe)
}

pub(crate) fn state(request: proto::GetFlowStateRequest) -> Result<Call, Invalid> {
    target_in(request.target).map(Call::State)
}

pub(crate) fn history(request: proto::GetFlowHistoryRequest) -> Result<Call, Invalid> {
    Ok(Call::History {
        target: target_in(request.target)?,
        start_event: request.start_event.max(1),
        page_size: page_size(request.page_size),
    })
}

pub(crate) fn wait_for_event(request: proto::WaitForHistoryEventRequest) -> Result<Call, Invalid> {
    Ok(Call::WaitForEvent {
        target: target_in(request.target)?,
        event: request.event,
        wait_ms: wait_in(request.wait_ms)?,
    })
}

pub(crate) fn wait_for_flow(request: proto::WaitForFlowRequest) -> Result<Call, Invalid> {
    Ok(Call::WaitForFlow { target: target_in(request.target)?, wait_ms: wait_in(request.wait_ms)? })
}

pub(crate) fn wait_for_step(request: proto::WaitForStepRequest) -> Result<Call, Invalid> {
    Ok(Call::WaitForStep {
        target: target_in(request.target)?,
        step: step_in(Field::top("step"), request.step)?,
        wait_ms: wait_in(request.wait_ms)?,
    })
}

/// The query itself is parsed by the core.
pub(crate) fn search(filter: SearchFilter, size: u32, token: &str) -> Result<Call, Invalid> {
    Ok(Call::Search {
        filter,
        page_size: page_size(size),
        page_token: match token {
            "" => None,
            token => Some(page_token_in(token).ok_or_else(|| {
                Field::top("page_token").invalid(format!(
                    "{token:?} is no token of this server: pass next_page_token of the page before, unchanged"
                ))
            })?),
        },
    })
}

fn page_token_in(token: &str) -> Option<PageToken> {
    let (micros, run) = token.split_once('-')?;
    if micros.is_empty() || !micros.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some(PageToken {
        start_time: Timestamp::from_micros(u64::from_str_radix(micros, 16).ok()?),
        run_id: RunId::parse(run)?,
    })
}

pub(super) fn page_token_out(token: &PageToken) -> String {
    format!("{:x}-{}", token.start_time.as_micros(), token.run_id)
}
