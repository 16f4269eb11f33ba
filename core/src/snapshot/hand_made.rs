//! A store of snapshots, a log, and the shell of a keeper, for tests.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::string::String;
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use super::*;
use crate::ids::{Blob, Epoch, Name, Position, ProcessId};
use crate::log::{Chain, EntryKind, LogEnd};
use crate::store::{ReadOutcome, Version, WriteOutcome};
use crate::time::{Instant, Now, Timestamp};

pub(super) const NODE: &str = "orders";
/// Every file is as large.
pub(super) const SIZE_BYTES: u64 = 10;
pub(super) const MINUTE_MS: u64 = 60_000;
pub(super) const HOUR_MS: u64 = 60 * MINUTE_MS;

pub(super) fn now_ms(millis: u64) -> Now {
    Now { instant: Instant::from_millis(millis), ..Now::default() }
}

pub(super) fn end_at(position: u64) -> LogEnd {
    let mut chain = [0; 32];
    chain[..8].copy_from_slice(&position.to_be_bytes());
    LogEnd { position: Position(position), chain: Chain(chain) }
}

/// The content of a file is a letter.
pub(super) fn checksum(content: char) -> Checksum {
    Checksum::of(String::from(content).as_bytes())
}

pub(super) fn done() -> WriteOutcome {
    WriteOutcome::Done { version: Version(Blob::default()) }
}

pub(super) fn found(body: Blob) -> ReadOutcome {
    ReadOutcome::Found { version: Version(Blob::default()), body, stamp_ms: None }
}

pub(super) fn name(position: u64, epoch: u64) -> ManifestName {
    ManifestName { position: Position(position), epoch: Epoch(epoch) }
}

pub(super) fn file(epoch: u64, counter: u64) -> FileName {
    FileName { epoch: Epoch(epoch), counter }
}

/// What stands in the object store.
#[derive(Clone, Default)]
pub(super) struct Store {
    pub(super) manifests: BTreeMap<ManifestName, Blob>,
    pub(super) files: BTreeMap<FileName, char>,
    pub(super) entries: BTreeMap<u64, EntryKind>,
}

impl Store {
    /// A snapshot by some other tenure.
    pub(super) fn put(&mut self, name: ManifestName, files: &[(char, FileName)]) -> &mut Self {
        let mut listed: Vec<SnapshotFile> = files
            .iter()
            .map(|&(content, stored_as)| SnapshotFile {
                local_name: Name::from(String::from(content)),
                stored_as,
                size_bytes: SIZE_BYTES,
                checksum: checksum(content),
            })
            .collect();
        listed.sort_by(|one, other| one.local_name.cmp(&other.local_name));
        let manifest = Manifest {
            node_id: Name::new(NODE),
            process_id: ProcessId(u128::from(name.epoch.0)),
            epoch: name.epoch,
            end: end_at(name.position.0),
            newest_time: Timestamp::ZERO,
            files: listed,
        };
        self.manifests.insert(name, manifest.encode());
        self.files.extend(files.iter().map(|&(content, name)| (name, content)));
        self
    }

    pub(super) fn manifest(&self, name: ManifestName) -> Manifest {
        Manifest::decode(&self.manifests[&name], &Name::new(NODE), name).expect("it was written whole")
    }

    pub(super) fn list(&self) -> SnapshotList {
        SnapshotList::All {
            manifests: self.manifests.keys().copied().collect(),
            files: self.files.keys().map(|&name| StoredFile { name, size_bytes: SIZE_BYTES }).collect(),
        }
    }

    pub(super) fn read(&self, name: ManifestName) -> ReadOutcome {
        self.manifests.get(&name).cloned().map_or(ReadOutcome::Missing, found)
    }
}

/// The shell of a keeper: answers at once from the store, and writes down what happened.
pub(super) struct Shell {
    pub(super) keeper: Keeper,
    pub(super) store: Store,
    pub(super) now_ms: u64,
    /// The files of the local store.
    pub(super) content: Vec<char>,
    pub(super) applied: u64,
    pub(super) bounds: Vec<u64>,
    pub(super) uploads: Vec<(FileName, char)>,
    pub(super) deleted: Vec<SnapshotObject>,
    pub(super) entries_deleted: Vec<u64>,
    pub(super) inspected: Vec<u64>,
    pub(super) made: Vec<ManifestName>,
    pub(super) events: Vec<KeeperEvent>,
    pub(super) checkpoints_dropped: u32,
    pub(super) failed: Option<crate::stop::StopReason>,
}

/// One snapshot after ten entries, at most every 30 minutes, trimmed after an hour.
pub(super) fn cadence() -> Cadence {
    Cadence { entries: 10, bytes: 1_000, ..Cadence::STANDARD }
}

impl Shell {
    /// A keeper of epoch 7, whose fence stands at 100.
    pub(super) fn new(store: Store) -> Self {
        Self::with(store, |_| {})
    }

    pub(super) fn with(store: Store, adjust: impl FnOnce(&mut KeeperOptions)) -> Self {
        let mut options = KeeperOptions {
            node_id: Name::new(NODE),
            process_id: ProcessId(7),
            epoch: Epoch(7),
            fence: end_at(100),
            trimmed_below: Position(0),
            cadence: cadence(),
            seed: 1,
        };
        adjust(&mut options);
        let applied = options.fence.position.0;
        Self {
            keeper: Keeper::new(now_ms(0), options),
            store,
            now_ms: 0,
            content: vec!['a', 'b'],
            applied,
            bounds: vec![],
            uploads: vec![],
            deleted: vec![],
            entries_deleted: vec![],
            inspected: vec![],
            made: vec![],
            events: vec![],
            checkpoints_dropped: 0,
            failed: None,
        }
    }

    pub(super) fn handle(&mut self, input: KeeperInput) {
        self.keeper.handle(now_ms(self.now_ms), input);
    }

    /// The engine writes so many entries of a byte each.
    pub(super) fn write(&mut self, entries: u64) {
        for _ in 0..entries {
            self.applied += 1;
            self.store.entries.insert(self.applied, EntryKind::Changes);
            self.handle(KeeperInput::Applied { position: Position(self.applied), bytes: 1 });
        }
    }

    /// Lets time pass, up to and with this moment.
    pub(super) fn run_to(&mut self, until_ms: u64) {
        loop {
            self.run();
            let due = self.keeper.poll_timeout().map(|due| due.as_micros().div_ceil(1_000));
            match due {
                Some(due) if due <= until_ms => {
                    self.now_ms = self.now_ms.max(due);
                    self.handle(KeeperInput::Tick);
                }
                Some(_) | None => break,
            }
        }
        self.now_ms = self.now_ms.max(until_ms);
        self.handle(KeeperInput::Tick);
        self.run();
    }

    /// Does all that is asked.
    pub(super) fn run(&mut self) {
        let stopped = self.run_until(|_| false);
        assert_eq!(stopped, None);
    }

    /// Does what is asked until something comes that the test wants to answer itself.
    pub(super) fn run_until(&mut self, stop: impl Fn(&KeeperOutput) -> bool) -> Option<KeeperOutput> {
        while let Some(output) = self.keeper.poll_output() {
            if stop(&output) {
                return Some(output);
            }
            self.perform(output);
        }
        None
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        let files = self.content.iter().map(|&content| CheckpointFile {
            local_name: Name::from(String::from(content)),
            size_bytes: SIZE_BYTES,
            checksum: checksum(content),
        });
        Checkpoint { end: end_at(self.applied), newest_time: Timestamp::ZERO, files: files.collect() }
    }

    pub(super) fn perform(&mut self, output: KeeperOutput) {
        match output {
            KeeperOutput::Checkpoint { request } => {
                let checkpoint = Some(self.checkpoint());
                self.handle(KeeperInput::CheckpointMade { request, checkpoint });
            }
            KeeperOutput::Upload { request, local_name, name } => {
                let content = local_name.chars().next().expect("a letter");
                self.uploads.push((name, content));
                assert_eq!(self.store.files.insert(name, content), None, "D-46: a name of its own");
                self.handle(KeeperInput::Uploaded { request, outcome: done() });
            }
            KeeperOutput::WriteManifest { request, name, body } => {
                let outcome = match self.store.manifests.entry(name) {
                    Place::Occupied(_) => WriteOutcome::Refused,
                    Place::Vacant(free) => {
                        free.insert(body);
                        done()
                    }
                };
                self.handle(KeeperInput::ManifestWritten { request, outcome });
            }
            KeeperOutput::ReadManifest { request, name } => {
                let outcome = self.store.read(name);
                self.handle(KeeperInput::ManifestRead { request, outcome });
            }
            KeeperOutput::ListSnapshots { request } => {
                let outcome = self.store.list();
                self.handle(KeeperInput::SnapshotsListed { request, outcome });
            }
            KeeperOutput::DropCheckpoint => self.checkpoints_dropped += 1,
            KeeperOutput::TrimBelow(position) => self.bounds.push(position.0),
            KeeperOutput::DeleteSnapshotObjects { request, manifests, files } => {
                for name in manifests {
                    self.store.manifests.remove(&name);
                    self.deleted.push(SnapshotObject::Manifest(name));
                }
                for name in files {
                    self.store.files.remove(&name);
                    self.deleted.push(SnapshotObject::File(name));
                }
                self.handle(KeeperInput::Deleted { request, outcome: DeleteOutcome::Done });
            }
            KeeperOutput::ListEntries { request, after, below, at_most } => {
                let range = after.0 + 1..below.0;
                let positions = self.store.entries.range(range).map(|(&position, _)| Position(position));
                let positions = positions.take(at_most as usize).collect();
                let outcome = EntryList::Positions(positions);
                self.handle(KeeperInput::EntriesListed { request, outcome });
            }
            KeeperOutput::InspectEntries { request, positions } => {
                self.inspected.extend(positions.iter().map(|position| position.0));
                let kinds = positions
                    .into_iter()
                    .filter_map(|position| Some((position, *self.store.entries.get(&position.0)?)))
                    .collect();
                self.handle(KeeperInput::EntriesInspected { request, kinds, is_complete: true });
            }
            KeeperOutput::DeleteEntries { request, positions } => {
                for position in positions {
                    self.store.entries.remove(&position.0);
                    self.entries_deleted.push(position.0);
                }
                self.handle(KeeperInput::Deleted { request, outcome: DeleteOutcome::Done });
            }
            KeeperOutput::Event(event) => {
                if let KeeperEvent::Made { name, .. } = event {
                    self.made.push(name);
                }
                self.events.push(event);
            }
            KeeperOutput::Failed(reason) => self.failed = Some(reason),
        }
    }

    /// A lease write that is sent and lands now.
    pub(super) fn lease_write(&mut self) {
        let sent_at = Instant::from_millis(self.now_ms);
        self.handle(KeeperInput::LeaseWritten { sent_at });
        self.run();
    }

    pub(super) fn trimmed_below(&mut self, position: u64) {
        self.handle(KeeperInput::TrimmedBelow(Position(position)));
        self.run();
    }
}

pub(super) fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}
