//! Files on their way, piece by piece, until nobody wants them any more.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dexzd_core::ids::{Blob, Name};
use dexzd_core::snapshot::{Checksum, DownloadOutcome, LONGEST_MANIFEST_BYTES};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use sha2::{Digest, Sha256};

use crate::store::{FetchOutcome, ObjectStore};

/// Whether a transfer is still wanted.
#[derive(Clone, Default)]
pub(super) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    pub(super) fn give_up(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn check(&self) -> io::Result<()> {
        if self.is_given_up() { Err(io::Error::other("nobody wants it any more")) } else { Ok(()) }
    }
}

/// The newest transfer of each file. The core asks anew for one that takes too long, and then the old one
/// only takes room.
#[derive(Default)]
pub(super) struct Transfers {
    going: BTreeMap<Name, Wanted>,
}

impl Transfers {
    pub(super) fn begin(&mut self, local_name: &Name) -> Wanted {
        let wanted = Wanted::default();
        if let Some(before) = self.going.insert(local_name.clone(), wanted.clone()) {
            before.give_up();
        }
        wanted
    }

    pub(super) fn give_up_all(&mut self) {
        for (_, wanted) in std::mem::take(&mut self.going) {
            wanted.give_up();
        }
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        self.give_up_all();
    }
}

/// Creates an object from a file.
pub(super) fn upload(store: &dyn ObjectStore, key: &str, file: File, wanted: &Wanted) -> WriteOutcome {
    let Ok(metadata) = file.metadata() else {
        return WriteOutcome::LocalFailure;
    };
    store.create_from(key, metadata.len(), &mut Source { file, wanted })
}

struct Source<'a> {
    file: File,
    wanted: &'a Wanted,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wanted.check()?;
        self.file.read(buffer)
    }
}

/// Reads a manifest. A damaged one is found as it is: its own checksum tells, and then an older one serves.
pub(super) fn read_manifest(store: &dyn ObjectStore, key: &str) -> ReadOutcome {
    let mut body = Manifest(Vec::new());
    match store.read_into(key, &mut body) {
        FetchOutcome::Done { .. } | FetchOutcome::Damaged => found(body.0),
        FetchOutcome::LocalFailure if body.0.len() > LONGEST_MANIFEST_BYTES => found(body.0),
        FetchOutcome::LocalFailure => ReadOutcome::LocalFailure,
        FetchOutcome::Missing => ReadOutcome::Missing,
        FetchOutcome::Transient { retry_after_ms } => ReadOutcome::Transient { retry_after_ms },
        FetchOutcome::Permanent => ReadOutcome::Permanent,
    }
}

fn found(body: Vec<u8>) -> ReadOutcome {
    // A manifest is never replaced, so nobody asks for its version.
    ReadOutcome::Found { version: Version(Blob::default()), body: body.into(), stamp_ms: None }
}

/// Takes no more than a manifest can have, and one piece: then it is none.
struct Manifest(Vec<u8>);

impl Write for Manifest {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.0.len() > LONGEST_MANIFEST_BYTES {
            return Err(io::Error::other("this is no manifest"));
        }
        self.0.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How much of a snapshot is here, over all of its files.
#[derive(Clone, Default)]
pub(super) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads an object into a file, which is synced at the end. What a failed try has added to `progress` is
/// taken back. With the outcome comes what the disk said, if it failed.
pub(super) fn download(
    store: &dyn ObjectStore,
    key: &str,
    file: File,
    wanted: &Wanted,
    progress: &Progress,
) -> (DownloadOutcome, Option<io::Error>) {
    let mut sink = Sink { file, wanted, progress, hasher: Sha256::new(), bytes: 0, failure: None };
    let fetched = store.read_into(key, &mut sink);
    let outcome = match fetched {
        // Where the damage is, its checksum tells whoever knows the right one.
        FetchOutcome::Done { .. } | FetchOutcome::Damaged => match sink.file.sync_all() {
            Ok(()) => {
                let checksum = Checksum(sink.hasher.clone().finalize().into());
                let outcome = DownloadOutcome::Stored { size_bytes: sink.bytes, checksum };
                sink.bytes = 0;
                return (outcome, None);
            }
            Err(error) => {
                sink.failure = Some(error);
                DownloadOutcome::LocalFailure
            }
        },
        FetchOutcome::Missing => DownloadOutcome::Missing,
        FetchOutcome::Transient { retry_after_ms } => DownloadOutcome::Transient { retry_after_ms },
        FetchOutcome::Permanent => DownloadOutcome::Permanent,
        FetchOutcome::LocalFailure => DownloadOutcome::LocalFailure,
    };
    let failure = sink.failure.take();
    (outcome, failure)
}

struct Sink<'a> {
    file: File,
    wanted: &'a Wanted,
    progress: &'a Progress,
    hasher: Sha256,
    bytes: u64,
    failure: Option<io::Error>,
}

impl Write for Sink<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.wanted.check()?;
        let written = self.file.write(buffer).map_err(|error| {
            let told = io::Error::from(error.kind());
            self.failure = Some(error);
            told
        })?;
        self.hasher.update(&buffer[..written]);
        self.bytes += written as u64;
        self.progress.0.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        self.progress.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
