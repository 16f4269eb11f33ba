//! Events in virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::TrueTime;

/// Events by time; those of one instant in the order of their insertion.
#[derive(Debug)]
pub struct EventHeap<E> {
    now: TrueTime,
    inserted: u64,
    heap: BinaryHeap<Reverse<Entry<E>>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: TrueTime,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (TrueTime, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for EventHeap<E> {
    fn default() -> Self {
        Self { now: 0, inserted: 0, heap: BinaryHeap::new() }
    }
}

impl<E> EventHeap<E> {
    /// The time of the event taken last.
    #[must_use]
    pub fn now(&self) -> TrueTime {
        self.now
    }

    /// Adds an event; one in the past happens now.
    pub fn push(&mut self, at: TrueTime, event: E) {
        let entry = Entry { at: at.max(self.now), number: self.inserted, event };
        self.inserted += 1;
        self.heap.push(Reverse(entry));
    }

    /// When the next event happens.
    #[must_use]
    pub fn next_at(&self) -> Option<TrueTime> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the next event and jumps to its time.
    pub fn pop(&mut self) -> Option<(TrueTime, E)> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        Some((entry.at, entry.event))
    }

    /// Events not yet taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::EventHeap;

    #[test]
    fn events_come_by_time_and_then_by_insertion() {
        let mut heap = EventHeap::default();
        heap.push(5, 'b');
        heap.push(3, 'a');
        heap.push(5, 'c');
        assert_eq!(heap.next_at(), Some(3));
        assert_eq!(heap.pop(), Some((3, 'a')));
        heap.push(1, 'x');
        assert_eq!(heap.pop(), Some((3, 'x')), "an event in the past happens now");
        assert_eq!(heap.pop(), Some((5, 'b')));
        assert_eq!(heap.pop(), Some((5, 'c')));
        assert_eq!(heap.pop(), None);
    }
}
