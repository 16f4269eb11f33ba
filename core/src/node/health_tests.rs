//! What probes and alerts see, in every situation (HA-64 to HA-66, HA-70, HA-82, HA-83, lesson F2).

use std::format;
use std::string::String;
use std::vec::Vec;

use super::driver::Driver;
use super::{HOT_STANDBY_NAME, Input, READINESS_NAMES};
use crate::engine::NodeReport;
use crate::lease::CandidateConfig;
use crate::lease::driver::{OTHER, Store, free_from, held_by};
use crate::standby::{FollowerReport, FollowerState};
use crate::stop::StopReason;
use crate::time::Instant;

fn held() -> Store {
    let mut store = Store::default();
    store.put(&held_by(OTHER, 7, 1));
    store
}

fn free() -> Store {
    let mut store = Store::default();
    store.put(&free_from(OTHER, 7));
    store
}

fn follower(driver: &mut Driver, state: FollowerState) {
    let caught_up_at = Some(driver.now().instant);
    driver.input(Input::Follower(FollowerReport { state, caught_up_at }));
}

fn situations() -> Vec<(String, Driver)> {
    let mut all = Vec::new();
    let mut add = |name: &str, driver: Driver| all.push((String::from(name), driver));

    let mut cold = Driver::new(CandidateConfig::default(), held());
    cold.until_ms(1_000);
    add("cold standby", cold);

    for state in FollowerState::ALL {
        let mut hot = Driver::hot(held());
        hot.until_ms(0);
        follower(&mut hot, state);
        hot.until_ms(250);
        add(&format!("hot standby, {}", state.label()), hot);
    }

    let mut taking_over = Driver::hot(free());
    taking_over.until_ms(0);
    follower(&mut taking_over, FollowerState::Following);
    taking_over.until_ms(60);
    add("taking over", taking_over);

    let mut recovering = Driver::hot(free());
    recovering.until_ms(1_600);
    recovering.input(Input::LogFenced);
    add("recovering", recovering);

    add("active", Driver::active());
    add("active, hot mode", Driver::hot_active(free()));

    let mut doubt = Driver::active();
    doubt.is_store_silent = true;
    doubt.jump_wall_ms(30_000);
    doubt.input(Input::Tick);
    add("active, in doubt", doubt);

    let mut thawed = Driver::active();
    thawed.freeze_until_ms(60_000);
    add("thawed after the lease ended, before its first look", thawed);

    let mut draining = Driver::active();
    draining.step_down(1);
    add("draining", draining);

    let mut closing = Driver::active();
    closing.step_down(1);
    closing.input(Input::Engine(NodeReport::Drained));
    closing.input(Input::Engine(NodeReport::Committed));
    add("closing", closing);

    let mut releasing = Driver::active();
    releasing.step_down(1);
    releasing.is_store_silent = true;
    releasing.drain_and_close();
    add("releasing", releasing);

    let mut hold_off = Driver::active();
    hold_off.step_down(1);
    hold_off.drain_and_close();
    add("hold-off, cold", hold_off);

    let mut store_open = Driver::hot_active(free());
    store_open.step_down(8);
    store_open.drain_and_close();
    store_open.until_ms(2_600);
    add("hold-off, hot, old store still open", store_open);

    let mut followed = Driver::hot_active(free());
    followed.step_down(8);
    followed.drain_and_close();
    followed.input(Input::StoreClosed);
    followed.until_ms(2_600);
    follower(&mut followed, FollowerState::Following);
    add("hold-off, hot, following", followed);

    let mut stopping = Driver::active();
    stopping.is_store_silent = true;
    stopping.input(Input::Failed(StopReason::LogWriteTimeout));
    add("stopping, releasing", stopping);

    let mut stopped = Driver::active();
    stopped.input(Input::Failed(StopReason::LeaseTaken));
    add("stopped", stopped);
    all
}

#[test]
fn ha_064_ha_065_ha_066_ha_082_ha_083_lesson_f2_the_matrix_of_names_and_gauges() {
    let word = |serving| if serving { "SERVING" } else { "NOT_SERVING" };
    let mut table =
        String::from("situation | role | api names | dex.HotStandby | hot_standby_state | lag in ms\n");
    for (name, driver) in situations() {
        let now = driver.now().instant;
        let (health, gauges) = (driver.node.health(now), driver.node.standby_gauges(now));
        table += &format!(
            "{name} | {} | {} | {} | {} | {}\n",
            driver.node.role().label(),
            word(health.is_serving),
            word(health.is_hot_standby),
            gauges.state.map_or("all 0", FollowerState::label),
            gauges.lag.as_millis(),
        );
    }
    insta::assert_snapshot!(table);
}

#[test]
fn ha_064_ha_065_the_names() {
    assert_eq!(READINESS_NAMES, ["", "dex.FlowService", "dex.WorkerTaskService"]);
    assert_eq!(HOT_STANDBY_NAME, "dex.HotStandby");
}

#[test]
fn ha_070_an_ended_lease_shows_before_the_node_was_even_called() {
    let driver = Driver::active();
    assert!(driver.node.health(Instant::from_millis(9_999)).is_serving);
    assert!(!driver.node.health(Instant::from_millis(10_000)).is_serving);
}

/// Invariant 9: never both.
#[test]
fn ha_066_no_process_is_active_and_a_hot_standby_at_once() {
    for (name, driver) in situations() {
        let health = driver.node.health(driver.now().instant);
        assert!(!(health.is_serving && health.is_hot_standby), "{name}");
    }
}
