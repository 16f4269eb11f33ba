//! Objects that are too large to be held in memory twice: read as they arrive, written in parts.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use dexzd_core::store::{Version, WriteOutcome};
use object_store::{GetOptions, MultipartUpload, ObjectStoreExt as _, PutMode, PutPayload};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;

use super::class::{Class, Operation};
use super::transport::BODY_LIMIT;
use super::{CloudStore, Failed, Failure, NO_VERSION, written};
use crate::store::FetchOutcome;

/// Up to this an object is written by one request, which is conditional. Tables of a local store are smaller.
const ONE_REQUEST_BYTES: u64 = 64 << 20;
/// Every store takes parts of this size, ten thousand of them at least: 160 GB.
const PART_BYTES: usize = 16 << 20;
/// Pieces that have arrived and are not written to the disk yet.
const PIECES_AHEAD: usize = 8;

type Upload = Arc<Mutex<Box<dyn MultipartUpload>>>;

/// Why an upload did not end well.
enum Cut {
    /// The content could not be read.
    Content,
    Store(Failure),
}

impl CloudStore {
    pub(super) fn create_large(
        &self,
        key: &str,
        size_bytes: u64,
        content: &mut (dyn Read + Send),
    ) -> WriteOutcome {
        let result = if size_bytes <= ONE_REQUEST_BYTES {
            piece_of(content, size_bytes)
                .and_then(|body| self.put(key, body, PutMode::Create).map_err(Cut::Store))
        } else {
            self.create_in_parts(key, size_bytes, content)
        };
        match result {
            Ok(version) => written(Ok(version)),
            Err(Cut::Content) => WriteOutcome::LocalFailure,
            Err(Cut::Store(failure)) => written(Err(failure)),
        }
    }

    fn create_in_parts(
        &self,
        key: &str,
        size_bytes: u64,
        content: &mut (dyn Read + Send),
    ) -> Result<Version, Cut> {
        let path = self.path(key).map_err(Cut::Store)?;
        let begun = self.perform(Operation::Write, key, move |backend| async move {
            Ok(backend.put_multipart(&path).await?)
        });
        let upload: Upload = Arc::new(Mutex::new(begun.map_err(Cut::Store)?));
        let result = self.send_parts(key, &upload, size_bytes, content);
        if result.is_err() {
            // Parts that stay are no object; a rule of the bucket should delete them some day.
            let _ = self.perform(Operation::Delete, key, move |_| async move {
                Ok(upload.lock().await.abort().await?)
            });
        }
        result
    }

    fn send_parts(
        &self,
        key: &str,
        upload: &Upload,
        size_bytes: u64,
        content: &mut (dyn Read + Send),
    ) -> Result<Version, Cut> {
        let mut left = size_bytes;
        while left > 0 {
            let part = piece_of(content, left.min(PART_BYTES as u64))?;
            left -= part.len() as u64;
            let upload = Arc::clone(upload);
            self.perform(Operation::Write, key, move |_| async move {
                let sent = upload.lock().await.put_part(PutPayload::from(part));
                Ok(sent.await?)
            })
            .map_err(Cut::Store)?;
        }
        let (upload, versions) = (Arc::clone(upload), self.versions());
        self.perform(Operation::Write, key, move |_| async move {
            let put = upload.lock().await.complete().await?;
            versions(put.e_tag, put.version).ok_or(Failed::Library(NO_VERSION.to_owned()))
        })
        .map_err(Cut::Store)
    }

    pub(super) fn read_large(&self, key: &str, sink: &mut (dyn Write + Send)) -> FetchOutcome {
        let (pieces, mut arriving) = mpsc::channel(PIECES_AHEAD);
        thread::scope(|scope| {
            let asked = thread::Builder::new()
                .name("dexzd-fetch".to_owned())
                .spawn_scoped(scope, move || self.send_pieces(key, pieces));
            let Ok(asked) = asked else {
                // Out of threads for the moment.
                return FetchOutcome::Transient { retry_after_ms: None };
            };
            let mut size_bytes = 0;
            while let Some(piece) = arriving.blocking_recv() {
                if sink.write_all(&piece).is_err() {
                    // Without a receiver the rest is not waited for.
                    drop(arriving);
                    return FetchOutcome::LocalFailure;
                }
                size_bytes += piece.len() as u64;
            }
            match asked.join().expect("a request answers and does not panic") {
                Ok(()) => FetchOutcome::Done { size_bytes },
                Err(Failure { class: Class::Missing, .. }) => FetchOutcome::Missing,
                Err(Failure { class: Class::Permanent, .. }) => FetchOutcome::Permanent,
                Err(Failure { class: Class::Refused | Class::Transient, retry_after_ms, .. }) => {
                    FetchOutcome::Transient { retry_after_ms }
                }
            }
        })
    }

    fn send_pieces(&self, key: &str, pieces: mpsc::Sender<Bytes>) -> Result<(), Failure> {
        let path = self.path(key)?;
        self.perform(Operation::Read, key, move |backend| async move {
            let got = backend.get_opts(&path, GetOptions::default()).await?;
            let (size, mut came) = (got.meta.size, 0);
            let mut stream = got.into_stream();
            loop {
                let piece = match timeout(BODY_LIMIT, stream.next()).await {
                    Ok(Some(Ok(piece))) => piece,
                    Ok(Some(Err(error))) => return Err(Failed::Body(error.to_string())),
                    Ok(None) => break,
                    Err(_) => return Err(Failed::Body("it brought nothing for 30 s".to_owned())),
                };
                came += piece.len() as u64;
                if pieces.send(piece).await.is_err() {
                    return Ok(());
                }
            }
            if came == size { Ok(()) } else { Err(Failed::Body(format!("{came} of {size} bytes came"))) }
        })
    }
}

/// The next bytes of a content, all of them.
fn piece_of(content: &mut (dyn Read + Send), bytes: u64) -> Result<Bytes, Cut> {
    let size = usize::try_from(bytes).expect("it is at most 64 MB");
    let mut piece = Vec::with_capacity(size);
    match content.take(bytes).read_to_end(&mut piece) {
        Ok(read) if read == size => Ok(Bytes::from(piece)),
        Ok(_) | Err(_) => Err(Cut::Content),
    }
}
