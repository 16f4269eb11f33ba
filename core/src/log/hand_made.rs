//! A log made by hand, for tests.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use super::entry::{Entry, EntryBody, LogEnd, Origin};
use crate::engine::Change;
use crate::ids::{Blob, Epoch, Name, Position, ProcessId};
use crate::time::Timestamp;

pub(crate) const NODE: &str = "orders";
pub(crate) const OWN: (u64, u128) = (5, 50);

pub(crate) fn origin((epoch, process): (u64, u128)) -> Origin {
    Origin { node_id: Name::new(NODE), process_id: ProcessId(process), epoch: Epoch(epoch) }
}

pub(crate) fn changes(key: u64) -> Vec<Change> {
    vec![Change { key: key.to_be_bytes().to_vec(), value: None }]
}

pub(crate) fn fence(lease_duration_ms: u64) -> EntryBody {
    EntryBody::Fence { lease_duration_ms }
}

/// A log in memory, made by hand.
#[derive(Clone, Default)]
pub(crate) struct Log {
    pub(crate) entries: BTreeMap<u64, Blob>,
    pub(crate) end: LogEnd,
}

impl Log {
    /// Appends an entry whose time is its position in milliseconds.
    pub(crate) fn push(&mut self, writer: (u64, u128), body: EntryBody) -> &mut Self {
        let position = self.end.position.next();
        let entry = Entry {
            origin: origin(writer),
            position,
            nonce: 1,
            time: Timestamp::from_millis(position.0),
            previous: self.end.chain,
            body,
        };
        let (bytes, chain) = entry.encode();
        self.entries.insert(position.0, bytes);
        self.end = LogEnd { position, chain };
        self
    }

    /// A fence and so many entries of one epoch. Each entry changes the key of its position.
    pub(crate) fn epoch(&mut self, writer: (u64, u128), entries: u64) -> &mut Self {
        self.push(writer, fence(30_000));
        for _ in 0..entries {
            let position = self.end.position.next().0;
            self.push(writer, EntryBody::Changes(changes(position)));
        }
        self
    }

    pub(crate) fn end_at(&self, position: u64) -> LogEnd {
        let bytes = &self.entries[&position];
        let (_, chain) = Entry::decode(bytes, NODE).expect("made above");
        LogEnd { position: Position(position), chain }
    }
}

/// Two epochs: fences at 1 and 4, changes at 2, 3, 5, 6.
pub(crate) fn two_epochs() -> Log {
    let mut log = Log::default();
    log.epoch((1, 10), 2).epoch((2, 20), 2);
    log
}
