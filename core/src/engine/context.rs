//! Everything of an engine that is not a run: queue, streams, timers, and what the current input staged.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::call::{Answer, CallError};
use super::deadlines::{Deadline, Deadlines};
use super::frame::{CancelReason, ServerFrame};
use super::io::{AttemptOutcome, Change, EngineEvent, Output};
use super::keys::{self, Timer, WorkId};
use super::polls::Polls;
use super::queue::{Queue, QueuedCall, Streams, TaskKey};
use super::run::{Run, encode};
use super::timers::Timers;
use crate::ids::{CallId, Epoch, HandoutId, MessageId, Name, Position, RunId, StepExecutionId, StreamId};
use crate::rng::Rng;
use crate::time::{Instant, Now, Timestamp};

/// Shared by all handlers of an engine.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) epoch: Epoch,
    pub(super) default_retention_ms: u64,
    /// The clocks at the current input.
    pub(super) now: Now,
    /// Engine time at the current input (D-39).
    pub(super) time: Timestamp,
    pub(super) rng: Rng,
    pub(super) queue: Queue,
    pub(super) streams: Streams,
    pub(super) running: BTreeMap<HandoutId, RunningTask>,
    /// Tasks with a heartbeat timeout that wait for their position.
    pub(super) leaving: BTreeMap<Position, Vec<HandoutId>>,
    pub(super) timers: Timers,
    pub(super) deadlines: Deadlines,
    pub(super) polls: Polls,
    /// Changes that belong to no loaded run.
    pub(super) changes: Vec<Change>,
    /// Outputs that get their position once the current input is gathered.
    pub(super) staged: Vec<Staged>,
    pub(super) outputs: VecDeque<Output>,
    next_handout: u64,
    next_work: u64,
}

/// A task that a Worker holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RunningTask {
    pub(super) run_id: RunId,
    pub(super) step: StepExecutionId,
    pub(super) key: TaskKey,
    pub(super) stream: StreamId,
    /// The frame leaves once this is durable (0: at once), so nothing about it may leave earlier.
    pub(super) leaves_after: Position,
    pub(super) deadline: Instant,
    pub(super) heartbeat_timeout: Option<Duration>,
    pub(super) heard: Instant,
}

/// An output of the current input.
#[derive(Debug)]
pub(super) enum Staged {
    /// Leaves when the run's newest decision is durable; without a run, when everything gathered is.
    Reply { call: CallId, run_id: Option<RunId>, answer: Result<Answer, CallError> },
    /// A task; its start record is part of the current input's changes.
    Task { stream: StreamId, handout: HandoutId, at_once: bool, frame: ServerFrame },
    /// Leaves when the current input's changes are durable.
    Committed { stream: StreamId, frame: ServerFrame },
    /// Leaves after the task it speaks of.
    Following { stream: StreamId, after: Position, frame: ServerFrame },
}

impl Context {
    pub(super) fn new(epoch: Epoch, default_retention_ms: u64, time: Timestamp, seed: u64) -> Self {
        Self {
            epoch,
            default_retention_ms,
            now: Now::default(),
            time,
            rng: Rng::new(seed),
            queue: Queue::default(),
            streams: Streams::default(),
            running: BTreeMap::new(),
            leaving: BTreeMap::new(),
            timers: Timers::default(),
            deadlines: Deadlines::default(),
            polls: Polls::default(),
            changes: Vec::new(),
            staged: Vec::new(),
            outputs: VecDeque::new(),
            next_handout: 1,
            next_work: 1,
        }
    }

    pub(super) fn event(&mut self, event: EngineEvent) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(super) fn attempt_ended(&mut self, step_type: &Name, outcome: AttemptOutcome) {
        self.event(EngineEvent::AttemptEnded { step_type: step_type.clone(), outcome });
    }

    pub(super) fn reply(&mut self, call: CallId, run_id: Option<RunId>, answer: Result<Answer, CallError>) {
        self.staged.push(Staged::Reply { call, run_id, answer });
    }

    // Identifiers. All are drawn here, from counters and the seeded generator.

    pub(super) fn new_handout(&mut self) -> HandoutId {
        let counter = self.next_handout;
        self.next_handout += 1;
        HandoutId { epoch: self.epoch, counter }
    }

    pub(super) fn new_work(&mut self) -> WorkId {
        let counter = self.next_work;
        self.next_work += 1;
        WorkId { epoch: self.epoch, counter }
    }

    /// A version 7 UUID: 48 bits of milliseconds, then chance.
    fn uuid(&mut self) -> u128 {
        const VERSION: u128 = 0x7 << 76;
        const VARIANT: u128 = 0b10 << 62;
        const CHANCE: u128 = !((0xffff_ffff_ffff_u128 << 80) | (0xf << 76) | (0b11 << 62));
        let millis = u128::from(self.time.as_millis()) << 80;
        millis | VERSION | VARIANT | (self.rng.next_u128() & CHANCE)
    }

    pub(super) fn new_run_id(&mut self) -> RunId {
        RunId(self.uuid())
    }

    pub(super) fn new_message_id(&mut self) -> MessageId {
        MessageId(self.uuid())
    }

    // Durable timers: the store's key and the one in memory change together.

    pub(super) fn set_timer(&mut self, run: &mut Run, timer: Timer) {
        run.change_index(keys::timer(&timer), Some(Vec::new()));
        self.timers.add(timer);
    }

    pub(super) fn clear_timer(&mut self, run: &mut Run, timer: &Timer) {
        run.change_index(keys::timer(timer), None);
        self.timers.remove(timer);
    }

    // The durable queue: likewise.

    pub(super) fn enqueue(&mut self, run: &mut Run, work: WorkId, step: &StepExecutionId) {
        let item = super::record::WorkItem {
            run_id: run.id,
            flow_type: run.base.flow_type.clone(),
            step: step.clone(),
        };
        run.change_index(keys::work(work), Some(encode(&item)));
        self.enqueue_again(run, work, step);
    }

    /// Puts a call back whose key in the store still stands.
    pub(super) fn enqueue_again(&mut self, run: &Run, work: WorkId, step: &StepExecutionId) {
        let call = QueuedCall { run_id: run.id, step: step.clone() };
        self.queue.push(task_key(run, step), work, call);
    }

    pub(super) fn dequeue(&mut self, run: &mut Run, work: WorkId, step: &StepExecutionId) {
        run.change_index(keys::work(work), None);
        self.queue.remove(&task_key(run, step), work);
    }

    // Tasks.

    /// The Worker holds this task no longer: frees its slot.
    pub(super) fn end_task(&mut self, handout: HandoutId) -> Option<RunningTask> {
        let task = self.running.remove(&handout)?;
        self.deadlines.clear(task.deadline, Deadline::Attempt(handout));
        if let Some(stream) = self.streams.get_mut(task.stream) {
            stream.tasks.remove(&handout);
        }
        Some(task)
    }

    /// Asks the Worker to stop, without waiting for it.
    pub(super) fn cancel_task(&mut self, handout: HandoutId, reason: CancelReason) {
        if let Some(task) = self.end_task(handout) {
            self.send_cancel(&task, handout, reason);
            self.attempt_ended(&task.step.step_type, AttemptOutcome::Cancelled);
        }
    }

    pub(super) fn send_cancel(&mut self, task: &RunningTask, handout: HandoutId, reason: CancelReason) {
        let frame = ServerFrame::Cancel { handout, reason };
        self.staged.push(Staged::Following { stream: task.stream, after: task.leaves_after, frame });
    }
}

/// What a Worker must have to run this Step execution.
pub(super) fn task_key(run: &Run, step: &StepExecutionId) -> TaskKey {
    TaskKey { flow_type: run.base.flow_type.clone(), step_type: step.step_type.clone() }
}
