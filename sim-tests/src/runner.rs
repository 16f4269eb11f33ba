//! Runs seeds, runs some of them twice, and turns a broken rule into something a person can work with.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::num::NonZero;
use std::panic::catch_unwind;
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

/// The lines of a story are cut here; a seed run alone shows them in full.
const LINE_LENGTH: usize = 180;
/// Every so many seeds one is run twice, to see that it repeats itself exactly.
const TWICE: u64 = 100;

/// Runs a suite of seeds.
///
/// - `DEXZD_SIM_SEED=n` runs only that seed, with a trace;
/// - `DEXZD_SIM_SEEDS=n` runs so many seeds instead of the suite's own number;
/// - `DEXZD_SIM_GO_ON=1` goes on after a failure and prints one line for each;
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
        let run = world(Dice::from_seed(seed), Trace::printing());
        println!("{}\nhash {:016x}", run.config, run.trace.hash());
        if let Err(violation) = &run.result {
            panic!("{violation}\n");
        }
        return;
    }
    let count = number("DEXZD_SIM_SEEDS").unwrap_or(count);
    let go_on = number("DEXZD_SIM_GO_ON").is_some();
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = !tally.lock().expect("nobody panics with it").failed.is_empty() && !go_on;
                    if seed >= count || over {
                        break;
                    }
                    let outcome = try_seed(seed, world);
                    let mut tally = tally.lock().expect("nobody panics with it");
                    match outcome {
                        Ok((events, simulated)) => {
                            tally.events += events;
                            tally.simulated += simulated;
                        }
                        Err(sentence) => {
                            if go_on {
                                println!("seed {seed}: {sentence}");
                            }
                            tally.failed.insert(seed);
                        }
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().expect("nobody panics with it");
    if let Some(seed) = tally.failed.first() {
        panic!("{}", report(test, *seed, world));
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{test}: {count} seeds in {seconds:.1} s, {:.0} seeds/s, {:.2} M events/s, {:.0} simulated seconds per second",
        count as f64 / seconds,
        tally.events as f64 / seconds / 1e6,
        tally.simulated as f64 / 1e6 / seconds,
    );
}

#[derive(Default)]
struct Tally {
    failed: BTreeSet<u64>,
    events: u64,
    simulated: TrueTime,
}

/// Events and simulated time, or what went wrong in one line.
fn try_seed(seed: u64, world: World) -> Result<(u64, TrueTime), String> {
    let run = |seed| catch_unwind(|| world(Dice::from_seed(seed), Trace::quiet()));
    let Ok(first) = run(seed) else {
        return Err("panicked".to_owned());
    };
    first.result.map_err(|violation| violation.to_string())?;
    if seed.is_multiple_of(TWICE) && run(seed).is_ok_and(|second| second.trace.hash() != first.trace.hash()) {
        return Err("two runs differ".to_owned());
    }
    Ok((first.trace.events(), first.simulated))
}

/// The trace of a scenario: printed line by line if `DEXZD_SIM_TRACE` is set, else none.
#[must_use]
pub fn story() -> Trace {
    if variable("DEXZD_SIM_TRACE").is_some() { Trace::printing() } else { Trace::quiet() }
}

/// What a person gets: one sentence, the command, the configuration, the end of the story.
fn report(test: &str, seed: u64, world: World) -> String {
    let command =
        format!("DEXZD_SIM_SEED={seed} cargo test -p dexzd-sim-tests --profile sim {test} -- --nocapture");
    let Ok(run) = catch_unwind(|| world(Dice::from_seed(seed), Trace::watched())) else {
        return format!("\nseed {seed} makes the code panic\nagain: {command}\n");
    };
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
        add(line.chars().take(LINE_LENGTH).collect());
    }
    if let Err(violation) = &run.result {
        add(violation.to_string());
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
