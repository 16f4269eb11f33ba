//! A map that remembers which of its entries changed, so that saving writes those and nothing else.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::RangeInclusive;

#[derive(Debug)]
pub(super) struct Tracked<K, V> {
    entries: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

impl<K, V> Default for Tracked<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V> Tracked<K, V> {
    /// Adds an entry that stands in the store already.
    pub(super) fn load(&mut self, key: K, value: V) {
        self.entries.insert(key, value);
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let value = self.entries.get_mut(key)?;
        self.changed.insert(key.clone());
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.changed.insert(key.clone());
        self.entries.insert(key, value)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.entries.remove(key);
        if removed.is_some() {
            self.changed.insert(key.clone());
        }
        removed
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    pub(super) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.entries.keys()
    }

    pub(super) fn range_keys(&self, range: RangeInclusive<K>) -> impl Iterator<Item = &K> {
        self.entries.range(range).map(|(key, _)| key)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Hands every changed entry, removed ones as None, to `save`, and forgets the changes.
    pub(super) fn drain_changes(&mut self, mut save: impl FnMut(&K, Option<&V>)) {
        for key in core::mem::take(&mut self.changed) {
            save(&key, self.entries.get(&key));
        }
    }
}
