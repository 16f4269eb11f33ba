//! What stands in the lease object, and why bytes are not a lease.

use alloc::vec::Vec;

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use sha2::{Digest, Sha256};

use super::duration::LeaseDuration;
use crate::ids::{Blob, Epoch, Name, Position, ProcessId};

/// The newest format this version writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// A lease record is about 120 bytes and a node id; anything longer is not one.
pub const LONGEST_RECORD_BYTES: usize = 4_096;
/// No epoch lies above this: raising one can never overflow.
pub const HIGHEST_EPOCH: Epoch = Epoch(1 << 62);

/// Makes every lease write unlike every other (D-50): reading back is exact, and a store whose versions
/// are hashes of the content never shows one version twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct Nonce {
    /// Who writes.
    #[n(0)]
    pub process_id: ProcessId,
    /// Counts the lease writes of this process.
    #[n(1)]
    pub counter: u64,
    /// 64 bits of the operating system, drawn at the send: a cloned process draws others.
    #[n(2)]
    pub entropy: u64,
}

/// Whether somebody holds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum LeaseState {
    /// `holder` holds it.
    #[n(0)]
    Held,
    /// `holder` released it and was the last one (D-12).
    #[n(1)]
    Free,
}

/// The lease: one object per node id, compared and swapped, never deleted (D-12).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub struct LeaseRecord {
    /// The node.
    #[n(0)]
    pub node_id: Name,
    /// Every acquisition raises it (HA-13).
    #[n(1)]
    pub epoch: Epoch,
    /// Who holds it, or held it last.
    #[n(2)]
    pub holder: ProcessId,
    /// Held or free.
    #[n(3)]
    pub state: LeaseState,
    /// The holder's: a candidate waits by it (D-3).
    #[n(4)]
    pub duration: LeaseDuration,
    /// Which write this is.
    #[n(5)]
    pub nonce: Nonce,
    /// Log entries below it may be missing; never lowered (D-30).
    #[n(6)]
    pub trimmed_below: Position,
    /// The holder's last durable position when it wrote (D-53).
    #[n(7)]
    pub log_end: Position,
}

/// Why bytes are not a lease that this process can judge. Such an object is never overwritten (D-49).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum Unreadable {
    /// The bytes are no lease, or their checksum does not fit, or a field is out of its range.
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
}

/// The outer layer stays readable in every later format.
#[derive(Encode, Decode)]
struct Envelope<'a> {
    #[n(0)]
    format: u32,
    #[cbor(b(1), with = "minicbor::bytes")]
    record: &'a [u8],
    #[n(2)]
    checksum: ByteArray<32>,
}

#[derive(Decode)]
struct FormatOnly {
    #[n(0)]
    format: u32,
}

impl LeaseRecord {
    /// The bytes of the object.
    #[must_use]
    pub fn encode(&self) -> Blob {
        let record = to_bytes(self);
        let envelope = Envelope { format: FORMAT_VERSION, checksum: checksum(&record), record: &record };
        Blob::from(to_bytes(&envelope))
    }

    /// Reads the bytes of the object.
    ///
    /// # Errors
    ///
    /// Whatever is not a whole lease of this node in a format this version knows (D-3, D-49).
    pub fn decode(bytes: &[u8], node_id: &Name) -> Result<Self, Unreadable> {
        if bytes.len() > LONGEST_RECORD_BYTES {
            return Err(Unreadable::Damaged);
        }
        let FormatOnly { format } = minicbor::decode(bytes).map_err(|_| Unreadable::Damaged)?;
        if format > FORMAT_VERSION {
            return Err(Unreadable::NewerFormat { found: format });
        }
        let envelope: Envelope<'_> = whole(bytes)?;
        if envelope.format != FORMAT_VERSION || envelope.checksum != checksum(envelope.record) {
            return Err(Unreadable::Damaged);
        }
        let record: Self = whole(envelope.record)?;
        if record.epoch == Epoch(0) || record.epoch > HIGHEST_EPOCH {
            return Err(Unreadable::Damaged);
        }
        if record.node_id != *node_id {
            return Err(Unreadable::ForeignNode { found: record.node_id });
        }
        Ok(record)
    }

    /// Whether `process_id` wrote it in `epoch`.
    #[must_use]
    pub fn is_of(&self, process_id: ProcessId, epoch: Epoch) -> bool {
        self.holder == process_id && self.epoch == epoch
    }
}

fn to_bytes<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    minicbor::encode(value, &mut bytes).expect("writing to a Vec cannot fail");
    bytes
}

/// Decodes all of `bytes`: a tail would be damage.
fn whole<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, Unreadable> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let value = decoder.decode().map_err(|_| Unreadable::Damaged)?;
    if decoder.position() == bytes.len() { Ok(value) } else { Err(Unreadable::Damaged) }
}

fn checksum(record: &[u8]) -> ByteArray<32> {
    ByteArray::from(<[u8; 32]>::from(Sha256::digest(record)))
}
