//! What a node tells people, and why it wants to be called.

use minicbor::{Decode, Encode};

use super::admin::StepDownOutcome;
use super::connections::Period;
use super::role::Role;
use crate::ids::Epoch;
use crate::lease::{CandidateEvent, HolderEvent, LeaseTimer, ReleaseOutcome};
use crate::standby::FollowerState;
use crate::stop::StopReason;

/// Typed events: log lines, metrics, health and simulator traces are made from them.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum NodeEvent {
    /// The process is in this role from now on; health names follow [`Node::health`](super::Node::health).
    #[n(0)]
    RoleChanged {
        /// The role.
        #[n(0)]
        role: Role,
        /// The tenure, where one is held or was.
        #[n(1)]
        epoch: Option<Epoch>,
        /// The period that this role belongs to (D-16).
        #[n(2)]
        period: Period,
    },
    /// About the wait for the lease.
    #[n(1)]
    Candidate(#[n(0)] CandidateEvent),
    /// About the lease that is held.
    #[n(2)]
    Holder(#[n(0)] HolderEvent),
    /// The release is over.
    #[n(3)]
    ReleaseEnded(#[n(0)] ReleaseOutcome),
    /// The process stops, and this is why.
    #[n(4)]
    Stopping {
        /// Also a metric label (D-32).
        #[n(0)]
        reason: StopReason,
    },
    /// A step down was accepted: the drain begins (HA-89).
    #[n(5)]
    SteppingDown {
        /// The tenure that ends.
        #[n(0)]
        epoch: Epoch,
    },
    /// It is known who holds the lease after the step down, or that it is not.
    #[n(6)]
    SteppedDown(#[n(0)] StepDownOutcome),
    /// The follower of this hot standby changed its state (HA-82).
    #[n(7)]
    Follower(#[n(0)] FollowerState),
}

/// Why `node` wants to be called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum NodeTimer {
    /// A lease machine.
    #[n(0)]
    Lease(#[n(0)] LeaseTimer),
    /// `lifecycle.attemptDrainTimeout` is over.
    #[n(1)]
    Drain,
    /// The grace after the interrupt is over (D-21).
    #[n(2)]
    Grace,
    /// The commit drain is over (D-18).
    #[n(3)]
    Commit,
    /// The engine was given long enough to close (D-37).
    #[n(4)]
    Close,
    /// The engine is silent for too long (D-54).
    #[n(5)]
    EngineStall,
    /// Whoever wrote the higher epoch is gone (D-55).
    #[n(6)]
    Outwait,
    /// The process that stepped down may compete again (HA-99).
    #[n(7)]
    HoldOff,
    /// The ended tenure's store was given long enough to close (HA-105).
    #[n(8)]
    StoreClosing,
}
