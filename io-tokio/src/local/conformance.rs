//! One body of tests for every local store.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dexzd_core::engine::Change;
use dexzd_core::ids::Position;
use dexzd_core::log::{Chain, LogEnd};
use dexzd_core::rng::Rng;
use dexzd_core::snapshot::{CheckpointFile, Checksum};

use super::*;

fn end(position: u64) -> LogEnd {
    LogEnd {
        position: Position(position),
        chain: Chain([u8::try_from(position % 251).expect("below 251"); 32]),
    }
}

fn put(key: &str, value: &str) -> Change {
    Change { key: key.into(), value: Some(value.into()) }
}

fn remove(key: &str) -> Change {
    Change { key: key.into(), value: None }
}

fn all(store: &dyn LocalStore) -> Vec<(Vec<u8>, Vec<u8>)> {
    scan(store, b"", &[RESERVED_KEY_PREFIX, 0xff, 0xff])
}

fn scan(store: &dyn LocalStore, from: &[u8], to: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    store.scan(from, to, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        true
    });
    found
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    expected.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn open(kind: LocalStoreKind, folder: &Path) -> Arc<dyn LocalStore> {
    open_local_store(kind, folder, "node-a").expect("a fresh or own folder opens")
}

fn refusal(kind: LocalStoreKind, folder: &Path, node: &str) -> LocalStoreError {
    let before = tree(folder);
    let Err(error) = open_local_store(kind, folder, node) else {
        panic!("the store in {} opened", folder.display());
    };
    assert_eq!(tree(folder), before, "a refusal changes nothing");
    error
}

/// Every file with its content.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("listable").path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else {
            found.insert(path.display().to_string(), fs::read(&path).expect("readable"));
        }
    }
    found
}

fn starts_empty(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(kind, &folder.path().join("a/b"));
    assert_eq!(store.end(), LogEnd::default());
    assert_eq!(store.durable_end(), LogEnd::default());
    assert_eq!(store.get(b"key"), None);
    assert_eq!(all(&*store), vec![]);
    assert!(!store.wants_flush());
}

fn applies_in_order(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(kind, folder.path());
    store.apply(end(1), &[put("b", "1"), put("a", "2"), put("c", "3")]).expect("applied");
    store.apply(end(2), &[remove("a"), put("b", "4"), remove("never there")]).expect("applied");
    store.apply(end(3), &[put("d", "5"), remove("d"), put("e", ""), put("e", "6")]).expect("applied");
    assert_eq!(store.end(), end(3));
    assert_eq!(store.get(b"a"), None);
    assert_eq!(store.get(b"b"), Some(b"4".to_vec()));
    assert_eq!(all(&*store), pairs(&[("b", "4"), ("c", "3"), ("e", "6")]));
}

fn scans_a_half_open_range_until_told_to_stop(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(kind, folder.path());
    let changes: Vec<Change> = ["a", "b", "ba", "c", "d"].map(|key| put(key, key)).into();
    store.apply(end(1), &changes).expect("applied");
    assert_eq!(scan(&*store, b"b", b"c"), pairs(&[("b", "b"), ("ba", "ba")]));
    assert_eq!(scan(&*store, b"aa", b"d"), pairs(&[("b", "b"), ("ba", "ba"), ("c", "c")]));
    assert_eq!(scan(&*store, b"c", b"c"), vec![]);
    assert_eq!(scan(&*store, b"d", b"a"), vec![]);
    let mut seen = 0;
    store.scan(b"", b"z", &mut |_, _| {
        seen += 1;
        seen < 2
    });
    assert_eq!(seen, 2);
}

fn reads_while_it_is_scanned(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(kind, folder.path());
    store.apply(end(1), &[put("a", "x"), put("b", "y"), put("x", "1"), put("y", "2")]).expect("applied");
    let mut found = Vec::new();
    store.scan(b"a", b"c", &mut |_, value| {
        found.push(store.get(value));
        true
    });
    assert_eq!(found, vec![Some(b"1".to_vec()), Some(b"2".to_vec())]);
}

fn keeps_what_was_flushed_and_says_how_far(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let store = open(kind, folder.path());
        store.apply(end(1), &[put("a", "1")]).expect("applied");
        store.apply(end(2), &[put("b", "2")]).expect("applied");
        assert_eq!(store.durable_end(), LogEnd::default());
        assert_eq!(store.flush().expect("flushed"), end(2));
        assert_eq!(store.durable_end(), end(2));
        store.apply(end(3), &[put("a", "3"), remove("b")]).expect("applied");
        assert_eq!(store.durable_end(), end(2));
    }
    // Not flushed at the end: the store may have it or not, but never half of it.
    let store = open(kind, folder.path());
    assert_eq!(store.durable_end(), store.end());
    if store.end() == end(2) {
        assert_eq!(all(&*store), pairs(&[("a", "1"), ("b", "2")]));
    } else {
        assert_eq!(store.end(), end(3));
        assert_eq!(all(&*store), pairs(&[("a", "3")]));
    }
}

fn equals_a_map_under_random_changes(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = open(kind, folder.path());
    let mut model = BTreeMap::new();
    let mut rng = Rng::new(7);
    for position in 1..=300 {
        let changes: Vec<Change> = (0..rng.up_to(6))
            .map(|_| Change {
                key: format!("key-{}", rng.up_to(40)).into_bytes(),
                value: (rng.up_to(2) > 0).then(|| vec![7; usize::try_from(rng.up_to(2_000)).expect("small")]),
            })
            .collect();
        for change in &changes {
            match &change.value {
                Some(value) => model.insert(change.key.clone(), value.clone()),
                None => model.remove(&change.key),
            };
        }
        store.apply(end(position), &changes).expect("applied");
        if position % 60 == 0 {
            assert_eq!(store.flush().expect("flushed"), end(position));
            drop(store);
            store = open(kind, folder.path());
        }
        assert_eq!(store.end(), end(position));
        assert_eq!(all(&*store), model.clone().into_iter().collect::<Vec<_>>());
    }
}

fn wants_a_flush_after_many_bytes(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(kind, folder.path());
    let value = "v".repeat(1 << 20);
    let mut position = 0;
    while !store.wants_flush() {
        position += 1;
        assert!(position < 40, "32 MiB without a wish to flush");
        store.apply(end(position), &[put("k", &value)]).expect("applied");
    }
    store.flush().expect("flushed");
    assert!(!store.wants_flush());
}

fn flushes_beside_writes(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(kind, folder.path());
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| {
            let mut reached = LogEnd::default();
            while reached != end(500) {
                let now = store.flush().expect("flushed");
                assert!(now.position >= reached.position);
                reached = now;
            }
        });
        for position in 1..=500 {
            let text = position.to_string();
            store.apply(end(position), &[put("a", &text), put("b", &text)]).expect("applied");
        }
        flusher.join().expect("no flush failed");
    });
    drop(store);
    let store = open(kind, folder.path());
    assert_eq!(all(&*store), pairs(&[("a", "500"), ("b", "500")]));
}

/// As a keeper makes it.
fn checkpoint_of(place: &LocalPlace, store: &dyn LocalStore) -> (LogEnd, Vec<CheckpointFile>) {
    let frozen = place.checkpoint(store).expect("frozen");
    let files = FileHashes::default().list(place, &frozen, &|| true).expect("readable").expect("wanted");
    (frozen.end, files)
}

/// Carries the files of `from`'s newest checkpoint over, as a snapshot does.
fn carry_over(files: &[CheckpointFile], from: &LocalPlace, to: &LocalPlace) {
    for file in files {
        let mut content = Vec::new();
        let mut source = from.open_checkpoint_file(&file.local_name).expect("it is listed");
        source.read_to_end(&mut content).expect("readable");
        assert_eq!(content.len() as u64, file.size_bytes, "{}", file.local_name);
        assert_eq!(Checksum::of(&content), file.checksum, "{}", file.local_name);
        to.download(&file.local_name).expect("created").write_all(&content).expect("written");
    }
}

fn d_046_a_checkpoint_is_the_store_after_one_entry_and_opens_elsewhere(kind: LocalStoreKind) {
    let (here, there) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let from = LocalPlace::new(kind, &here.path().join("local"), "node-a");
    let to = LocalPlace::new(kind, &there.path().join("local"), "node-a");
    let store = from.open().expect("opened");
    store.apply(end(1), &[put("a", "1"), put("b", "1")]).expect("applied");
    store.flush().expect("flushed");
    store.apply(end(2), &[put("b", "2"), put("c", "2")]).expect("applied");
    let (frozen_end, files) = checkpoint_of(&from, &*store);
    assert_eq!(frozen_end, end(2), "what was not flushed is in it too");
    store.apply(end(3), &[remove("a"), put("d", "3")]).expect("applied");
    carry_over(&files, &from, &to);
    let restored = to.install(end(2)).expect("whole");
    assert_eq!((restored.end(), restored.durable_end()), (end(2), end(2)));
    assert_eq!(all(&*restored), pairs(&[("a", "1"), ("b", "2"), ("c", "2")]));
    restored.apply(end(3), &[remove("a"), put("d", "3")]).expect("applied");
    assert_eq!(all(&*restored), all(&*store), "lesson D8: it goes on at the next entry");
    from.drop_checkpoint().expect("deleted");
    assert_eq!(from.clean_up().expect("clean"), Vec::<PathBuf>::new(), "nothing is left beside it");
    assert_eq!(to.clean_up().expect("clean"), Vec::<PathBuf>::new(), "nothing is left beside it");
}

fn d_046_what_did_not_change_has_the_same_content(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = LocalPlace::new(kind, &folder.path().join("local"), "node-a");
    let store = place.open().expect("opened");
    store.apply(end(1), &[put("a", &"v".repeat(100_000))]).expect("applied");
    let mut hashes = FileHashes::default();
    let mut checkpoint = || {
        let frozen = place.checkpoint(&*store).expect("frozen");
        hashes.list(&place, &frozen, &|| true).expect("readable").expect("wanted")
    };
    let data = |files: &[CheckpointFile]| {
        let mut files = files.to_vec();
        files.retain(|file| {
            ["IDENTITY", "checkpoint"].contains(&&*file.local_name) || file.local_name.ends_with(".sst")
        });
        files.sort_by(|one, other| one.local_name.cmp(&other.local_name));
        files
    };
    let (first, again) = (checkpoint(), checkpoint());
    assert_eq!(data(&first).len(), 2, "{first:?}");
    assert_eq!(data(&first), data(&again));
    store.apply(end(2), &[put("b", "1")]).expect("applied");
    let grown = checkpoint();
    if kind == LocalStoreKind::RocksDb {
        assert_eq!(data(&grown).len(), 3, "the table of the first entry, and one of the second");
        assert!(data(&first).iter().all(|file| grown.contains(file)), "{grown:?}");
    }
    let fresh = checkpoint_of(&place, &*store).1;
    assert_eq!(data(&grown), data(&fresh), "what is remembered is what is there");
}

fn lesson_d10_a_checkpoint_during_a_burst_carries_the_exact_position(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = LocalPlace::new(kind, &folder.path().join("local"), "node-a");
    let store = place.open().expect("opened");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut position = 0;
            while !is_over.load(Ordering::Acquire) {
                position += 1;
                let text = position.to_string();
                store.apply(end(position), &[put("a", &text), put("b", &text)]).expect("applied");
            }
        });
        for round in 0..5 {
            let before = store.end().position;
            let (frozen_end, files) = checkpoint_of(&place, &*store);
            assert!(frozen_end.position >= before);
            let target = folder.path().join(format!("restored-{round}"));
            let target = LocalPlace::new(kind, &target, "node-a");
            carry_over(&files, &place, &target);
            let restored = target.install(frozen_end).expect("whole");
            let text = frozen_end.position.to_string();
            let nothing = frozen_end == LogEnd::default();
            let expected = if nothing { vec![] } else { pairs(&[("a", &text), ("b", &text)]) };
            assert_eq!((restored.end(), all(&*restored)), (frozen_end, expected));
        }
        is_over.store(true, Ordering::Release);
    });
}

fn refuses_a_foreign_node(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(kind, folder.path()));
    let error = refusal(kind, folder.path(), "node-b");
    assert!(matches!(
        &error,
        LocalStoreError::ForeignNode { found, expected, .. } if found == "node-a" && expected == "node-b"
    ));
    let text = error.to_string();
    assert!(text.contains("node `node-a`, not to `node-b`"), "{text}");
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    open(kind, folder.path());
}

fn refuses_a_newer_format(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(kind, folder.path()));
    // A newer format may change everything behind its number.
    fs::write(folder.path().join("IDENTITY"), "dexzd local store\nformat 2\nsomething else\n")
        .expect("written");
    let error = refusal(kind, folder.path(), "node-a");
    assert!(matches!(error, LocalStoreError::NewerFormat { found: 2, newest: 1, .. }), "{error}");
}

fn refuses_another_kind(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(kind, folder.path()));
    let identity = folder.path().join("IDENTITY");
    let text = fs::read_to_string(&identity).expect("readable");
    let other = match kind {
        LocalStoreKind::Memory => text.replace("kind memory", "kind rocksdb"),
        LocalStoreKind::RocksDb => text.replace("kind rocksdb", "kind memory"),
    };
    fs::write(&identity, other).expect("written");
    let error = refusal(kind, folder.path(), "node-a");
    assert!(matches!(error, LocalStoreError::OtherKind { .. }), "{error}");
}

fn refuses_a_damaged_or_lost_identity(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(kind, folder.path()));
    let identity = folder.path().join("IDENTITY");
    for text in [
        "",
        "something\n",
        "dexzd local store\nformat x\n",
        "dexzd local store\nformat 1\nkind tree\nnode node-a\n",
    ] {
        fs::write(&identity, text).expect("written");
        let error = refusal(kind, folder.path(), "node-a");
        assert!(matches!(error, LocalStoreError::Damaged { .. }), "{error}");
    }
    fs::remove_file(&identity).expect("removed");
    fs::write(folder.path().join("somebody's file"), "x").expect("written");
    let error = refusal(kind, folder.path(), "node-a");
    assert!(error.to_string().contains("it is missing, but the folder holds"), "{error}");
}

/// Killed between two files, or after the last one and before the rename.
fn an_interrupted_restore_is_no_store_and_goes(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let from = LocalPlace::new(kind, &folder.path().join("from"), "node-a");
    let store = from.open().expect("opened");
    store.apply(end(1), &[put("a", "1")]).expect("applied");
    let (_, files) = checkpoint_of(&from, &*store);
    for left_out in 0..files.len() {
        let target = folder.path().join(format!("to-{left_out}"));
        let to = LocalPlace::new(kind, &target, "node-a");
        carry_over(&files[left_out..], &from, &to);
        to.download("half-a-file").expect("created").write_all(b"x").expect("written");
        // The process dies here; the next one starts.
        let left = to.clean_up().expect("clean");
        assert_eq!(left, [folder.path().join(format!("to-{left_out}.restoring"))]);
        let opened = to.open().expect("an empty store");
        assert_eq!((opened.end(), all(&*opened)), (LogEnd::default(), vec![]));
        drop(opened);
        to.discard().expect("deleted");
        assert!(!target.exists());
        carry_over(&files, &from, &to);
        assert_eq!(to.install(end(1)).expect("whole").end(), end(1));
    }
}

/// It never gets the store's name, so that a crash leaves no store that every start refuses.
fn a_store_that_does_not_fit_is_not_installed(kind: LocalStoreKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let from = LocalPlace::new(kind, &folder.path().join("from"), "node-a");
    let store = from.open().expect("opened");
    store.apply(end(1), &[put("a", "1")]).expect("applied");
    let (_, files) = checkpoint_of(&from, &*store);
    let own_kind = kind;
    let refused = |node: &str, to_end: LogEnd, kind: LocalStoreKind| {
        let target = folder.path().join("to");
        let to = LocalPlace::new(kind, &target, node);
        carry_over(&files, &from, &LocalPlace::new(own_kind, &target, node));
        let Err(error) = to.install(to_end) else { panic!("it was installed") };
        assert!(!target.exists());
        to.discard().expect("deleted");
        error
    };
    let error = refused("node-a", end(2), kind);
    assert!(error.to_string().contains("should end at position 2, and ends at 1"), "{error}");
    let error = refused("node-b", end(1), kind);
    assert!(matches!(error, LocalStoreError::ForeignNode { .. }), "{error}");
    let other = match kind {
        LocalStoreKind::Memory => LocalStoreKind::RocksDb,
        LocalStoreKind::RocksDb => LocalStoreKind::Memory,
    };
    let error = refused("node-a", end(1), other);
    assert!(matches!(error, LocalStoreError::OtherKind { .. }), "{error}");
    let to = LocalPlace::new(kind, &folder.path().join("to"), "node-a");
    let Err(error) = to.install(end(1)) else { panic!("nothing was installed") };
    assert!(matches!(error, LocalStoreError::Io { .. }), "{error}");
}

macro_rules! conformance {
    ($module:ident, $kind:expr, [$($name:ident),+ $(,)?]) => {
        mod $module {
            use super::LocalStoreKind;
            $(
                #[test]
                fn $name() {
                    super::$name($kind);
                }
            )+
        }
    };
}

macro_rules! conformance_of {
    ($module:ident, $kind:expr) => {
        conformance!(
            $module,
            $kind,
            [
                starts_empty,
                applies_in_order,
                scans_a_half_open_range_until_told_to_stop,
                reads_while_it_is_scanned,
                keeps_what_was_flushed_and_says_how_far,
                equals_a_map_under_random_changes,
                wants_a_flush_after_many_bytes,
                flushes_beside_writes,
                d_046_a_checkpoint_is_the_store_after_one_entry_and_opens_elsewhere,
                d_046_what_did_not_change_has_the_same_content,
                lesson_d10_a_checkpoint_during_a_burst_carries_the_exact_position,
                an_interrupted_restore_is_no_store_and_goes,
                a_store_that_does_not_fit_is_not_installed,
                refuses_a_foreign_node,
                refuses_a_newer_format,
                refuses_another_kind,
                refuses_a_damaged_or_lost_identity,
            ]
        );
    };
}

conformance_of!(memory, LocalStoreKind::Memory);
#[cfg(feature = "rocksdb")]
conformance_of!(rocks, LocalStoreKind::RocksDb);
