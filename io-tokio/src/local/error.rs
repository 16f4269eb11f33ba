//! What can be wrong with a local store. Every text names the folder, the fact and what to do.

use std::io;
use std::path::PathBuf;

use super::identity::{IDENTITY_FILE, LocalStoreKind};

/// Why a local store cannot be opened, written or flushed.
#[derive(Debug, thiserror::Error)]
pub enum LocalStoreError {
    /// It belongs to another node.
    #[error(
        "the local store in {folder} belongs to node `{found}`, not to `{expected}`: give this node a data directory \
         of its own, or set nodeId to `{found}`; nothing was changed"
    )]
    ForeignNode {
        /// Where.
        folder: PathBuf,
        /// The node that it names.
        found: String,
        /// This node.
        expected: String,
    },
    /// A newer version of the program wrote it.
    #[error(
        "the local store in {folder} has format {found}, and this version reads up to {newest}: start a version of \
         dex-server-zd that knows format {found}; nothing was changed"
    )]
    NewerFormat {
        /// Where.
        folder: PathBuf,
        /// The format that it names.
        found: u32,
        /// The newest format that this version reads.
        newest: u32,
    },
    /// It is of another kind.
    #[error(
        "the local store in {folder} is of kind `{found}`, and this process uses `{expected}`: start a build with \
         `{found}`, or use another data directory; nothing was changed"
    )]
    OtherKind {
        /// Where.
        folder: PathBuf,
        /// The kind that it names.
        found: LocalStoreKind,
        /// The kind asked for.
        expected: LocalStoreKind,
    },
    /// This build has no RocksDB.
    #[error(
        "the local store in {folder} needs RocksDB, and this is the light build without it: start the full build"
    )]
    NotCompiledIn {
        /// Where.
        folder: PathBuf,
    },
    /// A file of it is not what was written.
    #[error(
        "{file} is damaged ({detail}): it is not used and was not changed; restore it, or start with an empty data \
         directory"
    )]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// What does not fit.
        detail: String,
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
    /// The store's own library failed.
    #[error("the local store in {folder} failed to {action}: {detail}")]
    Library {
        /// Where.
        folder: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What it said.
        detail: String,
    },
    /// An earlier write or flush failed; a failed fsync is never retried (D-33).
    #[error("the local store in {folder} failed before and is not used any further")]
    FailedBefore {
        /// Where.
        folder: PathBuf,
    },
}

impl LocalStoreError {
    /// Whether the store itself is known to be this node's and its content is broken: then one that can be had
    /// elsewhere may take its place. A store that is another's, or that a newer version wrote, is left alone.
    #[must_use]
    pub fn is_broken_content(&self) -> bool {
        match self {
            Self::Damaged { file, .. } => file.file_name().is_none_or(|name| name != IDENTITY_FILE),
            // What RocksDB calls it when a checksum does not fit or a file is missing.
            Self::Library { detail, .. } => detail.starts_with("Corruption"),
            Self::ForeignNode { .. }
            | Self::NewerFormat { .. }
            | Self::OtherKind { .. }
            | Self::NotCompiledIn { .. }
            | Self::Io { .. }
            | Self::FailedBefore { .. } => false,
        }
    }
}

/// What a failed read unwinds with: reads are infallible for the core, and a disk that cannot be read
/// ends the process (D-33).
#[derive(Debug)]
pub struct LocalReadFailed(pub LocalStoreError);

impl LocalReadFailed {
    /// Leaves the thread's work with this error, without a panic message of its own.
    #[cfg(feature = "rocksdb")]
    pub(crate) fn unwind(error: LocalStoreError) -> ! {
        std::panic::resume_unwind(Box::new(Self(error)))
    }
}
