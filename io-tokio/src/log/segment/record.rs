//! How entries stand in a segment file, and how the end of a file is told from damage.
//!
//! ```text
//! length  u32 ┐ little endian; zero: nothing was written here
//! checksum u32│ CRC-32 of the segment's salt, length, position and entry
//! position u64┘
//! entry …, zeros up to the next multiple of 8
//! ```
//!
//! One write is in flight at a time, so a crash can tear only the last record. Bytes that are no record
//! are therefore the end if no record follows them, and damage if one does.

use dexzd_core::ids::Position;

/// Length, checksum and position.
pub(super) const HEADER_BYTES: usize = 16;
const ALIGNMENT: usize = 8;
/// A record behind damage is looked for among so many next positions: more than a segment has.
const POSITIONS_AHEAD: u64 = 1 << 24;

/// One record found in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// Where its entry begins in the file.
    pub(super) entry_at: usize,
    pub(super) entry_bytes: usize,
    pub(super) checksum: u32,
}

/// What stands behind the last record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// Nothing but zeros.
    Clean,
    /// Something that a crash left of a record, and no record behind it.
    Torn,
    /// A record stands behind something that is none.
    Damaged,
}

/// The records of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scan {
    /// From the segment's first position on, without gaps.
    pub(super) records: Vec<Record>,
    /// Where the last one ends.
    pub(super) end_at: usize,
    pub(super) tail: Tail,
}

/// The bytes that a record of such an entry takes.
pub(super) const fn record_bytes(entry_bytes: usize) -> usize {
    (HEADER_BYTES + entry_bytes).next_multiple_of(ALIGNMENT)
}

/// Appends a record to a buffer and returns its checksum.
pub(super) fn encode(buffer: &mut Vec<u8>, salt: u32, position: Position, entry: &[u8]) -> u32 {
    assert!(!entry.is_empty(), "a length of zero means that there is no record");
    let length = u32::try_from(entry.len()).expect("an entry has at most 33 MiB");
    let checksum = checksum(salt, length, position, entry);
    let end = buffer.len() + record_bytes(entry.len());
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(&checksum.to_le_bytes());
    buffer.extend_from_slice(&position.0.to_le_bytes());
    buffer.extend_from_slice(entry);
    buffer.resize(end, 0);
    checksum
}

/// Reads the records of a file from an offset on, beginning with this position.
pub(super) fn scan(file: &[u8], from: usize, salt: u32, first: Position) -> Scan {
    let mut records = Vec::new();
    let mut end_at = from;
    let mut position = first;
    while let Some((found, record)) = parse(file, end_at, salt)
        && found == position
    {
        records.push(record);
        end_at += record_bytes(record.entry_bytes);
        position = position.next();
    }
    let rest = file.get(end_at..).unwrap_or_default();
    let tail = if is_zero(rest) {
        Tail::Clean
    } else if record_follows(file, end_at, salt, position) {
        Tail::Damaged
    } else {
        Tail::Torn
    };
    Scan { records, end_at, tail }
}

/// Most of a segment is, so this compares as quickly as memory can be read.
fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: [u8; 4_096] = [0; 4_096];
    bytes.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

/// Whether any whole record of a later position stands behind this offset, wherever.
fn record_follows(file: &[u8], from: usize, salt: u32, expected: Position) -> bool {
    (from..file.len()).step_by(ALIGNMENT).any(|offset| {
        // The position is looked at first: it is cheap and nearly always wrong.
        file.get(offset + 8..offset + HEADER_BYTES).is_some_and(|bytes| {
            let ahead = read_u64(bytes).wrapping_sub(expected.0);
            // The expected one itself would have been found, unless it was pushed out of its place.
            ahead < POSITIONS_AHEAD && parse(file, offset, salt).is_some()
        })
    })
}

fn parse(file: &[u8], offset: usize, salt: u32) -> Option<(Position, Record)> {
    let header = file.get(offset..offset + HEADER_BYTES)?;
    let length = read_u32(&header[..4]);
    if length == 0 {
        return None;
    }
    let expected = read_u32(&header[4..8]);
    let position = Position(read_u64(&header[8..]));
    let entry_at = offset + HEADER_BYTES;
    let entry_bytes = usize::try_from(length).ok()?;
    let entry = file.get(entry_at..entry_at.checked_add(entry_bytes)?)?;
    let checksum = checksum(salt, length, position, entry);
    (checksum == expected).then_some((position, Record { entry_at, entry_bytes, checksum }))
}

fn checksum(salt: u32, length: u32, position: Position, entry: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&salt.to_le_bytes());
    hash.update(&length.to_le_bytes());
    hash.update(&position.0.to_le_bytes());
    hash.update(entry);
    hash.finalize()
}

fn read_u32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("the caller takes four bytes"))
}

fn read_u64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("the caller takes eight bytes"))
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
