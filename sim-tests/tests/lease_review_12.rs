//! Time lines of the protocol review, area 12: the rest. Times are true milliseconds.

use dexzd_core::ids::Epoch;
use dexzd_io_sim::lease_world::{LeaseConfig, Order, STEP_DOWN};
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{lands_silently, world, world_of};

#[test]
fn review_12_5_a_lost_race_is_no_failed_takeover() {
    let (mut world, notes) = world(3, 10);
    world.order_at(5 * SECOND, 0, STEP_DOWN);
    world.run_until(8 * SECOND);
    let winner = if world.serves(1).is_some() { 1 } else { 2 };
    let loser = 3 - winner;
    assert_eq!(world.serves(winner), Some(Epoch(2)), "{:?}", notes.since(5_000));
    // The next release: the one that lost is there within a poll, not after a back-off.
    world.order_at(9 * SECOND, winner, STEP_DOWN);
    world.run_until(9_400 * MILLISECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(world.serves(loser), Some(Epoch(3)), "{:?}", notes.since(5_000));
}

#[test]
fn review_12_8_fail_if_held_after_a_crash_fails_while_the_lease_may_live_and_starts_later() {
    let config = LeaseConfig { fail_if_held: true, ..LeaseConfig::calm(1, 10) };
    let (mut world, notes) = world_of(config);
    world.order_at(2 * SECOND, 0, Order::Kill);
    world.run_until(120 * SECOND);
    world.finish().expect("no rule is broken");
    // Each start fails at once until the store's clock proves the expiry: 10 + 1 + 1 + 60 s after the landing.
    let stops = notes.stops();
    assert!(stops.len() > 100 && stops.iter().all(|stop| stop == "p0 stops: lease_held"), "{stops:?}");
    let takes = notes.first_ms(2_000, "p0 takes 2").expect("a single replica starts again");
    assert!((72_000..=74_200).contains(&takes), "{takes} ms");
    assert_eq!(world.serves(0), Some(Epoch(2)));
}

#[test]
fn review_12_9_an_abandoned_takeover_that_lands_later_is_ones_own() {
    for lands_after_s in [3, 14] {
        let (mut world, notes) = world(2, 10);
        let mut is_first = true;
        world.intercept(Box::new(move |sent| {
            let takes = sent.process == 1
                && sent.record.is_some_and(|it| it.epoch == Epoch(2))
                && std::mem::take(&mut is_first);
            takes.then_some(lands_silently(lands_after_s * SECOND))
        }));
        world.order_at(5 * SECOND, 0, STEP_DOWN);
        world.order_at(5_010 * MILLISECOND, 0, Order::Freeze(60 * SECOND));
        world.run_until(30 * SECOND);
        world.finish().expect("no rule is broken");
        let epoch = world.serves(1).expect("it serves");
        assert!(epoch >= Epoch(2), "{epoch}: {:?}", notes.since(5_000));
        assert_eq!(notes.stops(), Vec::<String>::new());
    }
}

#[test]
fn review_12_11_of_many_standbys_on_one_release_exactly_one_wins() {
    let (mut world, notes) = world(3, 10);
    world.order_at(5 * SECOND, 0, STEP_DOWN);
    world.run_until(7 * SECOND);
    world.finish().expect("no rule is broken");
    assert!(notes.count("held 2") > 0, "{:?}", notes.since(5_000));
    assert_eq!([world.serves(1), world.serves(2)].iter().flatten().count(), 1);
}
