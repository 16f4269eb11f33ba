//! A local store that says when it is closed.

use std::path::Path;
use std::sync::Arc;

use dexzd_core::engine::{Change, StateRead};
use dexzd_core::log::LogEnd;

use super::messages::{DataMessage, DataSender};
use crate::local::{Frozen, LocalStore, LocalStoreError};

/// Passes everything on. Engine, applier, upkeep and whoever reads snapshots share it in an `Arc`; the last
/// of them to let go closes the store, and only when that is done the data plane hears of it (HA-104).
pub(super) struct TrackedStore {
    /// The only `Arc` of it. None while it is being dropped.
    inner: Option<Arc<dyn LocalStore>>,
    data: DataSender,
}

impl TrackedStore {
    pub(super) fn new(inner: Arc<dyn LocalStore>, data: DataSender) -> Self {
        Self { inner: Some(inner), data }
    }

    fn inner(&self) -> &dyn LocalStore {
        &**self.inner.as_ref().expect("only the drop takes it")
    }
}

impl Drop for TrackedStore {
    fn drop(&mut self) {
        // Closes it, which may take its time: its background work ends here.
        self.inner = None;
        self.data.send(DataMessage::LocalStoreClosed);
    }
}

impl StateRead for TrackedStore {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner().get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.inner().scan(from, to, visit);
    }
}

impl LocalStore for TrackedStore {
    fn apply(&self, end: LogEnd, changes: &[Change]) -> Result<(), LocalStoreError> {
        self.inner().apply(end, changes)
    }

    fn end(&self) -> LogEnd {
        self.inner().end()
    }

    fn durable_end(&self) -> LogEnd {
        self.inner().durable_end()
    }

    fn wants_flush(&self) -> bool {
        self.inner().wants_flush()
    }

    fn flush(&self) -> Result<LogEnd, LocalStoreError> {
        self.inner().flush()
    }

    fn checkpoint(&self, folder: &Path) -> Result<Frozen, LocalStoreError> {
        self.inner().checkpoint(folder)
    }
}
