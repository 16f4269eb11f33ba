//! describe and step down in every role, and their preconditions.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::driver::Driver;
use super::{AdminAnswer, AdminCode, AdminError, AdminReason, AdminRequest, Input, Period, Role};
use crate::engine::NodeReport;
use crate::gate::GateView;
use crate::ids::Epoch;
use crate::lease::driver::{ME, OTHER, Store, free_from, held_by, node};
use crate::lease::{CandidateConfig, LeaseState};
use crate::stop::StopReason;

fn standby() -> Driver {
    let mut store = Store::default();
    store.put(&held_by(OTHER, 7, 1));
    let mut driver = Driver::new(CandidateConfig::default(), store);
    driver.until_ms(0);
    driver
}

fn opening() -> Driver {
    let mut driver = Driver::new(CandidateConfig::default(), Store::default());
    driver.until_ms(0);
    driver
}

fn with(mut driver: Driver, act: impl Fn(&mut Driver)) -> Driver {
    act(&mut driver);
    driver
}

fn releasing(driver: &mut Driver) {
    driver.is_store_silent = true;
    driver.drain_and_close();
}

/// Every situation that the roles and their purposes make.
fn situations() -> Vec<(&'static str, Driver)> {
    let active = Driver::active;
    Vec::from([
        ("standby", standby()),
        (
            "standby, shutting down",
            with(Driver::new(CandidateConfig::default(), free()), |driver| {
                driver.until_ms(0);
                driver.is_store_silent = true;
                driver.until_ms(60);
                driver.input(Input::Terminate);
            }),
        ),
        ("opening the log", opening()),
        (
            "waiting out a higher epoch",
            with(opening(), |driver| {
                driver.input(Input::EpochBehind { found: Epoch(9), lease_duration_ms: None });
            }),
        ),
        ("recovering", with(opening(), |driver| driver.input(Input::LogFenced))),
        ("recovering, shutting down", with(opening(), |driver| driver.input(Input::Terminate))),
        ("active", active()),
        (
            "active, in doubt",
            with(active(), |driver| {
                driver.is_store_silent = true;
                driver.jump_wall_ms(30_000);
            }),
        ),
        ("active, lease ended", with(active(), |driver| driver.freeze_until_ms(60_000))),
        ("shutdown drain", with(active(), |driver| driver.input(Input::Terminate))),
        (
            "shutdown, releasing",
            with(active(), |driver| {
                driver.input(Input::Terminate);
                releasing(driver);
            }),
        ),
        (
            "stop in order, releasing",
            with(active(), |driver| {
                driver.is_store_silent = true;
                driver.input(Input::Failed(StopReason::LogWriteTimeout));
            }),
        ),
        (
            "step-down drain",
            with(active(), |driver| {
                driver.step_down(1);
            }),
        ),
        (
            "step down, releasing",
            with(active(), |driver| {
                driver.step_down(1);
                releasing(driver);
            }),
        ),
        (
            "hold-off",
            with(active(), |driver| {
                driver.step_down(1);
                driver.drain_and_close();
            }),
        ),
        (
            "hold-off, taken over",
            with(active(), |driver| {
                driver.step_down(1);
                driver.drain_and_close();
                driver.store.put(&held_by(OTHER, 2, 1));
                driver.until_ms(1_000);
            }),
        ),
        (
            "taking back",
            with(active(), |driver| {
                driver.step_down(1);
                driver.drain_and_close();
                driver.input(Input::StoreClosed);
                driver.until_ms(4_999);
                driver.is_store_silent = true;
                driver.until_ms(5_001);
            }),
        ),
        (
            "after the hold-off, taken over",
            with(active(), |driver| {
                driver.step_down(1);
                driver.drain_and_close();
                driver.input(Input::StoreClosed);
                driver.store.put(&held_by(OTHER, 2, 1));
                driver.until_ms(6_000);
            }),
        ),
    ])
}

fn free() -> Store {
    let mut store = Store::default();
    store.put(&free_from(OTHER, 7));
    store
}

#[test]
fn d_017_ha_113_every_role_answers_describe_and_step_down() {
    let mut table = String::from("situation | role | describe | step down with the right precondition\n");
    for ((name, mut described), (_, mut stepped)) in situations().into_iter().zip(situations()) {
        let role = described.node.role().label();
        let describe = match described.describe() {
            Ok(AdminAnswer::Described { epoch, .. }) => format!("epoch {epoch}"),
            Ok(other) => panic!("not an answer to describe: {other:?}"),
            Err(AdminError { code, reason }) => format!("{code:?}: {reason}"),
        };
        let call = stepped.step_down(1);
        let step_down = match stepped.answer_of(call) {
            None => String::from("accepted"),
            Some(Ok(other)) => panic!("no answer of a step down comes at once: {other:?}"),
            Some(Err(AdminError { code, reason })) => format!("{code:?}: {reason}"),
        };
        table += &format!("{name} | {role} | {describe} | {step_down}\n");
    }
    insta::assert_snapshot!(table);
}

#[test]
fn ha_112_describe_names_node_epoch_and_holder_and_changes_nothing() {
    let mut driver = Driver::active();
    let described = AdminAnswer::Described { node_id: node(), epoch: Epoch(1), holder: ME };
    assert_eq!(driver.describe(), Ok(described));
    assert_eq!(driver.told(), []);
    assert_eq!(driver.roles(), []);
}

#[test]
fn ha_088_a_step_down_with_another_node_or_epoch_changes_nothing() {
    let mut driver = Driver::active();
    let failed = AdminCode::FailedPrecondition;
    assert_eq!(driver.refused_step_down_of("node-b", 1), (failed, AdminReason::OtherNode));
    for epoch in [0, 2, u64::MAX] {
        let present = Epoch(1);
        assert_eq!(driver.refused_step_down(epoch), (failed, AdminReason::OtherEpoch { present }));
    }
    assert_eq!(driver.told(), []);
    assert_eq!((driver.node.role(), driver.look_at_gate()), (Role::Active, GateView::Open));
}

/// Also review 7.9.
#[test]
fn d_020_review_7_9_a_second_step_down_while_one_runs_is_refused_and_does_not_disturb_it() {
    let mut driver = Driver::active();
    let first = driver.step_down(1);
    let failed = AdminCode::FailedPrecondition;
    assert_eq!(driver.refused_step_down(1), (failed, AdminReason::SteppingDown));
    driver.drain_and_close();
    assert_eq!(driver.refused_step_down(1), (failed, AdminReason::SteppingDown));
    driver.input(Input::StoreClosed);
    driver.until_ms(5_050);
    assert!(matches!(driver.answer_of(first), Some(Ok(AdminAnswer::SteppedDown { .. }))));
}

/// HA-128: the epoch is over, whoever holds the lease now.
#[test]
fn ha_128_a_retry_with_the_original_epoch_is_refused_and_changes_nothing() {
    let mut driver = Driver::active();
    driver.step_down(1);
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.until_ms(5_050);
    driver.recover();
    let failed = AdminCode::FailedPrecondition;
    assert_eq!(driver.refused_step_down(1), (failed, AdminReason::OtherEpoch { present: Epoch(2) }));
    assert_eq!(driver.node.role(), Role::Active);
}

/// Review 7.3: a thawed process whose epoch still reads as expected.
#[test]
fn review_7_3_ha_069_a_thawed_process_whose_lease_ended_accepts_nothing() {
    let mut driver = Driver::active();
    driver.freeze_until_ms(60_000);
    assert_eq!(driver.refused_step_down(1), (AdminCode::Unavailable, AdminReason::LeaseEnded));
    assert_eq!(driver.exit, Some((1, StopReason::LeaseExpired)));
}

#[test]
fn review_7_3_in_doubt_nothing_is_accepted_until_the_lease_is_proven() {
    let mut driver = Driver::active();
    driver.is_store_silent = true;
    driver.jump_wall_ms(30_000);
    assert_eq!(driver.refused_step_down(1), (AdminCode::Unavailable, AdminReason::LeaseInDoubt));
    driver.answer();
    let call = driver.step_down(1);
    assert_eq!((driver.answer_of(call), driver.node.role()), (None, Role::Draining));
}

/// Review 7.4.
#[test]
fn review_7_4_between_acquisition_and_serving_it_is_refused() {
    let mut driver = opening();
    let failed = AdminCode::FailedPrecondition;
    assert_eq!(driver.refused_step_down(1), (failed, AdminReason::TakingOver));
    driver.input(Input::LogFenced);
    assert_eq!(driver.refused_step_down(1), (failed, AdminReason::TakingOver));
    driver.input(Input::Engine(NodeReport::Recovered));
    driver.step_down(1);
    assert_eq!(driver.node.role(), Role::Draining);
}

/// Also review 7.2. The operator's connection was opened to a standby.
#[test]
fn ha_109_d_016_a_connection_of_an_earlier_period_is_refused_at_once() {
    let mut driver = Driver::new(CandidateConfig::default(), free());
    driver.until_ms(0);
    let opened_in = driver.node.period().number;
    driver.until_ms(60);
    driver.recover();
    let step_down = AdminRequest::StepDown { node_id: node(), epoch: Epoch(8) };
    let call = driver.call_on(opened_in, step_down.clone());
    let failed = AdminError { code: AdminCode::FailedPrecondition, reason: AdminReason::OldConnection };
    assert_eq!(driver.answer_of(call), Some(Err(failed)));
    let call = driver.call_on(opened_in, AdminRequest::Describe);
    let unavailable = AdminError { code: AdminCode::Unavailable, reason: AdminReason::OldConnection };
    assert_eq!(driver.answer_of(call), Some(Err(unavailable)));
    assert_eq!((driver.node.role(), driver.told().len()), (Role::Active, 0));
    let again = driver.call(step_down);
    assert_eq!((driver.answer_of(again), driver.node.role()), (None, Role::Draining));
}

#[test]
fn d_016_ha_113_applies_on_a_connection_of_an_earlier_period_too() {
    let mut driver = Driver::active();
    let opened_in = driver.node.period().number;
    driver.step_down(1);
    driver.drain_and_close();
    assert!(driver.node.period().number > opened_in);
    let call = driver.call_on(opened_in, AdminRequest::Describe);
    let failed = AdminError { code: AdminCode::FailedPrecondition, reason: AdminReason::SteppingDown };
    assert_eq!(driver.answer_of(call), Some(Err(failed)));
}

#[test]
fn d_016_the_periods_of_a_process() {
    let mut driver = Driver::new(CandidateConfig::default(), free());
    let mut periods = Vec::new();
    let mut note = |driver: &Driver| {
        let period = driver.node.period();
        periods.push((period.number, period.is_standby, period.standby_since.as_millis()));
    };
    driver.until_ms(10);
    note(&driver);
    driver.until_ms(60);
    note(&driver);
    driver.recover();
    note(&driver);
    driver.alive_until_ms(2_000);
    driver.step_down(8);
    note(&driver);
    driver.drain_and_close();
    note(&driver);
    driver.input(Input::StoreClosed);
    driver.until_ms(6_900);
    note(&driver);
    driver.until_ms(7_050);
    note(&driver);
    assert_eq!(
        periods,
        [
            (Period(1), true, 0),
            (Period(2), false, 0),
            (Period(2), false, 0),
            (Period(2), false, 0),
            (Period(3), true, 2_000),
            (Period(3), true, 2_000),
            (Period(4), false, 2_000),
        ]
    );
}

/// Lesson E4, second half: two at once, one switch.
#[test]
fn lesson_e4_two_step_downs_of_one_epoch_cause_one_switch() {
    let mut driver = Driver::active();
    let first = driver.step_down(1);
    let second = driver.refused_step_down(1);
    assert_eq!(second, (AdminCode::FailedPrecondition, AdminReason::SteppingDown));
    driver.drain_and_close();
    driver.input(Input::StoreClosed);
    driver.until_ms(5_050);
    assert!(matches!(driver.answer_of(first), Some(Ok(AdminAnswer::SteppedDown { .. }))));
    assert_eq!((driver.epoch_in_lease(), driver.store.record().state), (Epoch(2), LeaseState::Held));
}
