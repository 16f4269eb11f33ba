//! What every simulated run is checked against, and how runs are made, repeated and reported.
//!
//! The suites themselves are in `tests/`, and the program `sim` in `src/bin/`. `docs/simulator.md` says how to
//! read a failure.
//!
//! ```text
//! worlds       the worlds by name, their number of seeds and the marks they must reach
//! attempt      one run that may panic, and whose fault it was
//! batch        many seeds on all cores
//! runner       batches as tests
//! invariants   what is checked
//! reference    a Flow as concepts.md describes it
//! lookout      what is counted
//! recorder     what is shown
//! log_file     decision logs and scenarios
//! shrink       small counterexamples
//! explain      text for a person: timeline, configuration, reasons
//! report       the same as a page
//! advise       what a lease duration means with a given store
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::wildcard_enum_match_arm, reason = "an invariant looks at what concerns it")]

pub mod advise;
pub mod attempt;
pub mod batch;
pub mod exhaustive;
pub mod explain;
pub mod fuzzed;
pub mod invariants;
pub mod lease_script;
pub mod log_file;
pub mod lookout;
pub mod mutants;
pub mod recorder;
pub mod reference;
pub mod report;
pub mod runner;
pub mod script;
pub mod shrink;
pub mod timeline;
pub mod worlds;

use dexzd_core::time::micros;
use dexzd_io_sim::lease_world::LeaseConfig;
use dexzd_io_sim::product::ProductConfig;
use dexzd_io_sim::watch::Watchers;

use crate::invariants::{
    AcceptedResultsStay, AcknowledgedStays, AdoptsWhatLanded, AsTheConceptsSay, CheckpointsStay,
    CleansWithProof, CutOffIsFinal, DrainHandsNothingOut, EpochsRise, FenceIsConfirmed, GapIsBounded, Gates,
    HealthAgrees, HealthIsRight, HoldsOff, HolesAreLeftAlone, LeaseTraffic, LeavesNothingBehind,
    Linearizable, LogIsWhole, LostForAReason, NothingIsStranded, PeriodCountsFromTheSend, ReleasedIsOver,
    SomebodyServes, StateIsTheLog, StepDowns, TakesInTurn, TimeGoesOn, UnsentIsFree, WorkIsCounted,
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
        Box::new(HealthIsRight::new(config.clocks_are_sane().then_some(config.drift_ppb))),
        Box::new(AsTheConceptsSay::default()),
        Box::new(FenceIsConfirmed::default()),
        Box::new(CleansWithProof::default()),
        Box::new(LostForAReason::default()),
        Box::new(HolesAreLeftAlone::new(config.store.damaged == 0)),
        Box::new(AcceptedResultsStay::default()),
        Box::new(CheckpointsStay::default()),
        Box::new(DrainHandsNothingOut::default()),
        Box::new(TimeGoesOn),
        Box::new(UnsentIsFree::default()),
        Box::new(if config.clocks_are_sane() { Linearizable::default() } else { Linearizable::of_writes() }),
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

/// Everything that a run of the lease world is checked against.
#[must_use]
pub fn lease_watchers(config: &LeaseConfig) -> Watchers {
    let mut watchers = lease_watchers_beyond(config);
    if config.gates_never_overlap() {
        watchers.add(Box::new(Gates::default()));
        watchers.add(Box::new(EpochsRise::new(config.clocks.drift_ppb)));
        if !config.mishaps.touch_the_lease() {
            watchers.add(Box::new(LostForAReason::default()));
        }
        if config.clocks_run_evenly() {
            watchers.add(Box::new(PeriodCountsFromTheSend::new(config.duration, config.clocks.drift_ppb)));
        }
    }
    watchers
}

/// The same where clocks leave the conditions of invariant 3: what holds without them.
#[must_use]
pub fn lease_watchers_beyond(config: &LeaseConfig) -> Watchers {
    let mut watchers = Watchers::new(vec![
        Box::new(SomebodyServes::new(config.recovered_by())),
        Box::new(GapIsBounded::new(config.longest_gap())),
        Box::new(LeaseTraffic::new(config.duration)),
    ]);
    if config.process_faults.clones_per_hour > 0 {
        // A copy is in a role that it never entered, answers calls that nobody made to it, and goes on in an
        // epoch that the original may release.
        return watchers;
    }
    let hold_offs = config.standby.map(|standby| micros(standby.step_down_hold_off())).to_vec();
    watchers.add(Box::new(ReleasedIsOver::default()));
    watchers.add(Box::new(StepDowns::default()));
    watchers.add(Box::new(HealthAgrees::default()));
    watchers.add(Box::new(HoldsOff::new(hold_offs)));
    let lagging = config.standby.map(|standby| micros(standby.lagging_takeover_delay())).to_vec();
    watchers.add(Box::new(TakesInTurn::new(lagging)));
    watchers.add(Box::new(CutOffIsFinal::default()));
    watchers.add(Box::new(LeavesNothingBehind::new(micros(config.duration.try_cut_off()))));
    if !config.mishaps.touch_the_lease() {
        watchers.add(Box::new(AdoptsWhatLanded::default()));
    }
    watchers
}
