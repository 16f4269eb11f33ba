//! History events, on their way out.

use dexzd_core::engine::{AfterFailure, EventKind, HistoryEvent, StepContext, StopKind};
use dexzd_proto as proto;
use proto::history_event as event;

use super::decision::decision_out;
use super::field::unix_ms;
use super::run::{flow_error_out, output_out, status_out};
use super::value::{
    attribute_write_out, deletion_out, durability_out, failure_out, lineage_out, method_out, named_value_out,
    publication_out, step_out, value_out,
};
use super::wait::wait_out;

pub(super) fn event_out(history_event: &HistoryEvent) -> proto::HistoryEvent {
    proto::HistoryEvent {
        number: history_event.number,
        unix_ms: unix_ms(history_event.time),
        kind: Some(kind_out(&history_event.kind)),
    }
}

fn kind_out(kind: &EventKind) -> event::Kind {
    match kind {
        EventKind::FlowStarted { flow_type, request_id, input, start_step, previous_run } => {
            event::Kind::FlowStarted(event::FlowStarted {
                flow_type: flow_type.to_string(),
                request_id: request_id.to_string(),
                input: input.as_ref().map(value_out),
                start_step: start_step.as_deref().map(str::to_owned),
                previous_run_id: previous_run.map(|run| run.to_string()),
            })
        }
        EventKind::FlowClosed { status, outputs, error } => event::Kind::FlowClosed(event::FlowClosed {
            status: status_out(*status).into(),
            outputs: outputs.iter().map(output_out).collect(),
            error: error.as_ref().map(flow_error_out),
        }),
        EventKind::WaitForCompleted { context, wait, attributes, publications, recorded } => {
            event::Kind::WaitForCompleted(event::WaitForCompleted {
                context: Some(context_out(context)),
                wait: Some(wait_out(wait)),
                attributes: attributes.iter().map(attribute_write_out).collect(),
                publications: publications.iter().map(publication_out).collect(),
                recorded: recorded.iter().map(named_value_out).collect(),
            })
        }
        EventKind::ExecuteCompleted { context, decision, attributes, publications, recorded } => {
            event::Kind::ExecuteCompleted(event::ExecuteCompleted {
                context: Some(context_out(context)),
                decision: Some(decision_out(decision)),
                attributes: attributes.iter().map(attribute_write_out).collect(),
                publications: publications.iter().map(publication_out).collect(),
                recorded: recorded.iter().map(named_value_out).collect(),
            })
        }
        EventKind::MethodFailed { context, failure, then } => {
            event::Kind::MethodFailed(event::MethodFailed {
                context: Some(context_out(context)),
                failure: Some(failure_out(failure)),
                then: Some(after_failure_out(then)),
            })
        }
        EventKind::Published { request_id, publications, messages } => {
            event::Kind::Published(event::Published {
                request_id: request_id.to_string(),
                publications: publications.iter().map(publication_out).collect(),
                message_ids: messages.iter().map(ToString::to_string).collect(),
            })
        }
        EventKind::AttributesWritten { request_id, writes } => {
            event::Kind::AttributesWritten(event::AttributesWritten {
                request_id: request_id.to_string(),
                writes: writes.iter().map(attribute_write_out).collect(),
            })
        }
        EventKind::MessagesDeleted { request_id, deletions } => {
            event::Kind::MessagesDeleted(event::MessagesDeleted {
                request_id: request_id.to_string(),
                deletions: deletions.iter().map(deletion_out).collect(),
            })
        }
        EventKind::TimerSkipped { request_id, step, timer } => {
            event::Kind::TimerSkipped(event::TimerSkipped {
                request_id: request_id.to_string(),
                step: step.as_ref().map(step_out),
                timer: timer.to_string(),
            })
        }
        EventKind::StopRequested { request_id, kind, reason } => {
            event::Kind::StopRequested(event::StopRequested {
                request_id: request_id.to_string(),
                kind: stop_kind_out(*kind).into(),
                reason: reason.to_string(),
            })
        }
        EventKind::StepCancelled { step, by } => event::Kind::StepCancelled(event::StepCancelled {
            step: Some(step_out(step)),
            by: Some(step_out(by)),
        }),
        EventKind::FlowTimedOut { skipped } => {
            event::Kind::FlowTimedOut(event::FlowTimedOut { skipped: *skipped })
        }
    }
}

fn context_out(context: &StepContext) -> proto::StepContext {
    proto::StepContext {
        step: Some(step_out(&context.step)),
        method: method_out(context.method).into(),
        lineage: Some(lineage_out(&context.lineage)),
        durability: durability_out(context.durability).into(),
        attempt: context.attempt,
        started_unix_ms: context.started.map(unix_ms),
        input: context.input.as_ref().map(value_out),
        last_failure: context.last_failure.as_ref().map(failure_out),
        worker: context.worker.as_deref().map(str::to_owned),
    }
}

fn after_failure_out(then: &AfterFailure) -> event::method_failed::Then {
    use event::method_failed::{Execute, FlowFails, Then};
    match then {
        AfterFailure::FlowFails => Then::FlowFails(FlowFails {}),
        AfterFailure::Execute => Then::Execute(Execute {}),
        AfterFailure::Recovery(step) => Then::Recovery(step_out(step)),
    }
}

fn stop_kind_out(kind: StopKind) -> proto::StopKind {
    match kind {
        StopKind::Cancel => proto::StopKind::Cancel,
        StopKind::Terminate => proto::StopKind::Terminate,
        StopKind::Fail => proto::StopKind::Fail,
    }
}
