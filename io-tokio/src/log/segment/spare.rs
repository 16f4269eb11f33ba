//! The next segment file, filled with zeros ahead of time and beside the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::SEGMENT_BYTES;
use super::disk::Disk;
use crate::files;

/// A finished spare has this name, and is kept over a restart.
const SPARE_FILE: &str = "spare";

/// At most one file that is ready to become a segment.
pub(super) struct Spare {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    written: bool,
    worker: Option<JoinHandle<io::Result<()>>>,
}

impl Spare {
    pub(super) fn new(folder: &Path, disk: Arc<dyn Disk>, written: bool) -> Self {
        Self { folder: folder.to_path_buf(), disk, written, worker: None }
    }

    /// Begins to make one on a thread of its own, unless there is one or one is being made.
    pub(super) fn prepare(&mut self) {
        // Without sync a file costs nothing to make.
        if !self.written || self.worker.is_some() || self.path().exists() {
            return;
        }
        let (folder, disk, spare) = (self.folder.clone(), self.disk.clone(), self.path());
        let builder = thread::Builder::new().name("log-spare".to_owned());
        let spawned = builder.spawn(move || {
            let temporary = files::temporary_path(&folder);
            disk.create(&temporary, SEGMENT_BYTES, true)?;
            std::fs::rename(&temporary, &spare)
        });
        // Without it the segment is made when it is needed, which only takes longer.
        self.worker = spawned.ok();
    }

    /// The path of a finished spare. One that is still being made is not waited for.
    pub(super) fn take(&mut self) -> Option<PathBuf> {
        if self.worker.as_ref().is_some_and(|worker| !worker.is_finished()) {
            return None;
        }
        self.finish();
        let path = self.path();
        let whole = path.metadata().is_ok_and(|metadata| metadata.len() == SEGMENT_BYTES);
        (self.written && whole).then_some(path)
    }

    /// Waits for one that is being made.
    pub(super) fn finish(&mut self) {
        if let Some(worker) = self.worker.take() {
            // A failure shows again, and matters, when a file is made in the ordinary way.
            let _ = worker.join();
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(SPARE_FILE)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.finish();
    }
}
