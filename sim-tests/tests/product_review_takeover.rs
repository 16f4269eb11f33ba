//! Time lines of protocol-review.md, areas 5 to 8, 11 and 12, and lesson F5: what passes from one active to
//! the next, and what must not.

use std::collections::BTreeSet;

use dexzd_core::lease::LeaseState;
use dexzd_core::standby::FollowerState;
use dexzd_core::stop::StopReason;
use dexzd_io_sim::product::{
    ByHand, Errand, Order, Part, Prefix, ProductConfig, ProductWorld, Shape, StormKind,
};
use dexzd_io_sim::{MILLISECOND, SECOND, TrueTime};
use dexzd_sim_tests::script::{Facts, cold, hot, one_after_the_other, run, world, world_with};

/// Flows that begin one after the other for so long.
fn busy(config: ProductConfig, lasts: TrueTime) -> (ProductConfig, String) {
    let draws = one_after_the_other(config.flows.len(), lasts);
    (ProductConfig { starts_within: lasts, heal_at: lasts, ..config }, draws)
}

/// What was handed out under an epoch, in order.
fn handed_out(facts: &Facts, epoch: u64) -> Vec<&str> {
    facts.handed_out.iter().filter(|(_, of, _)| *of == epoch).map(|(.., word)| word.as_str()).collect()
}

/// When an epoch came to serve.
fn served_at(facts: &Facts, epoch: u64) -> TrueTime {
    facts.served.iter().find(|(.., of)| of.0 == epoch).expect("it came to serve").0
}

#[test]
fn review_5_d_044_a_result_of_an_async_hand_out_that_was_never_durable_counts_for_nobody() {
    let config = ProductConfig { workers_from: 2 * SECOND, ..cold(2, vec![Shape::ChainAsync]) };
    // Without the log's answers p0 goes on in memory, and hands out what nobody will know of.
    let storm = |world: &mut ProductWorld| {
        let black = Order::Storm(StormKind::BlackOut, Some(Prefix::Log), 60 * SECOND);
        world.order_at(1_900 * MILLISECOND, 0, black);
    };
    // Every handler takes three tenths of a second.
    let slow: String = (0..10).map(|_| "workload takes 299001 299000\n").collect();
    let (mut undisturbed, notes) = world_with(config.clone(), &slow);
    storm(&mut undisturbed);
    undisturbed.run_until(6 * SECOND);
    let second_left = {
        let facts = notes.facts();
        assert_eq!(handed_out(&facts, 1), ["first-1 1", "second-1 1", "third-1 1"]);
        facts.left[1].0
    };
    // It dies while the second one's handler runs on an input that existed in its memory only.
    let (mut world, notes) = world_with(config, &slow);
    storm(&mut world);
    world.order_at(second_left + 100 * MILLISECOND, 0, Order::Down(200 * SECOND));
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    assert_eq!(handed_out(&facts, 1), ["first-1 1", "second-1 1"]);
    // The same Steps and attempts again: only the hand-out tells the two apart.
    assert_eq!(handed_out(&facts, 2), ["first-1 1", "second-1 1", "third-1 1"]);
    let of_the_first: Vec<bool> =
        facts.settled.iter().filter(|(_, epoch, _)| *epoch == 1).map(|(.., counted)| *counted).collect();
    assert_eq!(of_the_first.last(), Some(&false), "the late result of attempt 1 was heard and did not count");
    assert_eq!(facts.late, 1);
}

#[test]
fn lesson_f5_a_result_that_arrives_in_the_second_of_a_takeover_is_dropped_and_the_work_done_once() {
    let mut in_that_second = 0;
    for tenth in 0..20 {
        // The handler ends after ten to twelve seconds, and the takeover comes eleven after the last renewal.
        let (mut world, notes) = world_with(cold(2, vec![Shape::Long]), "workload takes 2000001 1500000\n");
        world.order_at(SECOND + tenth * 100 * MILLISECOND, 0, Order::Down(100 * SECOND));
        run(&mut world);
        let facts = notes.facts();
        assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
        assert_eq!(handed_out(&facts, 1), ["long-1 1"]);
        assert_eq!(handed_out(&facts, 2), ["long-1 2"]);
        let settled: Vec<(u64, bool)> =
            facts.settled.iter().map(|(_, epoch, counted)| (*epoch, *counted)).collect();
        assert_eq!(settled, [(1, false), (2, true)]);
        let served = served_at(&facts, 2);
        in_that_second += u32::from((served..served + SECOND).contains(&facts.settled[0].0));
    }
    assert!(in_that_second > 0, "in {in_that_second} of 20 runs");
}

#[test]
fn review_6_2_whatever_output_it_is_frozen_at_an_active_says_nothing_under_an_ended_lease() {
    let (config, draws) = busy(hot(2, vec![Shape::ChainSync; 60]), 60 * SECOND);
    let (mut undisturbed, _) = world_with(config.clone(), &draws);
    undisturbed.run_until(20 * SECOND);
    let first = undisturbed.outputs();
    let mut frozen = 0;
    for output in first..first + 40 {
        let freeze_at_output = Some((output, 30 * SECOND));
        let (mut world, notes) = world_with(ProductConfig { freeze_at_output, ..config.clone() }, &draws);
        run(&mut world);
        let facts = notes.facts();
        if facts.tenures().len() > 1 {
            frozen += 1;
            assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
            assert_eq!(facts.reasons(), [StopReason::LeaseExpired]);
            let served = served_at(&facts, 2);
            assert!(facts.answers.iter().all(|(at, process)| *process == 1 || *at < served));
            assert!(facts.answers.iter().any(|(at, process)| *process == 1 && *at > served));
        }
    }
    assert!(frozen >= 10, "{frozen} of 40 froze the active");
}

#[test]
fn review_6_3_d_054_an_engine_that_stands_still_does_not_keep_the_lease_for_ever() {
    let (config, draws) = busy(hot(2, vec![Shape::ChainSync; 60]), 100 * SECOND);
    // It starts again two seconds after its stop: else it may be hot again at once, and first.
    let (mut world, notes) = world_with(config, &(draws + "crash down 2990001 1990000\n"));
    world.order_at(20 * SECOND, 0, Order::Starve(Part::Data, 60 * SECOND));
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    assert_eq!(facts.reasons(), [StopReason::EngineStalled]);
    let (released, by, epoch, _) =
        *facts.lease.iter().find(|(.., state)| *state == LeaseState::Free).expect("it is released in order");
    assert_eq!((by, epoch.0), (0, 1));
    // Thirty seconds after its last sign of life.
    assert!((49 * SECOND..51 * SECOND).contains(&released), "{released}");
    let gap = served_at(&facts, 2) - released;
    assert!(gap < SECOND, "without an expiry wait, not {gap}");
}

#[test]
fn review_7_17_a_standby_that_still_bootstraps_takes_a_released_lease_before_the_old_active_does() {
    let (config, draws) = busy(hot(2, vec![Shape::ChainSync; 150]), 150 * SECOND);
    let (mut world, notes) = world_with(ProductConfig { snapshot_seconds: Some(5), ..config }, &draws);
    // Its volume is new, and its requests for snapshots hear nothing: it is far from hot.
    world.order_at(100 * SECOND, 1, Order::LoseDisk);
    world.order_at(100 * SECOND, 1, Order::Storm(StormKind::BlackOut, Some(Prefix::Snapshots), 40 * SECOND));
    world.errand_at(110 * SECOND, Errand::StepDown);
    run(&mut world);
    let facts = notes.facts();
    let shown =
        facts.follower.iter().rfind(|(at, of, _)| *of == 1 && *at < 110 * SECOND).and_then(|last| last.2);
    assert_eq!(shown, Some(FollowerState::Bootstrapping));
    let released = facts.lease.iter().find(|(.., state)| *state == LeaseState::Free).expect("a release").0;
    let taken = facts.lease.iter().find(|(_, process, ..)| *process == 1).expect("a takeover").0;
    let wait = taken - released;
    assert!((1_500 * MILLISECOND..2_100 * MILLISECOND).contains(&wait), "{wait}");
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    // It has the lease for long before it can serve, although the old active would be back after five seconds.
    assert!(served_at(&facts, 2) > 140 * SECOND, "{}", served_at(&facts, 2));
    assert_eq!(facts.reasons(), []);
}

#[test]
fn review_8_1_what_a_follower_applied_is_never_rolled_back() {
    let (config, draws) = busy(hot(2, vec![Shape::ChainSync; 60]), 60 * SECOND);
    let (mut undisturbed, _) = world_with(config.clone(), &draws);
    undisturbed.run_until(20 * SECOND);
    let first = undisturbed.outputs();
    let mut takeovers = 0;
    for output in first..first + 30 {
        // The active dies at any moment; its last write lands, or does not.
        let crash_at_output = Some(output);
        let (mut world, notes) = world_with(ProductConfig { crash_at_output, ..config.clone() }, &draws);
        run(&mut world);
        let facts = notes.facts();
        let of = |process| -> Vec<u64> {
            facts.applied.iter().filter(|(_, of, _)| *of == process).map(|(.., end)| end.0).collect()
        };
        takeovers += u32::from(facts.tenures().last().is_some_and(|(process, _)| *process == 1));
        // One store for the follower and for the active that it became: forward only, and to the very end.
        let applied = of(1);
        assert!(applied.windows(2).all(|two| two[0] < two[1]), "{applied:?}");
        assert_eq!(applied.last(), facts.digests.keys().last().map(|end| &end.0));
        assert!(facts.digests.values().all(|seen| seen.iter().all(|(_, digest)| *digest == seen[0].1)));
        assert_eq!(facts.discarded, []);
        assert_eq!(facts.reasons(), []);
    }
    assert!(takeovers > 0);
}

#[test]
fn review_8_7_at_every_position_all_local_stores_contain_the_same() {
    let (config, draws) = busy(hot(3, vec![Shape::ChainMixed; 60]), 60 * SECOND);
    let (mut world, notes) = world_with(config, &draws);
    world.errand_at(20 * SECOND, Errand::StepDown);
    world.order_at(40 * SECOND, 1, Order::Kill);
    run(&mut world);
    let facts = notes.facts();
    let mut compared = 0;
    for (position, digests) in &facts.digests {
        let processes: BTreeSet<_> = digests.iter().map(|(process, _)| *process).collect();
        let contents: BTreeSet<_> = digests.iter().map(|(_, digest)| *digest).collect();
        assert_eq!(contents.len(), 1, "at {position:?}");
        compared += u32::from(processes.len() == 3);
    }
    assert!(compared > 50, "{compared} positions of all three");
}

#[test]
fn review_11_5_d_055_a_lease_object_older_than_the_log_is_waited_for_and_raised_above_it() {
    let (config, draws) = busy(cold(2, vec![Shape::ChainSync; 60]), 200 * SECOND);
    let (mut world, notes) = world_with(ProductConfig { lease_is_restored: false, ..config }, &draws);
    // Two switches, so that the log shows epoch 3.
    world.errand_at(10 * SECOND, Errand::StepDown);
    world.errand_at(20 * SECOND, Errand::StepDown);
    // The bucket comes back with a lease of long ago while nobody runs.
    world.order_at(30 * SECOND, 0, Order::Down(5 * SECOND));
    world.order_at(30 * SECOND, 1, Order::Down(300 * SECOND));
    world.by_hand_at(31 * SECOND, ByHand::RestoreLease(12));
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures()[..3], [(0, 1), (1, 2), (0, 3)]);
    let next = facts.tenures()[3];
    assert!(next.0 == 0 && next.1 > 3, "{next:?}");
    // The acquisition beside the old record is behind the log and serves nothing.
    let behind: Vec<u64> =
        facts.lease.iter().filter(|(at, ..)| *at > 31 * SECOND).map(|(.., epoch, _)| epoch.0).collect();
    assert!(behind[0] <= 3 && *behind.last().expect("a raise") == next.1, "{behind:?}");
    assert!(facts.served[3].0 > 46 * SECOND, "{}", facts.served[3].0);
    assert_eq!(facts.reasons(), []);
}

#[test]
fn review_12_15_d_039_a_successor_whose_wall_clock_is_an_hour_behind_fires_each_timer_all_the_same() {
    let (mut world, notes) = world(hot(2, vec![Shape::Reminder; 20]));
    world.order_at(SECOND, 1, Order::StepWall(-3_600_000_000));
    world.order_at(5 * SECOND, 0, Order::Down(400 * SECOND));
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    let served = served_at(&facts, 2);
    // Time goes on from the newest in the log: no round waits for the hour, and none comes twice.
    let last = facts.left.last().expect("rounds under the new epoch").0;
    assert!((served..served + 20 * SECOND).contains(&last), "{last} after {served}");
    let all: BTreeSet<&str> = handed_out(&facts, 2).into_iter().collect();
    assert!(all.iter().all(|word| word.ends_with(" 1")), "{all:?}");
}
