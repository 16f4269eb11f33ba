//! Requests about snapshots, and about the log by whoever trims it: small ones, in the core's classes.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use dexzd_core::ids::{Epoch, Position};
use dexzd_core::log::EntryKind;
use dexzd_core::snapshot::{DeleteOutcome, EntryList, SnapshotList, SnapshotObject, StoredFile};
use dexzd_core::store::ReadOutcome;

use crate::log::{entry_key, log_prefix, position_of};
use crate::store::{self, ObjectStore, SizedListOutcome};

/// So many keys are asked for at a time; the client of a store makes pages of them.
const KEYS_AT_ONCE: usize = 10_000;
/// Entries read at the same time when the log is trimmed past an older epoch's: a thousand within seconds.
const READS_AT_ONCE: usize = 16;

/// The keys of a node's snapshots begin with this.
pub(super) fn snapshot_prefix(node_id: &str) -> String {
    format!("{node_id}/snapshots/")
}

pub(super) fn snapshot_key(node_id: &str, object: SnapshotObject) -> String {
    snapshot_prefix(node_id) + &object.key()
}

/// All snapshot objects. What is none of them is left alone and out.
pub(super) fn list_snapshots(store: &dyn ObjectStore, node_id: &str) -> SnapshotList {
    let prefix = snapshot_prefix(node_id);
    let (mut manifests, mut files) = (Vec::new(), Vec::new());
    let mut after = String::new();
    loop {
        let page = match store.list_sized_after(&prefix, &after, KEYS_AT_ONCE) {
            SizedListOutcome::Found(page) => page,
            SizedListOutcome::Transient => return SnapshotList::Transient { retry_after_ms: None },
            SizedListOutcome::Permanent => return SnapshotList::Permanent,
            SizedListOutcome::LocalFailure => return SnapshotList::LocalFailure,
        };
        for object in &page {
            match object.key.strip_prefix(&prefix).and_then(SnapshotObject::parse) {
                Some(SnapshotObject::Manifest(name)) => manifests.push(name),
                Some(SnapshotObject::File(name)) => {
                    files.push(StoredFile { name, size_bytes: object.size_bytes });
                }
                None => {}
            }
        }
        match page.into_iter().nth(KEYS_AT_ONCE - 1) {
            Some(last) => after = last.key,
            None => return SnapshotList::All { manifests, files },
        }
    }
}

/// What snapshots say when the lease is missing beside them (D-49).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundSnapshots {
    /// The highest epoch that any object names; none if there is no object.
    pub highest_epoch: Option<Epoch>,
    /// The position of the newest manifest, if there is one.
    pub newest_manifest: Option<Position>,
}

/// Lists all snapshot objects of a node. None: they cannot be listed now.
#[must_use]
pub fn look_for_snapshots(store: &dyn ObjectStore, node_id: &str) -> Option<FoundSnapshots> {
    match list_snapshots(store, node_id) {
        SnapshotList::All { manifests, files } => {
            let epochs = manifests.iter().map(|name| name.epoch);
            Some(FoundSnapshots {
                highest_epoch: epochs.chain(files.iter().map(|file| file.name.epoch)).max(),
                newest_manifest: manifests.iter().map(|name| name.position).max(),
            })
        }
        SnapshotList::Transient { .. } | SnapshotList::Permanent | SnapshotList::LocalFailure => None,
    }
}

/// The lowest positions between two that have an entry.
pub(super) fn list_entries(
    store: &dyn ObjectStore,
    node_id: &str,
    after: Position,
    below: Position,
    at_most: u32,
) -> EntryList {
    let prefix = log_prefix(node_id);
    let at_most = usize::try_from(at_most).expect("a thousand");
    let mut positions = Vec::new();
    let mut after = entry_key(&prefix, after);
    while positions.len() < at_most {
        let wanted = at_most - positions.len();
        let keys = match store.list_after(&prefix, &after, wanted) {
            store::ListOutcome::Found(keys) => keys,
            store::ListOutcome::Transient => return EntryList::Transient { retry_after_ms: None },
            // A folder store whose disk fails says so to whoever writes the log.
            store::ListOutcome::Permanent | store::ListOutcome::LocalFailure => return EntryList::Permanent,
        };
        let is_last = keys.len() < wanted;
        for key in &keys {
            match position_of(&prefix, key) {
                Some(position) if position >= below => return EntryList::Positions(positions),
                Some(position) => positions.push(position),
                // Somebody else's object in our folder.
                None => {}
            }
        }
        match keys.into_iter().next_back() {
            Some(last) if !is_last => after = last,
            Some(_) | None => break,
        }
    }
    EntryList::Positions(positions)
}

/// What these entries are, and whether all others of them are missing.
pub(super) fn inspect_entries(
    store: &dyn ObjectStore,
    node_id: &str,
    positions: &[Position],
) -> (Vec<(Position, EntryKind)>, bool) {
    let prefix = log_prefix(node_id);
    let next = AtomicUsize::new(0);
    let found = Mutex::new((Vec::new(), true));
    let work = || {
        while let Some(&position) = positions.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = store.read(&entry_key(&prefix, position));
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                ReadOutcome::Found { body, .. } => found.0.push((position, EntryKind::of(&body, node_id))),
                ReadOutcome::Missing => {}
                ReadOutcome::Transient { .. } | ReadOutcome::Permanent | ReadOutcome::LocalFailure => {
                    found.1 = false;
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..READS_AT_ONCE.min(positions.len()) {
            // Out of threads for the moment: the rest does it.
            let _ = thread::Builder::new().name("dexzd-inspect".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    let (mut kinds, is_complete) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    kinds.sort_unstable_by_key(|(position, _)| *position);
    (kinds, is_complete)
}

/// Deletes objects that nobody will ever name again: `first` before anything of `then` (D-46).
pub(super) fn delete(store: &dyn ObjectStore, first: &[String], then: &[String]) -> DeleteOutcome {
    for keys in [first, then] {
        match store.forget_all(keys) {
            store::DeleteOutcome::Done => {}
            store::DeleteOutcome::Transient => return DeleteOutcome::Transient { retry_after_ms: None },
            store::DeleteOutcome::Permanent | store::DeleteOutcome::LocalFailure => {
                return DeleteOutcome::Permanent;
            }
        }
    }
    DeleteOutcome::Done
}
