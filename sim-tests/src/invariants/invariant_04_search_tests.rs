//! The search, on a register that everybody knows.

use super::{Specification, Timed, Verdict, explain};
use dexzd_io_sim::TrueTime;

struct Register;

#[derive(Clone, Copy, Debug)]
enum Access {
    Write(u32),
    Read(u32),
}

impl Specification for Register {
    type State = u32;
    type Call = Access;

    fn apply(state: &u32, call: &Access) -> Option<u32> {
        match call {
            Access::Write(value) => Some(*value),
            Access::Read(value) => (value == state).then_some(*state),
        }
    }

    fn only_looks(call: &Access) -> bool {
        matches!(call, Access::Read(_))
    }

    fn is_doomed(_: &u32, _: &Access) -> bool {
        false
    }

    fn rank(_: &Access) -> u64 {
        0
    }
}

use Access::{Read, Write};

fn verdict(calls: &[(TrueTime, Option<TrueTime>, Access)]) -> Verdict {
    let calls: Vec<_> =
        calls.iter().map(|(from, to, call)| Timed { from: *from, to: *to, call: *call }).collect();
    explain::<Register>(&calls)
}

#[test]
fn overlapping_calls_may_come_in_any_order() {
    let calls =
        [(0, Some(10), Write(1)), (2, Some(8), Write(2)), (3, Some(4), Read(1)), (12, Some(13), Read(2))];
    assert_eq!(verdict(&calls), Verdict::Explained);
}

#[test]
fn a_stale_read_is_a_conflict_of_the_two_writes_and_the_read() {
    let calls =
        [(0, Some(1), Write(1)), (2, Some(3), Read(1)), (4, Some(5), Write(2)), (6, Some(7), Read(1))];
    assert_eq!(verdict(&calls), Verdict::Conflict(vec![0, 2, 3]));
}

#[test]
fn a_value_that_is_seen_and_then_not_is_a_conflict() {
    let calls = [(0, Some(10), Write(1)), (1, Some(2), Read(1)), (3, Some(4), Read(0))];
    assert_eq!(verdict(&calls), Verdict::Conflict(vec![1, 2]));
}

#[test]
fn a_call_without_an_answer_may_come_late_or_never() {
    let never = [(0, None, Write(1)), (5, Some(6), Read(0))];
    assert_eq!(verdict(&never), Verdict::Explained);
    let late = [(0, None, Write(1)), (5, Some(6), Read(0)), (7, Some(8), Read(1))];
    assert_eq!(verdict(&late), Verdict::Explained);
    let and_back =
        [(0, None, Write(1)), (5, Some(6), Read(0)), (7, Some(8), Read(1)), (9, Some(10), Read(0))];
    assert_eq!(verdict(&and_back), Verdict::Conflict(vec![2, 3]));
}

#[test]
fn a_call_without_an_answer_does_nothing_before_it_was_made() {
    let calls = [(5, None, Write(1)), (1, Some(2), Read(1))];
    assert_eq!(verdict(&calls), Verdict::Conflict(vec![1]));
}

#[test]
fn a_write_that_changes_nothing_yet_may_be_needed_later() {
    let calls =
        [(0, Some(1), Write(1)), (2, Some(50), Write(1)), (3, Some(4), Write(2)), (60, Some(61), Read(1))];
    assert_eq!(verdict(&calls), Verdict::Explained);
}

#[test]
fn a_wide_knot_of_calls_is_decided() {
    let mut calls: Vec<_> = (1..=7).map(|value| (0, Some(100), Write(value))).collect();
    calls.extend((1..=7).map(|value| (0, Some(100), Read(value))));
    assert_eq!(verdict(&calls), Verdict::Explained);
    calls.push((200, Some(201), Read(13)));
    assert_eq!(verdict(&calls), Verdict::Conflict(vec![14]));
}
