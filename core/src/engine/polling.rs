//! Answering long polls: at once if they can be, later when the run has come so far, or when their time is up.

use super::call::{Answer, CallError, FlowResult, Target};
use super::deadlines::Deadline;
use super::history::EventKind;
use super::keys;
use super::polls::{Awaited, Poll};
use super::run::{Run, decode};
use super::turn::millis;
use super::{Engine, state::StateRead};
use crate::ids::{CallId, RunId, StepExecutionId};

impl<S: StateRead> Engine<S> {
    pub(super) fn wait_for(&mut self, call: CallId, target: &Target, awaited: Awaited, wait_ms: Option<u64>) {
        let run_id = match self.target(target).and_then(|id| self.read_run(id).map(|_| id)) {
            Ok(run_id) => run_id,
            Err(error) => return self.cx.reply(call, None, Err(error)),
        };
        if let Some(answer) = self.awaited(run_id, &awaited) {
            return self.cx.reply(call, Some(run_id), answer);
        }
        let deadline = wait_ms.map(|wait| self.cx.now.instant.saturating_add(millis(wait)));
        if let Some(at) = deadline {
            self.cx.deadlines.set(at, Deadline::Poll(call));
        }
        self.cx.polls.add(call, Poll { run_id, awaited, deadline });
    }

    /// Answers the polls of a run that changed.
    pub(super) fn answer_polls(&mut self, run_id: RunId) {
        for (call, awaited) in self.cx.polls.of_run(run_id) {
            if let Some(answer) = self.awaited(run_id, &awaited) {
                self.drop_poll(call);
                self.cx.reply(call, Some(run_id), answer);
            }
        }
    }

    pub(super) fn drop_poll(&mut self, call: CallId) -> Option<Poll> {
        let poll = self.cx.polls.remove(call)?;
        if let Some(at) = poll.deadline {
            self.cx.deadlines.clear(at, Deadline::Poll(call));
        }
        Some(poll)
    }

    /// The answer, if there is one already. The run must be loaded.
    fn awaited(&self, run_id: RunId, awaited: &Awaited) -> Option<Result<Answer, CallError>> {
        let run = self.runs.loaded(run_id)?;
        match awaited {
            Awaited::Closed => flow_result(run).map(Ok),
            Awaited::Step(step) => self.step_result(run, step),
            Awaited::Event(number) => self.event_result(run, *number),
        }
    }

    fn step_result(&self, run: &Run, step: &StepExecutionId) -> Option<Result<Answer, CallError>> {
        let scheduled = run.head().step_counts.get(&step.step_type).copied().unwrap_or(0);
        if run.steps.get(step).is_some() {
            return None;
        }
        if step.number > scheduled {
            return (!run.is_active()).then_some(Err(CallError::StepNotCompleted));
        }
        Some(if self.has_completed(run, step) {
            Ok(Answer::StepCompleted)
        } else {
            Err(CallError::StepNotCompleted)
        })
    }

    /// Whether the history says that a Step execution which is no longer active has completed. What
    /// callers wait for has mostly just happened and is found first; an old one costs a scan.
    fn has_completed(&self, run: &Run, step: &StepExecutionId) -> bool {
        let completed = |kind: &EventKind| matches!(kind, EventKind::ExecuteCompleted { context, .. } if context.step == *step);
        if let Some(found) = run.unsaved_events().find(|event| completed(&event.kind)) {
            return completed(&found.kind);
        }
        let (from, to) = keys::event_range(run.id);
        let mut found = false;
        self.view().scan(&from, &to, &mut |key, value| {
            found =
                decode::<super::history::HistoryEvent>(key, value).is_ok_and(|event| completed(&event.kind));
            !found
        });
        found
    }

    fn event_result(&self, run: &Run, number: u64) -> Option<Result<Answer, CallError>> {
        if let Some(event) = run.unsaved_events().find(|event| event.number == number) {
            return Some(Ok(Answer::Event(Some(event.clone().into()))));
        }
        if number <= run.head().event_count {
            return Some(self.event(run.id, number).map(|event| Answer::Event(event.map(Into::into))));
        }
        (!run.is_active()).then_some(Ok(Answer::Event(None)))
    }
}

fn flow_result(run: &Run) -> Option<Answer> {
    let head = run.head();
    (!run.is_active()).then(|| {
        let result = FlowResult {
            run_id: run.id,
            status: head.status,
            outputs: head.outputs.clone(),
            error: head.error.clone(),
        };
        Answer::FlowResult(result.into())
    })
}
