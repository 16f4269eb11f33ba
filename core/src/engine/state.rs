//! How the engine reads durable state: one small synchronous trait, and a view that adds what is
//! decided but not yet applied.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound;

use super::io::Change;
use crate::ids::Position;

/// Reads the local store: exactly what every applied log entry left there.
///
/// An implementation that cannot read does not return: it unwinds, and the shell stops the process with
/// [`StopReason::LocalStoreFailed`](crate::stop::StopReason::LocalStoreFailed) (D-33). The engine has no
/// way to go on without its state, so it has no error to handle.
pub trait StateRead {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;

    /// Visits the keys in `from..to` in order, until `visit` returns false.
    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool);
}

impl<S: StateRead + ?Sized> StateRead for &S {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        (**self).get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        (**self).scan(from, to, visit);
    }
}

impl<S: StateRead + ?Sized> StateRead for alloc::sync::Arc<S> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        (**self).get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        (**self).scan(from, to, visit);
    }
}

/// Changes that are decided and not yet applied to the local store.
///
/// It makes the engine's reads independent of how far the log and the local store have come, so that a
/// run can be dropped from memory at any time. It holds at most the entries in flight.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    changes: BTreeMap<Vec<u8>, (Position, Option<Vec<u8>>)>,
    keys_by_position: VecDeque<(Position, Vec<Vec<u8>>)>,
}

impl Overlay {
    /// Adds changes that are applied once the entry at `position` is.
    pub(super) fn add(&mut self, position: Position, changes: Vec<Change>) {
        if self.keys_by_position.back().is_none_or(|(last, _)| *last != position) {
            self.keys_by_position.push_back((position, Vec::new()));
        }
        let (_, keys) = self.keys_by_position.back_mut().expect("one was just pushed");
        for change in changes {
            keys.push(change.key.clone());
            self.changes.insert(change.key, (position, change.value));
        }
    }

    /// Forgets what the local store has applied.
    pub(super) fn applied(&mut self, position: Position) {
        while self.keys_by_position.front().is_some_and(|(first, _)| *first <= position) {
            let (first, keys) = self.keys_by_position.pop_front().expect("it was just seen");
            for key in keys {
                if self.changes.get(&key).is_some_and(|(newest, _)| *newest <= first) {
                    self.changes.remove(&key);
                }
            }
        }
    }

    /// Whether everything is applied.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// This overlay on top of a store.
    pub(super) fn over<'a, S: StateRead>(&'a self, store: &'a S) -> View<'a, S> {
        View { overlay: self, store }
    }
}

/// The state as decided: the store with the overlay on top.
pub(super) struct View<'a, S> {
    overlay: &'a Overlay,
    store: &'a S,
}

impl<S: StateRead> StateRead for View<'_, S> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.overlay.changes.get(key) {
            Some((_, value)) => value.clone(),
            None => self.store.get(key),
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let mut above =
            self.overlay.changes.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))).peekable();
        let mut going = true;
        self.store.scan(from, to, &mut |key, value| {
            while let Some((upper, (_, changed))) = above.next_if(|(upper, _)| upper.as_slice() < key) {
                if let Some(changed) = changed {
                    going = visit(upper, changed);
                    if !going {
                        return false;
                    }
                }
            }
            match above.next_if(|(upper, _)| upper.as_slice() == key) {
                Some((_, (_, Some(changed)))) => going = visit(key, changed),
                Some((_, (_, None))) => {}
                None => going = visit(key, value),
            }
            going
        });
        if !going {
            return;
        }
        for (key, (_, changed)) in above {
            if let Some(changed) = changed
                && !visit(key, changed)
            {
                return;
            }
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
