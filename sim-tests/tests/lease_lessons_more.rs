//! Lessons that control planes can show alone, without a star. Times are true milliseconds.

use std::time::Duration;

use dexzd_core::ids::Epoch;
use dexzd_core::lease::{LeaseDuration, LeaseState};
use dexzd_io_sim::lease_world::{LeaseConfig, Mishap, Order, Precondition, ProcessFaults, STEP_DOWN};
use dexzd_io_sim::weather::{Fate, Heard};
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{
    CALM, answer_lost, is_write, slow, swallowed, unavailable, world, world_beyond,
};

#[test]
fn lesson_a3_four_ends_have_four_reasons_and_only_the_expiry_waits_for_the_cut_off() {
    let (mut expired, expired_notes) = world(1, 10);
    expired.order_at(SECOND, 0, Order::BlackOut(60 * SECOND));
    expired.run_until(11 * SECOND);
    assert_eq!(expired_notes.stops(), ["p0 stops: lease_expired"]);
    assert!(expired_notes.first_ms(0, "p0 shut").is_some_and(|at| (8_800..9_910).contains(&at)));

    let (mut gone, gone_notes) = world(1, 10);
    gone.mishap_at(SECOND, Mishap::Delete);
    gone.run_until(3_400 * MILLISECOND);
    assert_eq!(gone_notes.stops(), ["p0 stops: lease_gone"]);

    let (mut denied, denied_notes) = world(1, 10);
    denied.intercept(Box::new(|sent| {
        (sent.at > SECOND && is_write(&sent)).then(|| Fate::lost(Heard::of_status(403, CALM)))
    }));
    denied.run_until(3_400 * MILLISECOND);
    assert_eq!(denied_notes.stops(), ["p0 stops: storage_permanent"]);

    let process_faults = ProcessFaults { uncounted_pauses_per_hour: 1, ..ProcessFaults::default() };
    let config = LeaseConfig { process_faults, heal_at: SECOND, ..LeaseConfig::calm(2, 10) };
    let (mut replaced, replaced_notes) = world_beyond(config);
    replaced.order_at(3_500 * MILLISECOND, 0, Order::UncountedPause(60 * SECOND, false));
    replaced.run_until(66_900 * MILLISECOND);
    assert_eq!(replaced_notes.stops(), ["p0 stops: lease_taken"]);
}

#[test]
fn lesson_a10_a_store_that_is_slow_for_everything_is_no_reason_to_stop() {
    for (duration_s, latency_ms) in [(10, 1_200), (60, 3_000)] {
        let (mut world, notes) = world(1, duration_s);
        world.intercept(Box::new(move |_| Some(slow(latency_ms * MILLISECOND / 2))));
        world.run_until(3_600 * SECOND);
        world.finish().expect("no rule is broken");
        assert_eq!(notes.stops(), Vec::<String>::new(), "D = {duration_s} s");
        assert_eq!(world.serves(0), Some(Epoch(1)), "D = {duration_s} s");
    }
}

#[test]
fn lesson_a12_no_try_of_a_holder_outlives_its_period() {
    for millis in (3_000..=3_600_000).step_by(997) {
        let duration = LeaseDuration::from_millis(millis).expect("a legal duration");
        assert!(duration.renewal() + duration.try_cut_off() < duration.period(), "{millis}");
        assert_eq!(duration.period() - duration.renewal_cut_off(), Duration::from_millis(100), "{millis}");
    }
    for duration_s in [3, 6, 10, 30, 60, 120] {
        let (mut world, notes) = world(1, duration_s);
        world.intercept(Box::new(|sent| (sent.at > SECOND / 2).then(swallowed)));
        world.run_until((duration_s + 3) * SECOND);
        let shut = notes.first_ms(500, "p0 shut").expect("it stops");
        let cut_off = duration_s * 1_000 - 100;
        assert!((cut_off..cut_off + 10).contains(&shut), "D = {duration_s} s: {shut} ms");
    }
}

#[test]
fn lesson_b3_a_renewal_that_is_answered_late_counts_from_its_send() {
    let (mut world, notes) = world(1, 10);
    let mut writes = 0;
    world.intercept(Box::new(move |sent| {
        if sent.at < SECOND {
            return None;
        }
        writes += usize::from(is_write(&sent));
        Some(if is_write(&sent) && writes == 1 {
            Fate::calm(CALM, 1_600 * MILLISECOND)
        } else {
            unavailable()
        })
    }));
    world.run_until(20 * SECOND);
    let sent = notes.first_ms(3_000, "p0 held 1").expect("it lands") - 1;
    let shut = notes.first_ms(3_000, "p0 shut").expect("it stops");
    assert!((8_899..=9_901).contains(&(shut - sent)), "{sent} {shut}");
}

#[test]
fn lesson_b5_after_three_minutes_of_freeze_the_successor_serves_and_the_thawed_one_ends() {
    let (mut world, notes) = world(2, 10);
    world.order_at(20 * SECOND, 0, Order::Freeze(180 * SECOND));
    world.run_until(201 * SECOND);
    world.finish().expect("no rule is broken");
    let landed = notes.first_ms(13_000, "p0 held 1").expect("it renewed");
    let taken = notes.first_ms(20_000, "p1 held 2").expect("it is taken over");
    assert!(taken <= landed + 3_334 * 2 + 11_000 + 310, "{landed} {taken}");
    assert_eq!(notes.first_ms(200_000, "p0 shut"), Some(200_000));
    assert_eq!(notes.stops(), ["p0 stops: lease_expired"]);
}

#[test]
fn lesson_b7_a_freeze_that_a_clock_counts_ends_the_lease_and_one_that_none_counts_lasts_until_the_next_renewal()
 {
    let (mut counted, notes) = world(2, 10);
    counted.order_at(4 * SECOND, 0, Order::Freeze(14 * SECOND));
    counted.run_until(20 * SECOND);
    counted.finish().expect("no rule is broken");
    assert_eq!(notes.stops(), ["p0 stops: lease_expired"]);

    let (mut jumped, notes) = world(2, 10);
    jumped.order_at(4 * SECOND, 0, Order::UncountedPause(14 * SECOND, true));
    jumped.run_until(20 * SECOND);
    jumped.finish().expect("no rule is broken, two open gates above all");
    // The wall clock puts it in doubt at the thaw; the renewal that follows at once is refused.
    assert_eq!(notes.stops(), ["p0 stops: lease_taken"]);
    assert!(notes.first_ms(18_000, "p0 stops: lease_taken").is_some_and(|at| at <= 18_010));
}

#[test]
fn lesson_c3_a_takeover_whose_answer_was_lost_goes_on_with_its_epoch() {
    let (mut world, notes) = world(2, 10);
    let mut is_first = true;
    world.intercept(Box::new(move |sent| {
        let takes = sent.process == 1
            && sent.record.is_some_and(|it| it.epoch == Epoch(2))
            && std::mem::take(&mut is_first);
        takes.then(answer_lost)
    }));
    world.order_at(5 * SECOND, 0, STEP_DOWN);
    world.run_until(6 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(world.serves(1), Some(Epoch(2)), "{:?}", notes.since(5_000));
    assert!(notes.all().iter().all(|line| !line.ends_with(" 3")), "not N + 2: {:?}", notes.since(5_000));
}

#[test]
fn lesson_c5_every_status_means_what_d_009_says_for_create_renewal_and_release() {
    for status in [304, 404, 409, 412, 429, 500, 503] {
        for which in ["create", "renewal", "release"] {
            let (mut world, notes) = world(1, 10);
            let mut hits = 0;
            world.intercept(Box::new(move |sent| {
                let kind = match sent.record {
                    Some(record) if record.state == LeaseState::Free => "release",
                    Some(record) if record.nonce.counter == 1 => "create",
                    Some(_) if sent.at > SECOND => "renewal",
                    _ => return None,
                };
                if kind != which {
                    return None;
                }
                hits += 1;
                (hits == 1).then(|| Fate::lost(Heard::of_status(status, 2 * CALM)))
            }));
            world.order_at(8 * SECOND, 0, STEP_DOWN);
            world.run_until(25 * SECOND);
            world.finish().expect("no rule is broken");
            assert_eq!(notes.stops(), Vec::<String>::new(), "{status} to {which}");
            assert_eq!(world.serves(0), Some(Epoch(2)), "{status} to {which}: {:?}", notes.all());
        }
    }
    for status in [401, 403, 501] {
        let (mut world, notes) = world(1, 10);
        world.intercept(Box::new(move |sent| {
            (is_write(&sent) && sent.at > SECOND).then(|| Fate::lost(Heard::of_status(status, CALM)))
        }));
        world.run_until(4 * SECOND);
        assert_eq!(notes.stops(), ["p0 stops: storage_permanent"], "{status}");
    }
}

#[test]
fn lesson_c6_a_black_hole_of_three_seconds_is_transient() {
    let (mut world, notes) = world(1, 10);
    world.intercept(Box::new(|sent| (3 * SECOND..6 * SECOND).contains(&sent.at).then(swallowed)));
    world.run_until(60 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.stops(), Vec::<String>::new());
    assert_eq!(world.serves(0), Some(Epoch(1)));
}

#[test]
fn lesson_e1_sigterm_at_any_moment_of_a_renewal_leaves_the_lease_free() {
    for run in 0..1_000_u64 {
        let (mut world, notes) = world(1, 10);
        // Legs of 0 to 400 ms, and every moment of one renewal period.
        let leg = run * 7_919 % 400 * MILLISECOND;
        world.intercept(Box::new(move |sent| (sent.at > SECOND).then(|| slow(leg.max(1)))));
        let at = 20 * SECOND + run * 3_334;
        world.order_at(at, 0, Order::Terminate);
        // One drain, one release that may have to be sent twice, four legs each; the exit is not restarted.
        world.run_until(at + 100 * MILLISECOND + 8 * leg);
        world.finish().expect("no rule is broken");
        assert_eq!(notes.stops(), ["p0 stops: shutdown"], "run {run}, legs of {leg} us");
        let stopped = notes.last_ms("p0 stops: shutdown").expect("checked above");
        let freed = notes.last_ms("p0 free 1").expect("the lease is given back");
        assert!(freed <= stopped, "run {run}: {freed} {stopped}");
        assert_eq!(
            notes.first_ms(freed, "p0 held 1"),
            None,
            "run {run}: nothing of the old epoch lands later"
        );
    }
}

#[test]
fn lesson_e4_a_retry_with_the_original_epoch_changes_nothing() {
    let (mut world, notes) = world(2, 10);
    world.order_at(5 * SECOND, 0, STEP_DOWN);
    let original = Order::StepDown { precondition: Precondition::Epoch(Epoch(1)), old_connection: false };
    world.order_at(8 * SECOND, 1, original);
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    assert!(notes.since(8_000).iter().any(|line| line.contains("p1 answers FailedPrecondition")));
    assert_eq!(world.serves(1), Some(Epoch(2)));
}

#[test]
fn lesson_e7_a_death_inside_a_hold_off_leaves_nobody_stuck() {
    for victim in [0, 1] {
        let (mut world, notes) = world(2, 10);
        world.order_at(5 * SECOND, 0, STEP_DOWN);
        world.order_at(7 * SECOND, victim, Order::Kill);
        world.run_until(7 * SECOND + 16_500 * MILLISECOND);
        world.finish().expect("no rule is broken");
        let serving = world.serves(0).or(world.serves(1));
        assert!(serving.is_some(), "killed p{victim}: {:?}", notes.since(5_000));
    }
    let (mut world, notes) = world(1, 10);
    world.order_at(5 * SECOND, 0, STEP_DOWN);
    world.order_at(6 * SECOND, 0, Order::Kill);
    world.run_until(7 * SECOND);
    // The hold-off lives in memory only: the lease is free, and a new life takes it.
    assert!(world.serves(0).is_some(), "{:?}", notes.since(5_000));
}
