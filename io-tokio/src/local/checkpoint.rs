//! The checkpoint file of the in-memory store: complete, checksummed, there as a whole or not at all.
//!
//! ```text
//! magic (16) · format (u32) · position (u64) · chain (32) · entries (u64)
//! entries × ( key length (u32) · key · value length (u32) · value )      keys ascend
//! SHA-256 of everything before (32)
//! ```
//!
//! All numbers are little-endian.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use dexzd_core::ids::Position;
use dexzd_core::log::{Chain, LogEnd};
use sha2::{Digest, Sha256};

use super::error::LocalStoreError;
use crate::files;

/// A key or a value, shared by the live map and the copies that checkpoints are written from.
pub(super) type Bytes = Arc<[u8]>;
pub(super) type Map = BTreeMap<Bytes, Bytes>;

const MAGIC: &[u8; 16] = b"dexzd-checkpoint";
const FORMAT_VERSION: u32 = 1;
/// Longer keys or values cannot have been written: an entry holds at most 32 MiB (D-56).
const LONGEST_FIELD_BYTES: u32 = 64 << 20;

/// Writes a checkpoint beside the old one, then puts it in its place. Returns its size in bytes.
pub(super) fn write(file: &Path, end: LogEnd, map: &Map) -> io::Result<u64> {
    let folder = file.parent().expect("a checkpoint lies in the folder of its store");
    let temporary = files::temporary_path(folder);
    let written = write_to(&temporary, end, map).and_then(|bytes| {
        fs::rename(&temporary, file)?;
        files::sync_folder(folder)?;
        Ok(bytes)
    });
    if written.is_err() {
        // The name says that it was never finished; the next start removes it if this fails.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_to(path: &Path, end: LogEnd, map: &Map) -> io::Result<u64> {
    let mut out = Hashing {
        inner: BufWriter::with_capacity(1 << 20, files::create_new(path)?),
        hasher: Sha256::new(),
        bytes: 0,
    };
    out.write_all(MAGIC)?;
    out.write_all(&FORMAT_VERSION.to_le_bytes())?;
    out.write_all(&end.position.0.to_le_bytes())?;
    out.write_all(&end.chain.0)?;
    out.write_all(&(map.len() as u64).to_le_bytes())?;
    for (key, value) in map {
        write_field(&mut out, key)?;
        write_field(&mut out, value)?;
    }
    let checksum = out.hasher.finalize_reset();
    out.write_all(&checksum)?;
    let bytes = out.bytes;
    let file = out.inner.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(bytes)
}

fn write_field(out: &mut impl Write, field: &[u8]) -> io::Result<()> {
    let length = u32::try_from(field.len()).expect("D-56 keeps every key and value below 32 MiB");
    out.write_all(&length.to_le_bytes())?;
    out.write_all(field)
}

/// Reads a checkpoint. None if there is none yet.
pub(super) fn read(file: &Path) -> Result<Option<(LogEnd, Map, u64)>, LocalStoreError> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io_error(file, source)),
    };
    let mut input =
        Hashing { inner: BufReader::with_capacity(1 << 20, opened), hasher: Sha256::new(), bytes: 0 };
    let damaged =
        |detail: &str| LocalStoreError::Damaged { file: file.to_path_buf(), detail: detail.to_owned() };
    if &input.array::<16>(file)? != MAGIC {
        return Err(damaged("it does not begin with `dexzd-checkpoint`"));
    }
    let found = u32::from_le_bytes(input.array(file)?);
    if found > FORMAT_VERSION {
        return Err(LocalStoreError::NewerFormat {
            folder: file.to_path_buf(),
            found,
            newest: FORMAT_VERSION,
        });
    }
    let end = LogEnd {
        position: Position(u64::from_le_bytes(input.array(file)?)),
        chain: Chain(input.array(file)?),
    };
    let entries = u64::from_le_bytes(input.array(file)?);
    let mut pairs: Vec<(Bytes, Bytes)> = Vec::new();
    for _ in 0..entries {
        let key = input.field(file)?;
        let value = input.field(file)?;
        if pairs.last().is_some_and(|(before, _)| *before >= key) {
            return Err(damaged("its keys do not ascend"));
        }
        pairs.push((key, value));
    }
    let expected: [u8; 32] = input.hasher.finalize_reset().into();
    if input.array::<32>(file)? != expected {
        return Err(damaged("its checksum does not fit"));
    }
    let mut rest = [0; 1];
    if input.inner.read(&mut rest).map_err(|source| io_error(file, source))? != 0 {
        return Err(damaged("there are bytes behind its checksum"));
    }
    let bytes = input.bytes;
    Ok(Some((end, pairs.into_iter().collect(), bytes)))
}

fn io_error(file: &Path, source: io::Error) -> LocalStoreError {
    LocalStoreError::Io { action: "cannot read", path: file.to_path_buf(), source }
}

/// Hashes and counts what passes through.
struct Hashing<T> {
    inner: T,
    hasher: Sha256,
    bytes: u64,
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Hashing<T> {
    fn fill(&mut self, file: &Path, buffer: &mut [u8]) -> Result<(), LocalStoreError> {
        self.inner.read_exact(buffer).map_err(|source| {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                LocalStoreError::Damaged { file: file.to_path_buf(), detail: "it ends too early".to_owned() }
            } else {
                io_error(file, source)
            }
        })?;
        self.hasher.update(&*buffer);
        self.bytes += buffer.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self, file: &Path) -> Result<[u8; N], LocalStoreError> {
        let mut buffer = [0; N];
        self.fill(file, &mut buffer)?;
        Ok(buffer)
    }

    fn field(&mut self, file: &Path) -> Result<Bytes, LocalStoreError> {
        let length = u32::from_le_bytes(self.array(file)?);
        if length > LONGEST_FIELD_BYTES {
            return Err(LocalStoreError::Damaged {
                file: file.to_path_buf(),
                detail: format!("it names a field of {length} bytes"),
            });
        }
        let mut buffer = vec![0; length as usize];
        self.fill(file, &mut buffer)?;
        Ok(buffer.into())
    }
}
