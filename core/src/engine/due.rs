//! Durable timers that have come.

use super::attempt::FailedAttempt;
use super::io::{Change, EngineEvent};
use super::keys::{self, Timer, TimerKind};
use super::limits;
use super::record::CurrentRun;
use super::run::decode;
use super::{Engine, state::StateRead};
use crate::ids::{Name, RunId};
use crate::mutant::{self, Mutant};

impl<S: StateRead> Engine<S> {
    /// Fires what is due, a bounded batch of it: each timer once (D-39).
    pub(super) fn fire_timers(&mut self) {
        self.refill_timers();
        let mut count = 0;
        while count < limits::BATCH
            && let Some(timer) = self.cx.timers.pop_due(self.cx.time)
        {
            count += 1;
            let run_id = timer.run_id;
            self.fire(timer);
            self.collect(run_id);
            self.refill_timers();
        }
        if count > 0 {
            let count = u32::try_from(count).expect("a batch is small");
            self.cx.event(EngineEvent::TimersFired { count });
        }
    }

    fn refill_timers(&mut self) {
        if self.cx.timers.wants_refill() {
            // What this input has set must be in the view: it is looked at once.
            self.gather();
            let view = self.overlay.over(&self.store);
            self.cx.timers.refill(&view);
        }
    }

    fn fire(&mut self, timer: Timer) {
        if !mutant::is(Mutant::TimerFiresTwice) {
            self.cx.changes.push(Change { key: keys::timer(&timer), value: None });
        }
        if timer.kind == TimerKind::Retention {
            return self.delete_run(timer.run_id);
        }
        let Ok(mut turn) = self.turn(timer.run_id) else {
            return;
        };
        match &timer.kind {
            TimerKind::FlowTimeout => turn.flow_timeout(false),
            TimerKind::StartDelay(step) | TimerKind::Backoff(step) => turn.queue_again(step),
            TimerKind::Condition(step) => turn.condition_timer_fired(step),
            TimerKind::Closing => turn.finish_closing(),
            TimerKind::Waits => turn.waits_timer_fired(),
            TimerKind::Retention => {}
        }
    }

    /// Deletes everything about a closed run, a bounded part of it at a time.
    fn delete_run(&mut self, run_id: RunId) {
        let Ok(run) = self.read_run(run_id) else {
            return;
        };
        let (flow_id, start_time) = (run.base.flow_id.clone(), run.base.start_time);
        let (mut found, more) = self.keys_of(run_id);
        if more {
            // The rest follows with a timer of its own: a run can be larger than an entry.
            // Not due in this very look, which does not see yet what it deletes.
            let due = self.cx.time.saturating_add(core::time::Duration::from_micros(1));
            let again = Timer { due, run_id, kind: TimerKind::Retention };
            self.cx.changes.push(Change { key: keys::timer(&again), value: Some(alloc::vec::Vec::new()) });
            self.cx.timers.add(again);
        } else {
            let (from, to) = keys::run_range(run_id);
            self.view().scan(&from, &to, &mut |key, _| {
                found.push(key.to_vec());
                true
            });
            found.push(keys::listing(start_time, run_id));
            let pointer = keys::current_run(&flow_id);
            if self.points_to(&pointer, run_id) {
                found.push(pointer);
            }
            self.runs.remove(run_id);
        }
        self.cx.changes.extend(found.into_iter().map(|key| Change { key, value: None }));
    }

    /// A bounded part of a run's history and stored answers, and whether there is more.
    fn keys_of(&self, run_id: RunId) -> (alloc::vec::Vec<alloc::vec::Vec<u8>>, bool) {
        let mut found = alloc::vec::Vec::new();
        for (from, to) in [keys::event_range(run_id), keys::answer_range(run_id)] {
            self.view().scan(&from, &to, &mut |key, _| {
                found.push(key.to_vec());
                found.len() <= limits::DELETED_KEYS
            });
        }
        let more = found.len() > limits::DELETED_KEYS;
        (found, more)
    }

    fn points_to(&self, pointer: &[u8], run_id: RunId) -> bool {
        self.view()
            .get(pointer)
            .and_then(|value| decode::<CurrentRun>(pointer, &value).ok())
            .is_some_and(|current| current.run_id == run_id)
    }

    /// Fails attempts of an earlier epoch, once each, and queues what was queued: a bounded batch.
    /// True when nothing is left.
    pub(super) fn recover_batch(&mut self) -> bool {
        let mut found = alloc::vec::Vec::new();
        let from = core::mem::take(&mut self.recovery_cursor);
        let epoch = self.cx.epoch;
        self.view().scan(&from, &keys::work_end(), &mut |key, value| {
            // What this epoch queued stands behind everything older, and is in the queue already.
            let old = keys::parse_work(key).is_some_and(|work| work.epoch < epoch);
            if old {
                found.push((key.to_vec(), value.to_vec()));
            }
            old && found.len() < limits::BATCH
        });
        let done = found.len() < limits::BATCH;
        if let Some((key, _)) = found.last() {
            self.recovery_cursor = keys::after(key.clone());
        }
        for (key, value) in found {
            if let Some(run_id) = self.recover(key, &value) {
                self.collect(run_id);
            }
        }
        done
    }

    /// The run that it belongs to, if it can be read.
    fn recover(&mut self, key: alloc::vec::Vec<u8>, value: &[u8]) -> Option<RunId> {
        let item: super::record::WorkItem = match decode(&key, value) {
            Ok(item) => item,
            Err(error) => {
                self.damaged(error);
                return None;
            }
        };
        let work = keys::parse_work(&key)?;
        let mut turn = self.turn(item.run_id).ok()?;
        match turn.run.steps.get(&item.step).map(|step| step.phase.clone()) {
            Some(super::record::StepPhase::Queued(queued)) if queued == work => {
                if mutant::is(Mutant::QueuedIsForgotten) {
                    return Some(item.run_id);
                }
                if mutant::is(Mutant::QueuedIsCharged)
                    && let Some(step) = turn.run.steps.get_mut(&item.step)
                {
                    step.call.attempt += 1;
                }
                turn.cx.enqueue_again(turn.run, work, &item.step);
                self.recovered.queued_steps += 1;
            }
            Some(super::record::StepPhase::Running { work: running, .. }) if running == work => {
                if mutant::is(Mutant::NotCompletedIsFree) {
                    turn.hand_back(&item.step);
                    return Some(item.run_id);
                }
                let failed = FailedAttempt::not_completed("the node stopped while a Worker had the attempt");
                turn.attempt_failed(&item.step, failed);
                self.recovered.failed_attempts += 1;
            }
            // A key without its Step: nothing refers to it.
            Some(_) | None => self.cx.changes.push(Change { key, value: None }),
        }
        Some(item.run_id)
    }

    /// Tells people about a record that cannot be read, and what to tell the caller.
    pub(super) fn damaged(&mut self, error: super::run::LoadError) -> super::call::CallError {
        let answer = super::queries::damaged_error(&error);
        if let super::run::LoadError::Damaged { key, detail } = error {
            let key = Name::from(alloc::format!("{}", key.escape_ascii()));
            self.cx.event(EngineEvent::DamagedRecord { key, detail: detail.into() });
        }
        answer
    }
}
