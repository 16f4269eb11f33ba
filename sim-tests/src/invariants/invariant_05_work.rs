//! Invariant 5: attempt numbers follow the table of concepts.md section 2, no hand-out id is used twice,
//! no result counts but that of the current hand-out, and each decision, message and timer takes effect
//! exactly once.
//!
//! The current hand-out of a method call is the last one the engine made. Each result of the simulated
//! Workers writes an Attribute that names its hand-out, so the audit shows whose result counted.
//!
//! Not checked: attempt numbers of ASYNC calls across a crash, beyond that they never skip one; retry
//! delays and total durations.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::engine::{AttributeValue, Durability, EventKind, Method, Snapshot, Task};
use dexzd_core::ids::{Epoch, HandoutId, Name, Position, RunId, StepExecutionId};
use dexzd_core::log::Entry;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::product::flows;
use dexzd_io_sim::watch::{Audit, Seen, Watcher};

use super::NODE;

type MethodCall = (RunId, StepExecutionId, Method);

/// See the module.
#[derive(Default, Debug)]
pub struct WorkIsCounted {
    handouts: BTreeSet<HandoutId>,
    calls: BTreeMap<MethodCall, LastAttempt>,
    /// All attempts of a call: number, hand-out, start record.
    attempts: BTreeMap<MethodCall, Vec<(u32, HandoutId, Position)>>,
    /// Which epoch wrote each position.
    log: BTreeMap<Position, Epoch>,
    handed_back: BTreeSet<HandoutId>,
    /// Frames that were handed to the transport: the others may be taken back (D-23).
    left: BTreeSet<HandoutId>,
}

#[derive(Debug)]
struct LastAttempt {
    attempt: u32,
    handout: HandoutId,
    /// Where the start record stands, if it became durable.
    start: Position,
    durability: Durability,
    snapshot: Snapshot,
}

impl Watcher for WorkIsCounted {
    fn rule(&self) -> &'static str {
        "invariant 5 (work)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EntryDurable { position, entry } => {
                if let Ok((entry, _)) = Entry::decode(entry, NODE) {
                    self.log.insert(*position, entry.origin.epoch);
                }
            }
            Seen::TaskMade { after, task, .. } => self.task(*after, task)?,
            Seen::TaskLeft { task, .. } => {
                self.left.insert(task.handout);
            }
            Seen::HandedBack { handout } => {
                self.handed_back.insert(*handout);
            }
            Seen::Settled { handout, accepted: true, on_its_stream: false } => {
                return Err(format!(
                    "a result of hand-out {}.{} was accepted on another stream than the task's",
                    handout.epoch, handout.counter
                ));
            }
            Seen::Audit(audit) => self.audit(audit)?,
            _ => {}
        }
        Ok(())
    }
}

impl WorkIsCounted {
    fn task(&mut self, after: Position, task: &Task) -> Result<(), String> {
        let what = || format!("{:?} of {} {}", task.method, task.flow_id, task.step);
        if !self.handouts.insert(task.handout) {
            let HandoutId { epoch, counter } = task.handout;
            return Err(format!("hand-out {epoch}.{counter} was used twice, the second time for {}", what()));
        }
        let call = (task.run_id, task.step.clone(), task.method);
        if self.calls.get(&call).is_some_and(|last| last.handout.epoch > task.handout.epoch) {
            // An engine that was frozen and whose epoch is over says so: nothing of it leaves (invariant 3).
            return Ok(());
        }
        match self.calls.get(&call) {
            None if task.attempt != 1 => {
                return Err(format!("the first attempt of {} has the number {}", what(), task.attempt));
            }
            None => {}
            Some(last) => {
                let allowed = self.next_attempts(&call, last, task);
                if !allowed.contains(&task.attempt) {
                    return Err(format!(
                        "attempt {} of {} follows attempt {}, whose start {} durable",
                        task.attempt,
                        what(),
                        last.attempt,
                        if self.is_durable(last) { "was" } else { "was not" }
                    ));
                }
                let same_epoch = last.handout.epoch == task.handout.epoch;
                let keeps = same_epoch || (last.durability == Durability::Sync && self.is_durable(last));
                if keeps && last.snapshot != task.snapshot {
                    return Err(format!(
                        "attempt {} of {} sees another snapshot (FD-3)",
                        task.attempt,
                        what()
                    ));
                }
            }
        }
        let last = LastAttempt {
            attempt: task.attempt,
            handout: task.handout,
            start: after,
            durability: task.durability,
            snapshot: task.snapshot.clone(),
        };
        self.attempts.entry(call.clone()).or_default().push((task.attempt, task.handout, after));
        self.calls.insert(call, last);
        Ok(())
    }

    fn is_durable(&self, last: &LastAttempt) -> bool {
        self.log.get(&last.start) == Some(&last.handout.epoch)
    }

    fn next_attempts(&self, call: &MethodCall, last: &LastAttempt, task: &Task) -> Vec<u32> {
        let handed_back = self.may_be_handed_back(last.handout);
        let same_epoch = last.handout.epoch == task.handout.epoch;
        match (same_epoch, last.durability) {
            // The frame that hands a task back can be lost, or come too late; so can the record that takes
            // one back which never left.
            (true, _) if handed_back => vec![last.attempt, last.attempt + 1],
            (true, _) => vec![last.attempt + 1],
            (false, Durability::Async) => (1..=last.attempt + 1).collect(),
            (false, Durability::Sync) if handed_back => vec![last.attempt, last.attempt + 1],
            (false, Durability::Sync) if self.is_durable(last) => vec![last.attempt + 1],
            // What was not durable is as if it had never been: the number goes on from what was.
            (false, Durability::Sync) => {
                let lowest = self.lowest_after_crash(call);
                (lowest..=last.attempt.max(lowest)).collect()
            }
        }
    }

    fn may_be_handed_back(&self, handout: HandoutId) -> bool {
        self.handed_back.contains(&handout) || !self.left.contains(&handout)
    }

    fn lowest_after_crash(&self, call: &MethodCall) -> u32 {
        let durable = self.attempts[call]
            .iter()
            .filter(|(_, handout, start)| self.log.get(start) == Some(&handout.epoch))
            .max_by_key(|(attempt, ..)| *attempt);
        match durable {
            None => 1,
            Some((attempt, handout, _)) => attempt + u32::from(!self.may_be_handed_back(*handout)),
        }
    }

    fn audit(&self, audit: &Audit) -> Result<(), String> {
        let Some(state) = &audit.state else {
            return Ok(());
        };
        let flow_id = &audit.flow_id;
        let mut done = BTreeSet::new();
        for (number, event) in (1..).zip(&audit.history) {
            if event.number != number {
                return Err(format!("event {number} of {flow_id} has the number {}", event.number));
            }
            let completed = match &event.kind {
                EventKind::WaitForCompleted { context, .. } => Some((context, Method::WaitFor)),
                EventKind::ExecuteCompleted { context, .. } => Some((context, Method::Execute)),
                _ => None,
            };
            if let Some((context, method)) = completed {
                if !done.insert((context.step.clone(), method)) {
                    return Err(format!("{method:?} of {flow_id} {} completed twice", context.step));
                }
                let call = (state.summary.run_id, context.step.clone(), method);
                match self.calls.get(&call) {
                    None => {
                        return Err(format!("{method:?} of {flow_id} {} was never handed out", context.step));
                    }
                    Some(last) if last.attempt != context.attempt => {
                        return Err(format!(
                            "{method:?} of {flow_id} {} completed as attempt {}, but {} was handed out last",
                            context.step, context.attempt, last.attempt
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
        for ((run_id, step, method), last) in &self.calls {
            if *run_id != state.summary.run_id || !done.contains(&(step.clone(), *method)) {
                continue;
            }
            let key = flows::mark_of(step, *method);
            let mark = state.attributes.iter().find(|attribute| attribute.key == key);
            let expected = AttributeValue::String(Name::new(&flows::handout_text(last.handout)));
            if mark.map(|mark| &mark.value) != Some(&expected) {
                return Err(format!(
                    "{method:?} of {flow_id} {step} was completed by {:?}, not by its last hand-out {expected:?}",
                    mark.map(|mark| &mark.value)
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::WorkIsCounted;
    use crate::invariants::made_up::{Log, task, tell};
    use dexzd_core::engine::{Durability, Task};
    use dexzd_core::ids::{HandoutId, Position, StreamId};
    use dexzd_io_sim::watch::Seen;

    fn made(task: &Task, after: u64) -> (u64, Seen<'_>) {
        (0, Seen::TaskMade { process: 0, stream: StreamId(1), after: Position(after), task })
    }

    fn left(task: &Task, after: u64) -> (u64, Seen<'_>) {
        let (epoch, after) = (task.handout.epoch, Position(after));
        (0, Seen::TaskLeft { process: 0, epoch, durable: after, after, task })
    }

    #[test]
    fn one_after_the_other_is_fine_and_a_gap_is_not() {
        let (one, two, four) = (task(1, 1, 1), task(2, 1, 2), task(4, 1, 3));
        assert_eq!(tell(WorkIsCounted::default(), &[made(&one, 1), left(&one, 1), made(&two, 2)]), Ok(()));
        assert!(tell(WorkIsCounted::default(), &[made(&one, 1), left(&one, 1), made(&four, 2)]).is_err());
    }

    #[test]
    fn a_handout_used_twice_is_seen() {
        let (one, two) = (task(1, 1, 1), task(2, 1, 1));
        let sentence = "hand-out 1.1 was used twice, the second time for Execute of f only-1".to_owned();
        assert_eq!(
            tell(WorkIsCounted::default(), &[made(&one, 1), left(&one, 1), made(&two, 2)]),
            Err(sentence)
        );
    }

    #[test]
    fn a_crash_costs_an_attempt_exactly_if_its_start_was_durable() {
        let mut log = Log::default();
        log.fence(1, 1);
        log.changes(1, 1, &[]);
        let durable = |at: usize| {
            let (position, entry) = &log.entries[at];
            (0, Seen::EntryDurable { position: *position, entry })
        };
        let (first, same, next) = (task(1, 1, 1), task(1, 2, 1), task(2, 2, 1));
        let was = |second| [durable(0), durable(1), made(&first, 2), left(&first, 2), made(second, 4)];
        assert_eq!(tell(WorkIsCounted::default(), &was(&next)), Ok(()));
        assert!(tell(WorkIsCounted::default(), &was(&same)).is_err());
        let was_not = |second| [durable(0), made(&first, 2), left(&first, 2), made(second, 4)];
        assert_eq!(tell(WorkIsCounted::default(), &was_not(&same)), Ok(()));
        assert!(tell(WorkIsCounted::default(), &was_not(&next)).is_err());
    }

    #[test]
    fn what_an_engine_says_after_its_successor_counts_for_nothing() {
        let (one, next, late, last) = (task(1, 1, 1), task(1, 2, 1), task(1, 1, 2), task(2, 2, 2));
        let story = [made(&one, 1), made(&next, 4), left(&next, 4), made(&late, 2), made(&last, 5)];
        assert_eq!(tell(WorkIsCounted::default(), &story), Ok(()));
    }

    #[test]
    fn an_async_call_may_begin_again() {
        let (mut first, mut again) = (task(3, 1, 3), task(1, 2, 1));
        first.attempt = 1;
        again.durability = Durability::Async;
        first.durability = Durability::Async;
        assert_eq!(tell(WorkIsCounted::default(), &[made(&first, 0), made(&again, 0)]), Ok(()));
    }

    #[test]
    fn a_task_that_was_handed_back_keeps_its_number() {
        let (first, again) = (task(1, 1, 1), task(1, 1, 2));
        let back = (0, Seen::HandedBack { handout: HandoutId { counter: 1, ..first.handout } });
        assert_eq!(
            tell(WorkIsCounted::default(), &[made(&first, 1), left(&first, 1), back, made(&again, 2)]),
            Ok(())
        );
        assert!(
            tell(WorkIsCounted::default(), &[made(&first, 1), left(&first, 1), made(&again, 2)]).is_err()
        );
    }
}
