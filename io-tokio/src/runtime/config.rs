//! What a node is started with.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use dexzd_core::lease::LeaseDuration;
use dexzd_core::standby::StandbyConfig;

use crate::devlock::LockError;
use crate::durability::{DurabilityMode, UncleanError};
use crate::local::{LocalStoreError, LocalStoreKind};
use crate::log::SegmentLogError;
use crate::store::ProbeError;

/// The settings of one node in a data directory (`dev` and `local`).
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// `nodeId`.
    pub node_id: String,
    /// Holds `dev.lock`, the object store, the log and the local store.
    pub data_dir: PathBuf,
    /// `lease.duration`.
    pub lease_duration: LeaseDuration,
    /// `lease.failIfHeld` (HA-39).
    pub fail_if_held: bool,
    /// `standby.*`.
    pub standby: StandbyConfig,
    /// `lifecycle.attemptDrainTimeout` (HA-16).
    pub attempt_drain_timeout: Duration,
    /// `dev.durabilityMode` (HA-8 to HA-10).
    pub durability: DurabilityMode,
    /// Which local store; [`crate::local::default_kind`] unless there is a reason.
    pub local_store: LocalStoreKind,
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
