//! Requests about snapshots, and about the log by whoever trims it, on their way.

use std::collections::BTreeMap;

use dexzd_core::ids::{Blob, Epoch, Name, Position, RequestId};
use dexzd_core::log::{EntryKind, LogEnd};
use dexzd_core::snapshot::{
    BootstrapInput, Checkpoint, Checksum, DeleteOutcome, DownloadOutcome, EntryList, FileName, KeeperInput,
    ManifestName, SnapshotList, SnapshotObject, StoredFile,
};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::event::Event;
use super::process::{SideJob, ToData};
use super::storms::Prefix;
use super::{NODE, ProductWorld};
use crate::dice::Stream;
use crate::store::{Operation, StoreAnswer};
use crate::watch::{ProcessNumber, Seen};
use crate::weather::Heard;
use crate::{SECOND, TrueTime};

/// The keys of snapshots begin with this.
const SNAPSHOT_PREFIX: &str = "node/snapshots/";
/// The shell gives up on each of many deletions by itself.
const DELETE_CUT_OFF: TrueTime = 10 * SECOND;

/// A request on its way.
#[derive(Clone, Debug)]
pub(super) struct SnapshotRequest {
    process: ProcessNumber,
    life: u32,
    job: SideJob,
    request: RequestId,
    what: Ask,
    heard: Heard,
}

#[derive(Clone, Debug)]
pub(super) enum Ask {
    Upload(FileName, Blob),
    WriteManifest(ManifestName, Blob),
    ReadManifest(ManifestName),
    ListSnapshots,
    Download(FileName, Name),
    ListEntries {
        after: Position,
        below: Position,
        at_most: u32,
    },
    InspectEntries(Vec<Position>),
    /// One object of a deletion.
    Delete(Name),
}

/// What became of a request.
#[derive(Clone, Debug)]
pub(super) enum SnapshotAnswer {
    CheckpointMade(RequestId, Option<Checkpoint>),
    Uploaded(RequestId, WriteOutcome),
    ManifestWritten(RequestId, WriteOutcome),
    ManifestRead(RequestId, ReadOutcome),
    SnapshotsListed(RequestId, SnapshotList),
    /// The whole object.
    Downloaded(RequestId, Name, Blob),
    NotDownloaded(RequestId, DownloadOutcome),
    EntriesListed(RequestId, EntryList),
    EntriesInspected(RequestId, Vec<(Position, EntryKind)>, bool),
    ObjectDeleted(RequestId, bool),
    Deleted(RequestId, DeleteOutcome),
    Discarded,
    Installed(Option<LogEnd>),
}

impl SnapshotAnswer {
    pub(super) fn for_keeper(self) -> Option<KeeperInput> {
        Some(match self {
            Self::CheckpointMade(request, checkpoint) => KeeperInput::CheckpointMade { request, checkpoint },
            Self::Uploaded(request, outcome) => KeeperInput::Uploaded { request, outcome },
            Self::ManifestWritten(request, outcome) => KeeperInput::ManifestWritten { request, outcome },
            Self::ManifestRead(request, outcome) => KeeperInput::ManifestRead { request, outcome },
            Self::SnapshotsListed(request, outcome) => KeeperInput::SnapshotsListed { request, outcome },
            Self::EntriesListed(request, outcome) => KeeperInput::EntriesListed { request, outcome },
            Self::EntriesInspected(request, kinds, is_complete) => {
                KeeperInput::EntriesInspected { request, kinds, is_complete }
            }
            Self::Deleted(request, outcome) => KeeperInput::Deleted { request, outcome },
            Self::Downloaded(..)
            | Self::NotDownloaded(..)
            | Self::ObjectDeleted(..)
            | Self::Discarded
            | Self::Installed(_) => return None,
        })
    }

    /// What was downloaded is on the disk first.
    pub(super) fn for_bootstrap(self, downloads: &mut BTreeMap<Name, Blob>) -> Option<BootstrapInput> {
        Some(match self {
            Self::ManifestRead(request, outcome) => BootstrapInput::ManifestRead { request, outcome },
            Self::SnapshotsListed(request, outcome) => BootstrapInput::SnapshotsListed { request, outcome },
            Self::Downloaded(request, local_name, body) => {
                let outcome =
                    DownloadOutcome::Stored { size_bytes: body.len() as u64, checksum: Checksum::of(&body) };
                downloads.insert(local_name, body);
                BootstrapInput::Downloaded { request, outcome }
            }
            Self::NotDownloaded(request, outcome) => BootstrapInput::Downloaded { request, outcome },
            Self::Discarded => BootstrapInput::Discarded { done: true },
            Self::Installed(end) => BootstrapInput::Installed { end },
            Self::CheckpointMade(..)
            | Self::Uploaded(..)
            | Self::ManifestWritten(..)
            | Self::EntriesListed(..)
            | Self::EntriesInspected(..)
            | Self::ObjectDeleted(..)
            | Self::Deleted(..) => return None,
        })
    }
}

impl ProductWorld {
    pub(super) fn ask_snapshot(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        request: RequestId,
        what: Ask,
    ) {
        let process = &self.processes[usize::from(number)];
        let (life, job) = (process.life, process.side_job);
        let fate = self.fate(at, number, Prefix::Snapshots);
        let told = || format!("p{number} {} {fate:?}", described(&what));
        self.trace.line(at, told);
        self.trace.message(at, number, fate, told);
        let mut early = heard_early(request, &what, fate.heard);
        if fate.heard == Heard::Nothing && matches!(what, Ask::Delete(_)) {
            early = Some((DELETE_CUT_OFF, SnapshotAnswer::ObjectDeleted(request, false)));
        }
        if let Some((after, answer)) = early {
            let message = ToData::Snapshot(job, answer);
            self.heap.push(at + after, Event::ToData(number, life, Box::new(message)));
        }
        let sent = SnapshotRequest { process: number, life, job, request, what, heard: fate.heard };
        for (after, heard) in fate.landings() {
            let landing = SnapshotRequest { heard, ..sent.clone() };
            self.heap.push(at + after, Event::SnapshotLands(Box::new(landing)));
        }
    }

    pub(super) fn snapshot_lands(&mut self, at: TrueTime, landing: SnapshotRequest) {
        let SnapshotRequest { process: number, life, job, request, what, heard } = landing;
        self.trace.event(at, 900 + u64::from(number));
        let answer = self.land_snapshot(at, number, request, what);
        if let Heard::Answer { after } = heard {
            let message = ToData::Snapshot(job, answer);
            self.heap.push(at + after, Event::ToData(number, life, Box::new(message)));
        }
    }

    fn land_snapshot(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        request: RequestId,
        what: Ask,
    ) -> SnapshotAnswer {
        match what {
            Ask::Upload(name, body) => {
                let outcome = self.create(at, &snapshot_key(&SnapshotObject::File(name)), body);
                SnapshotAnswer::Uploaded(request, outcome)
            }
            Ask::WriteManifest(name, body) => {
                let outcome = self.create(at, &snapshot_key(&SnapshotObject::Manifest(name)), body);
                self.trace.line(at, || format!("store: manifest {name} of p{number}: {outcome:?}"));
                SnapshotAnswer::ManifestWritten(request, outcome)
            }
            Ask::ReadManifest(name) => {
                let outcome = match self.store.peek(&snapshot_key(&SnapshotObject::Manifest(name))).cloned() {
                    Some(body) => ReadOutcome::Found {
                        version: Version(Blob::default()),
                        body: self.perhaps_damaged(body),
                        stamp_ms: None,
                    },
                    None => ReadOutcome::Missing,
                };
                SnapshotAnswer::ManifestRead(request, outcome)
            }
            Ask::ListSnapshots => SnapshotAnswer::SnapshotsListed(request, self.list_snapshots()),
            Ask::Download(name, local_name) => {
                match self.store.peek(&snapshot_key(&SnapshotObject::File(name))).cloned() {
                    Some(body) => SnapshotAnswer::Downloaded(request, local_name, self.perhaps_damaged(body)),
                    None => SnapshotAnswer::NotDownloaded(request, DownloadOutcome::Missing),
                }
            }
            Ask::ListEntries { after, below, at_most } => {
                let positions = self.entries_between(after, below, at_most);
                SnapshotAnswer::EntriesListed(request, EntryList::Positions(positions))
            }
            Ask::InspectEntries(positions) => {
                let kind = |position: Position| {
                    let body = self.store.peek(&Self::log_key(position))?;
                    Some((position, EntryKind::of(body, NODE)))
                };
                let kinds = positions.into_iter().filter_map(kind).collect();
                SnapshotAnswer::EntriesInspected(request, kinds, true)
            }
            Ask::Delete(key) => {
                self.trace.line(at, || format!("store: p{number} deletes {key}"));
                if let Some(position) = Self::position_of(&key)
                    && let Some(entry) = self.store.peek(&key)
                {
                    self.watchers.show(at, &Seen::EntryDeleted { process: number, position, entry });
                }
                self.store.lose(&key);
                SnapshotAnswer::ObjectDeleted(request, true)
            }
        }
    }

    fn create(&mut self, at: TrueTime, key: &Name, body: Blob) -> WriteOutcome {
        match self.store.apply(at, key, Operation::Create(body)) {
            StoreAnswer::Write(outcome) => outcome,
            StoreAnswer::Read(_) | StoreAnswer::Listing(_) => {
                unreachable!("a create is answered as a write")
            }
        }
    }

    /// A body that lost its end on the way, now and then.
    pub(super) fn perhaps_damaged(&mut self, body: Blob) -> Blob {
        if self.dice.chance(Stream::Store, "damaged", self.store_faults.damaged) {
            Blob::from(&body[..body.len() / 2])
        } else {
            body
        }
    }

    fn entries_between(&self, after: Position, below: Position, at_most: u32) -> Vec<Position> {
        let mut positions = Vec::new();
        let mut next = self.first_entry_from(after.next());
        while let Some(position) = next
            && position < below
            && (positions.len() as u64) < u64::from(at_most)
        {
            positions.push(position);
            next = self.first_entry_from(position.next());
        }
        positions
    }

    fn list_snapshots(&self) -> SnapshotList {
        let (mut manifests, mut files) = (Vec::new(), Vec::new());
        for (object, size_bytes) in self.snapshot_objects() {
            match object {
                SnapshotObject::Manifest(name) => manifests.push(name),
                SnapshotObject::File(name) => files.push(StoredFile { name, size_bytes }),
            }
        }
        SnapshotList::All { manifests, files }
    }

    /// The newest snapshot in the store, readable or not.
    pub(super) fn newest_manifest(&self) -> Option<ManifestName> {
        let manifests = self.snapshot_objects().filter_map(|(object, _)| match object {
            SnapshotObject::Manifest(name) => Some(name),
            SnapshotObject::File(_) => None,
        });
        manifests.max()
    }

    /// The newest manifest is cut short for good.
    pub(super) fn damage_newest_manifest(&mut self, at: TrueTime) {
        if let Some(name) = self.newest_manifest() {
            let key = snapshot_key(&SnapshotObject::Manifest(name));
            let body = self.store.peek(&key).cloned().expect("it was just listed");
            self.store.put_by_hand(at, &key, Blob::from(&body[..body.len() / 2]));
        }
    }

    /// The highest epoch that a snapshot names (D-49).
    pub(super) fn highest_snapshot_epoch(&self) -> Option<Epoch> {
        let epoch_of = |object| match object {
            SnapshotObject::Manifest(name) => name.epoch,
            SnapshotObject::File(name) => name.epoch,
        };
        self.snapshot_objects().map(|(object, _)| epoch_of(object)).max()
    }

    fn snapshot_objects(&self) -> impl Iterator<Item = (SnapshotObject, u64)> {
        self.store.objects_from(SNAPSHOT_PREFIX, Name::new(SNAPSHOT_PREFIX)).filter_map(|(key, body)| {
            let object = SnapshotObject::parse(key.strip_prefix(SNAPSHOT_PREFIX)?)?;
            Some((object, body.len() as u64))
        })
    }
}

/// Where a snapshot object stands in the store.
pub(super) fn snapshot_key(object: &SnapshotObject) -> Name {
    Name::new(&format!("{SNAPSHOT_PREFIX}{}", object.key()))
}

fn described(what: &Ask) -> String {
    match what {
        Ask::Upload(name, body) => format!("uploads file {name} of {} bytes", body.len()),
        Ask::WriteManifest(name, _) => format!("writes the manifest of snapshot {name}"),
        Ask::ReadManifest(name) => format!("reads the manifest of snapshot {name}"),
        Ask::ListSnapshots => "lists the snapshots".to_owned(),
        Ask::Download(name, _) => format!("downloads file {name}"),
        Ask::ListEntries { after, below, .. } => format!("lists the log between {after} and {below}"),
        Ask::InspectEntries(positions) => format!("inspects {} entries", positions.len()),
        Ask::Delete(key) => format!("asks for the deletion of {key}"),
    }
}

/// What the caller hears without the store having carried its request out.
fn heard_early(request: RequestId, what: &Ask, heard: Heard) -> Option<(TrueTime, SnapshotAnswer)> {
    let (after, write, read, list, download) = match heard {
        Heard::Answer { .. } | Heard::Nothing => return None,
        Heard::Transient { after, retry_after_ms } => (
            after,
            WriteOutcome::Transient { retry_after_ms },
            ReadOutcome::Transient { retry_after_ms },
            SnapshotList::Transient { retry_after_ms },
            DownloadOutcome::Transient { retry_after_ms },
        ),
        // Reads have no condition: such an answer to one is a fault of the store.
        Heard::Refused { after } => (
            after,
            WriteOutcome::Refused,
            ReadOutcome::Transient { retry_after_ms: None },
            SnapshotList::Transient { retry_after_ms: None },
            DownloadOutcome::Transient { retry_after_ms: None },
        ),
        Heard::Permanent { after } => (
            after,
            WriteOutcome::Permanent,
            ReadOutcome::Permanent,
            SnapshotList::Permanent,
            DownloadOutcome::Permanent,
        ),
    };
    let answer = match what {
        Ask::Upload(..) => SnapshotAnswer::Uploaded(request, write),
        Ask::WriteManifest(..) => SnapshotAnswer::ManifestWritten(request, write),
        Ask::ReadManifest(_) => SnapshotAnswer::ManifestRead(request, read),
        Ask::ListSnapshots => SnapshotAnswer::SnapshotsListed(request, list),
        Ask::Download(..) => SnapshotAnswer::NotDownloaded(request, download),
        Ask::ListEntries { .. } => {
            SnapshotAnswer::EntriesListed(request, EntryList::Transient { retry_after_ms: None })
        }
        Ask::InspectEntries(_) => SnapshotAnswer::EntriesInspected(request, Vec::new(), false),
        Ask::Delete(_) => SnapshotAnswer::ObjectDeleted(request, false),
    };
    Some((after, answer))
}
