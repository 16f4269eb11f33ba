//! Thousands of seeds of processes that compete for one lease, under whatever the swarm draws.

use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::lease_world::{LeaseConfig, LeaseWorld};
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::watch::Watchers;
use dexzd_sim_tests::invariants::{EpochsRise, Gates, LeaseTraffic, ReleasedIsOver, SomebodyServes};
use dexzd_sim_tests::runner::{Run, seeds};

fn lease_world(mut dice: Dice, trace: Trace) -> Run {
    let config = LeaseConfig::draw(&mut dice);
    let watchers = Watchers::new(vec![
        Box::new(EpochsRise::new(config.clocks.drift_ppb)),
        Box::new(Gates::default()),
        Box::new(SomebodyServes::new(config.recovered_by())),
        Box::new(ReleasedIsOver::default()),
        Box::new(LeaseTraffic::new(config.duration)),
    ]);
    let mut world = LeaseWorld::new(config, dice, watchers, trace);
    let result = world.run();
    let simulated = world.now();
    let (trace, dice) = world.into_parts();
    Run { result, trace, dice, simulated, config: format!("{config:?}") }
}

#[test]
fn lease_seeds() {
    seeds("lease_seeds", 2_000, lease_world);
}
