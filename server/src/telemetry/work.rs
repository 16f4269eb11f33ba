//! What happens to Flows, Steps and Workers.

use dexzd_core::engine::{AttemptOutcome, EngineEvent, FlowStatus, Workload};
use dexzd_core::node::Role;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{Label, Names};
use super::metrics::gauge;

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
struct OutcomeLabels {
    outcome: &'static str,
}

/// The metrics of the data plane.
#[derive(Default)]
pub(super) struct WorkMetrics {
    flow_types: Names,
    step_types: Names,
    flows_started: Family<FlowLabels, Counter>,
    flows_closed: Family<ClosedLabels, Counter>,
    attempts_started: Family<StepLabels, Counter>,
    attempts_ended: Family<EndedLabels, Counter>,
    attempts_by_outcome: Family<OutcomeLabels, Counter>,
    timers_fired: Counter,
    workers_connected: Gauge,
    attempts_lost: Counter,
    recovered_attempts: Gauge,
    recovered_steps: Gauge,
    damaged_records: Counter,
    queued_calls: Gauge,
    queued_without_worker: Gauge,
    running_attempts: Gauge,
    waiting_calls: Gauge,
    loaded_runs: Gauge,
    log_gathered_bytes: Gauge,
}

impl WorkMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        for outcome in OUTCOMES {
            let labels = OutcomeLabels { outcome: outcome_label(outcome) };
            let _ = self.attempts_by_outcome.get_or_create(&labels);
        }
        registry.register("flows_started", "Runs created", self.flows_started.clone());
        registry.register("flows_closed", "Runs closed, by how they ended", self.flows_closed.clone());
        registry.register(
            "attempts_started",
            "Attempts handed out to Workers",
            self.attempts_started.clone(),
        );
        registry.register(
            "attempts_ended",
            "Attempts ended, by Step type and outcome",
            self.attempts_ended.clone(),
        );
        registry.register(
            "attempts_ended_by_outcome",
            "Attempts ended, by outcome; every series exists from the start",
            self.attempts_by_outcome.clone(),
        );
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
            "queued_calls",
            "Method calls of Steps that wait for a Worker; looked at once a second",
            self.queued_calls.clone(),
        );
        registry.register(
            "queued_calls_without_worker",
            "Those of them whose type no connected Worker has: they wait for a deployment, not for room",
            self.queued_without_worker.clone(),
        );
        registry.register(
            "running_attempts",
            "Method calls that Workers hold; looked at once a second",
            self.running_attempts.clone(),
        );
        registry.register(
            "waiting_calls",
            "Calls of clients that wait for something to happen; looked at once a second",
            self.waiting_calls.clone(),
        );
        registry.register("loaded_runs", "Runs in memory; looked at once a second", self.loaded_runs.clone());
        registry.register(
            "log_gathered_bytes",
            "Bytes that are decided and wait to be written into the log; looked at once a second",
            self.log_gathered_bytes.clone(),
        );
        registry.register(
            "damaged_records",
            "Records of the local store that cannot be read: their runs are left alone",
            self.damaged_records.clone(),
        );
    }

    pub(super) fn workload(&self, load: &Workload) {
        let Workload {
            queued_calls,
            queued_without_worker,
            running_attempts,
            waiting_calls,
            loaded_runs,
            gathered_bytes,
        } = *load;
        for (shown, count) in [
            (&self.queued_calls, queued_calls),
            (&self.queued_without_worker, queued_without_worker),
            (&self.running_attempts, running_attempts),
            (&self.waiting_calls, waiting_calls),
            (&self.loaded_runs, loaded_runs),
            (&self.log_gathered_bytes, gathered_bytes),
        ] {
            shown.set(gauge(count as u64));
        }
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
                self.attempts_by_outcome.get_or_create(&OutcomeLabels { outcome }).inc();
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

    /// An engine that ends takes its streams along without a word about each (FD-33).
    pub(super) fn role(&self, role: Role) {
        if !role.is_serving() {
            self.workers_connected.set(0);
            self.workload(&Workload::default());
        }
    }
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

const OUTCOMES: [AttemptOutcome; 6] = [
    AttemptOutcome::Completed,
    AttemptOutcome::Retried,
    AttemptOutcome::Exhausted,
    AttemptOutcome::HandedBack,
    AttemptOutcome::Cancelled,
    AttemptOutcome::Late,
];

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
