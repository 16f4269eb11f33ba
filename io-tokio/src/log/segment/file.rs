//! Segment files: their names and their headers.
//!
//! A file gets its name only when its header is in it, and durable in the modes that sync. The header
//! says which entry the segment goes on behind; whatever an older segment has beyond that entry was
//! written by a process that had lost its lock, and is not part of the log (D-45).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use dexzd_core::ids::Position;

use super::error::SegmentLogError;

/// The newest format of segment files that this version writes and reads.
pub(super) const FORMAT_VERSION: u32 = 1;
/// Records begin here.
pub(super) const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"dxzs";
const CHECKSUM_AT: usize = HEADER_BYTES - 4;
const EXTENSION: &str = "segment";

/// What the first bytes of a segment say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// The position of its first record.
    pub(super) first: Position,
    /// The checksum of the record before that, in the segment before; zero for the first of all.
    pub(super) previous_checksum: u32,
    /// Part of every record's checksum, so that no other file's bytes are ever taken for a record.
    pub(super) salt: u32,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.previous_checksum.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header of this file, whose name gives its first position.
    pub(super) fn decode(bytes: &[u8], path: &Path, first: Position) -> Result<Self, SegmentLogError> {
        let damaged = || SegmentLogError::Damaged { path: path.to_path_buf(), offset: 0, position: first };
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(&MAGIC) {
            return Err(damaged());
        }
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if number(CHECKSUM_AT) != crc32fast::hash(&bytes[..CHECKSUM_AT]) {
            return Err(damaged());
        }
        let found = number(4);
        if found > FORMAT_VERSION {
            return Err(SegmentLogError::NewerFormat { path: path.to_path_buf(), found });
        }
        let mut position = [0; 8];
        position.copy_from_slice(&bytes[8..16]);
        let header = Self {
            first: Position(u64::from_le_bytes(position)),
            previous_checksum: number(16),
            salt: number(20),
        };
        if header.first == first { Ok(header) } else { Err(damaged()) }
    }
}

/// The file of the segment that begins at this position.
pub(super) fn path(folder: &Path, first: Position) -> PathBuf {
    folder.join(format!("{:020}.{EXTENSION}", first.0))
}

/// The first position of the segment that has this name, if it is one.
pub(super) fn parse_name(name: &OsStr) -> Option<Position> {
    let (digits, extension) = name.to_str()?.split_once('.')?;
    let first = digits.parse().ok()?;
    (digits.len() == 20 && extension == EXTENSION).then_some(Position(first))
}
