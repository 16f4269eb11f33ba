//! A power loss at any moment: what was acknowledged in strict mode is there afterwards (HA-8).

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Mutex;

use proptest::prelude::*;
use proptest::test_runner::TestRng;
use tempfile::TempDir;

use super::*;

/// A disk writes sectors whole, in any order.
const SECTOR_BYTES: usize = 512;
/// Small segments would begin more often, but their size is fixed: large entries fill them instead.
const LARGE_ENTRY_BYTES: usize = 3 << 20;

/// What one write replaced, until it is synced.
struct Replaced {
    inode: u64,
    offset: u64,
    before: Vec<u8>,
}

/// Remembers what a power loss would take back.
#[derive(Default)]
struct PowerDisk {
    unsynced: Mutex<Vec<Replaced>>,
    /// The names that are durable.
    names: Mutex<Vec<PathBuf>>,
}

impl Disk for PowerDisk {
    fn create(&self, path: &Path, bytes: u64, _written: bool) -> io::Result<File> {
        // Promised to be on the disk.
        RealDisk.create(path, bytes, false)
    }

    fn write_at(&self, file: &File, content: &[u8], offset: u64) -> io::Result<()> {
        let mut before = vec![0; content.len()];
        file.read_exact_at(&mut before, offset)?;
        let inode = file.metadata()?.ino();
        self.unsynced.lock().expect("no panic").push(Replaced { inode, offset, before });
        file.write_all_at(content, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let inode = file.metadata()?.ino();
        self.unsynced.lock().expect("no panic").retain(|replaced| replaced.inode != inode);
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        *self.names.lock().expect("no panic") = segment_paths(folder);
        Ok(())
    }
}

impl PowerDisk {
    /// Takes back some of the sectors that were not synced, and some of the names.
    fn lose_power(&self, folder: &Path, rng: &mut TestRng) {
        let durable = self.names.lock().expect("no panic").clone();
        let mut files = BTreeMap::new();
        for path in segment_paths(folder) {
            if !durable.contains(&path) && rng.random_bool(0.5) {
                fs::remove_file(&path).expect("a segment");
                continue;
            }
            let file = OpenOptions::new().write(true).open(&path).expect("a segment");
            files.insert(file.metadata().expect("a file").ino(), file);
        }
        for replaced in self.unsynced.lock().expect("no panic").drain(..).rev() {
            let Some(file) = files.get(&replaced.inode) else {
                continue;
            };
            let mut from = 0;
            while from < replaced.before.len() {
                // Sectors are cut where the disk cuts them, not where the write began.
                let at = usize::try_from(replaced.offset).expect("small") + from;
                let to = (from + SECTOR_BYTES - at % SECTOR_BYTES).min(replaced.before.len());
                if rng.random_bool(0.5) {
                    file.write_all_at(&replaced.before[from..to], at as u64).expect("a segment");
                }
                from = to;
            }
        }
    }
}

fn segment_paths(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file"));
    entries.filter(|entry| file::parse_name(&entry.file_name()).is_some()).map(|entry| entry.path()).collect()
}

/// One process: so many commits, then it is killed, perhaps in the middle of one more, or the power goes.
#[derive(Clone, Debug)]
struct Life {
    commits: u8,
    large: bool,
    in_a_commit: bool,
    power_lost: bool,
}

fn any_life() -> impl Strategy<Value = Life> {
    (0..6_u8, prop::bool::weighted(0.2), any::<bool>(), any::<bool>()).prop_map(
        |(commits, large, in_a_commit, power_lost)| Life { commits, large, in_a_commit, power_lost },
    )
}

fn entry_of(position: u64, large: bool) -> Vec<u8> {
    let length = if large { LARGE_ENTRY_BYTES } else { 700 };
    let mut entry = position.to_be_bytes().to_vec();
    entry.resize(length, 7);
    entry
}

/// A disk on which the sync of a commit never ends: the power goes first.
struct NoSync(Arc<PowerDisk>);

impl Disk for NoSync {
    fn create(&self, path: &Path, bytes: u64, written: bool) -> io::Result<File> {
        self.0.create(path, bytes, written)
    }

    fn write_at(&self, file: &File, content: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(file, content, offset)
    }

    fn sync(&self, _file: &File) -> io::Result<()> {
        Err(io::ErrorKind::Interrupted.into())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.sync_folder(folder)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn ha_008_a_power_loss_takes_nothing_that_was_acknowledged(
        lives in proptest::collection::vec(any_life(), 1..6),
        mut rng in any::<u64>().prop_perturb(|_, rng| rng),
    ) {
        let folder = TempDir::new().expect("a folder");
        let disk = Arc::new(PowerDisk::default());
        let mut acknowledged: Vec<Vec<u8>> = Vec::new();
        for life in lives {
            let open = |disk| {
                SegmentLog::open(folder.path(), DurabilityMode::Strict, disk, Box::new(|| true))
            };
            let mut log = open(disk.clone()).expect("a good log");
            // An entry whose commit was cut short may have arrived; then it is part of the log.
            let (found, then) = log.read(Position(1), 1_000, u64::MAX);
            prop_assert_eq!(then, ReadEnd::Missing);
            prop_assert!(found.len() == acknowledged.len() || found.len() == acknowledged.len() + 1);
            for (found, expected) in found.iter().zip(&acknowledged) {
                prop_assert!(**found == **expected);
            }
            acknowledged = found.iter().map(|entry| entry.to_vec()).collect();
            for _ in 0..life.commits {
                let position = log.end().next();
                let entry = entry_of(position.0, life.large);
                let outcome = log.append(position, &entry);
                prop_assert_eq!(outcome, WriteOutcome::Done { version: no_version() });
                acknowledged.push(entry);
            }
            if life.in_a_commit {
                log.disk = Arc::new(NoSync(disk.clone()));
                let position = log.end().next();
                let outcome = log.append(position, &entry_of(position.0, life.large));
                prop_assert_eq!(outcome, WriteOutcome::LocalFailure);
            }
            drop(log);
            if life.power_lost {
                disk.lose_power(folder.path(), &mut rng);
            }
        }
    }
}
