//! Invariant 4: the calls about one Flow ID have an order that explains every answer, and that agrees
//! with time: a call that was answered before another one arrived comes first. A call without an answer
//! may have happened, at any time after it arrived, or never.
//!
//! Flow IDs are independent objects, so each has its own search. Time is when a call reached a process
//! and when its answer was handed to the transport, which is stricter than what clients see. What is said
//! about a closed run, and each event of a history, must be the same in every answer.
//!
//! Exempt by the rule itself: search, Streams, the Attribute store, health. Not checked: configuration
//! updates, phases of Steps, messages that Steps publish, and reads of Flow IDs whose runs have expired.
//! Where clocks leave the conditions of invariant 3, only writes that took effect are put in order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dexzd_core::engine::{
    Answer, Call, CallError, EventKind, FlowError, FlowOutput, FlowStatus, HistoryEvent,
};
use dexzd_core::ids::{CallId, Name, RunId};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::invariant_04_calls::Operation;
use super::invariant_04_flow::FlowId;
use super::invariant_04_search::{Timed, Verdict, explain};

/// See the module.
#[derive(Default, Debug)]
pub struct Linearizable {
    open: BTreeMap<CallId, (TrueTime, ProcessNumber, Call)>,
    answered: BTreeMap<Name, Vec<(ProcessNumber, Timed<Operation>)>>,
    /// By the request that started the run.
    events: BTreeMap<Name, Vec<HistoryEvent>>,
    results: BTreeMap<RunId, ClosedRun>,
    only_writes: bool,
}

type ClosedRun = (FlowStatus, Vec<FlowOutput>, Option<FlowError>);

impl Watcher for Linearizable {
    fn rule(&self) -> &'static str {
        "invariant 4 (linearizability)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Called { process, call, request } if Operation::flow_of(request).is_some() => {
                self.open.insert(*call, (at, *process, (*request).clone()));
            }
            Seen::AnswerLeft { call, answer, .. } => {
                if let Some((from, process, request)) = self.open.remove(call) {
                    self.answer(from, at, process, &request, answer)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, _at: TrueTime) -> Result<(), String> {
        for (from, process, request) in std::mem::take(&mut self.open).into_values() {
            if let (Some(flow), Some(call)) = (Operation::flow_of(&request), Operation::of(&request, None)) {
                let calls = self.answered.entry(flow.clone()).or_default();
                // The earliest of several repetitions without an answer can do what the later ones can.
                let known = calls.iter().any(|(_, other)| other.to.is_none() && other.call == call);
                if !known {
                    calls.push((process, Timed { from, to: None, call }));
                }
            }
        }
        self.answered.iter().try_for_each(|(flow, calls)| judge(flow, calls))
    }
}

impl Linearizable {
    /// For runs whose clocks leave the conditions of invariant 3: an answer may be old there.
    #[must_use]
    pub fn of_writes() -> Self {
        Self { only_writes: true, ..Self::default() }
    }

    fn answer(
        &mut self,
        from: TrueTime,
        to: TrueTime,
        process: ProcessNumber,
        request: &Call,
        answer: &Result<Answer, CallError>,
    ) -> Result<(), String> {
        let Some(flow) = Operation::flow_of(request) else {
            return Ok(());
        };
        self.same_every_time(flow, request, answer)?;
        if let Some(call) = Operation::of(request, Some(answer))
            && (call.took_effect() || !self.only_writes)
        {
            self.answered
                .entry(flow.clone())
                .or_default()
                .push((process, Timed { from, to: Some(to), call }));
        }
        Ok(())
    }

    /// What never changes once it is there.
    fn same_every_time(
        &mut self,
        flow: &Name,
        request: &Call,
        answer: &Result<Answer, CallError>,
    ) -> Result<(), String> {
        match (request, answer) {
            (Call::History { .. }, Ok(Answer::History { events, .. })) => self.history(flow, events),
            (_, Ok(Answer::FlowResult(result))) => {
                let closed = (result.status, result.outputs.clone(), result.error.clone());
                self.closed(flow, result.run_id, closed)
            }
            (_, Ok(Answer::State(state))) if state.summary.status != FlowStatus::Running => {
                let summary = &state.summary;
                let closed = (summary.status, state.outputs.clone(), summary.error.clone());
                self.closed(flow, summary.run_id, closed)
            }
            _ => Ok(()),
        }
    }

    /// A history that is read later extends the one that was read earlier.
    fn history(&mut self, flow: &Name, events: &[HistoryEvent]) -> Result<(), String> {
        let Some(EventKind::FlowStarted { request_id, .. }) = events.first().map(|event| &event.kind) else {
            return Ok(());
        };
        let known = self.events.entry(request_id.clone()).or_default();
        if let Some((first, then)) = known.iter().zip(events).find(|(first, then)| first != then) {
            let number = first.number;
            return Err(format!(
                "event {number} of {flow} was first {:?} and then {:?}",
                first.kind, then.kind
            ));
        }
        known.extend(events.iter().skip(known.len()).cloned());
        Ok(())
    }

    fn closed(&mut self, flow: &Name, run_id: RunId, closed: ClosedRun) -> Result<(), String> {
        let first = self.results.entry(run_id).or_insert_with(|| closed.clone());
        if *first == closed {
            Ok(())
        } else {
            Err(format!("run {run_id} of {flow} was said to have closed as {first:?} and as {closed:?}"))
        }
    }
}

fn judge(flow: &Name, calls: &[(ProcessNumber, Timed<Operation>)]) -> Result<(), String> {
    let timed: Vec<Timed<Operation>> = calls.iter().map(|(_, call)| call.clone()).collect();
    match explain::<FlowId>(&timed) {
        Verdict::Explained => Ok(()),
        Verdict::Undecided => Err(format!(
            "a fault of the simulator: the search for an order of the {} calls on {flow} was given up",
            timed.len()
        )),
        Verdict::Conflict(indexes) => {
            let mut sentence = format!("no order explains these answers about {flow}:");
            let mut calls: Vec<_> = indexes.into_iter().map(|index| &calls[index]).collect();
            calls.sort_by_key(|(_, call)| call.from);
            for (number, (process, call)) in calls.into_iter().enumerate() {
                let until = call.to.map_or_else(String::new, |to| format!(" to {}", seconds(to)));
                let comma = if number == 0 { "" } else { ";" };
                write!(sentence, "{comma} {} at p{process} ({}{until})", call.call, seconds(call.from))
                    .expect("writing to a string cannot fail");
            }
            Err(sentence)
        }
    }
}

fn seconds(at: TrueTime) -> String {
    format!("{}.{:06} s", at / 1_000_000, at % 1_000_000)
}

#[cfg(test)]
#[path = "invariant_04_linearizable_tests.rs"]
mod tests;
