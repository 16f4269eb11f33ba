//! Objects that are too large to be held in memory: written and read piece by piece.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use dexzd_core::store::Version;
use sha2::{Digest, Sha256};

use super::record::{CHECKSUM_BYTES, Header, HeaderError, Record, RecordError};
use super::{Failure, FolderStore, object_folder, version, version_file, versions};
use crate::files;
use crate::store::FetchOutcome;

/// What passes through memory at a time.
const PIECE_BYTES: usize = 1 << 20;

impl FolderStore {
    /// The key is nobody else's (D-46), so there is no race to decide but that of an own late try.
    pub(super) fn create_large(
        &self,
        key: &str,
        size_bytes: u64,
        content: &mut (dyn Read + Send),
    ) -> Result<Version, Failure> {
        let folder = object_folder(&self.root, key);
        let (number, before) = match newest_header(&folder)? {
            None => (1, None),
            Some((_, header)) if header.is_present => return Err(Failure::Refused),
            Some((number, _)) => (number + 1, self.newest(&folder)?.map(|(_, record)| record)),
        };
        let record = Record::after(before.as_ref(), crate::clock::entropy_u128(), Some(&[]));
        files::create_folder(&folder)?;
        let temporary = files::temporary_path(&folder);
        let linked = self.write_large(&temporary, &record, size_bytes, content).and_then(|()| {
            fs::hard_link(&temporary, folder.join(version_file(number))).map_err(|error| {
                if error.kind() == io::ErrorKind::AlreadyExists { Failure::Refused } else { error.into() }
            })
        });
        // What is left behind if this fails is recognised by its name.
        let _ = fs::remove_file(&temporary);
        linked?;
        if self.syncs {
            (self.sync_folder)(&folder).map_err(|_| Failure::Local)?;
        }
        Ok(version(number, record.token))
    }

    fn write_large(
        &self,
        path: &Path,
        record: &Record,
        size_bytes: u64,
        content: &mut (dyn Read + Send),
    ) -> Result<(), Failure> {
        let mut file = files::create_new(path)?;
        let mut hasher = Sha256::new();
        let mut write = |bytes: &[u8]| -> Result<(), Failure> {
            hasher.update(bytes);
            Ok(file.write_all(bytes)?)
        };
        write(&record.encode_header())?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = size_bytes;
        while left > 0 {
            let wanted = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let read = content.read(&mut piece[..wanted]).map_err(|_| Failure::Local)?;
            if read == 0 {
                return Err(Failure::Local);
            }
            write(&piece[..read])?;
            left -= read as u64;
        }
        let checksum = hasher.finalize();
        file.write_all(&checksum)?;
        if self.syncs {
            // Never retried: after a failure the kernel may have dropped the pages (D-33).
            file.sync_all().map_err(|_| Failure::Local)?;
        }
        Ok(())
    }

    pub(super) fn read_large(&self, key: &str, sink: &mut (dyn Write + Send)) -> FetchOutcome {
        let folder = object_folder(&self.root, key);
        match self.try_read_large(&folder, sink) {
            Ok(outcome) => outcome,
            Err(Failure::Refused | Failure::Transient) => FetchOutcome::Transient { retry_after_ms: None },
            Err(Failure::Permanent) => FetchOutcome::Permanent,
            Err(Failure::Local) => FetchOutcome::LocalFailure,
        }
    }

    fn try_read_large(&self, folder: &Path, sink: &mut (dyn Write + Send)) -> Result<FetchOutcome, Failure> {
        let Some((number, file)) = open_newest(folder)? else {
            return Ok(FetchOutcome::Missing);
        };
        let length = file.metadata()?.len();
        let mut input = Hashing { inner: BufReader::with_capacity(PIECE_BYTES, file), hasher: Sha256::new() };
        let header = match Header::read(&mut input) {
            Ok(header) if header.is_present => header,
            Ok(_) => return Ok(FetchOutcome::Missing),
            Err(HeaderError::Record(RecordError::Damaged)) => return Ok(FetchOutcome::Damaged),
            Err(HeaderError::Record(RecordError::NewerFormat)) => return Err(Failure::Permanent),
            Err(HeaderError::Io(error)) => return Err(error.into()),
        };
        if self.syncs {
            // As for every read: what somebody builds on stays.
            (self.sync_folder)(folder).map_err(|_| Failure::Local)?;
        }
        let size_bytes = length.saturating_sub(header.length + CHECKSUM_BYTES as u64);
        let mut body = (&mut input).take(size_bytes);
        let mut piece = vec![0; PIECE_BYTES];
        let mut passed = 0;
        loop {
            let read = body.read(&mut piece)?;
            if read == 0 {
                break;
            }
            sink.write_all(&piece[..read]).map_err(|_| Failure::Local)?;
            passed += read as u64;
        }
        let mut checksum = [0; CHECKSUM_BYTES];
        let is_whole = input.inner.read_exact(&mut checksum).is_ok();
        if passed != size_bytes || !is_whole || input.hasher.finalize()[..] != checksum[..] {
            tracing::warn!(folder = %folder.display(), number, "an object of the folder store is damaged");
            return Ok(FetchOutcome::Damaged);
        }
        Ok(FetchOutcome::Done { size_bytes })
    }
}

/// The newest version of an object as far as its header tells: with its size if it is there.
pub(super) fn newest_size(folder: &Path) -> Result<Option<u64>, Failure> {
    let Some((_, file)) = open_newest(folder)? else {
        return Ok(None);
    };
    let length = file.metadata()?.len();
    let header = header_of(&mut BufReader::with_capacity(2 << 10, file))?;
    // A file that is too short is damaged, which its reader finds out.
    Ok(header.is_present.then(|| length.saturating_sub(header.length + CHECKSUM_BYTES as u64)))
}

fn newest_header(folder: &Path) -> Result<Option<(u64, Header)>, Failure> {
    let Some((number, mut file)) = open_newest(folder)? else {
        return Ok(None);
    };
    Ok(Some((number, header_of(&mut file)?)))
}

fn open_newest(folder: &Path) -> Result<Option<(u64, File)>, Failure> {
    for _ in 0..super::LOOKS {
        let Some(number) = versions(folder)?.into_iter().max() else {
            return Ok(None);
        };
        match File::open(folder.join(version_file(number))) {
            Ok(file) => return Ok(Some((number, file))),
            // Two writers came after, or the object was forgotten: look again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Transient)
}

fn header_of(input: &mut impl Read) -> Result<Header, Failure> {
    Header::read(input).map_err(|error| match error {
        HeaderError::Io(error) => error.into(),
        HeaderError::Record(RecordError::Damaged) => Failure::Local,
        HeaderError::Record(RecordError::NewerFormat) => Failure::Permanent,
    })
}

/// Hashes what passes through.
struct Hashing<T> {
    inner: T,
    hasher: Sha256,
}

impl<T: Read> Read for Hashing<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
