//! What the segment log asks of the operating system: a seam at which tests count and break.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::files;

/// A file is filled in steps of 1 MiB, each synced: a commit beside it never waits for more than one.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Writes and syncs. Reads, renames and deletions are not here: nothing is promised on them.
pub trait Disk: Send + Sync {
    /// Creates a file with so many zero bytes. `written`: they are really on the disk, so that a later
    /// sync of data over them has no metadata to write.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn create(&self, path: &Path, bytes: u64, written: bool) -> io::Result<File>;

    /// Writes all of this there.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn write_at(&self, file: &File, content: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the file's content durable. A failure is never followed by a second try (D-33).
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn sync(&self, file: &File) -> io::Result<()>;

    /// Makes names in this folder durable.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The disk.
#[derive(Clone, Copy, Default, Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path, bytes: u64, written: bool) -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        if !written {
            file.set_len(bytes)?;
            return Ok(file);
        }
        // Allocated but unwritten space would not do: file systems note in their journal when it is
        // first written, so every sync would be two.
        let mut offset = 0;
        while offset < bytes {
            let length = (bytes - offset).min(ZEROS.len() as u64);
            let zeros = &ZEROS[..usize::try_from(length).expect("at most the length of an array")];
            file.write_all_at(zeros, offset)?;
            file.sync_data()?;
            offset += length;
        }
        file.sync_all()?;
        Ok(file)
    }

    fn write_at(&self, file: &File, content: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(content, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        files::sync_folder(folder)
    }
}
