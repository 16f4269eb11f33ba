//! One object per entry: wherever several processes can reach the log.

use std::sync::Arc;

use dexzd_core::ids::{Blob, Position};
use dexzd_core::log::{Entry, EntryBody, ListOutcome, ReadEnd};
use dexzd_core::store::{ReadOutcome, WriteOutcome};

use super::{LogStore, TrimOutcome, no_version};
use crate::store::{self, DeleteOutcome, ObjectStore};

/// So many keys are listed at a time when trimming.
const LIST_KEYS: usize = 1_000;

/// Entries at `{nodeId}/log/{position}`. The position has 20 digits, so that keys sort like numbers.
pub struct ObjectLog {
    store: Arc<dyn ObjectStore>,
    node_id: String,
    prefix: String,
    /// Everything up to this key was trimmed or is a fence that stays.
    trimmed: String,
}

impl ObjectLog {
    /// The log of a node in a store.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, node_id: &str) -> Self {
        Self { store, node_id: node_id.to_owned(), prefix: log_prefix(node_id), trimmed: String::new() }
    }

    fn key(&self, position: Position) -> String {
        entry_key(&self.prefix, position)
    }

    /// None: not a key of ours.
    fn position(&self, key: &str) -> Option<Position> {
        position_of(&self.prefix, key)
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
    fn read(&mut self, from: Position, at_most: u32, at_most_bytes: u64) -> (Vec<Blob>, ReadEnd) {
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut position = from;
        for _ in 0..at_most {
            let body = match self.store.read(&self.key(position)) {
                ReadOutcome::Found { body, .. } => body,
                ReadOutcome::Missing => return (entries, ReadEnd::Missing),
                ReadOutcome::Transient { retry_after_ms } => {
                    return (entries, ReadEnd::Transient { retry_after_ms });
                }
                ReadOutcome::Permanent => return (entries, ReadEnd::Permanent),
                ReadOutcome::LocalFailure => return (entries, ReadEnd::LocalFailure),
            };
            bytes += body.len() as u64;
            if bytes > at_most_bytes && !entries.is_empty() {
                break;
            }
            entries.push(body);
            position = position.next();
        }
        (entries, ReadEnd::Full)
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
