//! Stored Waits: whether one is over, and what it consumes then (concepts.md 1.6 and 1.7).
//!
//! Nothing here holds a queue or a clock. The engine asks with the lengths of its Channels, and
//! fires timers with its own time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use minicbor::{Decode, Encode};

use super::call::{TimerState, TimerTarget};
use super::model::{Condition, ConditionKind, ConditionResult, Key, Value, Wait, WaitKind};
use crate::ids::{Name, StepExecutionId};
use crate::time::Timestamp;

/// What a stored Wait remembers beside its conditions: its timers, in declaration order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct WaitProgress {
    /// One for each timer condition.
    #[n(0)]
    pub timers: Vec<TimerProgress>,
}

/// One timer of a stored Wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct TimerProgress {
    /// When it fires: fixed when the Wait was accepted, so that a failover does not stretch it.
    #[n(0)]
    pub due: Timestamp,
    /// Whether it has fired. A skipped timer counts as fired.
    #[n(1)]
    pub fired: bool,
    /// Whether a client skipped it before it was due.
    #[n(2)]
    pub skipped: bool,
}

/// Names one timer of one Wait.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub enum TimerSelector {
    /// By condition ID.
    #[n(0)]
    Id(#[n(0)] Name),
    /// By its place among the Wait's timers, from 0.
    #[n(1)]
    Index(#[n(0)] u32),
}

/// What a skip did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipOutcome {
    /// The timer counts as fired from now on.
    Skipped,
    /// It had fired, or was skipped before: nothing changed.
    AlreadyFired,
    /// The Wait has no such timer.
    NotFound,
}

/// A Wait that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How many messages each condition takes from the front of its Channel, aligned with the Wait's
    /// conditions. Conditions that share a Channel take in declaration order. Timers take none.
    pub consumed: Vec<usize>,
}

/// How many messages a Channel condition needs and takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bounds {
    /// Ready from here on.
    least: usize,
    /// Never takes more.
    most: usize,
}

/// Judges a Wait by its timers and the lengths of its Channels. None: it goes on.
pub fn evaluate(
    wait: &Wait,
    progress: &WaitProgress,
    channel_len: &dyn Fn(&Key) -> usize,
) -> Option<Outcome> {
    let conditions = number_timers(&wait.conditions);
    let chosen = match &wait.kind {
        WaitKind::Skip => Some(vec![0; conditions.len()]),
        WaitKind::UntilOne | WaitKind::AllOf => {
            let all: Vec<usize> = (0..conditions.len()).collect();
            together(&conditions, &all, progress, channel_len)
        }
        WaitKind::AnyOf => first_ready(&conditions, progress, channel_len),
        WaitKind::AnyCombinationOf(groups) => members_of_groups(&conditions, groups)
            .find_map(|members| together(&conditions, &members, progress, channel_len)),
    };
    chosen.map(|consumed| Outcome { consumed })
}

/// What Execute is told, in declaration order. `consumed` holds the values that each condition took,
/// aligned with the conditions; what it lacks is empty, so that `Vec::new()` tells "so far, nothing".
#[must_use]
pub fn results(wait: &Wait, progress: &WaitProgress, consumed: Vec<Vec<Value>>) -> Vec<ConditionResult> {
    let mut consumed = consumed.into_iter();
    number_timers(&wait.conditions)
        .into_iter()
        .map(|(condition, timer)| {
            let values = consumed.next().unwrap_or_default();
            match condition.kind {
                ConditionKind::Timer { .. } => ConditionResult::Timer { fired: progress.has_fired(timer) },
                ConditionKind::Channel { .. } => ConditionResult::Channel { values },
            }
        })
        .collect()
}

/// The Channels whose messages can end this Wait, in declaration order, possibly repeated.
pub fn watched_channels(wait: &Wait) -> impl Iterator<Item = &Key> {
    wait.conditions.iter().filter_map(|condition| match &condition.kind {
        ConditionKind::Channel { channel, .. } => Some(channel),
        ConditionKind::Timer { .. } => None,
    })
}

impl WaitProgress {
    /// Of a Wait accepted at `now`, with the skips that came before it. Timers of duration zero and
    /// skipped ones have fired already.
    #[must_use]
    pub fn accept(wait: &Wait, now: Timestamp, remembered_skips: &[TimerSelector]) -> Self {
        let timers = wait.conditions.iter().filter_map(|condition| {
            let ConditionKind::Timer { duration_ms } = condition.kind else {
                return None;
            };
            Some(TimerProgress {
                due: now.saturating_add(Duration::from_millis(duration_ms)),
                fired: false,
                skipped: false,
            })
        });
        let mut progress = Self { timers: timers.collect() };
        for skip in remembered_skips {
            // A remembered skip may name a timer that the Wait turned out not to have.
            let _ = progress.skip(wait, skip);
        }
        progress.fire_due(now);
        progress
    }

    /// Fires every timer that is due, and says how many fired by this.
    pub fn fire_due(&mut self, now: Timestamp) -> u32 {
        let mut fired = 0;
        for timer in &mut self.timers {
            if !timer.fired && timer.due <= now {
                timer.fired = true;
                fired += 1;
            }
        }
        fired
    }

    /// Lets a timer count as fired.
    pub fn skip(&mut self, wait: &Wait, selector: &TimerSelector) -> SkipOutcome {
        let index = match selector {
            TimerSelector::Id(id) => {
                timer_conditions(wait).position(|condition| condition.id.as_ref() == Some(id))
            }
            TimerSelector::Index(index) => usize::try_from(*index).ok(),
        };
        let Some(timer) = index.and_then(|index| self.timers.get_mut(index)) else {
            return SkipOutcome::NotFound;
        };
        if timer.fired {
            return SkipOutcome::AlreadyFired;
        }
        timer.fired = true;
        timer.skipped = true;
        SkipOutcome::Skipped
    }

    /// When the next timer fires. None: no timer is left.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let unfired = self.timers.iter().filter(|timer| !timer.fired);
        unfired.map(|timer| timer.due).min()
    }

    /// The timers as diagnostics show them.
    #[must_use]
    pub fn timer_states(&self, wait: &Wait) -> Vec<TimerState> {
        timer_conditions(wait)
            .zip(&self.timers)
            .map(|(condition, timer)| TimerState {
                id: condition.id.clone(),
                due: timer.due,
                fired: timer.fired,
                skipped: timer.skipped,
            })
            .collect()
    }

    fn has_fired(&self, timer: usize) -> bool {
        self.timers.get(timer).is_some_and(|timer| timer.fired)
    }
}

impl TimerSelector {
    /// Of which Step execution a request wants to skip which timer. None: the Flow's timeout.
    #[must_use]
    pub fn of_target(target: &TimerTarget) -> Option<(&StepExecutionId, Self)> {
        match target {
            TimerTarget::Condition { step, id } => Some((step, Self::Id(id.clone()))),
            TimerTarget::Index { step, index } => Some((step, Self::Index(*index))),
            TimerTarget::FlowTimeout => None,
        }
    }
}

impl Bounds {
    /// The table of concepts.md 1.6.
    fn new(at_least: Option<u32>, at_most: Option<u32>) -> Self {
        let (least, most) = match (at_least, at_most) {
            (None, None) => (1, Some(1)),
            (Some(least), None) => (least, None),
            (None, Some(most)) => (0, Some(most)),
            (Some(least), Some(most)) => (least, Some(most)),
        };
        let widen = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Self { least: widen(least), most: most.map_or(usize::MAX, widen) }
    }
}

/// The first ready condition in the fixed order: timers, then Channels, each in declaration order.
fn first_ready(
    conditions: &[(&Condition, usize)],
    progress: &WaitProgress,
    channel_len: &dyn Fn(&Key) -> usize,
) -> Option<Vec<usize>> {
    let mut consumed = vec![0; conditions.len()];
    if progress.timers.iter().any(|timer| timer.fired) {
        return Some(consumed);
    }
    for (place, (condition, _)) in conditions.iter().enumerate() {
        let ConditionKind::Channel { channel, at_least, at_most } = &condition.kind else {
            continue;
        };
        let bounds = Bounds::new(*at_least, *at_most);
        let queued = channel_len(channel);
        if queued >= bounds.least {
            consumed[place] = queued.min(bounds.most);
            return Some(consumed);
        }
    }
    None
}

/// All of `members` (places of conditions, in order) at once. Conditions on one Channel share its
/// queue: each gets what it needs at least, and what is spare goes to them in declaration order.
fn together(
    conditions: &[(&Condition, usize)],
    members: &[usize],
    progress: &WaitProgress,
    channel_len: &dyn Fn(&Key) -> usize,
) -> Option<Vec<usize>> {
    let mut spare: BTreeMap<&Key, usize> = BTreeMap::new();
    for &place in members {
        let (condition, timer) = conditions[place];
        match &condition.kind {
            ConditionKind::Timer { .. } => {
                if !progress.has_fired(timer) {
                    return None;
                }
            }
            ConditionKind::Channel { channel, at_least, at_most } => {
                let left = spare.entry(channel).or_insert_with(|| channel_len(channel));
                *left = left.checked_sub(Bounds::new(*at_least, *at_most).least)?;
            }
        }
    }
    let mut consumed = vec![0; conditions.len()];
    for &place in members {
        let ConditionKind::Channel { channel, at_least, at_most } = &conditions[place].0.kind else {
            continue;
        };
        let bounds = Bounds::new(*at_least, *at_most);
        let left = spare.get_mut(channel).expect("the first pass entered every member's Channel");
        let extra = (*left).min(bounds.most.saturating_sub(bounds.least));
        *left -= extra;
        consumed[place] = bounds.least + extra;
    }
    Some(consumed)
}

/// The places of each group's conditions, in declaration order. A group that names an unknown
/// condition, which [`validate`](super::validate) refuses, is never ready and left out.
fn members_of_groups<'a>(
    conditions: &'a [(&Condition, usize)],
    groups: &'a [Vec<Name>],
) -> impl Iterator<Item = Vec<usize>> + 'a {
    let places: BTreeMap<&Name, usize> = conditions
        .iter()
        .enumerate()
        .filter_map(|(place, (condition, _))| Some((condition.id.as_ref()?, place)))
        .collect();
    groups.iter().filter_map(move |group| {
        let members: Option<BTreeSet<usize>> = group.iter().map(|id| places.get(id).copied()).collect();
        Some(members?.into_iter().collect())
    })
}

/// Each condition with its place among the timers, which means nothing for a Channel.
fn number_timers(conditions: &[Condition]) -> Vec<(&Condition, usize)> {
    let mut timers = 0;
    conditions
        .iter()
        .map(|condition| {
            let place = timers;
            timers += usize::from(is_timer(condition));
            (condition, place)
        })
        .collect()
}

fn timer_conditions(wait: &Wait) -> impl Iterator<Item = &Condition> {
    wait.conditions.iter().filter(|condition| is_timer(condition))
}

fn is_timer(condition: &Condition) -> bool {
    matches!(condition.kind, ConditionKind::Timer { .. })
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
