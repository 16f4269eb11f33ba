//! Lives and deaths of processes, what they are told, and what is done for them.

use dexzd_core::lease::{CandidateEvent, HolderEvent, LeaseInput};
use dexzd_core::node::{Input, NodeEvent, Output};
use dexzd_core::stop::StopReason;

use super::config::LONGEST_DOWN;
use super::process::Decided;
use super::{Event, LeaseWorld, describe};
use crate::dice::Stream;
use crate::watch::{ProcessNumber, Seen};
use crate::{MILLISECOND, SECOND, TrueTime};

impl LeaseWorld {
    /// The start-up probe, then the control plane. A store that fails the probe is refused (D-31).
    pub(super) fn start(&mut self, at: TrueTime, number: ProcessNumber) {
        let stamp = match self.probe_store(at) {
            Ok(stamp) => stamp,
            Err(fault) => {
                self.trace.line(at, || format!("p{number} refuses the store: {fault}"));
                self.watchers.show(at, &Seen::StoreRefused { process: number, fault });
                return;
            }
        };
        let process = &mut self.processes[usize::from(number)];
        process.start(&self.config, stamp, &mut self.dice);
        let (life, process_id) = (process.life, process.process_id());
        self.watchers.show(at, &Seen::Started { process: number, process_id });
        self.drain(at, number);
        self.set_timer(at, number, life);
    }

    pub(super) fn die(&mut self, at: TrueTime, number: ProcessNumber, reason: Option<StopReason>) {
        self.trace.event(at, 300 + u64::from(number));
        self.trace.line(at, || match reason {
            Some(reason) => format!("p{number} stops: {reason}"),
            None => format!("p{number} is killed"),
        });
        self.processes[usize::from(number)].die();
        self.watchers.show(at, &Seen::Died { process: number, reason });
        self.see_who_serves(at);
        let pause = self.dice.between(Stream::Crash, "down", 100 * MILLISECOND, LONGEST_DOWN);
        self.heap.push(at + pause, Event::Order(number, super::Order::Start));
    }

    /// A process handles one input, and what follows from it is done.
    pub(super) fn input(&mut self, at: TrueTime, number: ProcessNumber, input: Input) {
        self.trace.event(at, u64::from(number));
        self.trace.add(&input);
        if self.trace.is_watched() && input != Input::Tick && input != Input::EngineAlive {
            let text = describe::input(&input);
            self.trace.line(at, || format!("p{number} <- {text}"));
        }
        let index = usize::from(number);
        self.show_input(at, number, &input);
        self.trace.reading(at, number, &self.processes[index].clocks);
        self.processes[index].handle(at, input, &mut self.watchers);
        self.drain(at, number);
        if self.processes[index].starved_until > at && !self.healed {
            let lasts = self.dice.between(Stream::Crash, "starved", 0, SECOND);
            self.freeze(at, number, lasts);
        }
    }

    fn show_input(&mut self, at: TrueTime, number: ProcessNumber, input: &Input) {
        match input {
            Input::Lease(LeaseInput::Read { request, outcome }) => {
                let instant_us = self.processes[usize::from(number)].clocks.instant.read(at);
                let (process, request) = (number, *request);
                self.watchers.show(at, &Seen::LeaseShown { process, request, outcome, instant_us });
            }
            Input::Lease(LeaseInput::Written { request, outcome }) => {
                let (process, request) = (number, *request);
                self.watchers.show(at, &Seen::LeaseAnswered { process, request, outcome });
            }
            Input::Admin { call, opened_in, request } => {
                let on_old_connection = *opened_in != self.processes[usize::from(number)].period;
                let seen = Seen::CallAsked { process: number, call: *call, request, on_old_connection };
                self.watchers.show(at, &seen);
            }
            Input::Follower(report) => {
                self.watchers.show(at, &Seen::FollowerSaid { process: number, state: report.state });
            }
            Input::Lease(LeaseInput::Surveyed { .. } | LeaseInput::Tick)
            | Input::LogFenced
            | Input::Engine(_)
            | Input::EngineAlive
            | Input::Failed(_)
            | Input::Durable(_)
            | Input::TrimBelow(_)
            | Input::Terminate
            | Input::Tick
            | Input::GateJumped(_)
            | Input::EpochBehind { .. }
            | Input::StoreClosed => {}
        }
    }

    /// Polls outputs one by one; the process may die or freeze behind each of them.
    fn drain(&mut self, at: TrueTime, number: ProcessNumber) {
        let index = usize::from(number);
        let life = self.processes[index].life;
        while let Some(decided) = self.processes[index].poll(at) {
            if !self.healed {
                let faults = self.config.process_faults;
                if self.dice.chance(Stream::Crash, "at_output", faults.kills_per_million_outputs) {
                    self.die(at, number, None);
                    return;
                }
                if self.dice.chance(Stream::Crash, "freeze_at_output", faults.freezes_per_million_outputs) {
                    let longest = 3 * self.config.duration.as_millis() * MILLISECOND;
                    let lasts = self.dice.between(Stream::Crash, "freeze", MILLISECOND, longest);
                    self.trace.line(at, || format!("p{number} Freeze({lasts}) before it sends"));
                    self.freeze(at, number, lasts);
                }
            }
            if self.processes[index].is_frozen(at) {
                self.processes[index].late.push_back(decided);
                continue;
            }
            self.perform(at, number, decided);
            if !self.processes[index].lives(life) {
                return;
            }
        }
        self.set_timer(at, number, life);
    }

    pub(super) fn set_timer(&mut self, at: TrueTime, number: ProcessNumber, life: u32) {
        if let Some(due) = self.processes[usize::from(number)].new_timer(at) {
            self.heap.push(due, Event::Timer(number, life));
        }
    }

    pub(super) fn perform(&mut self, at: TrueTime, number: ProcessNumber, decided: Decided) {
        let index = usize::from(number);
        let (instant_us, role) = (decided.instant_us, decided.role);
        match decided.output {
            Output::Lease { request, operation } => {
                self.send(at, number, (instant_us, role, decided.is_hot), request, operation);
            }
            Output::Survey { request } => {
                let survey = Some(self.survey());
                let life = self.processes[index].life;
                let input = Input::Lease(LeaseInput::Surveyed { request, survey });
                let takes = self.dice.between(Stream::Store, "survey", MILLISECOND, 200 * MILLISECOND);
                self.heap.push(at + takes, Event::Input(number, life, input));
            }
            Output::OpenLog(open) => {
                self.trace.line(at, || format!("p{number} opens the log for epoch {}", open.epoch));
                self.open_log(at, number, open);
            }
            Output::BuildEngine { .. } => self.build_engine(at, number),
            Output::Engine(order) => self.order_engine(at, number, order),
            Output::Gate(order) => {
                self.trace.line(at, || format!("p{number} gate: {order:?}"));
                self.processes[index].order_gate(at, order, &mut self.watchers);
                self.pass_on_jump(at, number);
                self.see_who_serves(at);
            }
            // No data plane here deletes anything.
            Output::Watchdog { .. } | Output::LeaseWritten { .. } => {}
            Output::TrimmedBelow(_) => unreachable!("nobody trims here"),
            Output::Event(event) => {
                if let NodeEvent::RoleChanged { role, epoch, period } = event {
                    self.processes[index].period = period;
                    let seen = Seen::RoleChanged { process: number, role, epoch, instant_us };
                    self.watchers.show(at, &seen);
                }
                if let NodeEvent::SteppingDown { epoch } = event {
                    self.watchers.show(at, &Seen::SteppingDown { process: number, epoch });
                }
                if let NodeEvent::Candidate(CandidateEvent::TakeoverFailed { .. }) = event {
                    self.watchers.show(at, &Seen::TakeoverFailed { process: number });
                }
                if let NodeEvent::Holder(event @ (HolderEvent::DoubtBegan | HolderEvent::DoubtEnded)) = event
                {
                    let began = event == HolderEvent::DoubtBegan;
                    self.watchers.show(at, &Seen::Doubt { process: number, began });
                }
                self.trace.line(at, || format!("p{number} {event:?}"));
            }
            Output::Follow(order) => self.follow(at, number, order),
            Output::Admin { call, answer } => {
                self.trace.line(at, || format!("p{number} answers call {call:?}: {answer:?}"));
                let seen = Seen::CallAnswered { process: number, call, answer: &answer };
                self.watchers.show(at, &seen);
            }
            Output::Exit { reason, .. } => self.die(at, number, Some(reason)),
        }
    }

    /// Keeps in mind who serves, once faults have ended.
    fn see_who_serves(&mut self, at: TrueTime) {
        if !self.healed {
            return;
        }
        let serving = (0..self.config.processes).find_map(|number| self.serves(number));
        self.serves_since = match (serving, self.serves_since) {
            (Some(epoch), Some((before, since))) if epoch == before => Some((epoch, since)),
            (Some(epoch), _) => Some((epoch, at)),
            (None, _) => None,
        };
    }
}
