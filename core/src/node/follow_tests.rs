//! A hot standby: when it follows, how hot it is, and what that means to its takeover.

use std::vec::Vec;

use super::driver::Driver;
use super::{FollowOrder, Input, NodeEvent, Output, Role};
use crate::engine::NodeReport;
use crate::ids::{Epoch, Position};
use crate::lease::driver::{ME, OTHER, Store, free_from, held_by};
use crate::lease::{CandidateConfig, LeaseRecord, LeaseState};
use crate::standby::{FollowerReport, FollowerState};
use crate::stop::StopReason;
use crate::time::Instant;

fn store_with(record: &LeaseRecord) -> Store {
    let mut store = Store::default();
    store.put(record);
    store
}

fn following(driver: &mut Driver) {
    report(driver, FollowerState::Following);
}

fn report(driver: &mut Driver, state: FollowerState) {
    let caught_up_at = Some(driver.now().instant);
    driver.input(Input::Follower(FollowerReport { state, caught_up_at }));
}

const START: FollowOrder = FollowOrder::Start { trimmed_below: Position(3), log_end: Position(40) };

#[test]
fn ha_042_it_follows_from_the_first_lease_it_sees_and_hears_of_each() {
    let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
    assert_eq!(driver.follows(), []);
    driver.until_ms(0);
    assert_eq!(driver.follows(), [START]);
    let mut record = held_by(OTHER, 7, 2);
    (record.trimmed_below, record.log_end) = (Position(5), Position(77));
    driver.store.put(&record);
    driver.until_ms(1_000);
    let news = FollowOrder::Lease { trimmed_below: Position(5), log_end: Position(77) };
    assert_eq!(driver.follows(), [news]);
}

#[test]
fn ha_041_a_cold_one_reads_no_log_until_the_lease_is_its_own() {
    let mut driver = Driver::new(CandidateConfig::default(), store_with(&held_by(OTHER, 7, 1)));
    driver.until_ms(10_000);
    assert_eq!((driver.follows(), driver.told()), (Vec::new(), Vec::new()));
    driver.until_ms(12_000);
    assert!(matches!(driver.told().as_slice(), [Output::OpenLog(_)]));
    assert_eq!(driver.follows(), []);
}

#[test]
fn ha_040_the_standby_waits_while_the_active_holds_and_takes_over_on_release_or_expiry() {
    for released in [true, false] {
        let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
        driver.until_ms(0);
        following(&mut driver);
        for renewal in 2..10 {
            driver.until_ms(renewal * 3_000);
            driver.store.put(&held_by(OTHER, 7, renewal));
            following(&mut driver);
        }
        assert_eq!(driver.node.role(), Role::Waiting);
        let begun_ms = driver.now_ms();
        if released {
            driver.store.put(&free_from(OTHER, 7));
            driver.until_ms(begun_ms + 300);
        } else {
            driver.until_ms(begun_ms + 9_000);
            following(&mut driver);
            assert_eq!(driver.node.role(), Role::Waiting, "expiry is expiry (HA-056)");
            driver.until_ms(begun_ms + 11_300);
        }
        assert_eq!((driver.node.role(), driver.epoch_in_lease()), (Role::Opening, Epoch(8)));
    }
}

#[test]
fn review_8_8_ha_059_every_state_but_following_waits_the_takeover_delay() {
    for state in FollowerState::ALL {
        let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
        driver.until_ms(0);
        report(&mut driver, state);
        driver.until_ms(990);
        driver.store.put(&free_from(OTHER, 7));
        driver.until_ms(1_050);
        assert_eq!(driver.node.role() == Role::Opening, state == FollowerState::Following, "{state:?}");
        driver.until_ms(2_499);
        assert_eq!(driver.node.role() == Role::Opening, state == FollowerState::Following, "{state:?}");
        driver.until_ms(2_550);
        assert_eq!(driver.node.role(), Role::Opening, "{state:?}");
    }
}

#[test]
fn ha_046_a_follower_that_says_nothing_for_the_threshold_is_behind() {
    let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
    driver.until_ms(0);
    following(&mut driver);
    let state = |ms| driver.node.standby_gauges(Instant::from_millis(ms)).state;
    assert_eq!(state(10_000), Some(FollowerState::Following));
    assert_eq!(state(10_001), Some(FollowerState::Behind));
    assert!(!driver.node.health(Instant::from_millis(10_001)).is_hot_standby);
}

/// Review 8.6: an operator who reads `following` would delete the active.
#[test]
fn review_8_6_d_014_a_blind_follower_is_not_hot_and_its_lag_grows() {
    let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
    driver.until_ms(1_000);
    following(&mut driver);
    let lag = |ms| driver.node.standby_gauges(Instant::from_millis(ms)).lag.as_millis();
    assert_eq!((lag(1_000), lag(1_250), lag(61_000)), (0, 250, 60_000));
}

#[test]
fn d_014_a_follower_that_never_caught_up_lags_since_it_stands_by() {
    let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
    driver.freeze_until_ms(500_000);
    driver.input(Input::Tick);
    let gauges = driver.node.standby_gauges(Instant::from_millis(503_000));
    assert_eq!((gauges.state, gauges.lag.as_millis()), (Some(FollowerState::Bootstrapping), 3_000));
}

#[test]
fn ha_082_a_change_of_the_state_is_an_event() {
    let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
    driver.until_ms(0);
    driver.events();
    for state in [FollowerState::Following, FollowerState::Following, FollowerState::Restarting] {
        report(&mut driver, state);
    }
    assert_eq!(
        driver.events(),
        [NodeEvent::Follower(FollowerState::Following), NodeEvent::Follower(FollowerState::Restarting)]
    );
}

#[test]
fn ha_063_a_failure_after_the_lease_is_held_releases_it_in_hot_mode_too() {
    let mut driver = Driver::hot(store_with(&free_from(OTHER, 7)));
    driver.until_ms(1_600);
    driver.input(Input::Failed(StopReason::TakeoverFailed));
    assert_eq!(driver.exit, Some((1, StopReason::TakeoverFailed)));
    assert_eq!(driver.store.record().state, LeaseState::Free);
}

#[test]
fn d_015_a_follower_without_a_usable_disk_ends_the_process() {
    let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
    driver.until_ms(1_000);
    driver.input(Input::Failed(StopReason::LocalStoreFailed));
    assert_eq!(driver.exit, Some((1, StopReason::LocalStoreFailed)));
    assert_eq!(driver.epoch_in_lease(), Epoch(7));
}

/// Also review 7.14 and D-38: not before the old store is closed.
#[test]
fn ha_100_review_7_14_after_a_step_down_it_follows_once_the_old_store_is_closed() {
    let mut driver = Driver::hot_active(store_with(&free_from(OTHER, 7)));
    driver.step_down(8);
    driver.drain_and_close();
    driver.until_ms(2_000);
    assert_eq!((driver.node.role(), driver.follows()), (Role::HoldOff, Vec::new()));
    assert!(!driver.node.health(driver.now().instant).is_hot_standby);
    driver.input(Input::StoreClosed);
    assert_eq!(driver.follows(), [START]);
    following(&mut driver);
    assert!(driver.node.health(driver.now().instant).is_hot_standby, "in the hold-off");
    assert_eq!(driver.node.role(), Role::HoldOff);
    driver.until_ms(5_000);
    following(&mut driver);
    driver.until_ms(6_800);
    assert_eq!((driver.node.role(), driver.epoch_in_lease()), (Role::Opening, Epoch(9)));
}

#[test]
fn ha_042_what_the_log_is_opened_with_ends_the_follower() {
    let mut driver = Driver::hot(store_with(&free_from(OTHER, 7)));
    driver.until_ms(0);
    following(&mut driver);
    driver.until_ms(60);
    assert!(matches!(driver.told().as_slice(), [Output::OpenLog(_)]));
    // What it still says is about nothing any more.
    report(&mut driver, FollowerState::Failed);
    driver.recover();
    assert_eq!(driver.node.standby_gauges(driver.now().instant).state, None);
    assert_eq!(driver.store.record().holder, ME);
}

#[test]
fn ha_058_a_released_lease_and_no_hot_standby_the_lagging_one_comes_before_the_old_active() {
    // Review 7.17: as the seed wants it.
    let mut standby = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
    standby.until_ms(1_000);
    standby.store.put(&free_from(OTHER, 7));
    standby.until_ms(1_000 + 250 + 1_550);
    assert_eq!(standby.epoch_in_lease(), Epoch(8), "5 s are not over");
}

#[test]
fn ha_052_a_standby_is_told_to_serve_nothing() {
    let mut driver = Driver::hot(store_with(&held_by(OTHER, 7, 1)));
    driver.until_ms(10_000);
    driver.input(Input::Engine(NodeReport::Recovered));
    assert_eq!(driver.told(), [], "no engine, no gate");
}
