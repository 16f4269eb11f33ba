//! The data plane of a process: which machine it hosts, and what its engine wants.

use dexzd_core::engine::{self, CallError, Change, NodeReport, Output, ServerFrame, WorkerFrame};
use dexzd_core::ids::{Blob, Position};
use dexzd_core::log::{AppenderInput, AppenderOutput, LogEnd, ReadEnd, StartupInput};
use dexzd_core::node::Input;
use dexzd_core::snapshot::{BootstrapInput, KeeperInput};
use dexzd_core::standby::FollowerInput;
use dexzd_core::store::{ReadOutcome, Version};

use super::ProductWorld;
use super::event::Event;
use super::log_io::LogKind;
use super::orders::Strike;
use super::process::{DataAnswer, DataOutput, Leaving, Plane, ToData};
use crate::dice::Stream;
use crate::watch::{ProcessNumber, Seen};
use crate::{MILLISECOND, SECOND, TrueTime};

impl ProductWorld {
    pub(super) fn data_message(&mut self, at: TrueTime, number: ProcessNumber, message: ToData) {
        self.trace.event(at, 500 + u64::from(number));
        match message {
            ToData::Open(open) => self.open_log(at, number, open),
            ToData::Build => self.startup_input(at, number, StartupInput::LeaseConfirmed),
            ToData::Engine(input) => self.engine_input(at, number, input),
            ToData::Follow(order) => self.follow(at, number, order),
            ToData::Snapshot(job, answer) => self.snapshot_answer(at, number, job, answer),
            ToData::TrimmedBelow(position) => {
                self.processes[usize::from(number)].trimmed_below = position;
                self.keeper_input(at, number, KeeperInput::TrimmedBelow(position));
            }
            ToData::LeaseWritten(sent_at) => {
                self.keeper_input(at, number, KeeperInput::LeaseWritten { sent_at });
            }
            ToData::Answer(asker, answer) => {
                let process = &self.processes[usize::from(number)];
                if process.asker != asker {
                    return;
                }
                match &process.plane {
                    Plane::Idle => {}
                    Plane::Following(_) => self.follower_answer(at, number, answer),
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
            Plane::Following(_) => self.follower_input(at, number, FollowerInput::Tick),
            Plane::Starting { .. } => self.startup_input(at, number, StartupInput::Tick),
            Plane::Serving(_) => {
                self.engine_input(at, number, engine::Input::Tick);
                self.keeper_input(at, number, KeeperInput::Tick);
            }
        }
        if self.processes[usize::from(number)].bootstrap.is_some() {
            self.bootstrap_input(at, number, BootstrapInput::Tick);
        }
        self.drain_data(at, number);
    }

    pub(super) fn engine_input(&mut self, at: TrueTime, number: ProcessNumber, input: engine::Input) {
        self.trace.add(&input);
        if let engine::Input::Frame { stream, frame: WorkerFrame::Hello(_) } = &input {
            self.greeted(*stream);
        }
        let process = &mut self.processes[usize::from(number)];
        let now = process.clocks.now(at);
        if let Plane::Serving(serving) = &mut process.plane {
            if let engine::Input::Call { id, .. } = &input
                && let Some(call) = process.calls.get_mut(id)
            {
                call.reached = true;
            }
            self.watchers.show(at, &Seen::EngineTold { process: number, input: &input });
            serving.engine.handle(now, input);
            return;
        }
        match input {
            engine::Input::Call { id, .. } => {
                let answer = Err(CallError::Unavailable);
                self.leave(at, number, Leaving::Reply { call: id, after: Position(0), answer });
            }
            engine::Input::Node(engine::NodeOrder::Close) => {
                self.tell_node(at, number, Input::Engine(NodeReport::Closed));
                self.close_store(at, number);
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
                DataOutput::Follower(output) => self.perform_follower(at, number, output),
                DataOutput::Keeper(output) => self.perform_keeper(at, number, output),
                DataOutput::Bootstrap(output) => self.perform_bootstrap(at, number, output),
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
            Plane::Following(follower) => follower.poll_timeout(),
            Plane::Starting { startup, .. } => startup.poll_timeout(),
            Plane::Serving(serving) => {
                let engine = serving.engine.poll_timeout().map(|(instant, _)| instant);
                let keeper = serving.keeper.as_ref().and_then(|keeper| keeper.poll_timeout());
                engine.into_iter().chain(keeper).min()
            }
        };
        let side = process.bootstrap.as_ref().and_then(|bootstrap| bootstrap.poll_timeout());
        let due = due.into_iter().chain(side).min();
        let due = due.map(|instant| process.clocks.when_instant(instant).max(at));
        if due != process.data_timer {
            process.data_timer = due;
            if let Some(due) = due {
                self.heap.push(due, Event::DataTimer(number, life));
            }
        }
    }

    /// Applies entries to the local store, and flushes it now and then.
    pub(super) fn apply(&mut self, at: TrueTime, number: ProcessNumber, end: LogEnd, changes: Vec<Change>) {
        let flush = self.dice.chance(Stream::Store, "flush", 50_000);
        let local = self.processes[usize::from(number)].local.clone();
        let mut store = local.borrow_mut();
        store.apply(end, changes.clone());
        if flush {
            store.flush();
        }
        let digest = store.digest();
        self.watchers.show(at, &Seen::Applied { process: number, end, changes: &changes, digest });
    }

    /// The engine is gone, and the local store closes: at once, or only when a stuck task lets go of it
    /// (HA-104, HA-105).
    fn close_store(&mut self, at: TrueTime, number: ProcessNumber) {
        let epoch = self.epoch_of(number);
        self.forsake(at, number);
        let process = &mut self.processes[usize::from(number)];
        process.host(Plane::Idle);
        process.bootstrap = None;
        let life = process.life;
        let left = process.calls.values().filter(|call| call.reached).count();
        let still_open = self.close_strange_streams(at, number);
        if still_open > 0 || left > 0 {
            let sentence =
                format!("p{number} closed epoch {epoch} with {still_open} streams and {left} calls open");
            self.watchers.complain(at, "FD-33 and HA-95 (the end of a tenure)", sentence);
        }
        let stuck = self.dice.chance(Stream::Store, "stuck_store", self.strikes.stuck_stores);
        let (least, most) = if stuck { (SECOND, 80 * SECOND) } else { (100, 100 * MILLISECOND) };
        let takes = self.dice.between(Stream::Store, "store_closes", least, most);
        self.heap.push(at + takes, Event::ToNode(number, life, Box::new(Input::StoreClosed)));
    }

    /// What is to be performed next, and whether nothing could have struck before it yet.
    fn next_data_output(&mut self, number: ProcessNumber) -> Option<(DataOutput, bool)> {
        let process = &mut self.processes[usize::from(number)];
        if let Some(stalled) = process.stalled_data.take() {
            return Some((*stalled, false));
        }
        let output = match &mut process.plane {
            Plane::Idle => None,
            Plane::Following(follower) => follower.poll_output().map(DataOutput::Follower),
            Plane::Starting { startup, .. } => startup.poll_output().map(DataOutput::Startup),
            Plane::Serving(serving) => {
                let keeper = &mut serving.keeper;
                serving.engine.poll_output().map(DataOutput::Engine).or_else(|| {
                    keeper.as_mut().and_then(|keeper| keeper.poll_output()).map(DataOutput::Keeper)
                })
            }
        };
        let bootstrap = &mut process.bootstrap;
        let output = output.or_else(|| {
            bootstrap.as_mut().and_then(|bootstrap| bootstrap.poll_output()).map(DataOutput::Bootstrap)
        })?;
        match &output {
            DataOutput::Follower(output) => self.trace.add(output),
            DataOutput::Startup(output) => self.trace.add(output),
            DataOutput::Engine(output) => self.trace.add(output),
            DataOutput::Keeper(output) => self.trace.add(output),
            DataOutput::Bootstrap(output) => self.trace.add(output),
        }
        Some((output, true))
    }

    pub(super) fn show_local_state(&mut self, at: TrueTime, number: ProcessNumber) {
        let local = self.processes[usize::from(number)].local.borrow();
        // Nobody has looked at it yet: what is applied to it is compared.
        if local.is_of_another_log() {
            return;
        }
        let seen = Seen::LocalState { process: number, end: local.end(), records: local.records() };
        self.watchers.show(at, &seen);
    }

    fn perform_engine(&mut self, at: TrueTime, number: ProcessNumber, output: Output) {
        let index = usize::from(number);
        self.watchers.show(at, &Seen::EngineSaid { process: number, output: &output });
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
                let bytes = changes.iter().map(bytes_of).sum();
                self.apply(at, number, end, changes);
                self.keeper_input(at, number, KeeperInput::Applied { position: end.position, bytes });
                let asker = self.processes[index].asker;
                let applied = DataAnswer::Applied(end.position);
                self.tell_data(at, number, ToData::Answer(asker, applied));
                self.became_durable(at, number, end.position);
            }
            Output::Log(AppenderOutput::Failed(reason)) => {
                self.trace.line(at, || format!("p{number} cannot write the log: {reason}"));
                self.tell_node(at, number, Input::Failed(reason));
            }
            Output::Node(report) => {
                self.tell_node(at, number, Input::Engine(report));
                if report == NodeReport::Closed {
                    self.close_store(at, number);
                }
            }
            Output::Event(event) => self.trace.line(at, || format!("p{number} {event:?}")),
        }
    }
}

fn bytes_of(change: &Change) -> u64 {
    (change.key.len() + change.value.as_ref().map_or(0, Vec::len)) as u64
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
        DataAnswer::Listed { .. } | DataAnswer::LocalStore(_) | DataAnswer::ReplaceFailed(_) => {
            unreachable!("an engine neither lists nor replaces its store")
        }
    }
}
