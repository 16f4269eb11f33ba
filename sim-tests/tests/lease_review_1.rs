//! Time lines of the protocol review, area 1: expiry. Times are true milliseconds.

use dexzd_core::ids::Epoch;
use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::lease_world::{LeaseConfig, LeaseWorld, Mishap, Order, StoreMishaps};
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{Notes, is_write, lands_silently, unavailable, world, world_of};
use dexzd_sim_tests::lease_watchers;

/// H's first renewal lands at that time, and nothing else of it does.
fn late_renewal_landing_at(lands_ms: u64) -> (LeaseWorld, Notes) {
    let (mut world, notes) = world(2, 10);
    let mut is_first = true;
    world.intercept(Box::new(move |sent| {
        if sent.process != 0 || sent.at < SECOND {
            return None;
        }
        let is_w2 = is_write(&sent) && std::mem::take(&mut is_first);
        Some(if is_w2 { lands_silently(lands_ms * MILLISECOND - sent.at) } else { unavailable() })
    }));
    (world, notes)
}

#[test]
fn review_1_1_a_renewal_that_lands_before_the_takeover_write_makes_the_candidate_wait_anew() {
    let (mut world, notes) = late_renewal_landing_at(11_000);
    world.run_until(30 * SECOND);
    world.finish().expect("no rule is broken");
    let shut = notes.first_ms(3_500, "p0 shut").expect("it stops");
    assert!((8_800..9_910).contains(&shut), "{shut} ms");
    let taken = notes.first_ms(0, "p1 takes 2").expect("it takes over");
    // The landing, D + 1 s, a poll and what reads and jitter cost: not 11 s after the first sight.
    assert!((22_000..=22_000 + 250 + 60).contains(&taken), "{taken} ms");
    assert!(notes.since(9_908).iter().all(|line| !line.contains("p0 open")), "H never comes back");
}

#[test]
fn review_1_1_a_renewal_that_lands_after_the_takeover_write_is_refused_for_ever() {
    let (mut world, notes) = late_renewal_landing_at(13_000);
    world.run_until(30 * SECOND);
    world.finish().expect("no rule is broken");
    let taken = notes.first_ms(0, "p1 takes 2").expect("it takes over");
    assert!((11_000..=11_000 + 250 + 60).contains(&taken), "{taken} ms");
    assert_eq!(world.serves(1), Some(Epoch(2)));
    assert_eq!(notes.first_ms(12_900, "p0 held 1"), None, "its condition is gone");
}

#[test]
fn review_1_2_two_servers_of_a_store_whose_clocks_differ_make_no_duel() {
    let mishaps = StoreMishaps { skews_ms: [-9_500, 0], ..StoreMishaps::default() };
    let config = LeaseConfig { mishaps, ..LeaseConfig::calm_and_hot(2, 10) };
    for seed in 0..20 {
        let notes = Notes::default();
        let mut watchers = lease_watchers(&config);
        watchers.add(Box::new(notes.clone()));
        let mut world = LeaseWorld::new(config, Dice::from_seed(seed), watchers, Trace::quiet());
        world.mishap_at(60 * SECOND, Mishap::StepStoreClock { server: 1, by_ms: 9_500 });
        world.run_until(120 * SECOND);
        world.finish().expect("no rule is broken");
        let taken = notes.all().iter().filter(|line| line.ends_with(" takes 2")).count();
        assert_eq!(taken, 0, "a running standby never uses the store's clock (D-2): seed {seed}");
    }
}

#[test]
fn review_1_3_a_process_that_is_killed_again_and_again_takes_over_by_the_stores_clock() {
    let (mut world, notes) = world(1, 60);
    for start in 0..6 {
        world.order_at((10 + 30 * start) * SECOND, 0, Order::Kill);
    }
    world.run_until(200 * SECOND);
    world.finish().expect("no rule is broken");
    // Each start observes for less than 61 s. That of 130.1 s is the first one more than 122 s after the
    // last landing.
    let taken = notes.first_ms(1_000, "p0 takes 2").expect("it takes over");
    assert!((130_100..130_300).contains(&taken), "{taken} ms");
}

#[test]
fn review_1_3_where_the_store_has_no_stamps_it_waits_for_a_life_that_lasts() {
    let mishaps = StoreMishaps { has_no_stamps: true, ..StoreMishaps::default() };
    let (mut world, notes) = world_of(LeaseConfig { mishaps, ..LeaseConfig::calm(1, 60) });
    for start in 0..6 {
        world.order_at((10 + 30 * start) * SECOND, 0, Order::Kill);
    }
    world.run_until(300 * SECOND);
    world.finish().expect("no rule is broken");
    let taken = notes.first_ms(1_000, "p0 takes 2").expect("it takes over");
    assert!((160_100 + 61_000..160_100 + 61_600).contains(&taken), "{taken} ms");
}

#[test]
fn review_1_4_a_suspended_candidate_does_not_count_the_time_that_it_slept() {
    let (mut world, notes) = world(2, 10);
    world.order_at(3 * SECOND, 0, Order::Kill);
    world.order_at(3 * SECOND + 200 * MILLISECOND, 0, Order::Freeze(3_600 * SECOND));
    world.order_at(4 * SECOND, 1, Order::Suspend(9 * SECOND));
    world.run_until(40 * SECOND);
    world.finish().expect("no rule is broken");
    let taken = notes.first_ms(1_000, "p1 takes 2").expect("it takes over");
    assert!((20_000..=20_000 + 250 + 60).contains(&taken), "{taken} ms");
}

#[test]
fn review_1_4_a_frozen_candidate_reads_again_before_it_concludes() {
    let (mut world, notes) = world(2, 10);
    // H is out of reach for C's eyes only: C is frozen over the end of its wait, while H renews.
    world.order_at(3 * SECOND, 1, Order::Freeze(20 * SECOND));
    world.run_until(40 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.first_ms(0, "p1 takes 2"), None);
    assert_eq!(world.serves(0), Some(Epoch(1)));
}

#[test]
fn review_1_5_versions_that_are_hashes_of_the_content_change_with_every_renewal() {
    let mishaps = StoreMishaps { hashes_content: true, ..StoreMishaps::default() };
    let (mut world, notes) = world_of(LeaseConfig { mishaps, ..LeaseConfig::calm(2, 10) });
    world.run_until(120 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.first_ms(0, "p1 takes 2"), None, "the nonce makes every write another one");
    assert_eq!(world.serves(0), Some(Epoch(1)));
}

#[test]
fn review_1_7_slewing_by_8_percent_breaks_nothing_where_each_believes_the_right_clock() {
    for (holder_ppb, candidate_ppb) in [(-80_000_000, 80_000_000), (80_000_000, -80_000_000)] {
        let (mut world, notes) = world(2, 30);
        world.order_at(SECOND, 0, Order::Slew(holder_ppb));
        world.order_at(SECOND, 1, Order::Slew(candidate_ppb));
        world.order_at(20 * SECOND, 0, Order::BlackOut(300 * SECOND));
        world.run_until(120 * SECOND);
        // The check of invariant 3 is on: the gate of H is shut before C's opens.
        world.finish().expect("no rule is broken");
        assert!(notes.first_ms(0, "p1 takes 2").is_some());
    }
}
