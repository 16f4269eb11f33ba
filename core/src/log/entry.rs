//! One entry of the log and its place in the hash chain.
//!
//! ```text
//! bytes  0..4    the letters `dxzl`
//! bytes  4..8    format version, big endian
//! bytes  8..40   checksum: SHA-256 of everything else, the previous entry's checksum included
//! bytes 40..     who, where, when, the previous checksum, and the body, in CBOR
//! ```
//!
//! The first 40 bytes and what the checksum covers stay the same in every format, so that a newer
//! format is told from damage.

use alloc::vec::Vec;
use core::fmt;

use minicbor::{Decode, Decoder, Encode, Encoder};
use sha2::{Digest, Sha256};

use crate::engine::Change;
use crate::ids::{Blob, Epoch, Name, Position, ProcessId};
use crate::time::Timestamp;

/// The newest entry format this version writes and reads.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 4] = *b"dxzl";
const FORMAT_AT: usize = MAGIC.len();
const CHECKSUM_AT: usize = FORMAT_AT + 4;
const CONTENT_AT: usize = CHECKSUM_AT + 32;
/// Number of items of the content: a newer minor field would make it a newer format.
const CONTENT_ITEMS: u64 = 8;
/// More than the content takes beside the node id and the changes.
const FIXED_BYTES: usize = 160;
/// More than one change takes beside its key and its value.
const CHANGE_OVERHEAD_BYTES: usize = 12;

/// The checksum of an entry, which covers the checksum of the entry before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Chain(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 32]);

/// The end of a log: its last position and that entry's checksum. Position 0 and a zero chain: empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
pub struct LogEnd {
    /// The last entry.
    #[n(0)]
    pub position: Position,
    /// Its checksum.
    #[n(1)]
    pub chain: Chain,
}

/// Who writes: the same for all entries of an epoch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
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

/// What an entry is to whoever trims the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum EntryKind {
    /// Never deleted (D-30).
    #[n(0)]
    Fence,
    /// State changes.
    #[n(1)]
    Changes,
    /// Nobody can say: left alone.
    #[n(2)]
    Unreadable,
}

impl EntryKind {
    /// What these bytes of the log are.
    #[must_use]
    pub fn of(bytes: &[u8], node_id: &str) -> Self {
        match Entry::decode(bytes, node_id) {
            Ok((Entry { body: EntryBody::Fence { .. }, .. }, _)) => Self::Fence,
            Ok((Entry { body: EntryBody::Changes(_), .. }, _)) => Self::Changes,
            Err(_) => Self::Unreadable,
        }
    }
}

/// Why bytes are not an entry that can be used.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum EntryError {
    /// The bytes are not an entry, or their checksum does not fit.
    #[n(0)]
    Damaged,
    /// A newer version of the program wrote it.
    #[n(1)]
    NewerFormat {
        /// The format found.
        #[n(0)]
        found: u32,
    },
    /// It belongs to another node.
    #[n(2)]
    ForeignNode {
        /// The node found.
        #[n(0)]
        found: Name,
    },
    /// It does not follow the entry before it.
    #[n(3)]
    BrokenChain,
}

impl Entry {
    /// The bytes that stand in the log, and their checksum.
    #[must_use]
    pub fn encode(&self) -> (Blob, Chain) {
        let mut bytes = Vec::with_capacity(self.size_hint_bytes());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 32]);
        self.encode_content(&mut bytes).expect("writing to memory does not fail");
        let chain = checksum(&bytes);
        bytes[CHECKSUM_AT..CONTENT_AT].copy_from_slice(&chain.0);
        (Blob::from(bytes), chain)
    }

    /// The entry that these bytes are, and its checksum.
    ///
    /// # Errors
    ///
    /// [`EntryError`], except `BrokenChain`: whether it fits its neighbours is for
    /// [`follows`](Self::follows) to say.
    pub fn decode(bytes: &[u8], node_id: &str) -> Result<(Self, Chain), EntryError> {
        if bytes.len() < CONTENT_AT || !bytes.starts_with(&MAGIC) {
            return Err(EntryError::Damaged);
        }
        let chain = checksum(bytes);
        if bytes[CHECKSUM_AT..CONTENT_AT] != chain.0 {
            return Err(EntryError::Damaged);
        }
        // Only now is the version believed: a flipped bit in it is damage.
        let mut found = [0; 4];
        found.copy_from_slice(&bytes[FORMAT_AT..CHECKSUM_AT]);
        match u32::from_be_bytes(found) {
            FORMAT_VERSION => {}
            found if found > FORMAT_VERSION => return Err(EntryError::NewerFormat { found }),
            _ => return Err(EntryError::Damaged),
        }
        let entry = Self::decode_content(&bytes[CONTENT_AT..]).ok_or(EntryError::Damaged)?;
        if *entry.origin.node_id != *node_id {
            return Err(EntryError::ForeignNode { found: entry.origin.node_id });
        }
        Ok((entry, chain))
    }

    /// Whether this entry comes right after that end of the log.
    ///
    /// # Errors
    ///
    /// `BrokenChain` if its position or its previous checksum says otherwise.
    pub fn follows(&self, end: &LogEnd) -> Result<(), EntryError> {
        if self.position == end.position.next() && self.previous == end.chain {
            Ok(())
        } else {
            Err(EntryError::BrokenChain)
        }
    }

    fn size_hint_bytes(&self) -> usize {
        let body_bytes = match &self.body {
            EntryBody::Fence { .. } => 0,
            EntryBody::Changes(changes) => changes_bytes(changes),
        };
        CONTENT_AT + FIXED_BYTES + self.origin.node_id.len() + body_bytes
    }

    fn encode_content(
        &self,
        bytes: &mut Vec<u8>,
    ) -> Result<(), minicbor::encode::Error<core::convert::Infallible>> {
        Encoder::new(bytes)
            .array(CONTENT_ITEMS)?
            .encode(&self.origin.node_id)?
            .encode(self.origin.process_id)?
            .encode(self.origin.epoch)?
            .encode(self.position)?
            .encode(self.nonce)?
            .encode(self.time)?
            .encode(self.previous)?
            .encode(&self.body)?
            .ok()
    }

    fn decode_content(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        if decoder.array().ok()? != Some(CONTENT_ITEMS) {
            return None;
        }
        let entry = Self {
            origin: Origin {
                node_id: decoder.decode().ok()?,
                process_id: decoder.decode().ok()?,
                epoch: decoder.decode().ok()?,
            },
            position: decoder.decode().ok()?,
            nonce: decoder.decode().ok()?,
            time: decoder.decode().ok()?,
            previous: decoder.decode().ok()?,
            body: decoder.decode().ok()?,
        };
        (decoder.position() == bytes.len()).then_some(entry)
    }
}

/// What these changes take in an entry, rounded up a little.
pub(super) fn changes_bytes(changes: &[Change]) -> usize {
    changes
        .iter()
        .map(|change| change.key.len() + change.value.as_ref().map_or(0, Vec::len) + CHANGE_OVERHEAD_BYTES)
        .sum()
}

fn checksum(bytes: &[u8]) -> Chain {
    let mut hash = Sha256::new();
    hash.update(&bytes[..CHECKSUM_AT]);
    hash.update(&bytes[CONTENT_AT..]);
    Chain(hash.finalize().into())
}

impl fmt::Display for EntryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => formatter.write_str("the entry is damaged: its checksum does not fit"),
            Self::NewerFormat { found } => write!(
                formatter,
                "the entry has format {found}, this version reads up to {FORMAT_VERSION}: start \
                 the version that wrote it, or a newer one"
            ),
            Self::ForeignNode { found } => write!(
                formatter,
                "the entry belongs to node {found:?}: check the node id and the folder or prefix"
            ),
            Self::BrokenChain => formatter.write_str("the entry does not follow the one before it"),
        }
    }
}

impl core::error::Error for EntryError {}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
