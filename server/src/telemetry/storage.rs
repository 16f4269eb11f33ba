//! The log and the local store.

use dexzd_core::snapshot::KeeperEvent;
use dexzd_io_tokio::runtime::ShellEvent;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::metrics::{gauge, latency};

/// The metrics of the threads that write.
pub(super) struct StorageMetrics {
    log_commit_seconds: Histogram,
    log_bytes: Counter,
    log_position: Gauge,
    log_trimmed_below: Gauge,
    local_store_flush_seconds: Histogram,
    local_store_position: Gauge,
    failures: Counter,
}

impl StorageMetrics {
    pub(super) fn new() -> Self {
        Self {
            log_commit_seconds: latency(),
            log_bytes: Counter::default(),
            log_position: Gauge::default(),
            log_trimmed_below: Gauge::default(),
            local_store_flush_seconds: latency(),
            local_store_position: Gauge::default(),
            failures: Counter::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "log_commit_seconds",
            "From the begin of a log write to its end, sync included",
            self.log_commit_seconds.clone(),
        );
        registry.register("log_written_bytes", "Bytes of log entries", self.log_bytes.clone());
        registry.register("log_position", "The newest durable position", self.log_position.clone());
        registry.register(
            "log_trimmed_below",
            "Log entries below this position may be gone",
            self.log_trimmed_below.clone(),
        );
        registry.register(
            "local_store_flush_seconds",
            "How long the local store took to reach the disk",
            self.local_store_flush_seconds.clone(),
        );
        registry.register(
            "local_store_position",
            "The position up to which the local store is on the disk",
            self.local_store_position.clone(),
        );
        registry.register(
            "failures",
            "Failures of disk, store or threads; the log says each in words",
            self.failures.clone(),
        );
    }

    pub(super) fn shell(&self, event: &ShellEvent) {
        match event {
            ShellEvent::Committed { position, bytes, took } => {
                self.log_commit_seconds.observe(took.as_secs_f64());
                self.log_bytes.inc_by(*bytes as u64);
                self.log_position.set(gauge(position.0));
            }
            ShellEvent::LocalStoreFlushed { position, took } => {
                self.local_store_flush_seconds.observe(took.as_secs_f64());
                self.local_store_position.set(gauge(position.0));
            }
            ShellEvent::LogTrimmed { below, .. } => {
                self.log_trimmed_below.set(gauge(below.0));
            }
            ShellEvent::Failure { .. } => {
                self.failures.inc();
            }
            ShellEvent::Snapshot(KeeperEvent::Trimmed { below, .. }) => {
                self.log_trimmed_below.set(gauge(below.0));
            }
            ShellEvent::LockNotSupported { .. }
            | ShellEvent::Workload(_)
            | ShellEvent::Snapshot(_)
            | ShellEvent::Restore(_)
            | ShellEvent::RestoreProgress { .. }
            | ShellEvent::RestoreUnfit { .. }
            | ShellEvent::LocalStoreBroken { .. }
            | ShellEvent::LeftoverDeleted { .. } => {}
        }
    }
}
