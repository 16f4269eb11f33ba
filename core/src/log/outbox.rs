//! Holds back what must not leave before the log has it.

use alloc::collections::BTreeMap;

use crate::ids::Position;

/// Items, each with the position that must be durable before it leaves, some of them in lanes.
///
/// Within a lane nothing overtakes: an item that could leave at once waits for those pushed before it.
/// Lanes do not wait for one another. Both shells keep the engine's replies and frames in one of these,
/// without lanes: the engine's positions say what must not overtake what.
#[derive(Clone, Debug)]
pub struct Outbox<L, T> {
    /// In the order in which they leave: by position, then by arrival.
    items: BTreeMap<(Position, u64), (Option<L>, T)>,
    /// What the newest item of each lane waits for, for lanes that have one.
    lanes: BTreeMap<L, Position>,
    arrivals: u64,
    durable: Position,
}

impl<L: Ord + Clone, T> Outbox<L, T> {
    /// Empty, with nothing durable.
    #[must_use]
    pub const fn new() -> Self {
        Self { items: BTreeMap::new(), lanes: BTreeMap::new(), arrivals: 0, durable: Position(0) }
    }

    /// Keeps an item until everything up to `after` is durable, and behind everything in its lane.
    pub fn push(&mut self, lane: L, after: Position, item: T) {
        // Never below what is durable: items that may leave but were not fetched yet stay in front.
        let after = after.max(self.durable);
        let last = self.lanes.entry(lane.clone()).or_default();
        *last = after.max(*last);
        let key = (*last, self.arrivals);
        self.arrivals += 1;
        self.items.insert(key, (Some(lane), item));
    }

    /// Keeps an item that has no lane until everything up to `after` is durable.
    pub fn push_alone(&mut self, after: Position, item: T) {
        let key = (after.max(self.durable), self.arrivals);
        self.arrivals += 1;
        self.items.insert(key, (None, item));
    }

    /// Everything up to here is durable: gives out what may leave now, in order. What the caller does
    /// not fetch stays.
    pub fn release(&mut self, durable: Position) -> impl Iterator<Item = T> {
        self.durable = self.durable.max(durable);
        core::iter::from_fn(|| self.pop())
    }

    /// Forgets items that must not leave any more.
    pub fn remove(&mut self, doomed: impl Fn(&T) -> bool) {
        self.items.retain(|_, (_, item)| !doomed(item));
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
        let after = first.key().0;
        if after > self.durable {
            return None;
        }
        let (lane, item) = first.remove();
        if let Some(lane) = lane
            && self.lanes.get(&lane) == Some(&after)
        {
            // Others of the lane may wait for the same position: it is durable, they come next.
            self.lanes.remove(&lane);
        }
        Some(item)
    }
}

impl<L: Ord + Clone, T> Default for Outbox<L, T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
