//! The data plane under any sequence of inputs, plausible or not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use dexzd_core::engine::*;
use dexzd_core::ids::{
    Blob, CallId, Epoch, HandoutId, MessageId, Name, Position, ProcessId, RequestId, RunId, StepExecutionId,
    StreamId,
};
use dexzd_core::log::{AppenderInput, AppenderOutput, Entry, LogEnd, Origin};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use dexzd_core::time::{Instant, Now, SlowInstant, Timestamp};

use super::feed::Feed;

const MOST_OUTPUTS: usize = 20_000;
const MOST_TICKS: usize = 2_000;

/// Rules: no panic; drains and timers come to an end; log writes are contiguous and well formed; what an
/// answer or frame waits for was gathered; a call is answered once, and only if it was asked; hand-outs are
/// never named twice; nothing leaves after the engine was closed.
pub fn engine_inputs(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    let mut world = World::new(&mut feed);
    world.settle();
    if feed.below(8) != 1 {
        world.handle(Input::Node(NodeOrder::Serve));
    }
    while !feed.is_empty() && !world.failed {
        let input = world.next(&mut feed);
        world.handle(input);
    }
}

#[derive(Default)]
struct Store(std::rc::Rc<std::cell::RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl StateRead for Store {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.borrow().get(key).cloned()
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        if from >= to {
            return;
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        for (key, value) in self.0.borrow().range::<[u8], _>(range) {
            if !visit(key, value) {
                return;
            }
        }
    }
}

struct World {
    engine: Engine<Store>,
    store: std::rc::Rc<std::cell::RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>,
    micros: u64,
    wall: u64,
    /// Answers of the log come at once unless the feed holds them back.
    slow_log: bool,
    writes: Vec<(RequestId, Position, Blob)>,
    applies: Vec<Position>,
    end: LogEnd,
    calls: BTreeMap<CallId, bool>,
    runs: Vec<RunId>,
    messages: Vec<MessageId>,
    handouts: Vec<HandoutId>,
    seen_handouts: BTreeSet<HandoutId>,
    closed: bool,
    failed: bool,
}

impl World {
    fn new(feed: &mut Feed<'_>) -> Self {
        let store = Store::default();
        let shared = std::rc::Rc::clone(&store.0);
        // Sometimes the local store has something in it already.
        for _ in 0..feed.below(3) {
            let key = [feed.byte(), feed.byte(), feed.byte()].to_vec();
            shared.borrow_mut().insert(key, feed.blob().to_vec());
        }
        let config = EngineConfig {
            origin: Origin { node_id: Name::new("n"), process_id: ProcessId(1), epoch: Epoch(1) },
            log_end: LogEnd { position: Position(1), chain: dexzd_core::log::Chain::default() },
            newest_time: Timestamp::from_millis(feed.millis()),
            seed: feed.number(),
            retention_ms: feed.millis(),
        };
        let end = config.log_end;
        Self {
            engine: Engine::new(config, store),
            store: shared,
            micros: 1_000_000,
            wall: 5_000_000,
            slow_log: feed.flag(),
            writes: Vec::new(),
            applies: Vec::new(),
            end,
            calls: BTreeMap::new(),
            runs: Vec::new(),
            messages: Vec::new(),
            handouts: Vec::new(),
            seen_handouts: BTreeSet::new(),
            closed: false,
            failed: false,
        }
    }

    fn now(&self) -> Now {
        Now {
            instant: Instant::from_micros(self.micros),
            slow: SlowInstant::from_micros(self.micros),
            wall: Timestamp::from_micros(self.wall),
        }
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(self.now(), input);
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..MOST_TICKS {
            self.drain();
            match self.engine.poll_timeout() {
                Some((at, _)) if at.as_micros() <= self.micros && !self.failed => {
                    self.engine.handle(self.now(), Input::Tick);
                }
                _ => return,
            }
        }
        panic!("a timer stays due: {:?}", self.engine.poll_timeout());
    }

    fn drain(&mut self) {
        for _ in 0..MOST_OUTPUTS {
            match self.engine.poll_output() {
                Some(output) => self.output(output),
                None if self.slow_log || self.failed => return,
                None if self.writes.is_empty() && self.applies.is_empty() => return,
                None => self.log_answers(0),
            }
        }
        panic!("outputs without an end");
    }

    fn output(&mut self, output: Output) {
        let gathered = Position(self.end.position.0 + 1_000);
        match output {
            Output::Reply { id, after, answer } => {
                assert!(after <= gathered, "{after} lies far behind the log's end {}", self.end.position);
                let answered = self.calls.get_mut(&id).expect("an answer belongs to a call");
                assert!(!*answered, "{id} is answered again: {answer:?}");
                *answered = true;
                match answer {
                    Ok(Answer::Started { run_id, .. }) => self.runs.push(run_id),
                    Ok(Answer::Published(messages)) => self.messages.extend(messages),
                    _ => {}
                }
            }
            Output::Send { after, frame, .. } => {
                assert!(!self.closed, "{frame:?} leaves a closed engine");
                assert!(after <= gathered);
                if let ServerFrame::Task(task) = frame {
                    assert!(self.seen_handouts.insert(task.handout), "{:?} twice", task.handout);
                    assert!(task.attempt >= 1 && task.handout.epoch == Epoch(1));
                    self.handouts.push(task.handout);
                }
            }
            Output::Log(AppenderOutput::Write { request, position, entry }) => {
                assert_eq!(position, self.end.position.next(), "entries are contiguous");
                let (decoded, _) = Entry::decode(&entry, "n").expect("what is written is an entry");
                decoded.follows(&self.end).expect("entries are chained");
                self.writes.push((request, position, entry));
            }
            Output::Log(AppenderOutput::Read { request, position }) => {
                self.writes.push((request, position, Blob::default()));
            }
            Output::Log(AppenderOutput::Apply { end, changes }) => {
                assert_eq!(end.position, self.end.position.next(), "entries are applied in order");
                self.end = end;
                let mut store = self.store.borrow_mut();
                for change in changes {
                    match change.value {
                        Some(value) => store.insert(change.key, value),
                        None => store.remove(&change.key),
                    };
                }
                self.applies.push(end.position);
            }
            Output::Log(AppenderOutput::Failed(_)) => self.failed = true,
            Output::Node(NodeReport::Closed) => self.closed = true,
            Output::Node(_) | Output::Withdraw { .. } | Output::CloseStream { .. } | Output::Event(_) => {}
        }
    }

    fn log_answers(&mut self, fate: u8) {
        if !self.applies.is_empty() && (fate == 1 || self.writes.is_empty()) {
            let position = self.applies.remove(0);
            return self.engine.handle(self.now(), Input::Applied { position });
        }
        if self.writes.is_empty() {
            return;
        }
        let (request, _, entry) = self.writes.remove(0);
        let input = if entry.is_empty() {
            AppenderInput::Read { request, outcome: ReadOutcome::Missing }
        } else {
            AppenderInput::Written {
                request,
                outcome: match fate {
                    2 => WriteOutcome::Transient { retry_after_ms: None },
                    3 => WriteOutcome::Refused,
                    _ => WriteOutcome::Done { version: Version(Blob::default()) },
                },
            }
        };
        self.engine.handle(self.now(), Input::Log(input));
    }

    // --- what may happen ---

    fn next(&mut self, feed: &mut Feed<'_>) -> Input {
        match feed.below(32) {
            0..=9 => {
                let id = CallId(u64::try_from(self.calls.len()).expect("few"));
                self.calls.insert(id, false);
                Input::Call { id, call: self.call(feed) }
            }
            10 => Input::CallDropped { id: CallId(u64::from(feed.byte())) },
            11..=20 => Input::Frame { stream: stream(feed), frame: self.frame(feed) },
            21 => Input::Frame { stream: stream(feed), frame: WorkerFrame::Hello(hello(feed)) },
            22 => Input::StreamClosed { stream: stream(feed) },
            23..=25 => {
                let fate = feed.below(8);
                self.log_answers(fate);
                Input::Tick
            }
            26 => Input::Node(match feed.below(8) {
                0..=2 => NodeOrder::Serve,
                3 => NodeOrder::Drain,
                4 => NodeOrder::Interrupt,
                5 => NodeOrder::Commit,
                _ => NodeOrder::Close,
            }),
            27 => {
                self.wall = self.wall.saturating_sub(feed.millis() * 1_000);
                Input::Tick
            }
            28 => {
                self.wall += feed.millis() * 1_000;
                Input::Tick
            }
            _ => {
                let micros = match feed.below(3) {
                    0 => feed.millis() * 1_000,
                    _ => self
                        .engine
                        .poll_timeout()
                        .map_or(0, |(at, _)| at.as_micros().saturating_sub(self.micros).min(20_000_000_000)),
                };
                self.micros += micros;
                self.wall += micros;
                Input::Tick
            }
        }
    }

    fn target(&self, feed: &mut Feed<'_>) -> Target {
        Target { flow_id: feed.name("f"), run_id: feed.below(4).eq(&0).then(|| self.run(feed)) }
    }

    fn run(&self, feed: &mut Feed<'_>) -> RunId {
        let index = usize::from(feed.byte());
        self.runs.get(index % self.runs.len().max(1)).copied().unwrap_or(RunId(index as u128))
    }

    fn message(&self, feed: &mut Feed<'_>) -> MessageId {
        let index = usize::from(feed.byte());
        self.messages.get(index % self.messages.len().max(1)).copied().unwrap_or(MessageId(index as u128))
    }

    fn handout(&self, feed: &mut Feed<'_>) -> HandoutId {
        match feed.byte() {
            byte if byte < 230 && !self.handouts.is_empty() => {
                let back = usize::from(byte) % self.handouts.len();
                self.handouts[self.handouts.len() - 1 - back]
            }
            byte => HandoutId { epoch: Epoch(1), counter: u64::from(byte) },
        }
    }

    fn call(&self, feed: &mut Feed<'_>) -> Call {
        let request_id = feed.name("r");
        let kind = feed.below(20);
        if kind < 7 {
            return Call::Start(Box::new(StartFlow {
                request_id,
                flow_id: feed.name("f"),
                flow_type: feed.name("t"),
                start: feed.maybe(movement),
                timeout_ms: feed.maybe(Feed::millis),
                timeout_policy: feed.maybe(|feed| match feed.below(3) {
                    0 => TimeoutPolicy::Fail,
                    1 => TimeoutPolicy::Cancel,
                    _ => TimeoutPolicy::Handler,
                }),
                has_timeout_handler: feed.flag(),
                timeout_handler: None,
                id_reuse: match feed.below(4) {
                    0 => IdReusePolicy::Disallow,
                    1 => IdReusePolicy::AllowIfPreviousAbnormal,
                    2 => IdReusePolicy::AllowIfNotRunning,
                    _ => IdReusePolicy::TerminateIfRunning,
                },
                ignore_already_started: feed.flag(),
                start_delay_ms: feed.maybe(Feed::millis),
                attributes: feed.few(attribute),
                config: config(feed),
                retention_ms: feed.maybe(Feed::millis),
            }));
        }
        let target = self.target(feed);
        match kind {
            7 => Call::Stop {
                request_id,
                target,
                kind: match feed.below(3) {
                    0 => StopKind::Cancel,
                    1 => StopKind::Terminate,
                    _ => StopKind::Fail,
                },
                reason: feed.name("why"),
            },
            8 | 9 => Call::Publish { request_id, target, publications: feed.few(publication) },
            10 => Call::WriteAttributes { request_id, target, writes: feed.few(attribute) },
            11 => Call::DeleteMessages {
                request_id,
                target,
                channel: key(feed, "c"),
                messages: feed.few(|feed| self.message(feed)),
            },
            12 => Call::SkipTimer {
                request_id,
                target,
                timer: match feed.below(3) {
                    0 => TimerTarget::Condition { step: step(feed), id: feed.name("i") },
                    1 => TimerTarget::Index { step: step(feed), index: u32::from(feed.below(4)) },
                    _ => TimerTarget::FlowTimeout,
                },
            },
            13 => Call::UpdateConfig { request_id, target, config: config(feed) },
            14 => Call::Describe(target),
            15 => Call::State(target),
            16 => Call::History { target, start_event: feed.number(), page_size: u32::from(feed.byte()) },
            17 => Call::WaitForEvent { target, event: feed.number(), wait_ms: feed.maybe(Feed::millis) },
            18 => match feed.flag() {
                true => Call::WaitForFlow { target, wait_ms: feed.maybe(Feed::millis) },
                false => Call::WaitForStep { target, step: step(feed), wait_ms: feed.maybe(Feed::millis) },
            },
            _ => Call::Search {
                filter: SearchFilter {
                    flow_types: feed.few(|feed| feed.name("t")),
                    statuses: feed.few(|_| FlowStatus::Running),
                    flow_ids: feed.few(|feed| feed.name("f")),
                    flow_id_prefix: feed.maybe(|feed| feed.name("f")),
                    started_from: feed.maybe(|feed| Timestamp::from_millis(feed.millis())),
                    started_before: feed.maybe(|feed| Timestamp::from_millis(feed.millis())),
                    active_step_types: feed.few(|feed| feed.name("s")),
                },
                page_size: u32::from(feed.byte()),
                page_token: feed.maybe(|feed| PageToken {
                    start_time: Timestamp::from_millis(feed.millis()),
                    run_id: self.run(feed),
                }),
            },
        }
    }

    fn frame(&self, feed: &mut Feed<'_>) -> WorkerFrame {
        let handout = self.handout(feed);
        match feed.below(12) {
            0..=2 => WorkerFrame::WaitForDone { handout, wait: wait(feed), effects: self.effects(feed) },
            3..=6 => {
                WorkerFrame::ExecuteDone { handout, decision: decision(feed), effects: self.effects(feed) }
            }
            7 => WorkerFrame::Failed {
                handout,
                failure: Failure { error_type: feed.name("e"), detail: feed.name("d"), stack: None },
                non_retryable: feed.flag(),
                retry_after_ms: feed.maybe(Feed::millis),
            },
            8 => WorkerFrame::Heartbeat { handout, checkpoint: feed.maybe(value) },
            9 => WorkerFrame::Decline { handout },
            10 => WorkerFrame::Return { handout },
            _ if feed.flag() => WorkerFrame::StopTaking,
            _ => WorkerFrame::Pong,
        }
    }

    fn effects(&self, feed: &mut Feed<'_>) -> Effects {
        Effects {
            attributes: feed.few(attribute),
            publications: feed.few(publication),
            deletions: feed
                .few(|feed| MessageDeletion { channel: key(feed, "c"), message: self.message(feed) }),
            locals: feed.few(named),
            events: feed.few(named),
        }
    }
}

fn stream(feed: &mut Feed<'_>) -> StreamId {
    StreamId(u64::from(feed.below(3)))
}

fn hello(feed: &mut Feed<'_>) -> Hello {
    Hello {
        worker: feed.name("w"),
        slots: u32::from(feed.below(5)),
        flow_types: feed.few(|feed| FlowTypeDefinition {
            name: feed.name("t"),
            step_types: feed.few(|feed| feed.name("s")),
            timeout_handler: feed.flag(),
        }),
    }
}

fn step(feed: &mut Feed<'_>) -> StepExecutionId {
    StepExecutionId { step_type: feed.name("s"), number: u32::from(feed.below(4)) }
}

fn value(feed: &mut Feed<'_>) -> Value {
    Value { encoding: feed.name("json"), data: feed.blob() }
}

fn named(feed: &mut Feed<'_>) -> NamedValue {
    NamedValue { name: feed.name("n"), value: value(feed) }
}

fn key(feed: &mut Feed<'_>, kind: &str) -> Key {
    Key { name: feed.name(kind), instance: feed.maybe(|feed| feed.name("k")) }
}

fn publication(feed: &mut Feed<'_>) -> Publication {
    Publication { channel: key(feed, "c"), value: value(feed) }
}

fn attribute(feed: &mut Feed<'_>) -> AttributeWrite {
    AttributeWrite {
        key: key(feed, "a"),
        value: feed.maybe(|feed| match feed.below(5) {
            0 => AttributeValue::String(feed.name("v")),
            1 => AttributeValue::Int(i64::from(feed.byte())),
            2 => AttributeValue::Double(f64::from(feed.byte())),
            3 => AttributeValue::Bool(feed.flag()),
            _ => AttributeValue::Object(value(feed)),
        }),
    }
}

fn config(feed: &mut Feed<'_>) -> FlowConfig {
    FlowConfig {
        active_step_search: feed.maybe(|feed| match feed.below(3) {
            0 => ActiveStepSearch::All,
            1 => ActiveStepSearch::WaitForOnly,
            _ => ActiveStepSearch::None,
        }),
        step_durability: feed.maybe(durability),
    }
}

fn durability(feed: &mut Feed<'_>) -> Durability {
    if feed.flag() { Durability::Async } else { Durability::Sync }
}

fn method_options(feed: &mut Feed<'_>) -> MethodOptions {
    MethodOptions {
        timeout_ms: feed.maybe(Feed::millis),
        retry: feed.maybe(|feed| RetryPolicy {
            initial_interval_seconds: i32::from(feed.below(4)),
            backoff_coefficient: f64::from(feed.below(4)),
            maximum_interval_seconds: i32::from(feed.byte()),
            maximum_attempts: i32::from(feed.below(5)) - 1,
            total_duration_seconds: i32::from(feed.byte()),
        }),
        durability: feed.maybe(durability),
        loads: feed.few(|feed| match feed.below(4) {
            0 => Load::AttributeInstance(key(feed, "a")),
            1 => Load::AttributeMap(feed.name("a")),
            2 => Load::Channel(key(feed, "c")),
            _ => Load::ChannelMap(feed.name("c")),
        }),
    }
}

fn movement(feed: &mut Feed<'_>) -> Movement {
    let plain = feed.flag();
    Movement {
        step_type: feed.name("s"),
        input: feed.maybe(value),
        options: if plain {
            StepOptions { skip_wait_for: feed.flag(), ..StepOptions::default() }
        } else {
            StepOptions {
                wait_for: method_options(feed),
                execute: method_options(feed),
                heartbeat_timeout_ms: feed.maybe(Feed::millis),
                wait_for_failure: if feed.flag() {
                    WaitForFailurePolicy::Proceed
                } else {
                    WaitForFailurePolicy::FailFlow
                },
                recovery: feed.maybe(|feed| {
                    Box::new(Recovery { step_type: feed.name("s"), options: StepOptions::default() })
                }),
                skip_wait_for: feed.flag(),
            }
        },
    }
}

fn wait(feed: &mut Feed<'_>) -> Wait {
    Wait {
        kind: match feed.below(5) {
            0 => WaitKind::Skip,
            1 => WaitKind::UntilOne,
            2 => WaitKind::AllOf,
            3 => WaitKind::AnyOf,
            _ => WaitKind::AnyCombinationOf(feed.few(|feed| feed.few(|feed| feed.name("i")))),
        },
        conditions: feed.few(|feed| Condition {
            id: feed.maybe(|feed| feed.name("i")),
            kind: if feed.flag() {
                ConditionKind::Timer { duration_ms: feed.millis() }
            } else {
                ConditionKind::Channel {
                    channel: key(feed, "c"),
                    at_least: feed.maybe(|feed| u32::from(feed.below(4))),
                    at_most: feed.maybe(|feed| u32::from(feed.below(4))),
                }
            },
        }),
    }
}

fn decision(feed: &mut Feed<'_>) -> Decision {
    Decision {
        kind: match feed.below(8) {
            0..=2 => DecisionKind::GoTo(feed.few(movement)),
            3 => DecisionKind::GracefulComplete(feed.maybe(value)),
            4 => DecisionKind::DeadEnd,
            5 => DecisionKind::ForceComplete(feed.maybe(value)),
            6 => DecisionKind::ForceFail(feed.name("why")),
            _ => DecisionKind::ForceCompleteIfChannelsEmpty {
                output: feed.maybe(value),
                channels: feed.few(|feed| key(feed, "c")),
                fallback: feed.few(movement),
            },
        },
        cancel_steps: feed.few(|feed| feed.name("s")),
        cancel_sibling_steps: feed.few(|feed| feed.name("s")),
    }
}
