//! The worlds by name: for the suites of seeds, for `sim`, and for decision logs, which name theirs.

use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::lease_world::{LeaseConfig, LeaseWorld};
use dexzd_io_sim::product::{ProductConfig, ProductWorld};
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::watch::Watchers;

use crate::lookout::Lookout;
use crate::recorder::Recorder;
use crate::runner::{Run, World};
use crate::{lease_watchers, product_watchers};

/// A state that the seeds of a test run must reach.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// The mark.
    pub mark: &'static str,
    /// In all seeds of a test run together.
    pub at_least: u64,
}

/// A world that people can name.
#[derive(Clone, Copy, Debug)]
pub struct NamedWorld {
    /// In commands and in decision logs.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Makes a run.
    pub make: World,
    /// So many seeds belong to a test run.
    pub test_seeds: u64,
    /// What they must reach.
    pub demands: &'static [Demand],
}

const fn demand(mark: &'static str, at_least: u64) -> Demand {
    Demand { mark, at_least }
}

/// Processes that compete for one lease, and nothing else.
pub const LEASE: NamedWorld = NamedWorld {
    name: "lease",
    about: "processes that compete for one lease, and nothing else",
    make: lease,
    test_seeds: 20_000,
    demands: &[
        demand("takeover from a process that lives", 1_000),
        demand("takeover after a death", 1_000),
        demand("a process takes its own old lease", 1_000),
        demand("a released lease is taken", 1_000),
        demand("a renewal lands after its release was sent", 50),
        demand("a renewal is known in the last 100 ms", 8),
        demand("a gate is in doubt", 500),
        demand("a gate in doubt opens again", 500),
        demand("the lease is deleted under an open gate", 200),
        demand("the lease is created again after it was deleted", 200),
    ],
};

/// The whole product: control and data plane, log, Workers and clients.
pub const PRODUCT: NamedWorld = NamedWorld {
    name: "product",
    about: "the whole product, with its log, Workers and clients",
    make: product,
    test_seeds: 2_000,
    demands: &[
        demand("takeover after a death", 100),
        demand("crash between a decision and its durability", 100),
        demand("the start of an ASYNC attempt was lost", 30),
        demand("a task leaves for a further attempt", 1_000),
        demand("a Worker hands a task back", 500),
        demand("a late result is dropped", 500),
    ],
};

/// All of them.
pub const ALL: [&NamedWorld; 2] = [&LEASE, &PRODUCT];

/// The world of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static NamedWorld> {
    ALL.into_iter().find(|world| world.name == name)
}

/// Adds what every world has: the lookout, and a recorder if somebody watches.
fn observed(mut watchers: Watchers, trace: &Trace) -> (Watchers, Recorder) {
    let recorder = Recorder::default();
    watchers.add(Box::new(Lookout::default()));
    if trace.is_watched() {
        watchers.add_first(Box::new(recorder.clone()));
    }
    (watchers, recorder)
}

fn lease(mut dice: Dice, trace: Trace) -> Run {
    let config = LeaseConfig::draw(&mut dice);
    let (watchers, recorder) = observed(lease_watchers(&config), &trace);
    let mut world = LeaseWorld::new(config, dice, watchers, trace);
    let result = world.run();
    let simulated = world.now();
    let (mut trace, dice) = world.into_parts();
    trace.add_sights(recorder.take());
    Run { result, trace, dice, simulated, config: format!("{config:?}") }
}

fn product(mut dice: Dice, trace: Trace) -> Run {
    let config = ProductConfig::draw(&mut dice);
    let (watchers, recorder) = observed(product_watchers(&config), &trace);
    let text = format!("{config:?}");
    let mut world = ProductWorld::new(config, dice, watchers, trace);
    let result = world.run();
    let simulated = world.now();
    let (mut trace, dice) = world.into_parts();
    trace.add_sights(recorder.take());
    Run { result, trace, dice, simulated, config: text }
}
