//! Holds back what must not leave before the log has it.

use alloc::collections::BTreeMap;

use crate::ids::Position;

/// Items, each with the position that must be durable before it leaves (D-48).
///
/// They leave by position, and in the order of their arrival where positions are equal. Both shells keep the
/// engine's replies and frames in one of these: the engine's positions say what must not overtake what, and
/// a ping that waits for nothing does not wait behind a task that a slow log holds back.
#[derive(Clone, Debug)]
pub struct Outbox<T> {
    items: BTreeMap<(Position, u64), T>,
    arrivals: u64,
    durable: Position,
}

impl<T> Outbox<T> {
    /// Empty, with nothing durable.
    #[must_use]
    pub const fn new() -> Self {
        Self { items: BTreeMap::new(), arrivals: 0, durable: Position(0) }
    }

    /// Keeps an item until everything up to `after` is durable.
    pub fn push(&mut self, after: Position, item: T) {
        // Never below what is durable: items that may leave but were not fetched yet stay in front.
        let key = (after.max(self.durable), self.arrivals);
        self.arrivals += 1;
        self.items.insert(key, item);
    }

    /// Everything up to here is durable: gives out what may leave now, in order. What the caller does
    /// not fetch stays.
    pub fn release(&mut self, durable: Position) -> impl Iterator<Item = T> {
        self.durable = self.durable.max(durable);
        core::iter::from_fn(|| self.pop())
    }

    /// Forgets items that must not leave any more.
    pub fn remove(&mut self, doomed: impl Fn(&T) -> bool) {
        self.items.retain(|_, item| !doomed(item));
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.items.first_entry()?;
        (first.key().0 <= self.durable).then(|| first.remove())
    }
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
