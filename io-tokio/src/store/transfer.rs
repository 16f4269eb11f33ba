//! What a store does about large objects and about many, where it has nothing better of its own.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use dexzd_core::store::{ReadOutcome, WriteOutcome};

use super::{DeleteOutcome, FetchOutcome, ObjectStore};

/// Deletions on their way at the same time: a thousand of them take seconds where one takes 50 ms.
const DELETES_AT_ONCE: usize = 16;

pub(super) fn create_whole<S: ObjectStore + ?Sized>(
    store: &S,
    key: &str,
    size_bytes: u64,
    content: &mut (dyn Read + Send),
) -> WriteOutcome {
    let Ok(size) = usize::try_from(size_bytes) else {
        return WriteOutcome::Permanent;
    };
    let mut body = Vec::with_capacity(size);
    match content.take(size_bytes).read_to_end(&mut body) {
        Ok(read) if read == size => store.create(key, &body),
        Ok(_) | Err(_) => WriteOutcome::LocalFailure,
    }
}

pub(super) fn read_whole<S: ObjectStore + ?Sized>(
    store: &S,
    key: &str,
    sink: &mut (dyn Write + Send),
) -> FetchOutcome {
    match store.read(key) {
        ReadOutcome::Found { body, .. } => match sink.write_all(&body) {
            Ok(()) => FetchOutcome::Done { size_bytes: body.len() as u64 },
            Err(_) => FetchOutcome::LocalFailure,
        },
        ReadOutcome::Missing => FetchOutcome::Missing,
        ReadOutcome::Transient { retry_after_ms } => FetchOutcome::Transient { retry_after_ms },
        ReadOutcome::Permanent => FetchOutcome::Permanent,
        ReadOutcome::LocalFailure => FetchOutcome::LocalFailure,
    }
}

pub(super) fn forget_each<S: ObjectStore + ?Sized>(store: &S, keys: &[String]) -> DeleteOutcome {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = store.forget(key);
            if outcome != DeleteOutcome::Done {
                return outcome;
            }
        }
        DeleteOutcome::Done
    };
    let threads = DELETES_AT_ONCE.min(keys.len());
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            // Out of threads for the moment: the rest does it.
            .filter_map(|_| {
                thread::Builder::new().name("dexzd-delete".to_owned()).spawn_scoped(scope, work).ok()
            })
            .collect();
        let own = work();
        let ends = others.into_iter().map(|other| other.join().expect("a store answers and does not panic"));
        std::iter::once(own).chain(ends).fold(DeleteOutcome::Done, worse)
    })
}

const fn worse(one: DeleteOutcome, other: DeleteOutcome) -> DeleteOutcome {
    match (one, other) {
        (DeleteOutcome::LocalFailure, _) | (_, DeleteOutcome::LocalFailure) => DeleteOutcome::LocalFailure,
        (DeleteOutcome::Permanent, _) | (_, DeleteOutcome::Permanent) => DeleteOutcome::Permanent,
        (DeleteOutcome::Transient, _) | (_, DeleteOutcome::Transient) => DeleteOutcome::Transient,
        (DeleteOutcome::Done, DeleteOutcome::Done) => DeleteOutcome::Done,
    }
}
