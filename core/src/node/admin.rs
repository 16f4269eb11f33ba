//! What `AdminService` asks a node, and what it gets (HA-87 to HA-113, D-17, D-20, D-38).

use core::fmt;

use minicbor::{Decode, Encode};

use crate::ids::{Epoch, Name, ProcessId};
use crate::lease::UnknownHolder;
use crate::stop::StopReason;

/// A call of `AdminService`. The shell has checked the credential and the arguments (D-20).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum AdminRequest {
    /// Who serves? Changes nothing (HA-112).
    #[n(0)]
    Describe,
    /// Give the lease to another process; only if both are as expected (HA-88).
    #[n(1)]
    StepDown {
        /// The expected node.
        #[n(0)]
        node_id: Name,
        /// The expected tenure.
        #[n(1)]
        epoch: Epoch,
    },
}

/// What such a call gets.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum AdminAnswer {
    /// To `Describe`.
    #[n(0)]
    Described {
        /// The node.
        #[n(0)]
        node_id: Name,
        /// The present tenure.
        #[n(1)]
        epoch: Epoch,
        /// The process that serves.
        #[n(2)]
        holder: ProcessId,
    },
    /// To `StepDown`, once it is known who holds the lease now, or that it is not (HA-101, HA-102).
    #[n(1)]
    SteppedDown {
        /// The node.
        #[n(0)]
        node_id: Name,
        /// The tenure that is over.
        #[n(1)]
        released_epoch: Epoch,
        /// For how long this process did not compete, in milliseconds (HA-44).
        #[n(2)]
        hold_off_ms: u64,
        /// Who holds the lease now.
        #[n(3)]
        outcome: StepDownOutcome,
    },
}

/// Who holds the lease after a step down (HA-125).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum StepDownOutcome {
    /// `takenOverByAnotherProcess`.
    #[n(0)]
    TakenOver {
        /// Who holds it; `None` if that process has already given it back (D-38).
        #[n(0)]
        active: Option<ActiveProcess>,
    },
    /// `takenBackByThisProcess`: taken, not recovered yet (D-38).
    #[n(1)]
    TakenBack {
        /// This process in its new tenure.
        #[n(0)]
        active: ActiveProcess,
    },
    /// `unknown`: neither was confirmed.
    #[n(2)]
    Unknown {
        /// Why.
        #[n(0)]
        detail: UnknownHolder,
    },
}

/// The holder of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ActiveProcess {
    /// Its tenure.
    #[n(0)]
    pub epoch: Epoch,
    /// The process.
    #[n(1)]
    pub holder: ProcessId,
}

/// A refusal, or an end without an outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct AdminError {
    /// The status of the call.
    #[n(0)]
    pub code: AdminCode,
    /// Why.
    #[n(1)]
    pub reason: AdminReason,
}

impl AdminError {
    pub(super) const fn failed_precondition(reason: AdminReason) -> Self {
        Self { code: AdminCode::FailedPrecondition, reason }
    }

    pub(super) const fn unavailable(reason: AdminReason) -> Self {
        Self { code: AdminCode::Unavailable, reason }
    }

    pub(super) const fn internal(reason: AdminReason) -> Self {
        Self { code: AdminCode::Internal, reason }
    }
}

/// The status of a call that was not answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum AdminCode {
    /// `FAILED_PRECONDITION`: nothing was changed by this call.
    #[n(0)]
    FailedPrecondition,
    /// `UNAVAILABLE`.
    #[n(1)]
    Unavailable,
    /// `INTERNAL`: the step down ended without another process taking over (HA-106), or the release was
    /// denied (D-37).
    #[n(2)]
    Internal,
}

/// Why a call was refused, or ended without an outcome.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum AdminReason {
    /// This process stands by.
    #[n(0)]
    Standby,
    /// This process has the lease and does not serve yet.
    #[n(1)]
    TakingOver,
    /// This process steps down or is in its hold-off (HA-113).
    #[n(2)]
    SteppingDown,
    /// This process shuts down (D-20).
    #[n(3)]
    ShuttingDown,
    /// This process's lease has ended (D-17).
    #[n(4)]
    LeaseEnded,
    /// This process has to prove its lease anew first (D-1).
    #[n(5)]
    LeaseInDoubt,
    /// The connection was opened before this process took its present role (HA-109, D-16).
    #[n(6)]
    OldConnection,
    /// The expected node id is not this one (HA-88).
    #[n(7)]
    OtherNode,
    /// The expected epoch is not the present one (HA-88).
    #[n(8)]
    OtherEpoch {
        /// The present one.
        #[n(0)]
        present: Epoch,
    },
    /// The process ended, for this reason, before it was known who holds the lease.
    #[n(9)]
    Ended(#[n(0)] StopReason),
}

impl fmt::Display for AdminReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standby => formatter.write_str("this process is a standby"),
            Self::TakingOver => formatter.write_str("this process has not finished taking over"),
            Self::SteppingDown => formatter.write_str("this process is stepping down or in its hold-off"),
            Self::ShuttingDown => formatter.write_str("this process is shutting down"),
            Self::LeaseEnded => formatter.write_str("this process's lease has ended"),
            Self::LeaseInDoubt => formatter.write_str("this process is proving its lease anew"),
            Self::OldConnection => {
                formatter.write_str("the connection was opened before this process took its present role")
            }
            Self::OtherNode => formatter.write_str("the node id is another one"),
            Self::OtherEpoch { present } => write!(formatter, "the node epoch is {present}"),
            Self::Ended(reason) => {
                write!(formatter, "the process ended before the outcome was known: {reason}")
            }
        }
    }
}
