//! What can go wrong with a call, and what to do about it.

use std::time::Duration;

use dexzd_proto as proto;
use prost::Message as _;
use proto::SubStatus;
use tonic::{Code, Status};

use dexzd_connection::{AddressError, CredentialError, TargetError};

use crate::address::ProtocolError;
use crate::client::result::{FlowError, FlowStatus};
use crate::value::ValueError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody answers there.
    #[error(
        "cannot connect to the server at {address}: {message}. Is it running? `dexcli dev` starts one; \
         DEX_FLOW_SERVICE_ADDRESS names another address"
    )]
    Connect {
        /// The server's address.
        address: String,
        /// What the operating system said.
        message: String,
    },
    /// A token or a file of TLS cannot be used.
    #[error(transparent)]
    Target(TargetError),
    /// The credential file cannot be used: nothing was sent.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The server does not know the credential, or it does not open this call.
    #[error(
        "{operation}: the server at {address} refuses {} ({code:?}): {message}",
        if *.code == Code::Unauthenticated { "the credential, or wants one" } else { "this to the credential" }
    )]
    NotPermitted {
        /// The call.
        operation: &'static str,
        /// The server's address.
        address: String,
        /// UNAUTHENTICATED or PERMISSION_DENIED.
        code: Code,
        /// What the server said.
        message: String,
    },
    /// Library and server are too far apart.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The server did not serve until the call's deadline. Whether a change was made is unknown; repeating
    /// the call with the same request ID is safe.
    #[error("{operation}: the server at {address} was unavailable for {waited:?} (last: {message})")]
    Unavailable {
        /// The call.
        operation: &'static str,
        /// The server's address.
        address: String,
        /// How long the library tried.
        waited: Duration,
        /// The last answer.
        message: String,
    },
    /// No answer came until the call's deadline. Whether a change was made is unknown; repeating the call
    /// with the same request ID is safe.
    #[error("{operation}: the server at {address} did not answer within {waited:?}")]
    DeadlineExceeded {
        /// The call.
        operation: &'static str,
        /// The server's address.
        address: String,
        /// How long the library waited.
        waited: Duration,
    },
    /// The Flow ID is in use, and the reuse policy says no.
    #[error(
        "the Flow ID {flow_id:?} is in use by run {run_id}: choose another ID, or an IdReusePolicy that allows it"
    )]
    AlreadyStarted {
        /// The Flow ID.
        flow_id: String,
        /// The run that has it.
        run_id: String,
    },
    /// There is no such Flow or run.
    #[error("there is no Flow {flow_id:?} (it may have been deleted after its retention period)")]
    NotFound {
        /// The Flow ID.
        flow_id: String,
    },
    /// The Flow has been closed.
    #[error("the Flow {flow_id:?} is {status} and takes no changes")]
    NotActive {
        /// The Flow ID.
        flow_id: String,
        /// How it ended.
        status: FlowStatus,
    },
    /// The Flow is about to close.
    #[error("the Flow {flow_id:?} is closing and takes no changes")]
    Closing {
        /// The Flow ID.
        flow_id: String,
    },
    /// What was waited for has not happened within the limit. The Flow is untouched.
    #[error("{operation}: it has not happened within {waited:?}")]
    LongPollTimeout {
        /// The call.
        operation: &'static str,
        /// The limit.
        waited: Duration,
    },
    /// The Flow closed before the Step execution completed.
    #[error("the Flow {flow_id:?} closed before that Step execution completed")]
    StepNotCompleted {
        /// The Flow ID.
        flow_id: String,
    },
    /// The message is not there: consumed, deleted, or never published.
    #[error("{message}")]
    MessageNotFound {
        /// What the server said.
        message: String,
    },
    /// The Wait has no such timer.
    #[error("{message}")]
    TimerNotFound {
        /// What the server said.
        message: String,
    },
    /// The request ID was used for another call.
    #[error("the request ID was used before for something else: {message}")]
    RequestIdReused {
        /// What the server said.
        message: String,
    },
    /// A field of the request breaks a rule.
    #[error("{message}")]
    InvalidArgument {
        /// The field, as the server names it.
        field: String,
        /// The value, the rule, and what to do.
        message: String,
    },
    /// A limit of the server is reached.
    #[error("{message}")]
    LimitExceeded {
        /// The field or thing that is too large.
        field: String,
        /// The limit, and what to do.
        message: String,
    },
    /// [`Client::result`](crate::Client::result): the Flow did not complete.
    #[error("the Flow {flow_id:?} {status}{}", .error.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
    FlowNotCompleted {
        /// The Flow ID.
        flow_id: String,
        /// How it ended.
        status: FlowStatus,
        /// Why, if it failed.
        error: Option<FlowError>,
    },
    /// [`Client::result`](crate::Client::result): the Flow has several outputs.
    #[error("the Flow {flow_id:?} completed with {count} outputs: read them from wait_for_flow")]
    SeveralOutputs {
        /// The Flow ID.
        flow_id: String,
        /// How many there are.
        count: usize,
    },
    /// A value cannot be written or read as its type.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Anything else.
    #[error("{operation} failed ({code:?}): {message}")]
    Other {
        /// The call.
        operation: &'static str,
        /// The gRPC code.
        code: Code,
        /// What the server said.
        message: String,
    },
}

impl From<TargetError> for ClientError {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Address(error) => Self::Address(error),
            error @ (TargetError::Token(_)
            | TargetError::Material(_)
            | TargetError::ServerName(_)
            | TargetError::PlainAddress(_)) => Self::Target(error),
        }
    }
}

impl ClientError {
    /// What a status says about the credential, if it is about that.
    pub(crate) fn of_credential(operation: &'static str, address: &str, status: &Status) -> Option<Self> {
        if let Some(error) = credential_error(status) {
            return Some(Self::Credential(error.clone()));
        }
        matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied).then(|| Self::NotPermitted {
            operation,
            address: address.to_owned(),
            code: status.code(),
            message: status.message().to_owned(),
        })
    }

    /// Reads a status that is not OK and not worth a repetition.
    pub(crate) fn from_status(operation: &'static str, flow_id: &str, status: &Status) -> Self {
        let message = status.message().to_owned();
        let flow_id = flow_id.to_owned();
        let detail = if status.details().is_empty() {
            proto::ErrorDetail::default()
        } else {
            proto::ErrorDetail::decode(status.details()).unwrap_or_default()
        };
        match detail.sub_status() {
            SubStatus::FlowAlreadyStarted => Self::AlreadyStarted { flow_id, run_id: detail.run_id },
            SubStatus::FlowNotExisting => Self::NotFound { flow_id },
            SubStatus::FlowNotActive => Self::NotActive { flow_id, status: detail.flow_status().into() },
            SubStatus::FlowClosing => Self::Closing { flow_id },
            SubStatus::StepNotCompleted => Self::StepNotCompleted { flow_id },
            SubStatus::ChannelMessageNotFound => Self::MessageNotFound { message },
            SubStatus::TimerNotFound => Self::TimerNotFound { message },
            SubStatus::RequestIdReused => Self::RequestIdReused { message },
            SubStatus::LimitExceeded => Self::LimitExceeded { field: detail.field, message },
            SubStatus::InvalidArgument => Self::InvalidArgument { field: detail.field, message },
            SubStatus::Uncategorised
            | SubStatus::WorkerError
            | SubStatus::LongPollTimeout
            | SubStatus::RequestTimeout => Self::Other { operation, code: status.code(), message },
        }
    }
}

/// The call was not sent, for its credential could not be read.
pub(crate) fn credential_error(status: &Status) -> Option<&CredentialError> {
    std::error::Error::source(status).and_then(|source| source.downcast_ref())
}

/// Whether the server says that a bounded wait is over.
pub(crate) fn is_long_poll_timeout(status: &Status) -> bool {
    !status.details().is_empty()
        && proto::ErrorDetail::decode(status.details())
            .is_ok_and(|detail| detail.sub_status() == SubStatus::LongPollTimeout)
}

/// Whether the same call may succeed on another try: the server does not serve, or the connection broke
/// before an answer came (such a status carries its cause; one from the server does not).
pub(crate) fn is_transient(status: &Status) -> bool {
    status.code() == Code::Unavailable
        || (std::error::Error::source(status).is_some() && credential_error(status).is_none())
}
