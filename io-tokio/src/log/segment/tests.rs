use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::*;

/// What was asked of the disk, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Create,
    Write,
    Sync,
    SyncFolder,
}

/// A real folder, with a list of what was asked, and failures to order.
#[derive(Default)]
struct TestDisk {
    asked: Mutex<Vec<Asked>>,
    fails: Mutex<Option<Asked>>,
}

impl TestDisk {
    fn ask(&self, what: Asked) -> io::Result<()> {
        self.asked.lock().expect("no panic").push(what);
        if *self.fails.lock().expect("no panic") == Some(what) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    fn fail(&self, what: Option<Asked>) {
        *self.fails.lock().expect("no panic") = what;
    }

    /// What was asked since the last look.
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().expect("no panic"))
    }
}

impl Disk for TestDisk {
    fn create(&self, path: &Path, bytes: u64, _written: bool) -> io::Result<File> {
        self.ask(Asked::Create)?;
        RealDisk.create(path, bytes, false)
    }

    fn write_at(&self, file: &File, content: &[u8], offset: u64) -> io::Result<()> {
        self.ask(Asked::Write)?;
        RealDisk.write_at(file, content, offset)
    }

    fn sync(&self, _file: &File) -> io::Result<()> {
        self.ask(Asked::Sync)
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        self.ask(Asked::SyncFolder)
    }
}

struct Bench {
    folder: TempDir,
    disk: Arc<TestDisk>,
    mode: DurabilityMode,
    locked: Arc<AtomicBool>,
}

impl Bench {
    fn new(mode: DurabilityMode) -> Self {
        Self {
            folder: TempDir::new().expect("a folder"),
            disk: Arc::default(),
            mode,
            locked: Arc::new(AtomicBool::new(true)),
        }
    }

    fn try_open(&self) -> Result<SegmentLog, SegmentLogError> {
        let locked = self.locked.clone();
        let still_locked = Box::new(move || locked.load(Ordering::Relaxed));
        SegmentLog::open(self.folder.path(), self.mode, self.disk.clone(), still_locked)
    }

    fn open(&self) -> SegmentLog {
        self.try_open().expect("a good log")
    }

    fn path(&self, first: u64) -> PathBuf {
        file::path(self.folder.path(), Position(first))
    }

    fn flip(&self, first: u64, at: usize) {
        let path = self.path(first);
        let mut bytes = fs::read(&path).expect("a segment");
        bytes[at] ^= 1;
        fs::write(&path, bytes).expect("a segment");
    }

    /// The names of all files, in order.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("a file").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }
}

fn done() -> WriteOutcome {
    WriteOutcome::Done { version: no_version() }
}

/// A log with one segment per count, of so many entries each.
fn segments_of(bench: &Bench, counts: &[u64]) {
    for count in counts {
        let mut log = bench.open();
        append(&mut log, *count);
        log.sync();
    }
    bench.disk.asked();
}

fn append(log: &mut SegmentLog, count: u64) {
    for _ in 0..count {
        let position = log.end().next();
        assert_eq!(log.append(position, &entry_of(position.0)), done());
    }
}

fn entry_of(position: u64) -> Vec<u8> {
    vec![u8::try_from(position).expect("few"); 40]
}

const RECORD_BYTES: usize = record::record_bytes(40);

fn offset_of(index: usize) -> usize {
    file::HEADER_BYTES + index * RECORD_BYTES
}

fn read_all(log: &mut SegmentLog) -> (Vec<Blob>, ReadEnd) {
    log.read(Position(1), 1_000, u64::MAX)
}

fn entries(positions: std::ops::RangeInclusive<u64>) -> Vec<Blob> {
    positions.map(|position| Blob::from(entry_of(position))).collect()
}

#[test]
fn lesson_h4_strict_asks_one_write_and_one_sync_for_every_commit() {
    let bench = Bench::new(DurabilityMode::Strict);
    let mut log = bench.open();
    append(&mut log, 1);
    let begun = [Asked::Create, Asked::Write, Asked::Sync, Asked::SyncFolder];
    assert_eq!(bench.disk.asked(), [&begun[..], &[Asked::Write, Asked::Sync]].concat());
    for _ in 0..10 {
        append(&mut log, 1);
        assert_eq!(bench.disk.asked(), [Asked::Write, Asked::Sync]);
    }
}

#[test]
fn lesson_h4_process_crash_safe_writes_and_never_syncs() {
    let bench = Bench::new(DurabilityMode::ProcessCrashSafe);
    let mut log = bench.open();
    append(&mut log, 1);
    assert_eq!(bench.disk.asked(), [Asked::Create, Asked::Write, Asked::Write]);
    append(&mut log, 2);
    assert_eq!(bench.disk.asked(), [Asked::Write, Asked::Write]);
}

#[test]
fn lesson_h4_relaxed_asks_nothing_until_the_end() {
    let bench = Bench::new(DurabilityMode::Relaxed);
    let mut log = bench.open();
    append(&mut log, 1);
    bench.disk.asked();
    append(&mut log, 20);
    assert_eq!(bench.disk.asked(), []);
    assert_eq!(log.sync(), done());
    assert_eq!(bench.disk.asked(), [Asked::Write, Asked::Sync, Asked::SyncFolder]);
}

#[test]
fn ha_009_what_was_acknowledged_survives_the_process() {
    for mode in [DurabilityMode::Strict, DurabilityMode::ProcessCrashSafe] {
        let bench = Bench::new(mode);
        let mut log = bench.open();
        append(&mut log, 5);
        // Nothing is done at the end: this is a kill.
        std::mem::forget(log);
        assert_eq!(read_all(&mut bench.open()), (entries(1..=5), ReadEnd::Missing));
    }
}

#[test]
fn ha_010_relaxed_is_lost_with_the_process_but_read_before() {
    let bench = Bench::new(DurabilityMode::Relaxed);
    let mut log = bench.open();
    append(&mut log, 2);
    drop(log);
    assert_eq!(bench.open().end(), Position(0));
    let mut log = bench.open();
    append(&mut log, 2);
    assert_eq!(read_all(&mut log), (entries(1..=2), ReadEnd::Missing));
}

#[test]
fn ha_010_relaxed_does_not_keep_everything_in_memory() {
    let bench = Bench::new(DurabilityMode::Relaxed);
    let mut log = bench.open();
    let entry = vec![1; RELAXED_BUFFER_BYTES / 2];
    for position in 1..=40 {
        assert_eq!(log.append(Position(position), &entry), done());
        assert!(log.buffer.len() < 2 * RELAXED_BUFFER_BYTES);
    }
    assert_eq!(log.segments.len(), 2);
    assert_eq!(log.read(Position(1), 1_000, u64::MAX).0.len(), 40);
}

#[test]
fn d_033_a_failed_sync_ends_the_log_for_good() {
    let bench = Bench::new(DurabilityMode::Strict);
    let mut log = bench.open();
    append(&mut log, 1);
    bench.disk.fail(Some(Asked::Sync));
    assert_eq!(log.append(Position(2), b"lost"), WriteOutcome::LocalFailure);
    bench.disk.fail(None);
    bench.disk.asked();
    assert_eq!(log.append(Position(2), b"again"), WriteOutcome::LocalFailure);
    assert_eq!(log.sync(), WriteOutcome::LocalFailure);
    assert_eq!(bench.disk.asked(), []);
}

#[test]
fn d_033_a_full_disk_ends_the_log_and_a_restart_with_space_goes_on() {
    for full in [Asked::Write, Asked::Create, Asked::SyncFolder] {
        let bench = Bench::new(DurabilityMode::Strict);
        segments_of(&bench, &[3]);
        bench.disk.fail(Some(full));
        let mut log = bench.open();
        assert_eq!(log.append(Position(4), b"lost"), WriteOutcome::LocalFailure);
        assert_eq!(log.append(Position(4), b"lost"), WriteOutcome::LocalFailure);
        drop(log);
        bench.disk.fail(None);
        let mut log = bench.open();
        append(&mut log, 2);
        assert_eq!(read_all(&mut log), (entries(1..=5), ReadEnd::Missing));
    }
}

#[test]
fn d_045_a_lock_lost_before_the_acknowledgement_is_no_acknowledgement() {
    let bench = Bench::new(DurabilityMode::Strict);
    let mut log = bench.open();
    append(&mut log, 1);
    bench.locked.store(false, Ordering::Relaxed);
    assert_eq!(log.append(Position(2), &entry_of(2)), WriteOutcome::LockReplaced);
    bench.locked.store(true, Ordering::Relaxed);
    assert_eq!(log.append(Position(3), &entry_of(3)), WriteOutcome::LockReplaced);
    // Whoever has the lock now finds the entry and carries it on.
    assert_eq!(read_all(&mut bench.open()), (entries(1..=2), ReadEnd::Missing));
}

#[test]
fn d_045_review_10_8_what_an_old_process_still_writes_is_not_part_of_the_log() {
    let bench = Bench::new(DurabilityMode::Strict);
    let mut old = bench.open();
    append(&mut old, 2);
    let mut new = bench.open();
    append(&mut new, 1);
    bench.locked.store(false, Ordering::Relaxed);
    assert_eq!(old.append(Position(3), b"stray"), WriteOutcome::LockReplaced);
    bench.locked.store(true, Ordering::Relaxed);
    append(&mut new, 1);
    drop(new);
    assert_eq!(read_all(&mut bench.open()), (entries(1..=4), ReadEnd::Missing));
}

#[test]
fn d_045_an_old_process_cannot_begin_a_segment_that_exists() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[2]);
    let mut old = bench.open();
    let mut new = bench.open();
    append(&mut new, 1);
    assert_eq!(old.append(Position(3), b"stray"), WriteOutcome::LocalFailure);
    assert_eq!(read_all(&mut new), (entries(1..=3), ReadEnd::Missing));
}

#[test]
fn d_045_every_opening_begins_a_segment_that_names_what_it_took_over() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[3, 2]);
    let header = |first| {
        let bytes = fs::read(bench.path(first)).expect("a segment");
        Header::decode(&bytes, &bench.path(first), Position(first)).expect("a header")
    };
    let first = Loaded::read(bench.folder.path(), header(1)).expect("a segment");
    assert_eq!(header(4).previous_checksum, first.scan.records[2].checksum);
    assert_ne!(header(1).salt, header(4).salt);
}

#[test]
fn d_045_a_segment_that_was_begun_and_not_used_is_begun_again() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[2, 1]);
    // The one record of the second segment was torn.
    bench.flip(3, offset_of(0) + 20);
    let mut log = bench.open();
    assert_eq!(log.end(), Position(2));
    append(&mut log, 2);
    assert_eq!(read_all(&mut log), (entries(1..=4), ReadEnd::Missing));
}

#[test]
fn ha_008_a_torn_last_record_is_the_end() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[3]);
    bench.flip(1, offset_of(2) + 20);
    let mut log = bench.open();
    assert_eq!(log.end(), Position(2));
    append(&mut log, 1);
    drop(log);
    let mut log = bench.open();
    assert_eq!(read_all(&mut log), (entries(1..=3), ReadEnd::Missing));
}

#[test]
fn ha_008_a_file_that_lost_its_end_ends_earlier() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[3]);
    let whole = fs::read(bench.path(1)).expect("a segment");
    for length in (offset_of(0)..offset_of(3)).rev() {
        fs::write(bench.path(1), &whole[..length]).expect("a segment");
        let expected = (length - file::HEADER_BYTES) / RECORD_BYTES;
        let found = open::open(bench.folder.path(), bench.mode, &RealDisk).expect("a good log").end;
        assert_eq!(found.0, expected as u64, "{length}");
        if expected == 0 {
            // The file, without a record, is gone.
            assert_eq!(bench.files(), Vec::<String>::new());
        }
    }
}

#[test]
fn ha_014_damage_in_the_middle_is_refused_by_name_and_nothing_is_changed() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[3]);
    bench.flip(1, offset_of(1) + 20);
    let before = fs::read(bench.path(1)).expect("a segment");
    let error = bench.try_open().err().expect("damage");
    let SegmentLogError::Damaged { path, offset, position } = &error else { panic!("{error}") };
    assert_eq!((path, *offset, position.0), (&bench.path(1), offset_of(1) as u64, 2));
    assert_eq!(
        error.to_string(),
        format!(
            "the log is damaged: {} at byte {offset}, where the entry at position 2 should be; nothing was changed. \
             Restore the file from a backup",
            path.display()
        )
    );
    assert!(before == fs::read(bench.path(1)).expect("a segment"));
}

#[test]
fn ha_014_damage_in_an_older_segment_is_given_to_the_core_as_no_entry() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[3, 2]);
    for index in [1, 2] {
        bench.flip(1, offset_of(index) + 20);
        let mut log = bench.open();
        let (read, then) = read_all(&mut log);
        assert_eq!(then, ReadEnd::Missing);
        assert_eq!(read[..index], entries(1..=index as u64));
        assert_ne!(*read[index], *entry_of(index as u64 + 1));
        // Further on, the log can be read: its own end is where it was.
        assert_eq!(log.read(Position(4), 9, u64::MAX), (entries(4..=5), ReadEnd::Missing));
        bench.flip(1, offset_of(index) + 20);
    }
    assert_eq!(read_all(&mut bench.open()), (entries(1..=5), ReadEnd::Missing));
}

#[test]
fn d_041_a_segment_that_is_gone_is_a_hole_with_something_behind_it() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[2, 2, 2]);
    fs::remove_file(bench.path(3)).expect("a segment");
    let mut log = bench.open();
    assert_eq!(read_all(&mut log), (entries(1..=2), ReadEnd::Missing));
    assert_eq!(log.first_after(Position(3)), ListOutcome::First(Some(Position(5))));
    assert_eq!(log.read(Position(5), 9, u64::MAX), (entries(5..=6), ReadEnd::Missing));
}

#[test]
fn ha_014_a_damaged_or_newer_header_is_refused_by_name() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[2, 2]);
    bench.flip(1, 9);
    assert!(matches!(bench.try_open(), Err(SegmentLogError::Damaged { offset: 0, .. })));
    bench.flip(1, 9);
    let mut bytes = fs::read(bench.path(1)).expect("a segment");
    bytes[4..8].copy_from_slice(&2_u32.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    fs::write(bench.path(1), &bytes).expect("a segment");
    let error = bench.try_open().err().expect("newer");
    assert!(matches!(error, SegmentLogError::NewerFormat { found: 2, .. }), "{error}");
    assert_eq!(bench.files().len(), 2);
}

#[test]
fn ha_014_a_renamed_segment_is_refused() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[2]);
    fs::rename(bench.path(1), bench.path(7)).expect("a segment");
    assert!(matches!(bench.try_open(), Err(SegmentLogError::Damaged { position: Position(7), .. })));
}

#[test]
fn d_043_only_whole_segments_below_the_bound_are_trimmed() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[2, 2, 2]);
    let mut log = bench.open();
    for (bound, deleted) in [(1, 0), (2, 0), (3, 1), (4, 0), (6, 1), (100, 0)] {
        assert_eq!(log.trim_below(Position(bound)), TrimOutcome::Done { deleted }, "{bound}");
    }
    assert_eq!(bench.files(), ["00000000000000000005.segment"]);
    append(&mut log, 1);
    drop(log);
    assert_eq!(bench.open().read(Position(5), 9, u64::MAX), (entries(5..=7), ReadEnd::Missing));
}

#[test]
fn ha_008_a_full_segment_is_followed_by_one_made_ready_before() {
    let bench = Bench::new(DurabilityMode::Strict);
    let mut log = bench.open();
    let entry = vec![1; 300 << 10];
    for position in 1..=3 {
        assert_eq!(log.append(Position(position), &entry), done());
    }
    log.spare.finish();
    bench.disk.asked();
    // Beginning the next segment makes no new file.
    assert_eq!(log.append(Position(4), &entry), done());
    let commit = [Asked::Write, Asked::Sync];
    assert_eq!(bench.disk.asked(), [&commit[..], &[Asked::SyncFolder], &commit].concat());
    assert_eq!(log.segments.len(), 2);
    assert_eq!(bench.path(4).metadata().expect("a segment").len(), SEGMENT_BYTES);
    drop(log);
    assert_eq!(bench.open().end(), Position(4));
}

#[test]
fn ha_008_a_segment_made_while_a_commit_waits_is_small() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[1]);
    assert_eq!(bench.path(1).metadata().expect("a segment").len(), HASTY_SEGMENT_BYTES);
    let mut log = bench.open();
    let entry = vec![1; 2 << 20];
    assert_eq!(log.append(Position(2), &entry), done());
    let whole = file::HEADER_BYTES + record::record_bytes(entry.len());
    assert_eq!(bench.path(2).metadata().expect("a segment").len(), whole as u64);
}

#[test]
fn ha_008_unfinished_files_of_a_crash_are_removed() {
    let bench = Bench::new(DurabilityMode::Strict);
    segments_of(&bench, &[1]);
    let unfinished = files::temporary_path(bench.folder.path());
    fs::write(&unfinished, b"zeros").expect("a file");
    fs::write(bench.folder.path().join("notes.txt"), b"kept").expect("a file");
    bench.open();
    assert_eq!(bench.files(), ["00000000000000000001.segment", "notes.txt"]);
}

/// Opens as after a boot of this name.
fn open_in(bench: &Bench, boot: &str) -> Result<u64, SegmentLogError> {
    let opened = open::open_in_boot(bench.folder.path(), bench.mode, &*bench.disk, boot)?;
    Ok(opened.end.0)
}

#[test]
fn ha_009_after_a_host_crash_the_log_ends_before_the_first_gap() {
    let bench = Bench::new(DurabilityMode::ProcessCrashSafe);
    segments_of(&bench, &[3, 3]);
    bench.flip(1, offset_of(1) + 20);
    // Within one boot nothing can be missing: this is damage, not a crash.
    let this_boot = fs::read_to_string(bench.folder.path().join("unsynced")).expect("the marker");
    bench.flip(4, offset_of(1) + 20);
    assert!(matches!(open_in(&bench, &this_boot), Err(SegmentLogError::Damaged { .. })));
    assert_eq!(open_in(&bench, "next boot").expect("a log"), 1);
    assert_eq!(
        bench.files(),
        ["00000000000000000001.segment", "00000000000000000004.segment.lost", "unsynced"]
    );
    // It stays so, and goes on.
    assert_eq!(open_in(&bench, "next boot").expect("a log"), 1);
    let mut log = bench.open();
    append(&mut log, 2);
    assert_eq!(read_all(&mut log), (entries(1..=3), ReadEnd::Missing));
}

#[test]
fn ha_009_a_host_crash_that_took_a_whole_file_cuts_before_it() {
    for (emptied, expected) in [(1, 0), (3, 2), (5, 4)] {
        let bench = Bench::new(DurabilityMode::ProcessCrashSafe);
        segments_of(&bench, &[2, 2, 2]);
        fs::write(bench.path(emptied), vec![0; 1_000]).expect("a segment");
        assert_eq!(open_in(&bench, "next boot").expect("a log"), expected);
    }
}

#[test]
fn ha_008_strict_first_syncs_what_another_mode_left() {
    let mut bench = Bench::new(DurabilityMode::ProcessCrashSafe);
    segments_of(&bench, &[2, 2]);
    bench.mode = DurabilityMode::Strict;
    bench.open();
    assert_eq!(bench.disk.asked(), [Asked::Sync, Asked::Sync, Asked::SyncFolder]);
    // And ever after what it goes on behind, whose writer may have been killed before its sync.
    bench.open();
    assert_eq!(bench.disk.asked(), [Asked::Sync]);
}
