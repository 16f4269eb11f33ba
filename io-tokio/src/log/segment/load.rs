//! One segment in memory.

use std::fs;
use std::io;
use std::path::Path;

use dexzd_core::ids::Position;

use super::file::{self, Header};
use super::record::{self, Scan};

/// A segment's bytes and where its records are in them.
pub(super) struct Loaded {
    pub(super) first: Position,
    pub(super) bytes: Vec<u8>,
    pub(super) scan: Scan,
}

impl Loaded {
    pub(super) fn read(folder: &Path, header: Header) -> io::Result<Self> {
        let bytes = fs::read(file::path(folder, header.first))?;
        let scan = record::scan(&bytes, file::HEADER_BYTES, header.salt, header.first);
        Ok(Self { first: header.first, bytes, scan })
    }

    /// The position behind the last record.
    pub(super) fn behind(&self) -> Position {
        Position(self.first.0 + self.scan.records.len() as u64)
    }
}
