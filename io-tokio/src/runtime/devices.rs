//! What a node runs on: the seam at which tests break things.

use std::path::Path;
use std::sync::Arc;

use super::watchdog;
use crate::devlock::{DevLock, LockError, LockOutcome};
use crate::local::LocalStore;
use crate::log::{Disk, RealDisk};
use crate::store::ObjectStore;

/// Disk, stores, lock and end of the process.
pub(super) struct Devices {
    pub(super) disk: Arc<dyn Disk>,
    /// Put around every object store.
    pub(super) store: Wrap<dyn ObjectStore>,
    /// Put around every local store that is opened.
    pub(super) local: Wrap<dyn LocalStore>,
    /// How the data directory is locked.
    pub(super) lock: fn(&Path) -> Result<LockOutcome, LockError>,
    /// What the watchdog does.
    pub(super) exit: fn(),
}

/// Puts something around something.
pub(super) type Wrap<T> = Box<dyn Fn(Arc<T>) -> Arc<T> + Send>;

impl Default for Devices {
    fn default() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            store: Box::new(|store| store),
            local: Box::new(|local| local),
            lock: DevLock::acquire,
            exit: watchdog::exit_now,
        }
    }
}
