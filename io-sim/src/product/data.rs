//! The data plane of a process: which machine it hosts, and what its engine wants.

use dexzd_core::engine::{self, CallError, NodeReport, Output, ServerFrame};
use dexzd_core::ids::{Blob, Position};
use dexzd_core::log::{AppenderInput, AppenderOutput, ReadEnd, StartupInput};
use dexzd_core::node::Input;
use dexzd_core::store::{ReadOutcome, Version};

use super::ProductWorld;
use super::event::Event;
use super::log_io::LogKind;
use super::orders::Strike;
use super::process::{DataAnswer, DataOutput, Leaving, Plane, ToData};
use crate::TrueTime;
use crate::dice::Stream;
use crate::watch::{ProcessNumber, Seen};

impl ProductWorld {
    pub(super) fn data_message(&mut self, at: TrueTime, number: ProcessNumber, message: ToData) {
        self.trace.event(at, 500 + u64::from(number));
        match message {
            ToData::Open(open) => self.open_log(at, number, open),
            ToData::Build => self.startup_input(at, number, StartupInput::LeaseConfirmed),
            ToData::Engine(input) => self.engine_input(at, number, input),
            ToData::Answer(asker, answer) => {
                let process = &self.processes[usize::from(number)];
                if process.asker != asker {
                    return;
                }
                match &process.plane {
                    Plane::Idle => {}
                    Plane::Starting { .. } => self.startup_answer(at, number, answer),
                    Plane::Serving(_) => self.engine_input(at, number, engine_answer(answer)),
                }
            }
        }
        self.drain_data(at, number);
    }

    pub(super) fn data_tick(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &mut self.processes[usize::from(number)];
        if process.data_timer.is_none_or(|due| due > at) {
            return;
        }
        process.data_timer = None;
        self.trace.event(at, 500 + u64::from(number));
        match &process.plane {
            Plane::Idle => {}
            Plane::Starting { .. } => self.startup_input(at, number, StartupInput::Tick),
            Plane::Serving(_) => self.engine_input(at, number, engine::Input::Tick),
        }
        self.drain_data(at, number);
    }

    pub(super) fn engine_input(&mut self, at: TrueTime, number: ProcessNumber, input: engine::Input) {
        self.trace.add(&input);
        let process = &mut self.processes[usize::from(number)];
        let now = process.clocks.now(at);
        if let Plane::Serving(serving) = &mut process.plane {
            serving.engine.handle(now, input);
            return;
        }
        match input {
            engine::Input::Call { id, .. } => {
                let answer = Err(CallError::Unavailable);
                self.leave(at, number, Leaving::Reply { call: id, after: Position(0), answer });
            }
            engine::Input::Node(engine::NodeOrder::Close) => {
                process.host(Plane::Idle);
                self.tell_node(at, number, Input::Engine(NodeReport::Closed));
            }
            engine::Input::CallDropped { .. }
            | engine::Input::Frame { .. }
            | engine::Input::StreamClosed { .. }
            | engine::Input::Log(_)
            | engine::Input::Applied { .. }
            | engine::Input::Node(_)
            | engine::Input::Tick => {}
        }
    }

    pub(super) fn drain_data(&mut self, at: TrueTime, number: ProcessNumber) {
        let index = usize::from(number);
        let life = self.processes[index].life;
        while let Some((output, is_new)) = self.next_data_output(number) {
            if is_new {
                self.processes[index].stalled_data = Some(Box::new(output));
                match self.strikes_at_output(at, number) {
                    Strike::Nothing => {}
                    Strike::Frozen | Strike::Dead => return,
                }
                continue;
            }
            match output {
                DataOutput::Startup(output) => self.perform_startup(at, number, output),
                DataOutput::Engine(output) => self.perform_engine(at, number, output),
            }
            if !self.processes[index].lives(life) {
                return;
            }
        }
        let process = &mut self.processes[index];
        let due = match &process.plane {
            Plane::Idle => None,
            Plane::Starting { startup, .. } => startup.poll_timeout(),
            Plane::Serving(serving) => serving.engine.poll_timeout().map(|(instant, _)| instant),
        };
        let due = due.map(|instant| process.clocks.when_instant(instant).max(at));
        if due != process.data_timer {
            process.data_timer = due;
            if let Some(due) = due {
                self.heap.push(due, Event::DataTimer(number, life));
            }
        }
    }

    /// What is to be performed next, and whether nothing could have struck before it yet.
    fn next_data_output(&mut self, number: ProcessNumber) -> Option<(DataOutput, bool)> {
        let process = &mut self.processes[usize::from(number)];
        if let Some(stalled) = process.stalled_data.take() {
            return Some((*stalled, false));
        }
        let output = match &mut process.plane {
            Plane::Idle => None,
            Plane::Starting { startup, .. } => startup.poll_output().map(DataOutput::Startup),
            Plane::Serving(serving) => serving.engine.poll_output().map(DataOutput::Engine),
        }?;
        match &output {
            DataOutput::Startup(output) => self.trace.add(output),
            DataOutput::Engine(output) => self.trace.add(output),
        }
        Some((output, true))
    }

    pub(super) fn show_local_state(&mut self, at: TrueTime, number: ProcessNumber) {
        let local = self.processes[usize::from(number)].local.borrow();
        let seen = Seen::LocalState { process: number, end: local.end(), records: local.records() };
        self.watchers.show(at, &seen);
    }

    fn perform_engine(&mut self, at: TrueTime, number: ProcessNumber, output: Output) {
        let index = usize::from(number);
        match output {
            Output::Reply { id, after, answer } => {
                self.hold(at, number, after, Leaving::Reply { call: id, after, answer });
            }
            Output::Send { stream, after, frame } => {
                if let ServerFrame::Task(task) = &frame {
                    self.watchers.show(at, &Seen::TaskMade { process: number, stream, after, task });
                }
                self.hold(at, number, after, Leaving::Frame { stream, after, frame });
            }
            Output::Withdraw { stream, handout } => {
                let doomed = |leaving: &Leaving| {
                    matches!(leaving, Leaving::Frame { stream: to, frame: ServerFrame::Task(task), .. }
                        if *to == stream && task.handout == handout)
                };
                let process = &mut self.processes[index];
                if let Plane::Serving(serving) = &mut process.plane {
                    serving.outbox.remove(doomed);
                }
                process.held.retain(|leaving| !doomed(leaving));
            }
            Output::CloseStream { stream } => {
                self.hold(at, number, Position(0), Leaving::Close(stream));
            }
            Output::Log(AppenderOutput::Write { request, position, entry }) => {
                self.write_log(at, number, request, position, entry);
            }
            Output::Log(AppenderOutput::Read { request, position }) => {
                self.ask_log(at, number, request, LogKind::Read { from: position, at_most: 1 });
            }
            Output::Log(AppenderOutput::Apply { end, changes }) => {
                self.watchers.show(at, &Seen::Applied { process: number, end, changes: &changes });
                let flush = self.dice.chance(Stream::Store, "flush", 50_000);
                let process = &mut self.processes[index];
                {
                    let mut local = process.local.borrow_mut();
                    local.apply(end, changes);
                    if flush {
                        local.flush();
                    }
                }
                let asker = self.processes[index].asker;
                let applied = DataAnswer::Applied(end.position);
                self.tell_data(at, number, ToData::Answer(asker, applied));
                self.became_durable(at, number, end.position);
            }
            Output::Log(AppenderOutput::Failed(reason)) => {
                self.trace.line(at, || format!("p{number} cannot write the log: {reason}"));
                self.tell_node(at, number, Input::Failed(reason));
            }
            Output::Node(report) => self.tell_node(at, number, Input::Engine(report)),
            Output::Event(event) => self.trace.line(at, || format!("p{number} {event:?}")),
        }
    }
}

fn engine_answer(answer: DataAnswer) -> engine::Input {
    match answer {
        DataAnswer::Written { request, outcome } => {
            engine::Input::Log(AppenderInput::Written { request, outcome })
        }
        DataAnswer::Range { request, mut entries, then } => {
            let outcome = match (entries.pop(), then) {
                (Some(body), _) => {
                    ReadOutcome::Found { version: Version(Blob::default()), body, stamp_ms: None }
                }
                (None, ReadEnd::Missing) => ReadOutcome::Missing,
                (None, ReadEnd::Transient { retry_after_ms }) => ReadOutcome::Transient { retry_after_ms },
                (None, ReadEnd::Permanent) => ReadOutcome::Permanent,
                (None, ReadEnd::LocalFailure) => ReadOutcome::LocalFailure,
                (None, ReadEnd::Full) => unreachable!("a full range has entries"),
            };
            engine::Input::Log(AppenderInput::Read { request, outcome })
        }
        DataAnswer::Applied(position) => engine::Input::Applied { position },
        DataAnswer::Listed { .. } | DataAnswer::LocalStore(_) => {
            unreachable!("an engine neither lists nor replaces its store")
        }
    }
}
