//! The task queue and the Worker streams that empty it.
//!
//! The queue in memory mirrors the `w` keys of the store. A method call whose type no connected Worker
//! has simply stays (concepts.md 1.4).

use alloc::collections::{BTreeMap, BTreeSet};

use super::frame::Hello;
use super::keys::WorkId;
use super::limits;
use crate::ids::{HandoutId, Name, RunId, StepExecutionId, StreamId};
use crate::time::Instant;

/// What a Worker must have to run a call: the Flow type and the Step type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TaskKey {
    pub(super) flow_type: Name,
    pub(super) step_type: Name,
}

/// A queued method call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct QueuedCall {
    pub(super) run_id: RunId,
    pub(super) step: StepExecutionId,
}

/// Queued method calls by what they need, oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    by_key: BTreeMap<TaskKey, BTreeMap<WorkId, QueuedCall>>,
}

impl Queue {
    pub(super) fn push(&mut self, key: TaskKey, work: WorkId, call: QueuedCall) {
        self.by_key.entry(key).or_default().insert(work, call);
    }

    pub(super) fn remove(&mut self, key: &TaskKey, work: WorkId) -> Option<QueuedCall> {
        let calls = self.by_key.get_mut(key)?;
        let call = calls.remove(&work);
        if calls.is_empty() {
            self.by_key.remove(key);
        }
        call
    }

    /// The oldest call that somebody can take.
    pub(super) fn oldest(&self, takes: impl Fn(&TaskKey) -> bool) -> Option<(TaskKey, WorkId)> {
        self.by_key
            .iter()
            .filter(|(key, _)| takes(key))
            .filter_map(|(key, calls)| calls.first_key_value().map(|(work, _)| (key, *work)))
            .min_by_key(|(_, work)| *work)
            .map(|(key, work)| (key.clone(), work))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// How many calls of such types wait.
    pub(super) fn count(&self, counts: impl Fn(&TaskKey) -> bool) -> usize {
        self.by_key.iter().filter(|(key, _)| counts(key)).map(|(_, calls)| calls.len()).sum()
    }
}

/// One open stream of a Worker.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) worker: Name,
    slots: u32,
    taking: bool,
    keys: BTreeSet<TaskKey>,
    pub(super) tasks: BTreeSet<HandoutId>,
    /// When anything came from it last.
    pub(super) heard: Instant,
}

impl Stream {
    fn has_room(&self) -> bool {
        self.taking && self.tasks.len() < self.slots as usize
    }
}

/// All open streams that have said hello.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<StreamId, Stream>,
    takers: BTreeMap<TaskKey, BTreeSet<StreamId>>,
}

impl Streams {
    pub(super) fn open(&mut self, id: StreamId, hello: &Hello, now: Instant) {
        let handler = Name::new(limits::TIMEOUT_HANDLER_STEP);
        let mut keys = BTreeSet::new();
        for definition in &hello.flow_types {
            let own = definition.timeout_handler.then_some(&handler);
            for step_type in definition.step_types.iter().chain(own) {
                keys.insert(TaskKey { flow_type: definition.name.clone(), step_type: step_type.clone() });
            }
        }
        for key in &keys {
            self.takers.entry(key.clone()).or_default().insert(id);
        }
        let stream = Stream {
            worker: hello.worker.clone(),
            slots: hello.slots,
            taking: true,
            keys,
            tasks: BTreeSet::new(),
            heard: now,
        };
        self.open.insert(id, stream);
    }

    pub(super) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.open.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.open.get_mut(&id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = StreamId> {
        self.open.keys().copied()
    }

    pub(super) fn close(&mut self, id: StreamId) -> Option<Stream> {
        let stream = self.open.remove(&id)?;
        for key in &stream.keys {
            self.forget_taker(key, id);
        }
        Some(stream)
    }

    /// The stream takes no new task.
    pub(super) fn stop_taking(&mut self, id: StreamId) {
        if let Some(stream) = self.open.get_mut(&id) {
            stream.taking = false;
        }
    }

    /// The stream declined this type: it is not asked again until it reconnects.
    pub(super) fn declined(&mut self, id: StreamId, key: &TaskKey) {
        if let Some(stream) = self.open.get_mut(&id) {
            stream.keys.remove(key);
        }
        self.forget_taker(key, id);
    }

    fn forget_taker(&mut self, key: &TaskKey, id: StreamId) {
        if let Some(takers) = self.takers.get_mut(key) {
            takers.remove(&id);
            if takers.is_empty() {
                self.takers.remove(key);
            }
        }
    }

    /// Whether a connected Worker has this type at all.
    pub(super) fn knows(&self, key: &TaskKey) -> bool {
        self.takers.contains_key(key)
    }

    /// The stream that takes the next call of this type: the preferred one if it can, else the one
    /// with the fewest tasks.
    pub(super) fn pick(&self, key: &TaskKey, preferred: Option<StreamId>) -> Option<StreamId> {
        let takers = self.takers.get(key)?;
        let has_room = |id: &StreamId| self.open.get(id).is_some_and(Stream::has_room);
        if let Some(preferred) = preferred.filter(|id| takers.contains(id) && has_room(id)) {
            return Some(preferred);
        }
        takers.iter().filter(|id| has_room(id)).min_by_key(|id| self.open[id].tasks.len()).copied()
    }

    pub(super) fn has_taker(&self, key: &TaskKey) -> bool {
        self.pick(key, None).is_some()
    }
}
