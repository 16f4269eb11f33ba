//! What a snapshot consists of, as it stands in the store, and why bytes are no manifest.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use sha2::{Digest, Sha256};

use crate::ids::{Blob, Epoch, Name, Position, ProcessId};
use crate::lease::HIGHEST_EPOCH;
use crate::log::LogEnd;
use crate::time::Timestamp;

/// The newest format this version writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// A file takes about 100 bytes in a manifest: room for half a million of them. Anything longer is not one.
pub const LONGEST_MANIFEST_BYTES: usize = 64 << 20;
/// Names of files in a local store are short.
const LONGEST_LOCAL_NAME_BYTES: usize = 255;

/// The name of one upload, never used again (D-46): a late delete of it cannot hit another file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct FileName {
    /// The tenure that uploaded it.
    #[n(0)]
    pub epoch: Epoch,
    /// Counts the uploads of that tenure.
    #[n(1)]
    pub counter: u64,
}

/// The name of a manifest: created if absent, never overwritten (D-46). Newer ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct ManifestName {
    /// The last entry that the snapshot contains.
    #[n(0)]
    pub position: Position,
    /// The tenure that made it.
    #[n(1)]
    pub epoch: Epoch,
}

/// SHA-256 of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Checksum(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 32]);

impl Checksum {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

/// One file of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct SnapshotFile {
    /// What it is called in the local store.
    #[n(0)]
    pub local_name: Name,
    /// What it is called in the object store.
    #[n(1)]
    pub stored_as: FileName,
    /// Its size, in bytes.
    #[n(2)]
    pub size_bytes: u64,
    /// Of its content.
    #[n(3)]
    pub checksum: Checksum,
}

/// A snapshot: the local store as it was after one entry.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Manifest {
    /// The node.
    #[n(0)]
    pub node_id: Name,
    /// Who made it.
    #[n(1)]
    pub process_id: ProcessId,
    /// In which tenure.
    #[n(2)]
    pub epoch: Epoch,
    /// The exact entry that was applied last, and its checksum (lesson D10).
    #[n(3)]
    pub end: LogEnd,
    /// The newest time in the log up to there (D-39).
    #[n(4)]
    pub newest_time: Timestamp,
    /// Its files, by their local name.
    #[n(5)]
    pub files: Vec<SnapshotFile>,
}

/// Why bytes are not a manifest that this process can use.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ManifestError {
    /// The bytes are no manifest, or their checksum does not fit, or a field is out of its range.
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
    /// It is another snapshot's than its name says.
    #[n(3)]
    OtherName {
        /// What its content says.
        #[n(0)]
        found: ManifestName,
    },
}

/// The outer layer stays readable in every later format.
#[derive(Encode, Decode)]
struct Envelope<'a> {
    #[n(0)]
    format: u32,
    #[cbor(b(1), with = "minicbor::bytes")]
    manifest: &'a [u8],
    #[n(2)]
    checksum: ByteArray<32>,
}

#[derive(Decode)]
struct FormatOnly {
    #[n(0)]
    format: u32,
}

impl Manifest {
    /// The name that it is stored under.
    #[must_use]
    pub const fn name(&self) -> ManifestName {
        ManifestName { position: self.end.position, epoch: self.epoch }
    }

    /// The bytes of the object. Equal manifests have equal bytes.
    #[must_use]
    pub fn encode(&self) -> Blob {
        let manifest = to_bytes(self);
        let checksum = ByteArray::from(Checksum::of(&manifest).0);
        Blob::from(to_bytes(&Envelope { format: FORMAT_VERSION, manifest: &manifest, checksum }))
    }

    /// Reads the bytes of the object of that name.
    ///
    /// # Errors
    ///
    /// Whatever is not a whole manifest of this node and name in a format this version knows.
    pub fn decode(bytes: &[u8], node_id: &Name, name: ManifestName) -> Result<Self, ManifestError> {
        if bytes.len() > LONGEST_MANIFEST_BYTES {
            return Err(ManifestError::Damaged);
        }
        let FormatOnly { format } = minicbor::decode(bytes).map_err(|_| ManifestError::Damaged)?;
        if format > FORMAT_VERSION {
            return Err(ManifestError::NewerFormat { found: format });
        }
        let envelope: Envelope<'_> = whole(bytes)?;
        let checksum = ByteArray::from(Checksum::of(envelope.manifest).0);
        if envelope.format != FORMAT_VERSION || envelope.checksum != checksum {
            return Err(ManifestError::Damaged);
        }
        let manifest: Self = whole(envelope.manifest)?;
        if !manifest.is_sound() {
            return Err(ManifestError::Damaged);
        }
        if manifest.node_id != *node_id {
            return Err(ManifestError::ForeignNode { found: manifest.node_id });
        }
        if manifest.name() != name {
            return Err(ManifestError::OtherName { found: manifest.name() });
        }
        Ok(manifest)
    }

    /// What all its files take, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add)
    }

    fn is_sound(&self) -> bool {
        let epochs = Epoch(1)..=HIGHEST_EPOCH;
        self.end.position > Position(0)
            && epochs.contains(&self.epoch)
            && self.files.is_sorted_by(|one, next| one.local_name < next.local_name)
            && self.files.iter().all(|file| {
                is_local_name(&file.local_name)
                    && file.stored_as.epoch <= self.epoch
                    && epochs.contains(&file.stored_as.epoch)
            })
    }
}

/// A name in one folder, which leads nowhere else.
fn is_local_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_LOCAL_NAME_BYTES
        && name != "."
        && name != ".."
        && !name.contains(['/', '\\', '\0'])
}

/// One object of the snapshots of a node, as its key names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SnapshotObject {
    /// `{position}/{epoch}.manifest`.
    Manifest(ManifestName),
    /// `files/{epoch}-{counter}`.
    File(FileName),
}

impl SnapshotObject {
    /// The object of that key below `{prefix}/{nodeId}/snapshots/`. None: it is none of a snapshot, and
    /// is left alone.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        let object = if let Some(name) = key.strip_prefix("files/") {
            let (epoch, counter) = two_numbers(name, '-')?;
            Self::File(FileName { epoch: Epoch(epoch), counter })
        } else {
            let (position, epoch) = two_numbers(key.strip_suffix(".manifest")?, '/')?;
            Self::Manifest(ManifestName { position: Position(position), epoch: Epoch(epoch) })
        };
        // Only what this program would have written.
        (object.key() == key).then_some(object)
    }

    /// The key below `{prefix}/{nodeId}/snapshots/`. Manifests sort by position, then by epoch.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Manifest(name) => alloc::format!("{:020}/{:020}.manifest", name.position.0, name.epoch.0),
            Self::File(name) => alloc::format!("files/{:020}-{:020}", name.epoch.0, name.counter),
        }
    }
}

fn two_numbers(text: &str, between: char) -> Option<(u64, u64)> {
    let (one, two) = text.split_once(between)?;
    Some((one.parse().ok()?, two.parse().ok()?))
}

fn to_bytes<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    minicbor::encode(value, &mut bytes).expect("writing to a Vec cannot fail");
    bytes
}

/// Decodes all of `bytes`: a tail would be damage.
fn whole<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, ManifestError> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let value = decoder.decode().map_err(|_| ManifestError::Damaged)?;
    if decoder.position() == bytes.len() { Ok(value) } else { Err(ManifestError::Damaged) }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.epoch, self.counter)
    }
}

impl fmt::Display for ManifestName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of epoch {}", self.position, self.epoch)
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => formatter.write_str("the manifest is damaged: its checksum does not fit"),
            Self::NewerFormat { found } => write!(
                formatter,
                "the manifest has format {found}, this version reads up to {FORMAT_VERSION}: start the \
                 version that wrote it, or a newer one"
            ),
            Self::ForeignNode { found } => write!(
                formatter,
                "the manifest belongs to node {found:?}: check the node id and the folder or prefix"
            ),
            Self::OtherName { found } => write!(formatter, "the manifest is that of snapshot {found}"),
        }
    }
}

impl core::error::Error for ManifestError {}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
