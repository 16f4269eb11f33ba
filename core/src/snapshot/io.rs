//! What crosses the border of the keeper.

use alloc::vec::Vec;
use core::time::Duration;

use minicbor::{Decode, Encode};

use super::manifest::{Checksum, FileName, ManifestError, ManifestName};
use crate::ids::{Blob, Epoch, Name, Position, ProcessId, RequestId};
use crate::log::{EntryKind, LogEnd};
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};
use crate::time::{Instant, Timestamp};

/// How often a snapshot is made, and how old one must be before the log below it may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cadence {
    /// Made after so many entries.
    pub entries: u64,
    /// Or after so many bytes of entries of this tenure.
    pub bytes: u64,
    /// Or after this time, if there is any new entry.
    pub at_least_every: Duration,
    /// But never within this time of the one before.
    pub at_most_every: Duration,
    /// The older of the two newest snapshots must be that old before the log is trimmed (D-30).
    pub trim_age: Duration,
}

impl Cadence {
    /// What production uses.
    pub const STANDARD: Self = Self {
        // A bootstrap replays at most about this many entries: seconds.
        entries: 20_000,
        // Or this much: a minute at 5 MB/s.
        bytes: 256 << 20,
        // A quiet node's snapshots do not fall far behind either.
        at_least_every: Duration::from_secs(6 * 3_600),
        // The older of two must become an hour old before a third one takes its place, else nothing is
        // ever trimmed: with every half hour it just does.
        at_most_every: Duration::from_secs(30 * 60),
        trim_age: Duration::from_secs(3_600),
    };
}

/// What is known when an epoch begins to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeeperOptions {
    /// The node.
    pub node_id: Name,
    /// The process.
    pub process_id: ProcessId,
    /// The tenure. One keeper per epoch: a second one would use its names again.
    pub epoch: Epoch,
    /// Its fence, which is in the log and applied.
    pub fence: LogEnd,
    /// The bound that the lease carries: what lies below may be deleted, by earlier lease writes (D-30).
    pub trimmed_below: Position,
    /// How often.
    pub cadence: Cadence,
    /// Of the back-off.
    pub seed: u64,
}

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum KeeperInput {
    /// An entry of this epoch was accepted by the log and applied to the local store.
    #[n(0)]
    Applied {
        /// Where it stands.
        #[n(0)]
        position: Position,
        /// How large it is, in bytes.
        #[n(1)]
        bytes: u64,
    },
    /// Answer to `Checkpoint`.
    #[n(1)]
    CheckpointMade {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// What it consists of. None: the local disk failed.
        #[n(1)]
        checkpoint: Option<Checkpoint>,
    },
    /// Answer to `Upload`.
    #[n(2)]
    Uploaded {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended. `LocalFailure`: the checkpoint's file could not be read.
        #[n(1)]
        outcome: WriteOutcome,
    },
    /// Answer to `WriteManifest`.
    #[n(3)]
    ManifestWritten {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: WriteOutcome,
    },
    /// Answer to `ReadManifest`.
    #[n(4)]
    ManifestRead {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended. The version is not looked at.
        #[n(1)]
        outcome: ReadOutcome,
    },
    /// Answer to `ListSnapshots`.
    #[n(5)]
    SnapshotsListed {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: SnapshotList,
    },
    /// Answer to `DeleteSnapshotObjects` and to `DeleteEntries`.
    #[n(6)]
    Deleted {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: DeleteOutcome,
    },
    /// Answer to `ListEntries`.
    #[n(7)]
    EntriesListed {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: EntryList,
    },
    /// Answer to `InspectEntries`.
    #[n(8)]
    EntriesInspected {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// What each is, of those that could be read. A missing one is left out.
        #[n(1)]
        kinds: Vec<(Position, EntryKind)>,
        /// Whether all the others are missing; false: some could not be read, and are asked for again.
        #[n(2)]
        is_complete: bool,
    },
    /// A lease write that carries this bound has landed: `node`'s `Output::TrimmedBelow` (D-30).
    #[n(9)]
    TrimmedBelow(#[n(0)] Position),
    /// A lease write of this epoch that was sent then is known to have landed: `node`'s
    /// `Output::LeaseWritten` (D-46). By the clock whose readings come with the inputs.
    #[n(10)]
    LeaseWritten {
        /// When it was sent.
        #[n(0)]
        sent_at: Instant,
    },
    /// Time has passed.
    #[n(11)]
    Tick,
}

/// The local store, frozen after one entry.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Checkpoint {
    /// The last entry it contains, and that entry's checksum.
    #[n(0)]
    pub end: LogEnd,
    /// The newest time in the log up to there, as far as it is known.
    #[n(1)]
    pub newest_time: Timestamp,
    /// Its files, each name once, in any order.
    #[n(2)]
    pub files: Vec<CheckpointFile>,
}

/// One file of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct CheckpointFile {
    /// What it is called.
    #[n(0)]
    pub local_name: Name,
    /// Its size, in bytes.
    #[n(1)]
    pub size_bytes: u64,
    /// Of its content.
    #[n(2)]
    pub checksum: Checksum,
}

/// Every snapshot object of the node.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum SnapshotList {
    /// All of them, in any order.
    #[n(0)]
    All {
        /// The manifests.
        #[n(0)]
        manifests: Vec<ManifestName>,
        /// The files.
        #[n(1)]
        files: Vec<StoredFile>,
    },
    /// As for every read.
    #[n(1)]
    Transient {
        /// Retry-After, in milliseconds.
        #[n(0)]
        retry_after_ms: Option<u64>,
    },
    /// As for every read.
    #[n(2)]
    Permanent,
    /// As for every read.
    #[n(3)]
    LocalFailure,
}

/// A file as a listing shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub struct StoredFile {
    /// Its name.
    #[n(0)]
    pub name: FileName,
    /// Its size, in bytes.
    #[n(1)]
    pub size_bytes: u64,
}

/// Positions of a range that have an entry.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum EntryList {
    /// The lowest ones, rising, no more than asked for. Fewer than asked for: there are no more.
    #[n(0)]
    Positions(#[n(0)] Vec<Position>),
    /// As for every read.
    #[n(1)]
    Transient {
        /// Retry-After, in milliseconds.
        #[n(0)]
        retry_after_ms: Option<u64>,
    },
    /// As for every read.
    #[n(2)]
    Permanent,
}

/// How deletes ended, taken together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum DeleteOutcome {
    /// None of them is there any more; one that was missing counts.
    #[n(0)]
    Done,
    /// Some may still be there, and another try may work.
    #[n(1)]
    Transient {
        /// Retry-After, in milliseconds.
        #[n(0)]
        retry_after_ms: Option<u64>,
    },
    /// The store denies.
    #[n(2)]
    Permanent,
}

/// What the shell must do. Nothing here has a limit of 10 s (D-11), and none of it may delay a lease
/// write: it goes over connections of its own.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum KeeperOutput {
    /// Freeze the local store as it is now, between two entries, in a folder of its own; a former
    /// checkpoint is deleted first. `CheckpointMade` answers.
    #[n(0)]
    Checkpoint {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
    },
    /// Create this object from a file of the checkpoint, if it is absent. `Uploaded` answers. Time-outs
    /// are the shell's only where nothing moves any more: a slow upload goes on.
    #[n(1)]
    Upload {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// The checkpoint's file.
        #[n(1)]
        local_name: Name,
        /// The object.
        #[n(2)]
        name: FileName,
    },
    /// Create this object if it is absent. `ManifestWritten` answers.
    #[n(2)]
    WriteManifest {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// The object.
        #[n(1)]
        name: ManifestName,
        /// Its bytes.
        #[n(2)]
        body: Blob,
    },
    /// Read a manifest. `ManifestRead` answers.
    #[n(3)]
    ReadManifest {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// The object.
        #[n(1)]
        name: ManifestName,
    },
    /// List all snapshot objects, from now on: never from a cache. `SnapshotsListed` answers.
    #[n(4)]
    ListSnapshots {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
    },
    /// Delete the checkpoint's folder.
    #[n(5)]
    DropCheckpoint,
    /// The log may be trimmed below: hand it to `node` as `Input::TrimBelow` (D-30).
    #[n(6)]
    TrimBelow(#[n(0)] Position),
    /// Delete these, manifests first (D-46). `Deleted` answers.
    #[n(7)]
    DeleteSnapshotObjects {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// The manifests.
        #[n(1)]
        manifests: Vec<ManifestName>,
        /// The files.
        #[n(2)]
        files: Vec<FileName>,
    },
    /// List the log. `EntriesListed` answers. A store that keeps many entries in one object, and trims
    /// on its own, answers with none.
    #[n(8)]
    ListEntries {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Only above this.
        #[n(1)]
        after: Position,
        /// Only below this.
        #[n(2)]
        below: Position,
        /// At most so many.
        #[n(3)]
        at_most: u32,
    },
    /// Read these entries and say what they are, by [`EntryKind::of`](crate::log::EntryKind::of): a
    /// fence must not be deleted. `EntriesInspected` answers.
    #[n(9)]
    InspectEntries {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Which.
        #[n(1)]
        positions: Vec<Position>,
    },
    /// Delete these entries of the log, which a lease write allows (D-30). `Deleted` answers.
    #[n(10)]
    DeleteEntries {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Which.
        #[n(1)]
        positions: Vec<Position>,
    },
    /// Tell people.
    #[n(11)]
    Event(#[n(0)] KeeperEvent),
    /// The process must stop: its disk failed (D-33). Nothing follows.
    #[n(12)]
    Failed(#[n(0)] StopReason),
}

/// What a keeper is about, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum KeeperTask {
    /// Looking for a snapshot whose files can be used again.
    #[n(0)]
    Survey,
    /// Uploading a file.
    #[n(1)]
    Upload,
    /// Writing a manifest, or reading it back.
    #[n(2)]
    Manifest,
    /// Deleting snapshot objects that nothing names.
    #[n(3)]
    Cleaning,
    /// Deleting entries of the log.
    #[n(4)]
    Trimming,
}

/// Something worth telling people about snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum KeeperEvent {
    /// The newest complete snapshot that was there when the epoch began: its files can be used again.
    #[n(0)]
    Inherited(#[n(0)] ManifestName),
    /// A manifest cannot be used.
    #[n(1)]
    Unusable {
        /// Which.
        #[n(0)]
        name: ManifestName,
        /// Why. None: it is gone, or a file of it is.
        #[n(1)]
        error: Option<ManifestError>,
    },
    /// A snapshot was read back: it counts.
    #[n(2)]
    Made {
        /// Which.
        #[n(0)]
        name: ManifestName,
        /// How many files it names.
        #[n(1)]
        files: u64,
        /// What was uploaded for it, in bytes.
        #[n(2)]
        uploaded_bytes: u64,
        /// From the checkpoint on, in milliseconds.
        #[n(3)]
        took_ms: u64,
    },
    /// Another object stands under the name of the own manifest: this snapshot does not count.
    #[n(3)]
    Abandoned(#[n(0)] ManifestName),
    /// Something failed and is tried again.
    #[n(4)]
    Retrying {
        /// What.
        #[n(0)]
        task: KeeperTask,
        /// Whether the store denied it for good: somebody has to look.
        #[n(1)]
        denied: bool,
    },
    /// Snapshot objects were deleted.
    #[n(5)]
    Cleaned {
        /// How many.
        #[n(0)]
        objects: u64,
    },
    /// Entries of the log were deleted.
    #[n(6)]
    Trimmed {
        /// How many.
        #[n(0)]
        entries: u64,
        /// The bound.
        #[n(1)]
        below: Position,
    },
}
