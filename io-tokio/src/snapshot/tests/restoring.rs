//! What a process does whose local store was discarded.

use super::*;

/// Two snapshots of one active, and its state when it ended.
struct Past {
    store: Arc<dyn ObjectStore>,
    older: ManifestName,
    newer: ManifestName,
}

impl Past {
    fn in_memory(folder: &Path) -> Self {
        Self::on(in_memory(), folder)
    }

    fn on(store: Arc<dyn ObjectStore>, folder: &Path) -> Self {
        let mut active = Active::new(&store, folder);
        let older = active.snapshot();
        let newer = active.snapshot();
        active.end();
        Self { store, older, newer }
    }

    /// The objects of a snapshot that the other one does not name: its checkpoint.
    fn own_file(&self, name: ManifestName) -> String {
        let key = self.manifest_key(name);
        let ReadOutcome::Found { body, .. } = self.store.read(&key) else { panic!("{key} is missing") };
        let manifest = dexzd_core::snapshot::Manifest::decode(&body, &Name::new(NODE), name).expect("whole");
        let file = manifest.files.iter().find(|file| &*file.local_name == "checkpoint").expect("it has one");
        let object = dexzd_core::snapshot::SnapshotObject::File(file.stored_as);
        format!("orders/snapshots/{}", object.key())
    }

    fn manifest_key(&self, name: ManifestName) -> String {
        format!("orders/snapshots/{:020}/{:020}.manifest", name.position.0, name.epoch.0)
    }

    /// Restores into a folder of its own and looks at what came out.
    fn restores(&self, expected: ManifestName) -> Vec<BootstrapEvent> {
        let folder = tempfile::tempdir().expect("a folder");
        let run = RestoreRun::begin(&self.store, folder.path(), 0);
        let store = restored(run.finish());
        assert_eq!(store.end(), end(expected.position.0));
        assert_content(&*store, expected);
        run.heard.restore()
    }

    fn replace(&self, key: &str, body: &[u8]) {
        let ReadOutcome::Found { version, .. } = self.store.read(key) else { panic!("{key} is missing") };
        let replaced = self.store.replace(key, body, &version);
        assert!(matches!(replaced, WriteOutcome::Done { .. }), "{replaced:?}");
    }
}

/// As [`Active::write`] makes it.
fn assert_content(store: &dyn LocalStore, name: ManifestName) {
    let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = (2..=name.position.0)
        .map(|position| (format!("key-{position}").into_bytes(), vec![7; 1_000]))
        .collect();
    expected.insert(b"newest".to_vec(), vec![7; 1_000]);
    assert_eq!(content(store), expected, "lesson D10: exactly what the log adds up to");
}

fn chosen(events: &[BootstrapEvent]) -> Vec<ManifestName> {
    let chosen = events.iter().filter_map(|event| match event {
        BootstrapEvent::Chosen { name, .. } => Some(*name),
        _ => None,
    });
    chosen.collect()
}

fn problems(events: &[BootstrapEvent]) -> Vec<(ManifestName, SnapshotProblem)> {
    let problems = events.iter().filter_map(|event| match event {
        BootstrapEvent::Unusable { name, problem } => Some((*name, problem.clone())),
        _ => None,
    });
    problems.collect()
}

#[test]
fn d_043_d_046_the_newest_snapshot_is_restored_with_progress() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::in_memory(folder.path());
    let run = RestoreRun::begin(&past.store, folder.path(), 0);
    let store = restored(run.finish());
    assert_eq!(store.end(), end(past.newer.position.0));
    assert_content(&*store, past.newer);
    assert_eq!(chosen(&run.heard.restore()), [past.newer]);
    let events = run.heard.events.lock().expect("no panic");
    let progress: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|event| match event {
            ShellEvent::RestoreProgress { done_bytes, of_bytes } => Some((*done_bytes, *of_bytes)),
            _ => None,
        })
        .collect();
    let (done, of) = *progress.last().expect("the end is told");
    assert_eq!(done, of);
    assert!(of > 10_000, "{progress:?}");
}

#[test]
fn d_046_a_folder_store_restores_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::on(in_folder(folder.path()), folder.path());
    assert_eq!(problems(&past.restores(past.newer)), []);
}

#[test]
fn d_046_a_damaged_file_is_recognised_and_the_next_older_snapshot_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::in_memory(folder.path());
    let key = past.own_file(past.newer);
    let ReadOutcome::Found { body, .. } = past.store.read(&key) else { panic!("missing") };
    let mut body = body.to_vec();
    let middle = body.len() / 2;
    body[middle] ^= 1;
    past.replace(&key, &body);
    let events = past.restores(past.older);
    assert!(
        matches!(problems(&events)[..], [(name, SnapshotProblem::FileDiffers(_))] if name == past.newer),
        "{events:?}"
    );
    // Cut short, too.
    past.replace(&key, &body[..middle]);
    let events = past.restores(past.older);
    assert!(
        matches!(problems(&events)[..], [(name, SnapshotProblem::FileDiffers(_))] if name == past.newer),
        "{events:?}"
    );
}

/// The folder store notices it itself, and the bootstrap goes on all the same.
#[test]
fn d_046_a_damaged_file_in_a_folder_store_is_no_failure_of_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::on(in_folder(folder.path()), folder.path());
    for key in [past.own_file(past.newer), past.manifest_key(past.newer)] {
        let mut object = folder.path().join("store");
        object.extend(key.split('/'));
        let file = fs::read_dir(&object).expect("listed").next().expect("a version").expect("listed").path();
        let good = fs::read(&file).expect("read");
        let mut bad = good.clone();
        let place = good.len() - 100;
        bad[place] ^= 1;
        fs::write(&file, &bad).expect("written");
        let events = past.restores(past.older);
        assert!(
            matches!(
                problems(&events)[..],
                [(name, SnapshotProblem::FileDiffers(_) | SnapshotProblem::Manifest(_))] if name == past.newer
            ),
            "{events:?}"
        );
        fs::write(&file, &good).expect("written");
    }
}

#[test]
fn d_046_a_missing_file_leads_to_the_older_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::in_memory(folder.path());
    past.store.delete(&past.own_file(past.newer));
    let events = past.restores(past.older);
    assert!(
        matches!(problems(&events)[..], [(name, SnapshotProblem::FileMissing(_))] if name == past.newer),
        "{events:?}"
    );
    // Both: then it begins empty, and the log must tell all.
    past.store.delete(&past.own_file(past.older));
    let target = tempfile::tempdir().expect("a folder");
    let run = RestoreRun::begin(&past.store, target.path(), 0);
    assert_eq!(restored(run.finish()).end(), LogEnd::default());
    assert_eq!(run.heard.restore().last(), Some(&BootstrapEvent::Nothing));
}

#[test]
fn d_046_a_manifest_that_is_gone_or_damaged_leads_to_the_older_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::in_memory(folder.path());
    let key = past.manifest_key(past.newer);
    let ReadOutcome::Found { body, .. } = past.store.read(&key) else { panic!("missing") };
    past.replace(&key, &body[..body.len() - 1]);
    let events = past.restores(past.older);
    assert!(
        matches!(problems(&events)[..], [(name, SnapshotProblem::Manifest(_))] if name == past.newer),
        "{events:?}"
    );
    past.replace(&key, b"\xff\xff random bytes");
    assert_eq!(problems(&past.restores(past.older)).len(), 1);
    past.replace(&key, b"");
    assert_eq!(problems(&past.restores(past.older)).len(), 1);
    // Listed a moment ago, and cleaned away since: listed again.
    past.replace(&key, &body);
    let faulty = Faulty::new(&past.store);
    faulty.hidden.lock().expect("no panic").push(key);
    let shared: Arc<dyn ObjectStore> = faulty;
    let target = tempfile::tempdir().expect("a folder");
    let run = RestoreRun::begin(&shared, target.path(), 0);
    assert_eq!(restored(run.finish()).end(), end(past.older.position.0));
    assert_eq!(problems(&run.heard.restore()), [(past.newer, SnapshotProblem::ManifestMissing)]);
}

#[test]
fn d_043_a_snapshot_below_the_trim_bound_has_no_log_to_go_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::in_memory(folder.path());
    let at = |bound: u64| {
        let target = tempfile::tempdir().expect("a folder");
        let run = RestoreRun::begin(&past.store, target.path(), bound);
        restored(run.finish()).end()
    };
    assert_eq!(at(past.newer.position.0), end(past.newer.position.0), "lesson D8: exactly at the bound");
    assert_eq!(at(past.newer.position.0 + 1), LogEnd::default());
}

/// Killed between two files, twice; the third process restores.
#[test]
fn ha_104_an_interrupted_restore_is_discarded_by_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::in_memory(folder.path());
    let faulty = Faulty::new(&past.store);
    let shared: Arc<dyn ObjectStore> = Arc::clone(&faulty) as Arc<dyn ObjectStore>;
    for _ in 0..2 {
        faulty.stalled.store(true, Ordering::SeqCst);
        let run = RestoreRun::begin(&shared, folder.path(), 0);
        run.heard.wait(1, |event| matches!(event, ShellEvent::RestoreProgress { .. }));
        run.handle.stop();
        assert!(run.handle.has_ended(PATIENCE));
        assert!(run.done.recv().is_err(), "nobody is told of a restore that was stopped");
        assert!(folder.path().join("local.restoring").exists());
        assert!(!folder.path().join("local").exists(), "it is no store yet");
        assert_eq!(run.place.clean_up().expect("clean"), [folder.path().join("local.restoring")]);
        assert_eq!(run.place.open().expect("opened").end(), LogEnd::default());
        faulty.stalled.store(false, Ordering::SeqCst);
    }
    let run = RestoreRun::begin(&shared, folder.path(), 0);
    assert_content(&*restored(run.finish()), past.newer);
}

#[test]
fn a_snapshot_of_the_other_kind_of_local_store_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::in_memory(folder.path());
    // As a process with RocksDB would have made it.
    for name in [past.older, past.newer] {
        let key = past.manifest_key(name);
        let ReadOutcome::Found { body, .. } = past.store.read(&key) else { panic!("missing") };
        let mut manifest =
            dexzd_core::snapshot::Manifest::decode(&body, &Name::new(NODE), name).expect("whole");
        let identity = manifest.files.iter_mut().find(|file| &*file.local_name == "IDENTITY").expect("there");
        let object = dexzd_core::snapshot::SnapshotObject::File(identity.stored_as);
        let object = format!("orders/snapshots/{}", object.key());
        let text = b"dexzd local store\nformat 1\nkind rocksdb\nnode orders\n";
        identity.size_bytes = text.len() as u64;
        identity.checksum = dexzd_core::snapshot::Checksum::of(text);
        past.replace(&object, text);
        past.replace(&key, &manifest.encode());
    }
    let target = tempfile::tempdir().expect("a folder");
    let run = RestoreRun::begin(&past.store, target.path(), 0);
    assert_eq!(restored(run.finish()).end(), LogEnd::default());
    let failures = run.heard.failures();
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].contains("is of kind `rocksdb`, and this process uses `memory`"), "{failures:?}");
}

#[test]
fn d_033_a_disk_that_takes_no_download_ends_it_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let past = Past::in_memory(folder.path());
    let target = folder.path().join("not-a-folder");
    fs::write(&target, "a file").expect("written");
    let run = RestoreRun::begin(&past.store, &target, 0);
    let Err(reason) = run.finish() else { panic!("there is no room for it") };
    assert_eq!(reason, StopReason::LocalStoreFailed);
    let failures = run.heard.failures();
    assert!(failures.iter().any(|detail| detail.contains("not-a-folder")), "{failures:?}");
}
