//! Finding the segments and the end of the log.
//!
//! In the modes without fsync the operating system writes in any order, so a crash of the host can
//! leave gaps and garbage anywhere in what was recent. That is what those modes allow (HA-9): the log
//! then ends before the first gap, and what lies behind it is set aside. Whether the host crashed is
//! known from a file that names the boot in which the log was last written without fsync.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use dexzd_core::ids::Position;

use super::disk::Disk;
use super::error::SegmentLogError;
use super::file::{self, Header};
use super::load::Loaded;
use super::record::Tail;
use crate::durability::DurabilityMode;
use crate::files;

/// Names the boot in which segments were written without fsync.
const UNSYNCED_FILE: &str = "unsynced";
/// Linux: one random number per boot.
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// What a folder holds.
pub(super) struct Opened {
    /// Ascending; each has at least one record.
    pub(super) segments: Vec<Header>,
    pub(super) end: Position,
    pub(super) end_checksum: u32,
}

/// Opens a folder, which is created if it is missing.
pub(super) fn open(folder: &Path, mode: DurabilityMode, disk: &dyn Disk) -> Result<Opened, SegmentLogError> {
    open_in_boot(folder, mode, disk, &boot_id())
}

/// The same, in this boot of the host. An empty one is unknown, and like no other.
pub(super) fn open_in_boot(
    folder: &Path,
    mode: DurabilityMode,
    disk: &dyn Disk,
    boot: &str,
) -> Result<Opened, SegmentLogError> {
    files::create_folder(folder).map_err(io_error("cannot create", folder))?;
    let marker = folder.join(UNSYNCED_FILE);
    let unsynced_in = match fs::read_to_string(&marker) {
        Ok(boot) => Some(boot),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_error("cannot read", &marker)(error)),
    };
    let (firsts, temporaries) = list(folder)?;
    let host_crashed = unsynced_in.as_ref().is_some_and(|then| !boot.is_empty() && then != boot);
    let opened = if host_crashed { cut(folder, disk, &firsts)? } else { find_end(folder, &firsts)? };
    for temporary in temporaries {
        // What a crash left unfinished. It is tried again at the next start.
        let _ = fs::remove_file(temporary);
    }
    if !mode.syncs() {
        fs::write(&marker, boot).map_err(io_error("cannot write", &marker))?;
    } else {
        // What this process goes on behind must not be lost later. That is the last segment, whose last
        // record may never have been synced: its writer was killed in between. It is every segment where
        // the mode was another.
        let all = unsynced_in.is_some();
        let unsynced = if all { 0 } else { opened.segments.len().saturating_sub(1) };
        for header in &opened.segments[unsynced..] {
            let path = file::path(folder, header.first);
            File::open(&path).and_then(|file| disk.sync(&file)).map_err(io_error("cannot sync", &path))?;
        }
        if all {
            disk.sync_folder(folder).map_err(io_error("cannot sync", folder))?;
            fs::remove_file(&marker).map_err(io_error("cannot remove", &marker))?;
        }
    }
    Ok(opened)
}

/// The end of the log is the end of the last segment that has a record. Segments behind it were begun
/// and never acknowledged anything.
fn find_end(folder: &Path, firsts: &[Position]) -> Result<Opened, SegmentLogError> {
    let mut segments = Vec::new();
    for first in firsts {
        segments.push(read_header(folder, *first)?);
    }
    let mut empty = Vec::new();
    let mut end = (Position(0), 0);
    while let Some(header) = segments.last() {
        let path = file::path(folder, header.first);
        let loaded = Loaded::read(folder, *header).map_err(io_error("cannot read", &path))?;
        if loaded.scan.tail == Tail::Damaged {
            let offset = loaded.scan.end_at as u64;
            return Err(SegmentLogError::Damaged { path, offset, position: loaded.behind() });
        }
        if let Some(last) = loaded.scan.records.last() {
            end = (Position(loaded.behind().0 - 1), last.checksum);
            break;
        }
        segments.pop();
        empty.push(path);
    }
    for path in empty {
        fs::remove_file(&path).map_err(io_error("cannot remove", &path))?;
    }
    Ok(Opened { segments, end: end.0, end_checksum: end.1 })
}

/// After a crash of the host in a mode without fsync: the log ends before the first thing that is missing.
fn cut(folder: &Path, disk: &dyn Disk, firsts: &[Position]) -> Result<Opened, SegmentLogError> {
    let mut opened = Opened { segments: Vec::new(), end: Position(0), end_checksum: 0 };
    let mut broken = false;
    for first in firsts {
        let path = file::path(folder, *first);
        let header = match read_header(folder, *first) {
            Ok(header) => Some(header),
            Err(SegmentLogError::Damaged { .. }) => None,
            Err(error @ (SegmentLogError::NewerFormat { .. } | SegmentLogError::Io { .. })) => {
                return Err(error);
            }
        };
        let goes_on = header.filter(|header| {
            let fits = *first == opened.end.next() && header.previous_checksum == opened.end_checksum;
            !broken && (opened.segments.is_empty() || fits)
        });
        let loaded = match goes_on {
            Some(header) => Some(Loaded::read(folder, header).map_err(io_error("cannot read", &path))?),
            None => None,
        };
        let (Some(header), Some(loaded)) = (goes_on, loaded.filter(|it| !it.scan.records.is_empty())) else {
            broken = true;
            set_aside(&path)?;
            continue;
        };
        if loaded.scan.tail != Tail::Clean {
            let file = OpenOptions::new().write(true).open(&path).map_err(io_error("cannot open", &path))?;
            file.set_len(loaded.scan.end_at as u64)
                .and_then(|()| disk.sync(&file))
                .map_err(io_error("cannot cut", &path))?;
        }
        opened.end = Position(loaded.behind().0 - 1);
        opened.end_checksum = loaded.scan.records.last().map_or(0, |record| record.checksum);
        opened.segments.push(header);
    }
    Ok(opened)
}

fn set_aside(path: &Path) -> Result<(), SegmentLogError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".lost");
    tracing::warn!(
        file = %path.display(),
        "the host crashed while this log was not synced: what follows the first gap is set aside as *.lost"
    );
    fs::rename(path, PathBuf::from(aside)).map_err(io_error("cannot rename", path))
}

/// The first positions of a folder's segments in order, and files that were never finished.
fn list(folder: &Path) -> Result<(Vec<Position>, Vec<PathBuf>), SegmentLogError> {
    let mut firsts = Vec::new();
    let mut temporaries = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_error("cannot read", folder))? {
        let entry = entry.map_err(io_error("cannot read", folder))?;
        if let Some(first) = file::parse_name(&entry.file_name()) {
            firsts.push(first);
        } else if files::is_temporary(&entry.file_name()) {
            temporaries.push(entry.path());
        }
    }
    firsts.sort_unstable();
    Ok((firsts, temporaries))
}

fn read_header(folder: &Path, first: Position) -> Result<Header, SegmentLogError> {
    let path = file::path(folder, first);
    let mut bytes = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(file::HEADER_BYTES as u64).read_to_end(&mut bytes))
        .map_err(io_error("cannot read", &path))?;
    Header::decode(&bytes, &path, first)
}

fn boot_id() -> String {
    fs::read_to_string(BOOT_ID_FILE).map(|id| id.trim().to_owned()).unwrap_or_default()
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SegmentLogError {
    let path = path.to_path_buf();
    move |source| SegmentLogError::Io { action, path, source }
}
