//! Invariant 9: health names and metrics agree with the role, whenever `node` was called.
//!
//! - The readiness names are SERVING only in a role that serves, under a gate that was opened (HA-64, HA-70).
//! - `dex.HotStandby` is SERVING only on a hot standby that follows (HA-65, HA-66).
//! - Gauges are 0 on an active and on a cold process (HA-82, HA-83).
//! - The lag is no smaller than the age of the oldest entry that is not applied (D-14), and a standby that
//!   follows has a lag below the threshold (HA-46).
//!
//! Not checked: an open health Watch (HA-74), which no simulated client has; what an exporter shows between
//! two calls of `node`; the lag from the moment on that somebody's hand has deleted an entry;
//! and the lag of a standby that slept until its next entry was trimmed: it learns of that by its next look at the
//! lease, and may say for one such interval that it follows.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::ids::Position;
use dexzd_core::standby::FollowerState;
use dexzd_core::time::micros;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::product::Role;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Debug)]
pub struct HealthIsRight {
    /// None: clocks do not count every pause, and nor does the lag.
    drift_ppb: Option<u64>,
    durable_at: Vec<TrueTime>,
    trimmed: BTreeSet<Position>,
    applied: BTreeMap<ProcessNumber, Position>,
    open: BTreeMap<ProcessNumber, bool>,
}

/// Above this lag a standby is behind (HA-45), in every run.
const THRESHOLD: core::time::Duration = core::time::Duration::from_secs(10);
/// A message from the data plane to `node` takes a moment, and so does the reading of a range.
const SLACK: TrueTime = 2_000;

/// A time as the slowest clock counts it.
const fn at_least(time: TrueTime, drift_ppb: u64) -> TrueTime {
    time - time / 1_000 * (drift_ppb / 1_000) / 1_000
}

impl HealthIsRight {
    /// For clocks within this drift, if they are good for anything.
    #[must_use]
    pub const fn new(drift_ppb: Option<u64>) -> Self {
        Self {
            drift_ppb,
            durable_at: Vec::new(),
            trimmed: BTreeSet::new(),
            applied: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// For how long this process has lacked an entry that was durable.
    fn behind_for(&self, at: TrueTime, process: ProcessNumber) -> TrueTime {
        let applied = self.applied.get(&process).map_or(0, |position| position.0);
        if self.trimmed.contains(&Position(applied + 1)) {
            return 0;
        }
        let first = usize::try_from(applied).ok().and_then(|index| self.durable_at.get(index));
        first.map_or(0, |durable_at| at - durable_at)
    }
}

impl Watcher for HealthIsRight {
    fn rule(&self) -> &'static str {
        "invariant 9 (health)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EntryDurable { .. } => self.durable_at.push(at),
            Seen::EntryDeleted { position, .. } => {
                self.trimmed.insert(*position);
            }
            // A follower cannot tell a hole from the end of the log but by the lease, which may be silent (D-53).
            Seen::EntryLost { .. } => self.drift_ppb = None,
            // A store that was discarded meanwhile changes nothing of what was applied once: the lag counts
            // from the last time that nothing was missing.
            Seen::Applied { process, end, .. }
            | Seen::LocalState { process, end, .. }
            | Seen::LocalEnd { process, end } => {
                let applied = self.applied.entry(*process).or_default();
                *applied = (*applied).max(end.position);
            }
            Seen::Died { process, .. } => {
                self.applied.remove(process);
                self.open.remove(process);
            }
            Seen::GateOpen { process, .. } => {
                self.open.insert(*process, true);
            }
            Seen::GateShut { process, .. } => {
                self.open.insert(*process, false);
            }
            Seen::Probed { process, role, is_hot_mode, health, gauges } => {
                let serves = match role {
                    Role::Active | Role::Draining | Role::Interrupting | Role::Committing => true,
                    Role::Closing => health.is_serving,
                    _ => false,
                };
                if health.is_serving && !(serves && self.open.get(process) == Some(&true)) {
                    return Err(format!("p{process} is SERVING as {role:?}"));
                }
                let follows = gauges.state == Some(FollowerState::Following);
                if health.is_hot_standby != follows || (follows && (health.is_serving || !is_hot_mode)) {
                    return Err(format!(
                        "p{process} says {} for dex.HotStandby as {role:?} in state {:?}",
                        health.is_hot_standby, gauges.state
                    ));
                }
                let stands_by = *is_hot_mode && matches!(role, Role::Waiting | Role::HoldOff);
                if gauges.state.is_some() != stands_by || (!stands_by && !gauges.lag.is_zero()) {
                    return Err(format!("p{process} shows {gauges:?} as {role:?}"));
                }
                if let Some(drift_ppb) = self.drift_ppb
                    && health.is_hot_standby
                {
                    let behind_for = self.behind_for(at, *process);
                    if at_least(behind_for, drift_ppb) > micros(THRESHOLD) + SLACK {
                        return Err(format!(
                            "p{process} says that it follows, and lacks an entry that was durable {behind_for} us ago"
                        ));
                    }
                }
                let Some(drift_ppb) = self.drift_ppb else {
                    return Ok(());
                };
                let behind_for = self.behind_for(at, *process);
                let least = at_least(behind_for, drift_ppb);
                if stands_by && follows && micros(gauges.lag) + SLACK < least {
                    return Err(format!(
                        "p{process} lacks an entry that was durable {behind_for} us ago and shows a lag of {} us",
                        gauges.lag.as_micros()
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::HealthIsRight;
    use crate::invariants::made_up::{Log, open, tell};
    use dexzd_core::node::{Health, StandbyGauges};
    use dexzd_core::standby::FollowerState;
    use dexzd_io_sim::product::Role;
    use dexzd_io_sim::watch::Seen;

    const NOTHING: StandbyGauges = StandbyGauges { state: None, lag: Duration::ZERO };

    fn probed(role: Role, is_serving: bool, gauges: StandbyGauges) -> Seen<'static> {
        let is_hot_standby = gauges.state == Some(FollowerState::Following);
        let health = Health { is_serving, is_hot_standby };
        Seen::Probed { process: 0, role, is_hot_mode: gauges.state.is_some(), health, gauges }
    }

    #[test]
    fn an_active_behind_an_open_gate_serves() {
        let story = [(0, open(0, 1, 10)), (1, probed(Role::Active, true, NOTHING))];
        assert_eq!(tell(HealthIsRight::new(Some(0)), &story), Ok(()));
    }

    #[test]
    fn a_standby_that_serves_is_seen() {
        let story = [(0, open(0, 1, 10)), (1, probed(Role::HoldOff, true, NOTHING))];
        assert_eq!(tell(HealthIsRight::new(Some(0)), &story), Err("p0 is SERVING as HoldOff".to_owned()));
    }

    #[test]
    fn d_014_a_lag_that_is_blind_is_seen() {
        let mut log = Log::default();
        log.fence(1, 1);
        let (position, entry) = &log.entries[0];
        let durable = Seen::EntryDurable { position: *position, entry };
        let lag = |lag| StandbyGauges { state: Some(FollowerState::Following), lag };
        let late = probed(Role::Waiting, false, lag(Duration::from_secs(5)));
        let story = [(0, durable), (5_000_000, late)];
        assert_eq!(tell(HealthIsRight::new(Some(0)), &story), Ok(()));
        let durable = Seen::EntryDurable { position: *position, entry };
        let blind = probed(Role::Waiting, false, lag(Duration::ZERO));
        let sentence = "p0 lacks an entry that was durable 5000000 us ago and shows a lag of 0 us".to_owned();
        assert_eq!(tell(HealthIsRight::new(Some(0)), &[(0, durable), (5_000_000, blind)]), Err(sentence));
    }
}
