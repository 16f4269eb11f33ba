//! The metrics, all named `dexzd_…` and listed in docs/metrics.md. Series that alerts ask for exist from the start
//! (HA-84).

use dexzd_core::engine::EngineEvent;
use dexzd_core::node::NodeEvent;
use dexzd_io_tokio::runtime::ShellEvent;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::calls::CallMetrics;
use super::connections::ConnectionMetrics;
use super::lease::LeaseMetrics;
use super::process::ProcessMetrics;
use super::snapshots::SnapshotMetrics;
use super::standby::{StandbyMetrics, StandbySource};
use super::storage::StorageMetrics;
use super::work::WorkMetrics;
use crate::logging::Log;

/// All metrics of one process.
pub(crate) struct Metrics {
    registry: Registry,
    log: Log,
    log_lines_dropped: Gauge,
    lease: LeaseMetrics,
    standby: StandbyMetrics,
    work: WorkMetrics,
    storage: StorageMetrics,
    snapshots: SnapshotMetrics,
    calls: CallMetrics,
    connections: ConnectionMetrics,
    process: ProcessMetrics,
}

/// From a tenth of a millisecond to about three seconds.
pub(super) fn latency() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 16))
}

/// Positions and epochs have 64 bits, gauges 63: enough for both.
pub(super) fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Metrics {
    pub(crate) fn new(log: Log) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("dexzd"),
            log,
            log_lines_dropped: Gauge::default(),
            lease: LeaseMetrics::new(),
            standby: StandbyMetrics::default(),
            work: WorkMetrics::default(),
            storage: StorageMetrics::new(),
            snapshots: SnapshotMetrics::default(),
            calls: CallMetrics::new(),
            connections: ConnectionMetrics::default(),
            process: ProcessMetrics::default(),
        };
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        metrics.registry.register("build", "The running program", version);
        metrics.lease.register(&mut metrics.registry);
        metrics.standby.register(&mut metrics.registry);
        metrics.work.register(&mut metrics.registry);
        metrics.storage.register(&mut metrics.registry);
        metrics.snapshots.register(&mut metrics.registry);
        metrics.calls.register(&mut metrics.registry);
        metrics.connections.register(&mut metrics.registry);
        metrics.process.register(&mut metrics.registry);
        metrics.registry.register(
            "log_lines_dropped",
            "Log lines dropped because stderr was too slow",
            metrics.log_lines_dropped.clone(),
        );
        metrics
    }

    /// With a log of its own.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self::new(Log::start(crate::cli::LogFormat::Text).expect("a thread"))
    }

    /// What counts connections.
    pub(crate) fn connections(&self) -> ConnectionMetrics {
        self.connections.clone()
    }

    /// What counts calls.
    pub(crate) fn calls(&self) -> CallMetrics {
        self.calls.clone()
    }

    /// From now on the gauges of a hot standby come from here.
    pub(crate) fn set_standby_source(&self, source: StandbySource) {
        self.standby.set_source(source);
    }

    /// The text of `/metrics`.
    pub(crate) fn text(&self) -> String {
        self.log_lines_dropped.set(gauge(self.log.dropped_lines()));
        self.standby.refresh();
        self.process.refresh();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a String does not fail");
        text
    }

    pub(super) fn engine(&self, event: &EngineEvent) {
        self.work.engine(event);
    }

    pub(super) fn node(&self, event: &NodeEvent) {
        self.lease.node(event);
        if let NodeEvent::RoleChanged { role, .. } = event {
            self.work.role(*role);
        }
    }

    pub(super) fn shell(&self, event: &ShellEvent) {
        self.storage.shell(event);
        self.snapshots.shell(event);
        if let ShellEvent::Workload(load) = event {
            self.work.workload(load);
        }
    }
}
