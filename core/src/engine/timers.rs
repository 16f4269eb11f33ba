//! Durable timers. All of them stand in the store; the ones that are due next also stand here.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::keys::{self, Timer};
use super::limits;
use super::state::StateRead;
use crate::time::Timestamp;

#[derive(Debug)]
pub(super) struct Timers {
    /// Every timer that is due before `horizon`.
    near: BTreeSet<Timer>,
    horizon: Timestamp,
    /// Nothing is known to stand at `horizon` or later.
    complete: bool,
}

impl Default for Timers {
    fn default() -> Self {
        Self { near: BTreeSet::new(), horizon: Timestamp::ZERO, complete: false }
    }
}

impl Timers {
    /// A timer was set.
    pub(super) fn add(&mut self, timer: Timer) {
        if timer.due >= self.horizon {
            self.complete = false;
            return;
        }
        self.near.insert(timer);
        if self.near.len() > 2 * limits::NEAR_TIMERS {
            self.shrink();
        }
    }

    pub(super) fn remove(&mut self, timer: &Timer) {
        self.near.remove(timer);
    }

    /// Keeps the earlier half, cut where the due time changes.
    fn shrink(&mut self) {
        let cut = self.near.iter().nth(limits::NEAR_TIMERS).map(|timer| timer.due);
        let Some(cut) = cut.filter(|cut| self.near.first().is_some_and(|first| first.due < *cut)) else {
            return;
        };
        self.near.retain(|timer| timer.due < cut);
        self.horizon = cut;
        self.complete = false;
    }

    /// Reads more timers from the store once those here are used up.
    pub(super) fn refill(&mut self, state: &impl StateRead) {
        if self.complete || !self.near.is_empty() {
            return;
        }
        let mut found: Vec<Timer> = Vec::new();
        let mut more = false;
        state.scan(&keys::timers_from(self.horizon), &keys::timers_end(), &mut |key, _| {
            let Some(timer) = keys::parse_timer(key) else {
                return true;
            };
            // Timers that are due at the same time stay together, so that the horizon parts them clearly.
            more =
                found.len() >= limits::NEAR_TIMERS && found.last().is_some_and(|last| last.due < timer.due);
            if !more {
                found.push(timer);
            }
            !more
        });
        self.horizon = match found.last() {
            Some(last) if more => Timestamp::from_micros(last.due.as_micros() + 1),
            Some(_) | None => Timestamp::MAX,
        };
        self.complete = !more;
        self.near.extend(found);
    }

    /// When the next timer here is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.near.first().map(|timer| timer.due)
    }

    /// Whether the store must be asked before this can be trusted to be empty.
    pub(super) fn wants_refill(&self) -> bool {
        self.near.is_empty() && !self.complete
    }

    /// Takes a timer that is due.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<Timer> {
        if self.near.first()?.due > now {
            return None;
        }
        self.near.pop_first()
    }
}
