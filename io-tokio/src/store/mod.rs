//! Object stores behind one trait: the lease, and whatever else is compared and swapped or listed.
//!
//! The calls block. Whoever must not be blocked makes them on a thread of its own (lesson 10). Answers
//! come in the classes of [`dexzd_core::store`]; what follows from them, the core decides (D-9).

mod cloud;
mod folder;
mod memory;
mod names;
mod probe;
mod transfer;

#[cfg(test)]
mod conformance;

use std::io::{Read, Write};

use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

pub use cloud::{
    AzureCredentials, CloudConfig, CloudError, CloudStore, GcsCredentials, Provider, S3Credentials, Trouble,
    TroubleKind,
};
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

/// One object of a listing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Of its body, in bytes.
    pub size_bytes: u64,
}

/// How a listing with sizes ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SizedListOutcome {
    /// The objects, by ascending keys.
    Found(Vec<Listed>),
    /// Try again later.
    Transient,
    /// The store refuses for good.
    Permanent,
    /// This machine's own disk failed (D-33).
    LocalFailure,
}

/// How it ended to read an object piece by piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchOutcome {
    /// All of it was handed over.
    Done {
        /// How much that was, in bytes.
        size_bytes: u64,
    },
    /// There is an object, and the store itself knows that it is not what was written. As much of it was
    /// handed over as there is.
    Damaged,
    /// There is no such object.
    Missing,
    /// As for every read. A part may have been handed over.
    Transient {
        /// Retry-After, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// As for every read.
    Permanent,
    /// This machine's own disk failed (D-33): it took no more of it, or the store lies on it.
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

    /// Deletes an object. A version of it never counts again, also if the key is created anew; in stores
    /// that name versions by content, as long as no two bodies of a key are equal, which nonces see to (D-50).
    fn delete(&self, key: &str) -> DeleteOutcome;

    /// Deletes an object whose key nobody will ever use again, with every trace of it.
    fn forget(&self, key: &str) -> DeleteOutcome {
        self.delete(key)
    }

    /// The keys that begin with `prefix` and come after `after`, ascending, at most `limit`. What is cut off
    /// comes last in the store's own order, which is the same for keys of letters, digits, `-`, `_`, `.`.
    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome;

    /// The objects whose keys begin with `prefix` and come after `after`, with their sizes, by ascending
    /// keys, at most `limit`. Never from a cache.
    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome;

    /// Creates an object that may be large, without holding all of it in memory where the store can.
    ///
    /// The key is one that nobody else ever uses and that this process uses once (D-46), so a store that can
    /// write in parts only without a condition may do so. A `content` that ends early or fails is a
    /// [`WriteOutcome::LocalFailure`]; then no object is there.
    fn create_from(&self, key: &str, size_bytes: u64, content: &mut (dyn Read + Send)) -> WriteOutcome {
        transfer::create_whole(self, key, size_bytes, content)
    }

    /// Reads an object that may be large into `sink`, from its beginning, without holding all of it in
    /// memory where the store can. A `sink` that fails is a [`FetchOutcome::LocalFailure`].
    fn read_into(&self, key: &str, sink: &mut (dyn Write + Send)) -> FetchOutcome {
        transfer::read_whole(self, key, sink)
    }

    /// [`forget`](Self::forget) for many keys, as few requests as the store can make of it. Done: none of
    /// them is there any more.
    fn forget_all(&self, keys: &[String]) -> DeleteOutcome {
        transfer::forget_each(self, keys)
    }

    /// For people: which store this is.
    fn name(&self) -> String;

    /// For people: what was behind the last answer that was transient or permanent, where more is known.
    fn trouble(&self) -> Option<Trouble> {
        None
    }
}
