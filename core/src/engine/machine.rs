//! The engine's three verbs, and the road that every input takes: decide, settle what follows from it,
//! gather the changes, and give every output the position that it waits for.

use alloc::vec::Vec;
use core::time::Duration;

use minicbor::{Decode, Encode};

use super::call::{CallError, Target};
use super::context::{Context, Staged};
use super::io::{Change, EngineEvent, Input, NodeOrder, NodeReport, Output};
use super::keys;
use super::limits;
use super::queries::damaged_error;
use super::record::CurrentRun;
use super::run::{Run, decode};
use super::runs::Runs;
use super::state::{Overlay, StateRead, View};
use super::turn::Turn;
use crate::ids::{Name, Position, RunId};
use crate::log::{Appender, AppenderOutput, LogEnd, Origin};
use crate::mutant::{self, Mutant};
use crate::time::{Instant, Now, Timestamp};

/// Wall time can jump: a durable timer is looked at again after this time at the latest.
const TIMER_RECHECK: Duration = Duration::from_secs(1);

/// What an engine is told at its construction.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct EngineConfig {
    /// The writer of this epoch.
    #[n(0)]
    pub origin: Origin,
    /// The end of the log: this epoch's fence, applied to the local store.
    #[n(1)]
    pub log_end: LogEnd,
    /// The newest time in the log (D-39).
    #[n(2)]
    pub newest_time: Timestamp,
    /// Decides identifiers and back-off. Drawn anew for every epoch.
    #[n(3)]
    pub seed: u64,
    /// How long a closed run is kept unless its start says otherwise, in milliseconds.
    #[n(4)]
    pub retention_ms: u64,
}

/// Why an engine wants to be called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum EngineTimer {
    /// There is more to recover.
    #[n(0)]
    Recovery,
    /// The log write on its way is retried, or has taken too long.
    #[n(1)]
    LogWrite,
    /// A durable timer is due.
    #[n(2)]
    Timer,
    /// An attempt, a Worker stream or a bounded wait has a deadline.
    #[n(3)]
    Deadline,
}

/// Where an engine is in its epoch. It only moves forward.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lifecycle {
    /// Looking through the queued and running calls of earlier epochs.
    Recovering,
    /// All of them are dealt with; waiting until that is durable.
    RecoveringCommit,
    /// Waiting for the order to serve.
    Recovered,
    Serving,
    /// Serving calls, handing out nothing.
    Draining,
    /// As before, and running attempts were asked to cancel.
    Interrupted,
    /// Refusing calls, making durable what was gathered.
    Committing,
    Committed,
    Closed,
}

/// Counts of a recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recovered {
    pub(super) failed_attempts: u64,
    pub(super) queued_steps: u64,
}

/// The data plane of one epoch.
///
/// ```text
/// let mut engine = Engine::new(config, store);      recovery begins
/// loop {
///     engine.handle(now, input);                    or Input::Tick when poll_timeout() is reached
///     while let Some(output) = engine.poll_output() { … }
///     sleep until an input comes or engine.poll_timeout() is reached
/// }
/// ```
///
/// Several inputs may be handled before outputs are polled: they then share a log entry.
///
/// A reply or frame must not leave before everything up to its `after` is durable; apart from that,
/// frames of a stream may overtake one another: what must not has the same `after`, or a later one. `Output::Log(Apply)`
/// comes when an entry is in the log; what waited for it may leave from then on.
#[derive(Debug)]
pub struct Engine<S> {
    pub(super) store: S,
    pub(super) overlay: Overlay,
    pub(super) appender: Appender,
    pub(super) runs: Runs,
    pub(super) cx: Context,
    /// Changes of the current input, not gathered yet, and whose they are.
    pending: Vec<Change>,
    pending_runs: Vec<RunId>,
    pending_bytes: usize,
    lifecycle: Lifecycle,
    pub(super) recovery_cursor: Vec<u8>,
    pub(super) recovered: Recovered,
    /// Engine time minus wall time, while the wall clock is behind (D-39).
    wall_lag: Duration,
    /// Whether `node` was told that nothing runs any more.
    drained_told: bool,
}

impl<S: StateRead> Engine<S> {
    /// An engine that recovers: it works through [`EngineTimer::Recovery`] ticks, then reports
    /// [`NodeReport::Recovered`].
    pub fn new(config: EngineConfig, store: S) -> Self {
        let mut rng = crate::rng::Rng::new(config.seed);
        let appender_seed = rng.next_u64();
        let epoch = config.origin.epoch;
        let cx = Context::new(epoch, config.retention_ms, config.newest_time, rng.next_u64());
        Self {
            store,
            overlay: Overlay::default(),
            appender: Appender::new(config.origin, config.log_end, appender_seed),
            runs: Runs::default(),
            cx,
            pending: Vec::new(),
            pending_runs: Vec::new(),
            pending_bytes: 0,
            lifecycle: Lifecycle::Recovering,
            recovery_cursor: alloc::vec![b'w'],
            recovered: Recovered::default(),
            wall_lag: Duration::ZERO,
            drained_told: false,
        }
    }

    /// Everything up to here is in the log: what waits for it may leave.
    pub fn durable(&self) -> Position {
        self.appender.durable()
    }

    /// Something happened.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.look_at_clocks(now);
        match input {
            Input::Call { id, call } => self.call(id, call),
            Input::CallDropped { id } => {
                self.drop_poll(id);
            }
            Input::Frame { stream, frame } => {
                if self.serves() {
                    self.frame(stream, frame);
                } else if self.cx.streams.get(stream).is_none() {
                    // Before serving or after the drain, its hello would be lost and the stream would hang:
                    // the Worker opens another one, perhaps to the next active, and says it again.
                    self.cx.outputs.push_back(Output::CloseStream { stream });
                }
            }
            Input::StreamClosed { stream } => self.stream_closed(stream, "its Worker's stream ended"),
            Input::Log(input) => {
                self.appender.handle(now.instant, input);
                self.tasks_left();
            }
            Input::Applied { position } => self.overlay.applied(position),
            Input::Node(order) => self.order(order),
            Input::Tick => self.tick(),
        }
        self.settle();
    }

    /// What the shell must do.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.cx.outputs.pop_front() {
            return Some(output);
        }
        self.appender.poll_output(self.cx.now.instant).map(Output::Log)
    }

    /// When to call `handle` with [`Input::Tick`] at the latest, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, EngineTimer)> {
        let now = self.cx.now.instant;
        let recovery = (self.lifecycle == Lifecycle::Recovering).then_some((now, EngineTimer::Recovery));
        let log = self.appender.poll_timeout().map(|at| (at, EngineTimer::LogWrite));
        let timer = if self.fires_timers() { self.next_timer() } else { None };
        let deadline =
            if self.serves() { self.cx.deadlines.next().map(|at| (at, EngineTimer::Deadline)) } else { None };
        [recovery, log, timer, deadline].into_iter().flatten().min()
    }

    fn next_timer(&self) -> Option<(Instant, EngineTimer)> {
        let now = self.cx.now.instant;
        if self.cx.timers.wants_refill() {
            return Some((now, EngineTimer::Timer));
        }
        let wait = self.cx.timers.next_due()?.saturating_since(self.cx.time);
        Some((now.saturating_add(wait.min(TIMER_RECHECK)), EngineTimer::Timer))
    }

    /// Engine time never goes backwards, and goes on while the wall clock is behind it (D-39, lesson B8).
    fn look_at_clocks(&mut self, now: Now) {
        self.cx.now = now;
        if now.wall >= self.cx.time || mutant::is(Mutant::TimeGoesBack) {
            self.wall_lag = Duration::ZERO;
            self.cx.time = now.wall;
            return;
        }
        let lagging = now.wall.saturating_add(self.wall_lag);
        if lagging < self.cx.time {
            self.wall_lag = self.cx.time.saturating_since(now.wall);
        } else {
            self.cx.time = lagging;
        }
    }

    pub(super) fn serves(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Serving | Lifecycle::Draining | Lifecycle::Interrupted)
    }

    fn fires_timers(&self) -> bool {
        self.serves()
    }

    // Orders of `node`.

    fn order(&mut self, order: NodeOrder) {
        match order {
            NodeOrder::Serve if self.lifecycle == Lifecycle::Recovered => self.lifecycle = Lifecycle::Serving,
            NodeOrder::Drain if self.lifecycle == Lifecycle::Serving => self.lifecycle = Lifecycle::Draining,
            // Nothing was handed out yet, so nothing runs.
            NodeOrder::Drain if self.lifecycle < Lifecycle::Serving => {
                self.cx.outputs.push_back(Output::Node(NodeReport::Drained));
            }
            NodeOrder::Interrupt if self.lifecycle == Lifecycle::Draining => {
                self.lifecycle = Lifecycle::Interrupted;
                self.ask_all_to_cancel();
            }
            NodeOrder::Commit if self.lifecycle < Lifecycle::Committing => {
                self.lifecycle = Lifecycle::Committing;
                self.take_back_unsent();
            }
            NodeOrder::Close if self.lifecycle < Lifecycle::Closed => self.close_all(),
            // Late or repeated: the engine is further already.
            NodeOrder::Serve
            | NodeOrder::Drain
            | NodeOrder::Interrupt
            | NodeOrder::Commit
            | NodeOrder::Close => {}
        }
    }

    fn ask_all_to_cancel(&mut self) {
        let tasks: Vec<_> = self.cx.running.iter().map(|(handout, task)| (*handout, task.clone())).collect();
        for (handout, task) in tasks {
            self.cx.send_cancel(&task, handout, super::frame::CancelReason::DrainOver);
        }
    }

    /// Attempts whose frame never left go back into the queue, by a log record (D-23).
    fn take_back_unsent(&mut self) {
        let durable = self.appender.durable();
        let unsent: Vec<_> = self
            .cx
            .running
            .iter()
            .filter(|(_, task)| task.leaves_after > durable)
            .map(|(handout, task)| (*handout, task.clone()))
            .collect();
        for (handout, task) in unsent {
            self.cx.outputs.push_back(Output::Withdraw { stream: task.stream, handout });
            if let Ok(mut turn) = self.turn(task.run_id) {
                turn.unsent(&task.step);
                self.collect(task.run_id);
            }
        }
    }

    /// Ends every call and stream. Nothing is recorded: what still runs is the next epoch's to fail (D-25).
    fn close_all(&mut self) {
        self.lifecycle = Lifecycle::Closed;
        for call in self.cx.polls.all() {
            self.drop_poll(call);
            let answer = Err(CallError::Unavailable);
            self.cx.outputs.push_back(Output::Reply { id: call, after: Position(0), answer });
        }
        for stream in self.all_streams() {
            self.cx.streams.close(stream);
            self.cx.outputs.push_back(Output::CloseStream { stream });
        }
        self.cx.running.clear();
        self.cx.outputs.push_back(Output::Node(NodeReport::Closed));
    }

    // Time and log.

    fn tick(&mut self) {
        let now = self.cx.now.instant;
        if self.appender.poll_timeout().is_some_and(|at| at <= now) {
            self.appender.handle_timeout(now);
        }
        if self.lifecycle == Lifecycle::Recovering && self.recover_batch() {
            let Recovered { failed_attempts, queued_steps } = self.recovered;
            self.cx.event(EngineEvent::Recovered { failed_attempts, queued_steps });
            self.lifecycle = Lifecycle::RecoveringCommit;
        }
        if self.serves() {
            let mut budget = limits::BATCH;
            while budget > 0
                && let Some(deadline) = self.cx.deadlines.pop_due(now)
            {
                self.deadline(deadline);
                budget -= 1;
            }
        }
        if self.fires_timers() {
            self.fire_timers();
        }
    }

    // The road of every input.

    fn settle(&mut self) {
        if self.lifecycle == Lifecycle::Closed {
            self.drop_staged();
            return;
        }
        for run_id in self.runs.touched() {
            self.serve_waits(run_id);
        }
        if self.lifecycle == Lifecycle::Serving || self.serves() && mutant::is(Mutant::DrainHandsOut) {
            self.dispatch();
        }
        self.gather();
        // Only now does the view have every event that was written for this input.
        for run_id in self.runs.touched() {
            self.answer_polls(run_id);
        }
        self.release_staged();
        self.runs.forget_touched();
        self.runs.evict();
        self.report();
    }

    /// Ends the Waits of a run that came true.
    fn serve_waits(&mut self, run_id: RunId) {
        let Some(run) = self.runs.loaded_mut(run_id) else {
            return;
        };
        let stale = (Turn { run, cx: &mut self.cx }).stale_waits();
        for step in &stale {
            if let Some(run) = self.runs.loaded_mut(run_id) {
                Turn { run, cx: &mut self.cx }.evaluate_wait(step);
                self.collect(run_id);
            }
        }
        if let Some(run) = self.runs.loaded_mut(run_id) {
            Turn { run, cx: &mut self.cx }.waits_served();
        }
    }

    /// Hands queued calls to Workers as long as somebody can take one.
    fn dispatch(&mut self) {
        while !self.cx.queue.is_empty() {
            let streams = &self.cx.streams;
            let Some((key, work)) = self.cx.queue.oldest(|key| streams.has_taker(key)) else {
                return;
            };
            let Some(call) = self.cx.queue.remove(&key, work) else {
                return;
            };
            // A run that cannot be read is reported and left alone; its key in the store stays.
            let Ok(mut turn) = self.turn(call.run_id) else {
                continue;
            };
            if let Some(stream) = turn.cx.streams.pick(&key, turn.run.last_stream) {
                turn.hand_out(&call.step, stream);
            }
            self.collect(call.run_id);
        }
    }

    /// Takes up what changed about a run. Called after every part of an input that may be large, so that
    /// no input decides more than an entry can hold.
    pub(super) fn collect(&mut self, run_id: RunId) {
        self.take_up(run_id);
        if self.pending_bytes >= limits::DECISION_BYTES {
            self.gather();
        }
    }

    fn take_up(&mut self, run_id: RunId) {
        let before = self.pending.len();
        self.pending.append(&mut self.cx.changes);
        let of_run = self.pending.len();
        if let Some(run) = self.runs.loaded_mut(run_id) {
            run.save(&mut self.pending);
        }
        if self.pending.len() > of_run {
            self.pending_runs.push(run_id);
        }
        self.pending_bytes += self.pending[before..].iter().map(Change::bytes).sum::<usize>();
    }

    /// Turns everything that changed so far into a decision of the log, and gives what was staged so far
    /// its position.
    pub(super) fn gather(&mut self) {
        // Whatever is staged may speak of any of them.
        for run_id in self.runs.touched() {
            if let Some(run) = self.runs.loaded_mut(run_id) {
                Turn { run, cx: &mut self.cx }.remember_stale_waits();
            }
            self.take_up(run_id);
        }
        self.pending.append(&mut self.cx.changes);
        let changes = core::mem::take(&mut self.pending);
        let runs = core::mem::take(&mut self.pending_runs);
        self.pending_bytes = 0;
        if !changes.is_empty() {
            let copies = changes.clone();
            let position = self
                .appender
                .gather(self.cx.time, changes)
                .expect("the limits of requests, Attributes and messages keep a decision below 32 MiB");
            self.overlay.add(position, copies);
            for run_id in runs {
                if let Some(run) = self.runs.loaded_mut(run_id) {
                    run.position = position;
                }
            }
        }
        self.release_staged();
    }

    fn release_staged(&mut self) {
        // What was just gathered is the newest there is.
        let gathered = self.appender.gathered();
        for staged in core::mem::take(&mut self.cx.staged) {
            let output = match staged {
                Staged::Reply { call, run_id, answer } => {
                    let after = match (&answer, run_id.and_then(|id| self.runs.loaded(id))) {
                        _ if mutant::is(Mutant::AnswerBeforeDurable) => Position(0),
                        (Err(_), _) if mutant::is(Mutant::ErrorsDontWait) => Position(0),
                        (Err(CallError::InvalidArgument { .. } | CallError::Unavailable), _) => Position(0),
                        (_, Some(run)) => run.position,
                        (_, None) => gathered,
                    };
                    Output::Reply { id: call, after, answer }
                }
                Staged::Task { stream, handout, at_once, frame } => {
                    let at_once = at_once || mutant::is(Mutant::TaskBeforeDurable);
                    let after = if at_once { Position(0) } else { gathered };
                    if let Some(task) = self.cx.running.get_mut(&handout) {
                        task.leaves_after = after;
                        if task.heartbeat_timeout.is_some() {
                            self.cx.leaving.entry(after).or_default().push(handout);
                        }
                    }
                    Output::Send { stream, after, frame }
                }
                Staged::Committed { stream, frame } => Output::Send { stream, after: gathered, frame },
                Staged::Following { stream, after, frame } => Output::Send { stream, after, frame },
            };
            self.cx.outputs.push_back(output);
        }
        self.tasks_left();
    }

    /// Begins to listen for heartbeats of the tasks that leave by now.
    fn tasks_left(&mut self) {
        let durable = self.appender.durable();
        while let Some(first) = self.cx.leaving.first_entry().filter(|first| *first.key() <= durable) {
            for handout in first.remove() {
                self.cx.task_left(handout);
            }
        }
    }

    fn drop_staged(&mut self) {
        for staged in core::mem::take(&mut self.cx.staged) {
            if let Staged::Reply { call, .. } = staged {
                let answer = Err(CallError::Unavailable);
                self.cx.outputs.push_back(Output::Reply { id: call, after: Position(0), answer });
            }
        }
        self.cx.changes.clear();
        self.pending.clear();
        self.pending_runs.clear();
        self.pending_bytes = 0;
        self.runs = Runs::default();
    }

    /// Tells `node` when what it waits for is there.
    fn report(&mut self) {
        if self.lifecycle == Lifecycle::RecoveringCommit && self.appender.is_idle() {
            self.lifecycle = Lifecycle::Recovered;
            self.cx.outputs.push_back(Output::Node(NodeReport::Recovered));
        }
        if matches!(self.lifecycle, Lifecycle::Draining | Lifecycle::Interrupted)
            && self.cx.running.is_empty()
            && !self.drained_told
        {
            self.cx.outputs.push_back(Output::Node(NodeReport::Drained));
            self.drained_told = true;
        }
        if self.lifecycle == Lifecycle::Committing && self.appender.is_idle() {
            self.lifecycle = Lifecycle::Committed;
            self.cx.outputs.push_back(Output::Node(NodeReport::Committed));
        }
    }

    // Runs.

    /// The state as decided.
    pub(super) fn view(&self) -> View<'_, S> {
        self.overlay.over(&self.store)
    }

    /// The latest run of a Flow ID.
    pub(super) fn latest_run(&mut self, flow_id: &Name) -> Result<Option<RunId>, CallError> {
        let key = keys::current_run(flow_id);
        match self.view().get(&key).map(|value| decode::<CurrentRun>(&key, &value)) {
            None => Ok(None),
            Some(Ok(current)) => Ok(Some(current.run_id)),
            Some(Err(error)) => Err(self.damaged(error)),
        }
    }

    /// The run that a call addresses.
    pub(super) fn target(&mut self, target: &Target) -> Result<RunId, CallError> {
        match target.run_id {
            None => self.latest_run(&target.flow_id)?.ok_or(CallError::NotFound),
            Some(run_id) => {
                let run = self.read_run(run_id)?;
                if run.base.flow_id == target.flow_id { Ok(run_id) } else { Err(CallError::NotFound) }
            }
        }
    }

    /// A run, to read.
    pub(super) fn read_run(&mut self, id: RunId) -> Result<&Run, CallError> {
        // Two look-ups: the second one, which cannot fail, ends the borrow that the error needs.
        let gathered = self.appender.gathered();
        let view = self.overlay.over(&self.store);
        if let Err(error) = self.runs.read(id, &view, gathered) {
            return Err(self.damaged(error));
        }
        self.runs.loaded(id).ok_or(CallError::NotFound)
    }

    /// A run's turn: what it changes belongs to the current input.
    pub(super) fn turn(&mut self, id: RunId) -> Result<Turn<'_>, CallError> {
        let gathered = self.appender.gathered();
        let view = self.overlay.over(&self.store);
        match self.runs.touch(id, &view, gathered) {
            Ok(run) => Ok(Turn { run, cx: &mut self.cx }),
            Err(error) => Err(damaged_error(&error)),
        }
    }
}

/// Whether the shell must stop the process because of this output.
#[must_use]
pub const fn stop_reason(output: &Output) -> Option<crate::stop::StopReason> {
    match output {
        Output::Log(AppenderOutput::Failed(reason)) => Some(*reason),
        Output::Log(
            AppenderOutput::Write { .. } | AppenderOutput::Read { .. } | AppenderOutput::Apply { .. },
        )
        | Output::Reply { .. }
        | Output::Send { .. }
        | Output::Withdraw { .. }
        | Output::CloseStream { .. }
        | Output::Node(_)
        | Output::Event(_) => None,
    }
}
