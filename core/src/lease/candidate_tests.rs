use super::driver::{Driver, ME, OTHER, Sent, Store, candidate, free_from, held_by, seconds};
use super::record::{LeaseRecord, LeaseState, Unreadable};
use super::{
    Candidate, CandidateConfig, CandidateEvent, CandidateOutput, LeaseInput, LeaseOperation, Survey,
};
use crate::ids::{Blob, Epoch, Position};
use crate::store::{ReadOutcome, WriteOutcome};
use std::vec::Vec;

pub(super) const TRANSIENT: WriteOutcome = WriteOutcome::Transient { retry_after_ms: None };

pub(super) fn store_with(record: &LeaseRecord) -> Store {
    let mut store = Store::default();
    store.put(record);
    store
}

/// A candidate before a lease that another process holds, which it has just seen, at 0.
pub(super) fn waiting(config: CandidateConfig) -> Driver<Candidate> {
    let mut candidate = candidate(config, store_with(&held_by(OTHER, 7, 1)));
    candidate.until_ms(0);
    candidate.serve_next();
    candidate
}

/// Lets it poll until it writes the lease; the write is not answered.
pub(super) fn until_write(candidate: &mut Driver<Candidate>, most_ms: u64) -> Option<Sent> {
    while candidate.now_micros() < most_ms * 1_000 {
        let step = candidate.now_micros() + 1_000;
        candidate.until_micros(step);
        for sent in candidate.all_sent() {
            if !sent.is_read() {
                return Some(sent);
            }
            candidate.serve(&sent);
        }
    }
    None
}

pub(super) fn decided(candidate: &mut Driver<Candidate>) -> Vec<CandidateOutput> {
    let mut told = candidate.told();
    told.retain(|output| !matches!(output, CandidateOutput::Event(_)));
    told
}

pub(super) fn acquired(candidate: &mut Driver<Candidate>) -> super::Tenure {
    match decided(candidate).as_slice() {
        [CandidateOutput::Acquired(tenure)] => tenure.clone(),
        other => panic!("the lease is acquired: {other:?}"),
    }
}

pub(super) fn survey(candidate: &mut Driver<Candidate>, survey: Survey) {
    let request = match candidate.told().as_slice() {
        [CandidateOutput::Survey { request }] => *request,
        other => panic!("a survey is asked for: {other:?}"),
    };
    candidate.input(LeaseInput::Surveyed { request, survey: Some(survey) });
}

pub(super) fn log_of_epoch_9() -> Survey {
    Survey {
        anything: true,
        highest_epoch: Epoch(9),
        fence_duration_ms: Some(20_000),
        newest_manifest: Position(70),
    }
}

// --- expiry ---

#[test]
fn ha_038_it_waits_while_another_process_renews() {
    let mut candidate = waiting(CandidateConfig::default());
    for renewal in 2..40 {
        let end = candidate.now_micros() / 1_000 + 3_333;
        assert!(until_write(&mut candidate, end).is_none());
        candidate.store.put(&held_by(OTHER, 7, renewal));
    }
    assert!(decided(&mut candidate).is_empty());
}

#[test]
fn d_002_a_version_seen_unchanged_for_its_duration_and_a_second_has_expired() {
    let mut candidate = waiting(CandidateConfig::default());
    let write = until_write(&mut candidate, 20_000).expect("it takes the lease");
    // Seen at 0; a read sent at 11.000 proves it; then at most 50 ms of jitter.
    assert!((11_000_000..=11_051_000).contains(&write.at_micros), "{}", write.at_micros);
    assert!(matches!(&write.operation, LeaseOperation::Update { .. }));
    candidate.serve(&write);
    let tenure = acquired(&mut candidate);
    assert_eq!(tenure.since.as_micros(), write.at_micros);
    assert_eq!((tenure.record.epoch, tenure.record.holder), (Epoch(8), ME));
    assert_eq!((tenure.record.trimmed_below, tenure.record.log_end), (Position(3), Position(40)));
}

#[test]
fn ha_017_and_ha_018_the_wait_follows_the_duration_in_the_lease() {
    for (duration, earliest_ms) in
        [(3, 4_000), (6, 7_000), (10, 11_000), (30, 31_000), (60, 61_000), (120, 121_000)]
    {
        let record = LeaseRecord { duration: seconds(duration), ..held_by(OTHER, 7, 1) };
        let mut candidate = candidate(CandidateConfig::default(), store_with(&record));
        let write = until_write(&mut candidate, 200_000).expect("it takes the lease");
        assert!(write.at_ms() >= f64::from(earliest_ms), "D = {duration} s: {}", write.at_ms());
        assert!(write.at_ms() <= f64::from(earliest_ms + 51), "D = {duration} s: {}", write.at_ms());
    }
}

#[test]
fn d_002_a_renewal_that_lands_late_starts_the_wait_again() {
    let mut candidate = waiting(CandidateConfig::default());
    assert!(until_write(&mut candidate, 10_990).is_none());
    candidate.store.put(&held_by(OTHER, 7, 2));
    let write = until_write(&mut candidate, 60_000).expect("it takes the lease");
    assert!(write.at_ms() >= 21_990.0);
}

#[test]
fn d_002_a_renewal_that_lands_after_the_decision_makes_the_write_lose() {
    let mut candidate = waiting(CandidateConfig::default());
    let write = until_write(&mut candidate, 20_000).expect("it takes the lease");
    candidate.store.put(&held_by(OTHER, 7, 2));
    candidate.serve(&write);
    assert!(decided(&mut candidate).is_empty());
    let again = until_write(&mut candidate, 60_000).expect("it waits for that version too");
    assert!(again.at_micros >= write.at_micros + 11_000_000);
}

#[test]
fn d_002_review_1_5_equal_versions_with_another_nonce_are_another_state() {
    let mut candidate = waiting(CandidateConfig::default());
    candidate.until_ms(10_900);
    candidate.all_sent();
    // A store that hashes: the same version for another body.
    let read = {
        candidate.until_ms(13_000);
        candidate.all_sent().pop().expect("it polls")
    };
    let ReadOutcome::Found { version, stamp_ms, .. } = candidate.store.read() else {
        panic!("there is a lease")
    };
    let body = held_by(OTHER, 7, 2).encode();
    candidate.answer_read(&read, ReadOutcome::Found { version, body, stamp_ms });
    assert!(until_write(&mut candidate, 23_900).is_none());
}

#[test]
fn d_002_a_frozen_candidate_reads_again_before_it_concludes() {
    let mut candidate = waiting(CandidateConfig::default());
    candidate.until_ms(250);
    let read = candidate.sent();
    let shown = candidate.store.read();
    candidate.freeze_until_ms(60_000);
    candidate.answer_read(&read, shown);
    assert!(decided(&mut candidate).is_empty());
    let again = candidate.sent();
    assert!(again.is_read(), "what the old read showed proves nothing");
    candidate.store.put(&held_by(OTHER, 7, 2));
    candidate.serve(&again);
    assert!(until_write(&mut candidate, 70_900).is_none());
}

#[test]
fn d_002_suspended_time_does_not_count() {
    let mut candidate = waiting(CandidateConfig::default());
    candidate.until_ms(100);
    candidate.suspend_until_ms(60_100);
    let write = until_write(&mut candidate, 90_000).expect("it takes the lease");
    assert!(write.at_ms() >= 71_000.0, "{}", write.at_ms());
}

/// Lesson B1: no wall clock takes part.
#[test]
fn lesson_b1_a_skewed_candidate_takes_over_no_earlier_and_no_later() {
    for jump in [1_500, 30_000, -30_000, -3_600_000] {
        let mut candidate = candidate(CandidateConfig::default(), store_with(&held_by(OTHER, 7, 1)));
        candidate.jump_wall_ms(jump);
        let write = until_write(&mut candidate, 20_000).expect("it takes the lease");
        assert!((11_000.0..=11_051.0).contains(&write.at_ms()), "{jump}: {}", write.at_ms());
    }
}

#[test]
fn d_002_b_the_stores_clock_proves_an_expiry_once_at_the_start() {
    let lease_stamp_ms = 1_000_000;
    // D + 1 s + 1 s of granularity + 60 s of slack.
    for (age_ms, at_once) in [(72_000, false), (72_001, true)] {
        let mut store = store_with(&held_by(OTHER, 7, 1));
        store.stamp_ms = Some(lease_stamp_ms);
        let config =
            CandidateConfig { probe_stamp_ms: Some(lease_stamp_ms + age_ms), ..CandidateConfig::default() };
        let mut candidate = candidate(config, store);
        assert_eq!(until_write(&mut candidate, 100).is_some(), at_once, "{age_ms} ms old");
    }
}

#[test]
fn d_002_review_12_10_b_is_not_for_the_second_version_seen() {
    let mut store = store_with(&held_by(OTHER, 7, 1));
    store.stamp_ms = Some(1_000_000);
    let config = CandidateConfig { probe_stamp_ms: Some(1_072_000), ..CandidateConfig::default() };
    let mut candidate = candidate(config, store);
    assert!(until_write(&mut candidate, 1_000).is_none());
    candidate.store.put(&held_by(OTHER, 7, 2));
    candidate.store.stamp_ms = Some(1);
    assert!(until_write(&mut candidate, 11_900).is_none());
}

// --- what may be taken at once ---

#[test]
fn ha_016_and_d_013_a_released_lease_is_taken_at_the_next_poll() {
    let mut candidate = waiting(CandidateConfig::default());
    candidate.until_ms(1_001);
    for sent in candidate.all_sent() {
        candidate.serve(&sent);
    }
    candidate.store.put(&free_from(OTHER, 7));
    let write = until_write(&mut candidate, 20_000).expect("it takes the lease");
    assert!(write.at_ms() <= 1_001.0 + 250.0 + 50.0, "{}", write.at_ms());
    candidate.serve(&write);
    assert_eq!(acquired(&mut candidate).record.epoch, Epoch(8));
}

#[test]
fn ha_006_with_the_dev_lock_a_held_lease_is_taken_at_once() {
    let config = CandidateConfig { lock_held: true, ..CandidateConfig::default() };
    let mut candidate = candidate(config, store_with(&held_by(OTHER, 7, 1)));
    candidate.until_ms(0);
    candidate.serve_next();
    let write = candidate.sent();
    assert_eq!(write.at_micros, 0);
    candidate.serve(&write);
    assert_eq!(acquired(&mut candidate).record.epoch, Epoch(8));
}

#[test]
fn d_027_the_dev_takeover_is_conditional() {
    let config = CandidateConfig { lock_held: true, ..CandidateConfig::default() };
    let mut candidate = candidate(config, store_with(&held_by(OTHER, 7, 1)));
    candidate.until_ms(0);
    candidate.serve_next();
    let write = candidate.sent();
    candidate.store.put(&held_by(OTHER, 8, 2));
    assert_eq!(candidate.land(&write), WriteOutcome::Refused);
}

#[test]
fn ha_007_without_a_lock_dev_waits_at_most_31_s() {
    let record = LeaseRecord { duration: super::LeaseDuration::DEFAULT_SINGLE, ..held_by(OTHER, 7, 1) };
    let mut candidate = candidate(CandidateConfig::default(), store_with(&record));
    let write = until_write(&mut candidate, 40_000).expect("it takes the lease");
    assert!((31_000.0..=31_051.0).contains(&write.at_ms()));
}

#[test]
fn d_049_a_missing_lease_beside_nothing_is_created_with_epoch_1() {
    let mut candidate = candidate(CandidateConfig::default(), Store::default());
    candidate.until_ms(0);
    candidate.serve_next();
    survey(&mut candidate, Survey::default());
    let write = candidate.sent();
    assert!(matches!(write.operation, LeaseOperation::Create { .. }));
    assert_eq!(write.at_micros, 0);
    candidate.serve(&write);
    let record = acquired(&mut candidate).record;
    assert_eq!((record.epoch, record.state, record.trimmed_below), (Epoch(1), LeaseState::Held, Position(0)));
}

/// Lesson D2: the lease object was deleted by hand; epochs never repeat.
#[test]
fn lesson_d2_review_11_2_a_missing_lease_beside_a_log_is_waited_for_and_starts_above_it() {
    let mut candidate = candidate(CandidateConfig::default(), Store::default());
    candidate.until_ms(0);
    candidate.serve_next();
    survey(&mut candidate, log_of_epoch_9());
    assert_eq!(
        candidate.told(),
        [CandidateOutput::Event(CandidateEvent::WaitingForMissing { longest_wait_ms: 21_000 })]
    );
    // The fence records 20 s.
    assert!(until_write(&mut candidate, 20_999).is_none());
    candidate.until_ms(21_000);
    candidate.serve_next();
    survey(&mut candidate, log_of_epoch_9());
    let write = until_write(&mut candidate, 21_100).expect("it takes the lease");
    assert!(matches!(write.operation, LeaseOperation::Create { .. }));
    candidate.serve(&write);
    let record = acquired(&mut candidate).record;
    assert_eq!((record.epoch, record.trimmed_below), (Epoch(1_009), Position(70)));
}

#[test]
fn d_049_without_a_fence_the_wait_is_the_larger_of_its_own_duration_and_120_s() {
    let mut candidate = candidate(CandidateConfig::default(), Store::default());
    candidate.until_ms(0);
    candidate.serve_next();
    survey(&mut candidate, Survey { fence_duration_ms: None, ..log_of_epoch_9() });
    assert_eq!(
        candidate.told(),
        [CandidateOutput::Event(CandidateEvent::WaitingForMissing { longest_wait_ms: 121_000 })]
    );
}

#[test]
fn d_049_and_ha_006_with_the_lock_a_missing_lease_is_not_waited_for() {
    let config = CandidateConfig { lock_held: true, ..CandidateConfig::default() };
    let mut candidate = candidate(config, Store::default());
    candidate.until_ms(0);
    candidate.serve_next();
    survey(&mut candidate, log_of_epoch_9());
    assert_eq!(candidate.serve_next().record().epoch, Epoch(1_009));
}

#[test]
fn d_049_a_lease_that_disappears_is_not_recreated_below_the_epoch_that_was_seen() {
    let mut candidate = waiting(CandidateConfig::default());
    candidate.told();
    candidate.store.delete();
    candidate.until_ms(250);
    candidate.serve_next();
    survey(&mut candidate, Survey::default());
    assert!(until_write(&mut candidate, 100_000).is_none(), "beside an epoch, not beside nothing");
}

#[test]
fn d_049_a_survey_that_failed_is_repeated() {
    let mut candidate = candidate(CandidateConfig::default(), Store::default());
    candidate.until_ms(0);
    candidate.serve_next();
    let CandidateOutput::Survey { request } = candidate.told().remove(0) else {
        panic!("a survey is asked for")
    };
    candidate.input(LeaseInput::Surveyed { request, survey: None });
    candidate.until_ms(250);
    candidate.serve_next();
    survey(&mut candidate, Survey::default());
    assert!(!candidate.sent().is_read());
}

#[test]
fn d_049_a_survey_without_an_answer_is_asked_for_again_after_a_minute() {
    let mut candidate = candidate(CandidateConfig::default(), Store::default());
    candidate.until_ms(0);
    candidate.serve_next();
    let CandidateOutput::Survey { request: lost } = candidate.told().remove(0) else {
        panic!("a survey is asked for")
    };
    candidate.until_ms(59_999);
    assert_eq!(candidate.told(), []);
    candidate.until_ms(60_000);
    candidate.serve_next();
    candidate.input(LeaseInput::Surveyed { request: lost, survey: Some(Survey::default()) });
    survey(&mut candidate, Survey::default());
    assert!(!candidate.sent().is_read(), "the late answer decides nothing, the new one does");
}

#[test]
fn d_049_an_unreadable_lease_is_waited_for_and_never_overwritten() {
    let foreign = LeaseRecord { node_id: crate::ids::Name::new("node-b"), ..held_by(OTHER, 7, 1) };
    for (body, reason) in [
        (Blob::from(b"garbage".as_slice()), Unreadable::Damaged),
        (foreign.encode(), Unreadable::ForeignNode { found: crate::ids::Name::new("node-b") }),
    ] {
        for lock_held in [false, true] {
            let mut store = Store::default();
            store.put_bytes(body.clone());
            let config = CandidateConfig { lock_held, ..CandidateConfig::default() };
            let mut candidate = candidate(config, store);
            assert!(until_write(&mut candidate, 300_000).is_none());
            let event = CandidateEvent::WaitingForUnreadable(reason.clone());
            assert_eq!(candidate.told(), [CandidateOutput::Event(event)], "said once");
        }
    }
}
