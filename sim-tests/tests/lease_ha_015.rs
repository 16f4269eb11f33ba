//! HA-15: what does not rest on clocks holds for every lease duration, skew, delay and clock. Two gates may be
//! open at once here; epochs, fences, releases and step downs are checked.

use dexzd_io_sim::SECOND;
use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::lease_world::{ClockFaults, LeaseConfig, LeaseWorld, ProcessFaults};
use dexzd_io_sim::swarm::StoreFaults;
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::watch::Watchers;
use dexzd_sim_tests::invariants::{EpochsRise, ReleasedIsOver, StepDowns};

/// Far beyond every margin of section 1.7 of the review.
const DRIFT_PPB: u64 = 300_000_000;

#[test]
fn ha_015_without_any_condition_on_clocks_epochs_rise_and_what_is_released_stays_released() {
    for seed in 0..400 {
        let mut dice = Dice::from_seed(seed);
        let drawn = LeaseConfig::draw(&mut dice);
        let config = LeaseConfig {
            store: StoreFaults { denied: 0, ..StoreFaults::all() },
            clocks: ClockFaults { drift_ppb: DRIFT_PPB, skew_us: 3_600 * SECOND },
            process_faults: ProcessFaults {
                uncounted_pauses_per_hour: 120,
                suspensions_per_hour: 60,
                slews_per_hour: 0,
                clones_per_hour: 0,
                ..drawn.process_faults
            },
            ..drawn
        };
        let watchers = Watchers::new(vec![
            Box::new(EpochsRise::new(DRIFT_PPB)),
            Box::new(ReleasedIsOver::default()),
            Box::new(StepDowns::default()),
        ]);
        let mut world = LeaseWorld::new(config, dice, watchers, Trace::quiet());
        world.run_until(config.heal_at);
        if let Err(violation) = world.finish() {
            panic!("seed {seed}: {violation}\n{config:?}");
        }
    }
}
