use std::collections::BTreeMap;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::super::hand_made::*;
use super::super::{Checksum, FileName};
use super::*;
use crate::ids::{Blob, Name, Position};
use crate::snapshot::ManifestError;

/// The shell of a bootstrap: answers at once from the store.
struct Shell {
    bootstrap: Bootstrap,
    store: Store,
    now_ms: u64,
    /// What was downloaded, by its local name.
    downloads: BTreeMap<Name, char>,
    /// The local store, once installed.
    local: Option<(LogEnd, Vec<char>)>,
    discards: u32,
    reads: Vec<ManifestName>,
    fetched: Vec<FileName>,
    events: Vec<BootstrapEvent>,
    done: Option<LogEnd>,
    failed: Option<StopReason>,
    /// What an installed store says about itself, if not what was asked for.
    opens_as: Vec<Option<LogEnd>>,
}

impl Shell {
    fn new(store: Store) -> Self {
        Self::above(store, 0)
    }

    fn above(store: Store, trimmed_below: u64) -> Self {
        let options =
            BootstrapOptions { node_id: Name::new(NODE), trimmed_below: Position(trimmed_below), seed: 1 };
        Self {
            bootstrap: Bootstrap::new(now_ms(0), options),
            store,
            now_ms: 0,
            downloads: BTreeMap::new(),
            local: Some((end_at(3), vec!['?'])),
            discards: 0,
            reads: vec![],
            fetched: vec![],
            events: vec![],
            done: None,
            failed: None,
            opens_as: vec![],
        }
    }

    fn handle(&mut self, input: BootstrapInput) {
        self.bootstrap.handle(now_ms(self.now_ms), input);
    }

    fn run(&mut self) -> Option<LogEnd> {
        assert_eq!(self.run_until(|_| false), None);
        self.done
    }

    fn run_until(&mut self, stop: impl Fn(&BootstrapOutput) -> bool) -> Option<BootstrapOutput> {
        while let Some(output) = self.bootstrap.poll_output() {
            if stop(&output) {
                return Some(output);
            }
            match output {
                BootstrapOutput::Discard => {
                    self.discards += 1;
                    self.downloads.clear();
                    self.local = None;
                    self.handle(BootstrapInput::Discarded { done: true });
                }
                BootstrapOutput::ListSnapshots { request } => {
                    let outcome = self.store.list();
                    self.handle(BootstrapInput::SnapshotsListed { request, outcome });
                }
                BootstrapOutput::ReadManifest { request, name } => {
                    self.reads.push(name);
                    let outcome = self.store.read(name);
                    self.handle(BootstrapInput::ManifestRead { request, outcome });
                }
                BootstrapOutput::Download { request, name, local_name } => {
                    self.fetched.push(name);
                    let outcome = match self.store.files.get(&name) {
                        Some(&content) => {
                            self.downloads.insert(local_name, content);
                            DownloadOutcome::Stored { size_bytes: SIZE_BYTES, checksum: checksum(content) }
                        }
                        None => DownloadOutcome::Missing,
                    };
                    self.handle(BootstrapInput::Downloaded { request, outcome });
                }
                BootstrapOutput::Install { end } => {
                    let opened = if self.opens_as.is_empty() { Some(end) } else { self.opens_as.remove(0) };
                    self.local = Some((end, self.downloads.values().copied().collect()));
                    self.handle(BootstrapInput::Installed { end: opened });
                }
                BootstrapOutput::Done { end } => self.done = Some(end),
                BootstrapOutput::Event(event) => self.events.push(event),
                BootstrapOutput::Failed(reason) => self.failed = Some(reason),
            }
        }
        None
    }

    fn wait(&mut self) {
        self.now_ms = self.bootstrap.poll_timeout().expect("something is due").as_micros().div_ceil(1_000);
        self.handle(BootstrapInput::Tick);
    }

    fn unusable(&self) -> Vec<(ManifestName, SnapshotProblem)> {
        let problem = |event: &BootstrapEvent| match event {
            BootstrapEvent::Unusable { name, problem } => Some((*name, problem.clone())),
            _ => None,
        };
        self.events.iter().filter_map(problem).collect()
    }
}

/// At 40 (a, b), at 60 (a, c), at 80 (c, d).
fn three() -> Store {
    let mut store = Store::default();
    store.put(name(40, 5), &[('a', file(5, 1)), ('b', file(5, 2))]);
    store.put(name(60, 5), &[('a', file(5, 1)), ('c', file(5, 3))]);
    store.put(name(80, 6), &[('c', file(5, 3)), ('d', file(6, 1))]);
    store
}

#[test]
fn d_046_the_newest_snapshot_becomes_the_local_store() {
    let mut shell = Shell::new(three());
    assert_eq!(shell.run(), Some(end_at(80)));
    assert_eq!(shell.local, Some((end_at(80), vec!['c', 'd'])));
    assert_eq!(shell.discards, 1, "what was there is deleted first");
    assert_eq!(shell.reads, vec![name(80, 6)]);
    assert_eq!(shell.bootstrap.poll_timeout(), None);
}

#[test]
fn d_046_of_two_at_one_position_the_later_epochs_is_newer() {
    let mut store = three();
    store.put(name(80, 7), &[('e', file(7, 1))]);
    let mut shell = Shell::new(store);
    assert_eq!(shell.run(), Some(end_at(80)));
    assert_eq!(shell.local, Some((end_at(80), vec!['e'])));
}

#[test]
fn d_043_without_any_snapshot_the_local_store_is_empty() {
    let mut shell = Shell::new(Store::default());
    assert_eq!(shell.run(), Some(LogEnd::default()));
    assert_eq!(shell.local, Some((LogEnd::default(), vec![])));
    assert_eq!(shell.events, vec![BootstrapEvent::Nothing]);
}

#[test]
fn d_043_a_snapshot_below_the_bound_has_no_log_to_go_on_with() {
    let mut shell = Shell::above(three(), 80);
    assert_eq!(shell.run(), Some(end_at(80)), "lesson D8: exactly at the bound is enough");
    let mut shell = Shell::above(three(), 81);
    assert_eq!(shell.run(), Some(LogEnd::default()));
    assert_eq!(shell.reads, vec![]);
    // The bound moves while the newest is being looked at.
    let mut shell = Shell::new(three());
    shell.store.manifests.insert(name(80, 6), Blob::default());
    shell.handle(BootstrapInput::TrimmedBelow(Position(61)));
    assert_eq!(shell.run(), Some(LogEnd::default()));
    assert_eq!(shell.reads, vec![name(80, 6)]);
}

#[test]
fn review_4_9_d_046_a_missing_file_leads_to_the_next_older_snapshot() {
    let mut store = three();
    store.files.remove(&file(6, 1));
    let mut shell = Shell::new(store);
    assert_eq!(shell.run(), Some(end_at(60)));
    assert_eq!(shell.local, Some((end_at(60), vec!['a', 'c'])), "nothing of the other is left");
    assert_eq!(shell.unusable(), vec![(name(80, 6), SnapshotProblem::FileMissing(file(6, 1)))]);
    assert_eq!(shell.discards, 2);
}

#[test]
fn review_8_4_a_404_inside_a_bootstrap_starts_over_with_the_newest() {
    let mut shell = Shell::new(three());
    let is_download = |output: &BootstrapOutput| matches!(output, BootstrapOutput::Download { .. });
    let Some(BootstrapOutput::Download { request, .. }) = shell.run_until(is_download) else {
        panic!("files are downloaded")
    };
    // The active made two snapshots and cleaned away what this one needs.
    shell.store.put(name(100, 6), &[('e', file(6, 2))]);
    shell.store.put(name(120, 6), &[('e', file(6, 2)), ('f', file(6, 3))]);
    shell.store.manifests.retain(|name, _| name.position >= Position(100));
    shell.store.files.retain(|name, _| name.epoch.0 == 6 && name.counter >= 2);
    shell.handle(BootstrapInput::Downloaded { request, outcome: DownloadOutcome::Missing });
    assert_eq!(shell.run(), Some(end_at(120)));
    assert_eq!(shell.local, Some((end_at(120), vec!['e', 'f'])));
}

#[test]
fn review_8_4_a_manifest_that_is_gone_when_it_is_read_starts_over() {
    let mut shell = Shell::new(three());
    let is_read = |output: &BootstrapOutput| matches!(output, BootstrapOutput::ReadManifest { .. });
    let Some(BootstrapOutput::ReadManifest { request, .. }) = shell.run_until(is_read) else {
        panic!("a manifest is read")
    };
    shell.store.put(name(100, 6), &[('e', file(6, 2))]);
    let outcome = ReadOutcome::Missing;
    shell.handle(BootstrapInput::ManifestRead { request, outcome });
    assert_eq!(shell.run(), Some(end_at(100)));
    assert_eq!(shell.unusable(), vec![(name(80, 6), SnapshotProblem::ManifestMissing)]);
}

#[test]
fn d_046_a_file_of_another_size_or_content_leads_to_the_next_older_snapshot() {
    let is_download = |output: &BootstrapOutput| matches!(output, BootstrapOutput::Download { .. });
    let wrong = [(SIZE_BYTES + 1, checksum('c')), (SIZE_BYTES, Checksum::default())];
    for (size_bytes, checksum) in wrong {
        let mut shell = Shell::new(three());
        let Some(BootstrapOutput::Download { request, name: file, .. }) = shell.run_until(is_download) else {
            panic!("files are downloaded")
        };
        let outcome = DownloadOutcome::Stored { size_bytes, checksum };
        shell.handle(BootstrapInput::Downloaded { request, outcome });
        assert_eq!(shell.run(), Some(end_at(60)));
        assert_eq!(shell.unusable(), vec![(name(80, 6), SnapshotProblem::FileDiffers(file))]);
        assert_eq!(shell.local, Some((end_at(60), vec!['a', 'c'])));
    }
}

#[test]
fn d_046_a_manifest_that_cannot_be_read_is_told_by_name_and_passed_over() {
    let mut store = three();
    store.manifests.insert(name(80, 6), Blob::from(vec![1]));
    let foreign = crate::snapshot::Manifest { node_id: Name::new("payments"), ..store.manifest(name(60, 5)) };
    store.manifests.insert(name(60, 5), foreign.encode());
    let mut shell = Shell::new(store);
    assert_eq!(shell.run(), Some(end_at(40)));
    let found = Name::new("payments");
    assert_eq!(
        shell.unusable(),
        vec![
            (name(80, 6), SnapshotProblem::Manifest(ManifestError::Damaged)),
            (name(60, 5), SnapshotProblem::Manifest(ManifestError::ForeignNode { found }))
        ]
    );
}

#[test]
fn d_046_a_store_that_does_not_open_where_its_manifest_says_is_not_used() {
    let mut shell = Shell::new(three());
    shell.opens_as = vec![Some(end_at(79)), None];
    assert_eq!(shell.run(), Some(end_at(40)));
    let wrong = |position, epoch| (name(position, epoch), SnapshotProblem::DoesNotOpen);
    assert_eq!(shell.unusable(), vec![wrong(80, 6), wrong(60, 5)]);
}

#[test]
fn d_046_a_failure_is_tried_again_after_a_back_off_and_goes_on_where_it_was() {
    let mut shell = Shell::new(three());
    let is_list = |output: &BootstrapOutput| matches!(output, BootstrapOutput::ListSnapshots { .. });
    let is_read = |output: &BootstrapOutput| matches!(output, BootstrapOutput::ReadManifest { .. });
    let is_download = |output: &BootstrapOutput| matches!(output, BootstrapOutput::Download { .. });
    let retry_after_ms = Some(7_000);
    let Some(BootstrapOutput::ListSnapshots { request }) = shell.run_until(is_list) else { panic!("a list") };
    let outcome = SnapshotList::Transient { retry_after_ms };
    shell.handle(BootstrapInput::SnapshotsListed { request, outcome });
    shell.wait();
    assert_eq!(shell.now_ms, 7_000);
    let Some(BootstrapOutput::ReadManifest { request, .. }) = shell.run_until(is_read) else {
        panic!("a manifest")
    };
    let outcome = ReadOutcome::Transient { retry_after_ms };
    shell.handle(BootstrapInput::ManifestRead { request, outcome });
    shell.wait();
    let Some(BootstrapOutput::Download { request, .. }) = shell.run_until(is_download) else {
        panic!("a file")
    };
    let outcome = DownloadOutcome::Transient { retry_after_ms };
    shell.handle(BootstrapInput::Downloaded { request, outcome });
    assert_eq!(shell.run(), None);
    shell.wait();
    assert_eq!(shell.run(), Some(end_at(80)));
    assert_eq!(shell.discards, 1);
    assert_eq!(shell.now_ms, 21_000);
}

#[test]
fn d_046_a_request_without_an_answer_is_sent_again() {
    let mut shell = Shell::new(three());
    let is_download = |output: &BootstrapOutput| matches!(output, BootstrapOutput::Download { .. });
    let Some(BootstrapOutput::Download { name: first, .. }) = shell.run_until(is_download) else {
        panic!("a file")
    };
    assert_eq!(shell.run(), None);
    shell.wait();
    assert_eq!(shell.now_ms, 30_000, "ten bytes: the shortest limit");
    shell.wait();
    assert_eq!(shell.run(), Some(end_at(80)));
    assert_eq!(shell.fetched.last(), Some(&first));
}

#[test]
fn d_015_a_disk_or_a_store_that_denies_ends_it_by_name() {
    let mut shell = Shell::new(three());
    assert_eq!(shell.bootstrap.poll_output(), Some(BootstrapOutput::Discard));
    shell.handle(BootstrapInput::Discarded { done: false });
    assert_eq!(shell.run(), None);
    assert_eq!(shell.failed, Some(StopReason::LocalStoreFailed));
    let outcomes = [
        (DownloadOutcome::LocalFailure, StopReason::LocalStoreFailed),
        (DownloadOutcome::Permanent, StopReason::StoragePermanent),
    ];
    for (outcome, reason) in outcomes {
        let mut shell = Shell::new(three());
        let is_download = |output: &BootstrapOutput| matches!(output, BootstrapOutput::Download { .. });
        let Some(BootstrapOutput::Download { request, .. }) = shell.run_until(is_download) else {
            panic!("a file")
        };
        shell.handle(BootstrapInput::Downloaded { request, outcome });
        assert_eq!(shell.run(), None);
        assert_eq!(shell.failed, Some(reason));
    }
    let mut shell = Shell::new(Store::default());
    shell.opens_as = vec![None];
    assert_eq!(shell.run(), None);
    assert_eq!(shell.failed, Some(StopReason::LocalStoreFailed), "not even an empty one");
}

#[test]
fn d_046_an_interrupted_one_is_discarded_by_the_next() {
    let mut shell = Shell::new(three());
    let is_install = |output: &BootstrapOutput| matches!(output, BootstrapOutput::Install { .. });
    shell.run_until(is_install);
    assert_eq!(shell.downloads.len(), 2);
    assert_eq!(shell.local, None, "a restarted process would find an empty store");
    let mut next = Shell::new(three());
    next.downloads = shell.downloads;
    next.downloads.insert(Name::from(String::from("left over")), '!');
    assert_eq!(next.run(), Some(end_at(80)));
    assert_eq!(next.local, Some((end_at(80), vec!['c', 'd'])));
}

#[test]
fn ha_051_a_bootstrap_can_only_read() {
    fn writes(output: &BootstrapOutput) -> bool {
        match output {
            BootstrapOutput::Discard
            | BootstrapOutput::ListSnapshots { .. }
            | BootstrapOutput::ReadManifest { .. }
            | BootstrapOutput::Download { .. }
            | BootstrapOutput::Install { .. }
            | BootstrapOutput::Done { .. }
            | BootstrapOutput::Event(_)
            | BootstrapOutput::Failed(_) => false,
        }
    }
    let mut shell = Shell::new(three());
    assert_eq!(shell.run_until(writes), None);
}
