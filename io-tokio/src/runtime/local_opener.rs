//! Opens the local store, and puts another one in the place of one that cannot be used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use dexzd_core::ids::{Name, Position};
use dexzd_core::log::LogEnd;
use dexzd_core::node::{Input as NodeInput, OpenLog};
use dexzd_core::snapshot::{BootstrapOptions, Cadence, KeeperOptions};
use dexzd_core::stop::StopReason;

use super::config::NodeConfig;
use super::devices::Wrap;
use super::event::{EventSink, ShellEvent};
use super::messages::ControlSender;
use crate::clock::Clock;
use crate::local::{LocalPlace, LocalStore, LocalStoreError};
use crate::snapshot::{KeeperHandle, KeeperParts, KeeperReport, RestoreHandle, RestoreParts};
use crate::store::ObjectStore;

/// How soon a restore hears that nobody wants it any more, or of a newer bound.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// A file that is just written at its end is synced first.
const STOP_LIMIT: Duration = Duration::from_secs(5);

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

/// Where snapshots come from and go to: on a shared store.
pub(super) struct Snapshots {
    /// A connection of its own.
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) clock: Arc<Clock>,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) cadence: Cadence,
}

pub(super) struct LocalOpener {
    place: LocalPlace,
    node_id: Name,
    /// None: the log is this process's own, in its data directory.
    snapshots: Option<Snapshots>,
    /// Opened before the threads began, so that a refusal comes at once.
    opened: Option<Arc<dyn LocalStore>>,
    wrap: Wrap<dyn LocalStore>,
}

impl LocalOpener {
    pub(super) fn new(
        config: &NodeConfig,
        folder: &str,
        wrap: Wrap<dyn LocalStore>,
        snapshots: Option<Snapshots>,
    ) -> Self {
        let place = LocalPlace::new(config.local_store, &config.data_dir.join(folder), &config.node_id);
        Self { place, node_id: Name::new(&config.node_id), snapshots, opened: None, wrap }
    }

    /// Deletes what an interrupted restore or snapshot left. Nobody else is at it.
    pub(super) fn clean_up(&self) -> Result<(), LocalStoreError> {
        for folder in self.place.clean_up()? {
            if let Some(snapshots) = &self.snapshots {
                snapshots.events.shell(&ShellEvent::LeftoverDeleted { folder });
            }
        }
        Ok(())
    }

    /// Opens it ahead of time: nobody else can have it open.
    pub(super) fn open_early(&mut self) -> Result<(), LocalStoreError> {
        self.opened = Some(self.place.open()?);
        Ok(())
    }

    pub(super) fn open(&mut self) -> Replaced {
        let opened = match self.opened.take() {
            Some(opened) => Ok(opened),
            None => self.open_place(),
        };
        opened.map(|opened| (self.wrap)(opened)).map_err(failed)
    }

    /// Where snapshots and a log stand elsewhere, a store with broken content is worth nothing: an empty one
    /// takes its place, and they fill it (D-43).
    fn open_place(&self) -> Result<Arc<dyn LocalStore>, LocalStoreError> {
        match (self.place.open(), &self.snapshots) {
            (Err(error), Some(snapshots)) if error.is_broken_content() => {
                snapshots.events.shell(&ShellEvent::LocalStoreBroken { detail: error.to_string() });
                self.place.discard()?;
                self.place.open()
            }
            (opened, _) => opened,
        }
    }

    /// Deletes the store, which nobody has open, and opens the next best: the newest whole snapshot, or an
    /// empty store, which the log fills.
    pub(super) fn replace(&mut self, replacement: &Replacement) -> Replaced {
        match &self.snapshots {
            None => move_aside(self.place.folder()).map_err(failed)?,
            Some(_) if replacement.empty => self.place.discard().map_err(failed)?,
            Some(snapshots) => return self.restore(snapshots, replacement).map(|local| (self.wrap)(local)),
        }
        self.open()
    }

    /// As long as it takes: this thread has nothing else to do meanwhile.
    fn restore(&self, snapshots: &Snapshots, replacement: &Replacement) -> Replaced {
        let mut trimmed_below = Position(replacement.trimmed_below.load(Ordering::Relaxed));
        let options =
            BootstrapOptions { node_id: self.node_id.clone(), trimmed_below, seed: crate::clock::entropy() };
        let (sender, done) = mpsc::channel();
        let parts = RestoreParts {
            store: Arc::clone(&snapshots.store),
            place: self.place.clone(),
            clock: Arc::clone(&snapshots.clock),
            events: Arc::clone(&snapshots.events),
            done: Box::new(move |restored| {
                let _ = sender.send(restored);
            }),
        };
        let failed = |detail: String| ReplaceFailure { reason: StopReason::LocalStoreFailed, detail };
        let restore = RestoreHandle::start(options, parts)
            .map_err(|error| failed(format!("there is no thread to restore a snapshot: {error}")))?;
        loop {
            match done.recv_timeout(LOOK_INTERVAL) {
                Ok(Ok(local)) => return Ok(local),
                Ok(Err(reason)) => {
                    return Err(ReplaceFailure {
                        reason,
                        detail: "no snapshot could be restored".to_owned(),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failed("restoring a snapshot panicked".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if replacement.cancelled.load(Ordering::Relaxed) {
                restore.stop();
                let _ended = restore.has_ended(STOP_LIMIT);
                return Err(failed("restoring a snapshot was stopped".to_owned()));
            }
            let bound = Position(replacement.trimmed_below.load(Ordering::Relaxed));
            if bound > trimmed_below {
                trimmed_below = bound;
                restore.trimmed_below(bound);
            }
        }
    }

    /// Begins to keep the snapshots of a tenure, on a shared store.
    pub(super) fn keep_snapshots(
        &self,
        local: &Arc<dyn LocalStore>,
        open: OpenLog,
        fence: LogEnd,
        control: &ControlSender,
    ) -> io::Result<Option<KeeperHandle>> {
        let Some(snapshots) = &self.snapshots else {
            return Ok(None);
        };
        let options = KeeperOptions {
            node_id: self.node_id.clone(),
            process_id: open.process_id,
            epoch: open.epoch,
            fence,
            trimmed_below: open.trimmed_below,
            cadence: snapshots.cadence,
            seed: crate::clock::entropy(),
        };
        let control = control.clone();
        let parts = KeeperParts {
            store: Arc::clone(&snapshots.store),
            place: self.place.clone(),
            local: Arc::clone(local),
            clock: Arc::clone(&snapshots.clock),
            events: Arc::clone(&snapshots.events),
            report: Box::new(move |report| {
                control.send(match report {
                    KeeperReport::TrimBelow(position) => NodeInput::TrimBelow(position),
                    KeeperReport::Failed(reason) => NodeInput::Failed(reason),
                });
            }),
        };
        KeeperHandle::start(options, parts).map(Some)
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
