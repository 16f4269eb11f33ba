//! Calls that only read: describe, state, history, search.

use alloc::vec::Vec;

use super::call::{Answer, CallError, PageToken, Phase, RunState, SearchFilter, StepState, Summary, Target};
use super::frame::AttributeEntry;
use super::history::HistoryEvent;
use super::keys;
use super::model::{ActiveStepSearch, Method};
use super::queue::Streams;
use super::record::{Listing, StepPhase, StepRecord};
use super::run::{LoadError, Run, decode};
use super::wait;
use super::{Engine, state::StateRead};
use crate::ids::{CallId, Name, Position, RunId, StepExecutionId};
use crate::time::Timestamp;

/// Runs that one page of a search may look at, so that it never holds up the engine for long. A page
/// that ends here is short and has a token.
const SEARCH_STEPS: usize = 5_000;

impl<S: StateRead> Engine<S> {
    pub(super) fn describe(&mut self, call: CallId, target: &Target) {
        let answer = self.target(target).and_then(|id| Ok((id, summary(self.read_run(id)?))));
        self.reply_read(call, answer.map(|(id, summary)| (id, Answer::Summary(summary.into()))));
    }

    pub(super) fn state(&mut self, call: CallId, target: &Target) {
        let answer = self.target(target).and_then(|id| {
            self.read_run(id)?;
            let run = self.runs.loaded(id).ok_or(CallError::NotFound)?;
            Ok((id, Answer::State(run_state(run, &self.cx.streams).into())))
        });
        self.reply_read(call, answer);
    }

    pub(super) fn history(&mut self, call: CallId, target: &Target, start_event: u64, page_size: u32) {
        let answer = self.target(target).and_then(|id| {
            let (count, closed) = {
                let run = self.read_run(id)?;
                (run.head().event_count, !run.is_active())
            };
            let first = start_event.max(1);
            let events = self.events(id, first, page_size as usize)?;
            let next = first + events.len() as u64;
            let next_event = (next <= count).then_some(next);
            Ok((id, Answer::History { events, next_event, closed }))
        });
        self.reply_read(call, answer);
    }

    fn events(&self, id: RunId, first: u64, most: usize) -> Result<Vec<HistoryEvent>, CallError> {
        let (_, end) = keys::event_range(id);
        let mut events = Vec::new();
        let mut failed = None;
        self.view().scan(&keys::event(id, first), &end, &mut |key, value| {
            match decode::<HistoryEvent>(key, value) {
                Ok(event) => events.push(event),
                Err(error) => failed = Some(error),
            }
            failed.is_none() && events.len() < most
        });
        match failed {
            Some(error) => Err(damaged_error(&error)),
            None => Ok(events),
        }
    }

    /// One history event, if it exists.
    pub(super) fn event(&self, id: RunId, number: u64) -> Result<Option<HistoryEvent>, CallError> {
        let key = keys::event(id, number);
        let Some(value) = self.view().get(&key) else {
            return Ok(None);
        };
        decode(&key, &value).map(Some).map_err(|error| damaged_error(&error))
    }

    /// Searches what is durable: the store without the overlay (D-48).
    pub(super) fn search(
        &mut self,
        call: CallId,
        filter: &SearchFilter,
        page_size: u32,
        token: Option<PageToken>,
    ) {
        let (first, end) = keys::listing_range();
        let from = match token {
            Some(token) => keys::after(keys::listing(token.start_time, token.run_id)),
            None => first,
        };
        let mut runs = Vec::new();
        let mut next = None;
        let mut looked_at = 0;
        let store = &self.store;
        store.scan(&from, &end, &mut |key, value| {
            let Some((start_time, run_id)) = keys::parse_listing(key) else {
                return true;
            };
            let matching = decode::<Listing>(key, value)
                .ok()
                .filter(|listing| listing_matches(listing, start_time, filter))
                .and_then(|_| Run::load(run_id, store, Position(0)).ok())
                .map(|run| summary(&run))
                .filter(|summary| super::search::matches(filter, summary));
            runs.extend(matching);
            looked_at += 1;
            let full = runs.len() >= page_size as usize || looked_at >= SEARCH_STEPS;
            if full {
                next = Some(PageToken { start_time, run_id });
            }
            !full
        });
        // A full page may be the last one: look whether anything follows.
        if let Some(token) = next {
            let behind = keys::after(keys::listing(token.start_time, token.run_id));
            let mut more = false;
            store.scan(&behind, &end, &mut |_, _| {
                more = true;
                false
            });
            next = more.then_some(token);
        }
        let answer = Answer::Page { runs, next };
        self.cx.outputs.push_back(super::io::Output::Reply {
            id: call,
            after: Position(0),
            answer: Ok(answer),
        });
    }

    fn reply_read(&mut self, call: CallId, answer: Result<(RunId, Answer), CallError>) {
        match answer {
            Ok((run_id, answer)) => self.cx.reply(call, Some(run_id), Ok(answer)),
            Err(error) => self.cx.reply(call, None, Err(error)),
        }
    }
}

/// What a listing alone can rule out, before the run is read.
fn listing_matches(listing: &Listing, start_time: Timestamp, filter: &SearchFilter) -> bool {
    let among = |wanted: &[Name], name: &Name| wanted.is_empty() || wanted.contains(name);
    among(&filter.flow_types, &listing.flow_type)
        && among(&filter.flow_ids, &listing.flow_id)
        && (filter.statuses.is_empty() || filter.statuses.contains(&listing.status))
        && filter.started_from.is_none_or(|from| start_time >= from)
        && filter.started_before.is_none_or(|before| start_time < before)
}

/// What a client is told of a record that cannot be read.
pub(super) fn damaged_error(error: &LoadError) -> CallError {
    match error {
        LoadError::Missing => CallError::NotFound,
        LoadError::Damaged { detail, .. } => {
            CallError::Internal { detail: alloc::format!("a stored record cannot be read: {detail}").into() }
        }
    }
}

pub(super) fn summary(run: &Run) -> Summary {
    let head = run.head();
    let shown = head.config.active_step_search.unwrap_or_default();
    let mut active_step_types: Vec<Name> = run
        .steps
        .iter()
        .filter(|(_, step)| match shown {
            ActiveStepSearch::All => true,
            ActiveStepSearch::WaitForOnly => step.wait.is_some(),
            ActiveStepSearch::None => false,
        })
        .map(|(id, _)| id.step_type.clone())
        .collect();
    active_step_types.dedup();
    Summary {
        flow_id: run.base.flow_id.clone(),
        run_id: run.id,
        first_run_id: run.base.first_run_id,
        request_id: run.base.request_id.clone(),
        flow_type: run.base.flow_type.clone(),
        status: head.status,
        start_time: run.base.start_time,
        close_time: head.close_time,
        error: head.error.clone(),
        closing: head.closing.is_some(),
        active_step_types,
        event_count: head.event_count,
    }
}

fn run_state(run: &Run, streams: &Streams) -> RunState {
    let head = run.head();
    RunState {
        summary: summary(run),
        active_step_search: head.config.active_step_search.unwrap_or_default(),
        step_durability: head.config.step_durability.unwrap_or_default(),
        attributes: run
            .attributes()
            .map(|(key, value)| AttributeEntry { key: key.clone(), value: value.clone() })
            .collect(),
        steps: run.steps.iter().map(|(id, step)| step_state(run, id, step, streams)).collect(),
        channels: run.pending_messages(|_| true),
        outputs: head.outputs.clone(),
        timeout_at: run.base.timeout.as_ref().filter(|_| head.timeout_pending).map(|timeout| timeout.due),
        start_at: run.base.start_at,
    }
}

fn step_state(run: &Run, id: &StepExecutionId, step: &StepRecord, streams: &Streams) -> StepState {
    let mut state = StepState {
        step: id.clone(),
        phase: Phase::Queued,
        method: step.call.method,
        attempt: step.call.attempt,
        since: step.since,
        pending_reason: None,
        next_attempt_at: None,
        wait: step.wait.clone(),
        timers: Vec::new(),
        conditions: step.conditions.clone(),
        locals: step.locals.clone(),
        last_failure: step.call.last_failure.clone(),
        lineage: step.lineage.clone(),
        worker: None,
        input: run.input(id),
    };
    match &step.phase {
        StepPhase::Delayed(until) => {
            state.phase = Phase::Delayed;
            state.next_attempt_at = Some(*until);
        }
        StepPhase::Queued(_) => {
            let known = streams.knows(&super::context::task_key(run, id));
            state.pending_reason = Some(if known {
                "every Worker that has this Step type is busy".into()
            } else {
                "no connected Worker has this Step type".into()
            });
        }
        StepPhase::Running { worker, .. } => {
            state.phase = Phase::Running;
            state.worker = Some(worker.clone());
        }
        StepPhase::BackingOff(until) => {
            state.phase = Phase::BackingOff;
            state.next_attempt_at = Some(*until);
        }
        StepPhase::Waiting(progress) => {
            state.phase = Phase::Waiting;
            state.method = Method::Execute;
            if let Some(wait) = &step.wait {
                state.timers = progress.timer_states(wait);
                state.conditions = wait::results(wait, progress, Vec::new());
            }
        }
    }
    state
}
