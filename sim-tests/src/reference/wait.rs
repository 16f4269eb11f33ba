//! Waits: when one is over, and what it takes.

use std::collections::BTreeMap;

use dexzd_core::engine::{ConditionKind, Key, Wait, WaitKind};
use dexzd_core::ids::Name;
use dexzd_core::time::Timestamp;

/// The timers of a stored Wait, by the place of their condition.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Timers {
    timers: BTreeMap<usize, (Timestamp, bool)>,
}

impl Timers {
    /// Normalised to absolute times when the Wait is accepted.
    #[must_use]
    pub fn accept(wait: &Wait, at: Timestamp) -> Self {
        let timers =
            wait.conditions.iter().enumerate().filter_map(|(place, condition)| match condition.kind {
                ConditionKind::Timer { duration_ms } => {
                    Some((place, (Timestamp::from_micros(at.as_micros() + duration_ms * 1_000), false)))
                }
                ConditionKind::Channel { .. } => None,
            });
        Self { timers: timers.collect() }
    }

    /// A skipped timer counts as fired. The name is a condition ID, or `#` and the place among the timers.
    pub fn skip(&mut self, wait: &Wait, name: &str) {
        let by_place = name.strip_prefix('#').and_then(|place| place.parse::<usize>().ok());
        let place = match by_place {
            Some(nth) => self.timers.keys().nth(nth).copied(),
            None => wait
                .conditions
                .iter()
                .position(|condition| condition.id.as_ref().is_some_and(|id| **id == *name)),
        };
        if let Some((_, skipped)) = place.and_then(|place| self.timers.get_mut(&place)) {
            *skipped = true;
        }
    }

    /// Due times of those that were not skipped.
    pub fn dues(&self) -> impl Iterator<Item = Timestamp> {
        self.timers.values().filter(|(_, skipped)| !skipped).map(|(due, _)| *due)
    }

    /// Whether the timer of this condition was skipped, or is due by then.
    #[must_use]
    pub fn has_fired(&self, place: usize, by: Timestamp) -> bool {
        self.timers.get(&place).is_some_and(|(due, skipped)| *skipped || *due <= by)
    }
}

/// A Wait that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How many messages each condition takes, in declaration order.
    pub takes: Vec<usize>,
}

/// Whether a Wait is over, with these timers fired and so many messages in each Channel.
pub fn evaluate(wait: &Wait, fired: &dyn Fn(usize) -> bool, size: &dyn Fn(&Key) -> usize) -> Option<Outcome> {
    let places: Vec<usize> = (0..wait.conditions.len()).collect();
    let none = || Outcome { takes: vec![0; wait.conditions.len()] };
    match &wait.kind {
        WaitKind::Skip => Some(none()),
        WaitKind::UntilOne | WaitKind::AllOf => together(wait, &places, fired, size),
        WaitKind::AnyOf => {
            // Timers first, then Channels, each in declaration order; readiness counts, not position.
            let is_timer =
                |place: &usize| matches!(wait.conditions[*place].kind, ConditionKind::Timer { .. });
            let (timers, channels): (Vec<usize>, Vec<usize>) = places.into_iter().partition(is_timer);
            timers.into_iter().chain(channels).find_map(|place| together(wait, &[place], fired, size))
        }
        WaitKind::AnyCombinationOf(groups) => {
            groups.iter().find_map(|group| together(wait, &of_group(wait, group), fired, size))
        }
    }
}

fn of_group(wait: &Wait, group: &[Name]) -> Vec<usize> {
    let in_group = |place: &usize| wait.conditions[*place].id.as_ref().is_some_and(|id| group.contains(id));
    (0..wait.conditions.len()).filter(in_group).collect()
}

/// All of these conditions at once: no message counts twice.
fn together(
    wait: &Wait,
    places: &[usize],
    fired: &dyn Fn(usize) -> bool,
    size: &dyn Fn(&Key) -> usize,
) -> Option<Outcome> {
    let mut takes = vec![0; wait.conditions.len()];
    let mut needed: BTreeMap<&Key, usize> = BTreeMap::new();
    for place in places {
        match &wait.conditions[*place].kind {
            ConditionKind::Timer { .. } if !fired(*place) => return None,
            ConditionKind::Timer { .. } => {}
            ConditionKind::Channel { channel, at_least, at_most } => {
                *needed.entry(channel).or_default() += least(*at_least, *at_most);
            }
        }
    }
    if needed.iter().any(|(channel, needed)| size(channel) < *needed) {
        return None;
    }
    // Each takes what it needs at least; what is left goes to those that take more, in declaration order.
    let mut left: BTreeMap<&Key, usize> =
        needed.iter().map(|(channel, needed)| (*channel, size(channel) - needed)).collect();
    for place in places {
        if let ConditionKind::Channel { channel, at_least, at_most } = &wait.conditions[*place].kind {
            let least = least(*at_least, *at_most);
            let most = match (at_least, at_most) {
                (None, None) => 1,
                (Some(_), None) => usize::MAX,
                (_, Some(most)) => *most as usize,
            };
            let spare = left.get_mut(channel)?;
            let more = most.saturating_sub(least).min(*spare);
            *spare -= more;
            takes[*place] = least + more;
        }
    }
    Some(Outcome { takes })
}

/// Neither bound: exactly one. Only an upper one: none is needed.
fn least(at_least: Option<u32>, at_most: Option<u32>) -> usize {
    match (at_least, at_most) {
        (Some(least), _) => least as usize,
        (None, Some(_)) => 0,
        (None, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, evaluate};
    use dexzd_core::engine::{Condition, ConditionKind, Key, Wait, WaitKind};
    use dexzd_core::ids::Name;

    fn channel(at_least: Option<u32>, at_most: Option<u32>) -> Condition {
        let channel = Key { name: Name::from("c"), instance: None };
        Condition { id: None, kind: ConditionKind::Channel { channel, at_least, at_most } }
    }

    fn timer() -> Condition {
        Condition { id: None, kind: ConditionKind::Timer { duration_ms: 1 } }
    }

    fn takes(kind: WaitKind, conditions: Vec<Condition>, fired: bool, size: usize) -> Option<Vec<usize>> {
        let wait = Wait { kind, conditions };
        evaluate(&wait, &|_| fired, &|_| size).map(|Outcome { takes }| takes)
    }

    /// The table of concepts.md 1.6.
    #[test]
    fn what_the_bounds_need_and_take() {
        let one = |least, most, size| takes(WaitKind::UntilOne, vec![channel(least, most)], false, size);
        assert_eq!((one(None, None, 0), one(None, None, 3)), (None, Some(vec![1])));
        assert_eq!((one(Some(2), Some(2), 1), one(Some(2), Some(2), 3)), (None, Some(vec![2])));
        assert_eq!((one(Some(2), None, 1), one(Some(2), None, 3)), (None, Some(vec![3])));
        assert_eq!((one(None, Some(2), 0), one(None, Some(2), 3)), (Some(vec![0]), Some(vec![2])));
        assert_eq!((one(Some(1), Some(2), 0), one(Some(1), Some(2), 3)), (None, Some(vec![2])));
    }

    #[test]
    fn of_any_the_timer_comes_first_and_takes_nothing() {
        let both = || vec![channel(None, None), timer()];
        assert_eq!(takes(WaitKind::AnyOf, both(), true, 1), Some(vec![0, 0]));
        assert_eq!(takes(WaitKind::AnyOf, both(), false, 1), Some(vec![1, 0]));
        assert_eq!(takes(WaitKind::AnyOf, both(), false, 0), None);
    }

    #[test]
    fn of_all_no_message_counts_twice() {
        let two = || vec![channel(Some(2), None), channel(None, None)];
        assert_eq!(takes(WaitKind::AllOf, two(), false, 2), None);
        assert_eq!(takes(WaitKind::AllOf, two(), false, 4), Some(vec![3, 1]));
    }
}
