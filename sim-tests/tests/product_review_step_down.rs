//! Time lines of protocol-review.md, areas 6 and 7, and lessons B, E and H: gates, step downs, rolling
//! replacement, and processes that live through many tenures.

use dexzd_core::node::{AdminAnswer, AdminReason, StepDownOutcome};
use dexzd_core::stop::StopReason;
use dexzd_io_sim::product::{Errand, Order, ProductConfig, Shape, Strikes};
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::script::{Facts, cold, hot, one_after_the_other, run, world, world_with};

fn outcomes(facts: &Facts) -> Vec<StepDownOutcome> {
    let outcome = |answer: &AdminAnswer| match answer {
        AdminAnswer::SteppedDown { outcome, .. } => Some(*outcome),
        AdminAnswer::Described { .. } => None,
    };
    facts.admin.iter().filter_map(|(.., answer)| answer.as_ref().ok().and_then(outcome)).collect()
}

#[test]
fn review_8_5_a_process_that_stepped_down_follows_and_serves_again_without_a_restart() {
    let (mut world, notes) = world(hot(2, vec![Shape::Reminder; 10]));
    world.errand_at(5 * SECOND, Errand::StepDown);
    world.errand_at(30 * SECOND, Errand::StepDown);
    world.run_until(60 * SECOND);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2), (0, 3)]);
    assert_eq!(facts.died, []);
    assert!(matches!(
        outcomes(&facts)[..],
        [StepDownOutcome::TakenOver { .. }, StepDownOutcome::TakenOver { .. }]
    ));
}

#[test]
fn ha_099_ha_131_a_single_process_takes_the_lease_back_after_its_hold_off() {
    let (mut world, notes) = world(cold(1, vec![Shape::Reminder; 5]));
    world.errand_at(5 * SECOND, Errand::StepDown);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (0, 2)]);
    assert_eq!(facts.died, []);
    assert!(matches!(outcomes(&facts)[..], [StepDownOutcome::TakenBack { .. }]));
    let released = facts.lease.iter().find(|(.., state)| *state == dexzd_core::lease::LeaseState::Free);
    let released = released.expect("a release").0;
    let gap = facts.served[1].0 - released;
    assert!((5 * SECOND..5 * SECOND + 300 * MILLISECOND).contains(&gap), "{gap}");
}

#[test]
fn ha_097_d_023_attempts_that_no_worker_received_survive_a_step_down_unharmed() {
    let config = ProductConfig { workers_from: 30 * SECOND, ..hot(2, vec![Shape::Single; 6]) };
    let (mut world, notes) = world(config);
    world.errand_at(10 * SECOND, Errand::StepDown);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    assert_eq!(facts.attempts("single"), ["single-1 1"; 6]);
    assert_eq!(facts.attempts("repair"), [""; 0]);
}

#[test]
fn review_7_6_lesson_e2_ha_096_d_025_attempts_cut_off_by_a_drain_are_failed_once_by_the_next_active() {
    // They run for ten seconds, and the drain lasts ten; the handlers do not listen to a cancel.
    let config = ProductConfig { slots: 20, ..hot(2, vec![Shape::Long; 10]) };
    let ignore: String = (0..40).map(|_| "workload ignores_cancel 2 1\n").collect();
    let slow: String = (0..10).map(|_| "workload takes 2000001 2000000\n").collect();
    let (mut world, notes) = world_with(config, &(ignore + &slow));
    world.errand_at(SECOND, Errand::StepDown);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    let attempts = facts.attempts("long");
    let first = attempts.iter().filter(|word| word.ends_with(" 1")).count();
    let second = attempts.iter().filter(|word| word.ends_with(" 2")).count();
    assert_eq!(first, 10);
    assert!(second <= 10 && attempts.len() == first + second, "{attempts:?}");
    assert!(facts.stepping_down.len() == 1 && facts.died.is_empty());
}

#[test]
fn review_7_9_lesson_e4_a_repeated_step_down_changes_nothing() {
    let (mut world, notes) = world(hot(2, vec![Shape::Reminder; 5]));
    world.errand_at(5 * SECOND, Errand::StepDownTwice);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    assert_eq!(facts.stepping_down.len(), 1);
    let refused = facts.admin.iter().filter(|(.., answer)| answer.is_err()).count();
    assert_eq!(refused, 1);
}

#[test]
fn ha_088_wrong_preconditions_are_refused_without_any_effect() {
    let (mut world, notes) = world(hot(2, vec![Shape::Reminder; 5]));
    world.errand_at(2 * SECOND, Errand::Describe);
    world.errand_at(3 * SECOND, Errand::WrongEpoch);
    world.errand_at(4 * SECOND, Errand::WrongNode);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!((facts.tenures(), facts.stepping_down.len()), (vec![(0, 1)], 0));
    let reasons: Vec<AdminReason> = facts
        .admin
        .iter()
        .filter_map(|(.., answer)| answer.as_ref().err().map(|error| error.reason))
        .collect();
    let present = dexzd_core::ids::Epoch(1);
    assert_eq!(reasons, [AdminReason::OtherEpoch { present }, AdminReason::OtherNode]);
}

#[test]
fn ha_078_a_rolling_replacement_costs_moments_and_no_expiry() {
    // A replacement needs two seconds to start.
    let slow_starts = "crash down 2990001 1990000\ncrash down 2990001 1990000\n";
    let (mut world, notes) = world_with(hot(2, vec![Shape::ChainSync; 20]), slow_starts);
    world.order_at(10 * SECOND, 1, Order::Terminate);
    world.order_at(20 * SECOND, 0, Order::Terminate);
    world.run_until(40 * SECOND);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    assert_eq!(facts.reasons(), [StopReason::Shutdown, StopReason::Shutdown]);
    assert!(facts.served[1].0 < 21 * SECOND, "{}", facts.served[1].0);
}

#[test]
fn lesson_b5_an_active_frozen_for_three_minutes_answers_nothing_when_it_wakes() {
    let lasts = 250 * SECOND;
    let config = ProductConfig { starts_within: lasts, heal_at: lasts, ..hot(2, vec![Shape::ChainSync; 50]) };
    let (mut world, notes) = world_with(config, &one_after_the_other(50, lasts));
    world.order_at(10 * SECOND, 0, Order::Freeze(180 * SECOND));
    world.run_until(250 * SECOND);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    assert!(facts.served[1].0 < 22 * SECOND, "expiry and a second, not {}", facts.served[1].0);
    assert_eq!(facts.reasons(), [StopReason::LeaseExpired]);
    assert!(facts.answers.iter().all(|(at, process)| *process == 1 || *at < 20 * SECOND));
}

#[test]
fn lesson_e6_ha_105_a_store_that_stays_open_ends_its_process_after_64_seconds() {
    let config = ProductConfig {
        strikes: Strikes { stuck_stores: 1, ..Strikes::default() },
        heal_at: 200 * SECOND,
        ..cold(1, vec![Shape::Reminder; 3])
    };
    let draws = "store stuck_store 2 1\nstore store_closes 79000001 78000000\n";
    let (mut world, notes) = world_with(config, draws);
    world.errand_at(5 * SECOND, Errand::StepDown);
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.reasons(), [StopReason::StoreNotClosed]);
    let (sent, died) = (facts.stepping_down[0].0, facts.died[0].0);
    assert!((64 * SECOND..65 * SECOND).contains(&(died - sent)), "{}", died - sent);
}
