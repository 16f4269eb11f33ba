//! `standby.*`: a hot standby exists only with safe ratios (HA-43 to HA-49).

use std::time::Duration;

use dexzd_core::standby::{StandbyConfig, StandbyMode, StandbyTimes};

use super::document::Section;
use super::error::ConfigError;
use super::{Profile, duration};

/// HA-43.
const HELD_LEASE_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// HA-44.
const STEP_DOWN_HOLD_OFF: Duration = Duration::from_secs(5);
/// HA-45.
const LAGGING_TAKEOVER_DELAY: Duration = Duration::from_millis(1_500);
/// HA-46.
const BEHIND_LAG_THRESHOLD: Duration = Duration::from_secs(10);

/// How this process stands by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standby {
    /// HA-41: waits idle, reads no log.
    Cold {
        /// HA-44.
        step_down_hold_off: Duration,
    },
    /// HA-42: follows the log.
    Hot(HotStandby),
}

/// The settings of a hot standby. The hold-off exceeds delay and poll together (HA-49).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotStandby {
    held_lease_poll_interval: Duration,
    step_down_hold_off: Duration,
    lagging_takeover_delay: Duration,
    behind_lag_threshold: Duration,
}

impl Standby {
    /// As the core takes it.
    #[must_use]
    pub fn to_core(&self) -> StandbyConfig {
        match self {
            Self::Cold { step_down_hold_off } => StandbyConfig::cold(*step_down_hold_off),
            Self::Hot(hot) => StandbyConfig::new(
                StandbyMode::Hot,
                StandbyTimes {
                    held_lease_poll_interval: hot.held_lease_poll_interval,
                    step_down_hold_off: hot.step_down_hold_off,
                    lagging_takeover_delay: hot.lagging_takeover_delay,
                    behind_lag_threshold: hot.behind_lag_threshold,
                },
            )
            .expect("HA-49 was checked when the configuration was read"),
        }
    }
}

impl HotStandby {
    /// HA-43.
    #[must_use]
    pub const fn held_lease_poll_interval(&self) -> Duration {
        self.held_lease_poll_interval
    }

    /// HA-44.
    #[must_use]
    pub const fn step_down_hold_off(&self) -> Duration {
        self.step_down_hold_off
    }

    /// HA-45.
    #[must_use]
    pub const fn lagging_takeover_delay(&self) -> Duration {
        self.lagging_takeover_delay
    }

    /// HA-46.
    #[must_use]
    pub const fn behind_lag_threshold(&self) -> Duration {
        self.behind_lag_threshold
    }

    /// HA-49, the strict inequality.
    fn check(&self) -> Result<(), ConfigError> {
        let least = self.lagging_takeover_delay + self.held_lease_poll_interval;
        if self.step_down_hold_off > least {
            return Ok(());
        }
        Err(ConfigError::refused(
            "standby.stepDownHoldOff",
            format!("`{}`", duration::show(self.step_down_hold_off)),
            format!(
                "with mode hot it must be longer than laggingTakeoverDelay ({}) and heldLeasePollInterval ({}) \
                 together, so that a standby which is not hot gets its chance first (HA-49)",
                duration::show(self.lagging_takeover_delay),
                duration::show(self.held_lease_poll_interval)
            ),
        ))
    }
}

impl Standby {
    /// Hot-only keys are checked for form in cold mode too, then ignored.
    pub(super) fn parse(
        mut section: Section,
        profile: Profile,
        lease_fail_if_held: bool,
    ) -> Result<Self, ConfigError> {
        let mode = section.text("mode")?;
        let hot = HotStandby {
            held_lease_poll_interval: section
                .duration("heldLeasePollInterval")?
                .unwrap_or(HELD_LEASE_POLL_INTERVAL),
            step_down_hold_off: section.duration("stepDownHoldOff")?.unwrap_or(STEP_DOWN_HOLD_OFF),
            lagging_takeover_delay: section
                .duration("laggingTakeoverDelay")?
                .unwrap_or(LAGGING_TAKEOVER_DELAY),
            behind_lag_threshold: section.duration("behindLagThreshold")?.unwrap_or(BEHIND_LAG_THRESHOLD),
        };
        section.finish()?;
        match mode.as_deref() {
            None | Some("cold") => Ok(Self::Cold { step_down_hold_off: hot.step_down_hold_off }),
            Some("hot") => {
                if profile.is_on_local_disk() {
                    return Err(refused_hot(format!(
                        "`dex-server-zd {}` has no standby and accepts only cold (HA-48)",
                        profile.name()
                    )));
                }
                if lease_fail_if_held {
                    return Err(refused_hot(
                        "a hot standby waits for the lease, which `lease.failIfHeld: true` forbids (HA-47)"
                            .to_owned(),
                    ));
                }
                hot.check()?;
                Ok(Self::Hot(hot))
            }
            Some(other) => {
                Err(ConfigError::refused("standby.mode", format!("`{other}`"), "it must be cold or hot"))
            }
        }
    }
}

fn refused_hot(rule: String) -> ConfigError {
    ConfigError::refused("standby.mode", "`hot`", rule)
}
