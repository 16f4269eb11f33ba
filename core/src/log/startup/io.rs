//! What crosses the border of the start.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::engine::Change;
use crate::ids::{Blob, Epoch, Position, RequestId};
use crate::log::entry::{EntryError, LogEnd, Origin};
use crate::log::reader::{DiscardReason, ListOutcome, ReadEnd};
use crate::stop::StopReason;
use crate::store::WriteOutcome;
use crate::time::Timestamp;

/// What is known when a process has just taken the lease.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub struct StartupOptions {
    /// Who this is, at the epoch just taken.
    #[n(0)]
    pub origin: Origin,
    /// The own lease duration, which the fence records, in milliseconds (D-42).
    #[n(1)]
    pub lease_duration_ms: u64,
    /// `trimmedBelow` of the lease version that was replaced (D-41).
    #[n(2)]
    pub trimmed_below: Position,
    /// `logEnd` of the lease version that was replaced (D-53).
    #[n(3)]
    pub log_end: Position,
    /// Whether the log is synced before it acknowledges: if not, a host crash may have shortened it,
    /// and D-53 only warns.
    #[n(4)]
    pub synced: bool,
    /// How far the local store is. Position 0: it is empty.
    #[n(5)]
    pub local: LogEnd,
    /// Decides the fence's nonce and the back-off.
    #[n(6)]
    pub seed: u64,
}

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum StartupInput {
    /// Answer to `Read`.
    #[n(0)]
    Read {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// The entries from the position asked for on, without gaps.
        #[n(1)]
        entries: Vec<Blob>,
        /// Why there are no more.
        #[n(2)]
        then: ReadEnd,
    },
    /// Answer to `List`.
    #[n(1)]
    Listed {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// What stands behind.
        #[n(1)]
        outcome: ListOutcome,
    },
    /// Answer to `Write`.
    #[n(2)]
    Written {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: WriteOutcome,
    },
    /// The local store has applied everything up to here.
    #[n(3)]
    Applied {
        /// The `end` of the batch.
        #[n(0)]
        position: Position,
    },
    /// Answer to `DiscardLocalStore`.
    #[n(4)]
    LocalStore {
        /// How far the new one is. Position 0: it is empty.
        #[n(0)]
        end: LogEnd,
    },
    /// Answer to `FenceAccepted`: the lease, read or renewed after it, still shows this process and epoch.
    /// If it does not, the process stops and never sends this.
    #[n(5)]
    LeaseConfirmed,
    /// Time has passed.
    #[n(6)]
    Tick,
}

/// What the shell must do.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum StartupOutput {
    /// Read entries one after another, until one is missing or the range is full: at most so many
    /// entries, and at most so many bytes but always one entry.
    #[n(0)]
    Read {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// The first.
        #[n(1)]
        from: Position,
        /// At most so many entries.
        #[n(2)]
        at_most: u32,
        /// At most so many bytes, unless the first entry alone is larger.
        #[n(3)]
        at_most_bytes: u64,
    },
    /// Look for entries behind a position by listing them.
    #[n(1)]
    List {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Only above this.
        #[n(1)]
        after: Position,
    },
    /// Create the fence at this position if it is absent, durably.
    #[n(2)]
    Write {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Where.
        #[n(1)]
        position: Position,
        /// The encoded fence.
        #[n(2)]
        entry: Blob,
    },
    /// Apply these changes to the local store in one batch, and note the position and checksum reached.
    #[n(3)]
    Apply {
        /// What is reached.
        #[n(0)]
        end: LogEnd,
        /// The changes of one or more entries, in order. A fence has none.
        #[n(1)]
        changes: Vec<Change>,
    },
    /// Delete the local store and put the next best in its place: a checkpoint, then an older one,
    /// then an empty store. `LocalStore` answers.
    #[n(4)]
    DiscardLocalStore(#[n(0)] DiscardReason),
    /// The fence is in the log: read or renew the lease; `LeaseConfirmed` answers (D-42).
    #[n(5)]
    FenceAccepted {
        /// The fence.
        #[n(0)]
        end: LogEnd,
    },
    /// Worth a warning: a host crash took the log's tail, as this mode allows (D-53).
    #[n(6)]
    LogShorter {
        /// What the lease says.
        #[n(0)]
        known: Position,
        /// What the log has.
        #[n(1)]
        found: Position,
    },
    /// The log carries a higher epoch than the one just taken: if the lease still shows this process,
    /// D-55 applies, else it must stop. The start is over.
    #[n(7)]
    EpochBehind {
        /// The epoch found.
        #[n(0)]
        found: Epoch,
        /// What its fence records, in milliseconds, where the fence was seen.
        #[n(1)]
        lease_duration_ms: Option<u64>,
    },
    /// Everything is applied, the fence included: the engine can be built. The start is over.
    #[n(8)]
    Ready {
        /// The fence.
        #[n(0)]
        end: LogEnd,
        /// The newest time in the log, from which engine time goes on (D-39).
        #[n(1)]
        newest_time: Timestamp,
        /// How many entries were applied.
        #[n(2)]
        entries_applied: u64,
    },
    /// The process must stop. Nothing was overwritten. The start is over.
    #[n(9)]
    Failed {
        /// Why.
        #[n(0)]
        reason: StopReason,
        /// Where in the log.
        #[n(1)]
        at: Position,
        /// What is wrong with the entry there, if it is the entry.
        #[n(2)]
        error: Option<EntryError>,
    },
}
