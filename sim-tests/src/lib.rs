//! What every simulated run is checked against, and how runs are made, repeated and reported.
//!
//! The suites themselves are in `tests/`. `docs/simulator.md` says how to read a failure.

#![forbid(unsafe_code)]
#![allow(clippy::wildcard_enum_match_arm, reason = "an invariant looks at what concerns it")]

pub mod exhaustive;
pub mod invariants;
pub mod runner;

use dexzd_io_sim::product::ProductConfig;
use dexzd_io_sim::watch::Watchers;

use crate::invariants::{
    AcknowledgedStays, EpochsRise, FlowResults, Gates, LogIsWhole, NothingIsStranded, ReleasedIsOver,
    SomebodyServes, StateIsTheLog, WorkIsCounted,
};

/// Everything that a run of the whole product is checked against.
#[must_use]
pub fn product_watchers(config: &ProductConfig) -> Watchers {
    let mut watchers: Vec<Box<dyn dexzd_io_sim::watch::Watcher>> = vec![
        Box::new(LogIsWhole::default()),
        Box::new(AcknowledgedStays::default()),
        Box::new(WorkIsCounted::default()),
        Box::new(StateIsTheLog::default()),
        Box::new(SomebodyServes::new(config.recovered_by())),
        Box::new(NothingIsStranded),
        Box::new(ReleasedIsOver::default()),
        Box::new(FlowResults),
    ];
    if config.clocks_are_sane() {
        watchers.push(Box::new(Gates::default()));
    }
    if config.processes > 1 && config.clocks_are_sane() {
        // With `dev.lock` a start takes the lease at once (HA-6).
        watchers.push(Box::new(EpochsRise::new(config.drift_ppb)));
    }
    Watchers::new(watchers)
}
