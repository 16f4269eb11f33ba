//! Opens the local store when the lease is held, and puts an empty one in the place of one that does not
//! fit the log.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::config::NodeConfig;
use super::devices::Wrap;
use crate::local::{LocalStore, LocalStoreError, LocalStoreKind, open_local_store};

pub(super) struct LocalOpener {
    pub(super) kind: LocalStoreKind,
    pub(super) folder: PathBuf,
    pub(super) node_id: String,
    /// Opened before the threads began, so that a refusal comes at once.
    pub(super) opened: Option<Arc<dyn LocalStore>>,
    pub(super) wrap: Wrap<dyn LocalStore>,
}

impl LocalOpener {
    pub(super) fn new(config: &NodeConfig, folder: &str, wrap: Wrap<dyn LocalStore>) -> Self {
        Self {
            kind: config.local_store,
            folder: config.data_dir.join(folder),
            node_id: config.node_id.clone(),
            opened: None,
            wrap,
        }
    }

    pub(super) fn open(&mut self) -> Result<Arc<dyn LocalStore>, LocalStoreError> {
        let opened = match self.opened.take() {
            Some(opened) => opened,
            None => open_local_store(self.kind, &self.folder, &self.node_id)?,
        };
        Ok((self.wrap)(opened))
    }

    /// Moves the store aside, for whoever wants to know what happened. One that was moved aside before
    /// goes. Nobody holds the store any more.
    pub(super) fn discard(&self) -> Result<(), LocalStoreError> {
        let mut aside = self.folder.clone().into_os_string();
        aside.push(".discarded");
        let aside = PathBuf::from(aside);
        let io_error = |source: io::Error| LocalStoreError::Io {
            action: "cannot move aside",
            path: self.folder.clone(),
            source,
        };
        match fs::remove_dir_all(&aside) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error(error)),
        }
        fs::rename(&self.folder, &aside).map_err(io_error)
    }
}
