//! Long polls: calls that wait until a run has come to a point.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::ids::{CallId, RunId, StepExecutionId};
use crate::time::Instant;

/// What a waiting call waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Awaited {
    /// The run is closed.
    Closed,
    /// This Step execution has completed.
    Step(StepExecutionId),
    /// This history event exists.
    Event(u64),
}

/// A waiting call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Poll {
    pub(super) run_id: RunId,
    pub(super) awaited: Awaited,
    pub(super) deadline: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Polls {
    by_call: BTreeMap<CallId, Poll>,
    by_run: BTreeMap<RunId, BTreeSet<CallId>>,
}

impl Polls {
    pub(super) fn add(&mut self, call: CallId, poll: Poll) {
        self.by_run.entry(poll.run_id).or_default().insert(call);
        self.by_call.insert(call, poll);
    }

    pub(super) fn remove(&mut self, call: CallId) -> Option<Poll> {
        let poll = self.by_call.remove(&call)?;
        if let Some(calls) = self.by_run.get_mut(&poll.run_id) {
            calls.remove(&call);
            if calls.is_empty() {
                self.by_run.remove(&poll.run_id);
            }
        }
        Some(poll)
    }

    pub(super) fn of_run(&self, run_id: RunId) -> Vec<(CallId, Awaited)> {
        let calls = self.by_run.get(&run_id).into_iter().flatten();
        calls.map(|call| (*call, self.by_call[call].awaited.clone())).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_call.len()
    }

    pub(super) fn all(&self) -> Vec<CallId> {
        self.by_call.keys().copied().collect()
    }
}
