//! SIGTERM in every state of a step down and of a standby (D-29 and the list under review 7).

use super::driver::{Answer, Driver};
use super::{AdminCode, AdminError, AdminReason, FollowOrder, Input, NodeEvent, Role};
use crate::engine::{NodeOrder, NodeReport};
use crate::ids::{CallId, Epoch, Position};
use crate::lease::LeaseState;
use crate::lease::driver::{ME, OTHER, Store, held_by};
use crate::stop::StopReason;

const DONE: Option<(u8, StopReason)> = Some((0, StopReason::Shutdown));

fn stepping_down() -> (Driver, CallId) {
    let mut driver = Driver::active();
    let call = driver.step_down(1);
    driver.orders();
    (driver, call)
}

fn interrupted() -> Option<Answer> {
    Some(Err(AdminError { code: AdminCode::Unavailable, reason: AdminReason::ShuttingDown }))
}

/// Review 7.11: the same deadlines run on.
#[test]
fn review_7_11_a_signal_in_the_drain_makes_it_a_shutdown_on_the_same_deadlines() {
    let (mut driver, call) = stepping_down();
    driver.alive_until_ms(20_000);
    driver.input(Input::Terminate);
    assert_eq!(driver.answer_of(call), interrupted());
    assert_eq!(driver.orders(), []);
    driver.alive_until_ms(29_999);
    assert_eq!(driver.node.role(), Role::Draining);
    driver.until_ms(30_000);
    assert_eq!(driver.orders(), [NodeOrder::Interrupt]);
    for report in [NodeReport::Drained, NodeReport::Committed, NodeReport::Closed] {
        driver.input(Input::Engine(report));
    }
    assert_eq!(driver.exit, DONE, "no hold-off");
    assert_eq!(driver.store.record().state, LeaseState::Free);
    let stops =
        driver.events().into_iter().filter(|event| matches!(event, NodeEvent::Stopping { .. })).count();
    assert_eq!(stops, 1);
}

#[test]
fn d_029_a_signal_while_the_release_is_under_way_lets_it_finish() {
    let (mut driver, call) = stepping_down();
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.input(Input::Terminate);
    assert_eq!((driver.answer_of(call), driver.exit), (interrupted(), None));
    driver.answer();
    assert_eq!(driver.exit, DONE);
    assert_eq!(driver.store.record().state, LeaseState::Free);
}

#[test]
fn d_029_a_signal_while_the_release_stays_unanswered_ends_with_its_limit() {
    let (mut driver, _) = stepping_down();
    driver.is_store_silent = true;
    driver.drain_and_close();
    driver.input(Input::Terminate);
    driver.until_ms(9_999);
    assert_eq!(driver.exit, None);
    driver.until_ms(10_000);
    assert_eq!(driver.exit, DONE);
}

#[test]
fn d_029_a_signal_in_the_hold_off_ends_at_once() {
    let (mut driver, call) = stepping_down();
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.until_ms(2_000);
    driver.input(Input::Terminate);
    assert_eq!((driver.answer_of(call), driver.exit), (interrupted(), DONE));
    assert_eq!(driver.store.record().state, LeaseState::Free);
}

/// Review 7.12.
#[test]
fn review_7_12_a_signal_while_the_store_closes_ends_at_once() {
    let (mut driver, call) = stepping_down();
    driver.drain_and_close();
    driver.until_ms(30_000);
    driver.input(Input::Terminate);
    assert_eq!((driver.answer_of(call), driver.exit), (interrupted(), DONE));
}

/// Review 7.10: else the write would land for a process that is gone.
#[test]
fn review_7_10_a_signal_while_the_take_back_is_under_way_awaits_and_releases_it() {
    let (mut driver, call) = stepping_down();
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.until_ms(4_999);
    driver.is_store_silent = true;
    driver.until_ms(5_000);
    let (request, _) = driver.unanswered.remove(0);
    let outcome = driver.store.read();
    driver.input(Input::Lease(crate::lease::LeaseInput::Read { request, outcome }));
    driver.until_ms(5_050);
    driver.input(Input::Terminate);
    assert_eq!((driver.answer_of(call), driver.exit), (interrupted(), None));
    assert_eq!(driver.node.role(), Role::Withdrawing);
    driver.answer();
    assert_eq!(driver.exit, DONE);
    let record = driver.store.record();
    assert_eq!((record.epoch, record.state, record.holder), (Epoch(2), LeaseState::Free, ME));
}

#[test]
fn review_7_10_a_take_over_that_is_never_answered_is_awaited_for_one_cut_off_and_read() {
    let mut store = Store::default();
    store.put(&crate::lease::driver::free_from(OTHER, 7));
    let mut driver = Driver::new(crate::lease::CandidateConfig::default(), store);
    driver.until_ms(0);
    driver.is_store_silent = true;
    driver.until_ms(60);
    driver.input(Input::Terminate);
    driver.until_ms(4_000);
    assert_eq!(driver.exit, DONE, "one cut-off for the write, one for the read");
}

#[test]
fn d_029_a_hot_standby_stops_following_and_ends_at_once() {
    let mut store = Store::default();
    store.put(&held_by(OTHER, 7, 1));
    let mut driver = Driver::hot(store);
    driver.until_ms(1_000);
    driver.input(Input::Terminate);
    assert_eq!(
        driver.follows(),
        [FollowOrder::Start { trimmed_below: Position(3), log_end: Position(40) }, FollowOrder::Stop]
    );
    assert_eq!(driver.exit, DONE);
}

#[test]
fn d_029_a_signal_after_the_lease_ended_still_exits_1() {
    let mut driver = Driver::active();
    driver.freeze_until_ms(60_000);
    driver.input(Input::Terminate);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseExpired)));
}

#[test]
fn d_029_a_second_tenure_takes_a_signal_like_the_first() {
    let (mut driver, _) = stepping_down();
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.until_ms(5_050);
    driver.recover();
    driver.input(Input::Terminate);
    driver.drain_and_close();
    assert_eq!(driver.exit, DONE);
    assert_eq!(driver.store.record().state, LeaseState::Free);
}
