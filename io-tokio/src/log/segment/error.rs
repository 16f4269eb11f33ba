//! Why a segment log cannot be opened. Nothing is changed or overwritten in any of these cases.

use std::io;
use std::path::PathBuf;

use dexzd_core::ids::Position;

use super::file::FORMAT_VERSION;

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SegmentLogError {
    /// What stands there is no record, and a crash does not explain it: records follow.
    #[error(
        "the log is damaged: {path} at byte {offset}, where the entry at position {position} should be; nothing was \
         changed. Restore the file from a backup"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The entry that should be there.
        position: Position,
    },
    /// A newer version of the program wrote the file.
    #[error(
        "the log file {path} has format {found}, this version reads up to {FORMAT_VERSION}: start the version that \
         wrote it, or a newer one"
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
    },
    /// The operating system refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}
