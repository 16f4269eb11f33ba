//! What an engine has in hand: for monitors, which ask now and then.

use super::machine::Engine;
use crate::engine::StateRead;

/// A look at one engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    /// Method calls that wait for a Worker.
    pub queued_calls: usize,
    /// Those of them whose type no connected Worker has: they wait for a deployment, not for room.
    pub queued_without_worker: usize,
    /// Method calls that Workers hold.
    pub running_attempts: usize,
    /// Calls of clients that wait for something to happen.
    pub waiting_calls: usize,
    /// Runs in memory. Any of them can be dropped and read again.
    pub loaded_runs: usize,
    /// Bytes that are decided and wait to be written into the log.
    pub gathered_bytes: usize,
}

impl<S: StateRead> Engine<S> {
    /// What it has in hand. Takes a step per kind of queued call.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let streams = &self.cx.streams;
        Workload {
            queued_calls: self.cx.queue.count(|_| true),
            queued_without_worker: self.cx.queue.count(|key| !streams.knows(key)),
            running_attempts: self.cx.running.len(),
            waiting_calls: self.cx.polls.len(),
            loaded_runs: self.runs.len(),
            gathered_bytes: self.appender.gathered_bytes(),
        }
    }
}
