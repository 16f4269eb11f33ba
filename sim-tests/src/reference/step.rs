//! One Step execution.

use dexzd_core::engine::{ConditionResult, Lineage, Method, StepOptions, Value, Wait};
use dexzd_core::time::Timestamp;

use super::wait::Timers;

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Stored once, given unchanged to both methods.
    pub input: Option<Value>,
    /// Its options, as its movement carried them.
    pub options: StepOptions,
    /// Who scheduled it.
    pub lineage: Lineage,
    /// What it is doing.
    pub phase: Phase,
}

/// How far a Step execution is.
#[derive(Clone, PartialEq, Debug)]
pub enum Phase {
    /// WaitFor is queued, running or backing off.
    WaitFor,
    /// On its stored conditions.
    Waiting {
        /// The Wait.
        wait: Wait,
        /// When each of its timers is due, and whether it was skipped.
        timers: Timers,
        /// Who began to wait first is served first.
        order: u64,
    },
    /// Execute is queued, running or backing off, with these condition results.
    Execute(Vec<ConditionResult>),
}

impl Phase {
    /// The method that is next.
    #[must_use]
    pub const fn method(&self) -> Method {
        match self {
            Self::WaitFor => Method::WaitFor,
            Self::Waiting { .. } | Self::Execute(_) => Method::Execute,
        }
    }

    /// As it begins.
    #[must_use]
    pub const fn first(options: &StepOptions) -> Self {
        if options.skip_wait_for { Self::Execute(Vec::new()) } else { Self::WaitFor }
    }

    /// Whether it waits for a timer that may have fired by now.
    #[must_use]
    pub fn may_have_timed_out(&self, now: Timestamp) -> bool {
        match self {
            Self::Waiting { timers, .. } => timers.dues().any(|due| due <= now),
            Self::WaitFor | Self::Execute(_) => false,
        }
    }
}
