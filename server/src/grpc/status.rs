//! Errors of calls as gRPC statuses; the facts travel in `dex.ErrorDetail`.

use dexzd_core::engine::CallError;
use dexzd_core::gate::GateView;
use dexzd_core::node::Period;
use dexzd_proto as proto;
use prost::Message as _;
use proto::{ErrorDetail, SubStatus};
use tonic::{Code, Status};

use super::Backend;
use crate::convert::{Invalid, status_out};

/// How often a held answer looks at the gate while the lease is in doubt (D-1): a doubt lasts one
/// round trip to the store.
const DOUBT_LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(5);

/// The status of a process that does not serve, or not any more (HA-53, HA-69).
pub(super) fn unavailable() -> Status {
    call_error(&CallError::Unavailable)
}

/// The status of a malformed message.
pub(super) fn invalid(invalid: Invalid) -> Status {
    call_error(&CallError::from(invalid))
}

/// The status of a call that the engine refused.
pub(super) fn call_error(error: &CallError) -> Status {
    let mut detail = ErrorDetail::default();
    let (code, sub_status, message) = match error {
        CallError::InvalidArgument { field, rule } => {
            detail.field = field.to_string();
            (Code::InvalidArgument, SubStatus::InvalidArgument, format!("{field}: {rule}"))
        }
        CallError::AlreadyStarted { run_id, status } => {
            detail.run_id = run_id.to_string();
            detail.flow_status = status_out(*status).into();
            (
                Code::AlreadyExists,
                SubStatus::FlowAlreadyStarted,
                format!("this Flow ID is in use by run {run_id} and the reuse policy refuses another start"),
            )
        }
        CallError::NotFound => {
            (Code::NotFound, SubStatus::FlowNotExisting, "there is no such Flow or run".to_owned())
        }
        CallError::NotActive { status } => {
            detail.flow_status = status_out(*status).into();
            (
                Code::FailedPrecondition,
                SubStatus::FlowNotActive,
                format!("the run is closed ({})", status_out(*status).as_str_name()),
            )
        }
        CallError::Closing => (
            Code::FailedPrecondition,
            SubStatus::FlowClosing,
            "the Flow is closing: a stop was requested and running Steps are being cancelled".to_owned(),
        ),
        CallError::LongPollTimeout => (
            Code::DeadlineExceeded,
            SubStatus::LongPollTimeout,
            "the wait ended before what was waited for happened; the Flow is untouched, ask again".to_owned(),
        ),
        CallError::MessageNotFound { message } => (
            Code::NotFound,
            SubStatus::ChannelMessageNotFound,
            format!("the message {message} was consumed or deleted, or never existed"),
        ),
        CallError::TimerNotFound => {
            (Code::NotFound, SubStatus::TimerNotFound, "the Step waits and has no such timer".to_owned())
        }
        CallError::StepNotCompleted => (
            Code::FailedPrecondition,
            SubStatus::StepNotCompleted,
            "the Step execution ended, or can no longer begin, without completing".to_owned(),
        ),
        CallError::LimitExceeded { limit } => {
            detail.field = limit.to_string();
            (Code::ResourceExhausted, SubStatus::LimitExceeded, format!("limit exceeded: {limit}"))
        }
        CallError::Unavailable => (
            Code::Unavailable,
            SubStatus::Uncategorised,
            "this process does not serve; repeat the call with the same request ID".to_owned(),
        ),
        CallError::RequestIdReused => (
            Code::FailedPrecondition,
            SubStatus::RequestIdReused,
            "this request ID was used for a different kind of call: use a new one".to_owned(),
        ),
        CallError::Internal { detail } => {
            (Code::Internal, SubStatus::Uncategorised, format!("a fault of the server: {detail}"))
        }
    };
    detail.sub_status = sub_status.into();
    Status::with_details(code, message, detail.encode_to_vec().into())
}

/// The status of a stream that broke the protocol: the same words as its last frame.
pub(super) fn refused_stream(code: Code, message: &str) -> Status {
    let field = message.split_once(": ").map_or("frames", |(field, _)| field);
    let sub_status =
        if code == Code::ResourceExhausted { SubStatus::LimitExceeded } else { SubStatus::InvalidArgument };
    let detail =
        ErrorDetail { sub_status: sub_status.into(), field: field.to_owned(), ..ErrorDetail::default() };
    Status::with_details(code, message, detail.encode_to_vec().into())
}

/// Passes the gate, or not: the last thing before an answer is handed to the transport (D-47, HA-71).
/// While the lease is in doubt the answer is held (D-1).
pub(super) async fn pass<B: Backend>(backend: &B, opened_in: Period) -> Result<(), Status> {
    loop {
        match backend.look(opened_in) {
            GateView::Open => return Ok(()),
            GateView::Shut => return Err(unavailable()),
            GateView::Doubt => tokio::time::sleep(DOUBT_LOOK_INTERVAL).await,
        }
    }
}
