//! Marks: interesting states that seeds must reach, and measured values, counted on the side.
//!
//! A world or a watcher calls [`mark`] where it sees one; whoever runs a seed calls [`take`] before and after.
//! The tally belongs to the thread, as a run does: a mark needs no handle, so that it can be set anywhere, in
//! the weather as well as in a check. Marks never influence a run.
//!
//! ```text
//! marks::mark("takeover while a late write is in flight");
//! marks::measure("failover gap", microseconds);
//! let tally = marks::take();
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;

/// What was seen since the last [`take`] on this thread.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// How often each mark was reached.
    pub marks: BTreeMap<&'static str, u64>,
    /// Measured values by name, in the order of their measuring.
    pub values: BTreeMap<&'static str, Vec<u64>>,
}

impl Tally {
    /// Adds what another run saw.
    pub fn merge(&mut self, other: Self) {
        for (name, count) in other.marks {
            *self.marks.entry(name).or_default() += count;
        }
        for (name, values) in other.values {
            self.values.entry(name).or_default().extend(values);
        }
    }

    /// How often a mark was reached.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.marks.get(name).copied().unwrap_or_default()
    }
}

thread_local! {
    static TALLY: RefCell<Tally> = RefCell::default();
}

/// An interesting state was reached.
pub fn mark(name: &'static str) {
    TALLY.with_borrow_mut(|tally| *tally.marks.entry(name).or_default() += 1);
}

/// Something was measured; which unit it has is the name's business.
pub fn measure(name: &'static str, value: u64) {
    TALLY.with_borrow_mut(|tally| tally.values.entry(name).or_default().push(value));
}

/// All marks of this thread since the last call.
#[must_use]
pub fn take() -> Tally {
    TALLY.take()
}

#[cfg(test)]
mod tests {
    use super::{mark, measure, take};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "another thread is what this is about")]
    fn marks_are_counted_per_thread_until_they_are_taken() {
        drop(take());
        mark("a");
        mark("a");
        measure("gap", 7);
        std::thread::spawn(|| mark("a")).join().expect("it only counts");
        let mut tally = take();
        assert_eq!(tally.count("a"), 2);
        assert_eq!(tally.count("b"), 0);
        assert_eq!(take().count("a"), 0);
        mark("b");
        measure("gap", 9);
        tally.merge(take());
        assert_eq!(tally.count("b"), 1);
        assert_eq!(tally.values["gap"], [7, 9]);
    }
}
