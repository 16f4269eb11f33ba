//! D-29 (review 7.10): a process that ends on SIGTERM while it takes the lease waits for the answer to that write, for one
//! cut-off at most: else a lease that nobody serves under stands there until it expires.
//!
//! Not checked: that it gives back what it took (`ReleasedIsOver` and the scripts do).

use std::collections::BTreeMap;

use dexzd_core::ids::RequestId;
use dexzd_core::node::Role;
use dexzd_core::stop::StopReason;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Debug)]
pub struct LeavesNothingBehind {
    try_cut_off_us: u64,
    processes: BTreeMap<ProcessNumber, Leaving>,
}

#[derive(Default, Debug)]
struct Leaving {
    role: Option<Role>,
    /// The newest takeover without an answer, and when it was decided on by the process's own clock.
    takeover: Option<(RequestId, u64)>,
    /// It ends so long after that, in microseconds.
    left_after_us: Option<u64>,
}

impl LeavesNothingBehind {
    /// With the cut-off of one lease write, in microseconds.
    #[must_use]
    pub const fn new(try_cut_off_us: u64) -> Self {
        Self { try_cut_off_us, processes: BTreeMap::new() }
    }
}

impl Watcher for LeavesNothingBehind {
    fn rule(&self) -> &'static str {
        "D-29 (no takeover is left behind)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::TakeoverSent { process, request, instant_us, .. } => {
                self.processes.entry(*process).or_default().takeover = Some((*request, *instant_us));
            }
            Seen::LeaseAnswered { process, request, .. } => {
                if let Some(it) = self.processes.get_mut(process)
                    && it.takeover.is_some_and(|(sent, _)| sent == *request)
                {
                    it.takeover = None;
                }
            }
            Seen::RoleChanged { process, role, instant_us, .. } => {
                let cut_off_us = self.try_cut_off_us;
                let it = self.processes.entry(*process).or_default();
                if (it.role, *role) == (Some(Role::Withdrawing), Role::Stopped) {
                    let waited = it.takeover.map(|(_, sent_us)| instant_us.saturating_sub(sent_us));
                    it.left_after_us = waited.filter(|waited| *waited < cut_off_us);
                }
                it.role = Some(*role);
            }
            Seen::Died { process, reason } => {
                let left = self.processes.remove(process).and_then(|it| it.left_after_us);
                if let (Some(after_us), Some(StopReason::Shutdown)) = (left, reason) {
                    return Err(format!(
                        "p{process} ended in order {after_us} us after it sent a takeover, before the answer"
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
    use super::LeavesNothingBehind;
    use crate::invariants::made_up::{takeover, tell};
    use dexzd_core::ids::RequestId;
    use dexzd_core::node::Role;
    use dexzd_core::stop::StopReason;
    use dexzd_core::store::WriteOutcome;
    use dexzd_io_sim::watch::Seen;

    const DIED: Seen<'static> = Seen::Died { process: 0, reason: Some(StopReason::Shutdown) };
    const ANSWERED: Seen<'static> =
        Seen::LeaseAnswered { process: 0, request: RequestId(3), outcome: &WriteOutcome::Refused };

    fn role(role: Role, instant_us: u64) -> Seen<'static> {
        Seen::RoleChanged { process: 0, role, epoch: None, instant_us }
    }

    fn story(answered: bool, stopped_us: u64) -> Vec<(u64, Seen<'static>)> {
        let mut story = vec![(0, takeover(8, 3, None, 5)), (1, role(Role::Withdrawing, 10))];
        story.extend(answered.then_some((2, ANSWERED)));
        story.extend([(3, role(Role::Stopped, stopped_us)), (3, DIED)]);
        story
    }

    #[test]
    fn d_029_after_the_answer_or_the_cut_off_it_may_end() {
        assert_eq!(tell(LeavesNothingBehind::new(1_000), &story(true, 20)), Ok(()));
        assert_eq!(tell(LeavesNothingBehind::new(1_000), &story(false, 1_005)), Ok(()));
    }

    #[test]
    fn d_029_before_both_is_seen() {
        let sentence = "p0 ended in order 15 us after it sent a takeover, before the answer".to_owned();
        assert_eq!(tell(LeavesNothingBehind::new(1_000), &story(false, 20)), Err(sentence));
    }
}
