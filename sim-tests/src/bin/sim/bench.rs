//! `sim bench`: how fast the simulator is, and how small its counterexamples are, against what they are to reach.

use std::time::{Duration, Instant};

use dexzd_core::mutant::{Mutant, switch_on};
use dexzd_io_sim::SECOND;
use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::lease_world::{LeaseConfig, LeaseWorld};
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::watch::Watchers;
use dexzd_sim_tests::attempt::attempt;
use dexzd_sim_tests::batch::{self, Plan, cpu_time};
use dexzd_sim_tests::invariants::{EpochsRise, Gates, LeaseTraffic, ReleasedIsOver, SomebodyServes};
use dexzd_sim_tests::mutants::{Hunt, first_failure, hunt, world_for};
use dexzd_sim_tests::shrink::shrink;
use dexzd_sim_tests::worlds::{LEASE, PRODUCT};
use serde_json::json;

use crate::end::End;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One JSON object per figure and line instead of a table
    #[arg(long)]
    json: bool,

    /// A tenth of the seeds and of the mutants: to see that it works, not to compare
    #[arg(long)]
    quick: bool,
}

/// What a figure is to reach.
#[derive(Clone, Copy)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

pub(crate) fn run(arguments: &Arguments) -> End {
    let part = if arguments.quick { 10 } else { 1 };
    let tell = |figure: &str, value: Option<f64>, unit: &str, target: Target| {
        println!("{}", line(arguments.json, figure, value, unit, target));
    };
    let calm = calm_lease(20_000 / part);
    tell("lease traffic with a standby, simulated : CPU", Some(calm), "x", Target::AtLeast(30_000.0));
    let lease = batch::run(Plan::of(LEASE.test_seeds / part), LEASE.make, &|_| {});
    let product = batch::run(Plan::of(PRODUCT.test_seeds / part), PRODUCT.make, &|_| {});
    let (fast, whole) = (lease.events_per_cpu_second(), product.events_per_cpu_second());
    tell("lease world, events per CPU second", Some(fast), "/s", Target::AtLeast(2e6));
    tell("whole product, simulated : CPU", Some(product.simulated_per_cpu()), "x", Target::AtLeast(2_000.0));
    tell("whole product, events per CPU second", Some(whole), "/s", Target::AtLeast(300e3));
    tell("lease seeds of a test run", Some(LEASE.test_seeds as f64), "seeds", Target::AtLeast(20_000.0));
    tell("product seeds of a test run", Some(PRODUCT.test_seeds as f64), "seeds", Target::AtLeast(2_000.0));
    let two_cores = (lease.cpu + product.cpu).as_secs_f64() * part as f64 / 2.0;
    tell("seeds of a test run, on two cores", Some(two_cores), "s", Target::AtMost(300.0));

    let chosen: Vec<Mutant> = Mutant::ALL.iter().copied().step_by(part as usize).collect();
    let verdicts: Vec<_> =
        chosen.iter().map(|mutant| hunt(*mutant, Hunt { repetitions: 1, at_most: 500 })).collect();
    let killed: Vec<_> = verdicts.iter().filter(|verdict| verdict.is_killed()).collect();
    let small: Vec<(f64, f64)> = killed.iter().filter_map(|verdict| shrunk(verdict.mutant)).collect();
    let median_of = |values: Vec<f64>| {
        let mut values = values;
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len().saturating_sub(1) / 2).copied()
    };
    let sizes = median_of(small.iter().map(|(size, _)| *size).collect());
    let times = median_of(small.iter().map(|(_, seconds)| *seconds).collect());
    tell("shrunk counterexample, median", sizes, "decisions", Target::AtMost(30.0));
    tell("time to shrink, median", times, "s", Target::AtMost(10.0));
    let of_all = format!("mutants killed, of {}", chosen.len());
    tell(&of_all, Some(killed.len() as f64), "mutants", Target::AtLeast(chosen.len() as f64));
    let seeds = median_of(killed.iter().filter_map(|it| it.median_seeds()).map(|it| it as f64).collect());
    tell("seeds to kill a mutant, median", seeds, "seeds", Target::AtMost(500.0));
    End::Well
}

/// Simulated seconds per CPU second of one node with a standby in fine weather, with every check on.
fn calm_lease(hours: u64) -> f64 {
    let config = LeaseConfig::calm(2, 10);
    let watchers = Watchers::new(vec![
        Box::new(EpochsRise::new(config.clocks.drift_ppb)),
        Box::new(Gates::default()),
        Box::new(SomebodyServes::new(60 * SECOND)),
        Box::new(ReleasedIsOver::default()),
        Box::new(LeaseTraffic::new(config.duration)),
    ]);
    let mut world = LeaseWorld::new(config, Dice::from_seed(1), watchers, Trace::quiet());
    let before = cpu_time();
    let simulated = hours * 60 * SECOND;
    world.run_until(simulated);
    assert_eq!(world.finish(), Ok(()), "fine weather");
    simulated as f64 / 1e6 / cpu_time().saturating_sub(before).as_secs_f64().max(1e-9)
}

/// The size of the shrunk counterexample that shows a mutant, and how many seconds the shrinking took.
fn shrunk(mutant: Mutant) -> Option<(f64, f64)> {
    let world = world_for(mutant).make;
    switch_on(Some(mutant));
    let small = first_failure(world, 0, 500).and_then(|(seed, _)| {
        let failed = attempt(world, Dice::from_seed(seed), Trace::quiet());
        let started = Instant::now();
        let small = shrink(world, &failed.decisions, Duration::from_secs(10))?;
        Some((small.size() as f64, started.elapsed().as_secs_f64()))
    });
    switch_on(None);
    small
}

fn line(json: bool, figure: &str, value: Option<f64>, unit: &str, target: Target) -> String {
    let (sign, limit, met) = match (target, value) {
        (Target::AtLeast(limit), value) => ('\u{2265}', limit, value.is_some_and(|value| value >= limit)),
        (Target::AtMost(limit), value) => ('\u{2264}', limit, value.is_some_and(|value| value <= limit)),
    };
    let value = value.map(|value| (value * 1_000.0).round() / 1_000.0);
    if json {
        return json!({ "figure": figure, "value": value, "unit": unit, "target": limit, "met": met })
            .to_string();
    }
    let value = value.map_or("-".to_owned(), |value| value.to_string());
    let met = if met { "met" } else { "missed" };
    format!("{figure:<50} {value:>14} {unit:<10} {sign} {limit:<8} {met}")
}
