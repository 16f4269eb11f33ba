//! Standing by: the poll, the pauses before the write, and the way back after a step down.

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use super::candidate_tests::{TRANSIENT, acquired, decided, store_with, until_write};
use super::driver::{Driver, ME, OTHER, Sent, Store, free_from, held_by, node, seconds};
use super::record::{LeaseRecord, LeaseState};
use super::{Candidate, CandidateConfig, CandidateOutput, LeaseOperation, Pace, Pen, UnknownHolder};
use crate::ids::{Blob, Epoch, ProcessId};
use crate::rng::Rng;
use crate::standby::{StandbyConfig, StandbyMode, StandbyTimes};
use crate::store::{ReadOutcome, WriteOutcome};

fn standby(pace: Pace, store: Store, seed: u64) -> Driver<Candidate> {
    let pen = Pen::new(node(), ME, seconds(10));
    let candidate = Candidate::new(pen, CandidateConfig::default(), Rng::new(seed)).with_pace(pace);
    Driver::at(0, candidate, store)
}

fn hot(store: Store) -> Driver<Candidate> {
    standby(Pace::of(&StandbyConfig::hot()), store, 7)
}

fn set_hot(candidate: &mut Driver<Candidate>, is_hot: bool) {
    let look = candidate.look();
    candidate.machine.set_hot(look, is_hot);
    candidate.drain();
}

/// Lets time pass with a store that answers at once; everything that was sent.
fn run(candidate: &mut Driver<Candidate>, until_ms: u64) -> Vec<Sent> {
    let mut log = Vec::new();
    let now_micros = candidate.now_micros();
    candidate.until_micros(now_micros);
    loop {
        for sent in candidate.all_sent() {
            candidate.serve(&sent);
            log.push(sent);
        }
        if candidate.now_micros() >= until_ms * 1_000 {
            return log;
        }
        let next = (candidate.now_micros() + 1_000).min(until_ms * 1_000);
        candidate.until_micros(next);
    }
}

// --- the poll ---

#[test]
fn ha_043_a_held_lease_is_read_every_poll_interval() {
    let times =
        StandbyTimes { held_lease_poll_interval: Duration::from_millis(100), ..StandbyTimes::default() };
    let config = StandbyConfig::new(StandbyMode::Hot, times).expect("legal");
    let mut candidate = standby(Pace::of(&config), store_with(&held_by(OTHER, 7, 1)), 7);
    let at: Vec<f64> = run(&mut candidate, 450).iter().map(Sent::at_ms).collect();
    assert_eq!(at, [0.0, 100.0, 200.0, 300.0, 400.0]);
}

#[test]
fn d_013_a_cold_standby_reads_it_every_250_ms_whatever_is_configured() {
    let times =
        StandbyTimes { held_lease_poll_interval: Duration::from_millis(100), ..StandbyTimes::default() };
    let config = StandbyConfig::new(StandbyMode::Cold, times).expect("legal");
    let mut candidate = standby(Pace::of(&config), store_with(&held_by(OTHER, 7, 1)), 7);
    let at: Vec<f64> = run(&mut candidate, 600).iter().map(Sent::at_ms).collect();
    assert_eq!(at, [0.0, 250.0, 500.0]);
}

#[test]
fn ha_042_every_record_is_told_once() {
    let mut candidate = hot(store_with(&held_by(OTHER, 7, 1)));
    run(&mut candidate, 1_000);
    candidate.store.put(&held_by(OTHER, 7, 2));
    run(&mut candidate, 2_000);
    assert_eq!(candidate.seen(), [held_by(OTHER, 7, 1), held_by(OTHER, 7, 2)]);
}

// --- an available lease ---

#[test]
fn ha_055_ha_057_a_hot_standby_takes_a_released_lease_within_a_poll_and_50_ms() {
    for seed in 0..40 {
        let mut candidate = standby(Pace::of(&StandbyConfig::hot()), store_with(&held_by(OTHER, 7, 1)), seed);
        set_hot(&mut candidate, true);
        run(&mut candidate, 1_100);
        candidate.store.put(&free_from(OTHER, 7));
        let write = until_write(&mut candidate, 3_000).expect("it takes it");
        // The poll at 1,250 shows it.
        assert!((1_250.0..=1_300.0).contains(&write.at_ms()), "{}", write.at_ms());
    }
}

#[test]
fn ha_057_the_draws_spread_over_the_50_ms() {
    let draws: Vec<f64> = (0..40)
        .map(|seed| {
            let mut candidate =
                standby(Pace::of(&StandbyConfig::hot()), store_with(&free_from(OTHER, 7)), seed);
            set_hot(&mut candidate, true);
            until_write(&mut candidate, 3_000).expect("it takes it").at_ms()
        })
        .collect();
    assert!(draws.iter().any(|at| *at < 10.0) && draws.iter().any(|at| *at > 40.0), "{draws:?}");
    assert!(draws.iter().all(|at| (0.0..=50.0).contains(at)), "{draws:?}");
}

#[test]
fn ha_058_a_standby_that_is_not_hot_writes_after_the_delay() {
    for seed in 0..40 {
        let mut candidate = standby(Pace::of(&StandbyConfig::hot()), store_with(&held_by(OTHER, 7, 1)), seed);
        run(&mut candidate, 1_000);
        candidate.store.put(&free_from(OTHER, 7));
        let write = until_write(&mut candidate, 4_000).expect("it takes it");
        // Seen at 1,000 by the poll that is due then.
        assert!((2_500.0..=2_800.0).contains(&write.at_ms()), "{}", write.at_ms());
        assert!(write.at_ms() <= 1_250.0 + 1_550.0);
    }
}

#[test]
fn ha_058_the_delay_counts_from_the_read_that_first_showed_it() {
    let mut candidate = hot(store_with(&free_from(OTHER, 7)));
    let sent = run(&mut candidate, 1_499);
    assert!(sent.iter().all(Sent::is_read), "it polls meanwhile, and writes nothing");
    let write = until_write(&mut candidate, 3_000).expect("it takes it");
    assert!((1_500.0..=1_550.0).contains(&write.at_ms()), "{}", write.at_ms());
}

#[test]
fn ha_058_one_that_becomes_hot_meanwhile_takes_it_at_once() {
    let mut candidate = hot(store_with(&free_from(OTHER, 7)));
    run(&mut candidate, 700);
    set_hot(&mut candidate, true);
    let write = until_write(&mut candidate, 3_000).expect("it takes it");
    assert!((700.0..=750.0).contains(&write.at_ms()), "{}", write.at_ms());
}

#[test]
fn ha_058_one_that_is_hot_no_longer_waits_for_others() {
    let mut candidate = hot(store_with(&free_from(OTHER, 7)));
    set_hot(&mut candidate, true);
    candidate.until_ms(0);
    candidate.serve_next();
    set_hot(&mut candidate, false);
    let write = until_write(&mut candidate, 3_000).expect("it takes it");
    assert!((1_500.0..=1_550.0).contains(&write.at_ms()), "{}", write.at_ms());
}

#[test]
fn ha_060_a_lease_that_a_hot_one_takes_meanwhile_is_not_written() {
    let mut candidate = hot(store_with(&free_from(OTHER, 7)));
    run(&mut candidate, 1_000);
    candidate.store.put(&held_by(OTHER, 8, 1));
    let sent = run(&mut candidate, 4_000);
    assert!(sent.iter().all(Sent::is_read));
    assert_eq!(candidate.store.record().epoch, Epoch(8));
}

/// HA-60: the delay of the one that is not hot leaves the hot one a second of store calls.
#[test]
fn ha_060_review_12_6_the_hot_one_of_two_wins_as_long_as_its_calls_take_under_a_second() {
    let released_at = 1_000;
    for latency_ms in [20_u64, 200, 480] {
        let mut quick = hot(store_with(&held_by(OTHER, 7, 1)));
        set_hot(&mut quick, true);
        let mut slow = hot(store_with(&held_by(OTHER, 7, 1)));
        run(&mut quick, released_at);
        run(&mut slow, released_at);
        quick.store.put(&free_from(OTHER, 7));
        slow.store.put(&free_from(OTHER, 7));
        let landed = quick
            .run_with_latency(4_000, latency_ms)
            .iter()
            .find(|sent| !sent.is_read())
            .map(|sent| sent.at_ms() + f64::from(u32::try_from(latency_ms).expect("short")) / 2.0)
            .expect("it takes it");
        // The other one's calls take no time at all.
        let other = until_write(&mut slow, 4_000).expect("it would").at_ms();
        assert!(landed < other, "{landed} {other}");
    }
}

#[test]
fn ha_061_of_two_that_write_one_lease_exactly_one_succeeds() {
    let store = || store_with(&free_from(OTHER, 7));
    let mut first = standby(Pace::default(), store(), 1);
    let pen = Pen::new(node(), ProcessId(0x33), seconds(10));
    let machine = Candidate::new(pen, CandidateConfig::default(), Rng::new(2));
    let mut second = Driver::at(0, machine, store());
    let one = until_write(&mut first, 100).expect("it tries");
    let two = until_write(&mut second, 100).expect("it tries too");
    let mut shared = store();
    let outcomes = [shared.write(&one.operation), shared.write(&two.operation)];
    assert!(matches!(outcomes[0], WriteOutcome::Done { .. }));
    assert_eq!(outcomes[1], WriteOutcome::Refused);
    second.store = shared;
    second.answer_write(&two, WriteOutcome::Refused);
    second.serve_next();
    assert_eq!(decided(&mut second), [], "it is a candidate as before");
}

#[test]
fn ha_056_a_hot_standby_too_waits_for_expiry_and_one_second() {
    let mut candidate = hot(store_with(&held_by(OTHER, 7, 1)));
    set_hot(&mut candidate, true);
    let write = until_write(&mut candidate, 20_000).expect("nobody renews");
    assert!((11_000.0..=11_050.0).contains(&write.at_ms()), "{}", write.at_ms());
}

#[test]
fn ha_058_one_that_is_not_hot_adds_the_delay_to_the_expiry() {
    let mut candidate = hot(store_with(&held_by(OTHER, 7, 1)));
    let write = until_write(&mut candidate, 20_000).expect("nobody renews");
    assert!((12_500.0..=12_550.0).contains(&write.at_ms()), "{}", write.at_ms());
}

#[test]
fn ha_051_it_writes_nothing_as_long_as_the_holder_renews() {
    let mut candidate = hot(store_with(&held_by(OTHER, 7, 0)));
    set_hot(&mut candidate, true);
    for renewal in 1..30 {
        let sent = run(&mut candidate, renewal * 3_333);
        assert!(sent.iter().all(Sent::is_read));
        candidate.store.put(&held_by(OTHER, 7, renewal));
    }
}

// --- HA-62 ---

#[test]
fn ha_062_failed_takeovers_are_repeated_after_1_2_4_8_16_30_30_seconds() {
    let mut candidate = hot(store_with(&free_from(OTHER, 7)));
    set_hot(&mut candidate, true);
    let mut failed_at = Vec::new();
    while failed_at.len() < 8 {
        let now_ms = candidate.now_micros() / 1_000;
        let write = until_write(&mut candidate, now_ms + 40_000).expect("it tries again");
        failed_at.push(write.at_micros);
        candidate.answer_write(&write, TRANSIENT);
    }
    let waits: Vec<u64> = failed_at.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000).collect();
    for (wait, nominal) in waits.iter().zip([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
        // At the first poll after it, with the jitter.
        assert!((nominal..nominal + 310).contains(wait), "{waits:?}");
    }
}

#[test]
fn ha_062_the_series_begins_anew_once_the_lease_was_held_by_another() {
    let mut candidate = hot(store_with(&free_from(OTHER, 7)));
    set_hot(&mut candidate, true);
    for _ in 0..3 {
        let now_ms = candidate.now_micros() / 1_000;
        let write = until_write(&mut candidate, now_ms + 40_000).expect("it tries");
        candidate.answer_write(&write, TRANSIENT);
    }
    candidate.store.put(&held_by(OTHER, 8, 1));
    let now_ms = candidate.now_micros() / 1_000;
    run(&mut candidate, now_ms + 300);
    candidate.store.put(&free_from(OTHER, 8));
    let first = until_write(&mut candidate, now_ms + 1_000).expect("at once");
    candidate.answer_write(&first, TRANSIENT);
    let second = until_write(&mut candidate, now_ms + 3_000).expect("after a second again");
    let wait = (second.at_micros - first.at_micros) / 1_000;
    assert!((1_000..1_310).contains(&wait), "{wait}");
}

#[test]
fn ha_062_in_the_back_off_an_expired_lease_is_polled_like_any_other() {
    let mut candidate = hot(store_with(&held_by(OTHER, 7, 1)));
    set_hot(&mut candidate, true);
    for _ in 0..4 {
        let now_ms = candidate.now_micros() / 1_000;
        let write = until_write(&mut candidate, now_ms + 20_000).expect("it tries");
        candidate.answer_write(&write, TRANSIENT);
    }
    let begun_ms = candidate.now_micros() / 1_000;
    let sent = run(&mut candidate, begun_ms + 7_000);
    assert!(sent.iter().all(Sent::is_read));
    assert_eq!(sent.len(), 29, "the read-back, and one every 250 ms");
}

/// Review 12.5: a lost race counted as a failure would leave the only standby in a back-off.
#[test]
fn review_12_5_a_lost_race_is_no_failure() {
    let mut candidate = hot(store_with(&free_from(OTHER, 7)));
    set_hot(&mut candidate, true);
    let write = until_write(&mut candidate, 100).expect("it tries");
    candidate.store.put(&held_by(OTHER, 8, 1));
    candidate.answer_write(&write, WriteOutcome::Refused);
    run(&mut candidate, 500);
    candidate.store.put(&free_from(OTHER, 8));
    let next = until_write(&mut candidate, 2_000).expect("it tries");
    assert!(next.at_ms() <= 850.0, "{}", next.at_ms());
}

// --- after a step down ---

/// A candidate in its hold-off since 0; this process's own epoch 7 is over.
fn holding_off(own: Vec<LeaseRecord>, store: Store) -> Driver<Candidate> {
    let pen = Pen::new(node(), ME, seconds(10));
    let candidate = Candidate::new(pen, CandidateConfig::default(), Rng::new(7)).holding_off(own);
    Driver::at(0, candidate, store)
}

fn compete(candidate: &mut Driver<Candidate>) {
    let look = candidate.look();
    candidate.machine.compete(look);
    candidate.drain();
}

#[test]
fn ha_099_in_the_hold_off_it_watches_and_writes_nothing() {
    let mut candidate = holding_off(vec![], store_with(&free_from(ME, 7)));
    let sent = run(&mut candidate, 60_000);
    assert_eq!(sent.len(), 241, "a read every 250 ms");
    assert!(sent.iter().all(Sent::is_read));
    compete(&mut candidate);
    let write = until_write(&mut candidate, 61_000).expect("now it takes it");
    assert!((60_000.0..=60_050.0).contains(&write.at_ms()));
    assert_eq!(write.record().epoch, Epoch(8));
}

#[test]
fn ha_099_the_end_of_the_hold_off_is_not_held_up_by_a_read_that_hangs() {
    let mut candidate = holding_off(vec![], store_with(&free_from(ME, 7)));
    run(&mut candidate, 4_900);
    candidate.until_ms(5_000);
    let hanging = candidate.all_sent();
    assert_eq!(hanging.len(), 1);
    candidate.until_ms(5_100);
    compete(&mut candidate);
    let read = candidate.serve_next();
    assert_eq!(read.at_ms(), 5_100.0);
    assert!(until_write(&mut candidate, 5_160).is_some());
}

#[test]
fn d_037_ones_own_held_version_is_taken_back_without_a_wait_for_expiry() {
    for renewal_landed in [false, true] {
        let (tenure, renewal) = (held_by(ME, 7, 1), held_by(ME, 7, 2));
        let store = store_with(if renewal_landed { &renewal } else { &tenure });
        let mut candidate = holding_off(vec![tenure, renewal], store);
        run(&mut candidate, 5_000);
        compete(&mut candidate);
        let write = until_write(&mut candidate, 5_060).expect("at once");
        candidate.serve(&write);
        assert_eq!(acquired(&mut candidate).record.epoch, Epoch(8));
    }
}

#[test]
fn review_2_10_a_held_version_in_ones_own_name_that_one_never_wrote_is_waited_for() {
    let mut candidate = holding_off(vec![held_by(ME, 7, 1)], store_with(&held_by(ME, 7, 99)));
    run(&mut candidate, 5_000);
    compete(&mut candidate);
    run(&mut candidate, 5_100);
    assert_eq!(decided(&mut candidate), [CandidateOutput::RetakeFailed(UnknownHolder::UnknownOwnWrite)]);
    let write = until_write(&mut candidate, 20_000).expect("after its expiry");
    assert!((11_000.0..=11_300.0).contains(&write.at_ms()), "{}", write.at_ms());
}

#[test]
fn ha_049_a_process_that_is_not_hot_has_waited_its_delay_in_the_hold_off() {
    let pen = Pen::new(node(), ME, seconds(10));
    let machine = Candidate::new(pen, CandidateConfig::default(), Rng::new(7))
        .with_pace(Pace::of(&StandbyConfig::hot()))
        .holding_off(vec![]);
    let mut candidate = Driver::at(0, machine, store_with(&free_from(ME, 7)));
    run(&mut candidate, 5_000);
    compete(&mut candidate);
    assert!(until_write(&mut candidate, 5_060).is_some());
}

#[test]
fn d_037_a_release_that_lands_under_the_take_back_is_built_upon() {
    let own = held_by(ME, 7, 1);
    let mut candidate = holding_off(vec![own.clone()], store_with(&own));
    run(&mut candidate, 5_000);
    compete(&mut candidate);
    let write = until_write(&mut candidate, 5_060).expect("it tries");
    candidate.store.put(&free_from(ME, 7));
    candidate.serve(&write);
    let again = until_write(&mut candidate, 5_200).expect("on the free lease");
    candidate.serve(&again);
    assert_eq!(acquired(&mut candidate).record.epoch, Epoch(8));
}

/// What ends the one try after the hold-off without an outcome (D-38).
#[test]
fn d_038_the_try_after_the_hold_off_ends_unknown() {
    let begun = |store| {
        let mut candidate = holding_off(vec![], store);
        run(&mut candidate, 5_000);
        candidate.told();
        compete(&mut candidate);
        candidate
    };
    let failed = |detail| [CandidateOutput::RetakeFailed(detail)];
    let free = || store_with(&free_from(ME, 7));

    let mut unread = begun(free());
    let read = unread.sent();
    unread.answer_read(&read, ReadOutcome::Transient { retry_after_ms: None });
    assert_eq!(decided(&mut unread), failed(UnknownHolder::LeaseUnread));

    let mut silent = begun(free());
    let _read = silent.sent();
    silent.until_micros(5_000_000 + 1_666_665);
    assert_eq!(decided(&mut silent), []);
    silent.until_micros(5_000_000 + 1_666_666);
    assert_eq!(decided(&mut silent), failed(UnknownHolder::LeaseUnread));

    let mut missing = begun(free());
    missing.store.delete();
    missing.serve_next();
    assert_eq!(missing.told()[0], CandidateOutput::RetakeFailed(UnknownHolder::LeaseMissing));

    let mut unreadable = begun(free());
    unreadable.store.put_bytes(Blob::from(b"?".as_slice()));
    unreadable.serve_next();
    assert_eq!(decided(&mut unreadable), failed(UnknownHolder::LeaseUnreadable));

    let mut refused = begun(free());
    let write = until_write(&mut refused, 5_060).expect("it tries");
    refused.answer_write(&write, WriteOutcome::Refused);
    refused.serve_next();
    assert_eq!(decided(&mut refused), failed(UnknownHolder::TakeBackRefused));

    let mut unanswered = begun(free());
    let write = until_write(&mut unanswered, 5_060).expect("it tries");
    unanswered.answer_write(&write, TRANSIENT);
    unanswered.serve_next();
    assert_eq!(decided(&mut unanswered), failed(UnknownHolder::TakeBackUnanswered));
    assert!(until_write(&mut unanswered, 6_400).is_some(), "it goes on as an ordinary candidate");
    assert_eq!(decided(&mut unanswered), [], "told once");
}

#[test]
fn d_038_a_take_back_whose_answer_was_lost_is_found() {
    let mut candidate = holding_off(vec![], store_with(&free_from(ME, 7)));
    run(&mut candidate, 5_000);
    compete(&mut candidate);
    let write = until_write(&mut candidate, 5_060).expect("it tries");
    candidate.land(&write);
    candidate.answer_write(&write, TRANSIENT);
    candidate.serve_next();
    assert_eq!(acquired(&mut candidate).record.epoch, Epoch(8));
}

#[test]
fn d_038_another_holder_is_seen_before_and_after_the_hold_off() {
    let mut candidate = holding_off(vec![], store_with(&free_from(ME, 7)));
    run(&mut candidate, 1_000);
    candidate.store.put(&held_by(OTHER, 8, 1));
    run(&mut candidate, 1_300);
    assert_eq!(candidate.seen(), [free_from(ME, 7), held_by(OTHER, 8, 1)]);
    compete(&mut candidate);
    run(&mut candidate, 2_000);
    assert_eq!(decided(&mut candidate), [], "the holder was told already");
}

#[test]
fn ha_099_a_lease_that_expires_in_the_hold_off_is_left_alone() {
    let mut candidate = holding_off(vec![], store_with(&held_by(OTHER, 8, 1)));
    let sent = run(&mut candidate, 40_000);
    assert!(sent.iter().all(|sent| sent.operation == LeaseOperation::Read));
    // The wait was not in vain: it counts.
    compete(&mut candidate);
    let write = until_write(&mut candidate, 40_060).expect("at once");
    assert_eq!(write.record().state, LeaseState::Held);
}
