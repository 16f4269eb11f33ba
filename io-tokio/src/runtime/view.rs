//! What everybody outside of the control plane sees of a node.

use dexzd_core::gate::GateView;
use dexzd_core::ids::Epoch;
use dexzd_core::node::{Health, Role, RolePeriod, Standing};
use dexzd_core::time::Instant;

use crate::gate::Gate;

/// The node after the last look of its control plane: everything in one value, so that nobody sees a new
/// role with an old gate. Its watch wakes when role, epoch, period or [`is_hot`](Self::is_hot) change; what
/// depends on the time is asked with a clock read then.
#[derive(Clone)]
pub struct NodeView {
    /// What this process is.
    pub role: Role,
    /// The present tenure, or the last one.
    pub epoch: Option<Epoch>,
    /// The present role period: a connection belongs to the one in which it was opened (D-16).
    pub period: RolePeriod,
    /// What the state and the lag of a hot standby follow from.
    pub standing: Standing,
    /// Whether [`HOT_STANDBY_NAME`](dexzd_core::node::HOT_STANDBY_NAME) was SERVING at that look: for health
    /// streams, which change with events. A check asks [`health`](Self::health).
    pub is_hot: bool,
    /// The gate of the newest tenure.
    pub gate: Gate,
}

impl NodeView {
    /// Whether the health names of the API report SERVING by role (HA-64), as open health streams show it
    /// (HA-74).
    #[must_use]
    pub const fn is_serving(&self) -> bool {
        self.role.is_serving()
    }

    /// What a health check answers now: an ended lease shows at once, one in doubt still counts (HA-70).
    #[must_use]
    pub fn health(&self, now: Instant) -> Health {
        Health {
            is_serving: self.is_serving() && self.gate.look() != GateView::Shut,
            is_hot_standby: self.standing.is_hot(now),
        }
    }

    /// Whether everything is the same that wakes those who watch.
    pub(super) fn looks_like(&self, other: &Self) -> bool {
        let shown = |view: &Self| (view.role, view.epoch, view.period, view.is_hot);
        shown(self) == shown(other)
    }
}
