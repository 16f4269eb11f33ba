//! Snapshots: checkpoints of the local store that stand in the object store (D-30, D-46).
//!
//! ```text
//! active:   checkpoint ─▶ upload what the newest complete manifest does not name, under new names
//!                      ─▶ manifest, created if absent ─▶ read back: it counts
//!                                                           │
//!           the older of the two newest is an hour old ◀────┤
//!              │ lease write with that bound lands          ├─▶ list ─▶ a lease write sent after it lands
//!              ▼                                            ▼
//!           delete log entries below it, fences kept     delete what neither of the two newest names
//!
//! standby,  list ─▶ newest manifest ─▶ download ─▶ sizes and checksums right ─▶ the local store
//! start:      ▲           ▲                │404: list again, that one is broken
//!             └───────────┴────────────────┘
//! ```
//!
//! [`Keeper`] is the active's; [`Bootstrap`] serves every `DiscardLocalStore`.

mod bootstrap;
mod cleaning;
mod desk;
#[cfg(test)]
mod hand_made;
mod io;
mod keeper;
mod making;
mod manifest;
mod survey;
mod trimming;

pub use bootstrap::{
    Bootstrap, BootstrapEvent, BootstrapInput, BootstrapOptions, BootstrapOutput, DownloadOutcome,
    SnapshotProblem,
};
pub use io::{
    Cadence, Checkpoint, CheckpointFile, DeleteOutcome, EntryList, KeeperEvent, KeeperInput, KeeperOptions,
    KeeperOutput, KeeperTask, SnapshotList, StoredFile,
};
pub use keeper::Keeper;
pub use manifest::{
    Checksum, FORMAT_VERSION, FileName, LONGEST_MANIFEST_BYTES, Manifest, ManifestError, ManifestName,
    SnapshotFile, SnapshotObject,
};
