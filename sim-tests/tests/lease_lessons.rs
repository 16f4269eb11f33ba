//! The starred lessons that lease machines can show alone, as scripts in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use dexzd_core::ids::Epoch;
use dexzd_core::node::Role;
use dexzd_core::stop::StopReason;
use dexzd_io_sim::clock::Clocks;
use dexzd_io_sim::lease_world::{LeaseConfig, Mishap, Order};
use dexzd_io_sim::weather::{Fate, Heard};
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{CALM, answer_lost, is_release, is_write, unavailable, world, world_of};

#[test]
fn a_calm_holder_renews_as_ha_036_counts() {
    let (mut world, notes) = world(1, 10);
    world.run_until(3_600 * SECOND);
    world.finish().expect("no rule is broken");
    let renewals = notes.all().iter().filter(|line| line.contains("held 1")).count() - 1;
    assert!((1_079..=1_081).contains(&renewals), "{renewals} renewals in an hour at D = 10 s");
}

#[test]
fn lesson_a1_a_renewal_whose_answer_was_lost_is_adopted_and_counts_from_its_send() {
    let (mut world, notes) = world(1, 10);
    let mut writes = 0;
    world.intercept(Box::new(move |sent| {
        writes += usize::from(is_write(&sent));
        // The third write is the first renewal after the confirmation.
        (is_write(&sent) && writes == 3).then(answer_lost)
    }));
    world.run_until(8 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(world.serves(0), Some(Epoch(1)));
    let story = notes.since(0);
    let landed =
        story.iter().position(|line| line.ends_with("p0 held 1") && line.starts_with("33")).expect("lands");
    let sent_ms =
        story[landed].split(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("a time") - 1;
    // It is found by the read behind the failure, and trusted from its own send on.
    assert_eq!(story[landed + 1], format!("{} p0 open until {}", sent_ms + 4, sent_ms + 10_000));
}

#[test]
fn lesson_a2_a_holder_survives_a_store_that_fails_until_the_last_moment() {
    let (mut world, notes) = world(1, 10);
    // Every renewal fails from 3 s to 8 s; the tries after that still fit before 9.9 s.
    world.intercept(Box::new(|sent| {
        (is_write(&sent) && (3 * SECOND..8 * SECOND).contains(&sent.at)).then(unavailable)
    }));
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(world.serves(0), Some(Epoch(1)));
    assert!(notes.since(0).iter().all(|line| !line.contains("stops")));
}

#[test]
fn lesson_a2_a_try_that_hears_nothing_is_cut_off_after_a_sixth_while_another_fits() {
    let (mut world, notes) = world(1, 10);
    let sent_at = Rc::new(RefCell::new(Vec::new()));
    let log = sent_at.clone();
    world.intercept(Box::new(move |sent| {
        if !is_write(&sent) || is_release(&sent) || sent.at < SECOND {
            return None;
        }
        log.borrow_mut().push(sent.at / MILLISECOND);
        Some(Fate::lost(Heard::Nothing))
    }));
    world.run_until(9_950 * MILLISECOND);
    let tries = sent_at.borrow().clone();
    let pauses: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // D/6 = 1,667 ms, then a back-off of 100 ms doubling to 1 s, drawn from its upper half.
    let allowed = [(50, 100), (100, 200), (200, 400), (400, 800)];
    for (pause, (low, high)) in pauses.iter().zip(allowed) {
        assert!((1_666 + low..=1_667 + high).contains(pause), "{pauses:?}");
    }
    // HA-25, HA-27: given up 100 ms before the end of the period that began with the confirmation.
    let shut_ms = notes.first_ms(9_000, "p0 shut").expect("it stops");
    assert!((9_900..=9_908).contains(&shut_ms), "{shut_ms} ms");
    world.run_until(12 * SECOND);
    assert_eq!(notes.stops(), ["p0 stops: lease_expired"]);
}

#[test]
fn lesson_b1_wall_clocks_of_two_machines_are_never_compared() {
    for skew_s in [-30, 0, 2, 30] {
        let config = LeaseConfig::calm(2, 10);
        let (mut world, notes) = world_of(config);
        world.order_at(MILLISECOND, 1, Order::StepWall(skew_s * 1_000_000));
        world.order_at(30 * SECOND, 0, Order::Kill);
        world.order_at(30 * SECOND, 0, Order::Freeze(3_600 * SECOND));
        world.run_until(60 * SECOND);
        world.finish().expect("no rule is broken, two open gates above all");
        let story = notes.since(0);
        let last_renewal = story.iter().rfind(|line| line.ends_with("p0 held 1")).expect("it renewed");
        let takeover = story.iter().find(|line| line.ends_with("held 2")).expect("somebody took over");
        let time =
            |line: &str| line.split(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("a time");
        let wait = time(takeover) - time(last_renewal);
        // HA-18 and D-2: D + 1 s, one poll, a read, the jitter, a write.
        assert!((11_000..=11_000 + 250 + 2 + 50 + 2).contains(&wait), "{wait} ms with a skew of {skew_s} s");
    }
}

#[test]
fn lesson_b4_a_holder_that_was_frozen_between_two_outputs_sends_nothing_under_its_old_epoch() {
    let (mut world, notes) = world(2, 10);
    world.order_at(20 * SECOND, 0, Order::Freeze(40 * SECOND));
    world.run_until(90 * SECOND);
    world.finish().expect("no rule is broken, two open gates above all");
    let story = notes.since(20_000);
    let takeover = story.iter().position(|line| line.ends_with("p1 held 2")).expect("the standby took over");
    let thawed: Vec<&String> = story[takeover..].iter().filter(|line| line.contains("p0")).collect();
    // On the thaw its gate is shut before it does anything else (D-51 tries a release); its next life is a
    // standby.
    assert_eq!(thawed[1], "60000 p0 shut", "{thawed:?}");
    assert!(thawed.iter().all(|line| !line.contains("p0 open")), "{thawed:?}");
    assert_eq!(notes.stops(), ["p0 stops: lease_expired"]);
    assert_eq!(world.role(0), Some(Role::Waiting));
    assert_eq!(world.serves(1), Some(Epoch(2)));
}

#[test]
fn lesson_c2_a_409_to_an_acquisition_and_to_a_renewal_is_read_back_and_tried_again() {
    let (mut world, notes) = world(1, 10);
    let mut writes = 0;
    world.intercept(Box::new(move |sent| {
        writes += usize::from(is_write(&sent));
        let conflict = Fate::lost(Heard::Refused { after: 2 * CALM });
        (is_write(&sent) && [1, 4, 5].contains(&writes)).then_some(conflict)
    }));
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(world.serves(0), Some(Epoch(1)));
    assert!(notes.since(0).iter().all(|line| !line.contains("stops")));
}

#[test]
fn lesson_d2_a_lease_deleted_by_hand_comes_back_above_every_epoch_in_the_log() {
    let (mut world, notes) = world(1, 10);
    world.order_at(15 * SECOND, 0, Order::Kill);
    world.mishap_at(15 * SECOND + MILLISECOND, Mishap::Delete);
    world.run_until(60 * SECOND);
    world.finish().expect("no rule is broken");
    let story = notes.since(15_000);
    // D-49: as after a held lease first seen now, for the duration that the newest fence records.
    let back = story.iter().find(|line| line.contains("held")).expect("it comes back");
    assert!(back.ends_with("p0 held 1001"), "{story:?}");
    let at: u64 = back.split(' ').next().and_then(|word| word.parse().ok()).expect("a time");
    assert!((26_000..27_000).contains(&at), "{story:?}");
}

#[test]
fn lesson_d2_a_holder_whose_lease_object_is_gone_stops_with_that_reason() {
    let (mut world, notes) = world(1, 10);
    world.mishap_at(5 * SECOND, Mishap::Delete);
    world.run_until(8 * SECOND);
    let stopped = format!("stops: {}", StopReason::LeaseGone.label());
    assert!(notes.since(5_000).iter().any(|line| line.ends_with(&stopped)), "{:?}", notes.since(0));
}

#[test]
fn exact_clocks_read_true_time() {
    let clocks = Clocks::exact();
    let (early, late) = (clocks.now(0), clocks.now(SECOND));
    assert_eq!(late.instant.saturating_since(early.instant).as_secs(), 1);
    assert_eq!(late.wall.saturating_since(early.wall).as_secs(), 1);
}
