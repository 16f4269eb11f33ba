//! What the shell and the core want told: metrics and log lines are made from it.

use std::path::PathBuf;
use std::time::Duration;

use dexzd_core::engine::{EngineEvent, Workload};
use dexzd_core::ids::Position;
use dexzd_core::node::NodeEvent;
use dexzd_core::snapshot::{BootstrapEvent, KeeperEvent};

/// Takes events. It is called on the threads that drive the core, so it must be quick and never wait.
pub trait EventSink: Send + Sync {
    /// The data plane says something.
    fn engine(&self, event: &EngineEvent);
    /// The control plane says something.
    fn node(&self, event: &NodeEvent);
    /// The shell itself says something.
    fn shell(&self, event: &ShellEvent);
}

/// What only the shell knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShellEvent {
    /// The data directory cannot be locked: the process waits for expiry like any other (HA-7).
    LockNotSupported {
        /// Why.
        reason: String,
    },
    /// An entry became durable.
    Committed {
        /// Its place.
        position: Position,
        /// Its size, in bytes.
        bytes: usize,
        /// From the write's begin to its end, sync included.
        took: Duration,
    },
    /// The local store reached the disk up to here.
    LocalStoreFlushed {
        /// Its place.
        position: Position,
        /// How long it took.
        took: Duration,
    },
    /// The log was trimmed.
    LogTrimmed {
        /// Everything before it may go.
        below: Position,
        /// How many files or objects went.
        deleted: u64,
    },
    /// What the engine has in hand: about once a second while it lives.
    Workload(Workload),
    /// About the snapshots that this process makes as the active (D-46).
    Snapshot(KeeperEvent),
    /// About the snapshot that takes the place of a discarded local store (D-15).
    Restore(BootstrapEvent),
    /// A restore goes on: told at most once a second.
    RestoreProgress {
        /// So much is here, in bytes.
        done_bytes: u64,
        /// Of so much.
        of_bytes: u64,
    },
    /// A snapshot was downloaded whole and makes no local store; the next older one is tried.
    RestoreUnfit {
        /// For people.
        detail: String,
    },
    /// The local store on this volume is damaged, and was deleted: a snapshot and the log fill a new one.
    LocalStoreBroken {
        /// For people.
        detail: String,
    },
    /// What an interrupted restore or checkpoint left was deleted at the start.
    LeftoverDeleted {
        /// Where it was.
        folder: PathBuf,
    },
    /// Something failed; the stop that follows carries the class, this carries the detail (D-32).
    Failure {
        /// For people.
        detail: String,
    },
}

/// Tells nobody.
impl EventSink for () {
    fn engine(&self, _: &EngineEvent) {}
    fn node(&self, _: &NodeEvent) {}
    fn shell(&self, _: &ShellEvent) {}
}
