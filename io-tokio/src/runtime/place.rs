//! Where a node keeps what: looked at, locked and probed before any thread runs.
//!
//! ```text
//! data_dir/  dev.lock    this process is the only one here (HA-5)      local.lock   the same, for a volume (H1)
//!            store/      lease and probe; the log without a lock      replica/     the local store
//!            log/        the log in segment files                     everything else lies on the shared store
//!            local/      the local store
//! ```

use std::sync::Arc;

use dexzd_core::ids::ProcessId;

use super::config::{NodeConfig, SharedStores, StartError, Storage};
use super::devices::Devices;
use super::event::{EventSink, ShellEvent};
use super::local_opener::{LocalOpener, Snapshots};
use crate::clock::Clock;
use crate::devlock::{DevLock, LockOutcome};
use crate::durability::{CleanRun, DurabilityMode};
use crate::log::{Disk, LogStore, ObjectLog, SegmentLog};
use crate::store::{FolderStore, ObjectStore, probe};

/// The folder of a data directory that holds the object store: lease, probe, and the log's objects.
const STORE_FOLDER: &str = "store";
/// The folder of a data directory that holds the log in segment files.
const LOG_FOLDER: &str = "log";
/// The folder of a data directory that holds the local store.
const LOCAL_FOLDER: &str = "local";
/// The folder of a private volume that holds the local store. Not [`LOCAL_FOLDER`]: a data directory given
/// by mistake keeps its own.
const REPLICA_FOLDER: &str = "replica";

/// What a node works on.
pub(super) struct Place {
    pub(super) lease: Arc<dyn ObjectStore>,
    pub(super) log: Box<dyn LogStore>,
    /// On a shared store.
    pub(super) snapshots: Option<Arc<dyn ObjectStore>>,
    pub(super) opener: LocalOpener,
    /// The store's clock for D-2 (b), where it has one.
    pub(super) probe_stamp_ms: Option<u64>,
    /// Held until the end.
    pub(super) lock: Option<Arc<DevLock>>,
    /// Whether the lock proves that a held lease is a dead process's (HA-6).
    pub(super) lease_locked: bool,
}

impl Place {
    pub(super) fn open(
        config: &NodeConfig,
        process: ProcessId,
        devices: Devices,
        clock: &Arc<Clock>,
        events: &Arc<dyn EventSink>,
    ) -> Result<Self, StartError> {
        match &config.storage {
            Storage::DataDir { durability } => {
                Self::in_data_dir(config, *durability, process, devices, &**events)
            }
            Storage::Shared(stores) => Self::shared(config, stores, process, devices, clock, events),
        }
    }

    fn in_data_dir(
        config: &NodeConfig,
        durability: DurabilityMode,
        process: ProcessId,
        devices: Devices,
        events: &dyn EventSink,
    ) -> Result<Self, StartError> {
        let lock = held((devices.lock)(&config.data_dir)?, events);
        CleanRun::check(&config.data_dir)?;
        let store_folder = config.data_dir.join(STORE_FOLDER);
        let store = FolderStore::open(&store_folder, durability.syncs())
            .map_err(|source| StartError::Io { action: "cannot open", path: store_folder.clone(), source })?;
        let store = (devices.store)(Arc::new(store));
        let probe_stamp_ms = probe(&*store, &config.node_id, process)?;
        let log = open_log(config, durability, lock.as_ref(), &store, devices.disk)?;
        let mut opener = LocalOpener::new(config, LOCAL_FOLDER, devices.local, None);
        // Without the lock another process may have it open: then it waits for the lease.
        if lock.is_some() {
            opener.open_early()?;
        }
        let lease_locked = lock.is_some();
        Ok(Self { lease: store, log, snapshots: None, opener, probe_stamp_ms, lease_locked, lock })
    }

    fn shared(
        config: &NodeConfig,
        stores: &SharedStores,
        process: ProcessId,
        devices: Devices,
        clock: &Arc<Clock>,
        events: &Arc<dyn EventSink>,
    ) -> Result<Self, StartError> {
        let lock = held(DevLock::acquire_volume(&config.data_dir)?, &**events);
        CleanRun::check(&config.data_dir)?;
        let lease = (devices.store)(Arc::clone(&stores.lease));
        let probe_stamp_ms = probe(&*lease, &config.node_id, process)?;
        let log = ObjectLog::new((devices.store)(Arc::clone(&stores.log)), &config.node_id);
        let snapshots = (devices.store)(Arc::clone(&stores.snapshots));
        let sources = Snapshots {
            store: Arc::clone(&snapshots),
            clock: Arc::clone(clock),
            events: Arc::clone(events),
            cadence: config.snapshot_cadence,
        };
        let opener = LocalOpener::new(config, REPLICA_FOLDER, devices.local, Some(sources));
        // Without a lock the leftovers may be another process's, which is at it.
        if lock.is_some() {
            opener.clean_up()?;
        }
        let (log, snapshots) = (Box::new(log), Some(snapshots));
        Ok(Self { lease, log, snapshots, opener, probe_stamp_ms, lock, lease_locked: false })
    }
}

/// Segment files where the lock makes this process the only writer, else one object per entry.
fn open_log(
    config: &NodeConfig,
    durability: DurabilityMode,
    lock: Option<&Arc<DevLock>>,
    store: &Arc<dyn ObjectStore>,
    disk: Arc<dyn Disk>,
) -> Result<Box<dyn LogStore>, StartError> {
    let Some(lock) = lock else {
        return Ok(Box::new(ObjectLog::new(Arc::clone(store), &config.node_id)));
    };
    let lock = Arc::clone(lock);
    let still_locked = Box::new(move || lock.still_locked());
    Ok(Box::new(SegmentLog::open(&config.data_dir.join(LOG_FOLDER), durability, disk, still_locked)?))
}

fn held(outcome: LockOutcome, events: &dyn EventSink) -> Option<Arc<DevLock>> {
    match outcome {
        LockOutcome::Held(lock) => Some(Arc::new(lock)),
        LockOutcome::NotSupported { reason } => {
            events.shell(&ShellEvent::LockNotSupported { reason });
            None
        }
    }
}
