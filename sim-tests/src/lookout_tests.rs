use dexzd_core::ids::Epoch;
use dexzd_core::lease::LeaseState;
use dexzd_io_sim::marks;
use dexzd_io_sim::watch::{Seen, Watcher};

use super::{FAILOVER_GAP, Lookout};
use crate::invariants::made_up::{lease, open};

/// The marks of a story, by name.
fn marks_of(story: &[(u64, Seen<'_>)]) -> marks::Tally {
    drop(marks::take());
    let mut lookout = Lookout::default();
    for (at, seen) in story {
        lookout.observe(*at, seen).expect("it only counts");
    }
    marks::take()
}

#[test]
fn the_gap_lasts_from_the_end_of_one_gate_to_the_opening_of_the_next() {
    let shut = || Seen::GateShut { process: 0, epoch: Epoch(1) };
    let ran_out = marks_of(&[(0, open(0, 1, 100)), (50, open(0, 1, 150)), (170, open(1, 2, 300))]);
    assert_eq!(ran_out.values[FAILOVER_GAP], [20]);
    let was_shut = marks_of(&[(0, open(0, 1, 100)), (40, shut()), (45, open(1, 2, 300))]);
    assert_eq!(was_shut.values[FAILOVER_GAP], [5]);
}

#[test]
fn a_gate_in_doubt_that_opens_again_is_two_marks_and_no_failover() {
    let tally = marks_of(&[(0, open(0, 1, 900_000)), (10, open(0, 1, 10)), (20, open(0, 1, 990_000))]);
    assert_eq!(tally.count("a gate is in doubt"), 1);
    assert_eq!(tally.count("a gate in doubt opens again"), 1);
    assert!(tally.values.is_empty());
}

#[test]
fn takeovers_are_told_apart() {
    let first = lease(0, 1, LeaseState::Held);
    let freed = lease(0, 1, LeaseState::Free);
    let second = lease(1, 2, LeaseState::Held);
    let landed = |process, record| Seen::LeaseLanded { process, record };
    let alive = marks_of(&[(0, landed(0, &first)), (9, landed(1, &second))]);
    assert_eq!(alive.count("takeover from a process that lives"), 1);
    let died = Seen::Died { process: 0, reason: None };
    let dead = marks_of(&[(0, landed(0, &first)), (5, died), (9, landed(1, &second))]);
    assert_eq!(dead.count("takeover after a death"), 1);
    let released = marks_of(&[(0, landed(0, &first)), (5, landed(0, &freed)), (9, landed(1, &second))]);
    assert_eq!(released.count("a released lease is taken"), 1);
}

#[test]
fn a_renewal_that_overtakes_its_release_is_marked() {
    let first = lease(0, 1, LeaseState::Held);
    let sent = Seen::ReleaseSent { process: 0, epoch: Epoch(1) };
    let landed = || Seen::LeaseLanded { process: 0, record: &first };
    let tally = marks_of(&[(0, landed()), (5, sent), (9, landed())]);
    assert_eq!(tally.count("a renewal lands after its release was sent"), 1);
}
