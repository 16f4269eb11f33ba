//! Opens what the configuration names as the place of everything that must not be lost.

use std::path::Path;
use std::sync::Arc;

use dexzd_io_tokio::runtime::{SharedStores, Storage as NodeStorage};
use dexzd_io_tokio::store::{CloudError, CloudStore, FolderStore, ObjectStore};

use crate::config::{ObjectStorage, Storage};
use crate::refusal::Refusal;

/// Reads credentials and certificates; a store in the network is not asked anything yet.
///
/// # Errors
///
/// The folder is missing or closed to us, or a file with credentials or certificates does not do.
pub(crate) fn open(storage: &Storage) -> Result<NodeStorage, Refusal> {
    let shared = match storage {
        Storage::DataDir { durability } => return Ok(NodeStorage::DataDir { durability: *durability }),
        Storage::Shared(shared) => shared,
    };
    // Each with its own connections, so that a renewal waits for neither log nor snapshot (lesson 10).
    Ok(NodeStorage::Shared(SharedStores { lease: one(shared)?, log: one(shared)?, snapshots: one(shared)? }))
}

fn one(shared: &ObjectStorage) -> Result<Arc<dyn ObjectStore>, Refusal> {
    match shared {
        ObjectStorage::Folder(path) => folder(path),
        ObjectStorage::Cloud(config) => {
            let store = CloudStore::open(config.clone()).map_err(|error| match error {
                CloudError::Unusable { .. } => Refusal::object_storage(error.to_string()),
                CloudError::Thread { source, .. } => Refusal::machine("starting a thread", &source),
            })?;
            Ok(Arc::new(store))
        }
    }
}

/// A folder that were created here could be the one below a disk that is not mounted, or the one of a slip of the pen: an
/// empty store, on which a second active would start.
fn folder(path: &Path) -> Result<Arc<dyn ObjectStore>, Refusal> {
    if !path.is_dir() {
        return Err(Refusal::object_storage(format!(
            "objectStorage.path: there is no folder {}: create it, or mount what should be there",
            path.display()
        )));
    }
    let store = FolderStore::open(path, true).map_err(|error| {
        Refusal::object_storage(format!("objectStorage.path: {} cannot be used: {error}", path.display()))
    })?;
    Ok(Arc::new(store))
}
