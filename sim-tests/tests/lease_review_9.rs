//! Time lines of the protocol review, area 9: clocks. Times are true milliseconds.

use dexzd_core::ids::Epoch;
use dexzd_io_sim::lease_world::{LeaseConfig, Order, ProcessFaults};
use dexzd_io_sim::weather::Fate;
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{CALM, is_write, world, world_beyond};

#[test]
fn review_9_1_a_wall_clock_that_is_set_forward_costs_one_renewal_and_no_lease() {
    let (mut world, notes) = world(2, 10);
    world.order_at(5 * SECOND, 0, Order::StepWall(30_000_000));
    world.run_until(60 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.stops(), Vec::<String>::new());
    assert_eq!(world.serves(0), Some(Epoch(1)));
    let again = notes.since(5_000);
    assert_eq!(again[0], "5000 p0 open until 5000", "{again:?}");
    assert_eq!(notes.first_ms(5_000, "p0 held 1"), Some(5_001), "a renewal leaves at once: {again:?}");
    assert_eq!(notes.first_ms(5_000, "p0 open until 15000"), Some(5_002), "{again:?}");
}

#[test]
fn review_9_1_a_wall_clock_that_is_set_back_means_nothing() {
    let (mut world, notes) = world(2, 10);
    world.order_at(5 * SECOND, 0, Order::StepWall(-3_600_000_000));
    world.run_until(6 * SECOND);
    world.finish().expect("no rule is broken");
    assert!(notes.since(5_000).iter().all(|line| !line.contains("held")), "{:?}", notes.since(5_000));
    assert_eq!(world.serves(0), Some(Epoch(1)));
}

#[test]
fn review_9_2_a_pause_that_only_the_wall_clock_shows_opens_no_second_gate() {
    let (mut world, notes) = world(2, 10);
    // H renewed at 0; at 2.0 a pause of 5 s that its own clock does not count, and it cannot reach the store.
    world.order_at(2 * SECOND, 0, Order::UncountedPause(5 * SECOND, true));
    world.order_at(2 * SECOND, 0, Order::BlackOut(60 * SECOND));
    world.run_until(40 * SECOND);
    // Invariant 3 is checked: H's own end would be at 15.0, C serves from about 11.3 on.
    world.finish().expect("no rule is broken");
    assert_eq!(world.serves(1), Some(Epoch(2)));
    let reopened = notes
        .since(7_000)
        .iter()
        .any(|line| line.contains("p0 open") && !line.contains("7000 p0 open until 7000"));
    assert!(!reopened, "{:?}", notes.since(7_000));
}

#[test]
fn review_9_3_an_answer_to_an_older_renewal_ends_no_doubt() {
    let (mut world, notes) = world(1, 10);
    // The renewal of 3.34 is answered at 5.0; the wall clock jumps at 4.0; what is sent then takes until 6.0.
    let mut writes = 0;
    world.intercept(Box::new(move |sent| {
        if !is_write(&sent) || sent.at < SECOND {
            return None;
        }
        writes += 1;
        match writes {
            1 => Some(Fate::calm(CALM, 1_600 * MILLISECOND)),
            2 => Some(Fate::calm(CALM, 1_500 * MILLISECOND)),
            _ => None,
        }
    }));
    world.order_at(4 * SECOND, 0, Order::StepWall(10_000_000));
    world.run_until(9 * SECOND);
    world.finish().expect("no rule is broken");
    let opened: Vec<String> =
        notes.since(4_001).into_iter().filter(|line| line.contains("p0 open until 1")).collect();
    let until: u64 = opened[0].rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a time");
    assert!(until >= 14_000, "the doubt ends with a renewal that was sent after it began: {opened:?}");
    assert_eq!(notes.stops(), Vec::<String>::new());
}

#[test]
fn review_9_4_a_pause_that_no_clock_shows_ends_with_the_next_renewal() {
    let process_faults = ProcessFaults { uncounted_pauses_per_hour: 1, ..ProcessFaults::default() };
    let config = LeaseConfig { process_faults, heal_at: SECOND, ..LeaseConfig::calm(2, 10) };
    let (mut world, notes) = world_beyond(config);
    world.order_at(3_500 * MILLISECOND, 0, Order::UncountedPause(60 * SECOND, false));
    world.run_until(75 * SECOND);
    world.finish().expect("no rule is broken");
    let stopped = notes.first_ms(63_500, "p0 stops: lease_taken").expect("it finds out");
    // D/3 and one try, by its own clock.
    assert!((63_500..=63_500 + 3_334 + 20).contains(&stopped), "{stopped} ms");
    assert_eq!(world.serves(1), Some(Epoch(2)));
}
