//! Time lines of the protocol review, area 2: adopting a late renewal. Times are true milliseconds.

use std::cell::RefCell;
use std::rc::Rc;

use dexzd_core::ids::Epoch;
use dexzd_io_sim::lease_world::{LeaseConfig, LeaseWorld, Mishap, Order, ProcessFaults, Sent};
use dexzd_io_sim::weather::{Fate, Heard};
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{
    CALM, Notes, answer_lost, is_release, is_write, lands_silently, slow, swallowed, unavailable, world,
    world_beyond,
};

/// The send times of H's renewals from the first second on, in milliseconds.
type Sends = Rc<RefCell<Vec<u64>>>;

/// H's renewals, counted from 1, get these fates.
fn renewals(world: &mut LeaseWorld, fate: impl Fn(usize, &Sent<'_>) -> Option<Fate> + 'static) -> Sends {
    let sends = Sends::default();
    let log = sends.clone();
    world.intercept(Box::new(move |sent| {
        if sent.process != 0 || !is_write(&sent) || is_release(&sent) || sent.at < SECOND {
            return None;
        }
        log.borrow_mut().push(sent.at / MILLISECOND);
        let number = log.borrow().len();
        fate(number, &sent)
    }));
    sends
}

fn opened_until(notes: &Notes, until_ms: u64) -> bool {
    notes.all().iter().any(|line| line.ends_with(&format!("p0 open until {until_ms}")))
}

#[test]
fn review_2_1_the_period_of_an_adopted_write_counts_from_its_own_send() {
    let (mut world, notes) = world(1, 10);
    // A1 lands 1.7 s later, after it was cut off; A2 is refused.
    let sends =
        renewals(&mut world, |number, _| (number == 1).then_some(lands_silently(1_700 * MILLISECOND)));
    world.run_until(6 * SECOND);
    world.finish().expect("no rule is broken");
    let a1 = sends.borrow()[0];
    assert!(opened_until(&notes, a1 + 10_000), "{:?}", notes.since(3_000));
    assert!(!opened_until(&notes, sends.borrow()[1] + 10_000), "not from A2's send (R-2.1)");
}

#[test]
fn review_2_3_a_later_try_that_landed_without_an_answer_is_adopted_from_its_own_send() {
    let (mut world, notes) = world(1, 10);
    let sends = renewals(&mut world, |number, _| match number {
        1 => Some(unavailable()),
        2 => Some(answer_lost()),
        _ => None,
    });
    world.run_until(8 * SECOND);
    world.finish().expect("no rule is broken");
    let sends = sends.borrow();
    assert!(opened_until(&notes, sends[1] + 10_000), "{:?}", notes.since(3_000));
}

#[test]
fn review_2_4_a_412_to_ones_own_repeated_request_is_recognised_by_its_nonce() {
    let (mut world, notes) = world(1, 10);
    let refused = Fate::landing(CALM, Heard::Refused { after: 2 * CALM });
    let sends = renewals(&mut world, move |number, _| (number == 1).then_some(refused));
    world.run_until(6 * SECOND);
    world.finish().expect("no rule is broken");
    assert!(opened_until(&notes, sends.borrow()[0] + 10_000), "{:?}", notes.since(3_000));
    assert_eq!(notes.stops(), Vec::<String>::new());
}

#[test]
fn review_2_5_a_refusal_that_changed_nothing_is_tried_again() {
    let (mut world, notes) = world(1, 10);
    let spurious = Fate::lost(Heard::Refused { after: 2 * CALM });
    let sends = renewals(&mut world, move |number, _| (number <= 3).then_some(spurious));
    world.run_until(6 * SECOND);
    world.finish().expect("no rule is broken");
    assert!(opened_until(&notes, sends.borrow()[3] + 10_000), "{:?}", notes.since(3_000));
}

#[test]
fn review_2_6_refused_and_then_missing_is_a_lease_that_is_gone() {
    let (mut world, notes) = world(1, 10);
    world.mishap_at(3 * SECOND, Mishap::Delete);
    world.run_until(5 * SECOND);
    assert_eq!(notes.stops(), ["p0 stops: lease_gone"]);
}

#[test]
fn review_2_8_what_a_read_shows_counts_when_its_answer_is_handled() {
    for (leg_ms, expected) in [(1, 0), (2_000, 1)] {
        let (mut world, notes) = world(1, 10);
        let mut writes = 0;
        world.intercept(Box::new(move |sent| {
            if sent.at < SECOND {
                return None;
            }
            if !is_write(&sent) {
                // Reads before 9 s fail; those after it arrive at once, or after the cut-off.
                let early = sent.at < 9 * SECOND;
                return Some(if early { unavailable() } else { slow(leg_ms * MILLISECOND / 2) });
            }
            writes += 1;
            Some(if writes == 1 { answer_lost() } else { unavailable() })
        }));
        world.run_until(9_950 * MILLISECOND);
        let expired = notes.count("p0 shut");
        assert_eq!(expired, expected, "reads of {leg_ms} ms: {:?}", notes.since(3_000));
    }
}

#[test]
fn review_2_9_a_renewal_that_lands_after_the_cut_off_only_delays_the_successor() {
    let (mut world, notes) = world(2, 10);
    let mut is_first = true;
    world.intercept(Box::new(move |sent| {
        if sent.process != 0 || sent.at < SECOND {
            return None;
        }
        let is_a1 = is_write(&sent) && std::mem::take(&mut is_first);
        Some(if is_a1 { lands_silently(9_950 * MILLISECOND - sent.at) } else { unavailable() })
    }));
    world.run_until(30 * SECOND);
    world.finish().expect("no rule is broken");
    let shut = notes.first_ms(3_500, "p0 shut").expect("it stops");
    assert!((8_800..9_910).contains(&shut), "{shut} ms");
    let taken = notes.first_ms(0, "p1 takes 2").expect("it takes over");
    assert!((20_950..=20_950 + 250 + 60).contains(&taken), "{taken} ms");
}

#[test]
fn review_2_10_a_copied_process_finds_a_write_under_its_identity_and_stops_with_a_reason_of_its_own() {
    let process_faults = ProcessFaults { clones_per_hour: 1, ..ProcessFaults::default() };
    let config = LeaseConfig { process_faults, heal_at: SECOND, ..LeaseConfig::calm(2, 10) };
    let (mut world, notes) = world_beyond(config);
    world.order_at(5 * SECOND, 1, Order::BecomeCopyOf(0));
    world.run_until(12 * SECOND);
    world.finish().expect("no rule is broken");
    // Both renew at the same moment by equal clocks; one is refused, and reads what it never wrote.
    assert_eq!(notes.stops().len(), 1, "{:?}", notes.since(5_000));
    assert!(notes.stops()[0].ends_with("stops: unknown_own_write"), "{:?}", notes.stops());
    let serving = [world.serves(0), world.serves(1)];
    assert!(serving.contains(&Some(Epoch(1))), "{serving:?}");
}

#[test]
fn review_2_12_a_late_positive_answer_of_an_abandoned_try_counts() {
    let (mut world, notes) = world(1, 10);
    // A1 lands at once; its answer takes 4 s. Everything else is swallowed.
    world.intercept(Box::new({
        let mut writes = 0;
        move |sent| {
            if sent.at < SECOND {
                return None;
            }
            writes += usize::from(is_write(&sent));
            let is_a1 = is_write(&sent) && writes == 1;
            Some(if is_a1 { Fate::calm(CALM, 4 * SECOND) } else { swallowed() })
        }
    }));
    world.run_until(9 * SECOND);
    world.finish().expect("no rule is broken");
    let renewed = notes.all().iter().filter(|line| line.contains("open until 133")).count();
    assert_eq!(renewed, 1, "{:?}", notes.since(3_000));
}

#[test]
fn review_2_13_a_store_that_takes_two_seconds_for_everything_kills_no_holder() {
    for (duration_s, latency_ms) in
        [(10, 1_800), (10, 2_000), (10, 3_000), (3, 1_200), (60, 6_000), (60, 12_000)]
    {
        let (mut world, notes) = world(1, duration_s);
        world.intercept(Box::new(move |sent| (sent.at > SECOND).then(|| slow(latency_ms * MILLISECOND / 2))));
        world.run_until(600 * SECOND);
        world.finish().expect("no rule is broken");
        assert_eq!(notes.stops(), Vec::<String>::new(), "D = {duration_s} s, {latency_ms} ms");
        assert_eq!(world.serves(0), Some(Epoch(1)), "D = {duration_s} s, {latency_ms} ms");
    }
}
