//! What leaves a process, and what it waits for.

use dexzd_core::engine::{CallError, ServerFrame};
use dexzd_core::gate::GateView;
use dexzd_core::ids::Position;
use dexzd_core::node::Input;

use super::ProductWorld;
use super::process::{Leaving, Plane};
use crate::TrueTime;
use crate::watch::{ProcessNumber, Seen};

impl ProductWorld {
    /// Keeps something until its position is durable.
    pub(super) fn hold(&mut self, at: TrueTime, number: ProcessNumber, after: Position, leaving: Leaving) {
        let Plane::Serving(serving) = &mut self.processes[usize::from(number)].plane else {
            return;
        };
        serving.outbox.push(after, leaving);
        let durable = serving.durable;
        let ready: Vec<Leaving> = serving.outbox.release(durable).collect();
        for leaving in ready {
            self.leave(at, number, leaving);
        }
    }

    pub(super) fn became_durable(&mut self, at: TrueTime, number: ProcessNumber, position: Position) {
        let Plane::Serving(serving) = &mut self.processes[usize::from(number)].plane else {
            return;
        };
        serving.durable = position;
        let ready: Vec<Leaving> = serving.outbox.release(position).collect();
        for leaving in ready {
            self.leave(at, number, leaving);
        }
    }

    /// The tenure is over: what still waits for its position never leaves, and its callers hear so (D-18).
    pub(super) fn forsake(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &mut self.processes[usize::from(number)];
        let mut waiting: Vec<Leaving> = process.held.drain(..).collect();
        if let Plane::Serving(serving) = &mut process.plane {
            waiting.extend(serving.outbox.release(Position(u64::MAX)));
        }
        for leaving in waiting {
            match leaving {
                Leaving::Reply { call, .. } => {
                    if let Some(open) = self.processes[usize::from(number)].calls.remove(&call) {
                        self.answer_client(at, open.token, Err(CallError::Unavailable));
                    }
                }
                Leaving::Close(stream) => self.close_stream(at, stream),
                Leaving::Frame { .. } => {}
            }
        }
    }

    /// The hand-over to the transport: the gate is looked at with a clock read now (D-47).
    pub(super) fn leave(&mut self, at: TrueTime, number: ProcessNumber, leaving: Leaving) {
        let process = &mut self.processes[usize::from(number)];
        let needs_gate = match &leaving {
            Leaving::Reply { answer, .. } => *answer != Err(CallError::Unavailable),
            Leaving::Frame { frame, .. } => matches!(frame, ServerFrame::Task(_)),
            Leaving::Close(_) => false,
        };
        let view = process.gate.look(process.clocks.now(at));
        let durable = match &process.plane {
            Plane::Serving(serving) => serving.durable,
            Plane::Idle | Plane::Following(_) | Plane::Starting { .. } => Position(0),
        };
        if view == GateView::Doubt {
            process.held.push_back(leaving);
            if let Some(jumped_at) = process.gate.jumped_at() {
                self.tell_node(at, number, Input::GateJumped(jumped_at));
            }
            return;
        }
        let shut = needs_gate && view == GateView::Shut;
        let epoch = self.epoch_of(number);
        match leaving {
            Leaving::Reply { call, after, mut answer } => {
                let Some(open) = self.processes[usize::from(number)].calls.remove(&call) else {
                    return;
                };
                if shut {
                    answer = Err(CallError::Unavailable);
                } else if needs_gate {
                    let seen = Seen::AnswerLeft {
                        process: number,
                        call,
                        epoch,
                        durable,
                        after,
                        request: &open.request,
                        answer: &answer,
                    };
                    self.watchers.show(at, &seen);
                }
                self.answer_client(at, open.token, answer);
            }
            Leaving::Frame { .. } if shut => {}
            // The stream is gone: nothing is handed to anybody.
            Leaving::Frame { stream, .. } if !self.streams.contains_key(&stream) => {}
            Leaving::Frame { stream, after, frame } => {
                if let ServerFrame::Task(task) = &frame {
                    let seen = Seen::TaskLeft { process: number, epoch, durable, after, task };
                    self.watchers.show(at, &seen);
                }
                self.send_to_worker(at, stream, frame);
            }
            Leaving::Close(stream) => self.close_stream(at, stream),
        }
    }
}
