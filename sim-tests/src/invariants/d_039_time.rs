//! D-39: times in a Flow's history never go back, whatever the wall clocks of its processes say.
//!
//! Not checked: that they are near the truth.

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct TimeGoesOn;

impl Watcher for TimeGoesOn {
    fn rule(&self) -> &'static str {
        "D-39 (time goes on)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Audit(audit) = seen else {
            return Ok(());
        };
        let back =
            audit.history.iter().zip(audit.history.iter().skip(1)).find(|(one, next)| next.time < one.time);
        match back {
            None => Ok(()),
            Some((one, next)) => Err(format!(
                "event {} of {} is older than event {}: {:?} and {:?}",
                next.number, audit.flow_id, one.number, next.time, one.time
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use dexzd_core::engine::{EventKind, HistoryEvent};
    use dexzd_core::time::Timestamp;
    use dexzd_io_sim::watch::{Audit, Seen};

    use super::TimeGoesOn;
    use crate::invariants::made_up::tell;

    fn history(times: &[u64]) -> Audit {
        let event = |(number, time): (u64, &u64)| HistoryEvent {
            number,
            time: Timestamp::from_micros(*time),
            kind: EventKind::FlowTimedOut { skipped: false },
        };
        Audit { history: (1..).zip(times).map(event).collect(), ..Audit::default() }
    }

    #[test]
    fn equal_and_later_times_are_right() {
        assert_eq!(tell(TimeGoesOn, &[(0, Seen::Audit(&history(&[5, 5, 6])))]), Ok(()));
    }

    #[test]
    fn an_earlier_time_is_seen() {
        assert!(tell(TimeGoesOn, &[(0, Seen::Audit(&history(&[5, 4])))]).is_err());
    }
}
