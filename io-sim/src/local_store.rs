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
    digest: u64,
    end: LogEnd,
    flushed: Records,
    flushed_digest: u64,
    flushed_end: LogEnd,
    since_flush: VecDeque<(LogEnd, Vec<Change>)>,
    is_of_another_log: bool,
}

impl LocalStore {
    /// What a checkpoint was made of.
    #[must_use]
    pub fn restored(records: Records, end: LogEnd) -> Self {
        let digest = digest_of(&records);
        Self {
            flushed: records.clone(),
            flushed_digest: digest,
            flushed_end: end,
            records,
            digest,
            end,
            since_flush: VecDeque::new(),
            is_of_another_log: false,
        }
    }

    /// A store that was made from another log, and holds what this one never said.
    #[must_use]
    pub fn of_another_log(end: LogEnd) -> Self {
        let records = Records::from([(b"\xffanother log".to_vec(), b"1".to_vec())]);
        Self { is_of_another_log: true, ..Self::restored(records, end) }
    }

    /// Whether it is of another log, for those who check.
    #[must_use]
    pub const fn is_of_another_log(&self) -> bool {
        self.is_of_another_log
    }

    /// Applies one entry, or several in one batch, whole.
    pub fn apply(&mut self, end: LogEnd, changes: Vec<Change>) {
        assert!(end.position > self.end.position, "entries are applied in order, each once");
        apply_to(&mut self.records, &mut self.digest, &changes);
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
        self.digest = self.flushed_digest;
        self.end = self.flushed_end;
    }

    /// The newest entry applied.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// Equal for equal keys and values, however they came about.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The applied state.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    fn flush_up_to(&mut self, count: usize) {
        for (end, changes) in self.since_flush.drain(..count) {
            apply_to(&mut self.flushed, &mut self.flushed_digest, &changes);
            self.flushed_end = end;
        }
    }
}

/// A local store that outlives the engine which reads it.
#[derive(Clone, Debug, Default)]
pub struct SharedStore(Rc<RefCell<LocalStore>>);

impl SharedStore {
    /// Of this store.
    #[must_use]
    pub fn new(store: LocalStore) -> Self {
        Self(Rc::new(RefCell::new(store)))
    }

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

/// Applies the changes of one entry, in order, and keeps the digest of the records up to date.
pub fn apply_to(records: &mut Records, digest: &mut u64, changes: &[Change]) {
    for Change { key, value } in changes {
        let old = match value {
            Some(value) => {
                *digest = digest.wrapping_add(digest_of_record(key, value));
                records.insert(key.clone(), value.clone())
            }
            None => records.remove(key),
        };
        if let Some(old) = old {
            *digest = digest.wrapping_sub(digest_of_record(key, &old));
        }
    }
}

fn digest_of(records: &Records) -> u64 {
    records.iter().fold(0, |sum, (key, value)| sum.wrapping_add(digest_of_record(key, value)))
}

fn digest_of_record(key: &[u8], value: &[u8]) -> u64 {
    mixed(hash_of(key), hash_of(value))
}

/// A hash of these bytes: equal on every machine, of no use against an adversary.
#[must_use]
pub fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        hash = mixed(hash, u64::from_le_bytes(chunk.try_into().expect("8 bytes")));
    }
    let mut last = [0; 8];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    mixed(hash, u64::from_le_bytes(last))
}

fn mixed(hash: u64, number: u64) -> u64 {
    let product = u128::from(hash ^ number) * u128::from(0xa076_1d64_78bd_642f_u64);
    let folded = u64::try_from((product >> 64) ^ (product & u128::from(u64::MAX)));
    folded.expect("both halves have 64 bits") ^ hash.rotate_left(32)
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
    fn equal_records_have_equal_digests_however_they_came_about() {
        let (mut one, mut other) = (LocalStore::default(), LocalStore::default());
        one.apply(end(1), set(1));
        one.apply(end(2), set(2));
        other.apply(end(1), set(2));
        assert_eq!(one.digest(), other.digest());
        one.apply(end(3), vec![Change { key: b"k".to_vec(), value: None }]);
        assert_eq!(one.digest(), LocalStore::default().digest());
        assert_ne!(other.digest(), one.digest());
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
