//! One process of a product world: `node` and the data plane as two actors, its clocks, its local store,
//! its disk, and who is connected to it.

use std::collections::{BTreeMap, VecDeque};

use dexzd_core::engine::{Answer, Call, CallError, Engine, ServerFrame};
use dexzd_core::gate::Gate;
use dexzd_core::ids::{Blob, CallId, Epoch, Position, ProcessId, RequestId, StreamId};
use dexzd_core::log::{Origin, Outbox, Startup};
use dexzd_core::node::{Node, OpenLog};
use dexzd_core::rng::Rng;

use super::people::ClientToken;
use crate::TrueTime;
use crate::clock::Clocks;
use crate::disk::Disk;
use crate::local_store::SharedStore;
use crate::log_store::DiskLog;
use crate::watch::ProcessNumber;

/// What `node` and the shell tell the data plane.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most are the large one, and each is moved a few times")]
pub(super) enum ToData {
    Open(OpenLog),
    Build,
    Startup(dexzd_core::log::StartupInput),
    Engine(dexzd_core::engine::Input),
}

/// What waits for a position to be durable, or for a doubt to end.
#[derive(Clone, Debug)]
pub(super) enum Leaving {
    Reply { call: CallId, after: Position, answer: Result<Answer, CallError> },
    Frame { stream: StreamId, after: Position, frame: ServerFrame },
    Close(StreamId),
}

/// The data plane in the life of its one epoch.
#[derive(Debug)]
pub(super) enum Plane {
    Idle,
    Starting { startup: Box<Startup>, origin: Origin },
    Serving(Box<Serving>),
}

#[derive(Debug)]
pub(super) struct Serving {
    pub(super) engine: Engine<SharedStore>,
    pub(super) outbox: Outbox<Leaving>,
    pub(super) durable: Position,
}

/// A write on its way to the disk.
#[derive(Clone, Debug)]
pub(super) struct DiskWrite {
    pub(super) request: RequestId,
    pub(super) position: Position,
    pub(super) entry: Blob,
    pub(super) of_start: bool,
}

/// A call that has no answer yet.
#[derive(Clone, Debug)]
pub(super) struct OpenCall {
    pub(super) token: ClientToken,
    pub(super) request: Call,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: ProcessNumber,
    pub(super) clocks: Clocks,
    /// Raised by every death: what was meant for an earlier life is dropped.
    pub(super) life: u32,
    pub(super) frozen_until: TrueTime,
    /// What came while it was frozen, in its order.
    pub(super) parked: VecDeque<super::Event>,
    pub(super) node: Option<Node>,
    pub(super) node_timer: Option<TrueTime>,
    /// Messages between the planes keep their order.
    pub(super) to_node_at: TrueTime,
    pub(super) to_data_at: TrueTime,
    pub(super) plane: Plane,
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
    pub(super) disk_write: Option<DiskWrite>,
    pub(super) entropy: Rng,
    pub(super) calls: BTreeMap<CallId, OpenCall>,
}

impl Process {
    pub(super) fn new(number: ProcessNumber, clocks: Clocks) -> Self {
        Self {
            number,
            clocks,
            life: 0,
            frozen_until: 0,
            parked: VecDeque::new(),
            node: None,
            node_timer: None,
            to_node_at: 0,
            to_data_at: 0,
            plane: Plane::Idle,
            data_timer: None,
            epoch: None,
            released: None,
            process_id: ProcessId(0),
            gate: Gate::default(),
            held: VecDeque::new(),
            local: SharedStore::default(),
            disk: Disk::default(),
            log: None,
            disk_write: None,
            entropy: Rng::new(0),
            calls: BTreeMap::new(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.node.is_some()
    }

    pub(super) fn lives(&self, life: u32) -> bool {
        self.is_running() && self.life == life
    }

    pub(super) fn is_frozen(&self, at: TrueTime) -> bool {
        self.frozen_until > at
    }

    /// Whether an engine is there to be asked.
    pub(super) fn has_engine(&self) -> bool {
        matches!(self.plane, Plane::Serving(_))
    }

    /// Forgets everything that lives in memory.
    pub(super) fn forget(&mut self) {
        self.life += 1;
        self.frozen_until = 0;
        self.parked.clear();
        self.node = None;
        self.node_timer = None;
        self.plane = Plane::Idle;
        self.data_timer = None;
        self.epoch = None;
        self.gate = Gate::default();
        self.held.clear();
        self.log = None;
        self.disk_write = None;
        self.calls.clear();
    }
}
