//! The audit at the end of a run: what does the product itself say about every Flow?

use std::collections::BTreeMap;

use dexzd_core::engine::{Answer, Call, CallError, Target};
use dexzd_core::ids::Name;

use super::ProductWorld;
use super::event::Event;
use super::people::ClientToken;
use crate::SECOND;
use crate::watch::{Audit, ProcessNumber, Seen};

/// Answers to the auditor.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pub(super) answers: BTreeMap<ClientToken, Result<Answer, CallError>>,
}

/// Larger than any history of the simulation.
const PAGE: u32 = 1_000;

impl ProductWorld {
    /// Asks for state and history of every Flow, and shows the answers.
    pub(super) fn audit(&mut self) {
        if self.watchers.is_broken() {
            return;
        }
        self.config.crash_at_output = None;
        self.outputs_of_work.get_or_insert(self.outputs);
        let Some(number) = self.active() else {
            let at = self.now();
            let sentence = "faults stopped long ago, and nobody serves".to_owned();
            self.watchers.complain(at, "invariant 7 (liveness)", sentence);
            return;
        };
        self.show_local_state(self.now(), number);
        let hosts = self.clients.iter().filter(|client| !client.is_guest());
        let flow_ids: Vec<Name> = hosts.map(|client| client.flow_id.clone()).collect();
        for flow_id in flow_ids {
            let target = Target { flow_id: flow_id.clone(), run_id: None };
            let history = Call::History { target: target.clone(), start_event: 1, page_size: PAGE };
            let mut audit = Audit { flow_id: flow_id.to_string(), ..Audit::default() };
            if let Some(Ok(Answer::State(state))) = self.ask(number, Call::State(target)) {
                audit.state = Some(state);
            }
            if let Some(Ok(Answer::History { events, .. })) = self.ask(number, history) {
                audit.history = events;
            }
            let at = self.now();
            self.watchers.show(at, &Seen::Audit(&audit));
        }
    }

    fn ask(&mut self, number: ProcessNumber, call: Call) -> Option<Result<Answer, CallError>> {
        let token = self.token(None);
        let at = self.now();
        self.heap.push(at, Event::ClientCalls(token, number, Box::new(call)));
        for _ in 0..10 {
            let until = self.now() + SECOND;
            while !self.audits.answers.contains_key(&token)
                && self.heap.next_at().is_some_and(|at| at <= until)
                && !self.watchers.is_broken()
            {
                let (at, event) = self.heap.pop().expect("it was just seen");
                self.happen(at, event);
            }
        }
        self.audits.answers.remove(&token)
    }
}
