//! The local store as a map in memory. Its checkpoint file lets the log be trimmed.

use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use dexzd_core::engine::{Change, StateRead};
use dexzd_core::log::LogEnd;

use super::checkpoint::{self, Map};
use super::error::LocalStoreError;
use super::identity::{self, IDENTITY_FILE, LocalStoreKind};
use super::place::{Frozen, io_error};
use super::{LocalStore, RESERVED_KEY_PREFIX};
use crate::files;

const CHECKPOINT_FILE: &str = "checkpoint";
/// A checkpoint is due after so much was applied, or after as much as the last checkpoint's size if
/// that is more: then writing checkpoints costs at most as much as writing the log.
const FLUSH_AFTER_BYTES: u64 = 16 << 20;

/// A map in memory, loaded from its checkpoint at the start.
pub struct MemoryStore {
    folder: PathBuf,
    state: RwLock<State>,
    durable: Mutex<LogEnd>,
    /// One checkpoint is written at a time.
    flushing: Mutex<()>,
    unflushed_bytes: AtomicU64,
    checkpoint_bytes: AtomicU64,
    failed: AtomicBool,
}

struct State {
    end: LogEnd,
    map: Map,
}

impl MemoryStore {
    /// Opens the store of `node_id` in `folder`, or creates it.
    ///
    /// # Errors
    ///
    /// See [`super::open_local_store`].
    pub fn open(folder: &Path, node_id: &str) -> Result<Self, LocalStoreError> {
        identity::claim(folder, LocalStoreKind::Memory, node_id)?;
        remove_unfinished(folder)?;
        let (end, map, bytes) = checkpoint::read(&folder.join(CHECKPOINT_FILE))?.unwrap_or_default();
        Ok(Self {
            folder: folder.to_path_buf(),
            state: RwLock::new(State { end, map }),
            durable: Mutex::new(end),
            flushing: Mutex::new(()),
            unflushed_bytes: AtomicU64::new(0),
            checkpoint_bytes: AtomicU64::new(bytes),
            failed: AtomicBool::new(false),
        })
    }

    /// A copy that shares keys and values, so readers and the writer wait for pointers only.
    fn copy(&self) -> (LogEnd, Map) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        (state.end, state.map.clone())
    }

    fn check_usable(&self) -> Result<(), LocalStoreError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(LocalStoreError::FailedBefore { folder: self.folder.clone() });
        }
        Ok(())
    }
}

impl StateRead for MemoryStore {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.map.get(key).map(|value| value.to_vec())
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        if from >= to {
            return;
        }
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let range = (Bound::Included(from), Bound::Excluded(to));
        for (key, value) in state.map.range::<[u8], _>(range) {
            if !visit(key, value) {
                return;
            }
        }
    }
}

impl LocalStore for MemoryStore {
    fn apply(&self, end: LogEnd, changes: &[Change]) -> Result<(), LocalStoreError> {
        self.check_usable()?;
        let mut bytes = 0;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for Change { key, value } in changes {
            assert!(key.first() != Some(&RESERVED_KEY_PREFIX), "the core uses no key of the local store");
            bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            match value {
                Some(value) => {
                    state.map.insert(key.as_slice().into(), value.as_slice().into());
                }
                None => {
                    state.map.remove(key.as_slice());
                }
            }
        }
        state.end = end;
        drop(state);
        self.unflushed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn end(&self) -> LogEnd {
        self.state.read().unwrap_or_else(PoisonError::into_inner).end
    }

    fn durable_end(&self) -> LogEnd {
        *self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wants_flush(&self) -> bool {
        let due = self.checkpoint_bytes.load(Ordering::Relaxed).max(FLUSH_AFTER_BYTES);
        self.unflushed_bytes.load(Ordering::Relaxed) >= due
    }

    fn flush(&self) -> Result<LogEnd, LocalStoreError> {
        let _one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_usable()?;
        // What is applied meanwhile may be counted again: then the next flush comes a little early.
        let unflushed = self.unflushed_bytes.load(Ordering::Relaxed);
        let (end, map) = self.copy();
        self.unflushed_bytes.fetch_sub(unflushed, Ordering::Relaxed);
        if end == self.durable_end() {
            return Ok(end);
        }
        let file = self.folder.join(CHECKPOINT_FILE);
        let bytes = checkpoint::write(&file, end, &map).map_err(|source| {
            self.failed.store(true, Ordering::Release);
            LocalStoreError::Io { action: "cannot write", path: file, source }
        })?;
        self.checkpoint_bytes.store(bytes, Ordering::Relaxed);
        *self.durable.lock().unwrap_or_else(PoisonError::into_inner) = end;
        Ok(end)
    }

    fn checkpoint(&self, folder: &Path) -> Result<Frozen, LocalStoreError> {
        self.check_usable()?;
        let frozen = self.freeze(folder);
        if frozen.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        frozen
    }
}

impl MemoryStore {
    fn freeze(&self, folder: &Path) -> Result<Frozen, LocalStoreError> {
        let (end, map) = self.copy();
        fs::create_dir(folder).map_err(|source| io_error("cannot create", folder, source))?;
        let identity = folder.join(IDENTITY_FILE);
        fs::copy(self.folder.join(IDENTITY_FILE), &identity)
            .map_err(|source| io_error("cannot write", &identity, source))?;
        let file = folder.join(CHECKPOINT_FILE);
        checkpoint::write(&file, end, &map).map_err(|source| io_error("cannot write", &file, source))?;
        Ok(Frozen { end, files: [IDENTITY_FILE, CHECKPOINT_FILE].map(str::to_owned).into() })
    }
}

fn remove_unfinished(folder: &Path) -> Result<(), LocalStoreError> {
    let io_error =
        |source| LocalStoreError::Io { action: "cannot clean up", path: folder.to_path_buf(), source };
    for entry in std::fs::read_dir(folder).map_err(io_error)? {
        let entry = entry.map_err(io_error)?;
        if files::is_temporary(&entry.file_name()) {
            std::fs::remove_file(entry.path()).map_err(io_error)?;
        }
    }
    Ok(())
}
