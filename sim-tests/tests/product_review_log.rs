//! Time lines of protocol-review.md, areas 4 and 8, and lessons D and C: fence, trimming, snapshots and
//! followers in the whole product.

use dexzd_core::standby::FollowerState;
use dexzd_core::stop::StopReason;
use dexzd_io_sim::product::{ByHand, Order, Prefix, ProductConfig, ProductWorld, Shape, StormKind};
use dexzd_io_sim::{MILLISECOND, SECOND, TrueTime};
use dexzd_sim_tests::script::{Notes, cold, hot, one_after_the_other, run, world, world_with};

/// Flows that begin one after the other for so long, and a keeper that trims within seconds.
fn busy(config: ProductConfig, lasts: TrueTime) -> ProductConfig {
    ProductConfig { starts_within: lasts, heal_at: lasts, snapshot_seconds: Some(5), ..config }
}

fn busy_world(config: ProductConfig) -> (ProductWorld, Notes) {
    let draws = one_after_the_other(config.flows.len(), config.starts_within);
    world_with(config, &draws)
}

fn chains(count: usize) -> Vec<Shape> {
    vec![Shape::ChainSync; count]
}

#[test]
fn review_4_1_an_old_volume_is_rebuilt_and_never_served_from() {
    let (mut world, notes) = busy_world(busy(cold(2, chains(200)), 300 * SECOND));
    // p0 has served; its volume waits at its position while p1 goes on, makes snapshots and trims.
    world.order_at(10 * SECOND, 0, Order::Down(200 * SECOND));
    // Then p1 dies for long, and p0 takes the lease with what it has.
    world.order_at(230 * SECOND, 1, Order::Down(60 * SECOND));
    run(&mut world);
    let facts = notes.facts();
    assert_eq!(facts.tenures(), [(0, 1), (1, 2), (0, 3)]);
    assert!(facts.deleted.len() > 100, "{} entries were trimmed", facts.deleted.len());
    assert!(facts.discarded.iter().any(|(at, process)| *process == 0 && *at > 230 * SECOND));
    assert_eq!(facts.reasons(), []);
}

#[test]
fn review_4_2_lesson_d1_a_writer_that_is_frozen_before_it_sends_cannot_write_into_what_was_trimmed() {
    let config = || busy(hot(2, chains(60)), 100 * SECOND);
    let (mut undisturbed, _) = busy_world(config());
    undisturbed.run_until(20 * SECOND);
    let first = undisturbed.outputs();
    let mut zombies = 0;
    for output in first..first + 40 {
        // Long enough for a takeover, two snapshots and trimming.
        let (mut world, notes) =
            busy_world(ProductConfig { freeze_at_output: Some((output, 60 * SECOND)), ..config() });
        run(&mut world);
        let facts = notes.facts();
        if facts.tenures().len() > 1 {
            zombies += 1;
            assert!(!facts.deleted.is_empty());
            assert!(facts.reasons().iter().all(|reason| *reason == StopReason::LeaseExpired));
        }
    }
    assert!(zombies >= 10, "{zombies} of 40 froze the active");
}

#[test]
fn review_4_5_a_successor_that_is_frozen_before_its_fence_never_serves() {
    let config = || busy(cold(3, chains(40)), 100 * SECOND);
    let orders = [(10 * SECOND, 0, Order::Down(200 * SECOND))];
    let (mut undisturbed, notes) = busy_world(config());
    for (at, process, order) in orders {
        undisturbed.order_at(at, process, order);
    }
    undisturbed.run_until(16 * SECOND);
    let first = undisturbed.outputs();
    while notes.facts().tenures().len() < 2 {
        undisturbed.run_until(undisturbed.now() + 10 * MILLISECOND);
    }
    let last = undisturbed.outputs();
    let mut overtaken = 0;
    for output in first + 1..=last {
        let (mut world, notes) =
            busy_world(ProductConfig { freeze_at_output: Some((output, 40 * SECOND)), ..config() });
        for (at, process, order) in orders {
            world.order_at(at, process, order);
        }
        run(&mut world);
        overtaken += usize::from(notes.facts().tenures().last().is_some_and(|(_, epoch)| *epoch > 2));
    }
    assert!(overtaken > 3, "{overtaken} successors were overtaken");
}

#[test]
fn review_4_8_a_hole_in_the_log_is_named_and_nothing_is_written_behind_it() {
    let (mut world, notes) = world(cold(2, chains(20)));
    world.run_until(10 * SECOND);
    let entries = notes.facts().durable.len();
    world.by_hand_at(10 * SECOND, ByHand::LoseEntry(dexzd_core::ids::Position(5)));
    world.order_at(10 * SECOND, 0, Order::Down(100 * SECOND));
    world.run_until(60 * SECOND);
    let facts = notes.facts();
    assert!(!facts.reasons().is_empty());
    assert!(facts.reasons().iter().all(|reason| *reason == StopReason::LogHole), "{:?}", facts.reasons());
    assert_eq!(facts.durable.len(), entries, "nothing was written");
    assert_eq!(facts.tenures(), [(0, 1)]);
}

#[test]
fn review_8_6_a_follower_that_cannot_read_says_so() {
    let (mut world, notes) = busy_world(busy(hot(2, chains(60)), 100 * SECOND));
    world.order_at(20 * SECOND, 1, Order::Storm(StormKind::BlackOut, Some(Prefix::Log), 40 * SECOND));
    run(&mut world);
    let facts = notes.facts();
    // Ten seconds without a poll that reached the end, and it is not hot (HA-46).
    let cold_at = facts.hot.iter().find(|(at, process, hot)| *process == 1 && !hot && *at > 20 * SECOND);
    let cold_at = cold_at.expect("dex.HotStandby does not go on SERVING").0;
    assert!((29 * SECOND..33 * SECOND).contains(&cold_at), "{cold_at}");
    assert!(facts.followed(1).contains(&FollowerState::Behind));
    assert_eq!(facts.followed(1).last(), Some(&FollowerState::Following));
}

#[test]
fn lesson_d5_a_standby_that_was_trimmed_past_bootstraps_and_follows() {
    let (mut world, notes) = busy_world(busy(hot(2, chains(200)), 300 * SECOND));
    world.order_at(20 * SECOND, 1, Order::Down(200 * SECOND));
    run(&mut world);
    let facts = notes.facts();
    assert!(facts.deleted.len() > 100);
    assert!(facts.discarded.iter().any(|(at, process)| *process == 1 && *at > 220 * SECOND));
    assert_eq!(facts.followed(1).last(), Some(&FollowerState::Following));
    // That its keys and values are the active's at every position is what the watchers check.
    assert!(facts.applied_between(1, 220 * SECOND, 400 * SECOND) > 10);
}

#[test]
fn lesson_d8_and_d10_a_new_volume_follows_behind_the_exact_position_of_a_snapshot() {
    let (mut world, notes) = busy_world(busy(hot(2, chains(100)), 150 * SECOND));
    world.order_at(100 * SECOND, 1, Order::LoseDisk);
    run(&mut world);
    let facts = notes.facts();
    let applied: Vec<u64> = facts
        .applied
        .iter()
        .filter(|(at, process, _)| *process == 1 && *at > 100 * SECOND)
        .map(|(_, _, position)| position.0)
        .collect();
    assert!(applied[0] > 50, "it began behind a snapshot and not at {}", applied[0]);
    assert_eq!(facts.followed(1).last(), Some(&FollowerState::Following));
}

#[test]
fn lesson_d11_what_a_hot_standby_replays_does_not_grow_with_the_state() {
    for flows in [20, 400] {
        let (mut world, notes) = world(hot(2, chains(flows)));
        world.order_at(60 * SECOND, 0, Order::Down(100 * SECOND));
        run(&mut world);
        let facts = notes.facts();
        let taken = facts.lease.iter().find(|(_, process, ..)| *process == 1).expect("a takeover").0;
        let served = facts.served.iter().find(|(_, process, _)| *process == 1).expect("it serves").0;
        // The fence, and perhaps the one before it that was in flight.
        assert!(facts.applied_between(1, taken, served) <= 2);
    }
}

#[test]
fn lesson_c8_a_throttled_takeover_goes_on_until_it_succeeds() {
    let (mut world, notes) = world(cold(2, chains(100)));
    world.order_at(20 * SECOND, 0, Order::Down(100 * SECOND));
    world.order_at(20 * SECOND, 1, Order::Storm(StormKind::Throttling, Some(Prefix::Log), 30 * SECOND));
    run(&mut world);
    let facts = notes.facts();
    // No restart loop: the lease is held and renewed until the log answers.
    assert_eq!(facts.tenures(), [(0, 1), (1, 2)]);
    assert_eq!(facts.reasons(), []);
}
