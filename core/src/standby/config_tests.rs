use core::time::Duration;

use super::{FollowerState, HoldOffTooShort, StandbyConfig, StandbyMode, StandbyTimes};

#[test]
fn ha_043_to_ha_046_the_defaults() {
    let hot = StandbyConfig::hot();
    assert_eq!(hot.held_lease_poll_interval(), Duration::from_millis(250));
    assert_eq!(hot.step_down_hold_off(), Duration::from_secs(5));
    assert_eq!(hot.lagging_takeover_delay(), Duration::from_millis(1_500));
    assert_eq!(hot.behind_lag_threshold(), Duration::from_secs(10));
    assert_eq!(StandbyConfig::default().mode(), StandbyMode::Cold, "HA-41");
}

#[test]
fn ha_049_the_hold_off_is_longer_than_delay_and_poll_together_in_hot_mode() {
    let times = |millis| StandbyTimes {
        step_down_hold_off: Duration::from_millis(millis),
        ..StandbyTimes::default()
    };
    let least = Duration::from_millis(1_750);
    assert_eq!(StandbyConfig::new(StandbyMode::Hot, times(1_750)), Err(HoldOffTooShort { least }));
    assert!(StandbyConfig::new(StandbyMode::Hot, times(1_751)).is_ok());
    assert!(StandbyConfig::new(StandbyMode::Cold, times(1)).is_ok());
}

#[test]
fn ha_082_ha_059_the_states_of_a_follower() {
    let table = FollowerState::ALL.map(|state| (state.label(), state.is_hot()));
    assert_eq!(
        table,
        [
            ("bootstrapping", false),
            ("following", true),
            ("behind", false),
            ("restarting", false),
            ("failed", false)
        ]
    );
}
