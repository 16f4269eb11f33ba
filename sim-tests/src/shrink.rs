//! Makes a counterexample small: as many decisions as possible become 0, the calm choice, and the others as
//! small as they can be, while the same rule stays broken.
//!
//! Delta debugging over the decisions that are not 0. Zeroing keeps the alignment of a log, so no other draw
//! moves; after every success the log of the new run is the one that is shrunk on, which drops what the run no
//! longer asks for.

use std::time::{Duration, Instant};

use dexzd_io_sim::dice::{Decision, Dice, Script};
use dexzd_io_sim::trace::Trace;

use crate::attempt::{Fault, attempt};
use crate::runner::World;

/// A counterexample.
#[derive(Clone, Debug)]
pub struct Small {
    /// What was drawn.
    pub decisions: Vec<Decision>,
    /// What goes wrong.
    pub fault: Fault,
    /// So many runs it took.
    pub runs: u64,
    /// Whether nothing more can be taken away; else the time was over.
    pub is_minimal: bool,
}

impl Small {
    /// The decisions that are not the calm choice.
    #[must_use]
    pub fn size(&self) -> usize {
        size(&self.decisions)
    }
}

/// The number of decisions that are not the calm choice.
#[must_use]
pub fn size(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|decision| decision.chosen != 0).count()
}

/// A log of these choices.
#[must_use]
pub fn script(decisions: &[Decision]) -> Script {
    let mut script = Script::default();
    for decision in decisions {
        script.push(decision.stream, decision.kind, decision.chosen);
    }
    script
}

/// Shrinks what was drawn by a run that failed, for at most so long. None: it does not fail again.
#[must_use]
pub fn shrink(world: World, decisions: &[Decision], budget: Duration) -> Option<Small> {
    let first = attempt(world, Dice::from_script(script(decisions)), Trace::quiet());
    let fault = first.fault?;
    let small = Small { decisions: first.decisions, fault, runs: 1, is_minimal: false };
    let mut search = Search { world, small, ends: Instant::now() + budget };
    let finished = search.go();
    search.small.is_minimal = finished.is_some();
    Some(search.small)
}

struct Search {
    world: World,
    small: Small,
    ends: Instant,
}

impl Search {
    /// None: the time is over.
    fn go(&mut self) -> Option<()> {
        loop {
            let before = self.cost();
            self.whole_kinds()?;
            self.chunks()?;
            self.values()?;
            self.moments()?;
            if self.cost() == before {
                return Some(());
            }
        }
    }

    fn cost(&self) -> (usize, u128) {
        let sum = self.small.decisions.iter().map(|decision| u128::from(decision.chosen)).sum();
        (self.small.size(), sum)
    }

    /// The places of what is not 0, in the order of drawing.
    fn places(&self) -> Vec<usize> {
        let drawn = self.small.decisions.iter().enumerate();
        drawn.filter(|(_, decision)| decision.chosen != 0).map(|(place, _)| place).collect()
    }

    /// All decisions of one stream and kind at once, the most frequent kinds first.
    fn whole_kinds(&mut self) -> Option<()> {
        let mut kinds = std::collections::BTreeMap::new();
        for place in self.places() {
            let decision = self.small.decisions[place];
            *kinds.entry((decision.stream, decision.kind)).or_insert(0_u64) += 1;
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (which, _) in kinds {
            self.try_with(|decisions| {
                for decision in decisions.iter_mut() {
                    if (decision.stream, decision.kind) == which {
                        decision.chosen = 0;
                    }
                }
            })?;
        }
        Some(())
    }

    /// Ever smaller runs of neighbours, down to single ones; from the end, for what comes late depends on
    /// what came before.
    fn chunks(&mut self) -> Option<()> {
        let mut length = self.places().len().div_ceil(2).max(1);
        loop {
            let mut from = self.places().len();
            while from > 0 {
                let start = from.saturating_sub(length);
                let places = self.places();
                let chosen: Vec<usize> = places[start..from.min(places.len())].to_vec();
                self.try_with(|decisions| {
                    for place in chosen {
                        decisions[place].chosen = 0;
                    }
                })?;
                from = start.min(self.places().len());
            }
            if length == 1 {
                return Some(());
            }
            length = length.div_ceil(2);
        }
    }

    /// Each that is left as small as it can be.
    fn values(&mut self) -> Option<()> {
        for place in self.places().into_iter().rev() {
            let (mut fails_not, mut fails) = match self.small.decisions.get(place) {
                Some(decision) if decision.chosen > 1 => (0, decision.chosen),
                Some(_) | None => continue,
            };
            if self.try_value(place, 1)? {
                continue;
            }
            while fails - fails_not > 1 + fails / 64 {
                let middle = fails_not + (fails - fails_not) / 2;
                if self.try_value(place, middle)? {
                    fails = middle;
                } else {
                    fails_not = middle;
                }
            }
        }
        Some(())
    }

    /// Whole draws less: later ones of the kind move up, which zeroing cannot do.
    fn moments(&mut self) -> Option<()> {
        for place in self.places().into_iter().rev() {
            if place < self.small.decisions.len() {
                self.try_with(|decisions| _ = decisions.remove(place))?;
            }
        }
        Some(())
    }

    fn try_value(&mut self, place: usize, value: u64) -> Option<bool> {
        if self.small.decisions.get(place).is_none_or(|decision| decision.chosen <= value) {
            return Some(false);
        }
        self.try_with(|decisions| decisions[place].chosen = value)
    }

    /// Keeps a change if the same rule is broken still, by a run that is no larger. None: the time is over.
    fn try_with(&mut self, change: impl FnOnce(&mut Vec<Decision>)) -> Option<bool> {
        if Instant::now() >= self.ends {
            return None;
        }
        let mut decisions = self.small.decisions.clone();
        change(&mut decisions);
        let changed = |(one, two): (&Decision, &Decision)| one.chosen != two.chosen;
        if decisions.len() == self.small.decisions.len()
            && !decisions.iter().zip(&self.small.decisions).any(changed)
        {
            return Some(false);
        }
        self.small.runs += 1;
        let attempt = attempt(self.world, Dice::from_script(script(&decisions)), Trace::quiet());
        let Some(fault) = attempt.fault else {
            return Some(false);
        };
        let before = self.cost();
        let is_same = fault.key() == self.small.fault.key();
        let sum: u128 = attempt.decisions.iter().map(|decision| u128::from(decision.chosen)).sum();
        let is_smaller = (size(&attempt.decisions), sum) < before;
        if is_same && is_smaller {
            self.small.decisions = attempt.decisions;
            self.small.fault = fault;
        }
        Some(is_same && is_smaller)
    }
}

#[cfg(test)]
mod tests {
    use super::shrink;
    use crate::attempt::attempt;
    use crate::runner::Run;
    use dexzd_io_sim::dice::{Dice, Stream};
    use dexzd_io_sim::trace::Trace;
    use dexzd_io_sim::watch::Violation;
    use std::time::Duration;

    /// Broken as soon as one latency above 700 follows a crash.
    fn world(mut dice: Dice, trace: Trace) -> Run {
        let mut crashed = false;
        let mut broken = false;
        for _ in 0..200 {
            let latency = dice.below(Stream::Store, "latency", 1_000);
            broken |= crashed && latency > 700;
            crashed |= dice.chance(Stream::Crash, "now", 100_000);
        }
        let violation = Violation { at: 0, rule: "r".to_owned(), sentence: "s".to_owned() };
        let result = if broken { Err(violation) } else { Ok(()) };
        Run { result, trace, dice, simulated: 0, config: String::new() }
    }

    #[test]
    fn what_does_not_matter_becomes_calm_and_what_matters_small() {
        let failed = attempt(world, Dice::from_seed(3), Trace::quiet());
        assert!(failed.fault.is_some());
        let small = shrink(world, &failed.decisions, Duration::from_secs(60)).expect("it fails again");
        assert!(small.is_minimal);
        let left: Vec<_> = small.decisions.iter().filter(|decision| decision.chosen != 0).collect();
        assert_eq!(left.iter().map(|decision| decision.kind).collect::<Vec<_>>(), ["now", "latency"]);
        assert!((701..=711).contains(&left[1].chosen), "{}", left[1].chosen);
    }

    #[test]
    fn a_run_that_does_not_fail_is_not_shrunk() {
        assert!(shrink(world, &[], Duration::from_secs(1)).is_none());
    }
}
