//! Answers, on their way out. An answer of another kind than the call's is the server's own fault.

use dexzd_core::engine::{Answer, CallError};
use dexzd_core::ids::Name;
use dexzd_proto as proto;

use super::call::page_token_out;
use super::history::event_out;
pub(crate) use super::run::status_out;
use super::run::{result_out, state_out, summary_out};

fn mismatch<T>(call: &str) -> Result<T, CallError> {
    Err(CallError::Internal {
        detail: Name::from(format!("the engine gave {call} an answer of another kind")),
    })
}

pub(crate) fn started(answer: Answer) -> Result<proto::StartFlowResponse, CallError> {
    let Answer::Started { run_id, newly } = answer else {
        return mismatch("StartFlow");
    };
    Ok(proto::StartFlowResponse { run_id: run_id.to_string(), newly_started: newly })
}

/// For all calls that get nothing but "done".
pub(crate) fn done(answer: Answer) -> Result<(), CallError> {
    match answer {
        Answer::Done => Ok(()),
        Answer::Started { .. }
        | Answer::Published(_)
        | Answer::Skipped { .. }
        | Answer::Summary(_)
        | Answer::State(_)
        | Answer::History { .. }
        | Answer::Event(_)
        | Answer::FlowResult(_)
        | Answer::StepCompleted
        | Answer::Page { .. } => mismatch("a mutation"),
    }
}

pub(crate) fn published(answer: Answer) -> Result<proto::PublishToChannelResponse, CallError> {
    let Answer::Published(messages) = answer else {
        return mismatch("PublishToChannel");
    };
    Ok(proto::PublishToChannelResponse { message_ids: messages.iter().map(ToString::to_string).collect() })
}

pub(crate) fn skipped(answer: Answer) -> Result<proto::SkipTimerResponse, CallError> {
    let Answer::Skipped { remembered } = answer else {
        return mismatch("SkipTimer");
    };
    Ok(proto::SkipTimerResponse { remembered })
}

pub(crate) fn summary(answer: Answer) -> Result<proto::FlowSummary, CallError> {
    let Answer::Summary(summary) = answer else {
        return mismatch("DescribeFlow");
    };
    Ok(summary_out(&summary))
}

pub(crate) fn run_state(answer: Answer) -> Result<proto::FlowState, CallError> {
    let Answer::State(state) = answer else {
        return mismatch("GetFlowState");
    };
    Ok(state_out(&state))
}

pub(crate) fn history_page(answer: Answer) -> Result<proto::GetFlowHistoryResponse, CallError> {
    let Answer::History { events, next_event, closed } = answer else {
        return mismatch("GetFlowHistory");
    };
    Ok(proto::GetFlowHistoryResponse { events: events.iter().map(event_out).collect(), next_event, closed })
}

pub(crate) fn event(answer: Answer) -> Result<proto::WaitForHistoryEventResponse, CallError> {
    let Answer::Event(event) = answer else {
        return mismatch("WaitForHistoryEvent");
    };
    Ok(proto::WaitForHistoryEventResponse { event: event.as_deref().map(event_out) })
}

pub(crate) fn flow_result(answer: Answer) -> Result<proto::FlowResult, CallError> {
    let Answer::FlowResult(result) = answer else {
        return mismatch("WaitForFlow");
    };
    Ok(result_out(&result))
}

pub(crate) fn step_completed(answer: Answer) -> Result<proto::WaitForStepResponse, CallError> {
    let Answer::StepCompleted = answer else {
        return mismatch("WaitForStep");
    };
    Ok(proto::WaitForStepResponse {})
}

pub(crate) fn page(answer: Answer) -> Result<proto::SearchFlowsResponse, CallError> {
    let Answer::Page { runs, next } = answer else {
        return mismatch("SearchFlows");
    };
    Ok(proto::SearchFlowsResponse {
        flows: runs.iter().map(summary_out).collect(),
        next_page_token: next.as_ref().map(page_token_out).unwrap_or_default(),
    })
}
