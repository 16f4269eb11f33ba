//! Files that are there as a whole or not at all, and folders that survive a power loss.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// The beginning of the name of every file that is still being written.
const TEMPORARY_PREFIX: &str = ".tmp-";

/// Whether this is the name of a file that was never finished.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(TEMPORARY_PREFIX)
}

/// A name in `folder` that no other thread and no other living process of this host uses.
pub(crate) fn temporary_path(folder: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("{TEMPORARY_PREFIX}{}-{:016x}-{number}", process::id(), crate::clock::entropy()))
}

/// Writes a file so that a crash leaves the old one or the new one, whole and durable.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let temporary = temporary_path(folder);
    let written = (|| {
        let mut file = create_new(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if let Err(error) = written {
        // What is left behind is recognised by its name and cleaned up later.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder(folder)
}

/// Creates a file that must not exist yet.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Makes names created, renamed or removed in this folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Creates a folder with everything above it, durably. Does nothing if it exists.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = match folder.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        Some(_) | None => Path::new("."),
    };
    create_folder(above)?;
    match fs::create_dir(folder) {
        Ok(()) => sync_folder(above),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}
