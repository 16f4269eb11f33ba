//! What crosses the border of `node`.

use core::time::Duration;

use minicbor::{Decode, Encode};

use super::role::Role;
use crate::engine::{NodeOrder, NodeReport};
use crate::gate::GateOrder;
use crate::ids::{Epoch, Name, Position, ProcessId, RequestId};
use crate::lease::{
    CandidateConfig, CandidateEvent, HolderEvent, LeaseDuration, LeaseInput, LeaseOperation, LeaseTimer,
    ReleaseOutcome,
};
use crate::stop::StopReason;
use crate::time::Instant;

/// What a process is told at its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeConfig {
    /// `nodeId`.
    pub node_id: Name,
    /// Drawn at the start of the process (D-12).
    pub process_id: ProcessId,
    /// `lease.duration`.
    pub lease_duration: LeaseDuration,
    /// What it may do without waiting.
    pub candidate: CandidateConfig,
    /// `lifecycle.attemptDrainTimeout` (HA-90).
    pub attempt_drain_timeout: Duration,
    /// Of jitter.
    pub seed: u64,
}

/// Something happened to the process.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Input {
    /// The store of the lease answers `Output::Lease`, or a survey ended.
    #[n(0)]
    Lease(#[n(0)] LeaseInput),
    /// The log stands open behind this process's own fence, which is not applied yet (D-42).
    #[n(1)]
    LogFenced,
    /// The engine reports.
    #[n(2)]
    Engine(#[n(0)] NodeReport),
    /// The data plane is alive: at least once a second from `Output::BuildEngine` on (D-54).
    #[n(3)]
    EngineAlive,
    /// The data plane cannot go on: opening the log, recovery, a log write or the local store failed.
    #[n(4)]
    Failed(#[n(0)] StopReason),
    /// Everything up to here is durable: later lease writes carry it (D-53).
    #[n(5)]
    Durable(#[n(0)] Position),
    /// The log may be trimmed below: later lease writes carry it, `Output::TrimmedBelow` follows (D-30).
    #[n(6)]
    TrimBelow(#[n(0)] Position),
    /// SIGTERM (D-29).
    #[n(7)]
    Terminate,
    /// Time has passed, or a look at the gate showed doubt.
    #[n(8)]
    Tick,
    /// The log carries a higher epoch than the one just taken; the attempt to open it is over, and
    /// nothing was written. Another `Output::OpenLog` follows once the epoch is raised (D-55).
    #[n(9)]
    EpochBehind {
        /// The highest epoch found.
        #[n(0)]
        found: Epoch,
        /// What its fence records, in milliseconds, where the fence was seen.
        #[n(1)]
        lease_duration_ms: Option<u64>,
    },
}

/// What the shell must do, in this order.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Output {
    /// Do this with the lease object; answer with `LeaseInput::Written` or `LeaseInput::Read`.
    #[n(0)]
    Lease {
        /// Named by the reply.
        #[n(0)]
        request: RequestId,
        /// What to do.
        #[n(1)]
        operation: LeaseOperation,
    },
    /// Look what log and snapshots say (D-49); answer with `LeaseInput::Surveyed`.
    #[n(1)]
    Survey {
        /// Named by the reply.
        #[n(0)]
        request: RequestId,
    },
    /// The lease is held: let the data plane check the local store, read the log to its end and write
    /// the fence (D-41 to D-43). Answer with `Input::LogFenced`, `Input::EpochBehind` or `Input::Failed`.
    #[n(2)]
    OpenLog(#[n(0)] OpenLog),
    /// The lease is confirmed after the fence: apply the fence and build the engine, whose
    /// `NodeReport::Recovered` follows (D-42).
    #[n(3)]
    BuildEngine {
        /// The tenure.
        #[n(0)]
        epoch: Epoch,
    },
    /// Tell the engine. `Close` also comes where no engine was built: the data plane then gives up
    /// opening the log and answers `NodeReport::Closed` itself.
    #[n(4)]
    Engine(#[n(0)] NodeOrder),
    /// Tell the gate of this epoch. There is one per `OpenLog`.
    #[n(5)]
    Gate(#[n(0)] GateOrder),
    /// Call `_exit(1)` at that instant, whatever hangs; `None`: never (D-32). Replaces the order before.
    #[n(6)]
    Watchdog {
        /// By the holder's clock.
        #[n(0)]
        exit_at: Option<Instant>,
    },
    /// The lease carries this bound: what lies below may be deleted (D-30).
    #[n(7)]
    TrimmedBelow(#[n(0)] Position),
    /// Tell people.
    #[n(8)]
    Event(#[n(0)] NodeEvent),
    /// End the process. Nothing follows.
    #[n(9)]
    Exit {
        /// The exit status (HA-34).
        #[n(0)]
        code: u8,
        /// The last line on stderr.
        #[n(1)]
        reason: StopReason,
    },
}

/// What the data plane needs to open the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct OpenLog {
    /// Who writes: with the node id, the origin of every entry.
    #[n(0)]
    pub process_id: ProcessId,
    /// The tenure.
    #[n(1)]
    pub epoch: Epoch,
    /// For the fence (D-42).
    #[n(2)]
    pub lease_duration: LeaseDuration,
    /// Of the lease version that was replaced (D-41).
    #[n(3)]
    pub trimmed_below: Position,
    /// Of the lease version that was replaced (D-53).
    #[n(4)]
    pub log_end: Position,
}

/// Typed events: log lines, metrics, health and simulator traces are made from them.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum NodeEvent {
    /// The process is in this role from now on; health names follow [`Role::is_serving`] (HA-64).
    #[n(0)]
    RoleChanged {
        /// The role.
        #[n(0)]
        role: Role,
        /// The tenure, where one is held or was.
        #[n(1)]
        epoch: Option<Epoch>,
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
}
