//! Step down: drain, release, hold-off, and who holds the lease then.

use core::time::Duration;
use std::vec::Vec;

use super::driver::{Answer, Driver};
use super::{
    ActiveProcess, AdminAnswer, AdminCode, AdminError, AdminReason, Input, NodeEvent, Output, Role,
    StepDownOutcome, UnknownHolder,
};
use crate::engine::{NodeOrder, NodeReport};
use crate::gate::{GateOrder, GateView};
use crate::ids::{CallId, Epoch};
use crate::lease::driver::{ME, OTHER, Store, free_from, held_by, node};
use crate::lease::{CandidateConfig, LeaseInput, LeaseOperation, LeaseState};
use crate::stop::StopReason;
use crate::store::WriteOutcome;

/// The answer of a step down of epoch 1.
fn stepped_down(outcome: StepDownOutcome) -> Option<Answer> {
    Some(Ok(AdminAnswer::SteppedDown {
        node_id: node(),
        released_epoch: Epoch(1),
        hold_off_ms: 5_000,
        outcome,
    }))
}

fn ended(code: AdminCode, reason: AdminReason) -> Option<Answer> {
    Some(Err(AdminError { code, reason }))
}

fn taken_over(epoch: u64) -> StepDownOutcome {
    StepDownOutcome::TakenOver { active: Some(ActiveProcess { epoch: Epoch(epoch), holder: OTHER }) }
}

fn taken_back(epoch: u64) -> StepDownOutcome {
    StepDownOutcome::TakenBack { active: ActiveProcess { epoch: Epoch(epoch), holder: ME } }
}

/// In its hold-off since 0; the store is closed.
fn holding_off() -> (Driver, CallId) {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    assert_eq!(driver.node.role(), Role::HoldOff);
    driver.roles();
    driver.told();
    (driver, call)
}

// --- from the call to the release ---

#[test]
fn ha_089_ha_090_ha_093_it_drains_like_a_shutdown_and_lives_on() {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    assert_eq!(driver.orders(), [NodeOrder::Drain]);
    driver.input(Input::Engine(NodeReport::Drained));
    driver.input(Input::Engine(NodeReport::Committed));
    assert_eq!(driver.orders(), [NodeOrder::Commit, NodeOrder::Close]);
    assert_eq!(driver.look_at_gate(), GateView::Open, "what was decided may still leave (HA-094)");
    assert_eq!(driver.store.record().state, LeaseState::Held);
    driver.input(Input::Engine(NodeReport::Closed));
    assert_eq!(driver.told(), [Output::Gate(GateOrder::Close)]);
    assert_eq!(driver.store.record().state, LeaseState::Free);
    assert_eq!(driver.exit, None);
    assert_eq!(driver.watchdog, None, "the lease ended by its own release (D-32, review 3.7)");
    assert_eq!(driver.answer_of(call), None, "the call waits for who holds the lease (HA-095)");
    assert_eq!(
        driver.roles(),
        [Role::Draining, Role::Committing, Role::Closing, Role::Releasing, Role::HoldOff]
    );
}

#[test]
fn ha_090_ha_096_the_stages_have_the_limits_of_a_shutdown() {
    let mut driver = Driver::active();
    driver.step_down(1);
    driver.alive_until_ms(30_000);
    assert_eq!(driver.orders(), [NodeOrder::Drain, NodeOrder::Interrupt]);
    driver.alive_until_ms(35_000);
    assert_eq!(driver.orders(), [NodeOrder::Commit]);
    driver.alive_until_ms(45_000);
    assert_eq!(driver.orders(), [NodeOrder::Close]);
    driver.alive_until_ms(45_999);
    assert_eq!(driver.store.record().state, LeaseState::Held);
    driver.until_ms(46_000);
    assert_eq!(driver.node.role(), Role::HoldOff);
}

#[test]
fn ha_091_ha_098_the_lease_is_renewed_until_the_release_and_free_only_then() {
    let mut driver = Driver::active();
    driver.step_down(1);
    for second in 1..46 {
        driver.alive_until_ms(second * 1_000);
        assert_eq!(driver.store.record().state, LeaseState::Held, "{second} s");
        assert_eq!(driver.look_at_gate(), GateView::Open, "{second} s");
    }
    driver.until_ms(46_000);
    assert_eq!(driver.store.record().state, LeaseState::Free);
}

#[test]
fn d_020_a_lease_lost_in_the_drain_exits_1_and_the_call_ends_unavailable() {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.store.put(&held_by(OTHER, 8, 1));
    driver.alive_until_ms(8_000);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseTaken)));
    let reason = AdminReason::Ended(StopReason::LeaseTaken);
    assert_eq!(driver.answer_of(call), ended(AdminCode::Unavailable, reason));
}

/// Review 7.7, with a release in between (D-51).
#[test]
fn review_7_7_a_stop_in_the_drain_releases_and_ends_the_call() {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.input(Input::Failed(StopReason::LogWriteTimeout));
    let reason = AdminReason::Ended(StopReason::LogWriteTimeout);
    assert_eq!(driver.answer_of(call), ended(AdminCode::Unavailable, reason));
    assert_eq!(driver.exit, Some((1, StopReason::LogWriteTimeout)));
    assert_eq!(driver.store.record().state, LeaseState::Free);
}

#[test]
fn d_020_a_failure_while_the_release_is_under_way_ends_the_process_after_it() {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.input(Input::Failed(StopReason::LocalStoreFailed));
    let reason = AdminReason::Ended(StopReason::LocalStoreFailed);
    assert_eq!(driver.answer_of(call), ended(AdminCode::Internal, reason));
    assert_eq!(driver.exit, None);
    driver.answer();
    assert_eq!(driver.exit, Some((1, StopReason::LocalStoreFailed)));
    assert_eq!(driver.store.record().state, LeaseState::Free);
}

/// Review 3.4: it can neither follow nor take back.
#[test]
fn review_3_4_a_release_that_is_denied_exits_1_and_the_call_ends_internal() {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.is_store_silent = true;
    driver.drain_and_close();
    let (request, _) = driver.unanswered.remove(0);
    driver.input(Input::Lease(LeaseInput::Written { request, outcome: WriteOutcome::Permanent }));
    let reason = AdminReason::Ended(StopReason::StoragePermanent);
    assert_eq!(driver.answer_of(call), ended(AdminCode::Internal, reason));
    assert_eq!(driver.exit, Some((1, StopReason::StoragePermanent)));
}

// --- who holds the lease then ---

#[test]
fn ha_101_the_call_ends_the_moment_another_process_is_seen_to_hold_the_lease() {
    let (mut driver, call) = holding_off();
    driver.until_ms(1_100);
    driver.store.put(&held_by(OTHER, 2, 1));
    driver.until_ms(1_249);
    assert_eq!(driver.answer_of(call), None);
    driver.until_ms(1_250);
    assert_eq!(driver.answer_of(call), stepped_down(taken_over(2)));
    assert!(driver.events().contains(&NodeEvent::SteppedDown(taken_over(2))));
    assert_eq!(driver.node.role(), Role::HoldOff, "it goes on holding off");
    driver.until_ms(5_000);
    assert_eq!(driver.node.role(), Role::Waiting);
    driver.until_ms(9_000);
    assert_eq!(driver.epoch_in_lease(), Epoch(2), "and stands by");
}

#[test]
fn ha_099_ha_102_ha_131_nobody_took_over_it_takes_the_lease_back() {
    let (mut driver, call) = holding_off();
    driver.until_ms(4_999);
    assert_eq!(driver.answer_of(call), None);
    assert_eq!(driver.store.record().state, LeaseState::Free);
    driver.until_ms(5_050);
    assert_eq!(driver.answer_of(call), stepped_down(taken_back(2)));
    let record = driver.store.record();
    assert_eq!((record.epoch, record.holder, record.state), (Epoch(2), ME, LeaseState::Held));
    assert_eq!(driver.roles(), [Role::Waiting, Role::Opening]);
}

#[test]
fn d_038_taken_back_means_taken_not_recovered() {
    let (mut driver, call) = holding_off();
    driver.until_ms(5_050);
    assert_eq!(driver.node.role(), Role::Opening);
    assert_eq!(driver.answer_of(call), stepped_down(taken_back(2)));
}

#[test]
fn ha_013_d_047_the_next_tenure_has_a_higher_epoch_and_a_gate_of_its_own() {
    let mut driver = Driver::active();
    for epoch in 1..5 {
        let begun_ms = driver.now_ms();
        let call = driver.step_down(epoch);
        driver.drain_and_close();
        assert_eq!(driver.look_at_gate(), GateView::Shut);
        driver.input(Input::StoreClosed);
        driver.until_ms(begun_ms + 5_050);
        let Some(Ok(AdminAnswer::SteppedDown { released_epoch, outcome, .. })) = driver.answer_of(call)
        else {
            panic!("it is taken back");
        };
        assert_eq!((released_epoch, outcome), (Epoch(epoch), taken_back(epoch + 1)));
        let opened = driver
            .told()
            .iter()
            .any(|output| matches!(output, Output::OpenLog(open) if open.epoch == Epoch(epoch + 1)));
        assert!(opened);
        assert_eq!(driver.look_at_gate(), GateView::Shut);
        driver.recover();
        assert_eq!(driver.look_at_gate(), GateView::Open);
        driver.alive_until_ms(begun_ms + 20_000);
        assert_eq!(driver.look_at_gate(), GateView::Open, "its renewals go on");
    }
}

/// Review 3.6: taken and released again between two looks. The free lease names its last holder.
#[test]
fn review_3_6_a_lease_that_another_took_and_released_again_was_taken_over() {
    let (mut driver, call) = holding_off();
    driver.store.put(&free_from(OTHER, 2));
    driver.until_ms(250);
    assert_eq!(driver.answer_of(call), stepped_down(StepDownOutcome::TakenOver { active: None }));
    driver.until_ms(5_050);
    assert_eq!(driver.epoch_in_lease(), Epoch(3), "free is free");
}

/// Review 3.2: the answer of the release is lost, and the successor is there already.
#[test]
fn review_3_2_a_release_whose_answer_was_lost_is_found_taken_over() {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.store.put(&held_by(OTHER, 2, 1));
    driver.answer();
    driver.until_ms(1_000);
    assert_eq!(driver.answer_of(call), stepped_down(taken_over(2)));
    assert_eq!(driver.look_at_gate(), GateView::Shut);
}

/// Review 7.16 and D-38: whatever is not known is said to be unknown.
#[test]
fn review_7_16_a_try_that_ends_without_an_outcome_is_unknown_and_it_competes_on() {
    let (mut driver, call) = holding_off();
    driver.until_ms(4_999);
    driver.is_store_silent = true;
    driver.until_ms(5_000);
    driver.until_ms(7_000);
    let unknown = StepDownOutcome::Unknown { detail: UnknownHolder::LeaseUnread };
    assert_eq!(driver.answer_of(call), stepped_down(unknown));
    assert_eq!(driver.node.role(), Role::Waiting);
    driver.is_store_silent = false;
    driver.until_ms(20_000);
    assert_eq!(driver.node.role(), Role::Opening);
}

#[test]
fn d_038_a_take_back_that_is_refused_because_another_was_faster_is_taken_over() {
    let (mut driver, call) = holding_off();
    driver.until_ms(4_999);
    driver.is_store_silent = true;
    driver.until_ms(5_000);
    let reads: Vec<_> = driver.unanswered.drain(..).collect();
    assert_eq!(reads.len(), 1);
    let outcome = driver.store.read();
    driver.input(Input::Lease(LeaseInput::Read { request: reads[0].0, outcome }));
    driver.until_ms(5_050);
    assert!(matches!(driver.unanswered[0].1, LeaseOperation::Update { .. }));
    driver.store.put(&held_by(OTHER, 2, 1));
    driver.answer();
    assert_eq!(driver.answer_of(call), stepped_down(taken_over(2)));
}

/// Review 3.3 and D-37: nothing confirms the release. After the hold-off it needs no wait for an expiry
/// on a version of its own.
#[test]
fn d_037_an_unconfirmed_release_leads_on_as_a_candidate_after_the_hold_off() {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.until_ms(9_999);
    assert_eq!(driver.node.role(), Role::Releasing);
    driver.until_ms(10_000);
    assert_eq!(driver.node.role(), Role::HoldOff, "min(rest of the period, 10 s)");
    assert_eq!(driver.look_at_gate(), GateView::Shut);
    driver.unanswered.clear();
    driver.is_store_silent = false;
    driver.until_ms(14_999);
    assert_eq!(driver.store.record().state, LeaseState::Held, "its own, still");
    driver.until_ms(15_050);
    assert_eq!(driver.answer_of(call), stepped_down(taken_back(2)));
}

/// Review 3.5: else a long lease would hold the call up for a whole period.
#[test]
fn review_3_5_a_release_is_tried_for_10_s_even_under_a_long_lease() {
    let mut driver = Driver::with_lease_seconds(60);
    driver.step_down(1);
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.until_ms(9_999);
    assert_eq!(driver.node.role(), Role::Releasing);
    driver.until_ms(10_000);
    assert_eq!(driver.node.role(), Role::HoldOff);
}

#[test]
fn ha_103_the_call_ends_in_time_where_everything_takes_as_long_as_it_may() {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.alive_until_ms(45_999);
    driver.is_store_silent = true;
    driver.until_ms(46_000);
    driver.input(Input::StoreClosed);
    // 30 s + 5 s + 10 s of drain, 1 s to close, the rest of the period, 5 s of hold-off, and one read.
    let released_by = 46_000 + 10_000;
    driver.until_ms(released_by + 5_000 + 1_667);
    let unknown = StepDownOutcome::Unknown { detail: UnknownHolder::LeaseUnread };
    assert_eq!(driver.answer_of(call), stepped_down(unknown));
}

/// Review 7.18.
#[test]
fn review_7_18_d_036_fail_if_held_concerns_the_start_only() {
    let config = CandidateConfig { fail_if_held: true, ..CandidateConfig::default() };
    let mut driver = Driver::new(config, Store::default());
    driver.until_ms(0);
    driver.recover();
    driver.step_down(1);
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.store.put(&held_by(OTHER, 2, 1));
    for renewal in 2..6 {
        driver.until_ms(renewal * 2_000);
        driver.store.put(&held_by(OTHER, 2, renewal));
    }
    assert_eq!((driver.exit, driver.node.role()), (None, Role::Waiting));
}

// --- a store that does not close ---

fn with_open_store() -> (Driver, CallId) {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.drain_and_close();
    (driver, call)
}

#[test]
fn ha_104_it_competes_only_once_the_store_of_its_ended_tenure_is_closed() {
    let (mut driver, call) = with_open_store();
    driver.until_ms(40_000);
    assert_eq!(driver.node.role(), Role::HoldOff);
    assert_eq!(driver.store.record().state, LeaseState::Free);
    driver.input(Input::StoreClosed);
    assert_eq!(driver.node.role(), Role::Waiting);
    driver.until_ms(40_050);
    assert_eq!(driver.answer_of(call), stepped_down(taken_back(2)));
    driver.recover();
    driver.alive_until_ms(80_000);
    assert_eq!(driver.exit, None, "the limit is gone with the store");
}

/// Also review 7.15: counted from the sending of the release.
#[test]
fn ha_105_ha_106_ha_107_d_019_after_64_s_the_process_exits_1_and_the_call_ends_internal() {
    let (mut driver, call) = with_open_store();
    driver.until_ms(63_999);
    assert_eq!((driver.exit, driver.answer_of(call)), (None, None));
    driver.until_ms(64_000);
    assert_eq!(driver.exit, Some((1, StopReason::StoreNotClosed)));
    let reason = AdminReason::Ended(StopReason::StoreNotClosed);
    assert_eq!(driver.answer_of(call), ended(AdminCode::Internal, reason));
    assert_eq!(driver.store.record().state, LeaseState::Free, "nothing was acquired");
}

#[test]
fn review_7_15_the_64_s_count_from_the_sending_of_the_release() {
    let mut driver = Driver::active();
    driver.step_down(1);
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.until_ms(9_000);
    driver.answer();
    driver.until_ms(63_999);
    assert_eq!(driver.exit, None);
    driver.until_ms(64_000);
    assert_eq!(driver.exit, Some((1, StopReason::StoreNotClosed)));
}

#[test]
fn ha_107_ha_108_another_takes_over_meanwhile_and_the_process_still_exits() {
    let (mut driver, call) = with_open_store();
    driver.until_ms(20_000);
    driver.store.put(&held_by(OTHER, 2, 1));
    driver.until_ms(20_250);
    assert_eq!(driver.answer_of(call), stepped_down(taken_over(2)));
    driver.until_ms(64_000);
    assert_eq!(driver.exit, Some((1, StopReason::StoreNotClosed)));
    assert_eq!(driver.epoch_in_lease(), Epoch(2));
}

#[test]
fn ha_104_a_store_that_closes_before_the_release_is_confirmed_is_closed() {
    let mut driver = Driver::active();
    driver.step_down(1);
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.answer();
    driver.until_ms(5_050);
    assert_eq!(driver.node.role(), Role::Opening);
}

// --- single replica ---

#[test]
fn ha_131_a_single_replica_is_away_for_the_hold_off_and_at_most_50_ms_more() {
    for wait in [0, 3, 17] {
        let mut driver = Driver::active();
        driver.alive_until_ms(1_000 + wait);
        let released_ms = driver.now_ms();
        driver.step_down(1);
        driver.drain_and_close();
        driver.input(Input::StoreClosed);
        driver.until_ms(released_ms + 4_999);
        assert_eq!(driver.store.record().state, LeaseState::Free);
        driver.until_ms(released_ms + 5_050);
        driver.recover();
        assert_eq!(driver.epoch_in_lease(), Epoch(2));
    }
}

#[test]
fn ha_132_it_is_not_serving_from_the_release_until_it_has_recovered() {
    let mut driver = Driver::active();
    let serving = |driver: &Driver| driver.node.health(driver.now().instant).is_serving;
    driver.step_down(1);
    assert!(serving(&driver), "the drain is served");
    driver.drain_and_close();
    assert!(!serving(&driver));
    driver.input(Input::StoreClosed);
    driver.until_ms(4_999);
    assert!(!serving(&driver));
    driver.until_ms(5_050);
    assert!(!serving(&driver), "it has the lease, and has not recovered");
    driver.recover();
    assert!(serving(&driver));
}

#[test]
fn ha_044_the_hold_off_counts_from_the_confirmation_of_the_release() {
    let mut driver = Driver::active();
    driver.step_down(1);
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.until_ms(1_000);
    driver.answer();
    assert_eq!(driver.node.role(), Role::HoldOff);
    driver.until_ms(5_999);
    assert_eq!(driver.node.role(), Role::HoldOff);
    driver.until_ms(6_000);
    assert_ne!(driver.node.role(), Role::HoldOff);
    assert_eq!(Duration::from_millis(5_000), crate::standby::StandbyConfig::default().step_down_hold_off());
}
