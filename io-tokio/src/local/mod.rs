//! The local store: the state that the log adds up to, kept where it can be read quickly.
//!
//! It only ever contains what is in the log, so it is a cache, except that a log that was trimmed can
//! no longer rebuild it. Every batch carries, in the same atomic write, the position and chain
//! checksum of the entry it comes from (architecture.md 3). What has not reached the disk yet is
//! replayed from the log at the next start; [`LocalStore::durable_end`] says from where on.
//!
//! Two implementations pass one conformance suite: [`MemoryStore`], a map with a checkpoint file, and
//! `RocksStore` behind the feature `rocksdb`.

mod checkpoint;
mod error;
mod hashes;
mod identity;
mod memory;
mod place;
#[cfg(feature = "rocksdb")]
mod rocks;

#[cfg(test)]
mod conformance;

use std::path::Path;
use std::sync::Arc;

use dexzd_core::engine::{Change, StateRead};
use dexzd_core::log::LogEnd;

pub use error::{LocalReadFailed, LocalStoreError};
pub use hashes::FileHashes;
pub use identity::{LOCAL_FORMAT_VERSION, LocalStoreKind};
pub use memory::MemoryStore;
pub use place::{Frozen, LocalPlace};
#[cfg(feature = "rocksdb")]
pub use rocks::RocksStore;

/// Keys that begin with this byte belong to the local store itself. The core uses none of them.
pub const RESERVED_KEY_PREFIX: u8 = 0xff;

/// The applied state, with the place in the log that it stands for.
///
/// Reads and writes may come from different threads; there is one writer. A read that fails does not
/// return: it unwinds with a [`LocalReadFailed`], and the shell stops the process (D-33).
pub trait LocalStore: StateRead + Send + Sync {
    /// Applies one entry: all its changes and `end`, or nothing.
    ///
    /// # Errors
    ///
    /// The disk or the store failed (D-33). The store must not be used any further.
    fn apply(&self, end: LogEnd, changes: &[Change]) -> Result<(), LocalStoreError>;

    /// The newest entry applied, as readers see it.
    fn end(&self) -> LogEnd;

    /// The newest entry that is known to survive a kill and a power loss. Log segments below it may go.
    fn durable_end(&self) -> LogEnd;

    /// Whether so much was applied since the last flush that it is time for the next one.
    fn wants_flush(&self) -> bool;

    /// Makes everything applied before this call durable and returns how far that reaches.
    ///
    /// Takes long; runs beside reads and [`apply`](Self::apply) without blocking them.
    ///
    /// # Errors
    ///
    /// The disk or the store failed (D-33).
    fn flush(&self) -> Result<LogEnd, LocalStoreError>;

    /// Freezes the store between two entries, as files in `folder`, which is created and must not exist.
    /// Opened in the place of a store, they are one that ends at [`Frozen::end`].
    ///
    /// Runs beside reads and [`apply`](Self::apply) without blocking them. Files that did not change since
    /// the last time are the same files, which take no room twice. One at a time.
    ///
    /// # Errors
    ///
    /// The disk or the store failed (D-33).
    fn checkpoint(&self, folder: &Path) -> Result<Frozen, LocalStoreError>;
}

/// Opens the local store of `node_id` in `folder`, creating it if there is none.
///
/// # Errors
///
/// The folder holds a store of another node, kind or newer format, or a damaged one: nothing in it was
/// changed. Or the disk failed.
pub fn open_local_store(
    kind: LocalStoreKind,
    folder: &Path,
    node_id: &str,
) -> Result<Arc<dyn LocalStore>, LocalStoreError> {
    match kind {
        LocalStoreKind::Memory => Ok(Arc::new(MemoryStore::open(folder, node_id)?)),
        #[cfg(feature = "rocksdb")]
        LocalStoreKind::RocksDb => Ok(Arc::new(RocksStore::open(folder, node_id)?)),
        #[cfg(not(feature = "rocksdb"))]
        LocalStoreKind::RocksDb => Err(LocalStoreError::NotCompiledIn { folder: folder.to_path_buf() }),
    }
}

/// The kind that this build uses where nothing else is asked for.
#[must_use]
pub const fn default_kind() -> LocalStoreKind {
    if cfg!(feature = "rocksdb") { LocalStoreKind::RocksDb } else { LocalStoreKind::Memory }
}
