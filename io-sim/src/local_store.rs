//! The local store in memory: the applied state, which a crash takes back to an older entry.
//!
//! Like RocksDB without its own log, it knows the position and chain of the newest entry it has
//! applied, and after a crash it stands at some entry between the last flush and the newest one. It
//! never holds part of an entry.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};

use std::ops::Bound;
use std::rc::Rc;

use dexzd_core::engine::{Change, StateRead};
use dexzd_core::log::LogEnd;

use crate::dice::{Dice, Stream};

/// Keys and values, in order.
pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// The applied state of one process.
#[derive(Clone, Debug, Default)]
pub struct LocalStore {
    records: Records,
    end: LogEnd,
    flushed: Records,
    flushed_end: LogEnd,
    since_flush: VecDeque<(LogEnd, Vec<Change>)>,
}

impl LocalStore {
    /// Applies one entry, or several in one batch, whole.
    pub fn apply(&mut self, end: LogEnd, changes: Vec<Change>) {
        assert!(end.position > self.end.position, "entries are applied in order, each once");
        apply_to(&mut self.records, &changes);
        self.end = end;
        self.since_flush.push_back((end, changes));
    }

    /// Everything applied so far survives crashes from now on.
    pub fn flush(&mut self) {
        self.flush_up_to(self.since_flush.len());
    }

    /// The process dies: a random number of the newest entries has to be applied again.
    pub fn crash(&mut self, dice: &mut Dice) {
        let unflushed = self.since_flush.len() as u64;
        let lost = dice.below(Stream::Crash, "unapplied", unflushed + 1);
        self.flush_up_to(usize::try_from(unflushed - lost).expect("it counts what is in memory"));
        self.since_flush.clear();
        self.records.clone_from(&self.flushed);
        self.end = self.flushed_end;
    }

    /// The newest entry applied.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// The applied state.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    fn flush_up_to(&mut self, count: usize) {
        for (end, changes) in self.since_flush.drain(..count) {
            apply_to(&mut self.flushed, &changes);
            self.flushed_end = end;
        }
    }
}

/// A local store that outlives the engine which reads it.
#[derive(Clone, Debug, Default)]
pub struct SharedStore(Rc<RefCell<LocalStore>>);

impl SharedStore {
    /// To change it, while nobody reads.
    #[must_use]
    pub fn borrow_mut(&self) -> RefMut<'_, LocalStore> {
        self.0.borrow_mut()
    }

    /// To look at it.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, LocalStore> {
        self.0.borrow()
    }
}

impl StateRead for SharedStore {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.borrow().get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.borrow().scan(from, to, visit);
    }
}

impl StateRead for LocalStore {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.records.get(key).cloned()
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        if from >= to {
            return;
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        for (key, value) in self.records.range::<[u8], _>(range) {
            if !visit(key, value) {
                return;
            }
        }
    }
}

/// Applies the changes of one entry, in order.
pub fn apply_to(records: &mut Records, changes: &[Change]) {
    for change in changes {
        match &change.value {
            Some(value) => {
                records.insert(change.key.clone(), value.clone());
            }
            None => {
                records.remove(&change.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LocalStore;
    use crate::dice::Dice;
    use dexzd_core::engine::Change;
    use dexzd_core::ids::Position;
    use dexzd_core::log::{Chain, LogEnd};

    fn end(position: u64) -> LogEnd {
        LogEnd { position: Position(position), chain: Chain([u8::try_from(position).expect("few"); 32]) }
    }

    fn set(value: u8) -> Vec<Change> {
        vec![Change { key: b"k".to_vec(), value: Some(vec![value]) }]
    }

    #[test]
    fn a_crash_goes_back_to_an_entry_not_before_the_last_flush() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut store = LocalStore::default();
            for position in 1..=2 {
                store.apply(end(position), set(u8::try_from(position).expect("few")));
            }
            store.flush();
            for position in 3..=4 {
                store.apply(end(position), set(u8::try_from(position).expect("few")));
            }
            store.crash(&mut Dice::from_seed(seed));
            let position = store.end().position.0;
            assert_eq!(store.end(), end(position), "the chain goes with the position");
            assert_eq!(u64::from(store.records()[&b"k".to_vec()][0]), position);
            seen.insert(position);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn nothing_lost_goes_on_where_it_was() {
        let mut store = LocalStore::default();
        store.apply(end(1), set(1));
        store.flush();
        store.crash(&mut Dice::from_seed(1));
        store.apply(end(2), vec![Change { key: b"k".to_vec(), value: None }]);
        assert!(store.records().is_empty());
    }
}
