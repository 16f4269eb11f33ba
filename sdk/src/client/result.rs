//! What clients are told about Flows.

use std::fmt;
use std::time::{Duration, SystemTime};

use dexzd_proto as proto;
use serde::de::DeserializeOwned;

use crate::context::StepExecutionId;
use crate::value::{self, ValueError};

/// The status of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlowStatus {
    /// Open.
    Running,
    /// Closed, with outputs.
    Completed,
    /// Closed by an error.
    Failed,
    /// Closed on request, cooperatively.
    Canceled,
    /// Closed on request, at once.
    Terminated,
    /// This library is older than the server.
    Unknown,
}

impl From<proto::FlowStatus> for FlowStatus {
    fn from(status: proto::FlowStatus) -> Self {
        match status {
            proto::FlowStatus::Unspecified => Self::Unknown,
            proto::FlowStatus::Running => Self::Running,
            proto::FlowStatus::Completed => Self::Completed,
            proto::FlowStatus::Failed => Self::Failed,
            proto::FlowStatus::Canceled => Self::Canceled,
            proto::FlowStatus::Terminated => Self::Terminated,
        }
    }
}

impl fmt::Display for FlowStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Terminated => "terminated",
            Self::Unknown => "in a state that this library does not know",
        })
    }
}

/// What made a Flow fail.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorCategory {
    /// A Step decided so.
    StepDecision,
    /// A client stopped it with FAIL.
    ClientApi,
    /// A Step method failed for good and had no recovery.
    WorkerFailure,
    /// Its definition is wrong: for example a recovery Step that does not exist.
    InvalidDefinition,
    /// Its timeout.
    FlowTimeout,
    /// The server.
    Internal,
    /// This library is older than the server.
    Unknown,
}

/// Why a Flow failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowError {
    /// What made it fail.
    pub category: ErrorCategory,
    /// The error type, as the handler named it.
    pub error_type: String,
    /// For people.
    pub text: String,
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error_type.as_str() {
            "" => f.write_str(&self.text),
            error_type => write!(f, "{error_type}: {}", self.text),
        }
    }
}

impl From<proto::FlowError> for FlowError {
    fn from(error: proto::FlowError) -> Self {
        let category = match error.category() {
            proto::ErrorCategory::Unspecified => ErrorCategory::Unknown,
            proto::ErrorCategory::StepDecision => ErrorCategory::StepDecision,
            proto::ErrorCategory::ClientApi => ErrorCategory::ClientApi,
            proto::ErrorCategory::WorkerFailure => ErrorCategory::WorkerFailure,
            proto::ErrorCategory::InvalidDefinition => ErrorCategory::InvalidDefinition,
            proto::ErrorCategory::FlowTimeout => ErrorCategory::FlowTimeout,
            proto::ErrorCategory::Internal => ErrorCategory::Internal,
        };
        Self { category, error_type: error.error_type, text: error.text }
    }
}

/// How a Flow ended.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowResult {
    /// Which run.
    pub run_id: String,
    /// How.
    pub status: FlowStatus,
    /// One for each Step that completed with an output.
    pub outputs: Vec<FlowOutput>,
    /// If it failed.
    pub error: Option<FlowError>,
}

/// One output of a Flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowOutput {
    /// The Step execution it comes from.
    pub step: StepExecutionId,
    value: Option<proto::Value>,
}

impl FlowOutput {
    /// The output as its type.
    ///
    /// # Errors
    /// It is something else.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        value::decode(self.value.as_ref())
    }
}

impl From<proto::FlowResult> for FlowResult {
    fn from(result: proto::FlowResult) -> Self {
        Self {
            status: result.status().into(),
            run_id: result.run_id,
            outputs: result.outputs.into_iter().map(FlowOutput::from).collect(),
            error: result.error.map(FlowError::from),
        }
    }
}

impl From<proto::FlowOutput> for FlowOutput {
    fn from(output: proto::FlowOutput) -> Self {
        Self { step: output.step.unwrap_or_default().into(), value: output.value }
    }
}

impl From<proto::StepExecutionId> for StepExecutionId {
    fn from(step: proto::StepExecutionId) -> Self {
        Self { step_type: step.step_type, number: step.number }
    }
}

/// A run at a glance.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSummary {
    /// The Flow's ID.
    pub flow_id: String,
    /// Which run.
    pub run_id: String,
    /// The Flow type.
    pub flow_type: String,
    /// Its status.
    pub status: FlowStatus,
    /// When it was started.
    pub started: SystemTime,
    /// When it was closed.
    pub closed: Option<SystemTime>,
    /// Whether a cooperative stop is under way.
    pub is_closing: bool,
    /// The types of its active Steps.
    pub active_step_types: Vec<String>,
    /// If it failed.
    pub error: Option<FlowError>,
}

impl From<proto::FlowSummary> for FlowSummary {
    fn from(summary: proto::FlowSummary) -> Self {
        Self {
            status: summary.status().into(),
            flow_id: summary.flow_id,
            run_id: summary.run_id,
            flow_type: summary.flow_type,
            started: unix_time(summary.start_unix_ms),
            closed: summary.close_unix_ms.map(unix_time),
            is_closing: summary.closing,
            active_step_types: summary.active_step_types,
            error: summary.error.map(FlowError::from),
        }
    }
}

fn unix_time(unix_ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(unix_ms).unwrap_or(0))
}
