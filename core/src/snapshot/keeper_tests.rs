use std::vec;
use std::vec::Vec;

use core::time::Duration;

use super::super::hand_made::*;
use super::super::{
    Cadence, CheckpointFile, DeleteOutcome, EntryList, ManifestError, ManifestName, SnapshotList,
    SnapshotObject,
};
use super::*;
use crate::ids::{Blob, Epoch, Name, RequestId};
use crate::log::EntryKind;
use crate::store::{ReadOutcome, WriteOutcome};

fn is_upload(output: &KeeperOutput) -> bool {
    matches!(output, KeeperOutput::Upload { .. })
}

fn upload(shell: &mut Shell) -> (RequestId, FileName) {
    match shell.run_until(is_upload) {
        Some(KeeperOutput::Upload { request, name, .. }) => (request, name),
        other => panic!("an upload was waited for: {other:?}"),
    }
}

fn transient() -> WriteOutcome {
    WriteOutcome::Transient { retry_after_ms: None }
}

/// Two snapshots of epoch 7: at 110 (minute 0), at 120 (minute 30).
fn two_snapshots() -> Shell {
    let mut shell = Shell::new(Store::default());
    shell.write(10);
    shell.run_to(0);
    shell.write(10);
    shell.run_to(30 * MINUTE_MS);
    assert_eq!(shell.made, vec![name(110, 7), name(120, 7)]);
    shell
}

// --- names and reuse ---

#[test]
fn d_046_every_upload_has_a_name_of_its_own_and_unchanged_files_are_used_again() {
    let mut shell = Shell::new(Store::default());
    shell.write(10);
    shell.run_to(0);
    assert_eq!(shell.uploads, vec![(file(7, 1), 'a'), (file(7, 2), 'b')]);
    shell.content = vec!['b', 'c'];
    shell.write(10);
    shell.run_to(30 * MINUTE_MS);
    assert_eq!(shell.uploads[2..], [(file(7, 3), 'c')]);
    let newest = shell.store.manifest(name(120, 7));
    let stored: Vec<FileName> = newest.files.iter().map(|file| file.stored_as).collect();
    assert_eq!(stored, vec![file(7, 2), file(7, 3)]);
    assert_eq!(newest.end, end_at(120), "lesson D10: the exact position");
    assert_eq!(shell.checkpoints_dropped, 2);
}

#[test]
fn d_046_a_file_that_came_back_is_uploaded_anew_if_only_an_older_snapshot_names_it() {
    // Review 4.10: the delete of the old copy may be on its way.
    let mut shell = two_snapshots();
    shell.content = vec!['a'];
    shell.write(10);
    shell.run_to(60 * MINUTE_MS);
    shell.content = vec!['a', 'b'];
    shell.write(10);
    shell.run_to(90 * MINUTE_MS);
    assert_eq!(shell.uploads[2..], [(file(7, 3), 'b')]);
}

#[test]
fn d_046_a_new_active_uses_only_what_the_newest_complete_manifest_names() {
    let mut store = Store::default();
    store.put(name(50, 5), &[('a', file(5, 1))]);
    store.put(name(60, 6), &[('b', file(6, 1)), ('c', file(6, 2))]);
    store.put(name(70, 6), &[('a', file(6, 3)), ('b', file(6, 4))]);
    // Its upload was lost: it is not complete.
    store.files.remove(&file(6, 3));
    let mut shell = Shell::new(store);
    shell.run_to(0);
    assert_eq!(shell.made, vec![name(100, 7)], "forty entries since the newest complete one");
    assert_eq!(shell.uploads, vec![(file(7, 1), 'a')], "b stands in 6-1");
    assert_eq!(
        shell.events[..2],
        [KeeperEvent::Unusable { name: name(70, 6), error: None }, KeeperEvent::Inherited(name(60, 6))]
    );
}

#[test]
fn d_046_a_file_of_another_size_makes_a_manifest_incomplete() {
    let mut store = Store::default();
    store.put(name(95, 6), &[('a', file(6, 1)), ('b', file(6, 2))]);
    let mut shell = Shell::new(store);
    let Some(KeeperOutput::ListSnapshots { request }) = shell.keeper.poll_output() else {
        panic!("it begins with a list")
    };
    let SnapshotList::All { manifests, mut files } = shell.store.list() else { unreachable!() };
    files[1].size_bytes += 1;
    let outcome = SnapshotList::All { manifests, files };
    shell.handle(KeeperInput::SnapshotsListed { request, outcome });
    shell.run();
    assert_eq!(shell.events[0], KeeperEvent::Unusable { name: name(95, 6), error: None });
    assert_eq!(shell.uploads.len(), 2);
}

#[test]
fn d_046_a_manifest_that_cannot_be_read_is_passed_over_by_name() {
    let mut store = Store::default();
    store.put(name(50, 5), &[('a', file(5, 1))]);
    store.put(name(60, 6), &[('a', file(6, 1))]);
    store.manifests.insert(name(60, 6), Blob::from(vec![1, 2, 3]));
    let mut shell = Shell::new(store);
    shell.run_to(0);
    let error = Some(ManifestError::Damaged);
    assert_eq!(
        shell.events[..2],
        [KeeperEvent::Unusable { name: name(60, 6), error }, KeeperEvent::Inherited(name(50, 5))]
    );
    assert_eq!(shell.uploads, vec![(file(7, 1), 'b')]);
}

#[test]
fn d_046_an_upload_that_may_have_landed_is_sent_again_under_another_name() {
    for outcome in [transient(), WriteOutcome::Refused, WriteOutcome::Permanent] {
        let mut shell = Shell::new(Store::default());
        shell.content = vec!['a'];
        shell.write(10);
        let (request, first) = upload(&mut shell);
        assert_eq!(first, file(7, 1));
        shell.store.files.insert(first, 'a');
        shell.handle(KeeperInput::Uploaded { request, outcome });
        shell.run_to(1_000);
        assert_eq!(shell.uploads, vec![(file(7, 2), 'a')]);
        // A late answer to the first changes nothing.
        shell.handle(KeeperInput::Uploaded { request, outcome: done() });
        shell.run();
        assert_eq!(shell.store.manifest(name(110, 7)).files[0].stored_as, file(7, 2));
        assert_eq!(shell.made.len(), 1);
    }
}

// --- a snapshot counts once it was read back ---

#[test]
fn d_030_a_manifest_counts_only_after_it_was_read_back() {
    let mut shell = Shell::new(Store::default());
    shell.write(10);
    let is_written = |output: &KeeperOutput| matches!(output, KeeperOutput::WriteManifest { .. });
    let Some(output @ KeeperOutput::WriteManifest { .. }) = shell.run_until(is_written) else {
        panic!("the manifest follows the files")
    };
    shell.perform(output);
    let Some(KeeperOutput::ReadManifest { request, .. }) = shell.keeper.poll_output() else {
        panic!("it is read back")
    };
    assert_eq!(shell.keeper.newest(), None);
    let outcome = ReadOutcome::Transient { retry_after_ms: None };
    shell.handle(KeeperInput::ManifestRead { request, outcome });
    assert_eq!(shell.keeper.newest(), None);
    shell.run_to(1_000);
    assert_eq!(shell.keeper.newest(), Some(Position(110)));
}

#[test]
fn d_046_a_manifest_whose_write_is_unclear_is_recognised() {
    for (lands, outcome) in [(true, transient()), (true, WriteOutcome::Refused), (false, transient())] {
        let mut shell = Shell::new(Store::default());
        shell.write(10);
        let is_written = |output: &KeeperOutput| matches!(output, KeeperOutput::WriteManifest { .. });
        let Some(KeeperOutput::WriteManifest { request, name, body }) = shell.run_until(is_written) else {
            panic!("the manifest follows the files")
        };
        if lands {
            shell.store.manifests.insert(name, body);
        }
        shell.handle(KeeperInput::ManifestWritten { request, outcome });
        shell.run_to(2_000);
        assert_eq!(shell.made, vec![name]);
    }
}

#[test]
fn d_046_a_refused_manifest_that_is_not_there_is_written_again() {
    let mut shell = Shell::new(Store::default());
    shell.write(10);
    let is_written = |output: &KeeperOutput| matches!(output, KeeperOutput::WriteManifest { .. });
    let Some(KeeperOutput::WriteManifest { request, .. }) = shell.run_until(is_written) else {
        panic!("the manifest follows the files")
    };
    shell.handle(KeeperInput::ManifestWritten { request, outcome: WriteOutcome::Refused });
    shell.run_to(2_000);
    assert_eq!(shell.made, vec![name(110, 7)]);
}

#[test]
fn d_046_a_manifest_of_the_same_name_is_never_overwritten_and_this_snapshot_does_not_count() {
    let mut shell = Shell::new(Store::default());
    shell.store.put(name(110, 7), &[('z', file(7, 99))]);
    shell.store.files.clear();
    let before = shell.store.manifests[&name(110, 7)].clone();
    shell.write(10);
    shell.run_to(0);
    assert_eq!(shell.store.manifests[&name(110, 7)], before);
    assert_eq!(shell.keeper.newest(), None);
    assert!(shell.events.contains(&KeeperEvent::Abandoned(name(110, 7))));
    assert_eq!(shell.checkpoints_dropped, 1);
    shell.write(10);
    shell.run_to(0);
    assert_eq!(shell.made, vec![name(120, 7)]);
}

// --- trimming ---

#[test]
fn review_4_9_d_030_the_bound_is_the_older_one_of_two_at_the_very_hour() {
    let mut shell = two_snapshots();
    shell.run_to(HOUR_MS - 1);
    assert_eq!(shell.bounds, Vec::<u64>::new());
    assert_eq!(shell.keeper.poll_timeout(), Some(Instant::from_millis(HOUR_MS)));
    shell.now_ms = HOUR_MS;
    let just_before = Now { instant: Instant::from_micros(HOUR_MS * 1_000 - 1), ..Now::default() };
    shell.keeper.handle(just_before, KeeperInput::Tick);
    shell.run();
    assert_eq!(shell.bounds, Vec::<u64>::new(), "a microsecond less than an hour");
    shell.handle(KeeperInput::Tick);
    shell.run();
    assert_eq!(shell.bounds, vec![110], "review 4.9: not the newest one's position");
    shell.run_to(5 * HOUR_MS);
    assert_eq!(shell.bounds, vec![110], "once");
}

#[test]
fn d_030_one_snapshot_allows_nothing() {
    let mut shell = Shell::new(Store::default());
    shell.write(10);
    shell.run_to(5 * HOUR_MS);
    assert_eq!(shell.made.len(), 1);
    assert_eq!(shell.bounds, Vec::<u64>::new());
}

#[test]
fn d_030_a_snapshot_of_another_tenure_does_not_count() {
    let mut store = Store::default();
    store.put(name(95, 6), &[('a', file(6, 1))]);
    let mut shell = Shell::new(store);
    shell.write(10);
    shell.run_to(5 * HOUR_MS);
    assert_eq!(shell.made, vec![name(110, 7)]);
    assert_eq!(shell.bounds, Vec::<u64>::new(), "this process has read back one of its own only");
}

#[test]
fn lesson_d4_nothing_is_trimmed_while_uploads_fail() {
    let mut shell = Shell::new(Store::default());
    shell.write(10);
    shell.run_to(0);
    for hour in 1..10 {
        shell.write(10);
        shell.now_ms = hour * HOUR_MS;
        shell.handle(KeeperInput::Tick);
        while let Some(output) = shell.run_until(is_upload) {
            let KeeperOutput::Upload { request, .. } = output else { unreachable!() };
            shell.handle(KeeperInput::Uploaded { request, outcome: transient() });
        }
        shell.content = vec!['x', 'y'];
    }
    assert_eq!(shell.made.len(), 2, "the second one had nothing to upload yet");
    assert_eq!(shell.bounds, vec![110]);
}

#[test]
fn d_030_a_third_snapshot_waits_until_the_older_one_is_an_hour_old() {
    let mut shell = two_snapshots();
    shell.write(10);
    shell.run_to(HOUR_MS - 1);
    assert_eq!(shell.made.len(), 2, "else the older one would never become an hour old");
    shell.run_to(HOUR_MS);
    assert_eq!(shell.made.len(), 3);
    assert_eq!(shell.bounds, vec![110]);
    shell.write(10);
    shell.run_to(HOUR_MS + 30 * MINUTE_MS);
    assert_eq!(shell.made.len(), 4);
    assert_eq!(shell.bounds, vec![110, 120], "one bound for each");
}

#[test]
fn review_4_3_d_030_entries_go_once_the_lease_write_has_landed_and_the_one_at_the_bound_stays() {
    let mut shell = two_snapshots();
    shell.run_to(HOUR_MS);
    assert_eq!(shell.bounds, vec![110]);
    assert_eq!(shell.entries_deleted, Vec::<u64>::new(), "asked for is not landed");
    shell.trimmed_below(110);
    assert_eq!(shell.entries_deleted, (101..110).collect::<Vec<u64>>());
    assert_eq!(shell.store.entries.keys().copied().collect::<Vec<u64>>(), (110..=120).collect::<Vec<u64>>());
}

#[test]
fn d_030_fences_are_never_deleted_and_what_nobody_can_read_is_left_alone() {
    let mut shell = two_snapshots();
    for position in 1..=99 {
        shell.store.entries.insert(position, EntryKind::Changes);
    }
    for fence in [1, 40, 41, 100] {
        shell.store.entries.insert(fence, EntryKind::Fence);
    }
    shell.store.entries.insert(60, EntryKind::Unreadable);
    shell.trimmed_below(110);
    let left: Vec<u64> = shell.store.entries.keys().copied().filter(|position| *position < 110).collect();
    assert_eq!(left, vec![1, 40, 41, 60, 100]);
    assert_eq!(shell.inspected, (1..100).collect::<Vec<u64>>(), "its own need no look");
    let told = KeeperEvent::Trimmed { entries: 95 + 9, below: Position(110) };
    assert!(shell.events.contains(&told), "{:?}", shell.events);
}

#[test]
fn d_030_what_an_earlier_holder_left_behind_is_deleted_at_the_beginning() {
    let mut store = Store::default();
    for position in [30, 48, 49, 50, 51] {
        store.entries.insert(position, EntryKind::Changes);
    }
    let mut shell = Shell::with(store, |options| options.trimmed_below = Position(50));
    shell.run();
    assert_eq!(shell.entries_deleted, vec![30, 48, 49], "the lease that was acquired carries the bound");
}

#[test]
fn d_030_a_long_log_is_trimmed_in_pages() {
    let mut store = Store::default();
    for position in 1..=2_500 {
        store.entries.insert(position, EntryKind::Changes);
    }
    let mut shell = Shell::with(store, |options| {
        options.fence = end_at(3_000);
        options.trimmed_below = Position(2_400);
    });
    let mut pages = vec![];
    while let Some(output) = shell.keeper.poll_output() {
        if let KeeperOutput::ListEntries { after, below, .. } = output {
            pages.push((after.0, below.0));
        }
        shell.perform(output);
    }
    assert_eq!(pages, vec![(0, 2_400), (1_000, 2_400), (2_000, 2_400)]);
    assert_eq!(shell.entries_deleted, (1..2_400).collect::<Vec<u64>>());
}

#[test]
fn d_030_a_list_that_says_more_than_was_asked_deletes_nothing_more() {
    let mut shell = two_snapshots();
    shell.handle(KeeperInput::TrimmedBelow(Position(110)));
    let is_list = |output: &KeeperOutput| matches!(output, KeeperOutput::ListEntries { .. });
    let Some(KeeperOutput::ListEntries { request, .. }) = shell.run_until(is_list) else {
        panic!("the log is listed")
    };
    let positions = [105, 109, 110, 111, 500].map(Position).to_vec();
    shell.handle(KeeperInput::EntriesListed { request, outcome: EntryList::Positions(positions) });
    shell.run();
    assert_eq!(shell.entries_deleted, vec![105, 109]);
}

#[test]
fn d_030_deletes_that_fail_are_sent_again() {
    let mut shell = two_snapshots();
    shell.handle(KeeperInput::TrimmedBelow(Position(110)));
    let is_delete = |output: &KeeperOutput| matches!(output, KeeperOutput::DeleteEntries { .. });
    for outcome in [DeleteOutcome::Transient { retry_after_ms: None }, DeleteOutcome::Permanent] {
        let Some(KeeperOutput::DeleteEntries { request, .. }) = shell.run_until(is_delete) else {
            panic!("entries are deleted")
        };
        shell.handle(KeeperInput::Deleted { request, outcome });
        shell.now_ms += 2_000;
        shell.handle(KeeperInput::Tick);
    }
    shell.run();
    assert_eq!(shell.entries_deleted, (101..110).collect::<Vec<u64>>());
}

// --- cleaning ---

/// Three snapshots: the oldest and its file `b` are not needed any more.
fn something_to_clean() -> Shell {
    let mut shell = two_snapshots();
    shell.lease_write();
    shell.content = vec!['a', 'c'];
    shell.write(10);
    shell.run_to(60 * MINUTE_MS);
    shell.write(10);
    shell.run_to(90 * MINUTE_MS);
    assert_eq!(shell.made.len(), 4);
    assert_eq!(shell.deleted, vec![]);
    shell
}

const DOOMED: [SnapshotObject; 3] = [
    SnapshotObject::Manifest(ManifestName { position: Position(110), epoch: Epoch(7) }),
    SnapshotObject::Manifest(ManifestName { position: Position(120), epoch: Epoch(7) }),
    SnapshotObject::File(FileName { epoch: Epoch(7), counter: 2 }),
];

#[test]
fn d_046_what_neither_of_the_two_newest_names_goes_after_a_lease_write_sent_after_the_list() {
    let mut shell = something_to_clean();
    let listed_at = Instant::from_millis(90 * MINUTE_MS);
    shell.run_to(91 * MINUTE_MS);
    for early in [Duration::from_secs(10), Duration::ZERO] {
        let sent_at = listed_at.saturating_sub(early);
        shell.handle(KeeperInput::LeaseWritten { sent_at });
        shell.run();
        assert_eq!(shell.deleted, vec![], "it may have been sent before the list was made");
    }
    let sent_at = listed_at.saturating_add(Duration::from_micros(1));
    shell.handle(KeeperInput::LeaseWritten { sent_at });
    shell.run();
    assert_eq!(shell.deleted, DOOMED);
    assert!(shell.events.contains(&KeeperEvent::Cleaned { objects: 3 }));
}

#[test]
fn d_046_a_landed_bound_is_no_proof_for_snapshot_files() {
    let mut shell = something_to_clean();
    shell.trimmed_below(110);
    assert_eq!(shell.deleted, vec![], "that write may have been sent before the list");
}

#[test]
fn d_046_the_second_newest_may_be_another_tenures_and_its_files_stay() {
    let mut store = Store::default();
    store.put(name(40, 5), &[('x', file(5, 1))]);
    store.put(name(95, 6), &[('y', file(6, 1)), ('a', file(6, 2))]);
    let mut shell = Shell::new(store);
    shell.write(10);
    shell.run_to(0);
    shell.now_ms += 1;
    shell.lease_write();
    assert_eq!(shell.deleted, vec![SnapshotObject::Manifest(name(40, 5)), SnapshotObject::File(file(5, 1))]);
}

#[test]
fn d_046_a_zombies_manifest_among_the_two_newest_is_read_and_its_files_stay() {
    let mut store = Store::default();
    store.put(name(40, 5), &[('x', file(5, 1))]);
    store.put(name(95, 6), &[('y', file(6, 1))]);
    let mut shell = Shell::new(store);
    shell.run();
    // Epoch 6 is not aware yet that it is over.
    shell.store.put(name(97, 6), &[('z', file(6, 9))]);
    shell.write(10);
    shell.run_to(0);
    shell.now_ms += 1;
    shell.lease_write();
    assert!(shell.store.files.contains_key(&file(6, 9)));
    // What this process took files from stays as well: it is more than the rule asks for.
    assert!(shell.store.files.contains_key(&file(6, 1)));
    assert_eq!(shell.deleted, vec![SnapshotObject::Manifest(name(40, 5)), SnapshotObject::File(file(5, 1))]);
}

#[test]
fn d_046_nothing_is_deleted_while_one_of_the_two_newest_cannot_be_read() {
    let mut store = Store::default();
    store.put(name(40, 5), &[('x', file(5, 1))]);
    store.manifests.insert(name(95, 6), Blob::from(vec![9]));
    let mut shell = Shell::new(store);
    shell.write(10);
    shell.run_to(0);
    shell.now_ms += 1;
    shell.lease_write();
    assert_eq!(shell.deleted, vec![]);
    shell.write(10);
    shell.run_to(30 * MINUTE_MS);
    shell.now_ms += 1;
    shell.lease_write();
    assert_eq!(shell.deleted.len(), 3, "two own ones are newer now: {:?}", shell.deleted);
}

#[test]
fn d_046_a_process_that_somebody_is_ahead_of_deletes_nothing() {
    let mut shell = something_to_clean();
    shell.store.put(name(200, 8), &[('q', file(8, 1))]);
    shell.write(10);
    shell.run_to(120 * MINUTE_MS);
    shell.now_ms += 1;
    shell.lease_write();
    assert_eq!(shell.deleted, vec![]);
}

#[test]
fn d_046_a_list_that_would_show_uploads_under_way_is_given_up() {
    let mut shell = Shell::with(Store::default(), |options| {
        options.cadence.at_most_every = Duration::ZERO;
        options.cadence.trim_age = Duration::ZERO;
    });
    shell.write(10);
    let is_clean_list =
        |output: &KeeperOutput| matches!(output, KeeperOutput::ListSnapshots { request } if request.0 > 1);
    let Some(KeeperOutput::ListSnapshots { request }) = shell.run_until(is_clean_list) else {
        panic!("the snapshot is followed by a list")
    };
    shell.content = vec!['c', 'd'];
    shell.write(10);
    let (upload, unnamed) = upload(&mut shell);
    shell.store.files.insert(unnamed, 'c');
    let outcome = shell.store.list();
    shell.handle(KeeperInput::SnapshotsListed { request, outcome });
    shell.now_ms += 1;
    let sent_at = Instant::from_millis(shell.now_ms);
    shell.handle(KeeperInput::LeaseWritten { sent_at });
    shell.handle(KeeperInput::Uploaded { request: upload, outcome: done() });
    shell.run();
    assert!(shell.store.files.contains_key(&unnamed));
    assert_eq!(shell.made.len(), 2);
}

#[test]
fn d_046_deletes_that_are_denied_do_not_hold_up_snapshots_and_are_given_up() {
    let mut shell = something_to_clean();
    shell.now_ms += 1;
    let sent_at = Instant::from_millis(shell.now_ms);
    shell.handle(KeeperInput::LeaseWritten { sent_at });
    let mut tries = 0;
    let is_delete = |output: &KeeperOutput| matches!(output, KeeperOutput::DeleteSnapshotObjects { .. });
    for _ in 0..100 {
        while let Some(KeeperOutput::DeleteSnapshotObjects { request, .. }) = shell.run_until(is_delete) {
            tries += 1;
            shell.handle(KeeperInput::Deleted { request, outcome: DeleteOutcome::Permanent });
        }
        shell.now_ms += MINUTE_MS;
        shell.handle(KeeperInput::Tick);
    }
    assert_eq!(tries, 8);
    shell.write(10);
    shell.run_to(4 * HOUR_MS);
    shell.now_ms += 1;
    shell.lease_write();
    assert_eq!(shell.made.len(), 5);
    let mut expected = DOOMED.to_vec();
    expected.insert(2, SnapshotObject::Manifest(name(130, 7)));
    assert_eq!(shell.deleted, expected, "the next list found them again");
}

// --- time ---

#[test]
fn d_011_an_upload_may_take_hours() {
    let mut shell = Shell::new(Store::default());
    shell.write(10);
    let is_checkpoint = |output: &KeeperOutput| matches!(output, KeeperOutput::Checkpoint { .. });
    let Some(KeeperOutput::Checkpoint { request }) = shell.run_until(is_checkpoint) else {
        panic!("a checkpoint is made")
    };
    let mut checkpoint = shell.checkpoint();
    checkpoint.files = vec![CheckpointFile {
        local_name: Name::new("z"),
        size_bytes: 1_000_000_000,
        checksum: checksum('z'),
    }];
    shell.handle(KeeperInput::CheckpointMade { request, checkpoint: Some(checkpoint) });
    let (request, _) = upload(&mut shell);
    shell.now_ms = 2 * HOUR_MS;
    shell.handle(KeeperInput::Tick);
    assert_eq!(shell.keeper.poll_output(), None, "a gigabyte is given 10,030 s");
    shell.handle(KeeperInput::Uploaded { request, outcome: done() });
    shell.run();
    assert_eq!(shell.made, vec![name(110, 7)]);
}

#[test]
fn d_011_an_upload_without_an_answer_is_sent_again_and_entries_go_on_meanwhile() {
    let mut shell = Shell::new(Store::default());
    shell.content = vec!['a'];
    shell.write(10);
    let (_, first) = upload(&mut shell);
    shell.write(500);
    assert_eq!(shell.keeper.poll_output(), None, "one snapshot at a time");
    shell.run_to(31_000);
    assert_eq!((first, &shell.uploads), (file(7, 1), &vec![(file(7, 2), 'a')]));
    assert_eq!(shell.made, vec![name(110, 7)], "of the checkpoint, not of now");
}

#[test]
fn d_030_when_a_snapshot_is_made() {
    // Entries.
    let mut shell = Shell::new(Store::default());
    shell.store.put(name(100, 6), &[('a', file(6, 1))]);
    shell.run();
    shell.write(9);
    shell.run();
    assert_eq!(shell.made, vec![]);
    shell.write(1);
    shell.run();
    assert_eq!(shell.made, vec![name(110, 7)]);
    // Not within half an hour, however much is written.
    shell.write(500);
    shell.run_to(30 * MINUTE_MS - 1);
    assert_eq!(shell.made.len(), 1);
    shell.run_to(30 * MINUTE_MS);
    assert_eq!(shell.made.len(), 2);
    // Bytes.
    shell.handle(KeeperInput::Applied { position: Position(611), bytes: 1_000 });
    shell.applied = 611;
    shell.run_to(HOUR_MS);
    assert_eq!(shell.made.last(), Some(&name(611, 7)));
    // Time, if there is anything new.
    shell.run_to(20 * HOUR_MS);
    assert_eq!(shell.made.len(), 3);
    shell.write(1);
    shell.run_to(20 * HOUR_MS);
    assert_eq!(shell.made.len(), 4);
    shell.write(1);
    shell.run_to(26 * HOUR_MS - 1);
    assert_eq!(shell.made.len(), 4);
    shell.run_to(26 * HOUR_MS);
    assert_eq!(shell.made.len(), 5);
}

#[test]
fn d_030_the_standard_cadence_lets_every_older_one_become_an_hour_old() {
    let standard = Cadence::STANDARD;
    assert_eq!(standard.trim_age, minutes(60), "D-30");
    assert!(standard.at_most_every * 2 >= standard.trim_age);
}

#[test]
fn d_033_a_checkpoint_that_the_disk_refuses_stops_the_process() {
    let mut shell = Shell::new(Store::default());
    shell.write(10);
    let is_checkpoint = |output: &KeeperOutput| matches!(output, KeeperOutput::Checkpoint { .. });
    let Some(KeeperOutput::Checkpoint { request }) = shell.run_until(is_checkpoint) else {
        panic!("a checkpoint is made")
    };
    shell.handle(KeeperInput::CheckpointMade { request, checkpoint: None });
    shell.run();
    assert_eq!(shell.failed, Some(StopReason::LocalStoreFailed));
    assert_eq!(shell.keeper.poll_timeout(), None);
}
