//! Drives an engine by hand: a map for a local store, a log that accepts at once or is held back.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Bound;
use core::time::Duration;

use crate::engine::*;
use crate::ids::{Blob, CallId, Epoch, HandoutId, Name, Position, ProcessId, StreamId};
use crate::log::{AppenderInput, AppenderOutput, LogEnd, Origin};
use crate::store::{Version, WriteOutcome};
use crate::time::{Instant, Now, SlowInstant, Timestamp};

/// A local store that outlives its engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Store(pub(super) Rc<RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl StateRead for Store {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.borrow().get(key).cloned()
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let range = (Bound::Included(from), Bound::Excluded(to));
        for (key, value) in self.0.borrow().range::<[u8], _>(range) {
            if !visit(key, value) {
                return;
            }
        }
    }
}

/// An engine, its store and log, and everything that has left it.
pub(super) struct Driver {
    pub(super) engine: Engine<Store>,
    pub(super) store: Store,
    pub(super) now: Now,
    end: LogEnd,
    epoch: u64,
    /// While true, writes to the log are not answered.
    pub(super) hold_log: bool,
    held: VecDeque<AppenderOutput>,
    waiting: Vec<(Position, Output)>,
    pub(super) replies: BTreeMap<CallId, Result<Answer, CallError>>,
    pub(super) frames: BTreeMap<StreamId, VecDeque<ServerFrame>>,
    pub(super) closed_streams: Vec<StreamId>,
    pub(super) reports: Vec<NodeReport>,
    pub(super) events: Vec<EngineEvent>,
    next_call: u64,
    next_stream: u64,
}

impl Driver {
    /// A serving engine over an empty store, at second 1,000.
    pub(super) fn new() -> Self {
        Self::over(Store::default(), 1, LogEnd::default(), at(1_000_000))
    }

    fn over(store: Store, epoch: u64, end: LogEnd, now: Now) -> Self {
        let origin =
            Origin { node_id: "node".into(), process_id: ProcessId(u128::from(epoch)), epoch: Epoch(epoch) };
        let config = EngineConfig {
            origin,
            log_end: end,
            newest_time: Timestamp::ZERO,
            seed: epoch,
            retention_ms: limits::RETENTION_MS,
        };
        let engine = Engine::new(config, store.clone());
        let mut driver = Self {
            engine,
            store,
            now,
            end,
            epoch,
            hold_log: false,
            held: VecDeque::new(),
            waiting: Vec::new(),
            replies: BTreeMap::new(),
            frames: BTreeMap::new(),
            closed_streams: Vec::new(),
            reports: Vec::new(),
            events: Vec::new(),
            next_call: 1,
            next_stream: 1,
        };
        driver.run();
        assert_eq!(driver.reports, [NodeReport::Recovered]);
        driver.input(Input::Node(NodeOrder::Serve));
        driver
    }

    /// The node crashes and another epoch begins: what the log did not accept is gone.
    pub(super) fn crash(self) -> Self {
        Self::over(self.store, self.epoch + 1, self.end, self.now)
    }

    /// Gives the engine an input and does what follows from it.
    pub(super) fn input(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.run();
    }

    /// Lets time pass, stopping wherever the engine wants to be called.
    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now.instant.saturating_add(duration);
        while let Some((due, _)) = self.engine.poll_timeout().filter(|(due, _)| *due <= end) {
            self.advance(due.saturating_since(self.now.instant));
            self.input(Input::Tick);
        }
        self.advance(end.saturating_since(self.now.instant));
    }

    fn advance(&mut self, duration: Duration) {
        self.now.instant = self.now.instant.saturating_add(duration);
        self.now.slow = self.now.slow.saturating_add(duration);
        self.now.wall = self.now.wall.saturating_add(duration);
    }

    /// Calls the engine and returns the ID under which the answer appears.
    pub(super) fn call(&mut self, call: Call) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.input(Input::Call { id, call });
        id
    }

    /// Calls the engine and returns the answer, which must be there.
    pub(super) fn answer(&mut self, call: Call) -> Result<Answer, CallError> {
        let id = self.call(call);
        self.replies.remove(&id).expect("the call is answered at once")
    }

    /// Opens a Worker stream for these Step types of the Flow type `Flow`.
    pub(super) fn worker(&mut self, slots: u32, step_types: &[&str]) -> StreamId {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        let definition = FlowTypeDefinition {
            name: "Flow".into(),
            step_types: step_types.iter().map(|name| Name::new(name)).collect(),
            timeout_handler: true,
        };
        let worker = alloc::format!("worker-{stream}").into();
        let hello = Hello { worker, slots, flow_types: alloc::vec![definition] };
        self.input(Input::Frame { stream, frame: WorkerFrame::Hello(hello) });
        stream
    }

    pub(super) fn frame(&mut self, stream: StreamId, frame: WorkerFrame) {
        self.input(Input::Frame { stream, frame });
    }

    /// The next frame of a stream must be a task.
    pub(super) fn task(&mut self, stream: StreamId) -> Task {
        match self.next_frame(stream) {
            Some(ServerFrame::Task(task)) => *task,
            other => panic!("expected a task, found {other:?}"),
        }
    }

    pub(super) fn next_frame(&mut self, stream: StreamId) -> Option<ServerFrame> {
        self.frames.entry(stream).or_default().pop_front()
    }

    pub(super) fn decide(&mut self, stream: StreamId, handout: HandoutId, kind: DecisionKind) {
        let decision = Decision { kind, cancel_steps: Vec::new(), cancel_sibling_steps: Vec::new() };
        let frame = WorkerFrame::ExecuteDone { handout, decision, effects: Effects::default() };
        self.frame(stream, frame);
    }

    /// Answers the writes that were held back.
    pub(super) fn release_log(&mut self) {
        self.hold_log = false;
        while let Some(output) = self.held.pop_front() {
            self.log(output);
        }
        self.run();
    }

    fn run(&mut self) {
        loop {
            while let Some(output) = self.engine.poll_output() {
                self.output(output);
            }
            match self.engine.poll_timeout() {
                Some((due, EngineTimer::Recovery)) if due <= self.now.instant => {
                    self.engine.handle(self.now, Input::Tick);
                }
                Some(_) | None => break,
            }
        }
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Log(output) if self.hold_log => self.held.push_back(output),
            Output::Log(output) => self.log(output),
            Output::Reply { after, .. } | Output::Send { after, .. } => {
                self.waiting.push((after, output));
                self.leave();
            }
            Output::CloseStream { stream } => self.closed_streams.push(stream),
            Output::Node(report) => self.reports.push(report),
            Output::Event(event) => self.events.push(event),
        }
    }

    fn leave(&mut self) {
        let durable = self.engine.durable();
        let (leaving, staying) =
            core::mem::take(&mut self.waiting).into_iter().partition(|(after, _)| *after <= durable);
        self.waiting = staying;
        let leaving: Vec<(Position, Output)> = leaving;
        for (_, output) in leaving {
            match output {
                Output::Reply { id, answer, .. } => {
                    assert!(self.replies.insert(id, answer).is_none(), "{id} was answered twice");
                }
                Output::Send { stream, frame, .. } => self.frames.entry(stream).or_default().push_back(frame),
                other => panic!("{other:?} does not wait"),
            }
        }
    }

    fn log(&mut self, output: AppenderOutput) {
        match output {
            AppenderOutput::Write { request, .. } => {
                let outcome = WriteOutcome::Done { version: Version(Blob::default()) };
                self.engine.handle(self.now, Input::Log(AppenderInput::Written { request, outcome }));
                self.leave();
            }
            AppenderOutput::Apply { end, changes } => {
                self.end = end;
                let mut map = self.store.0.borrow_mut();
                for change in changes {
                    match change.value {
                        Some(value) => map.insert(change.key, value),
                        None => map.remove(&change.key),
                    };
                }
                drop(map);
                self.engine.handle(self.now, Input::Applied { position: end.position });
            }
            AppenderOutput::Read { .. } | AppenderOutput::Failed(_) => panic!("the log accepts everything"),
        }
    }
}

/// All clocks at this many milliseconds.
pub(super) fn at(millis: u64) -> Now {
    Now {
        instant: Instant::from_millis(millis),
        slow: SlowInstant::from_millis(millis),
        wall: Timestamp::from_millis(millis),
    }
}

pub(super) fn value(text: &str) -> Value {
    Value { encoding: "text".into(), data: text.as_bytes().into() }
}

/// A Step without WaitFor.
pub(super) fn movement(step_type: &str, input: &str) -> Movement {
    let options = StepOptions { skip_wait_for: true, ..StepOptions::default() };
    Movement { step_type: step_type.into(), input: Some(value(input)), options }
}

pub(super) fn start(flow_id: &str, request_id: &str, first: Movement) -> StartFlow {
    StartFlow {
        request_id: request_id.into(),
        flow_id: flow_id.into(),
        flow_type: "Flow".into(),
        start: Some(first),
        ..StartFlow::default()
    }
}

pub(super) fn target(flow_id: &str) -> Target {
    Target { flow_id: flow_id.into(), run_id: None }
}
