//! Time lines of the protocol review, area 11: a lease object that is missing, damaged or unknown. Times are
//! true milliseconds.

use dexzd_core::ids::Epoch;
use dexzd_io_sim::lease_world::{LeaseConfig, Mishap, Order};
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{world, world_of};

#[test]
fn review_11_1_a_missing_lease_is_waited_for_like_one_seen_for_the_first_time() {
    let (mut world, notes) = world(2, 10);
    world.order_at(400 * MILLISECOND, 0, Order::BlackOut(60 * SECOND));
    world.mishap_at(500 * MILLISECOND, Mishap::Delete);
    world.run_until(30 * SECOND);
    // H is cut off from the store and serves until 9.9: invariant 3 is checked.
    world.finish().expect("no rule is broken");
    let takes = notes.first_ms(500, "p1 takes 1001").expect("it is created again, far above");
    assert!((11_500..=11_500 + 250 + 60).contains(&takes), "{takes} ms");
    assert_eq!(world.serves(1), Some(Epoch(1_001)));
}

#[test]
fn review_11_3_of_two_that_create_it_again_one_wins() {
    let (mut world, notes) = world(3, 10);
    world.order_at(SECOND, 0, Order::Kill);
    world.order_at(SECOND + 101 * MILLISECOND, 0, Order::Freeze(60 * SECOND));
    world.mishap_at(1_100 * MILLISECOND, Mishap::Delete);
    world.run_until(30 * SECOND);
    world.finish().expect("no rule is broken");
    let served = [world.serves(1), world.serves(2)];
    assert_eq!(served.iter().flatten().count(), 1, "{served:?} {:?}", notes.since(1_000));
}

#[test]
fn review_11_3_an_old_store_that_updates_what_is_missing_is_refused_at_the_start() {
    let (mut world, notes) = world(1, 10);
    world.store().updates_missing = true;
    world.run_until(SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.all(), ["0 p0 refuses the store: it updates an object that is missing"]);
}

#[test]
fn lesson_c4_a_store_that_ignores_conditions_is_refused_at_the_start() {
    let (mut world, notes) =
        world_of(LeaseConfig { store_ignores_conditions: true, ..LeaseConfig::calm(2, 10) });
    world.run_until(60 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(
        notes.all(),
        [
            "0 p0 refuses the store: it creates an object that exists",
            "1 p1 refuses the store: it creates an object that exists"
        ]
    );
}

#[test]
fn review_11_4_an_unreadable_lease_is_never_overwritten_and_stops_its_holder_with_a_reason_of_its_own() {
    for damage in [Mishap::CutShort, Mishap::Flip, Mishap::NewerFormat] {
        let (mut world, notes) = world(2, 10);
        world.mishap_at(2 * SECOND, damage);
        world.run_until(300 * SECOND);
        assert_eq!(notes.stops(), ["p0 stops: lease_unreadable"], "{damage:?}");
        assert_eq!(world.lease(), None, "{damage:?}: as it was");
        let written = notes.since(2_000).iter().filter(|line| line.contains("held")).count();
        assert_eq!(written, 0, "{damage:?}: {:?}", notes.since(2_000));
        // An operator brings the last good state back: from then on it is a lease like any other.
        world.mishap_at(301 * SECOND, Mishap::Mend);
        world.run_until(320 * SECOND);
        world.finish().expect("no rule is broken");
        let takes = notes.all().iter().filter(|line| line.ends_with("takes 2")).count();
        assert!(takes >= 1, "{damage:?}: {:?}", notes.since(300_000));
    }
}

#[test]
fn review_11_5_a_lease_that_is_older_than_the_log_is_raised_above_it() {
    let (mut world, notes) = world(2, 10);
    // Epochs 1 to 3 have their fences in the log; then a state of epoch 1 comes back, which was free.
    for (at, process) in [(5, 0), (15, 1)] {
        world.order_at(at * SECOND, process, dexzd_io_sim::lease_world::STEP_DOWN);
    }
    world.run_until(25 * SECOND);
    let epoch = world.lease().expect("it is there").epoch;
    assert!(epoch >= Epoch(3), "{epoch}");
    world.mishap_at(25 * SECOND, Mishap::Restore { back: 6 });
    world.run_until(120 * SECOND);
    world.finish().expect("no rule is broken");
    let serving = world.serves(0).or(world.serves(1)).expect("somebody serves again");
    assert!(serving > epoch, "{serving} after {epoch}: {:?}", notes.since(25_000));
}
