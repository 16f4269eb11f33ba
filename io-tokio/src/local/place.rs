//! Where a local store lies, what may lie beside it, and how one takes the place of another.
//!
//! ```text
//! local/             the store: its IDENTITY, and what its kind keeps
//! local.restoring/   a snapshot that is being downloaded: not a store yet
//! local.discarded/   a store that is being deleted: not a store any more
//! local.checkpoint/  files on their way to the object store
//! ```
//!
//! Only `local/` is ever opened as the store, and it is always whole: a store comes into that name and goes
//! out of it by one rename. Whatever lies under the other names at a start is of an interrupted restore or
//! checkpoint, and goes.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dexzd_core::log::LogEnd;

use super::error::LocalStoreError;
use super::identity::{self, IDENTITY_FILE, LocalStoreKind};
use super::{LocalStore, open_local_store};
use crate::files;

/// Where RocksDB keeps its files, below the folder of the store.
pub(super) const ROCKS_FOLDER: &str = "rocksdb";

/// The local store of one node on this machine.
#[derive(Clone, Debug)]
pub struct LocalPlace {
    kind: LocalStoreKind,
    folder: PathBuf,
    node_id: String,
}

impl LocalPlace {
    /// The store of that kind in `folder`, which need not exist. Nothing is touched.
    #[must_use]
    pub fn new(kind: LocalStoreKind, folder: &Path, node_id: &str) -> Self {
        Self { kind, folder: folder.to_path_buf(), node_id: node_id.to_owned() }
    }

    /// The folder of the store itself.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the store, or creates an empty one.
    ///
    /// # Errors
    ///
    /// See [`open_local_store`].
    pub fn open(&self) -> Result<Arc<dyn LocalStore>, LocalStoreError> {
        open_local_store(self.kind, &self.folder, &self.node_id)
    }

    /// Deletes what an interrupted restore, discard or checkpoint left. Nobody else may be at it: the caller
    /// holds the lock of the data directory. Returns what was found.
    ///
    /// # Errors
    ///
    /// The disk refused.
    pub fn clean_up(&self) -> Result<Vec<PathBuf>, LocalStoreError> {
        let mut found = Vec::new();
        for folder in [self.restoring(), self.discarded(), self.checkpoint_folder()] {
            if remove_folder(&folder)? {
                found.push(folder);
            }
        }
        Ok(found)
    }

    /// Deletes the store and everything that was downloaded. Nobody has the store open any more.
    ///
    /// # Errors
    ///
    /// The disk refused.
    pub fn discard(&self) -> Result<(), LocalStoreError> {
        remove_folder(&self.restoring())?;
        remove_folder(&self.discarded())?;
        match fs::rename(&self.folder, self.discarded()) {
            Ok(()) => {
                self.sync_above()?;
                remove_folder(&self.discarded())?;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(io_error("cannot move aside", &self.folder, source)),
        }
    }

    /// An empty file for one file of a snapshot, in the place of what is there.
    ///
    /// # Errors
    ///
    /// The disk refused.
    pub fn download(&self, local_name: &str) -> io::Result<File> {
        let path = path_in(self.kind, &self.restoring(), local_name);
        files::create_folder(path.parent().expect("it lies below the folder of downloads"))?;
        // Another download of it may be on its way still: it keeps a file that has no name any more.
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    /// Makes the downloads the local store and opens it. All of them are complete and synced.
    ///
    /// They are opened once where they are: a store that cannot be opened never gets the store's name, and a
    /// start after a crash in between finds none.
    ///
    /// # Errors
    ///
    /// It is of another node, kind or newer format, damaged, or not at `end`; or the disk failed.
    pub fn install(&self, end: LogEnd) -> Result<Arc<dyn LocalStore>, LocalStoreError> {
        if end == LogEnd::default() {
            return self.open();
        }
        let restoring = self.restoring();
        identity::expect(&restoring, self.kind, &self.node_id)?;
        let opened = open_local_store(self.kind, &restoring, &self.node_id)?;
        let found = opened.end();
        drop(opened);
        if found != end {
            return Err(LocalStoreError::Damaged {
                file: restoring,
                detail: format!(
                    "the snapshot should end at position {}, and ends at {}",
                    end.position, found.position
                ),
            });
        }
        for folder in [path_in(self.kind, &restoring, "any").parent().unwrap_or(&restoring), &restoring] {
            files::sync_folder(folder).map_err(|source| io_error("cannot sync", folder, source))?;
        }
        fs::rename(&restoring, &self.folder)
            .map_err(|source| io_error("cannot rename", &restoring, source))?;
        self.sync_above()?;
        self.open()
    }

    /// Freezes `store`, which is this place's, in a folder of its own; a former checkpoint goes first.
    ///
    /// # Errors
    ///
    /// The disk or the store failed.
    pub fn checkpoint(&self, store: &dyn LocalStore) -> Result<Frozen, LocalStoreError> {
        self.drop_checkpoint()?;
        store.checkpoint(&self.checkpoint_folder())
    }

    /// Opens a file of the newest checkpoint.
    ///
    /// # Errors
    ///
    /// The disk refused.
    pub fn open_checkpoint_file(&self, local_name: &str) -> io::Result<File> {
        File::open(self.checkpoint_file(local_name))
    }

    pub(super) fn checkpoint_file(&self, local_name: &str) -> PathBuf {
        path_in(self.kind, &self.checkpoint_folder(), local_name)
    }

    /// Deletes the newest checkpoint. Files of it that are open stay readable.
    ///
    /// # Errors
    ///
    /// The disk refused.
    pub fn drop_checkpoint(&self) -> Result<(), LocalStoreError> {
        remove_folder(&self.checkpoint_folder()).map(|_| ())
    }

    fn checkpoint_folder(&self) -> PathBuf {
        self.beside("checkpoint")
    }

    fn restoring(&self) -> PathBuf {
        self.beside("restoring")
    }

    fn discarded(&self) -> PathBuf {
        self.beside("discarded")
    }

    fn beside(&self, what: &str) -> PathBuf {
        let mut name: OsString = self.folder.clone().into_os_string();
        name.push(".");
        name.push(what);
        PathBuf::from(name)
    }

    fn sync_above(&self) -> Result<(), LocalStoreError> {
        let above = match self.folder.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            Some(_) | None => Path::new("."),
        };
        files::sync_folder(above).map_err(|source| io_error("cannot sync", above, source))
    }
}

/// A local store, frozen between two entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frozen {
    /// The last entry it contains (lesson D10).
    pub end: LogEnd,
    /// The names of its files, in any order.
    pub files: Vec<String>,
}

/// Where a file of a checkpoint or a snapshot lies below the folder of its store.
pub(super) fn path_in(kind: LocalStoreKind, folder: &Path, local_name: &str) -> PathBuf {
    match kind {
        LocalStoreKind::RocksDb if local_name != IDENTITY_FILE => folder.join(ROCKS_FOLDER).join(local_name),
        LocalStoreKind::RocksDb | LocalStoreKind::Memory => folder.join(local_name),
    }
}

/// Whether there was one.
fn remove_folder(folder: &Path) -> Result<bool, LocalStoreError> {
    match fs::remove_dir_all(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(io_error("cannot delete", folder, source)),
    }
}

pub(super) fn io_error(action: &'static str, path: &Path, source: io::Error) -> LocalStoreError {
    LocalStoreError::Io { action, path: path.to_path_buf(), source }
}
