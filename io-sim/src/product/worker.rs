//! A simulated Worker: takes tasks, heartbeats, finishes, fails, declines, loses results, crashes, and
//! stays alive when its stream breaks, so that its results come late.

use std::collections::BTreeMap;

use dexzd_core::engine::{Failure, Hello, ServerFrame, Task, WorkerFrame};
use dexzd_core::ids::{HandoutId, Name, StreamId};

use super::flows::{self, Returned, Shape};
use crate::dice::{Dice, Stream};
use crate::swarm::rate;
use crate::{MILLISECOND, SECOND, TrueTime};

/// Rates of Worker faults, in parts of a million tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerFaults {
    /// The handler fails although it need not.
    pub fails: u32,
    /// It says that it has no such Step type.
    pub declines: u32,
    /// It hands the task back unused.
    pub returns: u32,
    /// The handler never ends.
    pub hangs: u32,
    /// The stream breaks while the handler runs; the handler goes on.
    pub cuts: u32,
    /// The Worker's process dies and starts again.
    pub crashes: u32,
    /// The handler takes up to a minute.
    pub slow: u32,
}

impl WorkerFaults {
    /// Draws which of them exist.
    pub fn draw(dice: &mut Dice) -> Self {
        Self {
            fails: rate(dice, "worker_fails").min(300_000),
            declines: rate(dice, "worker_declines").min(300_000),
            returns: rate(dice, "worker_returns").min(300_000),
            hangs: rate(dice, "worker_hangs").min(50_000),
            cuts: rate(dice, "worker_cuts").min(200_000),
            crashes: rate(dice, "worker_crashes").min(200_000),
            slow: rate(dice, "worker_slow").min(500_000),
        }
    }
}

/// Why a Worker wants to be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wake {
    /// A handler is done.
    Finish(HandoutId),
    /// A handler shows that it lives.
    Heartbeat(HandoutId),
    /// The stream breaks, for no fault of anybody.
    Cut(StreamId),
    /// The process dies.
    Crash(StreamId),
    /// Time to open a stream.
    Connect,
}

/// What a Worker wants.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "most are the large one, and each is moved a few times")]
pub(super) enum Action {
    /// Send on its stream.
    Send(WorkerFrame),
    /// Be called.
    Wake(TrueTime, Wake),
    /// Open a stream; [`Worker::connected`] or [`Worker::disconnected`] follows.
    Connect,
    /// Break its stream.
    Cut(StreamId),
}

#[derive(Clone, Debug)]
struct Running {
    task: Box<Task>,
    stream: StreamId,
    heartbeats: Option<TrueTime>,
    beats: u32,
    fate: HandlerFate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HandlerFate {
    Returns,
    Fails { non_retryable: bool },
    Hangs,
}

/// One Worker process.
#[derive(Debug)]
pub(super) struct Worker {
    name: Name,
    slots: u32,
    stream: Option<StreamId>,
    connecting: bool,
    running: BTreeMap<HandoutId, Running>,
    /// The stream that carried each task, for checks.
    got_on: BTreeMap<HandoutId, StreamId>,
}

impl Worker {
    /// Not connected yet.
    pub(super) fn new(number: u32, slots: u32) -> Self {
        Self {
            name: Name::new(&format!("worker-{number}")),
            slots,
            stream: None,
            connecting: false,
            running: BTreeMap::new(),
            got_on: BTreeMap::new(),
        }
    }

    /// The stream it has, if it is open.
    pub(super) fn stream(&self) -> Option<StreamId> {
        self.stream
    }

    /// The stream that carried a task to this Worker.
    pub(super) fn got_on(&self, handout: HandoutId) -> Option<StreamId> {
        self.got_on.get(&handout).copied()
    }

    /// The stream is open.
    pub(super) fn connected(&mut self, stream: StreamId) -> Vec<Action> {
        self.connecting = false;
        self.stream = Some(stream);
        vec![Action::Send(WorkerFrame::Hello(Hello {
            worker: self.name.clone(),
            slots: self.slots,
            flow_types: flows::definitions(),
        }))]
    }

    /// The stream is gone, or could not be opened; handlers run on. Back-off is at most 1 s (D-21).
    pub(super) fn disconnected(&mut self, at: TrueTime, dice: &mut Dice) -> Vec<Action> {
        self.stream = None;
        self.connecting = false;
        let pause = dice.between(Stream::Workload, "reconnect", 50 * MILLISECOND, SECOND);
        vec![Action::Wake(at + pause, Wake::Connect)]
    }

    /// A frame arrived.
    pub(super) fn frame(
        &mut self,
        at: TrueTime,
        stream: StreamId,
        frame: ServerFrame,
        faults: &WorkerFaults,
        dice: &mut Dice,
    ) -> Vec<Action> {
        if self.stream != Some(stream) {
            return Vec::new();
        }
        match frame {
            ServerFrame::Task(task) => self.take(at, stream, task, faults, dice),
            ServerFrame::Cancel { handout, .. } => self.cancelled(handout, dice),
            ServerFrame::Settled { .. } | ServerFrame::Refused { .. } => Vec::new(),
            ServerFrame::Ping => vec![Action::Send(WorkerFrame::Pong)],
        }
    }

    /// It is time.
    pub(super) fn wake(&mut self, at: TrueTime, wake: Wake, dice: &mut Dice) -> Vec<Action> {
        match wake {
            Wake::Finish(handout) => self.finish(at, handout, dice),
            Wake::Heartbeat(handout) => self.heartbeat(at, handout),
            Wake::Cut(stream) if self.stream == Some(stream) => {
                self.stream = None;
                let mut actions = vec![Action::Cut(stream)];
                actions.extend(self.disconnected(at, dice));
                actions
            }
            Wake::Crash(stream) if self.stream == Some(stream) => {
                self.running.clear();
                self.stream = None;
                let mut actions = vec![Action::Cut(stream)];
                actions.extend(self.disconnected(at, dice));
                actions
            }
            Wake::Cut(_) | Wake::Crash(_) => Vec::new(),
            Wake::Connect if self.stream.is_none() && !self.connecting => {
                self.connecting = true;
                vec![Action::Connect]
            }
            Wake::Connect => Vec::new(),
        }
    }

    fn take(
        &mut self,
        at: TrueTime,
        stream: StreamId,
        task: Box<Task>,
        faults: &WorkerFaults,
        dice: &mut Dice,
    ) -> Vec<Action> {
        let handout = task.handout;
        self.got_on.insert(handout, stream);
        let draw = Stream::Workload;
        if dice.chance(draw, "declines", faults.declines) {
            // The type is not offered again on this stream: a new version of this Worker comes soon.
            let replaced_at = at + dice.between(draw, "replaced", SECOND, 20 * SECOND);
            return vec![
                Action::Send(WorkerFrame::Decline { handout }),
                Action::Wake(replaced_at, Wake::Cut(stream)),
            ];
        }
        if dice.chance(draw, "returns", faults.returns) {
            return vec![Action::Send(WorkerFrame::Return { handout })];
        }
        let shape = Shape::of(&task.flow_type).expect("only what the hello names is handed out");
        let (shortest, longest, heartbeats) = flows::pace(shape);
        let mut takes = dice.between(draw, "takes", shortest, longest);
        if dice.chance(draw, "slow", faults.slow) {
            takes += dice.between(draw, "slower", SECOND, 60 * SECOND);
        }
        let fate = if dice.chance(draw, "hangs", faults.hangs) {
            HandlerFate::Hangs
        } else if dice.chance(draw, "fails", faults.fails) {
            HandlerFate::Fails { non_retryable: false }
        } else {
            HandlerFate::Returns
        };
        let mut actions = vec![Action::Wake(at + takes, Wake::Finish(handout))];
        if let Some(every) = heartbeats {
            actions.push(Action::Wake(at + every, Wake::Heartbeat(handout)));
        }
        let moment = |dice: &mut Dice| at + dice.between(draw, "moment", 0, 2 * takes);
        if dice.chance(draw, "cuts", faults.cuts) {
            actions.push(Action::Wake(moment(dice), Wake::Cut(stream)));
        }
        if dice.chance(draw, "crashes", faults.crashes) {
            actions.push(Action::Wake(moment(dice), Wake::Crash(stream)));
        }
        let running = Running { task, stream, heartbeats, beats: 0, fate };
        self.running.insert(handout, running);
        actions
    }

    /// Some handlers listen to a cancel, others finish all the same.
    fn cancelled(&mut self, handout: HandoutId, dice: &mut Dice) -> Vec<Action> {
        if dice.chance(Stream::Workload, "ignores_cancel", 300_000) {
            return Vec::new();
        }
        match self.running.remove(&handout) {
            Some(_) => vec![Action::Send(WorkerFrame::Failed {
                handout,
                failure: Failure { error_type: Name::new("Cancelled"), ..Failure::default() },
                non_retryable: false,
                retry_after_ms: None,
            })],
            None => Vec::new(),
        }
    }

    fn heartbeat(&mut self, at: TrueTime, handout: HandoutId) -> Vec<Action> {
        let Some(running) = self.running.get_mut(&handout) else {
            return Vec::new();
        };
        let every = running.heartbeats.expect("only those that beat are woken");
        running.beats += 1;
        let mut actions = vec![Action::Wake(at + every, Wake::Heartbeat(handout))];
        if self.stream.is_some() {
            actions.push(Action::Send(WorkerFrame::Heartbeat {
                handout,
                checkpoint: Some(flows::number(running.beats)),
            }));
        }
        actions
    }

    fn finish(&mut self, at: TrueTime, handout: HandoutId, dice: &mut Dice) -> Vec<Action> {
        let Some(running) = self.running.get(&handout) else {
            return Vec::new();
        };
        if running.fate == HandlerFate::Hangs {
            return Vec::new();
        }
        let Some(stream) = self.stream else {
            // The handler keeps its result until there is a stream: it will be late (FD-9, FD-11).
            return vec![Action::Wake(at + SECOND, Wake::Finish(handout))];
        };
        let running = self.running.remove(&handout).expect("it was just seen");
        let is_late = running.stream != stream;
        if is_late && dice.chance(Stream::Workload, "drops_late_result", 300_000) {
            return Vec::new();
        }
        vec![Action::Send(result(&running))]
    }
}

fn result(running: &Running) -> WorkerFrame {
    let task = &running.task;
    let handout = task.handout;
    let failed = |failure, non_retryable| WorkerFrame::Failed {
        handout,
        failure,
        non_retryable,
        retry_after_ms: None,
    };
    if let HandlerFate::Fails { non_retryable } = running.fate {
        let failure = Failure { error_type: Name::new("BadLuck"), ..Failure::default() };
        return failed(failure, non_retryable);
    }
    match flows::run(task) {
        Returned::Wait(wait) => {
            WorkerFrame::WaitForDone { handout, wait, effects: flows::effects(task, Vec::new()) }
        }
        Returned::Decision(decision, publications) => {
            WorkerFrame::ExecuteDone { handout, decision, effects: flows::effects(task, publications) }
        }
        Returned::Failed(failure) => failed(failure, false),
    }
}
