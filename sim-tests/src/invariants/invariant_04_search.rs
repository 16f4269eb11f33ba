//! Is there an order of these calls that explains their answers?
//!
//! A search in the manner of Wing and Gong, with Lowe's memory of what was tried: take one call after the
//! other that may come next in real time, apply it to the sequential specification, and go back when an
//! answer does not fit. A state that was reached before with the same calls taken is not entered again.
//!
//! Three shortcuts keep it fast, and lose no order:
//!
//! - a call that only looks, and fits what is known already, is taken at once;
//! - a call whose outcome is unknown is only taken if it changes the state;
//! - a state in which an answer can never be given any more is left at once.

use std::collections::BTreeSet;

use dexzd_io_sim::TrueTime;

/// What one object does, call by call.
pub(super) trait Specification {
    /// The object.
    type State: Clone + Ord + Default;
    /// A call and its answer. An unknown answer is part of it.
    type Call;

    /// The state after the call, if its answer fits this state.
    fn apply(state: &Self::State, call: &Self::Call) -> Option<Self::State>;

    /// Whether the call only looks, in every state.
    fn only_looks(call: &Self::Call) -> bool;

    /// Whether the answer fits no state that can follow this one. False where that is not certain.
    fn is_doomed(state: &Self::State, call: &Self::Call) -> bool;

    /// Where a call belongs among those that may come next, as a guess: the lowest is tried first.
    fn rank(call: &Self::Call) -> u64;
}

/// One call in time.
#[derive(Clone, Debug)]
pub(super) struct Timed<C> {
    /// When it reached the server.
    pub(super) from: TrueTime,
    /// When its answer left. None: nobody heard an answer, so it may take effect at any time from then on,
    /// or never.
    pub(super) to: Option<TrueTime>,
    /// What was asked and answered.
    pub(super) call: C,
}

/// What the search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// There is an order.
    Explained,
    /// There is none. These calls are enough to see it, by their place in the list: with any one of them
    /// taken for unanswered there would be an order.
    Conflict(Vec<usize>),
    /// The search was given up.
    Undecided,
}

/// States looked at before a search is given up: more than a hundred times what the worst seed needs.
const MOST_STATES: usize = 200_000;

/// Looks for an order of these calls.
pub(super) fn explain<S: Specification>(calls: &[Timed<S::Call>]) -> Verdict {
    let mut heard: Vec<bool> = calls.iter().map(|call| call.to.is_some()).collect();
    match Search::<S>::new(calls, &heard).run() {
        None => return Verdict::Undecided,
        Some(true) => return Verdict::Explained,
        Some(false) => {}
    }
    // The later calls are forgotten first: what remains is the earliest contradiction.
    for index in (0..calls.len()).rev().filter(|index| calls[*index].to.is_some()) {
        heard[index] = false;
        if Search::<S>::new(calls, &heard).run() != Some(false) {
            heard[index] = true;
        }
    }
    Verdict::Conflict((0..calls.len()).filter(|index| heard[*index]).collect())
}

struct Search<'a, S: Specification> {
    calls: &'a [Timed<S::Call>],
    /// Which calls must be part of the order, and end when they were answered.
    heard: &'a [bool],
    /// By the time at which they arrived.
    order: Vec<usize>,
    tried: BTreeSet<(Vec<bool>, S::State)>,
}

struct Frame<State> {
    taken: Vec<bool>,
    /// What may come next and leads elsewhere.
    next: Vec<(usize, State)>,
}

impl<'a, S: Specification> Search<'a, S> {
    fn new(calls: &'a [Timed<S::Call>], heard: &'a [bool]) -> Self {
        let mut order: Vec<usize> = (0..calls.len()).collect();
        order.sort_by_key(|index| (calls[*index].from, *index));
        Self { calls, heard, order, tried: BTreeSet::new() }
    }

    /// Whether there is an order; None if that stays unknown.
    fn run(mut self) -> Option<bool> {
        let mut path = Vec::new();
        if self.enter(vec![false; self.calls.len()], S::State::default(), &mut path) {
            return Some(true);
        }
        while let Some(frame) = path.last_mut() {
            let Some((index, state)) = frame.next.pop() else {
                path.pop();
                continue;
            };
            let mut taken = frame.taken.clone();
            taken[index] = true;
            if self.enter(taken, state, &mut path) {
                return Some(true);
            }
            if self.tried.len() > MOST_STATES {
                return None;
            }
        }
        Some(false)
    }

    /// Goes to a state; true if every answered call is taken.
    fn enter(&mut self, mut taken: Vec<bool>, state: S::State, path: &mut Vec<Frame<S::State>>) -> bool {
        if self.is_doomed(&taken, &state) {
            return false;
        }
        let next = loop {
            let candidates = self.candidates(&taken);
            if candidates.iter().all(|index| !self.heard[*index]) {
                return true;
            }
            let mut next = Vec::new();
            let mut settled = None;
            for index in candidates {
                match S::apply(&state, &self.calls[index].call) {
                    None => {}
                    Some(after) if after == state && !self.heard[index] => {}
                    Some(after) if after == state && S::only_looks(&self.calls[index].call) => {
                        settled = Some(index);
                        break;
                    }
                    Some(after) => next.push((index, after)),
                }
            }
            match settled {
                Some(index) => taken[index] = true,
                None => break next,
            }
        };
        if self.tried.insert((taken.clone(), state)) {
            path.push(Frame { taken, next });
        }
        false
    }

    fn is_doomed(&self, taken: &[bool], state: &S::State) -> bool {
        (0..self.calls.len())
            .filter(|index| self.heard[*index] && !taken[*index])
            .any(|index| S::is_doomed(state, &self.calls[index].call))
    }

    /// Which calls may come next: those that arrived before the first answer of the others left. The one
    /// that should be tried first stands last; the unanswered ones stand in front.
    fn candidates(&self, taken: &[bool]) -> Vec<usize> {
        let open = || self.order.iter().copied().filter(|index| !taken[*index]);
        let horizon = open()
            .filter(|index| self.heard[*index])
            .filter_map(|index| self.calls[index].to)
            .min()
            .unwrap_or(TrueTime::MAX);
        let mut candidates: Vec<usize> =
            open().take_while(|index| self.calls[*index].from <= horizon).collect();
        candidates.sort_by_key(|index| {
            let call = &self.calls[*index];
            let to = call.to.filter(|_| self.heard[*index]);
            let rank = to.map_or(u64::MAX, |_| S::rank(&call.call));
            std::cmp::Reverse((rank, to.unwrap_or(TrueTime::MAX), *index))
        });
        candidates
    }
}

#[cfg(test)]
#[path = "invariant_04_search_tests.rs"]
mod tests;
