//! The lease and the role.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dexzd_core::lease::{CandidateEvent, HolderEvent, ReleaseOutcome};
use dexzd_core::node::{NodeEvent, Role, StepDownOutcome};
use dexzd_core::stop::StopReason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::metrics::{gauge, latency};

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct RoleLabels {
    role: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// The metrics of the control plane.
pub(super) struct LeaseMetrics {
    role: Family<RoleLabels, Gauge>,
    role_since: Gauge,
    epoch: Gauge,
    tenures: Counter,
    stop_reason: Family<ReasonLabels, Gauge>,
    renewal_seconds: Histogram,
    renewal_failures: Counter,
    renewals_adopted: Counter,
    in_doubt: Gauge,
    doubts: Counter,
    races_lost: Counter,
    takeovers_failed: Counter,
    releases: Family<OutcomeLabels, Counter>,
    step_downs: Family<OutcomeLabels, Counter>,
}

impl LeaseMetrics {
    pub(super) fn new() -> Self {
        Self {
            role: Family::default(),
            role_since: Gauge::default(),
            epoch: Gauge::default(),
            tenures: Counter::default(),
            stop_reason: Family::default(),
            renewal_seconds: latency(),
            renewal_failures: Counter::default(),
            renewals_adopted: Counter::default(),
            in_doubt: Gauge::default(),
            doubts: Counter::default(),
            races_lost: Counter::default(),
            takeovers_failed: Counter::default(),
            releases: Family::default(),
            step_downs: Family::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        // Every series exists before it happens.
        for role in Role::ALL {
            let _ = self.role.get_or_create(&RoleLabels { role: role.label() });
        }
        for reason in StopReason::ALL {
            let _ = self.stop_reason.get_or_create(&ReasonLabels { reason: reason.label() });
        }
        for outcome in ["released", "taken_over", "unconfirmed", "failed"] {
            let _ = self.releases.get_or_create(&OutcomeLabels { outcome });
        }
        for outcome in ["taken_over", "taken_back", "unknown"] {
            let _ = self.step_downs.get_or_create(&OutcomeLabels { outcome });
        }
        registry.register("role", "1 for the role of this process, 0 for every other", self.role.clone());
        registry.register(
            "role_since_timestamp_seconds",
            "When this process took its present role, in seconds since 1970",
            self.role_since.clone(),
        );
        registry.register(
            "epoch",
            "The epoch of this process's lease; 0 while it has none",
            self.epoch.clone(),
        );
        registry.register("tenures", "How often this process began to serve", self.tenures.clone());
        registry.register(
            "stop_reason",
            "1 once this process stops for this reason (D-32)",
            self.stop_reason.clone(),
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
            "lease_renewals_adopted",
            "Renewals that had been given up and turned out to have landed (HA-28)",
            self.renewals_adopted.clone(),
        );
        registry.register(
            "lease_in_doubt",
            "1 while the lease is in doubt: answers wait (D-1)",
            self.in_doubt.clone(),
        );
        registry.register("lease_doubts", "How often the lease came into doubt", self.doubts.clone());
        registry.register(
            "lease_races_lost",
            "Free leases that another candidate took first",
            self.races_lost.clone(),
        );
        registry.register(
            "lease_takeovers_failed",
            "Tries to take the lease that failed (HA-62)",
            self.takeovers_failed.clone(),
        );
        registry.register("lease_releases", "Releases, by how they ended", self.releases.clone());
        registry.register(
            "step_downs",
            "Step downs of this process, by who held the lease afterwards (HA-125)",
            self.step_downs.clone(),
        );
    }

    pub(super) fn node(&self, event: &NodeEvent) {
        match event {
            NodeEvent::RoleChanged { role, epoch, period: _ } => {
                for other in Role::ALL {
                    let labels = RoleLabels { role: other.label() };
                    self.role.get_or_create(&labels).set(i64::from(other == *role));
                }
                self.role_since.set(seconds_since_1970());
                self.epoch.set(epoch.map_or(0, |epoch| gauge(epoch.0)));
                if *role == Role::Active {
                    self.tenures.inc();
                }
            }
            NodeEvent::Candidate(event) => self.candidate(event),
            NodeEvent::Holder(event) => self.holder(event),
            NodeEvent::ReleaseEnded(outcome) => {
                let outcome = match outcome {
                    ReleaseOutcome::Released => "released",
                    ReleaseOutcome::TakenOver { .. } => "taken_over",
                    ReleaseOutcome::Unconfirmed => "unconfirmed",
                    ReleaseOutcome::Failed(_) => "failed",
                };
                self.releases.get_or_create(&OutcomeLabels { outcome }).inc();
            }
            NodeEvent::SteppedDown(outcome) => {
                let outcome = match outcome {
                    StepDownOutcome::TakenOver { .. } => "taken_over",
                    StepDownOutcome::TakenBack { .. } => "taken_back",
                    StepDownOutcome::Unknown { .. } => "unknown",
                };
                self.step_downs.get_or_create(&OutcomeLabels { outcome }).inc();
            }
            NodeEvent::Stopping { reason } => {
                self.stop_reason.get_or_create(&ReasonLabels { reason: reason.label() }).set(1);
            }
            NodeEvent::SteppingDown { .. } | NodeEvent::Follower(_) => {}
        }
    }

    fn candidate(&self, event: &CandidateEvent) {
        match event {
            CandidateEvent::LostRace => {
                self.races_lost.inc();
            }
            CandidateEvent::TakeoverFailed { .. } => {
                self.takeovers_failed.inc();
            }
            CandidateEvent::Waiting { .. }
            | CandidateEvent::WaitingForMissing { .. }
            | CandidateEvent::WaitingForUnreadable(_) => {}
        }
    }

    fn holder(&self, event: &HolderEvent) {
        match event {
            HolderEvent::Renewed { took_ms } => self.renewed(*took_ms),
            HolderEvent::Adopted { took_ms } => {
                self.renewed(*took_ms);
                self.renewals_adopted.inc();
            }
            HolderEvent::TryFailed { .. } => {
                self.renewal_failures.inc();
            }
            HolderEvent::DoubtBegan => {
                self.in_doubt.set(1);
                self.doubts.inc();
            }
            HolderEvent::DoubtEnded => {
                self.in_doubt.set(0);
            }
        }
    }

    fn renewed(&self, took_ms: u64) {
        self.renewal_seconds.observe(Duration::from_millis(took_ms).as_secs_f64());
    }
}

fn seconds_since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    gauge(since.as_secs())
}
