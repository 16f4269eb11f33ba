//! `standby.*`: safe ratios only (HA-43 to HA-46, HA-49).

use core::fmt;
use core::time::Duration;

/// `standby.mode`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum StandbyMode {
    /// HA-41: waits idle, reads no log.
    #[default]
    Cold,
    /// HA-42: follows the log.
    Hot,
}

/// The durations of `standby.*`, not checked yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StandbyTimes {
    /// How often a hot standby reads a lease that another process holds (HA-43).
    pub held_lease_poll_interval: Duration,
    /// How long a process that stepped down does not compete (HA-44).
    pub step_down_hold_off: Duration,
    /// How long a hot standby that is not `following` leaves an available lease to others (HA-45).
    pub lagging_takeover_delay: Duration,
    /// The lag above which a hot standby is `behind` (HA-46).
    pub behind_lag_threshold: Duration,
}

impl Default for StandbyTimes {
    fn default() -> Self {
        Self {
            held_lease_poll_interval: Duration::from_millis(250),
            step_down_hold_off: Duration::from_secs(5),
            lagging_takeover_delay: Duration::from_millis(1_500),
            behind_lag_threshold: Duration::from_secs(10),
        }
    }
}

/// How a process stands by. In hot mode the hold-off exceeds delay and poll together (HA-49).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StandbyConfig {
    mode: StandbyMode,
    times: StandbyTimes,
}

/// HA-49: a standby that is not hot must get its chance before the process that stepped down competes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldOffTooShort {
    /// What it must exceed: takeover delay and poll interval together.
    pub least: Duration,
}

impl fmt::Display for HoldOffTooShort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "stepDownHoldOff must exceed laggingTakeoverDelay and heldLeasePollInterval together: {} ms",
            self.least.as_millis()
        )
    }
}

impl StandbyConfig {
    /// Checks HA-49, which binds in hot mode only.
    ///
    /// # Errors
    ///
    /// [`HoldOffTooShort`] unless the hold-off is longer (not: as long) than what it must exceed.
    pub fn new(mode: StandbyMode, times: StandbyTimes) -> Result<Self, HoldOffTooShort> {
        let least = times.lagging_takeover_delay.saturating_add(times.held_lease_poll_interval);
        match mode {
            StandbyMode::Hot if times.step_down_hold_off <= least => Err(HoldOffTooShort { least }),
            StandbyMode::Hot | StandbyMode::Cold => Ok(Self { mode, times }),
        }
    }

    /// A cold standby; only the hold-off means anything to it (HA-44, D-13).
    #[must_use]
    pub fn cold(step_down_hold_off: Duration) -> Self {
        let times = StandbyTimes { step_down_hold_off, ..StandbyTimes::default() };
        Self { mode: StandbyMode::Cold, times }
    }

    /// A hot standby with the default durations.
    #[must_use]
    pub fn hot() -> Self {
        Self { mode: StandbyMode::Hot, times: StandbyTimes::default() }
    }

    /// `standby.mode`.
    #[must_use]
    pub const fn mode(&self) -> StandbyMode {
        self.mode
    }

    /// Whether it follows the log.
    #[must_use]
    pub const fn is_hot(&self) -> bool {
        matches!(self.mode, StandbyMode::Hot)
    }

    /// How often a hot standby reads a held lease, and the log at least (HA-43, D-14).
    #[must_use]
    pub const fn held_lease_poll_interval(&self) -> Duration {
        self.times.held_lease_poll_interval
    }

    /// How long a process that stepped down does not compete (HA-44).
    #[must_use]
    pub const fn step_down_hold_off(&self) -> Duration {
        self.times.step_down_hold_off
    }

    /// How long a hot standby that is not `following` leaves an available lease to others (HA-45).
    #[must_use]
    pub const fn lagging_takeover_delay(&self) -> Duration {
        self.times.lagging_takeover_delay
    }

    /// The lag above which a hot standby is `behind` (HA-46).
    #[must_use]
    pub const fn behind_lag_threshold(&self) -> Duration {
        self.times.behind_lag_threshold
    }
}
