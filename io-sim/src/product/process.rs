//! One process of a product world: `node` and the data plane as two actors, its clocks, its local store,
//! its disk, and who is connected to it.

use std::collections::{BTreeMap, VecDeque};

use dexzd_core::engine::{Answer, Call, CallError, Engine, ServerFrame};
use dexzd_core::gate::Gate;
use dexzd_core::ids::{Blob, CallId, Epoch, Position, ProcessId, RequestId, StreamId};
use dexzd_core::log::{ListOutcome, LogEnd, Origin, Outbox, ReadEnd, Startup, StartupOutput};
use dexzd_core::node::{FollowOrder, Node, OpenLog};
use dexzd_core::rng::Rng;
use dexzd_core::snapshot::{Bootstrap, BootstrapOutput, Keeper, KeeperOutput};
use dexzd_core::standby::{Follower, FollowerOutput};
use dexzd_core::stop::StopReason;
use dexzd_core::store::WriteOutcome;
use dexzd_core::time::Instant;

use super::checkpoint::Files;
use super::event::Event;
use super::operator::AdminCall;
use super::people::ClientToken;
use super::snapshot_io::SnapshotAnswer;
use super::snapshots::Deleting;
use crate::TrueTime;
use crate::clock::Clocks;
use crate::disk::Disk;
use crate::local_store::{LocalStore, SharedStore};
use crate::log_store::DiskLog;
use crate::watch::ProcessNumber;

/// A part of a process that can stand still alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The thread of `node`.
    Node = 0,
    /// The thread of the data plane.
    Data = 1,
    /// The thread that only looks at the clock (D-32).
    Watchdog = 2,
}

/// What `node` and the shell tell the data plane.
#[derive(Clone, Debug)]
pub(super) enum ToData {
    Open(OpenLog),
    Build,
    Follow(FollowOrder),
    /// An answer to a request of one machine.
    Answer(Asker, DataAnswer),
    /// An answer to a request about snapshots.
    Snapshot(SideJob, SnapshotAnswer),
    /// The lease carries this bound.
    TrimmedBelow(Position),
    /// A lease write of this epoch that was sent then is known to have landed.
    LeaseWritten(Instant),
    Engine(dexzd_core::engine::Input),
}

/// Who asked. Every machine of the data plane has a number of its own: an answer to an earlier one is for
/// nobody, although request numbers begin anew with each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asker(pub(super) u32);

/// Who looks after snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Desk {
    #[default]
    Keeper,
    Bootstrap,
}

/// One keeper or bootstrap, with a number of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SideJob {
    pub(super) desk: Desk,
    number: u32,
}

impl SideJob {
    pub(super) fn next(self, desk: Desk) -> Self {
        Self { desk, number: self.number + 1 }
    }
}

/// How a request to the log or the local store ended.
#[derive(Clone, Debug)]
pub(super) enum DataAnswer {
    Written { request: RequestId, outcome: WriteOutcome },
    Range { request: RequestId, entries: Vec<Blob>, then: ReadEnd },
    Listed { request: RequestId, outcome: ListOutcome },
    Applied(Position),
    LocalStore(LogEnd),
    ReplaceFailed(StopReason),
}

/// What a machine of the data plane wants.
#[derive(Debug)]
pub(super) enum DataOutput {
    Follower(FollowerOutput),
    Startup(StartupOutput),
    Engine(dexzd_core::engine::Output),
    Keeper(KeeperOutput),
    Bootstrap(BootstrapOutput),
}

/// What waits for a position to be durable, or for a doubt to end.
#[derive(Clone, Debug)]
pub(super) enum Leaving {
    Reply { call: CallId, after: Position, answer: Result<Answer, CallError> },
    Frame { stream: StreamId, after: Position, frame: ServerFrame },
    Close(StreamId),
}

/// What the data plane hosts.
#[derive(Debug)]
pub(super) enum Plane {
    Idle,
    Following(Box<Follower>),
    Starting { startup: Box<Startup>, origin: Origin },
    Serving(Box<Serving>),
}

#[derive(Debug)]
pub(super) struct Serving {
    pub(super) engine: Engine<SharedStore>,
    pub(super) outbox: Outbox<Leaving>,
    pub(super) durable: Position,
    pub(super) keeper: Option<Box<Keeper>>,
}

/// A write on its way to the disk.
#[derive(Clone, Debug)]
pub(super) struct DiskWrite {
    pub(super) request: RequestId,
    pub(super) position: Position,
    pub(super) entry: Blob,
    pub(super) asker: Asker,
}

/// A call that has no answer yet.
#[derive(Clone, Debug)]
pub(super) struct OpenCall {
    pub(super) token: ClientToken,
    pub(super) request: Call,
    /// An engine was asked.
    pub(super) reached: bool,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: ProcessNumber,
    pub(super) clocks: Clocks,
    /// Raised by every death: what was meant for an earlier life is dropped.
    pub(super) life: u32,
    /// Nobody starts it before.
    pub(super) down_until: TrueTime,
    /// Its parts stand still until then.
    pub(super) stopped_until: [TrueTime; 3],
    /// What came for each part meanwhile, in its order.
    pub(super) parked: [VecDeque<Event>; 3],
    /// What was about to be performed when a freeze struck.
    pub(super) stalled_node: Option<Box<dexzd_core::node::Output>>,
    pub(super) stalled_data: Option<Box<DataOutput>>,
    /// What clients and Workers send, and what is sent to them, waits until then.
    pub(super) isolated_until: TrueTime,
    /// When the watchdog ends the process, by the holder's clock.
    pub(super) watchdog: Option<Instant>,
    pub(super) node: Option<Node>,
    pub(super) node_timer: Option<TrueTime>,
    /// Messages between the planes keep their order.
    pub(super) to_node_at: TrueTime,
    pub(super) to_data_at: TrueTime,
    pub(super) plane: Plane,
    /// Of the machine that the data plane hosts now.
    pub(super) asker: Asker,
    /// The keeper or bootstrap of now.
    pub(super) side_job: SideJob,
    pub(super) bootstrap: Option<Box<Bootstrap>>,
    /// What the keeper deletes.
    pub(super) deleting: BTreeMap<RequestId, Deleting>,
    /// The newest bound that the lease is known to carry.
    pub(super) trimmed_below: Position,
    /// The keeper's frozen copy of the local store, and what a bootstrap has downloaded: on the disk.
    pub(super) checkpoint: Files,
    pub(super) downloads: Files,
    pub(super) data_timer: Option<TrueTime>,
    pub(super) epoch: Option<Epoch>,
    pub(super) released: Option<Epoch>,
    pub(super) process_id: ProcessId,
    pub(super) gate: Gate,
    /// What may not leave while the lease is in doubt.
    pub(super) held: VecDeque<Leaving>,
    pub(super) local: SharedStore,
    pub(super) disk: Disk,
    pub(super) log: Option<DiskLog>,
    /// Begun and not yet synced, in order.
    pub(super) disk_writes: VecDeque<DiskWrite>,
    pub(super) entropy: Rng,
    pub(super) calls: BTreeMap<CallId, OpenCall>,
    /// Calls of `AdminService` that have no answer yet.
    pub(super) admin_calls: BTreeMap<CallId, AdminCall>,
}

impl Process {
    pub(super) fn new(number: ProcessNumber, clocks: Clocks) -> Self {
        Self {
            number,
            clocks,
            life: 0,
            down_until: 0,
            stopped_until: [0; 3],
            parked: [const { VecDeque::new() }; 3],
            stalled_node: None,
            stalled_data: None,
            isolated_until: 0,
            watchdog: None,
            node: None,
            node_timer: None,
            to_node_at: 0,
            to_data_at: 0,
            plane: Plane::Idle,
            asker: Asker(0),
            side_job: SideJob::default(),
            bootstrap: None,
            deleting: BTreeMap::new(),
            trimmed_below: Position(0),
            checkpoint: Files::new(),
            downloads: Files::new(),
            data_timer: None,
            epoch: None,
            released: None,
            process_id: ProcessId(0),
            gate: Gate::default(),
            held: VecDeque::new(),
            local: SharedStore::default(),
            disk: Disk::default(),
            log: None,
            disk_writes: VecDeque::new(),
            entropy: Rng::new(0),
            calls: BTreeMap::new(),
            admin_calls: BTreeMap::new(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.node.is_some()
    }

    pub(super) fn lives(&self, life: u32) -> bool {
        self.is_running() && self.life == life
    }

    pub(super) fn is_stopped(&self, part: Part, at: TrueTime) -> bool {
        self.stopped_until[part as usize] > at
    }

    /// The data plane hosts another machine from now on.
    pub(super) fn host(&mut self, plane: Plane) -> Plane {
        self.asker.0 += 1;
        std::mem::replace(&mut self.plane, plane)
    }

    /// Another volume, with nothing on it.
    pub(super) fn lose_disk(&mut self) {
        self.local = SharedStore::default();
        self.checkpoint.clear();
        self.downloads.clear();
    }

    /// Another node's local store, which ends there.
    pub(super) fn swap_disk(&mut self, end: LogEnd) {
        self.lose_disk();
        self.local = SharedStore::new(LocalStore::of_another_log(end));
    }

    /// Whether an engine is there to be asked.
    pub(super) fn has_engine(&self) -> bool {
        matches!(self.plane, Plane::Serving(_))
    }

    /// Forgets everything that lives in memory.
    pub(super) fn forget(&mut self) {
        self.life += 1;
        self.stopped_until = [0; 3];
        self.parked.iter_mut().for_each(VecDeque::clear);
        self.stalled_node = None;
        self.stalled_data = None;
        self.watchdog = None;
        self.node = None;
        self.node_timer = None;
        self.plane = Plane::Idle;
        self.bootstrap = None;
        self.deleting.clear();
        self.trimmed_below = Position(0);
        self.data_timer = None;
        self.epoch = None;
        self.gate = Gate::default();
        self.held.clear();
        self.log = None;
        self.disk_writes.clear();
        self.calls.clear();
        self.admin_calls.clear();
    }
}
