//! HA-57, HA-58, HA-62, D-9 and D-52: who waits for the lease and reads that it is free takes it within 50 ms. Not at once:
//! a hot standby that is not hot, who leaves it to the others for `laggingTakeoverDelay`; who has failed to take
//! just this state of it, for a while; and who was refused just this state of it, at the first look after that. A
//! lost race is no failure.
//!
//! Not checked: leases that expired or are missing; how long a standby that is not hot waits at most, and the
//! back-off after a failure (scripts do that).

use std::collections::{BTreeMap, VecDeque};

use dexzd_core::ids::{Epoch, Name, RequestId};
use dexzd_core::lease::{LeaseRecord, LeaseState, LeaseTimer};
use dexzd_core::node::{NodeTimer, Role};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};
use dexzd_io_sim::{MILLISECOND, TrueTime};

use super::NODE;

/// HA-57.
const LONGEST_JITTER_US: u64 = 50 * MILLISECOND;
/// So many states of the lease are kept in mind.
const KEPT_STATES: usize = 8;
/// A candidate waits for so many reads at most.
const MOST_READS: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct TakesInTurn {
    /// Of each process, in microseconds.
    lagging_us: Vec<u64>,
    processes: BTreeMap<ProcessNumber, Waits>,
}

#[derive(Default, Debug)]
struct Waits {
    role: Option<Role>,
    asked: Vec<RequestId>,
    /// The newest states of the lease that were shown: a read may be late, and show an older one again.
    seen: VecDeque<Shown>,
    /// It is free, and may be taken at once by who is hot or cold.
    is_due: bool,
    /// The epochs that it tried to take.
    tried: Vec<Epoch>,
    last: Option<Takeover>,
}

/// A state of the lease.
#[derive(Debug)]
struct Shown {
    version: Version,
    /// When it was shown first.
    since_us: u64,
    is_free: bool,
    /// It may be its own, which it takes at once (D-52).
    may_be_own: bool,
}

/// The newest try to take the lease.
#[derive(Debug)]
struct Takeover {
    request: RequestId,
    base: Option<Version>,
    refused: bool,
    failed: bool,
    /// Whether the lease was looked at since.
    looked: bool,
}

impl Takeover {
    /// Whether it is a reason not to take this state of the lease now.
    fn holds_back(&mut self, version: &Version) -> bool {
        let first_look = !std::mem::replace(&mut self.looked, true);
        let same = self.base.as_ref() == Some(version);
        // Without an answer yet it has not ended.
        same && (self.failed || first_look || !self.refused)
    }
}

impl TakesInTurn {
    /// With the `laggingTakeoverDelay` of each process, in microseconds.
    #[must_use]
    pub const fn new(lagging_us: Vec<u64>) -> Self {
        Self { lagging_us, processes: BTreeMap::new() }
    }
}

impl Waits {
    fn seen_as(&self, version: &Version) -> Option<&Shown> {
        self.seen.iter().rev().find(|it| it.version == *version)
    }

    fn shown(&mut self, request: RequestId, outcome: &ReadOutcome, instant_us: u64) {
        self.is_due = false;
        if !self.asked.contains(&request) {
            return;
        }
        // Whatever another read shows is older than what the next one will.
        self.asked.clear();
        match outcome {
            ReadOutcome::Found { version, body, .. } => {
                if self.seen_as(version).is_none() {
                    let record = LeaseRecord::decode(body, &Name::from(NODE)).ok();
                    let is_free = record.as_ref().is_some_and(|it| it.state == LeaseState::Free);
                    let may_be_own = record.is_some_and(|it| !is_free && self.tried.contains(&it.epoch));
                    if self.seen.len() == KEPT_STATES {
                        self.seen.pop_front();
                    }
                    let (version, since_us) = (version.clone(), instant_us);
                    self.seen.push_back(Shown { version, since_us, is_free, may_be_own });
                }
                let held_back = self.last.as_mut().is_some_and(|it| it.holds_back(version));
                let is_free = self.seen_as(version).is_some_and(|it| it.is_free);
                self.is_due = is_free && self.role == Some(Role::Waiting) && !held_back;
            }
            ReadOutcome::Missing
            | ReadOutcome::Transient { .. }
            | ReadOutcome::Permanent
            | ReadOutcome::LocalFailure => {}
        }
    }
}

impl Watcher for TakesInTurn {
    fn rule(&self) -> &'static str {
        "HA-57 to HA-62 (who takes a free lease when)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::RoleChanged { process, role, .. } => {
                let it = self.processes.entry(*process).or_default();
                it.role = Some(*role);
                it.is_due = false;
                // What a holder or a release had asked for is not waited for any more.
                if matches!(role, Role::Opening | Role::HoldOff) {
                    *it = Waits { role: Some(*role), ..Waits::default() };
                }
            }
            Seen::LeaseAsked { process, request, .. } => {
                let it = self.processes.entry(*process).or_default();
                if it.asked.len() == MOST_READS {
                    it.asked.remove(0);
                }
                it.asked.push(*request);
            }
            Seen::LeaseShown { process, request, outcome, instant_us } => {
                self.processes.entry(*process).or_default().shown(*request, outcome, *instant_us);
            }
            Seen::Planned { process, is_hot_mode, is_hot, timer, due_us, instant_us } => {
                let it = self.processes.entry(*process).or_default();
                let goes_first = *is_hot || !*is_hot_mode;
                // It is being taken; or a poll comes at the very moment of the write.
                let takes = *timer == NodeTimer::Lease(LeaseTimer::TryCutOff)
                    || *due_us <= instant_us + LONGEST_JITTER_US;
                if std::mem::take(&mut it.is_due) && goes_first && !takes {
                    return Err(format!("p{process} sees a free lease, and waits for {timer:?}"));
                }
            }
            Seen::TakeoverSent { process, request, base, is_hot_mode, is_hot, instant_us, epoch } => {
                let it = self.processes.entry(*process).or_default();
                it.asked.clear();
                it.tried.push(*epoch);
                let base = base.cloned();
                if let Some(Shown { since_us, may_be_own: false, .. }) =
                    base.as_ref().and_then(|base| it.seen_as(base))
                    && *is_hot_mode
                    && !*is_hot
                    && *instant_us < since_us + self.lagging_us[usize::from(*process)]
                {
                    return Err(format!(
                        "p{process} is not hot, and takes the lease {} us after it first saw it so",
                        instant_us - since_us
                    ));
                }
                let (refused, failed, looked) = (false, false, false);
                // A failure of the same state counts on.
                let failed = failed || it.last.as_ref().is_some_and(|last| last.failed && last.base == base);
                it.last = Some(Takeover { request: *request, base, refused, failed, looked });
            }
            Seen::LeaseAnswered { process, request, outcome } => {
                if let Some(Waits { last: Some(last), .. }) = self.processes.get_mut(process)
                    && last.request == *request
                {
                    match outcome {
                        WriteOutcome::Refused => last.refused = true,
                        WriteOutcome::Done { .. } => {}
                        _ => last.failed = true,
                    }
                }
            }
            Seen::TakeoverFailed { process } => {
                if let Some(Waits { last: Some(last), .. }) = self.processes.get_mut(process) {
                    if last.refused && !last.failed {
                        return Err(format!("p{process} calls a race that it lost a failed takeover"));
                    }
                    last.failed = true;
                }
            }
            Seen::Died { process, .. } => {
                self.processes.remove(process);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "ha_058_turns_tests.rs"]
mod tests;
