//! Runs seeds as tests, and turns a broken rule into something a person can work with.

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::watch::Violation;

use crate::batch::{self, Plan, Summary};
use crate::explain;
use crate::log_file;
use crate::worlds::{Demand, NamedWorld};

/// One finished run.
#[derive(Debug)]
pub struct Run {
    /// The first broken rule.
    pub result: Result<(), Violation>,
    /// What happened.
    pub trace: Trace,
    /// What was drawn, as a decision log.
    pub dice: Dice,
    /// How much time passed inside.
    pub simulated: TrueTime,
    /// The configuration, for people.
    pub config: String,
}

/// Makes one run out of dice and a trace.
pub type World = fn(Dice, Trace) -> Run;

/// Runs the suite of a world: its number of seeds, which must also reach its marks.
///
/// - `DEXZD_SIM_SEED=n` runs only that seed, with a trace;
/// - `DEXZD_SIM_SEEDS=n` runs so many seeds instead of the suite's own number;
/// - `DEXZD_SIM_GO_ON=1` goes on after a failure and prints one line for each;
/// - `DEXZD_SIM_LOG=file` runs that decision log instead of seeds.
///
/// # Panics
/// When a rule is broken or the simulator is at fault, with a report.
pub fn suite(world: &NamedWorld) {
    if let Some(path) = variable("DEXZD_SIM_LOG") {
        let file = log_file::read(path.as_ref()).unwrap_or_else(|refusal| panic!("{refusal}"));
        return alone(file.world.make, Dice::from_script(file.script));
    }
    if let Some(seed) = number("DEXZD_SIM_SEED") {
        return alone(world.make, Dice::from_seed(seed));
    }
    let count = number("DEXZD_SIM_SEEDS");
    let goes_on = number("DEXZD_SIM_GO_ON").is_some();
    let plan = Plan { goes_on, ..Plan::of(count.unwrap_or(world.test_seeds)) };
    let summary = batch::run(plan, world.make, &|_| {});
    for (seed, fault) in summary.failures.iter().filter(|_| goes_on) {
        println!("seed {seed}: {fault}");
    }
    if let Some((seed, fault)) = summary.failures.first() {
        panic!("\n{}", explain::failing_seed(world, *seed, fault).text);
    }
    println!("{}", line(world.name, &summary));
    for Demand { mark, at_least } in world.demands {
        println!("  {:>9} x {mark} (at least {at_least})", summary.tally.count(mark));
    }
    // Another number of seeds reaches other marks.
    let missed = if count.is_none() { summary.missed(world.demands) } else { Vec::new() };
    if let Some(fault) = missed.first() {
        panic!("{fault}");
    }
}

/// Runs seeds of a world that has no name, and demands no marks.
///
/// # Panics
/// As [`suite`].
pub fn seeds(name: &'static str, count: u64, make: World) {
    suite(&NamedWorld { name, about: "a world of one test", make, test_seeds: count, demands: &[] });
}

/// One run that prints its story as it goes.
fn alone(world: World, dice: Dice) {
    let run = world(dice, Trace::printing());
    println!("{}\nhash {:016x}", run.config, run.trace.hash());
    if let Err(violation) = &run.result {
        panic!("{violation}\n");
    }
}

fn line(name: &str, summary: &Summary) -> String {
    format!(
        "{name}: {} seeds in {:.1} s and {:.1} s of CPU; per CPU second {:.2} M events and {:.0} simulated seconds",
        summary.seeds,
        summary.took.as_secs_f64(),
        summary.cpu.as_secs_f64(),
        summary.events_per_cpu_second() / 1e6,
        summary.simulated_per_cpu(),
    )
}

/// The trace of a scenario: printed line by line if `DEXZD_SIM_TRACE` is set, else none.
#[must_use]
pub fn story() -> Trace {
    if variable("DEXZD_SIM_TRACE").is_some() { Trace::printing() } else { Trace::quiet() }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    variable(name)
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}
