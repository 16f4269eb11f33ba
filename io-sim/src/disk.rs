//! A simulated disk: files that lose in a crash what was not synced, and tear at any byte.

use std::collections::BTreeMap;

use dexzd_core::ids::Name;

use crate::dice::{Dice, Stream};

/// What a disk refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// No space left.
    Full,
    /// The sync failed. What was written since the last good sync may or may not be there after a
    /// crash; syncing again proves nothing (D-33).
    SyncFailed,
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    synced: usize,
    /// After a failed sync nothing of this file can be made durable in this life of the machine.
    poisoned: bool,
}

/// The files of one machine.
#[derive(Clone, Debug)]
pub struct Disk {
    files: BTreeMap<Name, File>,
    /// Bytes it can hold.
    pub capacity: usize,
    /// The next syncs fail.
    pub failing_syncs: u32,
    syncs: u64,
}

impl Default for Disk {
    fn default() -> Self {
        Self { files: BTreeMap::new(), capacity: usize::MAX, failing_syncs: 0, syncs: 0 }
    }
}

impl Disk {
    /// Writes at the end of a file, which is created if need be. Not durable yet.
    ///
    /// # Errors
    /// When the disk is full; as much as fits is written, as on a real one.
    pub fn append(&mut self, file: &Name, bytes: &[u8]) -> Result<(), DiskError> {
        let room = self.capacity.saturating_sub(self.used());
        let written = bytes.len().min(room);
        let content = &mut self.files.entry(file.clone()).or_default().bytes;
        content.extend_from_slice(&bytes[..written]);
        if written < bytes.len() {
            return Err(DiskError::Full);
        }
        Ok(())
    }

    /// Makes everything written to a file durable.
    ///
    /// # Errors
    /// When the sync fails, and ever after for that file until the machine starts again.
    pub fn sync(&mut self, file: &Name) -> Result<(), DiskError> {
        let Some(content) = self.files.get_mut(file) else {
            return Ok(());
        };
        if self.failing_syncs > 0 {
            self.failing_syncs -= 1;
            content.poisoned = true;
        }
        if content.poisoned {
            return Err(DiskError::SyncFailed);
        }
        content.synced = content.bytes.len();
        self.syncs += 1;
        Ok(())
    }

    /// What a file holds, synced or not.
    #[must_use]
    pub fn read(&self, file: &Name) -> &[u8] {
        self.files.get(file).map_or(&[], |content| &content.bytes)
    }

    /// What a file would hold if the power failed in the worst way now.
    #[must_use]
    pub fn durable(&self, file: &Name) -> &[u8] {
        self.files.get(file).map_or(&[], |content| &content.bytes[..content.synced])
    }

    /// Cuts a file, durably: recovery removes a torn tail.
    pub fn truncate(&mut self, file: &Name, length: usize) {
        if let Some(content) = self.files.get_mut(file) {
            content.bytes.truncate(length);
            content.synced = content.synced.min(length);
        }
    }

    /// Removes a file, durably.
    pub fn remove(&mut self, file: &Name) {
        self.files.remove(file);
    }

    /// The power fails: of every file a random part of what was not synced is lost.
    pub fn power_loss(&mut self, dice: &mut Dice) {
        for content in self.files.values_mut() {
            let unsynced = content.bytes.len() - content.synced;
            if unsynced > 0 {
                let kept = dice.below(Stream::Crash, "kept_bytes", unsynced as u64 + 1);
                let kept = usize::try_from(kept).expect("at most the file's length");
                content.bytes.truncate(content.synced + kept);
            }
        }
        self.process_crash();
    }

    /// Only the process dies: what it wrote stays, as the operating system has it.
    pub fn process_crash(&mut self) {
        for content in self.files.values_mut() {
            content.synced = content.bytes.len();
            content.poisoned = false;
        }
        self.failing_syncs = 0;
    }

    /// How many syncs have succeeded.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// How many bytes it holds.
    #[must_use]
    pub fn used(&self) -> usize {
        self.files.values().map(|content| content.bytes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Disk, DiskError};
    use crate::dice::Dice;
    use dexzd_core::ids::Name;

    fn file() -> Name {
        Name::from("log")
    }

    #[test]
    fn a_power_loss_keeps_what_was_synced_and_a_prefix_of_the_rest() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut disk = Disk::default();
            disk.append(&file(), b"safe").expect("room");
            disk.sync(&file()).expect("a good disk");
            disk.append(&file(), b"torn").expect("room");
            disk.power_loss(&mut Dice::from_seed(seed));
            assert!(b"safetorn".starts_with(disk.read(&file())));
            lengths.insert(disk.read(&file()).len());
        }
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_says_so() {
        let mut disk = Disk { capacity: 6, ..Disk::default() };
        assert_eq!(disk.append(&file(), b"1234"), Ok(()));
        assert_eq!(disk.append(&file(), b"5678"), Err(DiskError::Full));
        assert_eq!(disk.read(&file()), b"123456");
    }

    #[test]
    fn a_failed_sync_is_not_mended_by_another() {
        let mut disk = Disk { failing_syncs: 1, ..Disk::default() };
        disk.append(&file(), b"x").expect("room");
        assert_eq!(disk.sync(&file()), Err(DiskError::SyncFailed));
        assert_eq!(disk.sync(&file()), Err(DiskError::SyncFailed));
        assert_eq!(disk.durable(&file()), b"");
    }
}
