//! What crosses the border of the follower.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::{FollowerReport, StandbyConfig};
use crate::engine::Change;
use crate::ids::{Blob, Name, Position, RequestId};
use crate::log::{DiscardReason, EntryError, ListOutcome, LogEnd, ReadEnd};
use crate::stop::StopReason;

/// What is known when a process begins to follow: `FollowOrder::Start`, and the local store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FollowerOptions {
    /// The node.
    pub node_id: Name,
    /// How often it polls, and when it is behind.
    pub standby: StandbyConfig,
    /// Of the newest lease seen: nothing below is applied (D-43).
    pub trimmed_below: Position,
    /// Of the newest lease seen: the log is at least this long (D-14, D-53).
    pub log_end: Position,
    /// How far the local store is. Position 0: it is empty.
    pub local: LogEnd,
    /// Of the back-off.
    pub seed: u64,
}

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum FollowerInput {
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
    /// The local store has applied everything up to here.
    #[n(2)]
    Applied {
        /// The `end` of the batch.
        #[n(0)]
        position: Position,
    },
    /// Answer to `DiscardLocalStore`: `BootstrapOutput::Done`.
    #[n(3)]
    LocalStore {
        /// How far the new one is. Position 0: it is empty.
        #[n(0)]
        end: LogEnd,
    },
    /// Answer to `DiscardLocalStore`: `BootstrapOutput::Failed`.
    #[n(4)]
    ReplaceFailed(#[n(0)] StopReason),
    /// `FollowOrder::Lease`: a lease not seen before says this.
    #[n(5)]
    Lease {
        /// Nothing below is applied (D-43).
        #[n(0)]
        trimmed_below: Position,
        /// The log is at least this long (D-14, D-53).
        #[n(1)]
        log_end: Position,
    },
    /// Time has passed.
    #[n(6)]
    Tick,
}

/// What the shell must do. Nothing is ever written to the object store (HA-51).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum FollowerOutput {
    /// Read entries one after another, until one is missing or the range is full: at most so many
    /// entries, and at most so many bytes but always one entry. `Read` answers.
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
    /// Look for entries behind a position by listing them. `Listed` answers.
    #[n(1)]
    List {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Only above this.
        #[n(1)]
        after: Position,
    },
    /// Apply these changes to the local store in one batch, and note the position and checksum reached.
    /// `Applied` answers. If the disk fails, tell `node` and drop the follower.
    #[n(2)]
    Apply {
        /// What is reached.
        #[n(0)]
        end: LogEnd,
        /// The changes of one or more entries, in order. A fence has none.
        #[n(1)]
        changes: Vec<Change>,
    },
    /// Run a `snapshot::Bootstrap`, which deletes the local store and puts the best snapshot in its
    /// place, with the newest bound seen. `LocalStore` or `ReplaceFailed` answers.
    #[n(3)]
    DiscardLocalStore(#[n(0)] DiscardReason),
    /// Tell `node`: at every change of the state, and whenever the end of the log was reached.
    #[n(4)]
    Report(#[n(0)] FollowerReport),
    /// Tell people: an error, which is tried again (D-15). `Report` comes besides.
    #[n(5)]
    Restarting(#[n(0)] RestartReason),
    /// It gave up (D-15): delete the local store, so that an empty one is there when the log is opened,
    /// and tell people by name. The follower does nothing any more; the process goes on to compete.
    #[n(6)]
    GaveUp {
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
    /// The local disk is unusable: the process must stop (D-15). Nothing follows.
    #[n(7)]
    Failed(#[n(0)] StopReason),
}

/// Why a follower starts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum RestartReason {
    /// Its local store cannot be used any more: a snapshot takes its place.
    #[n(0)]
    Discard(#[n(0)] DiscardReason),
    /// The store denies what it asks for.
    #[n(1)]
    Store(#[n(0)] StopReason),
    /// No snapshot could be used.
    #[n(2)]
    NothingToRebuildFrom,
}
