//! Runs seeds, runs some of them twice, and turns a broken rule into something a person can work with.

use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::dice::{Dice, Script};
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::watch::Violation;

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

/// Every so many seeds one is run twice, to see that it repeats itself exactly.
const TWICE: u64 = 100;

/// Runs a suite of seeds.
///
/// - `DEXZD_SIM_SEED=n` runs only that seed, with a trace;
/// - `DEXZD_SIM_SEEDS=n` runs so many seeds instead of the suite's own number;
/// - `DEXZD_SIM_LOG=file` runs that decision log instead of seeds.
///
/// # Panics
/// When a rule is broken, with a report.
pub fn seeds(test: &str, count: u64, world: World) {
    if let Some(path) = variable("DEXZD_SIM_LOG") {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let script = Script::parse(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let run = world(Dice::from_script(script), Trace::watched());
        print!("{}", run.trace);
        if let Err(violation) = &run.result {
            panic!("{violation}\n");
        }
        return;
    }
    if let Some(seed) = number("DEXZD_SIM_SEED") {
        let run = world(Dice::from_seed(seed), Trace::watched());
        println!("{}\n{}\nhash {:016x}", run.config, run.trace, run.trace.hash());
        if run.result.is_err() {
            panic!("{}", report(test, seed, world));
        }
        return;
    }
    let count = number("DEXZD_SIM_SEEDS").unwrap_or(count);
    let next = AtomicU64::new(0);
    let failed = Mutex::new(None::<u64>);
    let totals = Mutex::new((0_u64, 0_u64));
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count
                        || failed.lock().expect("nobody panics with it").is_some_and(|it| it < seed)
                    {
                        break;
                    }
                    let run = world(Dice::from_seed(seed), Trace::quiet());
                    let differs = seed % TWICE == 0
                        && world(Dice::from_seed(seed), Trace::quiet()).trace.hash() != run.trace.hash();
                    if run.result.is_err() || differs {
                        let mut failed = failed.lock().expect("nobody panics with it");
                        *failed = Some(failed.map_or(seed, |other| other.min(seed)));
                    }
                    let mut totals = totals.lock().expect("nobody panics with it");
                    totals.0 += run.trace.events();
                    totals.1 += run.simulated;
                }
            });
        }
    });
    if let Some(seed) = failed.into_inner().expect("nobody panics with it") {
        panic!("{}", report(test, seed, world));
    }
    let (events, simulated) = totals.into_inner().expect("nobody panics with it");
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{test}: {count} seeds in {seconds:.1} s, {:.0} seeds/s, {:.2} M events/s, {:.0} simulated seconds per second",
        count as f64 / seconds,
        events as f64 / seconds / 1e6,
        simulated as f64 / 1e6 / seconds,
    );
}

/// What a person gets: one sentence, the command, the configuration, the end of the story.
fn report(test: &str, seed: u64, world: World) -> String {
    let run = world(Dice::from_seed(seed), Trace::watched());
    let again = world(Dice::from_seed(seed), Trace::watched());
    let mut text = String::from("\n");
    let mut add = |line: String| writeln!(text, "{line}").expect("writing to a string cannot fail");
    if let Some(event) = run.trace.first_difference(&again.trace) {
        add(format!("two runs of seed {seed} differ, first at event {event}"));
    }
    if let Err(violation) = &run.result {
        add(violation.to_string());
    }
    add(format!(
        "again: DEXZD_SIM_SEED={seed} cargo test -p dexzd-sim-tests --profile sim {test} -- --nocapture"
    ));
    let path = std::env::temp_dir().join(format!("dexzd-{test}-{seed}.decisions"));
    match std::fs::write(&path, run.dice.written()) {
        Ok(()) => add(format!("to edit: DEXZD_SIM_LOG={} (instead of the seed)", path.display())),
        Err(error) => add(format!("the decision log could not be written to {}: {error}", path.display())),
    }
    add(run.config);
    let story = run.trace.to_string();
    let lines: Vec<&str> = story.lines().collect();
    for line in &lines[lines.len().saturating_sub(60)..] {
        add((*line).to_owned());
    }
    text
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    variable(name)
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}
