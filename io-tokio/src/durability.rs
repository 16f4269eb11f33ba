//! What an acknowledged write survives, and the marker of the mode that survives nothing (HA-8 to HA-10).

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::files;

/// The durability mode of `dev` and `local`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DurabilityMode {
    /// Synced before it is acknowledged: survives a kill, a host crash and a power loss (HA-8).
    #[default]
    Strict,
    /// Written but not synced: survives the death of the process (HA-9).
    ProcessCrashSafe,
    /// Acknowledged from memory: survives only an orderly end (HA-10).
    Relaxed,
}

impl DurabilityMode {
    /// The name used in configuration files.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::ProcessCrashSafe => "processCrashSafe",
            Self::Relaxed => "relaxed",
        }
    }

    /// Whether writes are synced to the disk before they are acknowledged.
    #[must_use]
    pub const fn syncs(self) -> bool {
        match self {
            Self::Strict => true,
            Self::ProcessCrashSafe | Self::Relaxed => false,
        }
    }
}

impl fmt::Display for DurabilityMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

/// The text is no durability mode.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no durability mode: use strict, processCrashSafe (or process-crash-safe) or relaxed")]
pub struct UnknownDurabilityMode(String);

impl FromStr for DurabilityMode {
    type Err = UnknownDurabilityMode;

    /// Both spellings are accepted wherever a mode is read (D-28).
    fn from_str(text: &str) -> Result<Self, UnknownDurabilityMode> {
        match text {
            "strict" => Ok(Self::Strict),
            "processCrashSafe" | "process-crash-safe" => Ok(Self::ProcessCrashSafe),
            "relaxed" => Ok(Self::Relaxed),
            other => Err(UnknownDurabilityMode(other.to_owned())),
        }
    }
}

const MARKER_FILE: &str = "UNCLEAN";
const MARKER_TEXT: &str =
    "A run in durability mode `relaxed` began here. Only its orderly end removes this file.\n";

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UncleanError {
    /// A relaxed run ended abruptly (HA-10, lesson H5).
    #[error(
        "the data directory {folder} was used in durability mode `relaxed` and that run did not end in order, so \
         acknowledged writes may be missing: delete {folder} and start again"
    )]
    Unclean {
        /// The data directory.
        folder: PathBuf,
    },
    /// The marker cannot be read, written or removed.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// A run that has begun in a data directory. Dropping it is an abrupt end; [`finish`](Self::finish) is an
/// orderly one.
#[derive(Debug)]
pub struct CleanRun {
    marker: Option<PathBuf>,
}

impl CleanRun {
    /// Refuses a directory that a relaxed run left abruptly, whatever the mode of this run.
    ///
    /// # Errors
    ///
    /// The directory is unclean, or the disk failed.
    pub fn check(folder: &Path) -> Result<(), UncleanError> {
        let path = folder.join(MARKER_FILE);
        match path.try_exists() {
            Ok(false) => Ok(()),
            Ok(true) => Err(UncleanError::Unclean { folder: folder.to_path_buf() }),
            Err(source) => Err(UncleanError::Io { action: "cannot look for", path, source }),
        }
    }

    /// Checks the directory, and marks it if this run is relaxed. Call it while `dev.lock` is held, when
    /// nothing can refuse the start any more.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn begin(folder: &Path, mode: DurabilityMode) -> Result<Self, UncleanError> {
        Self::check(folder)?;
        let path = folder.join(MARKER_FILE);
        match mode {
            DurabilityMode::Relaxed => match files::write_whole(&path, MARKER_TEXT.as_bytes()) {
                Ok(()) => Ok(Self { marker: Some(path) }),
                Err(source) => Err(UncleanError::Io { action: "cannot write", path, source }),
            },
            DurabilityMode::Strict | DurabilityMode::ProcessCrashSafe => Ok(Self { marker: None }),
        }
    }

    /// The run ended in order, with everything written to the disk: the directory may be used again.
    ///
    /// # Errors
    ///
    /// The marker cannot be removed; the directory stays refused.
    pub fn finish(self) -> Result<(), UncleanError> {
        let Some(path) = self.marker else {
            return Ok(());
        };
        let folder = path.parent().expect("the marker lies in the data directory");
        fs::remove_file(&path).and_then(|()| files::sync_folder(folder)).map_err(|source| UncleanError::Io {
            action: "cannot remove",
            path: path.clone(),
            source,
        })
    }
}

#[cfg(test)]
#[path = "durability_tests.rs"]
mod tests;
