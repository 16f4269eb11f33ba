//! Operators who step the active down: with the right precondition, and with every wrong one.

use dexzd_core::ids::{CallId, Epoch, Name};
use dexzd_core::node::{AdminAnswer, AdminError, AdminRequest, Input, Period};

use super::event::Event;
use super::{NODE, ProductWorld};
use crate::dice::Stream;
use crate::marks::mark;
use crate::watch::{ProcessNumber, Seen};
use crate::{SECOND, TrueTime};

/// What an operator does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
    /// Describe, then step down what was described.
    StepDown,
    /// The same, and the call is repeated as it was, some time later (HA-128).
    StepDownTwice,
    /// With an epoch that was described some time ago.
    StaleEpoch,
    /// With an epoch that nobody has yet.
    WrongEpoch,
    /// With the id of another node.
    WrongNode,
    /// Only describe.
    Describe,
}

/// What operators know.
#[derive(Debug, Default)]
pub(super) struct Operators {
    /// The epochs that were ever described.
    described: Vec<Epoch>,
}

/// A call of `AdminService` that is on its way or open.
#[derive(Clone, Debug)]
pub(super) struct AdminCall {
    errand: Errand,
    request: AdminRequest,
}

impl ProductWorld {
    /// Makes an operator do something.
    pub fn errand_at(&mut self, at: TrueTime, errand: Errand) {
        self.heap.push(at, Event::Errand(errand));
    }

    pub(super) fn errand(&mut self, at: TrueTime, errand: Errand) {
        self.trace.event(at, 203);
        let epoch = match errand {
            Errand::StepDown | Errand::StepDownTwice | Errand::Describe => {
                return self.administer(at, AdminCall { errand, request: AdminRequest::Describe });
            }
            Errand::StaleEpoch => match self.operators.described.len() as u64 {
                0 => return,
                known => {
                    let which = self.dice.below(Stream::Crash, "stale_epoch", known);
                    self.operators.described[usize::try_from(which).expect("an index")]
                }
            },
            Errand::WrongEpoch => Epoch(self.operators.described.last().map_or(1_000, |epoch| epoch.0 + 1)),
            Errand::WrongNode => self.operators.described.last().copied().unwrap_or(Epoch(1)),
        };
        let node_id = Name::new(if errand == Errand::WrongNode { "another-node" } else { NODE });
        let request = AdminRequest::StepDown { node_id, epoch };
        self.administer(at, AdminCall { errand, request });
    }

    fn administer(&mut self, at: TrueTime, call: AdminCall) {
        let number = self.somebody();
        let hop = self.network_hop();
        let when = self.reachable_from(at, number) + hop;
        self.heap.push(when, Event::AdminCalls(number, Box::new(call)));
    }

    /// The call arrives, over a connection of now or of an earlier role period (D-16).
    pub(super) fn admin_arrives(&mut self, at: TrueTime, number: ProcessNumber, admin: AdminCall) {
        self.trace.event(at, 204);
        let Some(node) = &self.processes[usize::from(number)].node else {
            return;
        };
        let present = node.period().number;
        let is_old = self.dice.chance(Stream::Network, "old_connection", self.strikes.old_connections);
        let opened_in = if is_old { Period(present.0.saturating_sub(1)) } else { present };
        self.trace.line(at, || format!("an operator asks p{number}: {:?}", admin.request));
        let call = CallId(self.next_call);
        self.next_call += 1;
        let request = admin.request.clone();
        self.processes[usize::from(number)].admin_calls.insert(call, admin);
        self.tell_node(at, number, Input::Admin { call, opened_in, request });
    }

    /// `node` answers an operator's call.
    pub(super) fn admin_answered(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        call: CallId,
        answer: &Result<AdminAnswer, AdminError>,
    ) {
        let process = &mut self.processes[usize::from(number)];
        let Some(AdminCall { errand, request }) = process.admin_calls.remove(&call) else {
            return;
        };
        let process_id = process.process_id;
        self.trace.line(at, || format!("an operator hears from p{number}: {answer:?}"));
        let seen = Seen::AdminAnswered { process: number, process_id, request: &request, answer };
        self.watchers.show(at, &seen);
        let hop = self.network_hop();
        if let Ok(AdminAnswer::Described { node_id, epoch, .. }) = answer {
            self.operators.described.push(*epoch);
            let request = AdminRequest::StepDown { node_id: node_id.clone(), epoch: *epoch };
            match errand {
                Errand::StepDown => self.administer(at + hop, AdminCall { errand, request }),
                Errand::StepDownTwice => {
                    let again = self.dice.between(Stream::Crash, "again_after", 1, 30 * SECOND);
                    let call = AdminCall { errand, request };
                    self.administer(at + hop, call.clone());
                    self.administer(at + hop + again, call);
                    mark("a step down is repeated with its original epoch");
                }
                Errand::Describe | Errand::StaleEpoch | Errand::WrongEpoch | Errand::WrongNode => {}
            }
        }
    }
}
