//! Performs what the start of an epoch and the engine want.

use dexzd_core::engine::{self, CallError, Engine, EngineConfig, NodeReport, Output, ServerFrame};
use dexzd_core::gate::GateView;
use dexzd_core::ids::{Blob, Name, Position, RequestId};
use dexzd_core::log::{
    AppenderInput, AppenderOutput, ListOutcome, Origin, Outbox, ReadEnd, Startup, StartupInput,
    StartupOptions, StartupOutput,
};
use dexzd_core::node::{Input, OpenLog};
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, WriteOutcome};

use super::process::{DiskWrite, Leaving, Plane, Serving, ToData};
use super::{Event, NODE, Place, ProductWorld};
use crate::TrueTime;
use crate::dice::Stream;
use crate::store::{Operation, StoreAnswer};
use crate::watch::{ProcessNumber, Seen};
use crate::weather::{self, Heard, Sky};
use crate::{MILLISECOND, SECOND};

/// Closed runs are kept for longer than any simulated run.
const RETENTION_MS: u64 = 7 * 24 * 3_600 * 1_000;

/// A request to the log in the store, on its way.
#[derive(Clone, Debug)]
pub(super) struct LogRequest {
    process: ProcessNumber,
    life: u32,
    of_start: bool,
    kind: LogKind,
    request: RequestId,
    heard: Heard,
}

#[derive(Clone, Debug)]
enum LogKind {
    Write { position: Position, entry: Blob },
    Read { from: Position, at_most: u32 },
    List { after: Position },
}

impl ProductWorld {
    pub(super) fn data_message(&mut self, at: TrueTime, number: ProcessNumber, message: ToData) {
        self.trace.event(at, 500 + u64::from(number));
        match message {
            ToData::Open(open) => self.open_log(at, number, open),
            ToData::Build => self.startup_input(at, number, StartupInput::LeaseConfirmed),
            ToData::Startup(input) => self.startup_input(at, number, input),
            ToData::Engine(input) => self.engine_input(at, number, input),
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

    fn open_log(&mut self, at: TrueTime, number: ProcessNumber, open: OpenLog) {
        let seed = self.dice.seed(Stream::Jitter(number), "startup");
        let process = &mut self.processes[usize::from(number)];
        let origin = Origin { node_id: Name::new(NODE), process_id: open.process_id, epoch: open.epoch };
        let local = process.local.borrow().end();
        let options = StartupOptions {
            origin: origin.clone(),
            lease_duration_ms: open.lease_duration.as_millis(),
            trimmed_below: open.trimmed_below,
            log_end: open.log_end,
            synced: true,
            local,
            seed,
        };
        let startup = Box::new(Startup::new(process.clocks.now(at), options));
        process.plane = Plane::Starting { startup, origin };
    }

    fn startup_input(&mut self, at: TrueTime, number: ProcessNumber, input: StartupInput) {
        self.trace.add(&input);
        let process = &mut self.processes[usize::from(number)];
        let now = process.clocks.now(at);
        if let Plane::Starting { startup, .. } = &mut process.plane {
            startup.handle(now, input);
        }
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
                process.plane = Plane::Idle;
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
        loop {
            match &mut self.processes[index].plane {
                Plane::Idle => break,
                Plane::Starting { startup, .. } => match startup.poll_output() {
                    None => break,
                    Some(output) => {
                        self.trace.add(&output);
                        if self.strikes_at_output(at, number) {
                            return;
                        }
                        self.perform_startup(at, number, output);
                    }
                },
                Plane::Serving(serving) => match serving.engine.poll_output() {
                    None => break,
                    Some(output) => {
                        self.trace.add(&output);
                        if self.strikes_at_output(at, number) {
                            return;
                        }
                        self.perform_engine(at, number, output);
                    }
                },
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

    fn perform_startup(&mut self, at: TrueTime, number: ProcessNumber, output: StartupOutput) {
        let index = usize::from(number);
        match output {
            StartupOutput::Read { request, from, at_most, .. } => {
                self.ask_log(at, number, true, request, LogKind::Read { from, at_most });
            }
            StartupOutput::List { request, after } => {
                self.ask_log(at, number, true, request, LogKind::List { after });
            }
            StartupOutput::Write { request, position, entry } => {
                self.write_log(at, number, true, request, position, entry);
            }
            StartupOutput::Apply { end, changes } => {
                self.processes[index].local.borrow_mut().apply(end, changes);
                let applied = StartupInput::Applied { position: end.position };
                self.tell_data(at, number, ToData::Startup(applied));
            }
            StartupOutput::DiscardLocalStore(reason) => {
                self.trace.line(at, || format!("p{number} discards its local store: {reason:?}"));
                let process = &mut self.processes[index];
                process.local = crate::local_store::SharedStore::default();
                let end = process.local.borrow().end();
                self.tell_data(at, number, ToData::Startup(StartupInput::LocalStore { end }));
            }
            StartupOutput::FenceAccepted { .. } => self.tell_node(at, number, Input::LogFenced),
            StartupOutput::LogShorter { known, found } => {
                self.trace.line(at, || format!("p{number} the log ends at {found}, not {known}"));
            }
            StartupOutput::EpochBehind { found, .. } => {
                self.trace.line(at, || format!("p{number} the log carries epoch {found}"));
                self.tell_node(at, number, Input::Failed(StopReason::LeaseTaken));
            }
            StartupOutput::Ready { end, newest_time, entries_applied } => {
                self.trace.line(at, || {
                    format!("p{number} is ready at {}, {entries_applied} entries applied", end.position)
                });
                let seed = self.dice.seed(Stream::Jitter(number), "engine");
                let process = &mut self.processes[index];
                let Plane::Starting { origin, .. } = std::mem::replace(&mut process.plane, Plane::Idle)
                else {
                    unreachable!("a start gave this output")
                };
                let config =
                    EngineConfig { origin, log_end: end, newest_time, seed, retention_ms: RETENTION_MS };
                let mut outbox = Outbox::new();
                outbox.release(end.position).for_each(drop);
                process.plane = Plane::Serving(Box::new(Serving {
                    engine: Engine::new(config, process.local.clone()),
                    outbox,
                    durable: end.position,
                }));
                let life = process.life;
                self.heap.push(at, Event::Alive(number, life));
                self.show_local_state(at, number);
            }
            StartupOutput::Failed { reason, at: position, error } => {
                self.trace.line(at, || format!("p{number} cannot start: {reason} at {position} {error:?}"));
                self.tell_node(at, number, Input::Failed(reason));
            }
        }
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
                self.write_log(at, number, false, request, position, entry);
            }
            Output::Log(AppenderOutput::Read { request, position }) => {
                self.ask_log(at, number, false, request, LogKind::Read { from: position, at_most: 1 });
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
                let applied = engine::Input::Applied { position: end.position };
                self.tell_data(at, number, ToData::Engine(applied));
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

    /// Keeps something until its position is durable.
    fn hold(&mut self, at: TrueTime, number: ProcessNumber, after: Position, leaving: Leaving) {
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

    fn became_durable(&mut self, at: TrueTime, number: ProcessNumber, position: Position) {
        let Plane::Serving(serving) = &mut self.processes[usize::from(number)].plane else {
            return;
        };
        serving.durable = position;
        let ready: Vec<Leaving> = serving.outbox.release(position).collect();
        for leaving in ready {
            self.leave(at, number, leaving);
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
            Plane::Idle | Plane::Starting { .. } => Position(0),
        };
        if view == GateView::Doubt {
            process.held.push_back(leaving);
            self.tell_node(at, number, Input::Tick);
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

    // The log.

    fn write_log(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        of_start: bool,
        request: RequestId,
        position: Position,
        entry: Blob,
    ) {
        if self.config.place == Place::Store {
            self.ask_log(at, number, of_start, request, LogKind::Write { position, entry });
            return;
        }
        let fails = self.dice.chance(Stream::Store, "sync_fails", self.strikes.failing_syncs);
        let takes = self.dice.between(Stream::Store, "sync", 100, 2 * MILLISECOND);
        let stalls = self.dice.chance(Stream::Store, "sync_stalls", self.strikes.failing_syncs);
        let process = &mut self.processes[usize::from(number)];
        assert!(process.disk_write.is_none(), "one log write is in flight at a time (D-10)");
        if fails {
            process.disk.failing_syncs = 1;
        }
        let log = process.log.as_mut().expect("a running process has its log open");
        match log.begin(&mut process.disk, position, &entry) {
            Ok(()) => {
                process.disk_write = Some(DiskWrite { request, position, entry, of_start });
                let life = process.life;
                let takes = if stalls { SECOND } else { takes };
                self.heap.push(at + takes, Event::DiskSynced(number, life));
            }
            Err(outcome) => self.log_written(at + takes, number, of_start, request, outcome),
        }
    }

    pub(super) fn disk_synced(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &mut self.processes[usize::from(number)];
        let Some(write) = process.disk_write.take() else {
            return;
        };
        let log = process.log.as_mut().expect("a running process has its log open");
        let outcome = log.finish(&mut process.disk);
        if matches!(outcome, WriteOutcome::Done { .. }) {
            self.show_durable(at, write.position, &write.entry);
        }
        self.log_written(at, number, write.of_start, write.request, outcome);
    }

    fn log_written(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        of_start: bool,
        request: RequestId,
        outcome: WriteOutcome,
    ) {
        let message = if of_start {
            ToData::Startup(StartupInput::Written { request, outcome })
        } else {
            ToData::Engine(engine::Input::Log(AppenderInput::Written { request, outcome }))
        };
        self.tell_data(at, number, message);
    }

    fn ask_log(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        of_start: bool,
        request: RequestId,
        kind: LogKind,
    ) {
        let fate = match self.config.place {
            Place::Disk => self.quick_fate(),
            Place::Store => weather::fate(&mut self.dice, &self.store_faults, Sky::Clear),
        };
        let told = || {
            let what = match &kind {
                LogKind::Write { position, .. } => format!("writes entry {position}"),
                LogKind::Read { from, .. } => format!("reads from {from}"),
                LogKind::List { after } => format!("lists behind {after}"),
            };
            format!("p{number} {what} {fate:?}")
        };
        self.trace.line(at, told);
        self.trace.message(at, number, fate, told);
        let life = self.processes[usize::from(number)].life;
        if let Some((after, message)) = failed(of_start, request, &kind, fate.heard) {
            self.heap.push(at + after, Event::ToData(number, life, Box::new(message)));
        }
        for (after, heard) in fate.landings() {
            let kind = kind.clone();
            let log_request = LogRequest { process: number, life, of_start, kind, request, heard };
            self.heap.push(at + after, Event::LogLands(Box::new(log_request)));
        }
    }

    pub(super) fn log_lands(&mut self, at: TrueTime, landing: LogRequest) {
        let LogRequest { process: number, life, of_start, kind, request, heard } = landing;
        self.trace.event(at, 600 + u64::from(number));
        let message = match kind {
            LogKind::Write { position, entry } => {
                let answer = self.store.apply(at, &Self::log_key(position), Operation::Create(entry.clone()));
                let StoreAnswer::Write(outcome) = answer else {
                    unreachable!("a create is answered as a write")
                };
                if matches!(outcome, WriteOutcome::Done { .. }) {
                    self.trace.line(at, || format!("store: entry {position} of p{number}"));
                    self.show_durable(at, position, &entry);
                }
                if of_start {
                    ToData::Startup(StartupInput::Written { request, outcome })
                } else {
                    ToData::Engine(engine::Input::Log(AppenderInput::Written { request, outcome }))
                }
            }
            LogKind::Read { from, at_most } if of_start => {
                let entries: Vec<Blob> = (from.0..from.0 + u64::from(at_most))
                    .map_while(|position| self.entry(number, Position(position)))
                    .collect();
                let full = entries.len() as u64 == u64::from(at_most);
                let then = if full { ReadEnd::Full } else { ReadEnd::Missing };
                ToData::Startup(StartupInput::Read { request, entries, then })
            }
            LogKind::Read { from, .. } => {
                let outcome = match self.entry(number, from) {
                    Some(body) => ReadOutcome::Found {
                        version: dexzd_core::store::Version(Blob::default()),
                        body,
                        stamp_ms: None,
                    },
                    None => ReadOutcome::Missing,
                };
                ToData::Engine(engine::Input::Log(AppenderInput::Read { request, outcome }))
            }
            LogKind::List { after } => {
                let first = (after.0 + 1..=self.shown + 1)
                    .find(|position| self.entry(number, Position(*position)).is_some())
                    .map(Position);
                let outcome = ListOutcome::First(first);
                ToData::Startup(StartupInput::Listed { request, outcome })
            }
        };
        if let Heard::Answer { after } = heard {
            self.heap.push(at + after, Event::ToData(number, life, Box::new(message)));
        }
    }

    fn entry(&self, number: ProcessNumber, position: Position) -> Option<Blob> {
        match self.config.place {
            Place::Store => self.store.peek(&Self::log_key(position)).cloned(),
            Place::Disk => {
                let log = self.processes[usize::from(number)].log.as_ref()?;
                match log.read(position) {
                    ReadOutcome::Found { body, .. } => Some(body),
                    ReadOutcome::Missing
                    | ReadOutcome::Transient { .. }
                    | ReadOutcome::Permanent
                    | ReadOutcome::LocalFailure => None,
                }
            }
        }
    }
}

/// What the caller hears without the store having carried its request out.
fn failed(of_start: bool, request: RequestId, kind: &LogKind, heard: Heard) -> Option<(TrueTime, ToData)> {
    let (after, write, read, then, listing) = match heard {
        Heard::Transient { after, retry_after_ms } => (
            after,
            WriteOutcome::Transient { retry_after_ms },
            ReadOutcome::Transient { retry_after_ms },
            ReadEnd::Transient { retry_after_ms },
            ListOutcome::Transient { retry_after_ms },
        ),
        // Reads have no condition: such an answer to one is a fault of the store.
        Heard::Refused { after } => (
            after,
            WriteOutcome::Refused,
            ReadOutcome::Transient { retry_after_ms: None },
            ReadEnd::Transient { retry_after_ms: None },
            ListOutcome::Transient { retry_after_ms: None },
        ),
        Heard::Permanent { after } => (
            after,
            WriteOutcome::Permanent,
            ReadOutcome::Permanent,
            ReadEnd::Permanent,
            ListOutcome::Permanent,
        ),
        Heard::Answer { .. } | Heard::Nothing => return None,
    };
    let message = match kind {
        LogKind::Write { .. } if of_start => {
            ToData::Startup(StartupInput::Written { request, outcome: write })
        }
        LogKind::Write { .. } => {
            ToData::Engine(engine::Input::Log(AppenderInput::Written { request, outcome: write }))
        }
        LogKind::Read { .. } if of_start => {
            ToData::Startup(StartupInput::Read { request, entries: Vec::new(), then })
        }
        LogKind::Read { .. } => {
            ToData::Engine(engine::Input::Log(AppenderInput::Read { request, outcome: read }))
        }
        LogKind::List { .. } => ToData::Startup(StartupInput::Listed { request, outcome: listing }),
    };
    Some((after, message))
}
