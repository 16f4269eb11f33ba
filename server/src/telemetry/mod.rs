//! What the core and the shell tell, for people and for monitoring: log lines and metrics.

mod labels;
mod lines;
mod metrics;
mod page;

pub(crate) use metrics::Metrics;
pub(crate) use page::serve;

use std::sync::Arc;

use dexzd_core::engine::EngineEvent;
use dexzd_core::node::NodeEvent;
use dexzd_io_tokio::runtime::{EventSink, ShellEvent};

/// Takes every event, quickly: counters are atomic, lines go to a thread of their own.
pub(crate) struct Telemetry {
    pub(crate) metrics: Arc<Metrics>,
}

impl EventSink for Telemetry {
    fn engine(&self, event: &EngineEvent) {
        self.metrics.engine(event);
        lines::engine(event);
    }

    fn node(&self, event: &NodeEvent) {
        self.metrics.node(event);
        lines::node(event);
    }

    fn shell(&self, event: &ShellEvent) {
        self.metrics.shell(event);
        lines::shell(event);
    }
}

#[cfg(test)]
mod tests;
