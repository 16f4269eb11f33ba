//! A whole node in memory, so that a test reads as a script: one engine, a log that accepts at once or
//! holds back, a local store, a clock that moves when told, Workers and clients that the test plays.
//!
//! ```text
//! let mut world = World::new();
//! let worker = world.worker(&["Pay"]);
//! world.start("f", step("Pay"));
//! let task = world.task(worker);
//! world.execute_done(&task, complete("paid"));
//! assert_eq!(world.status("f"), FlowStatus::Completed);
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::format;
use std::ops::{Bound, Deref};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use crate::engine::*;
use crate::ids::{Blob, CallId, Epoch, HandoutId, Name, Position, ProcessId, RunId, StreamId};
use crate::log::{AppenderInput, AppenderOutput, Chain, Entry, EntryBody, LogEnd, Origin, Outbox};
use crate::store::{Version, WriteOutcome};
use crate::time::{Instant, Now, SlowInstant, Timestamp};

/// The Flow type of all scripts.
pub(super) const FLOW_TYPE: &str = "Order";
/// Where all clocks begin, in milliseconds.
pub(super) const START_MS: u64 = 1_000_000_000;

/// A local store that outlives engines.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Rc<RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl StateRead for Disk {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.borrow().get(key).cloned()
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        for (key, value) in self.0.borrow().range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))) {
            if !visit(key, value) {
                return;
            }
        }
    }
}

impl Disk {
    fn apply(&self, changes: &[Change]) {
        for change in changes {
            match &change.value {
                Some(value) => self.0.borrow_mut().insert(change.key.clone(), value.clone()),
                None => self.0.borrow_mut().remove(&change.key),
            };
        }
    }

    pub(super) fn contents(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.0.borrow().clone()
    }
}

/// A task and the stream that carried it.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) stream: StreamId,
    pub(super) task: Task,
}

impl Deref for Given {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.task
    }
}

/// What a Worker has received and the test has not looked at.
#[derive(Debug, Default)]
struct Inbox {
    tasks: VecDeque<Task>,
    others: Vec<ServerFrame>,
    /// Whether it answers pings.
    silent: bool,
}

enum Leaving {
    Reply(CallId, Result<Answer, CallError>),
    Frame(StreamId, ServerFrame),
    Close(StreamId),
}

pub(super) struct World {
    pub(super) engine: Engine<Disk>,
    pub(super) disk: Disk,
    pub(super) now: Now,
    epoch: u64,
    log_end: LogEnd,
    newest_time: Timestamp,
    /// Log writes stay on their way until `release_log`.
    log_held: bool,
    /// After so many more writes the log begins to hold back by itself.
    writes_until_held: Option<u64>,
    on_the_way: Option<AppenderOutput>,
    outbox: Outbox<Leaving>,
    answers: BTreeMap<CallId, Result<Answer, CallError>>,
    inboxes: BTreeMap<StreamId, Inbox>,
    pub(super) closed_streams: Vec<StreamId>,
    pub(super) reports: Vec<NodeReport>,
    pub(super) events: Vec<EngineEvent>,
    handouts: BTreeSet<HandoutId>,
    next_call: u64,
    next_stream: u64,
    next_request: u64,
}

fn engine(disk: &Disk, epoch: u64, log_end: LogEnd, newest_time: Timestamp) -> Engine<Disk> {
    let origin = Origin { node_id: Name::new("node"), process_id: ProcessId(1), epoch: Epoch(epoch) };
    let config =
        EngineConfig { origin, log_end, newest_time, seed: epoch, retention_ms: limits::RETENTION_MS };
    Engine::new(config, disk.clone())
}

impl World {
    /// A node that serves, with nothing in it.
    pub(super) fn new() -> Self {
        let disk = Disk::default();
        let log_end = LogEnd { position: Position(1), chain: Chain([1; 32]) };
        let mut world = Self {
            engine: engine(&disk, 1, log_end, Timestamp::ZERO),
            disk,
            now: Now {
                instant: Instant::from_millis(START_MS),
                slow: SlowInstant::from_millis(START_MS),
                wall: Timestamp::from_millis(START_MS),
            },
            epoch: 1,
            log_end,
            newest_time: Timestamp::ZERO,
            log_held: false,
            writes_until_held: None,
            on_the_way: None,
            outbox: Outbox::new(),
            answers: BTreeMap::new(),
            inboxes: BTreeMap::new(),
            closed_streams: Vec::new(),
            reports: Vec::new(),
            events: Vec::new(),
            handouts: BTreeSet::new(),
            next_call: 1,
            next_stream: 1,
            next_request: 1,
        };
        world.recover();
        world.serve();
        world
    }

    // The node.

    /// One input and everything that follows from it at once.
    pub(super) fn step(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        let mut pongs = Vec::new();
        loop {
            while let Some(output) = self.engine.poll_output() {
                self.output(output);
            }
            let leaving: Vec<_> = self.outbox.release(self.engine.durable()).collect();
            if leaving.is_empty() {
                break;
            }
            for leaving in leaving {
                pongs.extend(self.leave(leaving));
            }
        }
        for stream in pongs {
            self.frame(stream, WorkerFrame::Pong);
        }
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Reply { id, after, answer } => self.outbox.push(after, Leaving::Reply(id, answer)),
            Output::Send { stream, after, frame } => {
                self.outbox.push(after, Leaving::Frame(stream, frame));
            }
            Output::Withdraw { handout, .. } => self.outbox.remove(|leaving| {
                matches!(leaving, Leaving::Frame(_, ServerFrame::Task(task)) if task.handout == handout)
            }),
            Output::CloseStream { stream } => {
                self.outbox.push(Position(0), Leaving::Close(stream));
            }
            Output::Log(AppenderOutput::Apply { end, changes }) => {
                assert_eq!(end, self.log_end);
                self.disk.apply(&changes);
                self.engine.handle(self.now, Input::Applied { position: end.position });
            }
            Output::Log(write @ AppenderOutput::Write { .. }) => {
                if self.writes_until_held == Some(0) {
                    self.log_held = true;
                }
                self.writes_until_held = self.writes_until_held.and_then(|writes| writes.checked_sub(1));
                if self.log_held {
                    self.on_the_way = Some(write);
                } else {
                    self.accept(write);
                }
            }
            Output::Log(AppenderOutput::Read { .. } | AppenderOutput::Failed(_)) => {
                panic!("this log never fails: {output:?}")
            }
            Output::Node(report) => self.reports.push(report),
            Output::Event(event) => self.events.push(event),
        }
    }

    /// The entry lands.
    fn accept(&mut self, write: AppenderOutput) {
        let request = self.land(write);
        let outcome = WriteOutcome::Done { version: Version(Blob::default()) };
        let written = AppenderInput::Written { request, outcome };
        self.engine.handle(self.now, Input::Log(written));
    }

    fn land(&mut self, write: AppenderOutput) -> crate::ids::RequestId {
        let AppenderOutput::Write { request, entry, .. } = write else {
            unreachable!("only writes are on their way")
        };
        let (entry, chain) = Entry::decode(&entry, "node").expect("the engine writes good entries");
        entry.follows(&self.log_end).expect("the engine continues its log");
        assert!(entry.time >= self.newest_time, "engine time never goes back (D-39)");
        self.newest_time = entry.time;
        self.log_end = LogEnd { position: entry.position, chain };
        request
    }

    /// Gives the Worker or client what has left; the stream that must answer a ping.
    fn leave(&mut self, leaving: Leaving) -> Option<StreamId> {
        match leaving {
            Leaving::Reply(call, answer) => {
                let before = self.answers.insert(call, answer);
                assert!(before.is_none(), "call {call} is answered twice");
            }
            Leaving::Close(stream) => {
                self.inboxes.remove(&stream);
                self.closed_streams.push(stream);
            }
            Leaving::Frame(stream, frame) => {
                let inbox = self.inboxes.get_mut(&stream)?;
                match frame {
                    ServerFrame::Task(task) => {
                        assert!(self.handouts.insert(task.handout), "a hand-out ID is used twice (D-44)");
                        inbox.tasks.push_back(*task);
                    }
                    ServerFrame::Ping if !inbox.silent => return Some(stream),
                    other => inbox.others.push(other),
                }
            }
        }
        None
    }

    /// Log writes stay on their way from now on.
    pub(super) fn hold_log(&mut self) {
        self.log_held = true;
    }

    /// Log writes stay on their way once so many more of them have landed.
    pub(super) fn hold_log_after(&mut self, writes: u64) {
        self.writes_until_held = Some(writes);
    }

    /// Whether a write is on its way.
    pub(super) fn is_stuck(&self) -> bool {
        self.on_the_way.is_some()
    }

    /// What was on its way lands, and so does everything after it.
    pub(super) fn release_log(&mut self) {
        self.log_held = false;
        if let Some(write) = self.on_the_way.take() {
            self.accept(write);
        }
        self.drain();
    }

    /// The node dies; an entry on its way never lands. The next one recovers and serves.
    pub(super) fn crash(&mut self) {
        self.crash_without_serving();
        self.serve();
    }

    /// The node dies after the entry on its way has landed, and before it hears of it.
    pub(super) fn crash_after_landing(&mut self) {
        if let Some(write) = self.on_the_way.take() {
            let AppenderOutput::Write { entry, .. } = &write else {
                unreachable!("only writes are on their way")
            };
            let (entry, _) = Entry::decode(entry, "node").expect("the engine writes good entries");
            let EntryBody::Changes(changes) = &entry.body else { unreachable!("the engine writes changes") };
            self.disk.apply(changes);
            self.land(write);
        }
        self.crash();
    }

    /// Everything in memory is gone and every stream ended (FD-33); the next epoch has recovered.
    pub(super) fn crash_without_serving(&mut self) {
        self.log_held = false;
        self.writes_until_held = None;
        self.on_the_way = None;
        self.outbox = Outbox::new();
        self.inboxes.clear();
        self.epoch += 1;
        let fence = u8::try_from(self.epoch).expect("no script has so many epochs");
        self.log_end = LogEnd { position: self.log_end.position.next(), chain: Chain([fence; 32]) };
        self.engine = engine(&self.disk, self.epoch, self.log_end, self.newest_time);
        self.recover();
    }

    fn recover(&mut self) {
        self.reports.clear();
        while !self.reports.contains(&NodeReport::Recovered) {
            let (_, timer) = self.engine.poll_timeout().expect("recovery asks to be called");
            assert_eq!(timer, EngineTimer::Recovery);
            self.step(Input::Tick);
        }
    }

    pub(super) fn serve(&mut self) {
        self.step(Input::Node(NodeOrder::Serve));
    }

    // Time.

    /// Moves all clocks, and calls the engine whenever it wants to be called.
    pub(super) fn advance_ms(&mut self, millis: u64) {
        let target = self.now.instant.saturating_add(Duration::from_millis(millis));
        let mut calls = 0;
        while let Some((at, _)) = self.engine.poll_timeout().filter(|(at, _)| *at <= target) {
            self.set_instant(at.max(self.now.instant));
            self.step(Input::Tick);
            calls += 1;
            assert!(calls < 100_000, "the engine asks to be called without end");
        }
        self.set_instant(target);
    }

    /// Moves all clocks without calling the engine.
    pub(super) fn freeze_ms(&mut self, millis: u64) {
        self.set_instant(self.now.instant.saturating_add(Duration::from_millis(millis)));
    }

    fn set_instant(&mut self, instant: Instant) {
        let passed = instant.saturating_since(self.now.instant);
        self.now.instant = instant;
        self.now.slow = self.now.slow.saturating_add(passed);
        self.now.wall = self.now.wall.saturating_add(passed);
    }

    /// The wall clock alone jumps.
    pub(super) fn set_wall_ms(&mut self, millis: u64) {
        self.now.wall = Timestamp::from_millis(millis);
    }

    pub(super) fn wall_ms(&self) -> u64 {
        self.now.wall.as_millis()
    }

    // Clients.

    /// A call that need not be answered at once.
    pub(super) fn call(&mut self, call: Call) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.step(Input::Call { id, call });
        id
    }

    /// The answer that has left, once.
    pub(super) fn answer(&mut self, id: CallId) -> Option<Result<Answer, CallError>> {
        self.answers.remove(&id)
    }

    /// A call that is answered at once.
    pub(super) fn ask(&mut self, call: Call) -> Result<Answer, CallError> {
        let shown = format!("{call:?}");
        let id = self.call(call);
        self.answer(id).unwrap_or_else(|| panic!("not answered: {shown}"))
    }

    /// A request ID that was not used before.
    pub(super) fn request_id(&mut self) -> Name {
        self.next_request += 1;
        Name::from(format!("request-{}", self.next_request))
    }

    // Workers.

    /// Connects a Worker that has these Step types, with 10 slots.
    pub(super) fn worker(&mut self, step_types: &[&str]) -> StreamId {
        self.worker_with(10, step_types, false)
    }

    pub(super) fn worker_with(&mut self, slots: u32, step_types: &[&str], timeout_handler: bool) -> StreamId {
        let stream = self.open_stream();
        let definition = FlowTypeDefinition {
            name: Name::new(FLOW_TYPE),
            step_types: step_types.iter().map(|name| Name::new(name)).collect(),
            timeout_handler,
        };
        let worker = Name::from(format!("worker-{stream}"));
        self.frame(stream, WorkerFrame::Hello(Hello { worker, slots, flow_types: vec![definition] }));
        stream
    }

    /// A stream that has not said hello.
    pub(super) fn open_stream(&mut self) -> StreamId {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        self.inboxes.insert(stream, Inbox::default());
        stream
    }

    pub(super) fn frame(&mut self, stream: StreamId, frame: WorkerFrame) {
        self.step(Input::Frame { stream, frame });
    }

    /// The Worker no longer answers pings.
    pub(super) fn fall_silent(&mut self, stream: StreamId) {
        self.inboxes.get_mut(&stream).expect("the stream is open").silent = true;
    }

    /// The Worker's stream ends.
    pub(super) fn disconnect(&mut self, stream: StreamId) {
        self.inboxes.remove(&stream);
        self.step(Input::StreamClosed { stream });
    }

    /// The next task of a stream.
    pub(super) fn task(&mut self, stream: StreamId) -> Given {
        self.try_task(stream).expect("the stream has a task")
    }

    pub(super) fn try_task(&mut self, stream: StreamId) -> Option<Given> {
        let inbox = self.inboxes.get_mut(&stream).expect("the stream is open");
        inbox.tasks.pop_front().map(|task| Given { stream, task })
    }

    /// All tasks of a stream, as text: `Pay-1 execute #1`.
    pub(super) fn task_names(&mut self, stream: StreamId) -> Vec<std::string::String> {
        core::iter::from_fn(|| self.try_task(stream)).map(|given| name_of(&given)).collect()
    }

    /// What else a stream got.
    pub(super) fn others(&mut self, stream: StreamId) -> Vec<ServerFrame> {
        let inbox = self.inboxes.get_mut(&stream).expect("the stream is open");
        core::mem::take(&mut inbox.others)
    }

    pub(super) fn is_open(&self, stream: StreamId) -> bool {
        self.inboxes.contains_key(&stream)
    }

    pub(super) fn open_streams(&self) -> Vec<StreamId> {
        self.inboxes.keys().copied().collect()
    }

    pub(super) fn execute_done(&mut self, given: &Given, kind: DecisionKind) {
        self.execute_with(given, kind, Effects::default());
    }

    pub(super) fn execute_with(&mut self, given: &Given, kind: DecisionKind, effects: Effects) {
        let decision = Decision { kind, cancel_steps: vec![], cancel_sibling_steps: vec![] };
        self.decide(given, decision, effects);
    }

    pub(super) fn decide(&mut self, given: &Given, decision: Decision, effects: Effects) {
        self.frame(given.stream, WorkerFrame::ExecuteDone { handout: given.handout, decision, effects });
    }

    pub(super) fn wait_for_done(&mut self, given: &Given, wait: Wait) {
        self.wait_for_with(given, wait, Effects::default());
    }

    pub(super) fn wait_for_with(&mut self, given: &Given, wait: Wait, effects: Effects) {
        self.frame(given.stream, WorkerFrame::WaitForDone { handout: given.handout, wait, effects });
    }

    /// The handler fails, and nothing is said about the retry.
    pub(super) fn fail(&mut self, given: &Given, error_type: &str) {
        self.fail_with(given, error_type, false, None);
    }

    pub(super) fn fail_with(
        &mut self,
        given: &Given,
        error_type: &str,
        non_retryable: bool,
        retry_after_ms: Option<u64>,
    ) {
        let failure = Failure {
            error_type: Name::new(error_type),
            detail: Name::new("it failed"),
            stack: Some(Name::new("at line 1")),
        };
        let frame = WorkerFrame::Failed { handout: given.handout, failure, non_retryable, retry_after_ms };
        self.frame(given.stream, frame);
    }

    pub(super) fn heartbeat(&mut self, given: &Given, checkpoint: Option<Value>) {
        self.frame(given.stream, WorkerFrame::Heartbeat { handout: given.handout, checkpoint });
    }

    pub(super) fn decline(&mut self, given: &Given) {
        self.frame(given.stream, WorkerFrame::Decline { handout: given.handout });
    }

    pub(super) fn give_back(&mut self, given: &Given) {
        self.frame(given.stream, WorkerFrame::Return { handout: given.handout });
    }

    // Short forms of calls.

    /// Starts a run whose start is accepted.
    pub(super) fn start(&mut self, flow_id: &str, movement: Movement) -> RunId {
        let start = self.start_of(flow_id, Some(movement));
        self.start_flow(start)
    }

    /// A start request, to be changed before it is sent.
    pub(super) fn start_of(&mut self, flow_id: &str, start: Option<Movement>) -> StartFlow {
        StartFlow {
            request_id: self.request_id(),
            flow_id: Name::new(flow_id),
            flow_type: Name::new(FLOW_TYPE),
            start,
            ..StartFlow::default()
        }
    }

    pub(super) fn start_flow(&mut self, start: StartFlow) -> RunId {
        match self.try_start(start) {
            Ok(Answer::Started { run_id, newly: true }) => run_id,
            other => panic!("the start is not accepted: {other:?}"),
        }
    }

    pub(super) fn try_start(&mut self, start: StartFlow) -> Result<Answer, CallError> {
        self.ask(Call::Start(start.into()))
    }

    pub(super) fn publish(
        &mut self,
        flow_id: &str,
        channel: &str,
        texts: &[&str],
    ) -> Vec<crate::ids::MessageId> {
        let publications = texts
            .iter()
            .map(|text| Publication { channel: super::build::key(channel), value: super::build::value(text) })
            .collect();
        let request_id = self.request_id();
        let call = Call::Publish { request_id, target: super::build::target(flow_id), publications };
        match self.ask(call) {
            Ok(Answer::Published(messages)) => messages,
            other => panic!("the publication is not accepted: {other:?}"),
        }
    }

    pub(super) fn stop(&mut self, flow_id: &str, kind: StopKind) -> Result<Answer, CallError> {
        let request_id = self.request_id();
        let target = super::build::target(flow_id);
        self.ask(Call::Stop { request_id, target, kind, reason: Name::new("enough") })
    }

    pub(super) fn skip(&mut self, flow_id: &str, timer: TimerTarget) -> Result<Answer, CallError> {
        let request_id = self.request_id();
        self.ask(Call::SkipTimer { request_id, target: super::build::target(flow_id), timer })
    }

    pub(super) fn state(&mut self, flow_id: &str) -> RunState {
        match self.ask(Call::State(super::build::target(flow_id))) {
            Ok(Answer::State(state)) => *state,
            other => panic!("no state: {other:?}"),
        }
    }

    pub(super) fn summary(&mut self, flow_id: &str) -> Summary {
        self.state(flow_id).summary
    }

    pub(super) fn status(&mut self, flow_id: &str) -> FlowStatus {
        self.summary(flow_id).status
    }

    /// One active Step execution.
    pub(super) fn step_state(&mut self, flow_id: &str, step_type: &str, number: u32) -> StepState {
        let wanted = super::build::step_id(step_type, number);
        let steps = self.state(flow_id).steps;
        steps.into_iter().find(|step| step.step == wanted).unwrap_or_else(|| panic!("{wanted} is not active"))
    }

    /// All active Step executions, as text: `Pay-1 Queued`.
    pub(super) fn phases(&mut self, flow_id: &str) -> Vec<std::string::String> {
        self.state(flow_id).steps.iter().map(|step| format!("{} {:?}", step.step, step.phase)).collect()
    }

    /// The values waiting in a Channel.
    pub(super) fn pending(&mut self, flow_id: &str, channel: &str) -> Vec<std::string::String> {
        let channel = super::build::key(channel);
        let channels = self.state(flow_id).channels;
        channels
            .iter()
            .filter(|found| found.channel == channel)
            .flat_map(|found| &found.messages)
            .map(|message| super::build::text_of(&message.value))
            .collect()
    }

    /// The text of an Attribute.
    pub(super) fn attribute(&mut self, flow_id: &str, name: &str) -> Option<std::string::String> {
        let wanted = super::build::key(name);
        let attributes = self.state(flow_id).attributes;
        attributes.into_iter().find(|entry| entry.key == wanted).map(|entry| match entry.value {
            AttributeValue::String(text) => std::string::String::from(&*text),
            other => format!("{other:?}"),
        })
    }

    pub(super) fn history(&mut self, flow_id: &str) -> Vec<HistoryEvent> {
        let call = Call::History { target: super::build::target(flow_id), start_event: 1, page_size: 1_000 };
        match self.ask(call) {
            Ok(Answer::History { events, .. }) => events,
            other => panic!("no history: {other:?}"),
        }
    }

    /// How a closed run ended.
    pub(super) fn result(&mut self, flow_id: &str) -> FlowResult {
        let call = Call::WaitForFlow { target: super::build::target(flow_id), wait_ms: None };
        match self.ask(call) {
            Ok(Answer::FlowResult(result)) => *result,
            other => panic!("no result: {other:?}"),
        }
    }

    /// The outputs of a closed run, as text.
    pub(super) fn outputs(&mut self, flow_id: &str) -> Vec<std::string::String> {
        let result = self.result(flow_id);
        result
            .outputs
            .iter()
            .map(|output| output.value.as_ref().map_or_else(|| "-".into(), super::build::text_of))
            .collect()
    }
}

/// A task as text: `Pay-1 execute #1`.
pub(super) fn name_of(task: &Task) -> std::string::String {
    let method = match task.method {
        Method::WaitFor => "wait_for",
        Method::Execute => "execute",
    };
    format!("{} {method} #{}", task.step, task.attempt)
}
