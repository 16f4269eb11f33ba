//! The log of one node on a simulated disk: one file of framed entries, synced before each answer.
//!
//! A frame is the entry's length, a check sum and the entry. What stands behind the last whole frame is
//! the torn tail of a write that no answer was given for; it is cut off when the log is opened.

use dexzd_core::ids::{Blob, Name, Position};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use crate::disk::Disk;

/// When a write counts as durable (HA-8 to HA-10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncMode {
    /// Synced before its answer.
    Strict,
    /// Never synced: safe against the death of the process only.
    ProcessCrashSafe,
}

/// The log on one disk. It keeps an index of what it has read or written.
#[derive(Clone, Debug)]
pub struct DiskLog {
    file: Name,
    mode: SyncMode,
    entries: Vec<Blob>,
    unsynced: bool,
}

const FRAME_HEADER: usize = 12;

impl DiskLog {
    /// Opens the log, which cuts a torn tail.
    #[must_use]
    pub fn open(disk: &mut Disk, mode: SyncMode) -> Self {
        let file = Name::from("log");
        let (entries, length) = frames(disk.read(&file));
        disk.truncate(&file, length);
        Self { file, mode, entries, unsynced: false }
    }

    /// The entries that would be there after a power loss now, in order from position 1.
    #[must_use]
    pub fn durable_entries(disk: &Disk) -> Vec<Blob> {
        frames(disk.durable(&Name::from("log"))).0
    }

    /// First half of a create-if-absent at this position: the bytes go to the operating system. The
    /// write is not over before [`Self::finish`]; a crash between the two may tear it.
    ///
    /// # Errors
    /// The outcome, if that is already settled.
    pub fn begin(&mut self, disk: &mut Disk, position: Position, entry: &Blob) -> Result<(), WriteOutcome> {
        let next = self.entries.len() as u64 + 1;
        if position.0 < next {
            return Err(WriteOutcome::Refused);
        }
        assert_eq!(position.0, next, "the appender writes without gaps");
        let length = u32::try_from(entry.len()).expect("entries are far below 4 GiB");
        let mut frame = Vec::with_capacity(FRAME_HEADER + entry.len());
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&check_sum(entry).to_be_bytes());
        frame.extend_from_slice(entry);
        match disk.append(&self.file, &frame) {
            Ok(()) => {
                self.entries.push(entry.clone());
                self.unsynced = true;
                Ok(())
            }
            Err(_) => Err(WriteOutcome::LocalFailure),
        }
    }

    /// Second half: the sync.
    pub fn finish(&mut self, disk: &mut Disk) -> WriteOutcome {
        assert!(self.unsynced, "a write was begun");
        self.unsynced = false;
        if self.mode == SyncMode::Strict && disk.sync(&self.file).is_err() {
            return WriteOutcome::LocalFailure;
        }
        WriteOutcome::Done { version: version(self.entries.len() as u64) }
    }

    /// The entry at a position.
    #[must_use]
    pub fn read(&self, position: Position) -> ReadOutcome {
        let index = usize::try_from(position.0).expect("positions are small");
        match index.checked_sub(1).and_then(|index| self.entries.get(index)) {
            Some(entry) => {
                ReadOutcome::Found { version: version(position.0), body: entry.clone(), stamp_ms: None }
            }
            None => ReadOutcome::Missing,
        }
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The whole frames at the beginning, and how many bytes they take.
fn frames(bytes: &[u8]) -> (Vec<Blob>, usize) {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while let Some((header, tail)) = rest.split_at_checked(FRAME_HEADER) {
        let length = u32::from_be_bytes(header[..4].try_into().expect("4 bytes"));
        let expected = u64::from_be_bytes(header[4..].try_into().expect("8 bytes"));
        let length = usize::try_from(length).expect("32 bits");
        let Some((entry, next)) = tail.split_at_checked(length) else {
            break;
        };
        if check_sum(entry) != expected {
            break;
        }
        entries.push(Blob::from(entry));
        rest = next;
    }
    (entries, bytes.len() - rest.len())
}

fn check_sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn version(number: u64) -> Version {
    Version(Blob::from(number.to_be_bytes().as_slice()))
}

#[cfg(test)]
mod tests {
    use super::{DiskLog, SyncMode};
    use crate::dice::Dice;
    use crate::disk::Disk;
    use dexzd_core::ids::{Blob, Position};
    use dexzd_core::store::{ReadOutcome, WriteOutcome};

    fn entry(number: u8) -> Blob {
        Blob::from(vec![number; 40])
    }

    fn write(log: &mut DiskLog, disk: &mut Disk, number: u8) -> WriteOutcome {
        match log.begin(disk, Position(u64::from(number)), &entry(number)) {
            Ok(()) => log.finish(disk),
            Err(outcome) => outcome,
        }
    }

    #[test]
    fn ha_008_what_was_answered_survives_a_power_loss_and_the_torn_rest_is_cut() {
        let mut kept = [0; 2];
        for seed in 0..300 {
            let mut disk = Disk::default();
            let mut log = DiskLog::open(&mut disk, SyncMode::Strict);
            write(&mut log, &mut disk, 1);
            write(&mut log, &mut disk, 2);
            log.begin(&mut disk, Position(3), &entry(3)).expect("room");
            disk.power_loss(&mut Dice::from_seed(seed));
            let mut log = DiskLog::open(&mut disk, SyncMode::Strict);
            assert!((2..=3).contains(&log.len()));
            kept[log.len() - 2] += 1;
            let next = u8::try_from(log.len()).expect("few") + 1;
            assert!(matches!(write(&mut log, &mut disk, next), WriteOutcome::Done { .. }));
            assert_eq!(DiskLog::durable_entries(&disk).len(), usize::from(next));
        }
        assert!(kept[0] > 0 && kept[1] > 0, "both ends were seen: {kept:?}");
    }

    #[test]
    fn ha_014_a_taken_position_refuses() {
        let mut disk = Disk::default();
        let mut log = DiskLog::open(&mut disk, SyncMode::Strict);
        write(&mut log, &mut disk, 1);
        assert_eq!(write(&mut log, &mut disk, 1), WriteOutcome::Refused);
        assert!(matches!(log.read(Position(1)), ReadOutcome::Found { .. }));
        assert_eq!(log.read(Position(2)), ReadOutcome::Missing);
        assert_eq!(log.read(Position(0)), ReadOutcome::Missing);
    }

    #[test]
    fn d_033_a_failed_sync_and_a_full_disk_are_local_failures() {
        let mut disk = Disk::default();
        disk.failing_syncs = 1;
        let mut log = DiskLog::open(&mut disk, SyncMode::Strict);
        assert_eq!(write(&mut log, &mut disk, 1), WriteOutcome::LocalFailure);
        let mut disk = Disk::default();
        disk.capacity = 30;
        let mut log = DiskLog::open(&mut disk, SyncMode::Strict);
        assert_eq!(write(&mut log, &mut disk, 1), WriteOutcome::LocalFailure);
        assert_eq!(DiskLog::open(&mut disk, SyncMode::Strict).len(), 0);
    }

    #[test]
    fn ha_009_without_a_sync_a_process_crash_loses_nothing() {
        let mut disk = Disk::default();
        let mut log = DiskLog::open(&mut disk, SyncMode::ProcessCrashSafe);
        write(&mut log, &mut disk, 1);
        assert_eq!(disk.syncs(), 0);
        disk.process_crash();
        assert_eq!(DiskLog::open(&mut disk, SyncMode::ProcessCrashSafe).len(), 1);
    }
}
