//! What crosses the border of `node`.

use core::time::Duration;

use minicbor::{Decode, Encode};

use super::admin::{AdminAnswer, AdminError, AdminRequest};
use super::connections::Period;
use super::event::NodeEvent;
use crate::engine::{NodeOrder, NodeReport};
use crate::gate::GateOrder;
use crate::ids::{CallId, Epoch, Name, Position, ProcessId, RequestId};
use crate::lease::{CandidateConfig, LeaseDuration, LeaseInput, LeaseOperation};
use crate::standby::{FollowerReport, StandbyConfig};
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
    /// What it may do without waiting, at its start.
    pub candidate: CandidateConfig,
    /// `standby.*`.
    pub standby: StandbyConfig,
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
    /// Time has passed.
    #[n(8)]
    Tick,
    /// A look at the gate found a jump of the wall clock then, which this machine may not have seen (D-1). Told as
    /// often as a look finds doubt; once a renewal sent later is known it means nothing any more.
    #[n(13)]
    GateJumped(#[n(0)] Instant),
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
    /// The follower reports: at every change of its state, and at every poll that reached the end of the
    /// log (D-14).
    #[n(10)]
    Follower(#[n(0)] FollowerReport),
    /// The local store of the ended tenure is fully closed, and so is everything that used it: no input
    /// about that tenure follows (HA-104). Some time after `NodeReport::Closed`, exactly once; a process
    /// that ends anyway needs not tell.
    #[n(11)]
    StoreClosed,
    /// A call of `AdminService`, credential and arguments checked (D-20). `Output::Admin` answers it
    /// exactly once; that a caller is gone needs not be told: a step down goes on (D-20).
    #[n(12)]
    Admin {
        /// Named by the answer.
        #[n(0)]
        call: CallId,
        /// The period in which the call's connection was opened (D-16).
        #[n(1)]
        opened_in: Period,
        /// What it asks.
        #[n(2)]
        request: AdminRequest,
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
    /// Tell the follower (HA-42, HA-100). Only in hot mode.
    #[n(10)]
    Follow(#[n(0)] FollowOrder),
    /// Answer a call of `AdminService`.
    #[n(11)]
    Admin {
        /// The call.
        #[n(0)]
        call: CallId,
        /// What it gets.
        #[n(1)]
        answer: Result<AdminAnswer, AdminError>,
    },
    /// A lease write of this tenure that was sent then is known to have landed: what was listed before may
    /// be deleted (D-46). Only while it serves; at each renewal.
    #[n(12)]
    LeaseWritten {
        /// By the holder's clock, when it was decided.
        #[n(0)]
        sent_at: Instant,
    },
}

/// What the follower is told. `Output::OpenLog` ends it too: what it has applied is the local store that
/// the log is opened with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum FollowOrder {
    /// Follow the log from where the local store ends.
    #[n(0)]
    Start {
        /// Of the newest lease seen: nothing below is applied (D-43).
        #[n(0)]
        trimmed_below: Position,
        /// Of the newest lease seen: the log is at least this long (D-53).
        #[n(1)]
        log_end: Position,
    },
    /// A lease not seen before says this.
    #[n(1)]
    Lease {
        /// Nothing below is applied (D-43).
        #[n(0)]
        trimmed_below: Position,
        /// The log is at least this long (D-14, D-53).
        #[n(1)]
        log_end: Position,
    },
    /// The process ends: follow no longer.
    #[n(2)]
    Stop,
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
