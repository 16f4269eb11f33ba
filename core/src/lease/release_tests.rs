use super::driver::{Driver, ME, OTHER, Sent, free_from, held_by, holder, seconds};
use super::record::LeaseState;
use super::{Release, ReleaseOutcome, ReleaseOutput};
use crate::ids::{Blob, Epoch, Position};
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};
use std::vec;
use std::vec::Vec;

const TRANSIENT: WriteOutcome = WriteOutcome::Transient { retry_after_ms: None };

fn ended(outcome: ReleaseOutcome) -> Vec<ReleaseOutput> {
    vec![ReleaseOutput::Ended(outcome)]
}

/// A release at 1 s, sent and not answered.
fn releasing() -> (Driver<Release>, Sent) {
    let mut holder = holder(seconds(10));
    holder.until_ms(1_000);
    let mut release = holder.release(9_000);
    let sent = release.sent();
    (release, sent)
}

/// A renewal is under way while the release starts, at 3.5 s.
fn releasing_during_a_renewal() -> (Driver<Release>, Sent, Sent) {
    let mut holder = holder(seconds(10));
    holder.until_ms(3_500);
    let renewal = holder.sent();
    let mut release = holder.release(6_500);
    let sent = release.sent();
    (release, renewal, sent)
}

#[test]
fn d_012_a_release_frees_the_lease_and_names_its_last_holder() {
    let mut holder = holder(seconds(10));
    holder.machine.set_log_end(Position(44));
    holder.until_ms(1_000);
    let mut release = holder.release(9_000);
    release.serve_next();
    assert_eq!(release.told(), ended(ReleaseOutcome::Released));
    let record = release.store.record();
    assert_eq!((record.state, record.epoch, record.holder), (LeaseState::Free, Epoch(7), ME));
    assert_eq!((record.trimmed_below, record.log_end), (Position(3), Position(44)));
}

#[test]
fn d_037_a_release_is_sent_at_once_on_the_last_known_version() {
    let (release, sent) = releasing();
    assert_eq!(sent.at_ms(), 1_000.0);
    assert!(!sent.is_read());
    drop(release);
}

#[test]
fn d_037_and_lesson_a11_a_release_that_loses_to_its_own_renewal_is_built_on_it() {
    let (mut release, renewal, first) = releasing_during_a_renewal();
    release.land(&renewal);
    let refused = release.land(&first);
    assert_eq!(refused, WriteOutcome::Refused);
    release.answer_write(&first, refused);
    let read = release.sent();
    release.serve(&read);
    let second = release.serve_next();
    assert_eq!(second.at_ms(), 3_500.0, "no back-off: the read told why");
    assert_eq!(release.told(), ended(ReleaseOutcome::Released));
    assert_eq!(release.store.record().state, LeaseState::Free);
}

#[test]
fn d_037_the_late_answer_of_a_renewal_is_enough() {
    let (mut release, renewal, first) = releasing_during_a_renewal();
    release.serve(&renewal);
    let second = release.sent();
    release.serve(&first);
    assert_eq!(release.told(), [], "the first release is dead");
    release.serve(&second);
    assert_eq!(release.told(), ended(ReleaseOutcome::Released));
}

#[test]
fn lesson_a11_a_renewal_that_loses_to_the_release_never_lands() {
    let (mut release, renewal, first) = releasing_during_a_renewal();
    release.serve(&first);
    assert_eq!(release.told(), ended(ReleaseOutcome::Released));
    assert_eq!(release.land(&renewal), WriteOutcome::Refused);
    release.answer_write(&renewal, WriteOutcome::Refused);
    release.until_ms(60_000);
    assert_eq!(release.all_sent().len(), 0, "after a release no renewal starts");
}

#[test]
fn d_037_a_release_whose_answer_was_lost_is_found() {
    let (mut release, sent) = releasing();
    release.land(&sent);
    release.answer_write(&sent, TRANSIENT);
    release.serve_next();
    assert_eq!(release.told(), ended(ReleaseOutcome::Released));
}

#[test]
fn d_037_another_holder_means_it_is_done() {
    for record in [held_by(OTHER, 8, 1), free_from(OTHER, 8)] {
        let (mut release, sent) = releasing();
        release.land(&sent);
        release.store.put(&record);
        release.answer_write(&sent, TRANSIENT);
        release.serve_next();
        let outcome = ReleaseOutcome::TakenOver { holder: OTHER, epoch: Epoch(8) };
        assert_eq!(release.told(), ended(outcome));
    }
}

#[test]
fn lesson_c5_a_refusal_that_changed_nothing_is_retried() {
    let (mut release, sent) = releasing();
    release.answer_write(&sent, WriteOutcome::Refused);
    release.serve_next();
    assert_eq!(release.told(), []);
    release.until_ms(1_100);
    release.serve_next();
    assert_eq!(release.told(), ended(ReleaseOutcome::Released));
}

#[test]
fn d_037_it_is_tried_until_its_limit_and_no_longer() {
    let (mut release, _unanswered) = releasing();
    release.until_ms(9_999);
    assert_eq!(release.told(), []);
    let tries = release.all_sent().iter().filter(|sent| !sent.is_read()).count();
    assert_eq!(tries, 4, "cut off every 1.667 s, with back-offs up to 1 s between");
    release.until_ms(10_000);
    assert_eq!(release.told(), ended(ReleaseOutcome::Unconfirmed));
}

#[test]
fn d_051_a_release_in_order_is_tried_for_one_second() {
    let mut holder = holder(seconds(10));
    holder.until_ms(9_900);
    let mut release = holder.release(1_000);
    release.until_ms(10_899);
    assert_eq!(release.told(), []);
    release.until_ms(10_900);
    assert_eq!(release.told(), ended(ReleaseOutcome::Unconfirmed));
}

#[test]
fn d_051_after_an_expiry_its_own_late_renewal_is_released() {
    let mut holder = holder(seconds(10));
    holder.until_ms(9_900);
    let renewal = holder.all_sent().remove(0);
    let mut release = holder.release(1_000);
    let first = release.sent();
    release.land(&renewal);
    release.serve(&first);
    release.serve_next();
    release.serve_next();
    assert_eq!(release.told(), ended(ReleaseOutcome::Released));
    assert_eq!(release.store.record().state, LeaseState::Free);
}

#[test]
fn d_037_a_permanent_error_ends_it() {
    for (outcome, reason) in [
        (WriteOutcome::Permanent, StopReason::StoragePermanent),
        (WriteOutcome::LocalFailure, StopReason::LocalStoreFailed),
        (WriteOutcome::LockReplaced, StopReason::DevLockReplaced),
    ] {
        let (mut release, sent) = releasing();
        release.answer_write(&sent, outcome);
        assert_eq!(release.told(), ended(ReleaseOutcome::Failed(reason)));
    }
    let (mut release, sent) = releasing();
    release.answer_write(&sent, TRANSIENT);
    let read = release.sent();
    release.answer_read(&read, ReadOutcome::Permanent);
    assert_eq!(release.told(), ended(ReleaseOutcome::Failed(StopReason::StoragePermanent)));
}

#[test]
fn d_049_a_missing_or_unreadable_lease_is_left_alone() {
    for damage in [true, false] {
        let (mut release, sent) = releasing();
        if damage {
            release.store.put_bytes(Blob::from(b"garbage".as_slice()));
        } else {
            release.store.delete();
        }
        release.serve(&sent);
        release.serve_next();
        assert_eq!(release.told(), ended(ReleaseOutcome::Unconfirmed));
        assert_eq!(release.all_sent().len(), 0);
    }
}

/// Lesson E1 in small: a release at every millisecond of a renewal, over stores of many speeds.
#[test]
fn ha_016_the_lease_is_free_after_a_release_at_any_moment_of_a_renewal() {
    for latency in [0, 10, 100, 400, 800] {
        for at in (3_300..5_000).step_by(7) {
            let mut holder = holder(seconds(10));
            let sent = holder.run_with_latency(at, latency);
            // The renewal on its way lands later than the release is sent, or never: worst case, first.
            let renewal = sent.iter().rfind(|sent| !sent.is_read()).cloned();
            let mut release = holder.release(6_000);
            if let Some(renewal) = renewal {
                release.land(&renewal);
            }
            release.run_with_latency(at + 6_000, latency);
            assert_eq!(release.told(), ended(ReleaseOutcome::Released), "at {at}, {latency} ms");
            assert_eq!(release.store.record().state, LeaseState::Free);
        }
    }
}
