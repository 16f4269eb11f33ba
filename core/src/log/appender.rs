//! The appender: what was gathered becomes the next entry as soon as the previous write is done.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::entry::LogEnd;
use crate::engine::Change;
use crate::ids::{Blob, Position, RequestId};
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};

/// What the log's store answered.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum AppenderInput {
    /// To a write.
    #[n(0)]
    Written {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: WriteOutcome,
    },
    /// To a read-back.
    #[n(1)]
    Read {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// What stands there.
        #[n(1)]
        outcome: ReadOutcome,
    },
}

/// What the appender wants.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum AppenderOutput {
    /// Create the entry at this position if it is absent, durably. One is in flight at a time (D-10).
    #[n(0)]
    Write {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Where.
        #[n(1)]
        position: Position,
        /// The encoded entry.
        #[n(2)]
        entry: Blob,
    },
    /// Read the entry at this position.
    #[n(1)]
    Read {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Where.
        #[n(1)]
        position: Position,
    },
    /// The entry is in the log: apply it to the local store, then report `Input::Applied`.
    #[n(2)]
    Apply {
        /// The position and checksum reached.
        #[n(0)]
        end: LogEnd,
        /// Its changes.
        #[n(1)]
        changes: Vec<Change>,
    },
    /// The process must stop.
    #[n(3)]
    Failed(#[n(0)] StopReason),
}
