//! One entry of the log and its place in the hash chain.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::engine::Change;
use crate::ids::{Epoch, Name, Position, ProcessId};
use crate::time::Timestamp;

/// The newest entry format this version writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// The checksum of an entry, which covers the checksum of the entry before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Chain(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 32]);

/// The end of a log: its last position and that entry's checksum. Position 0 and a zero chain: empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct LogEnd {
    /// The last entry.
    #[n(0)]
    pub position: Position,
    /// Its checksum.
    #[n(1)]
    pub chain: Chain,
}

/// Who writes: the same for all entries of an epoch.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Origin {
    /// The node.
    #[n(0)]
    pub node_id: Name,
    /// The process.
    #[n(1)]
    pub process_id: ProcessId,
    /// Its tenure.
    #[n(2)]
    pub epoch: Epoch,
}

/// One entry, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Who wrote it.
    pub origin: Origin,
    /// Where it stands.
    pub position: Position,
    /// Drawn for this entry; makes reading back exact (lesson 6).
    pub nonce: u64,
    /// Engine time when it was gathered (D-39).
    pub time: Timestamp,
    /// The checksum of the entry before it.
    pub previous: Chain,
    /// What it says.
    pub body: EntryBody,
}

/// What an entry says.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum EntryBody {
    /// The first entry of every epoch (D-42).
    #[n(0)]
    Fence {
        /// The lease duration of its writer, in milliseconds.
        #[n(0)]
        lease_duration_ms: u64,
    },
    /// State changes, in order.
    #[n(1)]
    Changes(#[n(0)] Vec<Change>),
}

/// Why bytes are not an entry that can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryError {
    /// The bytes are not an entry, or their checksum does not fit.
    Damaged,
    /// A newer version of the program wrote it.
    NewerFormat {
        /// The format found.
        found: u32,
    },
    /// It belongs to another node.
    ForeignNode {
        /// The node found.
        found: Name,
    },
    /// It does not follow the entry before it.
    BrokenChain,
}
