//! What an active does.

use super::*;

fn ha_030_makes_trims_and_cleans(store: Arc<dyn ObjectStore>, folder: &Path) {
    let mut active = Active::new(&store, folder);
    let first = active.snapshot();
    assert_eq!(first.epoch, Epoch(1));
    assert!(first.position >= Position(10), "the tenth entry makes it due, and more may be in it: {first}");
    assert_eq!(*active.heard.reports.lock().expect("no panic"), [], "lesson D4: one snapshot bounds nothing");
    let second = active.snapshot();
    assert!(second.position > first.position);
    assert_eq!(
        active.heard.wait_for_reports(1),
        [KeeperReport::TrimBelow(first.position)],
        "D-30: the older of the two"
    );
    let all: Vec<String> = (1..=active.position).map(log_key).collect();
    assert_eq!(keys(&*store, "orders/log/"), all, "nothing goes before the lease says so");

    active.keeper.trimmed_below(first.position);
    let is_trimmed = |event: &ShellEvent| matches!(event, ShellEvent::Snapshot(KeeperEvent::Trimmed { .. }));
    active.heard.wait(1, is_trimmed);
    let kept: Vec<String> =
        std::iter::once(1).chain(first.position.0..=active.position).map(log_key).collect();
    assert_eq!(keys(&*store, "orders/log/"), kept, "the fence, the object at the bound and all above it");

    // A third one takes the first one's place, whose objects go with the next renewal that lands.
    let third = active.snapshot();
    let is_cleaned = |event: &ShellEvent| matches!(event, ShellEvent::Snapshot(KeeperEvent::Cleaned { .. }));
    while active.heard.keeper().iter().all(|event| !matches!(event, KeeperEvent::Cleaned { .. })) {
        active.renew();
        std::thread::yield_now();
    }
    active.heard.wait(1, is_cleaned);
    let manifests: Vec<String> =
        keys(&*store, "orders/snapshots/").into_iter().filter(|key| key.ends_with(".manifest")).collect();
    let expected: Vec<String> = [second, third]
        .map(|name| format!("orders/snapshots/{:020}/{:020}.manifest", name.position.0, name.epoch.0))
        .into();
    assert_eq!(manifests, expected);
    let files = keys(&*store, "orders/snapshots/files/");
    assert_eq!(files.len(), 3, "one identity, used again, and two checkpoints: {files:?}");

    assert_eq!(active.heard.failures(), Vec::<String>::new());
    let local = active.end();
    assert_eq!(Arc::strong_count(&local), 1, "HA-104: nothing holds the local store any more");
    assert!(!folder.join("active.checkpoint").exists());
}

#[test]
fn d_030_d_046_snapshots_are_made_the_log_is_trimmed_and_what_nobody_needs_goes_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    ha_030_makes_trims_and_cleans(in_memory(), folder.path());
}

#[test]
fn d_030_d_046_snapshots_are_made_the_log_is_trimmed_and_what_nobody_needs_goes_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    ha_030_makes_trims_and_cleans(in_folder(folder.path()), folder.path());
}

#[test]
fn d_046_a_new_epoch_uses_files_of_the_newest_whole_snapshot_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = in_memory();
    let mut active = Active::new(&store, folder.path());
    let first = active.snapshot();
    let position = active.position;
    let local = active.end();
    let place = LocalPlace::new(LocalStoreKind::Memory, &folder.path().join("active"), NODE);
    let mut next = Active::with(&store, place, local, 2, position);
    let second = next.snapshot();
    assert_eq!((first.epoch, second.epoch), (Epoch(1), Epoch(2)));
    let inherited = next.heard.keeper().contains(&KeeperEvent::Inherited(first));
    assert!(inherited, "{:?}", next.heard.keeper());
    // The identity is the first epoch's, the checkpoint its own.
    let files = keys(&*store, "orders/snapshots/files/");
    let of_epoch = |epoch: u64| {
        let prefix = format!("orders/snapshots/files/{epoch:020}-");
        files.iter().filter(|key| key.starts_with(&prefix)).count()
    };
    assert_eq!((of_epoch(1), of_epoch(2)), (2, 1), "{files:?}");
    next.end();
}

#[test]
fn lesson_d4_while_uploads_are_denied_nothing_is_trimmed_and_it_goes_on_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = in_memory();
    let faulty = Faulty::new(&store);
    faulty.denied.store(true, Ordering::SeqCst);
    let shared: Arc<dyn ObjectStore> = Arc::clone(&faulty) as Arc<dyn ObjectStore>;
    let place = LocalPlace::new(LocalStoreKind::Memory, &folder.path().join("active"), NODE);
    let local = place.open().expect("opened");
    local.apply(end(1), &[]).expect("applied");
    let mut active = Active::with(&shared, place, local, 1, 1);
    active.store = Arc::clone(&store);
    active.write(50);
    let is_denied = |event: &ShellEvent| {
        matches!(event, ShellEvent::Snapshot(KeeperEvent::Retrying { denied: true, .. }))
    };
    active.heard.wait(2, is_denied);
    assert_eq!(keys(&*store, "orders/snapshots/"), Vec::<String>::new());
    assert_eq!(*active.heard.reports.lock().expect("no panic"), []);
    faulty.denied.store(false, Ordering::SeqCst);
    active.heard.wait(1, is_made);
    active.end();
}

#[test]
fn d_033_a_local_disk_that_cannot_freeze_the_store_stops_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = in_memory();
    let mut active = Active::new(&store, folder.path());
    // Something stands where the checkpoint is to be made.
    fs::write(folder.path().join("active.checkpoint"), "a file").expect("written");
    active.write(10);
    assert_eq!(active.heard.wait_for_reports(1), [KeeperReport::Failed(StopReason::LocalStoreFailed)]);
    let failures = active.heard.failures();
    assert!(failures[0].contains("active.checkpoint"), "{failures:?}");
    active.end();
}
