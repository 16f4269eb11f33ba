//! A run as it is shown: summary, state, result.

use dexzd_core::engine::{
    ActiveStepSearch, ErrorCategory, FlowError, FlowOutput, FlowResult, FlowStatus, Phase, RunState,
    StepState, Summary, TimerState,
};
use dexzd_proto as proto;

use super::field::unix_ms;
use super::value::{
    attribute_entry_out, durability_out, failure_out, lineage_out, messages_out, method_out, named_value_out,
    step_out, value_out,
};
use super::wait::{condition_result_out, wait_out};

pub(crate) fn status_out(status: FlowStatus) -> proto::FlowStatus {
    match status {
        FlowStatus::Running => proto::FlowStatus::Running,
        FlowStatus::Completed => proto::FlowStatus::Completed,
        FlowStatus::Failed => proto::FlowStatus::Failed,
        FlowStatus::Canceled => proto::FlowStatus::Canceled,
        FlowStatus::Terminated => proto::FlowStatus::Terminated,
    }
}

pub(super) fn flow_error_out(error: &FlowError) -> proto::FlowError {
    proto::FlowError {
        category: match error.category {
            ErrorCategory::StepDecision => proto::ErrorCategory::StepDecision,
            ErrorCategory::ClientApi => proto::ErrorCategory::ClientApi,
            ErrorCategory::WorkerFailure => proto::ErrorCategory::WorkerFailure,
            ErrorCategory::InvalidDefinition => proto::ErrorCategory::InvalidDefinition,
            ErrorCategory::FlowTimeout => proto::ErrorCategory::FlowTimeout,
            ErrorCategory::Internal => proto::ErrorCategory::Internal,
        }
        .into(),
        error_type: error.error_type.to_string(),
        text: error.text.to_string(),
    }
}

pub(super) fn output_out(output: &FlowOutput) -> proto::FlowOutput {
    proto::FlowOutput { step: Some(step_out(&output.step)), value: output.value.as_ref().map(value_out) }
}

pub(super) fn result_out(result: &FlowResult) -> proto::FlowResult {
    proto::FlowResult {
        run_id: result.run_id.to_string(),
        status: status_out(result.status).into(),
        outputs: result.outputs.iter().map(output_out).collect(),
        error: result.error.as_ref().map(flow_error_out),
    }
}

pub(super) fn summary_out(summary: &Summary) -> proto::FlowSummary {
    proto::FlowSummary {
        flow_id: summary.flow_id.to_string(),
        run_id: summary.run_id.to_string(),
        first_run_id: summary.first_run_id.to_string(),
        request_id: summary.request_id.to_string(),
        flow_type: summary.flow_type.to_string(),
        status: status_out(summary.status).into(),
        start_unix_ms: unix_ms(summary.start_time),
        close_unix_ms: summary.close_time.map(unix_ms),
        error: summary.error.as_ref().map(flow_error_out),
        closing: summary.closing,
        active_step_types: summary.active_step_types.iter().map(ToString::to_string).collect(),
        event_count: summary.event_count,
    }
}

pub(super) fn state_out(state: &RunState) -> proto::FlowState {
    proto::FlowState {
        summary: Some(summary_out(&state.summary)),
        active_step_search: match state.active_step_search {
            ActiveStepSearch::All => proto::ActiveStepSearch::All,
            ActiveStepSearch::WaitForOnly => proto::ActiveStepSearch::WaitForOnly,
            ActiveStepSearch::None => proto::ActiveStepSearch::None,
        }
        .into(),
        step_durability: durability_out(state.step_durability).into(),
        attributes: state.attributes.iter().map(attribute_entry_out).collect(),
        steps: state.steps.iter().map(step_state_out).collect(),
        channels: state.channels.iter().map(messages_out).collect(),
        outputs: state.outputs.iter().map(output_out).collect(),
        timeout_unix_ms: state.timeout_at.map(unix_ms),
        start_at_unix_ms: state.start_at.map(unix_ms),
    }
}

fn step_state_out(state: &StepState) -> proto::StepState {
    proto::StepState {
        step: Some(step_out(&state.step)),
        phase: match state.phase {
            Phase::Queued => proto::StepPhase::Queued,
            Phase::Running => proto::StepPhase::Running,
            Phase::BackingOff => proto::StepPhase::BackingOff,
            Phase::Waiting => proto::StepPhase::Waiting,
            Phase::Delayed => proto::StepPhase::Delayed,
        }
        .into(),
        method: method_out(state.method).into(),
        attempt: state.attempt,
        since_unix_ms: unix_ms(state.since),
        pending_reason: state.pending_reason.as_deref().map(str::to_owned),
        next_attempt_unix_ms: state.next_attempt_at.map(unix_ms),
        wait: state.wait.as_ref().map(wait_out),
        timers: state.timers.iter().map(timer_out).collect(),
        conditions: state.conditions.iter().map(condition_result_out).collect(),
        locals: state.locals.iter().map(named_value_out).collect(),
        last_failure: state.last_failure.as_ref().map(failure_out),
        lineage: Some(lineage_out(&state.lineage)),
        worker: state.worker.as_deref().map(str::to_owned),
        input: state.input.as_ref().map(value_out),
    }
}

fn timer_out(timer: &TimerState) -> proto::TimerState {
    proto::TimerState {
        condition_id: timer.id.as_deref().map(str::to_owned),
        due_unix_ms: unix_ms(timer.due),
        fired: timer.fired,
        skipped: timer.skipped,
    }
}
