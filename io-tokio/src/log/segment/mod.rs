//! The log of a process that is its only writer: preallocated files, one write and one sync per commit.
//!
//! ```text
//! log/00000000000000000001.segment   entries 1 to 5120
//! log/00000000000000005121.segment   entries 5121 …, written by the same epoch or a later one
//! log/spare                          zeros, on their way to become the next segment
//! ```
//!
//! Every opening and every later epoch begins a new segment with its first entry (D-45).

mod disk;
mod error;
mod file;
mod load;
mod open;
mod record;
mod spare;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dexzd_core::ids::{Blob, Position};
use dexzd_core::log::{ListOutcome, ReadEnd};
use dexzd_core::store::WriteOutcome;

pub use self::disk::{Disk, RealDisk};
pub use self::error::SegmentLogError;
use self::file::Header;
use self::load::Loaded;
use self::open::Opened;
use self::record::{Record, Tail};
use self::spare::Spare;
use super::{LogStore, TrimOutcome, no_version};
use crate::clock;
use crate::durability::DurabilityMode;
use crate::files;

/// A segment file: large enough that beginning one is rare, small enough that trimming keeps the log
/// near what is needed.
pub const SEGMENT_BYTES: u64 = 16 << 20;
/// Where a segment must be filled with zeros while a commit waits, it is this small: at the first commit
/// of an epoch, and when the disk is too slow to have the next one ready.
const HASTY_SEGMENT_BYTES: u64 = 1 << 20;
/// When 1/8 of a segment is used, the next one is made ready.
const PREPARE_AT: u64 = 8;
/// In relaxed mode so much stays in memory before it is written out.
const RELAXED_BUFFER_BYTES: usize = 1 << 20;

/// Asked between a commit's write and its acknowledgement (D-45).
pub type StillLocked = Box<dyn Fn() -> bool + Send>;

/// A log in segment files. Only for the process that holds `dev.lock`.
pub struct SegmentLog {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    mode: DurabilityMode,
    still_locked: StillLocked,
    /// Ascending; each has at least one record.
    segments: Vec<Header>,
    /// The last segment, once something was appended.
    active: Option<Active>,
    /// The last entry, and its record's checksum.
    end: Position,
    end_checksum: u32,
    /// What is to be written at `active.written`: one record, or in relaxed mode many.
    buffer: Vec<u8>,
    /// Written by this process and not synced, in the modes without fsync.
    unsynced: Vec<(Position, File)>,
    /// The segment read last.
    loaded: Option<Loaded>,
    spare: Spare,
    /// What ended this log for good: nothing is appended any more (D-33).
    poisoned: Option<WriteOutcome>,
}

struct Active {
    file: File,
    salt: u32,
    /// Up to here it is written.
    written: u64,
    capacity: u64,
}

impl SegmentLog {
    /// Opens the log in a folder, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// The log is damaged or of a newer format, or the operating system refuses. Nothing is changed then.
    pub fn open(
        folder: &Path,
        mode: DurabilityMode,
        disk: Arc<dyn Disk>,
        still_locked: StillLocked,
    ) -> Result<Self, SegmentLogError> {
        let Opened { segments, end, end_checksum } = open::open(folder, mode, disk.as_ref())?;
        Ok(Self {
            folder: folder.to_path_buf(),
            mode,
            still_locked,
            segments,
            active: None,
            end,
            end_checksum,
            buffer: Vec::new(),
            unsynced: Vec::new(),
            loaded: None,
            spare: Spare::new(folder, disk.clone(), mode.syncs()),
            poisoned: None,
            disk,
        })
    }

    /// The last entry; 0 if there is none.
    #[must_use]
    pub const fn end(&self) -> Position {
        self.end
    }

    /// Reads and scans a segment, unless it was the last one read.
    fn load(&mut self, index: usize) -> io::Result<()> {
        let header = self.segments[index];
        if self.loaded.as_ref().is_none_or(|loaded| loaded.first != header.first) {
            // Before the next one is read: two of them need not be in memory.
            self.loaded = None;
            self.loaded = Some(Loaded::read(&self.folder, header)?);
        }
        Ok(())
    }

    /// The segment in which this position would be.
    fn segment_of(&self, position: Position) -> Option<usize> {
        self.segments.partition_point(|segment| segment.first <= position).checked_sub(1)
    }

    /// The entry at a position; what stands there, if it is damaged.
    fn read_one(&mut self, position: Position) -> io::Result<Option<Blob>> {
        if position > self.end {
            return Ok(None);
        }
        let Some(index) = self.segment_of(position) else {
            return Ok(None);
        };
        self.write_out()?;
        self.load(index)?;
        let loaded = self.loaded.as_ref().expect("loaded above");
        let next = self.segments.get(index + 1).copied();
        let at = usize::try_from(position.0 - loaded.first.0).unwrap_or(usize::MAX);
        let damaged = |offset: usize| {
            tracing::error!(
                file = %file::path(&self.folder, loaded.first).display(),
                offset,
                %position,
                "a log file is damaged"
            );
            // Whatever this is, it is no entry, and the core refuses it by its position.
            Some(Blob::from(&loaded.bytes[offset..loaded.bytes.len().min(offset + record::HEADER_BYTES)]))
        };
        let Some(Record { entry_at, entry_bytes, checksum }) = loaded.scan.records.get(at).copied() else {
            // Beyond the records of a segment that is not the last: a file is missing if nothing is here.
            return Ok(match loaded.scan.tail {
                Tail::Clean => None,
                Tail::Torn | Tail::Damaged if at > loaded.scan.records.len() => None,
                Tail::Torn | Tail::Damaged => damaged(loaded.scan.end_at),
            });
        };
        // The last one before the next segment is the one that it says it goes on behind.
        let replaced =
            next.is_some_and(|next| position.next() == next.first && checksum != next.previous_checksum);
        if replaced {
            return Ok(damaged(entry_at - record::HEADER_BYTES));
        }
        Ok(Some(Blob::from(&loaded.bytes[entry_at..entry_at + entry_bytes])))
    }

    /// The lowest position above this one that has a record.
    fn next_after(&mut self, position: Position) -> io::Result<Option<Position>> {
        if position >= self.end {
            return Ok(None);
        }
        let next = position.next();
        if self.read_one(next)?.is_some() {
            return Ok(Some(next));
        }
        let behind = self.segments.partition_point(|segment| segment.first <= next);
        Ok(self.segments.get(behind).map(|segment| segment.first))
    }

    fn write(&mut self, position: Position, entry: &[u8]) -> io::Result<()> {
        let record_bytes = record::record_bytes(entry.len()) as u64;
        let fits = self.active.as_ref().is_some_and(|active| {
            active.written + self.buffer.len() as u64 + record_bytes <= active.capacity
        });
        if !fits {
            self.write_out()?;
            self.begin_segment(position, record_bytes)?;
        }
        let active = self.active.as_ref().expect("begun above if there was none");
        let checksum = record::encode(&mut self.buffer, active.salt, position, entry);
        match self.mode {
            DurabilityMode::Strict => {
                self.write_out()?;
                let active = self.active.as_ref().expect("as before");
                self.disk.sync(&active.file)?;
            }
            DurabilityMode::ProcessCrashSafe => self.write_out()?,
            DurabilityMode::Relaxed if self.buffer.len() >= RELAXED_BUFFER_BYTES => self.write_out()?,
            DurabilityMode::Relaxed => {}
        }
        self.loaded = None;
        self.end_checksum = checksum;
        if self.active.as_ref().is_some_and(|active| active.written >= active.capacity / PREPARE_AT) {
            self.spare.prepare();
        }
        Ok(())
    }

    /// Hands what is in memory to the operating system.
    fn write_out(&mut self) -> io::Result<()> {
        if let Some(active) = &mut self.active
            && !self.buffer.is_empty()
        {
            self.disk.write_at(&active.file, &self.buffer, active.written)?;
            active.written += self.buffer.len() as u64;
            self.buffer.clear();
            self.loaded = None;
        }
        Ok(())
    }

    /// Begins a segment with this position, large enough for its first record.
    fn begin_segment(&mut self, first: Position, record_bytes: u64) -> io::Result<()> {
        let needed = file::HEADER_BYTES as u64 + record_bytes;
        let spare = if needed <= SEGMENT_BYTES { self.spare.take() } else { None };
        let (made, new_file, capacity) = match spare {
            Some(path) => {
                let file = OpenOptions::new().read(true).write(true).open(&path)?;
                (path, file, SEGMENT_BYTES)
            }
            None => {
                // A file that need not be written costs nothing, however large.
                let usual = if self.mode.syncs() { HASTY_SEGMENT_BYTES } else { SEGMENT_BYTES };
                let capacity = usual.max(needed);
                let path = files::temporary_path(&self.folder);
                let file = self.disk.create(&path, capacity, self.mode.syncs())?;
                (path, file, capacity)
            }
        };
        let salt = u32::try_from(clock::entropy() >> 32).expect("32 bits are left");
        let header = Header { first, previous_checksum: self.end_checksum, salt };
        self.disk.write_at(&new_file, &header.encode(), 0)?;
        if self.mode.syncs() {
            self.disk.sync(&new_file)?;
        }
        // Linked and not renamed: an existing segment is never replaced.
        fs::hard_link(&made, file::path(&self.folder, first))?;
        fs::remove_file(&made)?;
        if self.mode.syncs() {
            self.disk.sync_folder(&self.folder)?;
        }
        if let (Some(old), Some(segment)) = (self.active.take(), self.segments.last())
            && !self.mode.syncs()
        {
            self.unsynced.push((segment.first, old.file));
        }
        self.segments.push(header);
        self.active = Some(Active { file: new_file, salt, written: file::HEADER_BYTES as u64, capacity });
        Ok(())
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.write_out()?;
        for (_, file) in self.unsynced.drain(..) {
            self.disk.sync(&file)?;
        }
        if let Some(active) = &self.active
            && !self.mode.syncs()
        {
            self.disk.sync(&active.file)?;
            self.disk.sync_folder(&self.folder)?;
        }
        Ok(())
    }

    /// The first failure is the last: nothing is tried again on this log (D-33).
    fn poison(&mut self, outcome: WriteOutcome) -> WriteOutcome {
        self.poisoned = Some(outcome.clone());
        outcome
    }

    fn failed(&mut self, action: &'static str, error: &io::Error) -> WriteOutcome {
        tracing::error!(folder = %self.folder.display(), %error, "{action}");
        self.poison(WriteOutcome::LocalFailure)
    }
}

impl LogStore for SegmentLog {
    fn read(&mut self, from: Position, at_most: u32, at_most_bytes: u64) -> (Vec<Blob>, ReadEnd) {
        let mut entries: Vec<Blob> = Vec::new();
        let mut bytes = 0;
        let mut position = from;
        for _ in 0..at_most {
            match self.read_one(position) {
                Ok(Some(entry)) => {
                    bytes += entry.len() as u64;
                    if bytes > at_most_bytes && !entries.is_empty() {
                        break;
                    }
                    entries.push(entry);
                }
                Ok(None) => return (entries, ReadEnd::Missing),
                Err(error) => {
                    self.failed("cannot read the log", &error);
                    return (entries, ReadEnd::LocalFailure);
                }
            }
            position = position.next();
        }
        (entries, ReadEnd::Full)
    }

    fn append(&mut self, position: Position, entry: &[u8]) -> WriteOutcome {
        if let Some(outcome) = &self.poisoned {
            return outcome.clone();
        }
        if position <= self.end {
            return WriteOutcome::Refused;
        }
        assert_eq!(position, self.end.next(), "entries are appended in order");
        if let Err(error) = self.write(position, entry) {
            return self.failed("cannot write the log", &error);
        }
        self.end = position;
        if !(self.still_locked)() {
            return self.poison(WriteOutcome::LockReplaced);
        }
        WriteOutcome::Done { version: no_version() }
    }

    fn begin_epoch(&mut self) {
        if self.poisoned.is_some() {
            return;
        }
        if let Err(error) = self.write_out() {
            self.failed("cannot write the log", &error);
            return;
        }
        if let (Some(old), Some(segment)) = (self.active.take(), self.segments.last())
            && !self.mode.syncs()
        {
            self.unsynced.push((segment.first, old.file));
        }
    }

    fn first_after(&mut self, position: Position) -> ListOutcome {
        match self.next_after(position) {
            Ok(first) => ListOutcome::First(first),
            Err(error) => {
                self.failed("cannot read the log", &error);
                ListOutcome::LocalFailure
            }
        }
    }

    /// Deletes whole segments. Their fences may go with them: the lock, and not a fence, keeps others out.
    fn trim_below(&mut self, position: Position) -> TrimOutcome {
        let mut deleted = 0;
        while let Some(second) = self.segments.get(1)
            && second.first <= position
        {
            let first = self.segments[0].first;
            match fs::remove_file(file::path(&self.folder, first)) {
                Ok(()) => deleted += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    self.failed("cannot trim the log", &error);
                    return TrimOutcome::LocalFailure;
                }
            }
            self.segments.remove(0);
            self.unsynced.retain(|(unsynced, _)| *unsynced != first);
        }
        TrimOutcome::Done { deleted }
    }

    fn sync(&mut self) -> WriteOutcome {
        if let Some(outcome) = &self.poisoned {
            return outcome.clone();
        }
        match self.sync_all() {
            Ok(()) => WriteOutcome::Done { version: no_version() },
            Err(error) => self.failed("cannot sync the log", &error),
        }
    }

    fn name(&self) -> String {
        format!("segments in {}", self.folder.display())
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod power_tests;
