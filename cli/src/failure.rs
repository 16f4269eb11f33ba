//! Why a command failed, for programs (JSON) and for people (sentences).

use dexzd_proto::{ErrorDetail, FlowStatus, SubStatus};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::render;

/// What went wrong, as `kind` in the JSON error object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The command line itself; exit code 2.
    Usage,
    /// No server answered.
    Connection,
    /// The command's own time limit passed; what was asked may still happen.
    Timeout,
    /// The server answered with an error.
    Request,
    /// The server answers, but does not serve.
    NotServing,
    /// The server speaks another protocol version.
    Incompatible,
    /// `flow start --wait`: the Flow closed, but did not complete.
    FlowNotCompleted,
    /// `admin step-down`: the server is of another node; nothing was stepped down.
    NodeMismatch,
    /// Ctrl+C.
    Interrupted,
    /// This machine: a file, a port, a process.
    Io,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Request => "request",
            Self::NotServing => "notServing",
            Self::Incompatible => "incompatible",
            Self::FlowNotCompleted => "flowNotCompleted",
            Self::NodeMismatch => "nodeMismatch",
            Self::Interrupted => "interrupted",
            Self::Io => "io",
        }
    }
}

/// One failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    operation: String,
    message: String,
    hint: Option<String>,
    code: Option<Code>,
    /// What a program needs to go on, beside what every error has: names and texts.
    facts: Vec<(&'static str, String)>,
    /// Boxed, so that results stay small.
    details: Option<Box<Value>>,
}

impl Failure {
    pub(crate) fn new(kind: Kind, operation: &str, message: String) -> Self {
        Self {
            kind,
            operation: operation.to_owned(),
            message,
            hint: None,
            code: None,
            facts: Vec::new(),
            details: None,
        }
    }

    /// What the reader can do about it.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The status of the call that failed, or was given up.
    pub(crate) fn with_code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Further fields of the error object.
    pub(crate) fn with_facts(mut self, facts: Vec<(&'static str, String)>) -> Self {
        self.facts = facts;
        self
    }

    /// Whether no server answered.
    pub(crate) fn is_connection(&self) -> bool {
        self.kind == Kind::Connection
    }

    /// In a sentence.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The server's answer to `operation`.
    pub(crate) fn from_status(operation: &str, server: &str, status: &Status) -> Self {
        let details = error_detail(status);
        let hint = hint(server, status, details.as_ref());
        Self {
            kind: Kind::Request,
            operation: operation.to_owned(),
            message: status.message().to_owned(),
            hint,
            code: Some(status.code()),
            facts: Vec::new(),
            details: details.as_ref().map(|detail| Box::new(detail_json(detail))),
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::Connection
            | Kind::Timeout
            | Kind::Request
            | Kind::NotServing
            | Kind::Incompatible
            | Kind::FlowNotCompleted
            | Kind::NodeMismatch
            | Kind::Interrupted
            | Kind::Io => 1,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let mut object = json!({
            "kind": self.kind.name(),
            "operation": self.operation,
            "message": self.message,
        });
        if let Some(code) = self.code {
            object["grpcCode"] = json!(code as i32);
            object["grpcCodeName"] = json!(code_name(code));
        }
        for (name, text) in &self.facts {
            object[*name] = json!(text);
        }
        if let Some(details) = &self.details {
            object["details"] = Value::clone(details);
        }
        if let Some(hint) = &self.hint {
            object["hint"] = json!(hint);
        }
        object
    }

    pub(crate) fn sentence(&self) -> String {
        let mut text = format!("dexcli {}: {}", self.operation, self.message);
        if let Some(code) = self.code {
            text.push_str(&format!(" ({})", code_name(code)));
        }
        for (name, fact) in &self.facts {
            text.push_str(&format!("\n  {name}: {fact}"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n  {hint}"));
        }
        text
    }
}

/// The detail that the server attaches to every error; absent if something between us made the error.
pub(crate) fn error_detail(status: &Status) -> Option<ErrorDetail> {
    if status.details().is_empty() {
        return None;
    }
    ErrorDetail::decode(status.details()).ok()
}

fn detail_json(detail: &ErrorDetail) -> Value {
    let mut object = json!({ "subStatus": sub_status_name(detail.sub_status()) });
    if !detail.field.is_empty() {
        object["field"] = json!(detail.field);
    }
    if !detail.run_id.is_empty() {
        object["runId"] = json!(detail.run_id);
    }
    if detail.flow_status() != FlowStatus::Unspecified {
        object["flowStatus"] = json!(render::status_name(detail.flow_status));
    }
    object
}

/// What to do about a refused credential.
pub(crate) fn credential_hint(code: Code) -> Option<&'static str> {
    if code == Code::Unauthenticated {
        return Some(
            "--credential-file (or DEX_CREDENTIAL_FILE) names a file with a token that the server knows.",
        );
    }
    (code == Code::PermissionDenied).then_some(
        "Admin commands need a token of the server's authentication.adminTokenFile, all others one of its \
         clientTokenFile: --credential-file names the file with it.",
    )
}

fn hint(server: &str, status: &Status, detail: Option<&ErrorDetail>) -> Option<String> {
    if status.code() == Code::Unavailable {
        return Some(format!(
            "The server at {server} does not serve at the moment: `dexcli health` says more. \
             Repeating the command with the same --request-id is safe."
        ));
    }
    if let Some(hint) = credential_hint(status.code()) {
        return Some(hint.to_owned());
    }
    let detail = detail?;
    match detail.sub_status() {
        SubStatus::FlowNotExisting => Some("`dexcli flow search` lists the Flows that exist.".to_owned()),
        SubStatus::FlowAlreadyStarted => Some(
            "Choose another --id, or say with --id-reuse-policy when the ID may be used again.".to_owned(),
        ),
        SubStatus::FlowNotActive => {
            Some("The run is closed: `dexcli flow summary` shows how it ended.".to_owned())
        }
        SubStatus::TimerNotFound => Some("`dexcli flow state` lists the Steps and their timers.".to_owned()),
        SubStatus::RequestIdReused => {
            Some("Each different request needs a --request-id of its own.".to_owned())
        }
        SubStatus::Uncategorised
        | SubStatus::WorkerError
        | SubStatus::LongPollTimeout
        | SubStatus::ChannelMessageNotFound
        | SubStatus::RequestTimeout
        | SubStatus::FlowClosing
        | SubStatus::StepNotCompleted
        | SubStatus::LimitExceeded
        | SubStatus::InvalidArgument => None,
    }
}

fn sub_status_name(sub_status: SubStatus) -> &'static str {
    match sub_status {
        SubStatus::Uncategorised => "uncategorised",
        SubStatus::FlowAlreadyStarted => "flowAlreadyStarted",
        SubStatus::FlowNotExisting => "flowNotExisting",
        SubStatus::FlowNotActive => "flowNotActive",
        SubStatus::WorkerError => "workerError",
        SubStatus::LongPollTimeout => "longPollTimeout",
        SubStatus::ChannelMessageNotFound => "channelMessageNotFound",
        SubStatus::RequestTimeout => "requestTimeout",
        SubStatus::FlowClosing => "flowClosing",
        SubStatus::TimerNotFound => "timerNotFound",
        SubStatus::StepNotCompleted => "stepNotCompleted",
        SubStatus::LimitExceeded => "limitExceeded",
        SubStatus::InvalidArgument => "invalidArgument",
        SubStatus::RequestIdReused => "requestIdReused",
    }
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
