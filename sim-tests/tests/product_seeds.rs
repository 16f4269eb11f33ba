//! Seeds of the whole product: processes that crash at every output and start again, Workers that fail,
//! hang, decline and come back late, clients that repeat their calls.

use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::product::{ProductConfig, ProductWorld};
use dexzd_io_sim::trace::Trace;
use dexzd_sim_tests::product_watchers;
use dexzd_sim_tests::runner::{Run, seeds};

fn product_world(mut dice: Dice, trace: Trace) -> Run {
    let config = ProductConfig::draw(&mut dice);
    let watchers = product_watchers(&config);
    let text = format!("{config:?}");
    let mut world = ProductWorld::new(config, dice, watchers, trace);
    let result = world.run();
    let simulated = world.now();
    let (trace, dice) = world.into_parts();
    Run { result, trace, dice, simulated, config: text }
}

#[test]
fn product_seeds() {
    seeds("product_seeds", 1_000, product_world);
}
