//! Many seeds of one world on all cores, until they are done or a budget is spent.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::marks::Tally;
use dexzd_io_sim::trace::Trace;
use rustix::time::{ClockId, clock_gettime};

use crate::attempt::{Attempt, Fault, attempt};
use crate::runner::World;
use crate::worlds::Demand;

/// Every so many seeds one is run twice, to see that it repeats itself exactly.
const TWICE: u64 = 100;

/// Which seeds, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// No further seed begins after this time.
    pub budget: Option<Duration>,
    /// Whether it goes on after a failure.
    pub goes_on: bool,
}

impl Plan {
    /// From 0 on, until the first failure.
    #[must_use]
    pub const fn of(count: u64) -> Self {
        Self { first: 0, count, budget: None, goes_on: false }
    }
}

/// What became of them.
#[derive(Default, Debug)]
pub struct Summary {
    /// So many seeds were run.
    pub seeds: u64,
    /// So many of them twice.
    pub twice: u64,
    /// Events of all of them.
    pub events: u64,
    /// Simulated time of all of them, in microseconds.
    pub simulated: TrueTime,
    /// How long it took.
    pub took: Duration,
    /// CPU time of this process meanwhile.
    pub cpu: Duration,
    /// Marks and measured values.
    pub tally: Tally,
    /// Seeds that failed, in their order.
    pub failures: Vec<(u64, Fault)>,
}

impl Summary {
    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.twice += other.twice;
        self.events += other.events;
        self.simulated += other.simulated;
        self.tally.merge(other.tally);
        self.failures.extend(other.failures);
    }

    /// Simulated seconds per second of CPU.
    #[must_use]
    pub fn simulated_per_cpu(&self) -> f64 {
        self.simulated as f64 / 1e6 / self.cpu.as_secs_f64().max(1e-9)
    }

    /// Events per second of CPU.
    #[must_use]
    pub fn events_per_cpu_second(&self) -> f64 {
        self.events as f64 / self.cpu.as_secs_f64().max(1e-9)
    }

    /// The marks that were not reached often enough.
    #[must_use]
    pub fn missed(&self, demands: &[Demand]) -> Vec<Fault> {
        let missed = demands.iter().filter(|demand| self.tally.count(demand.mark) < demand.at_least);
        missed
            .map(|Demand { mark, at_least }| {
                let count = self.tally.count(mark);
                Fault::MarkMissed(format!(
                    "the mark {mark:?} was reached {count} times in {} seeds, and must be {at_least} times: \
                     the faults drawn no longer lead there",
                    self.seeds
                ))
            })
            .collect()
    }
}

/// The CPU time that this process has used.
#[must_use]
pub fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("CPU time is not negative")
}

/// Runs them. `progress` hears how many seeds are done.
pub fn run(plan: Plan, world: World, progress: &(dyn Fn(u64) + Sync)) -> Summary {
    let (started, cpu_before) = (Instant::now(), cpu_time());
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let total = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                let mut own = Summary::default();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let spent = plan.budget.is_some_and(|budget| started.elapsed() >= budget);
                    if index >= plan.count || spent || over.load(Ordering::Relaxed) {
                        break;
                    }
                    let seed = plan.first.wrapping_add(index);
                    let fault = try_seed(seed, world, index.is_multiple_of(TWICE), &mut own);
                    if let Some(fault) = fault {
                        own.failures.push((seed, fault));
                        over.fetch_or(!plan.goes_on, Ordering::Relaxed);
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
                total.lock().expect("nobody panics with it").merge(own);
            });
        }
    });
    let mut summary = total.into_inner().expect("nobody panics with it");
    summary.failures.sort_by_key(|(seed, _)| seed.wrapping_sub(plan.first));
    summary.took = started.elapsed();
    summary.cpu = cpu_time().saturating_sub(cpu_before);
    summary
}

/// What is wrong with a seed, if anything. One that fails runs twice, too.
fn try_seed(seed: u64, world: World, twice: bool, own: &mut Summary) -> Option<Fault> {
    let first = attempt(world, Dice::from_seed(seed), Trace::quiet());
    own.seeds += 1;
    own.tally.merge(first.tally.clone());
    if let Some(run) = &first.run {
        own.events += run.trace.events();
        own.simulated += run.simulated;
    }
    if !twice && first.fault.is_none() {
        return None;
    }
    own.twice += 1;
    let second = attempt(world, Dice::from_seed(seed), Trace::quiet());
    if ends_of(&first) == ends_of(&second) { first.fault } else { Some(divergence(seed, world)) }
}

fn ends_of(attempt: &Attempt) -> (Option<u64>, Option<&Fault>) {
    (attempt.run.as_ref().map(|run| run.trace.hash()), attempt.fault.as_ref())
}

/// Two more runs, to say where they part.
fn divergence(seed: u64, world: World) -> Fault {
    let watched = || attempt(world, Dice::from_seed(seed), Trace::watched()).run;
    let event = match (watched(), watched()) {
        (Some(one), Some(two)) => one.trace.first_difference(&two.trace),
        (None, _) | (_, None) => None,
    };
    let place = event.map_or_else(
        || "and two further runs with a trace do not".to_owned(),
        |event| format!("first at event {event}"),
    );
    Fault::Divergence(format!("two runs of seed {seed} differ, {place}"))
}

/// The value below which this share of the sorted values lies.
#[must_use]
pub fn percentile(sorted: &[u64], share: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::{Plan, Summary, percentile, run};
    use crate::attempt::Fault;
    use crate::runner::Run;
    use crate::worlds::Demand;
    use dexzd_io_sim::dice::{Dice, Stream};
    use dexzd_io_sim::marks::mark;
    use dexzd_io_sim::trace::Trace;
    use dexzd_io_sim::watch::Violation;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn finished(dice: Dice, trace: Trace, broken: bool) -> Run {
        let violation = || Violation { at: 1, rule: "r".to_owned(), sentence: "s".to_owned() };
        let result = if broken { Err(violation()) } else { Ok(()) };
        Run { result, trace, dice, simulated: 5, config: String::new() }
    }

    #[test]
    fn seeds_are_counted_and_marks_added_up() {
        let summary = run(
            Plan::of(250),
            |dice, trace| {
                mark("seen");
                finished(dice, trace, false)
            },
            &|_| {},
        );
        assert_eq!((summary.seeds, summary.twice, summary.simulated), (250, 3, 1_250));
        assert_eq!(summary.tally.count("seen"), 250);
        assert_eq!(summary.failures, []);
        assert!(summary.missed(&[Demand { mark: "seen", at_least: 250 }]).is_empty());
        assert_eq!(summary.missed(&[Demand { mark: "never", at_least: 1 }]).len(), 1);
    }

    #[test]
    fn a_plan_that_goes_on_names_every_seed_that_fails() {
        let plan = Plan { goes_on: true, ..Plan::of(40) };
        let world = |mut dice: Dice, trace| {
            let broken = dice.below(Stream::Crash, "broken", 4) == 0;
            finished(dice, trace, broken)
        };
        let summary = run(plan, world, &|_| {});
        let expected: Vec<u64> =
            (0..40).filter(|seed| Dice::from_seed(*seed).below(Stream::Crash, "broken", 4) == 0).collect();
        assert_eq!(summary.failures.iter().map(|(seed, _)| *seed).collect::<Vec<_>>(), expected);
        assert!(!summary.failures[0].1.is_the_simulators());
    }

    #[test]
    fn a_run_that_is_not_repeated_is_a_fault_of_the_simulator() {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let world = |dice, mut trace: Trace| {
            trace.event(RUNS.fetch_add(1, Ordering::Relaxed), 0);
            finished(dice, trace, false)
        };
        let Summary { failures, .. } = run(Plan::of(1), world, &|_| {});
        assert_eq!(
            failures,
            [(0, Fault::Divergence("two runs of seed 0 differ, first at event 0".to_owned()))]
        );
    }

    #[test]
    fn percentiles_are_values_that_occur() {
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[1, 2, 9], 0.5), Some(2));
        assert_eq!(percentile(&[1, 2, 9], 1.0), Some(9));
    }
}
