//! Whether a file is still the one that was read.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// What changes when a file is written or replaced. A replaced symbolic link, as Kubernetes does it, changes it
/// too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Device, file number, and the time of the last change of either contents or rights.
    identity: (u64, u64, i64, i64),
}

impl Fingerprint {
    /// Of the file as it is now.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self { modified: metadata.modified().ok(), bytes: metadata.len(), identity: identity(&metadata) })
    }
}

#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}
