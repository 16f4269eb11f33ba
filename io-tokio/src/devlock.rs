//! `dev.lock`: the exclusive lock of one process on one data directory (HA-5, D-45).
//!
//! Held, it proves that no other process of this host uses the directory, so that a lease found there
//! belongs to a dead process (HA-6). That proof needs a local file system of a known kind, and it ends
//! when somebody replaces the file: then a second process can lock the new one. The file is never
//! deleted by us (lesson H1).

use std::fs::{File, OpenOptions};
use std::io;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{FlockOperation, flock, fstat, fstatfs, stat};

use crate::files;

/// The name of the lock file in the data directory.
pub const LOCK_FILE: &str = "dev.lock";
/// The name of the lock file on the private volume of a process whose lease and log lie on a shared store. It
/// only keeps a second process off the volume; it says nothing about the lease.
pub const VOLUME_LOCK_FILE: &str = "local.lock";

/// File systems on which `flock` excludes every other process, by the number that `statfs` gives.
/// Network, cluster and user-space file systems are missing on purpose: their locks may be local to one
/// client, or mean nothing.
const LOCAL_FILE_SYSTEMS: [(&str, u32); 10] = [
    ("ext2, ext3, ext4", 0xef53),
    ("xfs", 0x5846_5342),
    ("btrfs", 0x9123_683e),
    ("tmpfs", 0x0102_1994),
    ("ramfs", 0x8584_58f6),
    ("overlayfs", 0x794c_7630),
    ("f2fs", 0xf2f5_2010),
    ("zfs", 0x2fc1_2fc1),
    ("bcachefs", 0xca45_1a4e),
    ("jfs", 0x3153_464a),
];

/// What trying to lock a data directory led to.
#[derive(Debug)]
pub enum LockOutcome {
    /// The directory is ours until this value is dropped or the process ends.
    Held(DevLock),
    /// The file system cannot give the proof: take the expiry path, with a warning (HA-7).
    NotSupported {
        /// Why, for the warning.
        reason: String,
    },
}

/// Why a data directory cannot be locked at all.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it (HA-5).
    #[error(
        "another dex-server-zd process{holder} uses the data directory {folder} (it holds {path}): stop it, or give \
         this one a directory of its own"
    )]
    HeldByAnother {
        /// The data directory.
        folder: PathBuf,
        /// The lock file.
        path: PathBuf,
        /// ` N` with its process id where the file tells, else empty.
        holder: String,
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

/// A held lock.
#[derive(Debug)]
pub struct DevLock {
    path: PathBuf,
    file: File,
    device: u64,
    inode: u64,
}

impl DevLock {
    /// Tries to lock `folder`, which is created if it is missing. Never waits.
    ///
    /// # Errors
    ///
    /// Another process holds the lock, or the operating system refuses.
    pub fn acquire(folder: &Path) -> Result<LockOutcome, LockError> {
        Self::acquire_file(folder, LOCK_FILE)
    }

    /// The same for the private volume of a process on a shared object store (lesson H1).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_volume(folder: &Path) -> Result<LockOutcome, LockError> {
        Self::acquire_file(folder, VOLUME_LOCK_FILE)
    }

    fn acquire_file(folder: &Path, name: &str) -> Result<LockOutcome, LockError> {
        let path = folder.join(name);
        let io_error = |action| {
            let path = path.clone();
            move |source: io::Error| LockError::Io { action, path, source }
        };
        files::create_folder(folder).map_err(|source| LockError::Io {
            action: "cannot create",
            path: folder.to_path_buf(),
            source,
        })?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io_error("cannot open"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::HeldByAnother {
                    folder: folder.to_path_buf(),
                    holder: read_holder(&mut file),
                    path,
                });
            }
            Err(
                error @ (rustix::io::Errno::NOSYS
                | rustix::io::Errno::OPNOTSUPP
                | rustix::io::Errno::NOLCK
                | rustix::io::Errno::INVAL),
            ) => {
                return Ok(LockOutcome::NotSupported {
                    reason: format!("the file system of {} cannot lock: {error}", path.display()),
                });
            }
            Err(error) => return Err(io_error("cannot lock")(error.into())),
        }
        let kind =
            fstatfs(&file).map_err(|error| io_error("cannot find the file system of")(error.into()))?.f_type;
        if !is_known_local(kind) {
            return Ok(LockOutcome::NotSupported {
                reason: format!(
                    "{} lies on a file system of kind {kind:#x}, whose locks are not known to exclude other processes",
                    path.display()
                ),
            });
        }
        let status = fstat(&file).map_err(|error| io_error("cannot look at")(error.into()))?;
        let lock = Self { path: path.clone(), device: status.st_dev, inode: status.st_ino, file };
        // Checked after locking: the file may have been replaced between opening and locking it.
        if !lock.still_locked() {
            return Err(LockError::HeldByAnother {
                folder: folder.to_path_buf(),
                holder: String::new(),
                path,
            });
        }
        lock.write_holder().map_err(io_error("cannot write"))?;
        Ok(LockOutcome::Held(lock))
    }

    /// Whether the path still names the file that is locked: one `stat`.
    ///
    /// Asked between every commit's write and its acknowledgement. If it is true then, a second process
    /// did not exist when the entry was written, and will read it (D-45).
    #[must_use]
    pub fn still_locked(&self) -> bool {
        stat(&self.path).is_ok_and(|status| status.st_dev == self.device && status.st_ino == self.inode)
    }

    /// Where the lock lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For people and for the message of a second process; nothing rests on it.
    fn write_holder(&self) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        writeln!(file, "{}", process::id())
    }
}

fn read_holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(id)) => format!(" {id}"),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => String::new(),
    }
}

#[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn is_known_local<T: Into<i128>>(kind: T) -> bool {
    // The field's type differs by platform; the numbers have 32 bits everywhere.
    let kind = kind.into() as u32;
    LOCAL_FILE_SYSTEMS.iter().any(|(_, known)| *known == kind)
}

#[cfg(test)]
#[path = "devlock_tests.rs"]
mod tests;
