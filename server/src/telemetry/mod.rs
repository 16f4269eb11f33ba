//! What the core and the shell tell, for people and for monitoring: log lines and metrics.

mod calls;
mod connections;
mod labels;
mod lease;
mod lines;
mod metrics;
mod page;
mod process;
mod snapshots;
mod standby;
mod storage;
mod work;

pub(crate) use calls::CallMetrics;
pub(crate) use connections::{ConnectionEnd, ConnectionMetrics};
pub(crate) use metrics::Metrics;
pub(crate) use page::serve;

use std::sync::Arc;

use dexzd_core::engine::EngineEvent;
use dexzd_core::lease::CandidateEvent;
use dexzd_core::node::NodeEvent;
use dexzd_io_tokio::runtime::{EventSink, ShellEvent};
use tokio::sync::Notify;

/// Takes every event, quickly: counters are atomic, lines go to a thread of their own.
pub(crate) struct Telemetry {
    pub(crate) metrics: Arc<Metrics>,
    /// Told when the node waits for a lease that is not free.
    pub(crate) waits: Arc<Notify>,
}

impl EventSink for Telemetry {
    fn engine(&self, event: &EngineEvent) {
        self.metrics.engine(event);
        lines::engine(event);
    }

    fn node(&self, event: &NodeEvent) {
        self.metrics.node(event);
        lines::node(event);
        if let NodeEvent::Candidate(
            CandidateEvent::Waiting { .. }
            | CandidateEvent::WaitingForMissing { .. }
            | CandidateEvent::WaitingForUnreadable(_),
        ) = event
        {
            self.waits.notify_one();
        }
    }

    fn shell(&self, event: &ShellEvent) {
        self.metrics.shell(event);
        lines::shell(event);
    }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
