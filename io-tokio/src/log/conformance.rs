//! One body of tests for every log.

use std::sync::Arc;

use dexzd_core::engine::Change;
use dexzd_core::ids::{Epoch, Name, ProcessId};
use dexzd_core::log::{Appender, LogEnd, Origin, Startup, StartupOptions};
use dexzd_core::time::{Now, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::durability::DurabilityMode;
use crate::store::{FolderStore, InMemoryObjectStore};

const NODE: &str = "orders";

/// A log that can be opened again and again, as a process and its successors do.
trait Place {
    fn open(&self) -> Box<dyn LogStore>;
}

struct Segments {
    folder: TempDir,
    mode: DurabilityMode,
}

impl Place for Segments {
    fn open(&self) -> Box<dyn LogStore> {
        let folder = self.folder.path().join("log");
        let log = SegmentLog::open(&folder, self.mode, Arc::new(RealDisk), Box::new(|| true));
        Box::new(log.expect("a good log"))
    }
}

struct Objects(Arc<dyn crate::store::ObjectStore>);

impl Place for Objects {
    fn open(&self) -> Box<dyn LogStore> {
        Box::new(ObjectLog::new(self.0.clone(), NODE))
    }
}

fn done() -> WriteOutcome {
    WriteOutcome::Done { version: no_version() }
}

fn entry_of(position: u64) -> Vec<u8> {
    format!("entry {position}").into_bytes()
}

/// Appends these positions.
fn append(log: &mut dyn LogStore, positions: std::ops::RangeInclusive<u64>) {
    for position in positions {
        assert!(log.append(Position(position), &entry_of(position)).is_done());
    }
}

/// An orderly end, then the next process.
fn reopen(place: &dyn Place, mut log: Box<dyn LogStore>) -> Box<dyn LogStore> {
    assert_eq!(log.sync(), done());
    drop(log);
    place.open()
}

fn positions(log: &mut dyn LogStore, from: u64) -> (u64, ReadEnd) {
    let (entries, then) = log.read(Position(from), 1_000, u64::MAX);
    for (index, entry) in entries.iter().enumerate() {
        assert_eq!(**entry, *entry_of(from + index as u64));
    }
    (entries.len() as u64, then)
}

fn reads_what_was_appended(place: &dyn Place) {
    let mut log = place.open();
    assert_eq!(positions(&mut *log, 1), (0, ReadEnd::Missing));
    append(&mut *log, 1..=5);
    assert_eq!(positions(&mut *log, 1), (5, ReadEnd::Missing));
    assert_eq!(positions(&mut *log, 4), (2, ReadEnd::Missing));
    assert_eq!(positions(&mut *log, 6), (0, ReadEnd::Missing));
    let mut log = reopen(place, log);
    assert_eq!(positions(&mut *log, 1), (5, ReadEnd::Missing));
    append(&mut *log, 6..=7);
    assert_eq!(positions(&mut *log, 1), (7, ReadEnd::Missing));
    let mut log = reopen(place, log);
    assert_eq!(positions(&mut *log, 3), (5, ReadEnd::Missing));
}

fn ends_a_range_where_it_was_asked_to(place: &dyn Place) {
    let mut log = place.open();
    append(&mut *log, 1..=5);
    let size = entry_of(1).len() as u64;
    let mut range = |at_most, bytes| {
        let (entries, then) = log.read(Position(2), at_most, bytes);
        (entries.len(), then)
    };
    assert_eq!(range(3, u64::MAX), (3, ReadEnd::Full));
    assert_eq!(range(4, u64::MAX), (4, ReadEnd::Full));
    assert_eq!(range(5, u64::MAX), (4, ReadEnd::Missing));
    assert_eq!(range(100, 2 * size), (2, ReadEnd::Full));
    assert_eq!(range(100, 2 * size - 1), (1, ReadEnd::Full));
    assert_eq!(range(100, 0), (1, ReadEnd::Full));
}

fn never_replaces_an_entry(place: &dyn Place) {
    let mut log = place.open();
    append(&mut *log, 1..=3);
    for position in 1..=3 {
        assert_eq!(log.append(Position(position), b"another"), WriteOutcome::Refused);
    }
    let mut log = reopen(place, log);
    assert_eq!(log.append(Position(3), b"another"), WriteOutcome::Refused);
    assert_eq!(positions(&mut *log, 1), (3, ReadEnd::Missing));
    append(&mut *log, 4..=4);
}

fn lists_what_stands_behind(place: &dyn Place) {
    let mut log = place.open();
    let first = |log: &mut dyn LogStore, after| match log.first_after(Position(after)) {
        ListOutcome::First(first) => first.map(|position| position.0),
        other => panic!("{other:?}"),
    };
    assert_eq!(first(&mut *log, 0), None);
    append(&mut *log, 1..=3);
    let mut log = reopen(place, log);
    append(&mut *log, 4..=5);
    assert_eq!(first(&mut *log, 0), Some(1));
    assert_eq!(first(&mut *log, 3), Some(4));
    assert_eq!(first(&mut *log, 4), Some(5));
    assert_eq!(first(&mut *log, 5), None);
    assert_eq!(first(&mut *log, 600), None);
}

fn keeps_large_entries(place: &dyn Place) {
    let mut log = place.open();
    append(&mut *log, 1..=1);
    let large = vec![9; 17 << 20];
    assert!(log.append(Position(2), &large).is_done());
    append(&mut *log, 3..=3);
    let mut log = reopen(place, log);
    let (entries, _) = log.read(Position(2), 1, 0);
    assert!(*entries[0] == *large);
    assert_eq!(positions(&mut *log, 3), (1, ReadEnd::Missing));
}

trait IsDone {
    fn is_done(&self) -> bool;
}

impl IsDone for WriteOutcome {
    fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

/// What a process does in one epoch: start, write so many entries one after another, end in order.
struct Epochs<'a> {
    place: &'a dyn Place,
    local: LogEnd,
    /// Every change that any epoch was told is in the log.
    acknowledged: Vec<Change>,
    /// What a local store that never lost anything has.
    applied: Vec<Change>,
}

impl Epochs<'_> {
    fn run(&mut self, epoch: u64, entries: u64) {
        let mut log = self.place.open();
        let origin = Origin {
            node_id: Name::new(NODE),
            process_id: ProcessId(u128::from(epoch)),
            epoch: Epoch(epoch),
        };
        let end = self.start(&mut *log, origin.clone());
        let mut appender = Appender::new(origin, end, epoch);
        for number in 0..entries {
            let change = Change { key: vec![epoch as u8, number as u8], value: Some(vec![1; 100]) };
            appender.gather(Timestamp::from_millis(epoch), vec![change.clone()]).expect("small");
            let now = Now::default().instant;
            while let Some(output) = appender.poll_output(now) {
                match answer_appender(&mut *log, &output) {
                    Some(input) => appender.handle(now, input),
                    None => match output {
                        AppenderOutput::Apply { end, changes } => {
                            self.local = end;
                            self.applied.extend(changes);
                        }
                        other => panic!("{other:?}"),
                    },
                }
            }
            assert!(appender.is_idle());
            self.acknowledged.push(change);
        }
        assert!(log.sync().is_done());
    }

    fn start(&mut self, log: &mut dyn LogStore, origin: Origin) -> LogEnd {
        let options = StartupOptions {
            origin,
            lease_duration_ms: 30_000,
            trimmed_below: Position(0),
            log_end: self.local.position,
            synced: true,
            local: self.local,
            seed: 1,
        };
        let now = Now::default();
        let mut startup = Startup::new(now, options);
        loop {
            let output = startup.poll_output().expect("every request is answered at once");
            if let Some(input) = answer_startup(log, &output) {
                startup.handle(now, input);
                continue;
            }
            match output {
                StartupOutput::Apply { end, changes } => {
                    self.local = end;
                    self.applied.extend(changes);
                    startup.handle(now, StartupInput::Applied { position: end.position });
                }
                StartupOutput::FenceAccepted { .. } => startup.handle(now, StartupInput::LeaseConfirmed),
                StartupOutput::Ready { end, .. } => return end,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn carries_epochs_one_after_another(place: &dyn Place) {
    let mut epochs = Epochs { place, local: LogEnd::default(), acknowledged: vec![], applied: vec![] };
    epochs.run(1, 3);
    epochs.run(2, 0);
    epochs.run(3, 5);
    assert_eq!(epochs.local.position, Position(11));
    assert_eq!(epochs.applied, epochs.acknowledged);
    // A local store that lost everything gets the same from the log.
    epochs.local = LogEnd::default();
    epochs.applied.clear();
    epochs.run(4, 1);
    assert_eq!(epochs.applied, epochs.acknowledged);
}

fn trims_nothing_that_is_needed(place: &dyn Place) {
    let mut epochs = Epochs { place, local: LogEnd::default(), acknowledged: vec![], applied: vec![] };
    for epoch in 1..=4 {
        epochs.run(epoch, 2);
    }
    let mut log = place.open();
    for bound in 1..=12 {
        assert!(matches!(log.trim_below(Position(bound)), TrimOutcome::Done { .. }));
        let (entries, then) = log.read(Position(bound), 100, u64::MAX);
        assert_eq!((entries.len() as u64, then), (13 - bound, ReadEnd::Missing));
    }
    let mut log = reopen(place, log);
    assert_eq!(log.read(Position(12), 100, u64::MAX).0.len(), 1);
    assert_eq!(log.first_after(Position(11)), ListOutcome::First(Some(Position(12))));
    drop(log);
    epochs.run(5, 1);
}

fn conforms(place: impl Fn() -> Box<dyn Place>) {
    reads_what_was_appended(&*place());
    ends_a_range_where_it_was_asked_to(&*place());
    never_replaces_an_entry(&*place());
    lists_what_stands_behind(&*place());
    keeps_large_entries(&*place());
    carries_epochs_one_after_another(&*place());
    trims_nothing_that_is_needed(&*place());
}

fn segments(mode: DurabilityMode) -> Box<dyn Place> {
    Box::new(Segments { folder: TempDir::new().expect("a folder"), mode })
}

#[test]
fn ha_008_segments_conform_when_strict() {
    conforms(|| segments(DurabilityMode::Strict));
}

#[test]
fn ha_009_segments_conform_without_fsync() {
    conforms(|| segments(DurabilityMode::ProcessCrashSafe));
}

#[test]
fn ha_010_segments_conform_in_memory_until_an_orderly_end() {
    conforms(|| segments(DurabilityMode::Relaxed));
}

#[test]
fn ha_014_objects_in_memory_conform() {
    conforms(|| Box::new(Objects(Arc::new(InMemoryObjectStore::new()))));
}

#[test]
fn ha_007_objects_in_a_folder_conform() {
    let folder = TempDir::new().expect("a folder");
    let counter = std::cell::Cell::new(0);
    conforms(|| {
        counter.set(counter.get() + 1);
        let root = folder.path().join(counter.get().to_string());
        Box::new(Objects(Arc::new(FolderStore::open(&root, false).expect("a folder"))))
    });
}

#[test]
fn d_030_a_trimmed_log_of_objects_keeps_every_fence() {
    let store = Arc::new(InMemoryObjectStore::new());
    let place = Objects(store.clone());
    let mut epochs =
        Epochs { place: &place, local: LogEnd::default(), acknowledged: vec![], applied: vec![] };
    epochs.run(1, 2);
    epochs.run(2, 2);
    let mut log = place.open();
    assert_eq!(log.trim_below(Position(6)), TrimOutcome::Done { deleted: 3 });
    assert_eq!(log.trim_below(Position(6)), TrimOutcome::Done { deleted: 0 });
    let left = (1..=6).filter(|position| log.read(Position(*position), 1, 0).0.len() == 1);
    assert_eq!(left.collect::<Vec<u64>>(), vec![1, 4, 6]);
}

#[test]
fn d_030_a_trim_keeps_what_it_cannot_read() {
    let place = Objects(Arc::new(InMemoryObjectStore::new()));
    let mut log = place.open();
    append(&mut *log, 1..=3);
    assert_eq!(log.trim_below(Position(3)), TrimOutcome::Done { deleted: 0 });
    assert_eq!(positions(&mut *log, 1), (3, ReadEnd::Missing));
}

/// A store that takes its time and counts how many requests are on their way at once.
struct Slow {
    inner: InMemoryObjectStore,
    now: std::sync::atomic::AtomicUsize,
    most: std::sync::atomic::AtomicUsize,
    reads: std::sync::atomic::AtomicUsize,
}

impl crate::store::ObjectStore for Slow {
    fn read(&self, key: &str) -> ReadOutcome {
        use std::sync::atomic::Ordering::SeqCst;
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        self.reads.fetch_add(1, SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(3));
        self.now.fetch_sub(1, SeqCst);
        self.inner.read(key)
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        self.inner.create(key, body)
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        self.inner.replace(key, body, version)
    }

    fn delete(&self, key: &str) -> crate::store::DeleteOutcome {
        self.inner.delete(key)
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> crate::store::ListOutcome {
        self.inner.list_after(prefix, after, limit)
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> crate::store::SizedListOutcome {
        self.inner.list_sized_after(prefix, after, limit)
    }

    fn name(&self) -> String {
        "slow".to_owned()
    }
}

/// A standby that begins far behind is not bound by the latency of the store; one at the end asks for one entry.
#[test]
fn ha_042_entries_of_a_slow_store_are_read_beside_one_another_and_stay_in_order() {
    use std::sync::atomic::Ordering::SeqCst;
    let slow =
        Arc::new(Slow { inner: InMemoryObjectStore::new(), now: 0.into(), most: 0.into(), reads: 0.into() });
    let mut log = ObjectLog::new(slow.clone(), NODE);
    append(&mut log, 1..=100);
    append(&mut log, 102..=140);
    let (entries, then) = log.read(Position(1), 1_024, 4 << 20);
    assert_eq!(then, ReadEnd::Missing);
    let expected: Vec<Blob> = (1..=100).map(|position| Blob::from(entry_of(position))).collect();
    assert_eq!(entries, expected, "up to the gap, and in order");
    let most = slow.most.load(SeqCst);
    assert!((9..=32).contains(&most), "{most} at a time");

    slow.reads.store(0, SeqCst);
    assert_eq!(log.read(Position(101), 1_024, 4 << 20), (vec![], ReadEnd::Missing));
    assert_eq!(slow.reads.load(SeqCst), 1, "at the end each poll costs one request");
    // A limit in bytes is kept, and one entry is always given.
    let (entries, then) = log.read(Position(102), 1_024, 20);
    assert_eq!((entries.len(), then), (2, ReadEnd::Full));
    let (entries, then) = log.read(Position(102), 1_024, 1);
    assert_eq!((entries.len(), then), (1, ReadEnd::Full));
    let (entries, then) = log.read(Position(102), 5, 4 << 20);
    assert_eq!((entries.len(), then), (5, ReadEnd::Full));
}
