//! Opens the local store, and puts another one in the place of one that cannot be used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use dexzd_core::stop::StopReason;

use super::config::{NodeConfig, Storage};
use super::devices::Wrap;
use crate::local::{LocalPlace, LocalStore, LocalStoreError};

/// What opening or replacing led to.
pub(super) type Replaced = Result<Arc<dyn LocalStore>, ReplaceFailure>;

/// Why there is no local store.
pub(super) struct ReplaceFailure {
    pub(super) reason: StopReason,
    /// For people.
    pub(super) detail: String,
}

/// What is to take the place of a local store.
#[derive(Clone, Default)]
pub(super) struct Replacement {
    /// An empty one, whatever snapshots there are: the follower gave up (D-15).
    pub(super) empty: bool,
    /// Of the newest lease seen: an older snapshot is of no use (D-43). It may grow meanwhile.
    pub(super) trimmed_below: Arc<AtomicU64>,
    /// Nobody waits for it any more: the process ends.
    pub(super) cancelled: Arc<AtomicBool>,
}

pub(super) struct LocalOpener {
    place: LocalPlace,
    /// Whether the log is this process's own, in its data directory.
    in_data_dir: bool,
    /// Opened before the threads began, so that a refusal comes at once.
    opened: Option<Arc<dyn LocalStore>>,
    wrap: Wrap<dyn LocalStore>,
}

impl LocalOpener {
    pub(super) fn new(config: &NodeConfig, folder: &str, wrap: Wrap<dyn LocalStore>) -> Self {
        let place = LocalPlace::new(config.local_store, &config.data_dir.join(folder), &config.node_id);
        let in_data_dir = matches!(config.storage, Storage::DataDir { .. });
        Self { place, in_data_dir, opened: None, wrap }
    }

    /// Opens it ahead of time: nobody else can have it open.
    pub(super) fn open_early(&mut self) -> Result<(), LocalStoreError> {
        self.opened = Some(self.place.open()?);
        Ok(())
    }

    pub(super) fn open(&mut self) -> Replaced {
        let opened = match self.opened.take() {
            Some(opened) => Ok(opened),
            None => self.place.open(),
        };
        opened.map(|opened| (self.wrap)(opened)).map_err(failed)
    }

    /// Deletes the store, which nobody has open, and opens the next best: an empty one, which the log fills.
    pub(super) fn replace(&mut self, replacement: &Replacement) -> Replaced {
        let Replacement { empty, trimmed_below, cancelled } = replacement;
        tracing::debug!(
            empty,
            ?trimmed_below,
            ?cancelled,
            "there are no snapshots yet: the log fills an empty store"
        );
        let discarded = if self.in_data_dir { move_aside(self.place.folder()) } else { self.place.discard() };
        discarded.map_err(failed)?;
        self.open()
    }
}

fn failed(error: LocalStoreError) -> ReplaceFailure {
    ReplaceFailure { reason: StopReason::LocalStoreFailed, detail: error.to_string() }
}

/// For whoever wants to know what happened. One that was moved aside before goes.
fn move_aside(folder: &Path) -> Result<(), LocalStoreError> {
    let mut aside = folder.to_path_buf().into_os_string();
    aside.push(".discarded");
    let aside = PathBuf::from(aside);
    let io_error = |source: io::Error| LocalStoreError::Io {
        action: "cannot move aside",
        path: folder.to_path_buf(),
        source,
    };
    match fs::remove_dir_all(&aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error(error)),
    }
    fs::rename(folder, &aside).map_err(io_error)
}
