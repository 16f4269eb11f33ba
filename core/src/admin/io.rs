//! What crosses the border of an admin command.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::ids::{Epoch, Name, ProcessId};
use crate::node::{ActiveProcess, StepDownOutcome};

/// What the person asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// `dexcli admin describe`.
    Describe,
    /// `dexcli admin step-down`.
    StepDown(StepDownFlags),
}

/// The flags of `dexcli admin step-down`, as typed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StepDownFlags {
    /// `--yes` (HA-116).
    pub yes: bool,
    /// `--expected-node-id` (HA-118).
    pub expected_node_id: Option<Name>,
    /// The text of `--expected-node-epoch` (HA-119, HA-120).
    pub expected_node_epoch: Option<Name>,
}

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Input {
    /// The describe call ended.
    #[n(0)]
    Described(#[n(0)] Result<Described, CallFailure>),
    /// The step-down call ended.
    #[n(1)]
    SteppedDown(#[n(0)] Result<StepDownReport, CallFailure>),
    /// Ctrl+C.
    #[n(2)]
    Interrupted,
    /// Time has passed.
    #[n(3)]
    Tick,
}

/// What describe answers (HA-112).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Described {
    /// `nodeId`.
    #[n(0)]
    pub node_id: Name,
    /// `nodeEpoch`.
    #[n(1)]
    pub epoch: Epoch,
    /// `holderProcessId`.
    #[n(2)]
    pub holder: ProcessId,
}

/// What a step down answers.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct StepDownReport {
    /// `nodeId`.
    #[n(0)]
    pub node_id: Name,
    /// `releasedNodeEpoch`.
    #[n(1)]
    pub released_epoch: Epoch,
    /// `leaseReacquisitionHoldOff`, in milliseconds.
    #[n(2)]
    pub hold_off_ms: u64,
    /// `leaseHolderAfterStepDown`, and what is known about it.
    #[n(3)]
    pub holder: LeaseHolder,
}

/// Who holds the lease after a step down (HA-125).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum LeaseHolder {
    /// `takenOverByAnotherProcess`.
    #[n(0)]
    TakenOver {
        /// Who, when known.
        #[n(0)]
        active: Option<ActiveProcess>,
    },
    /// `takenBackByThisProcess`.
    #[n(1)]
    TakenBack {
        /// Its new tenure, when known.
        #[n(0)]
        active: Option<ActiveProcess>,
    },
    /// `unknown`.
    #[n(2)]
    Unknown {
        /// `leaseHolderUnknownDetail`: the server's words.
        #[n(0)]
        detail: Name,
    },
}

impl From<StepDownOutcome> for LeaseHolder {
    fn from(outcome: StepDownOutcome) -> Self {
        match outcome {
            StepDownOutcome::TakenOver { active } => Self::TakenOver { active },
            StepDownOutcome::TakenBack { active } => Self::TakenBack { active: Some(active) },
            StepDownOutcome::Unknown { detail } => Self::Unknown { detail: Name::new(&detail.to_string()) },
        }
    }
}

/// A call that was not answered with a result.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct CallFailure {
    /// Its status.
    #[n(0)]
    pub code: Code,
    /// The server's words, or the transport's.
    #[n(1)]
    pub message: Name,
}

/// The statuses of gRPC, but OK.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
#[expect(missing_docs, reason = "they are gRPC's own words")]
pub enum Code {
    #[n(1)]
    Cancelled,
    #[n(2)]
    Unknown,
    #[n(3)]
    InvalidArgument,
    #[n(4)]
    DeadlineExceeded,
    #[n(5)]
    NotFound,
    #[n(6)]
    AlreadyExists,
    #[n(7)]
    PermissionDenied,
    #[n(8)]
    ResourceExhausted,
    #[n(9)]
    FailedPrecondition,
    #[n(10)]
    Aborted,
    #[n(11)]
    OutOfRange,
    #[n(12)]
    Unimplemented,
    #[n(13)]
    Internal,
    #[n(14)]
    Unavailable,
    #[n(15)]
    DataLoss,
    #[n(16)]
    Unauthenticated,
}

impl Code {
    /// Every status.
    pub const ALL: [Self; 16] = [
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// Whether a step-down call that ended so may have had an effect (HA-127). `Unknown` is what a
    /// transport makes of a connection that broke under the call.
    #[must_use]
    pub const fn leaves_outcome_unknown(self) -> bool {
        match self {
            Self::Cancelled | Self::Unknown | Self::DeadlineExceeded | Self::Unavailable => true,
            Self::InvalidArgument
            | Self::NotFound
            | Self::AlreadyExists
            | Self::PermissionDenied
            | Self::ResourceExhausted
            | Self::FailedPrecondition
            | Self::Aborted
            | Self::OutOfRange
            | Self::Unimplemented
            | Self::Internal
            | Self::DataLoss
            | Self::Unauthenticated => false,
        }
    }
}

/// What the program must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Call describe; its end is `Input::Described`.
    Describe,
    /// Call step down with exactly this precondition; its end is `Input::SteppedDown`. Never repeated.
    StepDown {
        /// The expected node.
        node_id: Name,
        /// The expected tenure.
        epoch: Epoch,
    },
    /// Print and end. Nothing follows.
    Done(Ending),
}

/// How the command ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// The result for stdout: names and texts, in this order. Epochs are texts (HA-126).
    pub fields: Vec<(&'static str, String)>,
    /// For stderr.
    pub failure: Option<Failure>,
}

impl Ending {
    /// 0: done. 1: failed, or its outcome is unknown. 2: usage.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.failure.as_ref().map(|failure| failure.kind) {
            None => 0,
            Some(FailureKind::Usage) => 2,
            Some(
                FailureKind::NodeMismatch
                | FailureKind::Timeout
                | FailureKind::Interrupted
                | FailureKind::Request,
            ) => 1,
        }
    }
}

/// What went wrong, as `kind` in the error object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureKind {
    /// The command line; nothing was sent.
    Usage,
    /// The server is of another node (HA-118); nothing was stepped down.
    NodeMismatch,
    /// The command's own time is over.
    Timeout,
    /// Ctrl+C.
    Interrupted,
    /// A call failed.
    Request,
}

/// Why a command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// In a sentence.
    pub message: String,
    /// What the reader can do about it.
    pub hint: Option<String>,
    /// `grpcCode`, where a call failed or was given up.
    pub code: Option<Code>,
    /// `"outcome":"unknown"` (HA-127).
    pub is_outcome_unknown: bool,
    /// `expectedNodeId` and `expectedNodeEpoch` of the step-down call that was sent; a retry repeats them.
    pub expected: Option<(Name, Epoch)>,
}

impl Failure {
    /// What belongs into the error object beside message, hint and status, in this order.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        if self.is_outcome_unknown {
            fields.push(("outcome", String::from("unknown")));
        }
        if let Some((node_id, epoch)) = &self.expected {
            fields.push(("expectedNodeId", node_id.to_string()));
            fields.push(("expectedNodeEpoch", format!("{epoch}")));
        }
        fields
    }
}

/// Why a command wants to be called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AdminTimer {
    /// Its time is over (HA-122).
    Deadline,
}
