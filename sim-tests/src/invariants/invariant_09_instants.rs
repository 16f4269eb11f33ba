//! Invariant 9: health names and gauges agree with the role at every instant at which somebody asks
//! (HA-64 to HA-66, HA-70, HA-82, HA-83).
//!
//! The truth is told by others: gates by the world's own clocks, roles by events, the follower by its reports.
//! Exempt: doubt, in which both answers are right. Not checked: open Watch streams (HA-74), and how large a
//! lag is between two looks of the follower.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::node::{Health, Role, StandbyGauges};
use dexzd_core::standby::FollowerState;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};
use dexzd_io_sim::{SECOND, TrueTime};

/// A follower that reported within this time is not late.
const FRESH: TrueTime = SECOND;

/// See the module.
#[derive(Default, Debug)]
pub struct HealthAgrees {
    /// When the open gate ends; 0 while it is in doubt.
    gates: BTreeMap<ProcessNumber, TrueTime>,
    in_doubt: BTreeSet<ProcessNumber>,
    roles: BTreeMap<ProcessNumber, Role>,
    followers: BTreeMap<ProcessNumber, (TrueTime, FollowerState)>,
}

impl HealthAgrees {
    fn readiness(&self, at: TrueTime, process: ProcessNumber, health: Health) -> Result<(), String> {
        if self.in_doubt.contains(&process) {
            return Ok(());
        }
        let serves = self.gates.get(&process).is_some_and(|until| *until > at);
        if health.is_serving != serves {
            let says = if health.is_serving { "SERVING" } else { "NOT_SERVING" };
            return Err(format!("p{process} says {says}, and its gate says otherwise"));
        }
        Ok(())
    }

    fn standby(
        &self,
        at: TrueTime,
        process: ProcessNumber,
        is_hot_mode: bool,
        health: Health,
        gauges: StandbyGauges,
    ) -> Result<(), String> {
        let stands_by = matches!(self.roles.get(&process), Some(Role::Waiting | Role::HoldOff));
        if !is_hot_mode || !stands_by {
            if health.is_hot_standby || gauges.state.is_some() || !gauges.lag.is_zero() {
                return Err(format!("p{process} is no hot standby and shows {gauges:?}"));
            }
            return Ok(());
        }
        if health.is_hot_standby != (gauges.state == Some(FollowerState::Following)) {
            return Err(format!("p{process}: dex.HotStandby and the gauge {:?} differ", gauges.state));
        }
        let said = self.followers.get(&process);
        let agrees = match (said, gauges.state) {
            (_, None) => false,
            (None, Some(state)) => state == FollowerState::Bootstrapping,
            // Silence is lag too (D-14).
            (Some((when, FollowerState::Following)), Some(FollowerState::Behind)) => at > when + FRESH,
            (Some((_, said)), Some(state)) => *said == state,
        };
        if !agrees {
            return Err(format!("p{process} shows {:?}, and its follower said {said:?}", gauges.state));
        }
        Ok(())
    }
}

impl Watcher for HealthAgrees {
    fn rule(&self) -> &'static str {
        "invariant 9 (health)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::GateOpen { process, until, .. } => {
                self.gates.insert(*process, *until);
                // The gate itself may find a jump before `node` does.
                if *until <= at {
                    self.in_doubt.insert(*process);
                } else {
                    self.in_doubt.remove(process);
                }
            }
            Seen::GateShut { process, .. } => {
                self.gates.remove(process);
                self.in_doubt.remove(process);
            }
            Seen::Doubt { process, began: true } => {
                self.in_doubt.insert(*process);
            }
            Seen::Doubt { process, began: false } => {
                self.in_doubt.remove(process);
            }
            Seen::RoleChanged { process, role, .. } => {
                self.roles.insert(*process, *role);
                if !matches!(role, Role::Waiting | Role::HoldOff) {
                    self.followers.remove(process);
                }
            }
            Seen::FollowerSaid { process, state } => {
                self.followers.insert(*process, (at, *state));
            }
            Seen::Died { process, .. } => {
                self.gates.remove(process);
                self.in_doubt.remove(process);
                self.roles.remove(process);
                self.followers.remove(process);
            }
            Seen::HealthLook { process, is_hot_mode, health, gauges, .. } => {
                self.readiness(at, *process, *health)?;
                return self.standby(at, *process, *is_hot_mode, *health, *gauges);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::HealthAgrees;
    use crate::invariants::made_up::{open, tell};
    use dexzd_core::node::{Health, Role, StandbyGauges};
    use dexzd_core::standby::FollowerState;
    use dexzd_io_sim::watch::Seen;
    use std::time::Duration;

    fn probed(is_serving: bool, state: Option<FollowerState>) -> Seen<'static> {
        Seen::HealthLook {
            process: 0,
            is_hot_mode: true,
            health: Health { is_serving, is_hot_standby: state == Some(FollowerState::Following) },
            gauges: StandbyGauges { state, lag: Duration::ZERO },
            instant_us: 0,
        }
    }

    fn role(role: Role) -> Seen<'static> {
        Seen::RoleChanged { process: 0, role, epoch: None, instant_us: 0 }
    }

    fn said(state: FollowerState) -> Seen<'static> {
        Seen::FollowerSaid { process: 0, state }
    }

    #[test]
    fn serving_is_an_open_gate() {
        let with = |last| [(0, role(Role::Active)), (0, open(0, 7, 10)), last];
        assert_eq!(tell(HealthAgrees::default(), &with((9, probed(true, None)))), Ok(()));
        assert!(tell(HealthAgrees::default(), &with((9, probed(false, None)))).is_err());
        assert!(tell(HealthAgrees::default(), &with((10, probed(true, None)))).is_err(), "HA-70");
    }

    #[test]
    fn a_hot_standby_is_one_that_waits_and_whose_follower_follows() {
        let waiting = [(0, role(Role::Waiting)), (1, said(FollowerState::Following))];
        let with = |last: &[(u64, Seen<'static>)]| {
            let story: Vec<_> = waiting.iter().chain(last).map(|(at, seen)| (*at, again(seen))).collect();
            tell(HealthAgrees::default(), &story)
        };
        assert_eq!(with(&[(2, probed(false, Some(FollowerState::Following)))]), Ok(()));
        assert!(with(&[(2, probed(false, Some(FollowerState::Behind)))]).is_err());
        assert_eq!(with(&[(2_000_000, probed(false, Some(FollowerState::Behind)))]), Ok(()));
        let failed = (2, said(FollowerState::Failed));
        assert!(with(&[failed, (3, probed(false, Some(FollowerState::Following)))]).is_err());
        let opening = (2, role(Role::Opening));
        assert!(with(&[opening, (3, probed(false, Some(FollowerState::Following)))]).is_err(), "HA-66");
    }

    fn again(seen: &Seen<'static>) -> Seen<'static> {
        match seen {
            Seen::RoleChanged { role, .. } => self::role(*role),
            Seen::FollowerSaid { state, .. } => said(*state),
            Seen::HealthLook { health, gauges, .. } => probed(health.is_serving, gauges.state),
            _ => unreachable!("only these are told here"),
        }
    }
}
