use std::borrow::ToOwned;
use std::collections::BTreeMap;
use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::{SkipOutcome, TimerSelector, WaitProgress, evaluate, results, watched_channels};
use crate::engine::{Condition, ConditionKind, ConditionResult, Key, TimerState, Value, Wait, WaitKind};
use crate::ids::{Blob, Name};
use crate::time::Timestamp;

const ACCEPTED: Timestamp = Timestamp::from_millis(1_000);

fn channel_key(name: &str) -> Key {
    Key { name: Name::new(name), instance: None }
}

fn timer(duration_ms: u64) -> Condition {
    Condition { id: None, kind: ConditionKind::Timer { duration_ms } }
}

fn channel(name: &str, at_least: Option<u32>, at_most: Option<u32>) -> Condition {
    Condition { id: None, kind: ConditionKind::Channel { channel: channel_key(name), at_least, at_most } }
}

fn one(name: &str) -> Condition {
    channel(name, None, None)
}

fn named(id: &str, condition: Condition) -> Condition {
    Condition { id: Some(Name::new(id)), ..condition }
}

fn wait(kind: WaitKind, conditions: Vec<Condition>) -> Wait {
    Wait { kind, conditions }
}

fn combination(groups: &[&[&str]], conditions: Vec<Condition>) -> Wait {
    let groups = groups.iter().map(|group| group.iter().map(|id| Name::new(id)).collect()).collect();
    wait(WaitKind::AnyCombinationOf(groups), conditions)
}

/// What the Wait consumes with these queue lengths, with every timer due by `passed_ms` fired.
fn consumed(wait: &Wait, passed_ms: u64, queued: &[(&str, usize)]) -> Option<Vec<usize>> {
    let mut progress = WaitProgress::accept(wait, ACCEPTED, &[]);
    progress.fire_due(Timestamp::from_millis(1_000 + passed_ms));
    let queued: BTreeMap<String, usize> =
        queued.iter().map(|(name, len)| ((*name).to_owned(), *len)).collect();
    let channel_len = |key: &Key| queued.get(&*key.name).copied().unwrap_or(0);
    evaluate(wait, &progress, &channel_len).map(|outcome| outcome.consumed)
}

#[test]
fn concepts_1_6_channel_bounds_table() {
    // (at least, at most), then for queues of 0 to 5 messages what is consumed; None: not ready.
    type Row = (Option<u32>, Option<u32>, [Option<usize>; 6]);
    let table: [Row; 9] = [
        (None, None, [None, Some(1), Some(1), Some(1), Some(1), Some(1)]),
        (Some(3), Some(3), [None, None, None, Some(3), Some(3), Some(3)]),
        (Some(2), None, [None, None, Some(2), Some(3), Some(4), Some(5)]),
        (Some(0), None, [Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)]),
        (None, Some(3), [Some(0), Some(1), Some(2), Some(3), Some(3), Some(3)]),
        (Some(2), Some(4), [None, None, Some(2), Some(3), Some(4), Some(4)]),
        (Some(0), Some(1), [Some(0), Some(1), Some(1), Some(1), Some(1), Some(1)]),
        (Some(5), Some(5), [None, None, None, None, None, Some(5)]),
        (Some(6), None, [None; 6]),
    ];
    for (at_least, at_most, expected) in table {
        for kind in [WaitKind::UntilOne, WaitKind::AllOf, WaitKind::AnyOf] {
            let wait = wait(kind, vec![channel("c", at_least, at_most)]);
            for (queued, expected) in expected.into_iter().enumerate() {
                assert_eq!(
                    consumed(&wait, 0, &[("c", queued)]),
                    expected.map(|count| vec![count]),
                    "at least {at_least:?}, at most {at_most:?}, {queued} queued"
                );
            }
        }
    }
}

#[test]
fn concepts_1_6_skip_is_over_at_once() {
    assert_eq!(consumed(&wait(WaitKind::Skip, vec![]), 0, &[]), Some(vec![]));
}

#[test]
fn concepts_1_6_all_of_nothing_is_over_at_once() {
    assert_eq!(consumed(&wait(WaitKind::AllOf, vec![]), 0, &[]), Some(vec![]));
}

#[test]
fn concepts_1_6_all_of_needs_timers_and_channels() {
    let wait = wait(WaitKind::AllOf, vec![one("a"), timer(50), channel("b", Some(2), None)]);
    assert_eq!(consumed(&wait, 49, &[("a", 1), ("b", 2)]), None);
    assert_eq!(consumed(&wait, 50, &[("a", 0), ("b", 2)]), None);
    assert_eq!(consumed(&wait, 50, &[("a", 1), ("b", 1)]), None);
    assert_eq!(consumed(&wait, 50, &[("a", 4), ("b", 3)]), Some(vec![1, 0, 3]));
}

#[test]
fn concepts_1_6_all_of_counts_no_message_twice() {
    let wait = wait(WaitKind::AllOf, vec![one("a"), channel("a", Some(2), Some(2))]);
    assert_eq!(consumed(&wait, 0, &[("a", 2)]), None);
    assert_eq!(consumed(&wait, 0, &[("a", 3)]), Some(vec![1, 2]));
    assert_eq!(consumed(&wait, 0, &[("a", 9)]), Some(vec![1, 2]));
}

#[test]
fn concepts_1_6_all_of_leaves_later_conditions_on_the_channel_what_they_need() {
    let greedy = wait(WaitKind::AllOf, vec![channel("a", Some(1), None), one("a")]);
    assert_eq!(consumed(&greedy, 0, &[("a", 1)]), None);
    assert_eq!(consumed(&greedy, 0, &[("a", 5)]), Some(vec![4, 1]));

    let optional_first = wait(WaitKind::AllOf, vec![channel("a", None, Some(3)), one("a")]);
    assert_eq!(consumed(&optional_first, 0, &[("a", 0)]), None);
    assert_eq!(consumed(&optional_first, 0, &[("a", 1)]), Some(vec![0, 1]));
    assert_eq!(consumed(&optional_first, 0, &[("a", 3)]), Some(vec![2, 1]));
    assert_eq!(consumed(&optional_first, 0, &[("a", 9)]), Some(vec![3, 1]));
}

#[test]
fn concepts_1_6_instances_of_a_channel_map_are_separate_queues() {
    let instance = |key: &str| Key { name: Name::new("m"), instance: Some(Name::new(key)) };
    let on = |key: &str| Condition {
        id: None,
        kind: ConditionKind::Channel { channel: instance(key), at_least: None, at_most: None },
    };
    let wait = wait(WaitKind::AllOf, vec![on("x"), on("y")]);
    let progress = WaitProgress::accept(&wait, ACCEPTED, &[]);
    let only_x = |key: &Key| if *key == instance("x") { 2 } else { 0 };
    assert_eq!(evaluate(&wait, &progress, &only_x), None);
    let watched: Vec<Key> = watched_channels(&wait).cloned().collect();
    assert_eq!(watched, [instance("x"), instance("y")]);
}

#[test]
fn concepts_1_6_any_of_prefers_timers_whatever_their_place() {
    let wait = wait(WaitKind::AnyOf, vec![one("a"), timer(10)]);
    assert_eq!(consumed(&wait, 9, &[]), None);
    assert_eq!(consumed(&wait, 9, &[("a", 1)]), Some(vec![1, 0]));
    assert_eq!(consumed(&wait, 10, &[("a", 1)]), Some(vec![0, 0]));
}

#[test]
fn concepts_1_6_any_of_skips_what_is_not_ready_and_only_the_picked_channel_consumes() {
    let wait = wait(WaitKind::AnyOf, vec![channel("a", Some(2), None), one("b"), one("c"), timer(10)]);
    let queued = [("a", 1), ("b", 3), ("c", 3)];
    assert_eq!(consumed(&wait, 0, &queued), Some(vec![0, 1, 0, 0]));
    let queued = [("a", 2), ("b", 3), ("c", 3)];
    assert_eq!(consumed(&wait, 0, &queued), Some(vec![2, 0, 0, 0]));
}

#[test]
fn concepts_1_6_any_of_an_optional_channel_is_over_at_once() {
    let wait = wait(WaitKind::AnyOf, vec![one("a"), channel("b", None, Some(2))]);
    assert_eq!(consumed(&wait, 0, &[]), Some(vec![0, 0]));
}

#[test]
fn concepts_1_6_combination_takes_the_first_ready_group_and_only_its_channels_consume() {
    let wait = combination(
        &[&["pay", "ship"], &["late", "pay"], &["late"]],
        vec![named("ship", one("ship")), named("late", timer(10)), named("pay", one("pay"))],
    );
    assert_eq!(consumed(&wait, 0, &[("pay", 5)]), None);
    assert_eq!(consumed(&wait, 0, &[("pay", 5), ("ship", 5)]), Some(vec![1, 0, 1]));
    assert_eq!(consumed(&wait, 10, &[("pay", 5), ("ship", 5)]), Some(vec![1, 0, 1]));
    assert_eq!(consumed(&wait, 10, &[("pay", 5)]), Some(vec![0, 0, 1]));
    assert_eq!(consumed(&wait, 10, &[("ship", 5)]), Some(vec![0, 0, 0]));
}

#[test]
fn concepts_1_6_combination_counts_no_message_twice_within_a_group() {
    let wait =
        combination(&[&["first", "second"]], vec![named("first", one("a")), named("second", one("a"))]);
    assert_eq!(consumed(&wait, 0, &[("a", 1)]), None);
    assert_eq!(consumed(&wait, 0, &[("a", 2)]), Some(vec![1, 1]));
}

#[test]
fn concepts_1_6_results_come_in_declaration_order() {
    let value = |text: &str| Value { encoding: Name::new("text"), data: Blob::from(text.as_bytes()) };
    let wait = wait(WaitKind::AnyOf, vec![timer(10), one("a"), timer(0), one("b")]);
    let progress = WaitProgress::accept(&wait, ACCEPTED, &[]);
    assert_eq!(
        results(&wait, &progress, vec![vec![], vec![value("m")]]),
        [
            ConditionResult::Timer { fired: false },
            ConditionResult::Channel { values: vec![value("m")] },
            ConditionResult::Timer { fired: true },
            ConditionResult::Channel { values: vec![] },
        ]
    );
}

#[test]
fn concepts_1_7_a_timer_is_due_relative_to_the_acceptance() {
    let wait = wait(WaitKind::AllOf, vec![timer(20), timer(10)]);
    let mut progress = WaitProgress::accept(&wait, ACCEPTED, &[]);
    assert_eq!(progress.next_due(), Some(Timestamp::from_millis(1_010)));
    assert_eq!(progress.fire_due(Timestamp::from_micros(1_009_999)), 0);
    assert_eq!(progress.fire_due(Timestamp::from_millis(1_010)), 1);
    assert_eq!(progress.next_due(), Some(Timestamp::from_millis(1_020)));
    // Overdue, it fires once.
    assert_eq!(progress.fire_due(Timestamp::from_millis(999_999)), 1);
    assert_eq!(progress.fire_due(Timestamp::from_millis(999_999)), 0);
    assert_eq!(progress.next_due(), None);
}

#[test]
fn concepts_1_7_a_timer_of_no_duration_has_fired_when_the_wait_is_accepted() {
    let wait = wait(WaitKind::UntilOne, vec![timer(0)]);
    let progress = WaitProgress::accept(&wait, ACCEPTED, &[]);
    assert_eq!(progress.next_due(), None);
    assert!(evaluate(&wait, &progress, &|_| 0).is_some());
}

#[test]
fn concepts_1_7_the_longest_timer_does_not_overflow() {
    let wait = wait(WaitKind::UntilOne, vec![timer(u64::MAX)]);
    let progress = WaitProgress::accept(&wait, Timestamp::from_micros(u64::MAX - 1), &[]);
    assert_eq!(progress.next_due(), Some(Timestamp::MAX));
}

#[test]
fn concepts_1_7_skip_by_id_or_by_index_among_timers() {
    let wait =
        wait(WaitKind::AllOf, vec![named("t", one("a")), named("first", timer(10)), one("b"), timer(20)]);
    let accepted = WaitProgress::accept(&wait, ACCEPTED, &[]);

    let mut progress = accepted.clone();
    let by_id = TimerSelector::Id(Name::new("first"));
    assert_eq!(progress.skip(&wait, &by_id), SkipOutcome::Skipped);
    assert_eq!(progress.skip(&wait, &by_id), SkipOutcome::AlreadyFired);
    assert_eq!(progress.next_due(), Some(Timestamp::from_millis(1_020)));

    let by_index = TimerSelector::Index(1);
    assert_eq!(progress.skip(&wait, &by_index), SkipOutcome::Skipped);
    assert_eq!(progress.next_due(), None);

    // A Channel's ID and an index behind the last timer name no timer.
    let mut progress = accepted.clone();
    let channel = TimerSelector::Id(Name::new("t"));
    assert_eq!(progress.skip(&wait, &channel), SkipOutcome::NotFound);
    assert_eq!(progress.skip(&wait, &TimerSelector::Index(2)), SkipOutcome::NotFound);
    assert_eq!(progress, accepted);
}

#[test]
fn concepts_1_7_a_skip_before_the_wait_is_remembered_and_shown_as_a_skip() {
    let wait = wait(WaitKind::AllOf, vec![named("t", timer(10)), timer(20)]);
    let skips = [TimerSelector::Id(Name::new("t")), TimerSelector::Index(7)];
    let progress = WaitProgress::accept(&wait, ACCEPTED, &skips);
    assert_eq!(
        progress.timer_states(&wait),
        [
            TimerState {
                id: Some(Name::new("t")),
                due: Timestamp::from_millis(1_010),
                fired: true,
                skipped: true,
            },
            TimerState { id: None, due: Timestamp::from_millis(1_020), fired: false, skipped: false },
        ]
    );
}

#[test]
fn concepts_1_7_progress_survives_its_encoding() {
    let wait = wait(WaitKind::AllOf, vec![timer(10), timer(20)]);
    let mut progress = WaitProgress::accept(&wait, ACCEPTED, &[TimerSelector::Index(1)]);
    progress.fire_due(Timestamp::from_millis(1_010));
    let bytes = minicbor::to_vec(&progress).expect("a Vec takes every byte");
    assert_eq!(minicbor::decode::<WaitProgress>(&bytes).expect("just encoded"), progress);
}

/// Concepts 1.6, row by row: whether a condition alone is ready, and what it may take.
fn reference_ready(condition: &Condition, fired: bool, queued: usize) -> Option<usize> {
    match &condition.kind {
        ConditionKind::Timer { .. } => fired.then_some(0),
        ConditionKind::Channel { at_least: None, at_most: None, .. } => (queued >= 1).then_some(1),
        ConditionKind::Channel { at_least: Some(n), at_most: None, .. } => {
            (queued >= *n as usize).then_some(queued)
        }
        ConditionKind::Channel { at_least: None, at_most: Some(n), .. } => Some(queued.min(*n as usize)),
        ConditionKind::Channel { at_least: Some(a), at_most: Some(b), .. } => {
            (queued >= *a as usize).then_some(queued.min(*b as usize))
        }
    }
}

fn channel_of(condition: &Condition) -> Option<&Key> {
    match &condition.kind {
        ConditionKind::Timer { .. } => None,
        ConditionKind::Channel { channel, .. } => Some(channel),
    }
}

/// All ways to share one queue among the conditions, tried one after the other: the first that gives
/// every condition a legal number and the earlier conditions as much as possible.
fn reference_share(conditions: &[&Condition], queued: usize) -> Option<Vec<usize>> {
    let Some((first, rest)) = conditions.split_first() else {
        return Some(vec![]);
    };
    (0..=queued).rev().find_map(|take| {
        // `take` is legal if the condition, alone with just these messages, takes all of them.
        if reference_ready(first, false, take) != Some(take) {
            return None;
        }
        let mut shares = vec![take];
        shares.extend(reference_share(rest, queued - take)?);
        Some(shares)
    })
}

fn reference_together(
    conditions: &[Condition],
    member: impl Fn(usize) -> bool,
    fired: &[bool],
    queued: &BTreeMap<Key, usize>,
) -> Option<Vec<usize>> {
    let mut consumed = vec![0; conditions.len()];
    for (place, condition) in conditions.iter().enumerate() {
        if member(place) && channel_of(condition).is_none() && !fired[place] {
            return None;
        }
    }
    for (channel, queued) in queued {
        let places: Vec<usize> = (0..conditions.len())
            .filter(|place| member(*place) && channel_of(&conditions[*place]) == Some(channel))
            .collect();
        let sharing: Vec<&Condition> = places.iter().map(|place| &conditions[*place]).collect();
        for (place, share) in places.iter().zip(reference_share(&sharing, *queued)?) {
            consumed[*place] = share;
        }
    }
    Some(consumed)
}

fn reference(wait: &Wait, fired: &[bool], queued: &BTreeMap<Key, usize>) -> Option<Vec<usize>> {
    let conditions = &wait.conditions;
    match &wait.kind {
        WaitKind::Skip => Some(vec![0; conditions.len()]),
        WaitKind::UntilOne | WaitKind::AllOf => reference_together(conditions, |_| true, fired, queued),
        WaitKind::AnyOf => {
            let timers = (0..conditions.len()).filter(|p| channel_of(&conditions[*p]).is_none());
            let channels = (0..conditions.len()).filter(|p| channel_of(&conditions[*p]).is_some());
            timers.chain(channels).find_map(|place| {
                let queued = channel_of(&conditions[place]).map_or(0, |channel| queued[channel]);
                let take = reference_ready(&conditions[place], fired[place], queued)?;
                let mut consumed = vec![0; conditions.len()];
                consumed[place] = take;
                Some(consumed)
            })
        }
        WaitKind::AnyCombinationOf(groups) => groups.iter().find_map(|group| {
            let member = |place: usize| {
                let id = conditions[place].id.as_ref().expect("combinations name every condition");
                group.contains(id)
            };
            reference_together(conditions, member, fired, queued)
        }),
    }
}

fn any_condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        1 => (0..4_u64).prop_map(timer),
        3 => ("[ab]", proptest::option::of(0..4_u32), proptest::option::of(0..3_u32)).prop_map(
            |(name, at_least, more)| {
                let at_most = more.map(|more| (at_least.unwrap_or(0) + more).max(1));
                channel(&name, at_least, at_most)
            }
        ),
    ]
}

fn any_wait() -> impl Strategy<Value = Wait> {
    let groups = proptest::collection::vec(proptest::collection::vec(0..5_usize, 1..4), 1..4);
    let conditions = proptest::collection::vec(any_condition(), 1..5);
    (conditions, groups, 0..4_u8).prop_map(|(mut conditions, groups, kind)| {
        for (place, condition) in conditions.iter_mut().enumerate() {
            condition.id = Some(Name::from(std::format!("{place}")));
        }
        let count = conditions.len();
        let id = |place: usize| Name::from(std::format!("{}", place % count));
        let kind = match kind {
            0 => WaitKind::AllOf,
            1 => WaitKind::AnyOf,
            2 => WaitKind::AnyCombinationOf(
                groups.into_iter().map(|group| group.into_iter().map(id).collect()).collect(),
            ),
            _ => {
                conditions.truncate(1);
                WaitKind::UntilOne
            }
        };
        Wait { kind, conditions }
    })
}

proptest! {
    #[test]
    fn concepts_1_6_waits_agree_with_the_document(
        wait in any_wait(),
        passed_ms in 0..4_u64,
        in_a in 0..7_usize,
        in_b in 0..4_usize,
    ) {
        let queued = BTreeMap::from([(channel_key("a"), in_a), (channel_key("b"), in_b)]);
        let fired: Vec<bool> = wait
            .conditions
            .iter()
            .map(|condition| match condition.kind {
                ConditionKind::Timer { duration_ms } => duration_ms <= passed_ms,
                ConditionKind::Channel { .. } => false,
            })
            .collect();
        let expected = reference(&wait, &fired, &queued);
        let actual = consumed(&wait, passed_ms, &[("a", in_a), ("b", in_b)]);
        prop_assert_eq!(actual, expected);
    }

    #[test]
    fn concepts_1_6_more_messages_never_undo_a_readiness(
        wait in any_wait(),
        in_a in 0..7_usize,
        in_b in 0..4_usize,
        more in 0..5_usize,
    ) {
        if consumed(&wait, 0, &[("a", in_a), ("b", in_b)]).is_some() {
            prop_assert!(consumed(&wait, 0, &[("a", in_a + more), ("b", in_b + more)]).is_some());
        }
    }

    #[test]
    fn concepts_1_6_no_wait_consumes_more_than_is_queued(
        wait in any_wait(),
        in_a in 0..7_usize,
        in_b in 0..4_usize,
    ) {
        if let Some(consumed) = consumed(&wait, 9, &[("a", in_a), ("b", in_b)]) {
            for (name, queued) in [("a", in_a), ("b", in_b)] {
                let taken: usize = wait
                    .conditions
                    .iter()
                    .zip(&consumed)
                    .filter(|(condition, _)| channel_of(condition) == Some(&channel_key(name)))
                    .map(|(_, count)| count)
                    .sum();
                prop_assert!(taken <= queued);
            }
        }
    }
}
