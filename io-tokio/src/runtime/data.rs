//! The data plane's thread: opens the log, then drives `core::engine`.
//!
//! It takes in all that waits, lets the core decide, and hands out what follows: entries to the log,
//! changes to the local store, answers and frames to whoever waits for them, once they are durable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use dexzd_core::engine::{Engine, Input, NodeOrder, NodeReport, Output};
use dexzd_core::ids::Position;
use dexzd_core::log::{AppenderOutput, Startup};
use dexzd_core::node::{Input as NodeInput, OpenLog, Period};
use dexzd_core::stop::StopReason;
use dexzd_core::time::{Instant, Now};

use super::data_exits::Exits;
use super::event::{EventSink, ShellEvent};
use super::messages::{ApplyMessage, ApplySender, ControlSender, DataMessage, LogMessage, LogSender, Sender};
use super::threads::panic_text;
use super::upkeep::UpkeepMessage;
use crate::clock::Clock;
use crate::local::{LocalReadFailed, LocalStore};

/// The engine's sign of life comes at least once a second (D-54).
const ALIVE_INTERVAL: Duration = Duration::from_millis(900);
/// What waits is taken in at once and shares an entry, up to this: then what it led to goes out.
const BATCH_MESSAGES: usize = 512;
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

pub(super) struct DataPlane {
    pub(super) inbox: Receiver<DataMessage>,
    pub(super) control: ControlSender,
    pub(super) log: LogSender,
    pub(super) apply: ApplySender,
    pub(super) upkeep: Sender<UpkeepMessage>,
    pub(super) clock: Arc<Clock>,
    pub(super) events: Arc<dyn EventSink>,
    /// Told to the control plane, which reads it when it looks (D-53).
    pub(super) durable: Arc<AtomicU64>,
    /// Told by the apply thread. Nothing waits for it, so it wakes nobody.
    pub(super) applied: Arc<AtomicU64>,
    pub(super) applied_told: u64,
    pub(super) settings: DataSettings,
    pub(super) exits: Exits,
    pub(super) phase: Phase,
    pub(super) alive_due: Instant,
    /// The role period of this tenure: what comes from another one is for nobody (D-16).
    pub(super) period: Period,
}

/// What the engine and the start are told by the configuration.
pub(super) struct DataSettings {
    pub(super) node_id: String,
    /// Whether the log is synced before it acknowledges (D-53).
    pub(super) synced: bool,
}

/// Where the data plane is in the life of its one epoch.
pub(super) enum Phase {
    /// No lease yet.
    Idle,
    /// Waiting for the local store.
    OpeningLocal(OpenLog),
    /// Reading the log to its end, writing the fence.
    Starting(Box<Starting>),
    /// The engine lives.
    Running(Box<Engine<Arc<dyn LocalStore>>>),
    /// Closed or failed: nothing is done any more.
    Over,
}

pub(super) struct Starting {
    pub(super) open: OpenLog,
    pub(super) startup: Startup,
    /// None while a new one is on its way.
    pub(super) local: Option<Arc<dyn LocalStore>>,
}

impl DataPlane {
    /// Runs until it is told to stop. A panic of the core or a local store that cannot be read ends the
    /// epoch with a reason, never the thread without a word.
    pub(super) fn run(mut self) {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.serve())) {
                Ok(()) => return,
                Err(panic) => {
                    let (reason, detail) = match panic.downcast::<LocalReadFailed>() {
                        Ok(failed) => (StopReason::LocalStoreFailed, failed.0.to_string()),
                        Err(panic) => (StopReason::Internal, panic_text("the data plane", &*panic)),
                    };
                    self.fail(reason, detail);
                }
            }
        }
    }

    fn serve(&mut self) {
        loop {
            let Some(first) = self.next_message() else {
                self.tick();
                self.see_applied();
                self.hand_out();
                continue;
            };
            let mut message = Some(first);
            for _ in 0..BATCH_MESSAGES {
                let Some(taken) = message.take() else {
                    break;
                };
                if matches!(taken, DataMessage::Stop) {
                    self.phase = Phase::Over;
                    self.exits.close();
                    return;
                }
                self.take_in(taken);
                message = self.inbox.try_recv().ok();
            }
            if let Some(last) = message {
                self.take_in(last);
            }
            // What was received comes before what became due meanwhile (D-57).
            self.tick();
            self.see_applied();
            self.hand_out();
        }
    }

    fn see_applied(&mut self) {
        let applied = self.applied.load(Ordering::Acquire);
        if applied > self.applied_told {
            self.applied_told = applied;
            self.engine(Input::Applied { position: Position(applied) });
        }
    }

    fn next_message(&self) -> Option<DataMessage> {
        let now = self.clock.now().instant;
        let sleep = match self.due() {
            Some(due) if due <= now => return self.inbox.try_recv().ok(),
            Some(due) => due.saturating_since(now),
            None => LONGEST_SLEEP,
        };
        match self.inbox.recv_timeout(sleep) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            // Every sender is gone: nobody can ask for anything any more.
            Err(RecvTimeoutError::Disconnected) => Some(DataMessage::Stop),
        }
    }

    fn due(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Idle | Phase::OpeningLocal(_) | Phase::Over => None,
            Phase::Starting(starting) => starting.startup.poll_timeout(),
            Phase::Running(engine) => {
                Some(engine.poll_timeout().map_or(self.alive_due, |(due, _)| due.min(self.alive_due)))
            }
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        match &mut self.phase {
            Phase::Idle | Phase::OpeningLocal(_) | Phase::Over => {}
            Phase::Starting(_) => self.tick_start(now),
            Phase::Running(engine) => {
                if engine.poll_timeout().is_some_and(|(due, _)| due <= now.instant) {
                    engine.handle(now, Input::Tick);
                }
                if self.alive_due <= now.instant {
                    self.alive_due = now.instant.saturating_add(ALIVE_INTERVAL);
                    self.control.send(NodeInput::EngineAlive);
                }
            }
        }
    }

    fn take_in(&mut self, message: DataMessage) {
        match message {
            DataMessage::Call { id, opened_in, call, reply } => {
                if self.serves(opened_in) {
                    self.exits.call_opened(id, reply);
                    self.engine(Input::Call { id, call });
                }
                // Else the dropped sender says UNAVAILABLE.
            }
            DataMessage::CallDropped { id } => {
                self.exits.call_dropped(id);
                self.engine(Input::CallDropped { id });
            }
            DataMessage::StreamOpened { id, opened_in, frames } => {
                if self.serves(opened_in) {
                    self.exits.stream_opened(id, frames);
                }
            }
            DataMessage::Frame { stream, frame } => {
                // What arrives after the engine ended the stream belongs to nobody.
                if self.exits.has_stream(stream) {
                    self.engine(Input::Frame { stream, frame });
                }
            }
            DataMessage::StreamClosed { stream } => {
                if self.exits.stream_dropped(stream) {
                    self.engine(Input::StreamClosed { stream });
                }
            }
            DataMessage::Log(input) => self.engine(Input::Log(input)),
            DataMessage::Startup(input) => self.startup(input),
            DataMessage::LocalStoreOpened { local } => self.local_opened(local),
            DataMessage::OpenLog { open, period } => {
                self.period = period;
                self.open_log(open);
            }
            DataMessage::Follow(order) => tracing::debug!(?order, "not followed yet"),
            DataMessage::BuildEngine => self.lease_confirmed(),
            DataMessage::Order(order) => self.order(order),
            DataMessage::Stop => unreachable!("the loop takes it"),
        }
    }

    fn serves(&self, opened_in: Period) -> bool {
        matches!(self.phase, Phase::Running(_)) && opened_in == self.period
    }

    fn engine(&mut self, input: Input) {
        if let Phase::Running(engine) = &mut self.phase {
            engine.handle(self.clock.now(), input);
        }
    }

    fn order(&mut self, order: NodeOrder) {
        match (&self.phase, order) {
            (Phase::Running(_), order) => self.engine(Input::Node(order)),
            // No engine was built: nothing can leave.
            (_, NodeOrder::Close) => {
                self.phase = Phase::Over;
                self.control.send(NodeInput::Engine(NodeReport::Closed));
            }
            (_, NodeOrder::Serve | NodeOrder::Drain | NodeOrder::Interrupt | NodeOrder::Commit) => {}
        }
    }

    /// Carries out what the core wants until it wants nothing.
    fn hand_out(&mut self) {
        loop {
            let output = match &mut self.phase {
                Phase::Idle | Phase::OpeningLocal(_) | Phase::Over => break,
                Phase::Starting(_) => {
                    self.hand_out_start();
                    break;
                }
                Phase::Running(engine) => engine.poll_output(),
            };
            let Some(output) = output else {
                break;
            };
            self.perform(output);
        }
        self.exits.release();
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Reply { id, after, answer } => self.exits.reply(id, after, answer),
            Output::Send { stream, after, frame } => self.exits.send(stream, after, frame),
            Output::Withdraw { handout, .. } => self.exits.withdraw(handout),
            Output::CloseStream { stream } => self.exits.close_stream(stream),
            Output::Log(output) => self.perform_log(output),
            Output::Node(report) => {
                if report == NodeReport::Closed {
                    // Calls and streams end here, and nothing leaves after it (D-37).
                    self.exits.close();
                    self.phase = Phase::Over;
                }
                self.control.send(NodeInput::Engine(report));
            }
            Output::Event(event) => self.events.engine(&event),
        }
    }

    fn perform_log(&mut self, output: AppenderOutput) {
        match output {
            AppenderOutput::Write { request, position, entry } => {
                self.log.send(LogMessage::Write { request, position, entry })
            }
            AppenderOutput::Read { request, position } => {
                self.log.send(LogMessage::Read { request, position });
            }
            AppenderOutput::Apply { end, changes } => {
                self.became_durable(end.position);
                self.apply.send(ApplyMessage::Apply { end, changes });
            }
            AppenderOutput::Failed(reason) => {
                self.fail(reason, "a log write ended this epoch".to_owned());
            }
        }
    }

    pub(super) fn became_durable(&mut self, position: Position) {
        self.durable.store(position.0, Ordering::Release);
        self.exits.became_durable(position);
    }

    /// Ends the epoch. Nothing that was not released leaves any more.
    pub(super) fn fail(&mut self, reason: StopReason, detail: String) {
        self.phase = Phase::Over;
        self.exits.close();
        self.events.shell(&ShellEvent::Failure { detail });
        self.control.send(NodeInput::Failed(reason));
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }
}
