//! Object stores behind one trait: the lease, and whatever else is compared and swapped or listed.
//!
//! The calls block. Whoever must not be blocked makes them on a thread of its own (lesson 10). Answers
//! come in the classes of [`dexzd_core::store`]; what follows from them, the core decides (D-9).

mod folder;
mod memory;
mod names;
mod probe;

#[cfg(test)]
mod conformance;

use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

pub use folder::FolderStore;
pub use memory::InMemoryObjectStore;
pub use probe::{ProbeError, ProbeStep, probe};

/// How a deletion ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeleteOutcome {
    /// The object is gone, or was never there.
    Done,
    /// It may or may not be gone.
    Transient,
    /// The store refuses for good.
    Permanent,
    /// This machine's own disk failed (D-33).
    LocalFailure,
}

/// How a listing ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListOutcome {
    /// The keys, ascending.
    Found(Vec<String>),
    /// Try again later.
    Transient,
    /// The store refuses for good.
    Permanent,
    /// This machine's own disk failed (D-33).
    LocalFailure,
}

/// A linearizable store of whole objects with conditional writes.
///
/// Keys are `/`-separated paths. Nothing is ever written unconditionally, so nothing can be overwritten
/// by mistake.
pub trait ObjectStore: Send + Sync {
    /// Body, version and stamp of one object, from one answer (D-50).
    fn read(&self, key: &str) -> ReadOutcome;

    /// Creates an object if it is absent.
    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome;

    /// Replaces an object if it still has this version.
    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome;

    /// Deletes an object. A version of it never counts again, also if the key is created anew.
    fn delete(&self, key: &str) -> DeleteOutcome;

    /// Deletes an object whose key nobody will ever use again, with every trace of it.
    fn forget(&self, key: &str) -> DeleteOutcome {
        self.delete(key)
    }

    /// The keys that begin with `prefix` and come after `after`, ascending, at most `limit`.
    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome;

    /// For people: which store this is.
    fn name(&self) -> String;
}
