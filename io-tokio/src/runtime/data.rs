//! The data plane's thread: hosts one machine at a time, which follows the log, opens it, or serves from it.
//!
//! ```text
//! idle ──Follow──▶ following ──OpenLog──▶ starting ──BuildEngine──▶ running ──Close──▶ idle, and so on
//!   └────────────────OpenLog─────────────────▲
//! ```
//!
//! It takes in all that waits, lets the core decide, and hands out what follows: entries to the log,
//! changes to the local store, answers and frames to whoever waits for them, once they are durable. What
//! belongs to a tenure ends with its machine; an answer that comes later finds another asker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use dexzd_core::engine::{Engine, Input, NodeOrder, NodeReport};
use dexzd_core::ids::Position;
use dexzd_core::log::{AppenderInput, LogEnd};
use dexzd_core::node::{Input as NodeInput, Period};
use dexzd_core::standby::{Follower, StandbyConfig};
use dexzd_core::stop::StopReason;
use dexzd_core::time::{Instant, Now};

use super::data_exits::Exits;
use super::data_local::{Local, Purpose, Then};
use super::data_start::Starting;
use super::event::{EventSink, ShellEvent};
use super::messages::{
    ApplySender, Asker, ControlSender, DataMessage, LogAnswer, LogMessage, LogSender, Tenure,
};
use super::threads::panic_text;
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
    pub(super) clock: Arc<Clock>,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) settings: DataSettings,
    pub(super) phase: Phase,
    /// Of the machine hosted now.
    pub(super) asker: Asker,
    pub(super) local: Local,
    /// What the local store contains once all that was given out is applied.
    pub(super) granted: LogEnd,
    pub(super) exits: Exits,
    /// The role period of this tenure: what comes from another one is for nobody (D-16).
    pub(super) period: Period,
    /// Of this tenure, told to the control plane (D-53).
    pub(super) durable: Arc<AtomicU64>,
    /// Of this tenure, told by the apply thread. Nothing waits for it, so it wakes nobody.
    pub(super) applied: Arc<AtomicU64>,
    pub(super) applied_told: u64,
    pub(super) alive_due: Instant,
}

/// What the machines are told by the configuration.
pub(super) struct DataSettings {
    pub(super) node_id: String,
    pub(super) standby: StandbyConfig,
    /// Whether the log is synced before it acknowledges (D-53).
    pub(super) synced: bool,
    /// Whether snapshots can stand in for what was trimmed: on a shared store.
    pub(super) has_snapshots: bool,
}

/// What the data plane hosts.
pub(super) enum Phase {
    /// Nothing: no lease, and nothing to follow.
    Idle,
    /// Waiting for the local store.
    Waiting(Purpose),
    /// Following the log of another process.
    Following(Box<Follower>),
    /// Reading the log to its end, writing the fence.
    Starting(Box<Starting>),
    /// The engine lives.
    Running(Box<Engine<Arc<dyn LocalStore>>>),
    /// Failed: nothing is done any more, and the process ends.
    Over,
}

impl DataPlane {
    /// Runs until it is told to stop. A panic of the core or a local store that cannot be read ends the
    /// tenure with a reason, never the thread without a word.
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
                    self.host(Phase::Over);
                    self.exits.close();
                    self.let_go(Then::Nothing, false);
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

    /// From now on this is hosted. Answers to what was hosted before are for nobody.
    pub(super) fn host(&mut self, phase: Phase) -> Phase {
        self.asker.0 += 1;
        std::mem::replace(&mut self.phase, phase)
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
            Phase::Idle | Phase::Waiting(_) | Phase::Over => None,
            Phase::Following(follower) => follower.poll_timeout(),
            Phase::Starting(starting) => starting.startup.poll_timeout(),
            Phase::Running(engine) => {
                Some(engine.poll_timeout().map_or(self.alive_due, |(due, _)| due.min(self.alive_due)))
            }
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        match &mut self.phase {
            Phase::Idle | Phase::Waiting(_) | Phase::Over => {}
            Phase::Following(_) => self.tick_follower(now),
            Phase::Starting(_) => self.tick_start(now),
            Phase::Running(engine) => {
                if engine.poll_timeout().is_some_and(|(due, _)| due <= now.instant) {
                    engine.handle(now, Input::Tick);
                }
                if self.alive_due <= now.instant {
                    self.alive_due = now.instant.saturating_add(ALIVE_INTERVAL);
                    self.events.shell(&ShellEvent::Workload(engine.workload()));
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
            DataMessage::Log { asker, answer } if asker == self.asker => self.log_answered(answer),
            DataMessage::Applied { asker, position } if asker == self.asker => self.range_applied(position),
            DataMessage::Log { .. } | DataMessage::Applied { .. } => {}
            DataMessage::LocalStoreOpened(opened) => self.local_opened(opened),
            DataMessage::LocalStoreClosed => self.local_closed(),
            DataMessage::OpenLog(tenure) => self.begin_tenure(tenure),
            DataMessage::BuildEngine => self.lease_confirmed(),
            DataMessage::Order(order) => self.order(order),
            DataMessage::Follow(order) => self.follow(order),
            DataMessage::Stop => unreachable!("the loop takes it"),
        }
    }

    /// Everything that a tenure owns begins anew; its gate too, in the control plane.
    fn begin_tenure(&mut self, tenure: Tenure) {
        self.period = tenure.period;
        self.durable = tenure.durable;
        self.applied = Arc::default();
        self.applied_told = 0;
        self.exits = Exits::default();
        self.log.send(LogMessage::BeginEpoch);
        self.open_log(tenure.open);
    }

    fn serves(&self, opened_in: Period) -> bool {
        matches!(self.phase, Phase::Running(_)) && opened_in == self.period
    }

    fn log_answered(&mut self, answer: LogAnswer) {
        match &self.phase {
            Phase::Idle | Phase::Waiting(_) | Phase::Over => {}
            Phase::Following(_) => self.follower_answered(answer),
            Phase::Starting(_) => self.start_answered(answer),
            Phase::Running(_) => match answer {
                LogAnswer::Written { request, outcome } => {
                    self.engine(Input::Log(AppenderInput::Written { request, outcome }));
                }
                LogAnswer::Read { request, outcome } => {
                    self.engine(Input::Log(AppenderInput::Read { request, outcome }));
                }
                LogAnswer::Range { .. } | LogAnswer::Listed { .. } => {
                    unreachable!("an engine reads no ranges")
                }
            },
        }
    }

    fn range_applied(&mut self, position: Position) {
        match &self.phase {
            Phase::Idle | Phase::Waiting(_) | Phase::Running(_) | Phase::Over => {}
            Phase::Following(_) => self.follower_applied(position),
            Phase::Starting(_) => self.start_applied(position),
        }
    }

    pub(super) fn engine(&mut self, input: Input) {
        if let Phase::Running(engine) = &mut self.phase {
            engine.handle(self.clock.now(), input);
        }
    }

    fn order(&mut self, order: NodeOrder) {
        match (&self.phase, order) {
            (Phase::Running(_), order) => self.engine(Input::Node(order)),
            // No engine was built: nothing can leave.
            (_, NodeOrder::Close) => {
                self.end_tenure();
            }
            (_, NodeOrder::Serve | NodeOrder::Drain | NodeOrder::Interrupt | NodeOrder::Commit) => {}
        }
    }

    /// Calls and streams end here, and nothing leaves after it (D-37). Then the local store is made durable
    /// and closed, which may take its time (HA-104).
    pub(super) fn end_tenure(&mut self) {
        self.exits.close();
        self.host(Phase::Idle);
        self.control.send(NodeInput::Engine(NodeReport::Closed));
        self.let_go(Then::TellNode, true);
    }

    /// Carries out what the core wants until it wants nothing.
    fn hand_out(&mut self) {
        loop {
            let output = match &mut self.phase {
                Phase::Idle | Phase::Waiting(_) | Phase::Over => break,
                Phase::Following(_) => {
                    self.hand_out_follower();
                    break;
                }
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

    /// Ends the process. Nothing that was not released leaves any more.
    pub(super) fn fail(&mut self, reason: StopReason, detail: String) {
        self.host(Phase::Over);
        self.exits.close();
        self.events.shell(&ShellEvent::Failure { detail });
        self.control.send(NodeInput::Failed(reason));
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }
}
