//! What crosses the border of a bootstrap.

use minicbor::{Decode, Encode};

use crate::ids::{Name, Position, RequestId};
use crate::log::LogEnd;
use crate::snapshot::io::SnapshotList;
use crate::snapshot::manifest::{Checksum, FileName, ManifestError, ManifestName};
use crate::stop::StopReason;
use crate::store::ReadOutcome;

/// What is known when a local store was discarded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BootstrapOptions {
    /// The node.
    pub node_id: Name,
    /// Of the newest lease version seen: an older snapshot has no log to go on with (D-43).
    pub trimmed_below: Position,
    /// Of the back-off.
    pub seed: u64,
}

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum BootstrapInput {
    /// Answer to `Discard`.
    #[n(0)]
    Discarded {
        /// False: the disk failed.
        #[n(0)]
        done: bool,
    },
    /// Answer to `ListSnapshots`.
    #[n(1)]
    SnapshotsListed {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended. The files are not looked at.
        #[n(1)]
        outcome: SnapshotList,
    },
    /// Answer to `ReadManifest`.
    #[n(2)]
    ManifestRead {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended. The version is not looked at.
        #[n(1)]
        outcome: ReadOutcome,
    },
    /// Answer to `Download`.
    #[n(3)]
    Downloaded {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: DownloadOutcome,
    },
    /// Answer to `Install`.
    #[n(4)]
    Installed {
        /// What the opened store says about itself. None: the disk failed, or the store cannot be opened.
        #[n(0)]
        end: Option<LogEnd>,
    },
    /// A newer lease version was seen.
    #[n(5)]
    TrimmedBelow(#[n(0)] Position),
    /// Time has passed.
    #[n(6)]
    Tick,
}

/// How a download ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum DownloadOutcome {
    /// All of it stands on the disk, and this is what it is.
    #[n(0)]
    Stored {
        /// Its size, in bytes.
        #[n(0)]
        size_bytes: u64,
        /// Of its content.
        #[n(1)]
        checksum: Checksum,
    },
    /// There is no such object.
    #[n(1)]
    Missing,
    /// As for every read.
    #[n(2)]
    Transient {
        /// Retry-After, in milliseconds.
        #[n(0)]
        retry_after_ms: Option<u64>,
    },
    /// As for every read.
    #[n(3)]
    Permanent,
    /// As for every read: the disk is full, for one.
    #[n(4)]
    LocalFailure,
}

/// What the shell must do.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum BootstrapOutput {
    /// Close and delete the local store and everything that was downloaded, by an earlier bootstrap
    /// too. `Discarded` answers. Until `Install` a restarted process has an empty store.
    #[n(0)]
    Discard,
    /// List all snapshot objects. `SnapshotsListed` answers.
    #[n(1)]
    ListSnapshots {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
    },
    /// Read a manifest. `ManifestRead` answers.
    #[n(2)]
    ReadManifest {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// The object.
        #[n(1)]
        name: ManifestName,
    },
    /// Read an object into a file of that name in the folder of downloads, from its beginning, in the
    /// place of what is there. `Downloaded` answers.
    #[n(3)]
    Download {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// The object.
        #[n(1)]
        name: FileName,
        /// The file.
        #[n(2)]
        local_name: Name,
    },
    /// Make the downloads the local store, all at once (a rename), and open it; or an empty one, where
    /// `end` is that of an empty log. `Installed` answers.
    #[n(4)]
    Install {
        /// How far it is.
        #[n(0)]
        end: LogEnd,
    },
    /// The local store is there: tell whoever discarded the old one, as its `LocalStore { end }`. The
    /// bootstrap is over.
    #[n(5)]
    Done {
        /// How far it is. Position 0: it is empty.
        #[n(0)]
        end: LogEnd,
    },
    /// Tell people.
    #[n(6)]
    Event(#[n(0)] BootstrapEvent),
    /// It is over without a local store: the disk failed, or the store denies. A follower is told by
    /// `FollowerInput::ReplaceFailed`; a start ends with this reason.
    #[n(7)]
    Failed(#[n(0)] StopReason),
}

/// Something worth telling people about a bootstrap.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum BootstrapEvent {
    /// This snapshot is being downloaded.
    #[n(0)]
    Chosen {
        /// Which.
        #[n(0)]
        name: ManifestName,
        /// How large it is, in bytes.
        #[n(1)]
        bytes: u64,
    },
    /// A snapshot cannot be used: the next older one is tried.
    #[n(1)]
    Unusable {
        /// Which.
        #[n(0)]
        name: ManifestName,
        /// Why.
        #[n(1)]
        problem: SnapshotProblem,
    },
    /// Something failed and is tried again.
    #[n(2)]
    Retrying,
    /// There is no snapshot that could be used.
    #[n(3)]
    Nothing,
}

/// What is wrong with a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum SnapshotProblem {
    /// Its manifest is gone.
    #[n(0)]
    ManifestMissing,
    /// Its manifest cannot be read.
    #[n(1)]
    Manifest(#[n(0)] ManifestError),
    /// A file of it is gone.
    #[n(2)]
    FileMissing(#[n(0)] FileName),
    /// A file of it has another size or another content.
    #[n(3)]
    FileDiffers(#[n(0)] FileName),
    /// The store that was made of it is at another position than the manifest says, or does not open.
    #[n(4)]
    DoesNotOpen,
}
