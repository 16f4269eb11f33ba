//! The metrics, all named `dexzd_…`. Series that alerts ask for exist from the start (HA-84).

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dexzd_core::engine::{AttemptOutcome, EngineEvent, FlowStatus};
use dexzd_core::lease::HolderEvent;
use dexzd_core::node::{NodeEvent, Role};
use dexzd_core::stop::StopReason;
use dexzd_io_tokio::runtime::ShellEvent;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::labels::{Label, Names};
use crate::logging::Log;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct FlowLabels {
    flow_type: Label,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ClosedLabels {
    flow_type: Label,
    status: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct StepLabels {
    step_type: Label,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct EndedLabels {
    step_type: Label,
    outcome: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RoleLabels {
    role: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

/// HA-82. No process is a hot standby yet: all stay 0.
const HOT_STANDBY_STATES: [&str; 5] = ["following", "failed", "restarting", "bootstrapping", "behind"];

/// All metrics of one process.
pub(crate) struct Metrics {
    registry: Registry,
    log: Log,
    flow_types: Names,
    step_types: Names,
    role: Family<RoleLabels, Gauge>,
    epoch: Gauge,
    stop_reason: Family<ReasonLabels, Gauge>,
    flows_started: Family<FlowLabels, Counter>,
    flows_closed: Family<ClosedLabels, Counter>,
    attempts_started: Family<StepLabels, Counter>,
    attempts_ended: Family<EndedLabels, Counter>,
    timers_fired: Counter,
    workers_connected: Gauge,
    attempts_lost: Counter,
    recovered_attempts: Gauge,
    recovered_steps: Gauge,
    damaged_records: Counter,
    log_commit_seconds: Histogram,
    log_bytes: Counter,
    log_position: Gauge,
    log_trimmed_below: Gauge,
    renewal_seconds: Histogram,
    renewal_failures: Counter,
    lease_in_doubt: Gauge,
    local_store_flush_seconds: Histogram,
    local_store_position: Gauge,
    log_lines_dropped: Gauge,
}

/// From a tenth of a millisecond to about three seconds.
fn latency() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 16))
}

impl Metrics {
    pub(crate) fn new(log: Log) -> Self {
        let mut registry = Registry::with_prefix("dexzd");
        let metrics = Self {
            log,
            flow_types: Names::default(),
            step_types: Names::default(),
            role: Family::default(),
            epoch: Gauge::default(),
            stop_reason: Family::default(),
            flows_started: Family::default(),
            flows_closed: Family::default(),
            attempts_started: Family::default(),
            attempts_ended: Family::default(),
            timers_fired: Counter::default(),
            workers_connected: Gauge::default(),
            attempts_lost: Counter::default(),
            recovered_attempts: Gauge::default(),
            recovered_steps: Gauge::default(),
            damaged_records: Counter::default(),
            log_commit_seconds: latency(),
            log_bytes: Counter::default(),
            log_position: Gauge::default(),
            log_trimmed_below: Gauge::default(),
            renewal_seconds: latency(),
            renewal_failures: Counter::default(),
            lease_in_doubt: Gauge::default(),
            local_store_flush_seconds: latency(),
            local_store_position: Gauge::default(),
            log_lines_dropped: Gauge::default(),
            registry: Registry::default(),
        };
        metrics.register(&mut registry);
        for role in Role::ALL {
            let _ = metrics.role.get_or_create(&RoleLabels { role: role.label() });
        }
        // Every series exists before it happens.
        for reason in StopReason::ALL {
            let _ = metrics.stop_reason.get_or_create(&ReasonLabels { reason: reason.label() });
        }
        Self { registry, ..metrics }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "build",
            "The running program",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register("role", "1 for the role of this process, 0 for every other", self.role.clone());
        registry.register(
            "epoch",
            "The epoch of this process's lease; 0 while it has none",
            self.epoch.clone(),
        );
        registry.register(
            "stop_reason",
            "1 once this process stops for this reason (D-32)",
            self.stop_reason.clone(),
        );
        registry.register("flows_started", "Runs created", self.flows_started.clone());
        registry.register("flows_closed", "Runs closed, by status", self.flows_closed.clone());
        registry.register("attempts_started", "Attempts handed out", self.attempts_started.clone());
        registry.register("attempts_ended", "Attempts ended, by outcome", self.attempts_ended.clone());
        registry.register("timers_fired", "Timers fired, skipped ones included", self.timers_fired.clone());
        registry.register("workers_connected", "Open Worker streams", self.workers_connected.clone());
        registry.register(
            "worker_attempts_lost",
            "Attempts that failed because their Worker's stream ended",
            self.attempts_lost.clone(),
        );
        registry.register(
            "recovered_attempts_failed",
            "Attempts that the last recovery failed with NOT_COMPLETED (HA-20)",
            self.recovered_attempts.clone(),
        );
        registry.register(
            "recovered_steps_queued",
            "Steps that the last recovery found queued",
            self.recovered_steps.clone(),
        );
        registry.register(
            "damaged_records",
            "Records of the local store that cannot be read",
            self.damaged_records.clone(),
        );
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
            "lease_renewal_seconds",
            "From the sending of a renewal to the moment it was known to have landed",
            self.renewal_seconds.clone(),
        );
        registry.register(
            "lease_renewal_failures",
            "Failed tries to renew the lease",
            self.renewal_failures.clone(),
        );
        registry.register(
            "lease_in_doubt",
            "1 while the lease is in doubt (D-1)",
            self.lease_in_doubt.clone(),
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
            "log_lines_dropped",
            "Log lines dropped because stderr was too slow",
            self.log_lines_dropped.clone(),
        );
        let hot_standby_state = Family::<StateLabels, Gauge>::default();
        for state in HOT_STANDBY_STATES {
            let _ = hot_standby_state.get_or_create(&StateLabels { state });
        }
        registry.register(
            "hot_standby_state",
            "1 for the state of this hot standby, 0 for every other; all 0 on any other process (HA-82)",
            hot_standby_state,
        );
        registry.register(
            "hot_standby_lag_seconds",
            "How far this hot standby is behind; 0 on any other process (HA-83)",
            Gauge::<f64, AtomicU64>::default(),
        );
    }

    /// The text of `/metrics`.
    pub(crate) fn text(&self) -> String {
        self.log_lines_dropped.set(i64::try_from(self.log.dropped_lines()).unwrap_or(i64::MAX));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a String does not fail");
        text
    }

    pub(super) fn engine(&self, event: &EngineEvent) {
        match event {
            EngineEvent::FlowStarted { flow_type } => {
                let flow_type = self.flow_types.label(flow_type);
                self.flows_started.get_or_create(&FlowLabels { flow_type }).inc();
            }
            EngineEvent::FlowClosed { flow_type, status } => {
                let flow_type = self.flow_types.label(flow_type);
                let status = status_label(*status);
                self.flows_closed.get_or_create(&ClosedLabels { flow_type, status }).inc();
            }
            EngineEvent::AttemptStarted { step_type } => {
                let step_type = self.step_types.label(step_type);
                self.attempts_started.get_or_create(&StepLabels { step_type }).inc();
            }
            EngineEvent::AttemptEnded { step_type, outcome } => {
                let step_type = self.step_types.label(step_type);
                let outcome = outcome_label(*outcome);
                self.attempts_ended.get_or_create(&EndedLabels { step_type, outcome }).inc();
            }
            EngineEvent::TimersFired { count } => {
                self.timers_fired.inc_by(u64::from(*count));
            }
            EngineEvent::WorkerConnected { .. } => {
                self.workers_connected.inc();
            }
            EngineEvent::WorkerDisconnected { lost_attempts, .. } => {
                self.workers_connected.dec();
                self.attempts_lost.inc_by(u64::from(*lost_attempts));
            }
            EngineEvent::Recovered { failed_attempts, queued_steps } => {
                self.recovered_attempts.set(gauge(*failed_attempts));
                self.recovered_steps.set(gauge(*queued_steps));
            }
            EngineEvent::DamagedRecord { .. } => {
                self.damaged_records.inc();
            }
        }
    }

    pub(super) fn node(&self, event: &NodeEvent) {
        match event {
            NodeEvent::RoleChanged { role, epoch, period: _ } => {
                for other in Role::ALL {
                    let labels = RoleLabels { role: other.label() };
                    self.role.get_or_create(&labels).set(i64::from(other == *role));
                }
                self.epoch.set(epoch.map_or(0, |epoch| gauge(epoch.0)));
            }
            NodeEvent::Holder(HolderEvent::Renewed { took_ms } | HolderEvent::Adopted { took_ms }) => {
                self.renewal_seconds.observe(Duration::from_millis(*took_ms).as_secs_f64());
            }
            NodeEvent::Holder(HolderEvent::TryFailed { .. }) => {
                self.renewal_failures.inc();
            }
            NodeEvent::Holder(HolderEvent::DoubtBegan) => {
                self.lease_in_doubt.set(1);
            }
            NodeEvent::Holder(HolderEvent::DoubtEnded) => {
                self.lease_in_doubt.set(0);
            }
            NodeEvent::Candidate(_)
            | NodeEvent::ReleaseEnded(_)
            | NodeEvent::SteppingDown { .. }
            | NodeEvent::SteppedDown(_)
            | NodeEvent::Follower(_) => {}
            NodeEvent::Stopping { reason } => {
                self.stop_reason.get_or_create(&ReasonLabels { reason: reason.label() }).set(1);
            }
        }
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
            ShellEvent::LockNotSupported { .. } | ShellEvent::Failure { .. } => {}
        }
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// As in a search query.
fn status_label(status: FlowStatus) -> &'static str {
    match status {
        FlowStatus::Running => "running",
        FlowStatus::Completed => "completed",
        FlowStatus::Failed => "failed",
        FlowStatus::Canceled => "canceled",
        FlowStatus::Terminated => "terminated",
    }
}

fn outcome_label(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Completed => "completed",
        AttemptOutcome::Retried => "retried",
        AttemptOutcome::Exhausted => "exhausted",
        AttemptOutcome::HandedBack => "handed_back",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Late => "late",
    }
}
