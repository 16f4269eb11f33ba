use super::driver::{Driver, OTHER, Sent, Store, candidate, free_from, held_by};
use super::{Candidate, CandidateConfig, CandidateEvent, CandidateOutput, LeaseInput, Survey};
use crate::ids::Epoch;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};
use std::vec;

use super::candidate_tests::{TRANSIENT, acquired, decided, store_with, survey, until_write, waiting};

// --- lease.failIfHeld ---

const FAIL_IF_HELD: CandidateConfig =
    CandidateConfig { fail_if_held: true, lock_held: false, probe_stamp_ms: None };

#[test]
fn ha_039_and_d_036_without_stamps_any_change_fails() {
    let mut candidate = waiting(FAIL_IF_HELD);
    assert!(until_write(&mut candidate, 3_000).is_none());
    candidate.store.put(&held_by(OTHER, 7, 2));
    assert!(until_write(&mut candidate, 3_300).is_none());
    assert_eq!(decided(&mut candidate), [CandidateOutput::Failed(StopReason::LeaseHeld)]);
}

#[test]
fn d_036_without_stamps_no_change_takes() {
    let mut candidate = waiting(FAIL_IF_HELD);
    let write = until_write(&mut candidate, 20_000).expect("nobody renews");
    assert!(write.at_ms() >= 11_000.0);
}

#[test]
fn d_036_with_stamps_it_fails_at_once_unless_they_prove_expiry() {
    for (probe_stamp_ms, fails) in [(1_030_000, true), (2_000_000, false)] {
        let mut store = store_with(&held_by(OTHER, 7, 1));
        store.stamp_ms = Some(1_000_000);
        let config = CandidateConfig { probe_stamp_ms: Some(probe_stamp_ms), ..FAIL_IF_HELD };
        let mut candidate = candidate(config, store);
        candidate.until_ms(0);
        candidate.serve_next();
        let expected = if fails { vec![CandidateOutput::Failed(StopReason::LeaseHeld)] } else { vec![] };
        assert_eq!(decided(&mut candidate), expected);
    }
}

#[test]
fn d_036_a_free_lease_and_the_lock_take_at_once() {
    let mut free = candidate(FAIL_IF_HELD, store_with(&free_from(OTHER, 7)));
    assert!(until_write(&mut free, 100).is_some());
    let config = CandidateConfig { lock_held: true, ..FAIL_IF_HELD };
    let mut locked = candidate(config, store_with(&held_by(OTHER, 7, 1)));
    assert!(until_write(&mut locked, 100).is_some());
}

// --- what becomes of its write ---

/// A candidate that has written a free lease; the write is not answered.
fn taking() -> (Driver<Candidate>, Sent) {
    let mut candidate = candidate(CandidateConfig::default(), store_with(&free_from(OTHER, 7)));
    let write = until_write(&mut candidate, 100).expect("it takes the lease");
    (candidate, write)
}

/// Lesson C3: the answer of the takeover is lost.
#[test]
fn lesson_c3_a_takeover_whose_answer_was_lost_is_read_back() {
    let (mut candidate, write) = taking();
    candidate.land(&write);
    candidate.answer_write(&write, TRANSIENT);
    candidate.serve_next();
    let tenure = acquired(&mut candidate);
    assert_eq!(tenure.record.epoch, Epoch(8));
    assert_eq!(tenure.since.as_micros(), write.at_micros);
}

#[test]
fn d_052_a_try_is_cut_off_like_a_renewal_and_read_back() {
    let (mut candidate, write) = taking();
    candidate.until_micros(write.at_micros + 1_666_665);
    assert_eq!(candidate.all_sent().len(), 0);
    candidate.until_micros(write.at_micros + 1_666_666);
    assert!(candidate.sent().is_read());
}

#[test]
fn d_052_a_late_answer_counts() {
    let (mut candidate, write) = taking();
    let outcome = candidate.land(&write);
    candidate.until_ms(5_000);
    candidate.all_sent();
    candidate.answer_write(&write, outcome);
    assert_eq!(acquired(&mut candidate).since.as_micros(), write.at_micros);
}

#[test]
fn d_052_an_own_acquisition_that_is_past_is_acquired_on_at_once() {
    let (mut candidate, write) = taking();
    candidate.land(&write);
    let past_ms = write.at_micros / 1_000 + 9_901;
    candidate.freeze_until_ms(past_ms);
    candidate.input(LeaseInput::Tick);
    candidate.serve_next();
    let second = candidate.sent();
    assert_eq!(second.at_micros, past_ms * 1_000);
    candidate.serve(&second);
    let tenure = acquired(&mut candidate);
    assert_eq!((tenure.record.epoch, tenure.since.as_millis()), (Epoch(9), past_ms));
}

#[test]
fn d_052_a_refused_write_is_a_lost_race_without_a_back_off() {
    let (mut candidate, write) = taking();
    candidate.store.put(&held_by(OTHER, 8, 1));
    candidate.serve(&write);
    candidate.serve_next();
    assert!(candidate.told().contains(&CandidateOutput::Event(CandidateEvent::LostRace)));
    candidate.store.put(&free_from(OTHER, 8));
    let next = until_write(&mut candidate, 1_000).expect("it takes the next chance");
    assert!(next.at_micros <= write.at_micros + 302_000);
}

#[test]
fn lesson_c2_a_refusal_that_changed_nothing_is_tried_again_at_the_next_poll() {
    let (mut candidate, write) = taking();
    candidate.answer_write(&write, WriteOutcome::Refused);
    candidate.serve_next();
    assert!(decided(&mut candidate).is_empty());
    let again = until_write(&mut candidate, 1_000).expect("it tries again");
    assert!((250_000..=302_000).contains(&(again.at_micros - write.at_micros)));
    candidate.serve(&again);
    assert_eq!(acquired(&mut candidate).record.epoch, Epoch(8));
}

#[test]
fn lesson_c2_a_409_to_the_create_is_tried_again() {
    let mut candidate = candidate(CandidateConfig::default(), Store::default());
    candidate.until_ms(0);
    candidate.serve_next();
    survey(&mut candidate, Survey::default());
    let create = candidate.sent();
    candidate.answer_write(&create, WriteOutcome::Refused);
    candidate.serve_next();
    survey(&mut candidate, Survey::default());
    assert_eq!(candidate.all_sent().len(), 0);
    candidate.until_ms(250);
    candidate.serve_next();
    survey(&mut candidate, Survey::default());
    candidate.serve_next();
    assert_eq!(acquired(&mut candidate).record.epoch, Epoch(1));
}

#[test]
fn ha_062_failed_takeovers_back_off_from_1_to_30_seconds() {
    let (mut candidate, first) = taking();
    let mut sent = first;
    for wait in [1, 2, 4, 8, 16, 30, 30] {
        let failed_at = candidate.now_micros();
        candidate.answer_write(&sent, TRANSIENT);
        candidate.serve_next();
        let end = failed_at / 1_000 + 40_000;
        sent = until_write(&mut candidate, end).expect("it tries again");
        let waited = sent.at_micros - failed_at;
        assert!((wait * 1_000_000..=wait * 1_000_000 + 302_000).contains(&waited), "{waited} us of {wait} s");
    }
}

#[test]
fn ha_062_the_back_off_ends_when_the_lease_changes() {
    let (mut candidate, write) = taking();
    candidate.answer_write(&write, TRANSIENT);
    candidate.serve_next();
    candidate.store.put(&held_by(OTHER, 8, 1));
    candidate.until_ms(400);
    candidate.serve_next();
    candidate.store.put(&free_from(OTHER, 8));
    let next = until_write(&mut candidate, 900).expect("a new chance");
    assert_eq!(next.record().epoch, Epoch(9));
    candidate.answer_write(&next, TRANSIENT);
    let event = CandidateEvent::TakeoverFailed { retry_after_ms: 1_000 };
    assert!(candidate.told().contains(&CandidateOutput::Event(event)), "the first wait again");
}

#[test]
fn d_052_a_late_answer_means_nothing_once_a_newer_version_was_seen() {
    let (mut candidate, write) = taking();
    let outcome = candidate.land(&write);
    candidate.store.put(&held_by(OTHER, 9, 1));
    candidate.answer_write(&write, TRANSIENT);
    candidate.serve_next();
    candidate.answer_write(&write, outcome);
    assert!(decided(&mut candidate).is_empty());
}

#[test]
fn ha_062_a_failed_write_that_lands_during_the_back_off_is_found() {
    let (mut candidate, write) = taking();
    candidate.answer_write(&write, TRANSIENT);
    candidate.serve_next();
    candidate.land(&write);
    candidate.until_ms(350);
    candidate.serve_next();
    assert_eq!(acquired(&mut candidate).since.as_micros(), write.at_micros);
}

#[test]
fn d_032_errors_of_the_store_have_their_reasons() {
    for (outcome, reason) in [
        (WriteOutcome::Permanent, StopReason::StoragePermanent),
        (WriteOutcome::LocalFailure, StopReason::LocalStoreFailed),
        (WriteOutcome::LockReplaced, StopReason::DevLockReplaced),
    ] {
        let (mut candidate, write) = taking();
        candidate.answer_write(&write, outcome);
        assert_eq!(decided(&mut candidate), [CandidateOutput::Failed(reason)]);
    }
    for (outcome, reason) in [
        (ReadOutcome::Permanent, StopReason::StoragePermanent),
        (ReadOutcome::LocalFailure, StopReason::LocalStoreFailed),
    ] {
        let mut candidate = candidate(CandidateConfig::default(), Store::default());
        candidate.until_ms(0);
        let read = candidate.sent();
        candidate.answer_read(&read, outcome);
        assert_eq!(decided(&mut candidate), [CandidateOutput::Failed(reason)]);
    }
}

#[test]
fn ha_038_a_read_without_an_answer_is_repeated_and_a_late_one_still_counts() {
    let mut candidate = candidate(CandidateConfig::default(), store_with(&free_from(OTHER, 7)));
    candidate.until_ms(0);
    let first = candidate.sent();
    candidate.until_ms(1_667);
    assert!(candidate.sent().is_read());
    candidate.serve(&first);
    assert!(until_write(&mut candidate, 1_800).is_some());
}

#[test]
fn ha_038_a_failed_read_is_repeated_at_the_next_poll() {
    let mut candidate = candidate(CandidateConfig::default(), Store::default());
    candidate.until_ms(0);
    let read = candidate.sent();
    candidate.answer_read(&read, ReadOutcome::Transient { retry_after_ms: Some(900) });
    candidate.until_ms(899);
    assert_eq!(candidate.all_sent().len(), 0);
    candidate.until_ms(900);
    assert!(candidate.sent().is_read());
}

// --- shutdown ---

fn stop(candidate: &mut Driver<Candidate>) {
    let look = candidate.look();
    candidate.machine.stop(look);
    candidate.drain();
}

#[test]
fn d_029_a_candidate_that_has_written_nothing_stops_at_once() {
    let mut candidate = waiting(CandidateConfig::default());
    stop(&mut candidate);
    assert_eq!(decided(&mut candidate), [CandidateOutput::Stopped]);
    assert_eq!(candidate.machine.poll_timeout(), None);
}

#[test]
fn d_029_a_write_under_way_is_waited_for() {
    let (mut candidate, write) = taking();
    stop(&mut candidate);
    assert!(decided(&mut candidate).is_empty());
    candidate.serve(&write);
    assert_eq!(acquired(&mut candidate).record.epoch, Epoch(8), "to be released");
}

#[test]
fn d_029_an_unanswered_write_is_read_back_once() {
    for lands in [true, false] {
        let (mut candidate, write) = taking();
        stop(&mut candidate);
        candidate.until_micros(write.at_micros + 1_666_666);
        if lands {
            candidate.land(&write);
        }
        candidate.serve_next();
        let told = decided(&mut candidate);
        match told.as_slice() {
            [CandidateOutput::Acquired(_)] => assert!(lands),
            [CandidateOutput::Stopped] => assert!(!lands),
            other => panic!("one of the two: {other:?}"),
        }
    }
}

#[test]
fn d_029_a_read_back_without_an_answer_is_waited_for_one_cut_off() {
    let (mut candidate, write) = taking();
    stop(&mut candidate);
    candidate.until_micros(write.at_micros + 1_666_666);
    candidate.sent();
    candidate.until_micros(write.at_micros + 2 * 1_666_666);
    assert_eq!(decided(&mut candidate), [CandidateOutput::Stopped]);
}
