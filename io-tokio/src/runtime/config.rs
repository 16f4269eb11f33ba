//! What a node is started with.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dexzd_core::lease::LeaseDuration;
use dexzd_core::snapshot::Cadence;
use dexzd_core::standby::StandbyConfig;

use crate::devlock::LockError;
use crate::durability::{DurabilityMode, UncleanError};
use crate::local::{LocalStoreError, LocalStoreKind};
use crate::log::SegmentLogError;
use crate::store::{ObjectStore, ProbeError};

/// The settings of one process of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// `nodeId`.
    pub node_id: String,
    /// In a data directory: `dev.lock`, the object store, the log and the local store. On a shared object
    /// store: the volume of this process alone, with its local store.
    pub data_dir: PathBuf,
    /// Where lease and log are.
    pub storage: Storage,
    /// `lease.duration`.
    pub lease_duration: LeaseDuration,
    /// `lease.failIfHeld` (HA-39).
    pub fail_if_held: bool,
    /// `standby.*`.
    pub standby: StandbyConfig,
    /// `lifecycle.attemptDrainTimeout` (HA-16).
    pub attempt_drain_timeout: Duration,
    /// How often a snapshot is made on a shared store: [`Cadence::STANDARD`] but for tests and benchmarks.
    pub snapshot_cadence: Cadence,
    /// Which local store; [`crate::local::default_kind`] unless there is a reason.
    pub local_store: LocalStoreKind,
}

/// Where lease and log are.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In the data directory (`dev` and `local`).
    DataDir {
        /// `dev.durabilityMode` (HA-8 to HA-10).
        durability: DurabilityMode,
    },
    /// On an object store that several processes share: what is acknowledged is durable.
    Shared(SharedStores),
}

impl Storage {
    /// What an acknowledged write survives: on a shared object store everything.
    pub(super) const fn durability(&self) -> DurabilityMode {
        match self {
            Self::DataDir { durability } => *durability,
            Self::Shared(_) => DurabilityMode::Strict,
        }
    }
}

/// Three connections to one place, which is the bucket and the prefix, so that no request waits for one of
/// another kind (lesson 10). Keys begin with the node id.
#[derive(Clone)]
pub struct SharedStores {
    /// For the lease `{nodeId}/lease` and the start-up probe: nothing else ever uses it.
    pub lease: Arc<dyn ObjectStore>,
    /// For the entries `{nodeId}/log/{position}`.
    pub log: Arc<dyn ObjectStore>,
    /// For the objects below `{nodeId}/snapshots/`.
    pub snapshots: Arc<dyn ObjectStore>,
}

impl fmt::Debug for SharedStores {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SharedStores").field(&self.lease.name()).finish()
    }
}

/// Why a node did not start. Nothing was changed that the message does not name.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory is in use, or cannot be locked (HA-5).
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A relaxed run ended abruptly here (HA-10).
    #[error(transparent)]
    Unclean(#[from] UncleanError),
    /// The object store is unfit, or does not answer (D-31).
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The local store is another's, of a newer format or damaged.
    #[error(transparent)]
    LocalStore(#[from] LocalStoreError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] SegmentLogError),
    /// The operating system refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}
