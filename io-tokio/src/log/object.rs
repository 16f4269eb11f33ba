//! One object per entry: wherever several processes can reach the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use dexzd_core::ids::{Blob, Position};
use dexzd_core::log::{Entry, EntryBody, ListOutcome, ReadEnd};
use dexzd_core::store::{ReadOutcome, WriteOutcome};

use super::{LogStore, TrimOutcome, no_version};
use crate::clock::Clock;
use crate::store::{self, DeleteOutcome, ObjectStore};

/// So many keys are listed at a time when trimming.
const LIST_KEYS: usize = 1_000;
/// So many entries are read beside one another at most: enough that a standby which begins far behind is not
/// bound by the latency of the store, and few enough that a bucket does not throttle it.
const READ_AHEAD: usize = 32;
/// A store that answers faster is read by one thread: starting others costs as much.
const WORTH_A_THREAD: Duration = Duration::from_millis(1);
/// A range ends after this with what it has: long before whoever asked for it gives it up.
const RANGE_LIMIT: Duration = Duration::from_secs(2);

/// Entries at `{nodeId}/log/{position}`. The position has 20 digits, so that keys sort like numbers.
#[derive(Clone)]
pub struct ObjectLog {
    store: Arc<dyn ObjectStore>,
    node_id: String,
    prefix: String,
    /// Everything up to this key was trimmed or is a fence that stays.
    trimmed: String,
    /// So many entries are read beside one another next. It grows with every hit of a slow store.
    ahead: Arc<AtomicUsize>,
    /// For how long requests take; nothing else depends on it.
    clock: Arc<Clock>,
}

impl ObjectLog {
    /// The log of a node in a store.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, node_id: &str) -> Self {
        Self {
            store,
            node_id: node_id.to_owned(),
            prefix: log_prefix(node_id),
            trimmed: String::new(),
            ahead: Arc::new(AtomicUsize::new(1)),
            clock: Arc::new(Clock::new()),
        }
    }

    fn key(&self, position: Position) -> String {
        entry_key(&self.prefix, position)
    }

    /// None: not a key of ours.
    fn position(&self, key: &str) -> Option<Position> {
        position_of(&self.prefix, key)
    }

    /// What stands at so many positions, in their order.
    fn read_beside(&self, from: Position, count: usize) -> Vec<ReadOutcome> {
        let read = |position: u64| self.store.read(&self.key(Position(position)));
        if count == 1 {
            return vec![read(from.0)];
        }
        thread::scope(|scope| {
            let positions = (from.0 + 1)..(from.0 + count as u64);
            let others: Vec<_> = positions
                .map(|position| {
                    thread::Builder::new()
                        .name("dexzd-log-read".to_owned())
                        .spawn_scoped(scope, move || read(position))
                })
                .collect();
            let mut outcomes = vec![read(from.0)];
            // Without a thread it is as if the store had not answered: what comes before it counts.
            outcomes.extend(others.into_iter().map(|other| match other.map(|thread| thread.join()) {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(_) => ReadOutcome::Transient { retry_after_ms: None },
            }));
            outcomes
        })
    }

    /// Whether the object is an entry that may go: fences and what cannot be read stay (D-30).
    fn may_go(&self, key: &str) -> Result<bool, TrimOutcome> {
        match self.store.read(key) {
            ReadOutcome::Found { body, .. } => Ok(match Entry::decode(&body, &self.node_id) {
                Ok((entry, _)) => match entry.body {
                    EntryBody::Changes(_) => true,
                    EntryBody::Fence { .. } => false,
                },
                Err(_) => false,
            }),
            ReadOutcome::Missing => Ok(false),
            ReadOutcome::Transient { .. } => Err(TrimOutcome::Transient),
            ReadOutcome::Permanent => Err(TrimOutcome::Permanent),
            ReadOutcome::LocalFailure => Err(TrimOutcome::LocalFailure),
        }
    }

    fn trim(&mut self, below: Position) -> Result<u64, TrimOutcome> {
        let mut deleted = 0;
        loop {
            let keys = match self.store.list_after(&self.prefix, &self.trimmed, LIST_KEYS) {
                store::ListOutcome::Found(keys) => keys,
                store::ListOutcome::Transient => return Err(TrimOutcome::Transient),
                store::ListOutcome::Permanent => return Err(TrimOutcome::Permanent),
                store::ListOutcome::LocalFailure => return Err(TrimOutcome::LocalFailure),
            };
            if keys.is_empty() {
                return Ok(deleted);
            }
            for key in keys {
                match self.position(&key) {
                    Some(position) if position >= below => return Ok(deleted),
                    Some(_) if self.may_go(&key)? => {
                        match self.store.delete(&key) {
                            DeleteOutcome::Done => deleted += 1,
                            DeleteOutcome::Transient => return Err(TrimOutcome::Transient),
                            DeleteOutcome::Permanent => return Err(TrimOutcome::Permanent),
                            DeleteOutcome::LocalFailure => return Err(TrimOutcome::LocalFailure),
                        };
                    }
                    Some(_) | None => {}
                }
                self.trimmed = key;
            }
        }
    }
}

/// The keys of a node's entries begin with this.
pub(crate) fn log_prefix(node_id: &str) -> String {
    format!("{node_id}/log/")
}

/// The object of an entry.
pub(crate) fn entry_key(prefix: &str, position: Position) -> String {
    format!("{prefix}{:020}", position.0)
}

/// The entry of an object. None: it is none.
pub(crate) fn position_of(prefix: &str, key: &str) -> Option<Position> {
    let digits = key.strip_prefix(prefix)?;
    let number = digits.parse().ok()?;
    (digits.len() == 20).then_some(Position(number))
}

impl LogStore for ObjectLog {
    /// Reads beside one another count up to the first that misses its entry: a later one may have been written
    /// meanwhile.
    fn read(&mut self, from: Position, at_most: u32, at_most_bytes: u64) -> (Vec<Blob>, ReadEnd) {
        let begun = self.clock.now().instant;
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut largest = 1;
        while entries.len() < at_most as usize {
            let asked_at = self.clock.now().instant;
            let room = usize::try_from((at_most_bytes - bytes) / largest).unwrap_or(usize::MAX).max(1);
            let ahead =
                self.ahead.load(Ordering::Relaxed).clamp(1, room.min(at_most as usize - entries.len()));
            for outcome in self.read_beside(Position(from.0 + entries.len() as u64), ahead) {
                let ReadOutcome::Found { body, .. } = outcome else {
                    // The end is near: whoever follows asks for one entry at a time there.
                    self.ahead.store(1, Ordering::Relaxed);
                    return (entries, end_of(&outcome));
                };
                bytes += body.len() as u64;
                if bytes > at_most_bytes && !entries.is_empty() {
                    return (entries, ReadEnd::Full);
                }
                largest = largest.max(body.len() as u64);
                entries.push(body);
            }
            let now = self.clock.now().instant;
            let is_slow = now.saturating_since(asked_at) >= WORTH_A_THREAD;
            self.ahead.store(if is_slow { (2 * ahead).min(READ_AHEAD) } else { 1 }, Ordering::Relaxed);
            if bytes >= at_most_bytes || now.saturating_since(begun) >= RANGE_LIMIT {
                break;
            }
        }
        (entries, ReadEnd::Full)
    }

    fn fork(&self) -> Option<Box<dyn LogStore>> {
        Some(Box::new(self.clone()))
    }

    fn append(&mut self, position: Position, entry: &[u8]) -> WriteOutcome {
        self.store.create(&self.key(position), entry)
    }

    fn first_after(&mut self, position: Position) -> ListOutcome {
        let mut after = self.key(position);
        loop {
            let keys = match self.store.list_after(&self.prefix, &after, 1) {
                store::ListOutcome::Found(keys) => keys,
                store::ListOutcome::Transient => return ListOutcome::Transient { retry_after_ms: None },
                store::ListOutcome::Permanent => return ListOutcome::Permanent,
                store::ListOutcome::LocalFailure => return ListOutcome::LocalFailure,
            };
            let Some(key) = keys.into_iter().next() else {
                return ListOutcome::First(None);
            };
            if let Some(position) = self.position(&key) {
                return ListOutcome::First(Some(position));
            }
            // Somebody else's object in our folder: not an entry.
            after = key;
        }
    }

    fn trim_below(&mut self, position: Position) -> TrimOutcome {
        match self.trim(position) {
            Ok(deleted) => TrimOutcome::Done { deleted },
            Err(outcome) => outcome,
        }
    }

    /// An object store acknowledges what it has made durable: there is nothing to add.
    fn sync(&mut self) -> WriteOutcome {
        WriteOutcome::Done { version: no_version() }
    }

    fn name(&self) -> String {
        format!("{}, one object per entry under {}", self.store.name(), self.prefix)
    }
}

/// Why a range ends where this was read.
fn end_of(outcome: &ReadOutcome) -> ReadEnd {
    match outcome {
        ReadOutcome::Found { .. } => ReadEnd::Full,
        ReadOutcome::Missing => ReadEnd::Missing,
        ReadOutcome::Transient { retry_after_ms } => ReadEnd::Transient { retry_after_ms: *retry_after_ms },
        ReadOutcome::Permanent => ReadEnd::Permanent,
        ReadOutcome::LocalFailure => ReadEnd::LocalFailure,
    }
}
