//! The hot standby's gauges (HA-82 to HA-84): asked for when a monitor looks, since lag grows by the mere passing of time.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use dexzd_core::node::StandbyGauges;
use dexzd_core::standby::FollowerState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

/// Where the present values come from.
pub(crate) type StandbySource = Box<dyn Fn() -> StandbyGauges + Send + Sync>;

/// The metrics of the follower.
#[derive(Default)]
pub(super) struct StandbyMetrics {
    state: Family<StateLabels, Gauge>,
    lag_seconds: Gauge<f64, AtomicU64>,
    source: OnceLock<StandbySource>,
}

impl StandbyMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.show(StandbyGauges { state: None, lag: std::time::Duration::ZERO });
        registry.register(
            "hot_standby_state",
            "1 for the state of this hot standby, 0 for every other; all 0 on any other process (HA-82)",
            self.state.clone(),
        );
        registry.register(
            "hot_standby_lag_seconds",
            "How far this hot standby is behind; 0 on any other process (HA-83)",
            self.lag_seconds.clone(),
        );
    }

    /// From now on the values come from here; the first source stays.
    pub(super) fn set_source(&self, source: StandbySource) {
        let _ = self.source.set(source);
    }

    /// Before a page is written.
    pub(super) fn refresh(&self) {
        if let Some(source) = self.source.get() {
            self.show(source());
        }
    }

    fn show(&self, gauges: StandbyGauges) {
        for state in FollowerState::ALL {
            let labels = StateLabels { state: state.label() };
            self.state.get_or_create(&labels).set(i64::from(gauges.state == Some(state)));
        }
        self.lag_seconds.set(gauges.lag.as_secs_f64());
    }
}
