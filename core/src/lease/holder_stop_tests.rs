use super::driver::{Driver, ME, OTHER, free_from, held_by, holder, seconds};
use super::record::{LeaseRecord, Nonce};
use super::{Holder, HolderOutput};
use crate::ids::Blob;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};
use std::vec;
use std::vec::Vec;

use super::holder_tests::{LOST_TO_TIME, TRANSIENT, fail, lost, renewing, valid_until};

// --- stops ---

/// What the holder decides when the lease shows this after a refused renewal.
fn after_refusal(change: impl FnOnce(&mut Driver<Holder>)) -> Vec<HolderOutput> {
    let (mut holder, sent) = renewing();
    change(&mut holder);
    let read = fail(&mut holder, &sent, WriteOutcome::Refused);
    holder.serve(&read);
    holder.decided()
}

#[test]
fn ha_030_another_holder_stops_it_at_once() {
    let told = after_refusal(|holder| {
        holder.store.put(&held_by(OTHER, 8, 1));
    });
    assert_eq!(told, lost(StopReason::LeaseTaken));
}

#[test]
fn ha_030_a_higher_epoch_of_its_own_stops_it() {
    let told = after_refusal(|holder| {
        holder.store.put(&held_by(ME, 8, 1));
    });
    assert_eq!(told, lost(StopReason::LeaseTaken));
}

#[test]
fn ha_030_a_free_lease_that_it_did_not_release_stops_it() {
    let told = after_refusal(|holder| {
        holder.store.put(&free_from(ME, 7));
    });
    assert_eq!(told, lost(StopReason::LeaseTaken));
}

#[test]
fn d_008_an_unknown_nonce_under_its_own_name_stops_it() {
    let told = after_refusal(|holder| {
        holder.store.put(&held_by(ME, 7, 4_000));
    });
    assert_eq!(told, lost(StopReason::UnknownOwnWrite));
}

/// A cloned process with the same generator draws the same counter, but not the same entropy.
#[test]
fn d_050_review_2_11_a_clone_is_told_apart_by_the_entropy_of_its_nonce() {
    let (mut holder, sent) = renewing();
    let own = sent.record();
    let nonce = Nonce { entropy: own.nonce.entropy + 1, ..own.nonce };
    holder.store.put(&LeaseRecord { nonce, ..own });
    let read = fail(&mut holder, &sent, WriteOutcome::Refused);
    holder.serve(&read);
    assert_eq!(holder.decided(), lost(StopReason::UnknownOwnWrite));
}

#[test]
fn d_009_a_missing_lease_stops_it_with_its_own_reason() {
    let told = after_refusal(|holder| holder.store.delete());
    assert_eq!(told, lost(StopReason::LeaseGone));
}

#[test]
fn d_049_an_unreadable_lease_stops_it_with_its_own_reason() {
    let told = after_refusal(|holder| {
        holder.store.put_bytes(Blob::from(b"garbage".as_slice()));
    });
    assert_eq!(told, lost(StopReason::LeaseUnreadable));
}

#[test]
fn ha_031_a_permanent_error_stops_it_at_once() {
    let (mut holder, sent) = renewing();
    holder.answer_write(&sent, WriteOutcome::Permanent);
    assert_eq!(holder.decided(), lost(StopReason::StoragePermanent));
    let (mut holder, sent) = renewing();
    let read = fail(&mut holder, &sent, TRANSIENT);
    holder.answer_read(&read, ReadOutcome::Permanent);
    assert_eq!(holder.decided(), lost(StopReason::StoragePermanent));
}

#[test]
fn d_033_and_d_045_the_disk_and_the_lock_have_reasons_of_their_own() {
    for (outcome, reason) in [
        (WriteOutcome::LocalFailure, StopReason::LocalStoreFailed),
        (WriteOutcome::LockReplaced, StopReason::DevLockReplaced),
    ] {
        let (mut holder, sent) = renewing();
        holder.answer_write(&sent, outcome);
        assert_eq!(holder.decided(), lost(reason));
    }
}

/// Lesson A3: four ways to lose it, four reasons; three at once, the expiry at the cut-off.
#[test]
fn lesson_a3_each_way_to_lose_the_lease_has_its_reason() {
    let mut reasons = vec![
        after_refusal(|holder| {
            holder.store.put(&held_by(OTHER, 8, 1));
        }),
        after_refusal(|holder| holder.store.delete()),
    ];
    let (mut denied, sent) = renewing();
    denied.answer_write(&sent, WriteOutcome::Permanent);
    reasons.push(denied.decided());
    let mut expired = holder(seconds(10));
    expired.until_ms(9_900);
    reasons.push(expired.decided());
    assert_eq!(
        reasons,
        [
            lost(StopReason::LeaseTaken),
            lost(StopReason::LeaseGone),
            lost(StopReason::StoragePermanent),
            lost(StopReason::LeaseExpired),
        ]
    );
}

/// Lessons C2 and C5: 304, 404, 409 and 412 all arrive as a refusal, and only the read decides.
#[test]
fn lesson_c2_review_2_7_a_refusal_that_changed_nothing_is_retried() {
    let (mut holder, sent) = renewing();
    let read = fail(&mut holder, &sent, WriteOutcome::Refused);
    holder.serve(&read);
    assert_eq!(holder.decided(), []);
    holder.until_ms(3_434);
    let next = holder.serve_next();
    assert!(next.at_micros >= 3_383_333);
    assert!(matches!(holder.decided().as_slice(), [HolderOutput::Valid { .. }]));
}

#[test]
fn d_057_review_12_12_an_answer_is_handled_before_a_timer_that_became_due_meanwhile() {
    let (mut holder, sent) = renewing();
    let outcome = holder.land(&sent);
    // Due since 5.0 s: the cut-off of the try. The answer comes first, and there is nothing to cut off.
    holder.freeze_until_ms(6_000);
    holder.answer_write(&sent, outcome);
    assert!(matches!(holder.decided().as_slice(), [HolderOutput::Valid { .. }]));
    assert_eq!(holder.all_sent().len(), 0);
}

#[test]
fn d_057_the_end_of_the_lease_is_judged_before_both() {
    let (mut holder, sent) = renewing();
    let outcome = holder.land(&sent);
    holder.freeze_until_ms(9_900);
    holder.answer_write(&sent, outcome);
    assert_eq!(holder.decided(), LOST_TO_TIME);
}

#[test]
fn d_001_ended_is_final() {
    let (mut holder, sent) = renewing();
    let outcome = holder.land(&sent);
    holder.freeze_until_ms(70_000);
    holder.input(super::LeaseInput::Tick);
    holder.answer_write(&sent, outcome);
    holder.until_ms(200_000);
    assert_eq!(holder.decided(), LOST_TO_TIME);
    assert_eq!(holder.all_sent().len(), 0);
}

// --- doubt and confirmation ---

#[test]
fn d_001_a_forward_jump_of_the_wall_clock_is_doubt_until_a_new_renewal_lands() {
    let mut holder = holder(seconds(10));
    holder.until_ms(1_000);
    holder.jump_wall_ms(501);
    holder.input(super::LeaseInput::Tick);
    assert_eq!(holder.decided(), [HolderOutput::Doubt]);
    let sent = holder.sent();
    assert_eq!(sent.at_ms(), 1_000.0);
    holder.until_ms(1_050);
    holder.serve(&sent);
    let told = holder.decided();
    assert!(valid_until(11_000.0, &told), "{told:?}");
    assert!(!holder.machine.is_in_doubt());
}

#[test]
fn d_001_small_and_backward_jumps_mean_nothing() {
    let mut holder = holder(seconds(10));
    for jump in [500, -3_600_000, -1, 499] {
        holder.jump_wall_ms(jump);
        holder.input(super::LeaseInput::Tick);
    }
    assert_eq!(holder.decided(), []);
    assert_eq!(holder.all_sent().len(), 0);
}

#[test]
fn d_001_an_older_renewal_does_not_end_the_doubt() {
    let (mut holder, older) = renewing();
    let outcome = holder.land(&older);
    holder.jump_wall_ms(30_000);
    holder.input(super::LeaseInput::Tick);
    assert_eq!(holder.decided(), [HolderOutput::Doubt]);
    let newer = holder.sent();
    holder.answer_write(&older, outcome);
    assert_eq!(holder.decided(), [], "the period moves on, the doubt stays");
    assert_eq!(holder.valid_until_ms(), 13_333.333);
    assert!(holder.machine.is_in_doubt());
    // The newer one had the old base: another is sent at once.
    let newest = holder.sent();
    holder.serve(&newer);
    assert_eq!(holder.decided(), []);
    holder.serve(&newest);
    assert!(valid_until(13_333.333, &holder.decided()));
}

#[test]
fn d_001_doubt_that_nothing_ends_is_an_expiry() {
    let mut holder = holder(seconds(10));
    holder.jump_wall_ms(30_000);
    holder.input(super::LeaseInput::Tick);
    holder.until_ms(9_900);
    let told = holder.decided();
    assert_eq!(told, [HolderOutput::Doubt, HolderOutput::Lost(StopReason::LeaseExpired)]);
}

#[test]
fn d_001_doubt_that_finds_another_holder_is_a_loss() {
    let mut holder = holder(seconds(10));
    holder.store.put(&held_by(OTHER, 8, 1));
    holder.jump_wall_ms(30_000);
    holder.input(super::LeaseInput::Tick);
    holder.serve_next();
    holder.serve_next();
    assert_eq!(holder.decided(), [HolderOutput::Doubt, HolderOutput::Lost(StopReason::LeaseTaken)]);
}

#[test]
fn d_042_a_confirmation_is_a_renewal_sent_afterwards() {
    let (mut holder, before) = renewing();
    let look = holder.look();
    holder.machine.confirm(look);
    holder.drain();
    assert_eq!(holder.all_sent().len(), 0, "one is under way; it proves nothing about now");
    holder.serve(&before);
    assert!(!holder.decided().contains(&HolderOutput::Confirmed));
    let proof = holder.sent();
    holder.serve(&proof);
    assert!(holder.decided().contains(&HolderOutput::Confirmed));
    holder.until_ms(6_000);
    assert_eq!(holder.all_sent().len(), 0, "the rhythm counts from the proof");
}

#[test]
fn d_042_a_confirmation_that_finds_another_holder_is_a_loss() {
    let mut holder = holder(seconds(10));
    holder.store.put(&held_by(OTHER, 8, 1));
    let look = holder.look();
    holder.machine.confirm(look);
    holder.drain();
    holder.serve_next();
    holder.serve_next();
    assert_eq!(holder.decided(), lost(StopReason::LeaseTaken));
}

#[test]
fn ha_030_unknown_and_repeated_answers_are_ignored() {
    let (mut holder, sent) = renewing();
    let outcome = holder.land(&sent);
    holder.answer_write(&sent, outcome.clone());
    holder.told();
    holder.answer_write(&sent, outcome);
    holder.answer_write(&sent, WriteOutcome::Permanent);
    holder.answer_read(&sent, ReadOutcome::Missing);
    assert_eq!(holder.told(), []);
}
