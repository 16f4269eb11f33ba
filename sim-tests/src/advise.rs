//! What a lease duration means for an operator with a given store: false takeovers and gaps, from simulation of
//! the real lease machines under the store's latencies.
//!
//! Latencies are log-normal through the two percentiles given, independent of each other: a store whose slow
//! requests come in bursts is worse than this.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dexzd_core::rng::Rng;
use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::lease_world::{ClockFaults, LeaseConfig, LeaseWorld, Order};
use dexzd_io_sim::marks::{self, Tally};
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::watch::Watchers;
use dexzd_io_sim::weather::Fate;
use dexzd_io_sim::{SECOND, TrueTime};

use crate::batch::percentile;
use crate::invariants::Gates;
use crate::lookout::{FAILOVER_GAP, Lookout};

/// One quiet run lasts so long: long beside a lease, short beside the budget.
const QUIET: TrueTime = 6 * 3_600 * SECOND;
/// The active is killed this long after the beginning, when it serves for sure, and looked at so long after.
const KILLED_AT: TrueTime = 60 * SECOND;
/// The standard normal deviate below which 99.9 % lie.
const DEVIATE_P999: f64 = 3.090_232;

/// A store, and the clocks of the processes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Conditions {
    /// Half of the requests take less.
    pub p50: Duration,
    /// One of a thousand takes more.
    pub p999: Duration,
    /// Clock rates differ from true time by at most this.
    pub drift_ppm: u64,
}

/// What a lease duration means under them.
#[derive(Clone, Default, Debug)]
pub struct Outlook {
    /// Simulated without any fault but slow requests.
    pub simulated: TrueTime,
    /// Epochs that ended in that time although nothing was wrong with their process.
    pub false_takeovers: u64,
    /// Service gaps of those, in microseconds, sorted.
    pub false_gaps: Vec<u64>,
    /// Service gaps after the active was killed, in microseconds, sorted.
    pub gaps: Vec<u64>,
}

impl Outlook {
    /// False takeovers a day: as counted, or what they are below with 95 % certainty if none was seen.
    #[must_use]
    pub fn per_day(&self) -> (f64, bool) {
        let days = self.simulated as f64 / 86_400e6;
        if self.false_takeovers == 0 {
            (3.0 / days, false)
        } else {
            (self.false_takeovers as f64 / days, true)
        }
    }

    /// The chance of at least one in so many days.
    #[must_use]
    pub fn chance_in(&self, days: f64) -> f64 {
        1.0 - (-self.per_day().0 * days).exp()
    }

    /// A share of the gaps after a kill is below this.
    #[must_use]
    pub fn gap(&self, share: f64) -> Option<Duration> {
        percentile(&self.gaps, share).map(Duration::from_micros)
    }
}

/// Simulates one lease duration for so long, on all cores.
///
/// # Errors
/// The sentence of a broken rule: the product is wrong, or the clocks drift too far for this duration.
pub fn outlook(seconds: u64, conditions: Conditions, budget: Duration) -> Result<Outlook, String> {
    let ends = Instant::now() + budget;
    let next = AtomicU64::new(0);
    let total = Mutex::new(Ok(Outlook::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                // Each at least once, so that there is something to tell.
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let quiet = run(seed, seconds, conditions, false);
                    let killed: Vec<_> =
                        (0..50).map(|number| run(seed * 50 + number, seconds, conditions, true)).collect();
                    let mut total = total.lock().expect("nobody panics with it");
                    if let Err(sentence) = add(&mut total, quiet, killed) {
                        *total = Err(sentence);
                    }
                    if total.is_err() || Instant::now() >= ends {
                        return;
                    }
                }
            });
        }
    });
    let mut outlook = total.into_inner().expect("nobody panics with it")?;
    outlook.gaps.sort_unstable();
    outlook.false_gaps.sort_unstable();
    Ok(outlook)
}

type Seen = Result<Tally, String>;

fn add(total: &mut Result<Outlook, String>, quiet: Seen, killed: Vec<Seen>) -> Result<(), String> {
    let Ok(total) = total else {
        return Ok(());
    };
    let gaps = |tally: Tally| tally.values.get(FAILOVER_GAP).cloned().unwrap_or_default();
    let quiet = gaps(quiet?);
    total.simulated += QUIET;
    total.false_takeovers += quiet.len() as u64;
    total.false_gaps.extend(quiet);
    for tally in killed {
        // The first is that of the kill.
        total.gaps.extend(gaps(tally?).first());
    }
    Ok(())
}

fn run(seed: u64, seconds: u64, conditions: Conditions, kill: bool) -> Seen {
    let drift_ppb = conditions.drift_ppm * 1_000;
    let config = LeaseConfig {
        clocks: ClockFaults { drift_ppb, ..LeaseConfig::calm(2, seconds).clocks },
        ..LeaseConfig::calm(2, seconds)
    };
    drop(marks::take());
    let watchers = Watchers::new(vec![Box::new(Gates::default()), Box::new(Lookout::default())]);
    let mut world = LeaseWorld::new(config, Dice::from_seed(seed), watchers, Trace::quiet());
    let mut latency = Latency::new(seed, conditions);
    world.intercept(Box::new(move |_| {
        let (whole, share) = (latency.draw(), latency.share());
        let lands = (whole as f64 * share) as TrueTime;
        Some(Fate::calm(lands.max(1), (whole - lands.min(whole)).max(1)))
    }));
    if kill {
        world.run_until(KILLED_AT);
        let active = (0..2).find(|process| world.serves(*process).is_some());
        // Within one renewal period, so that every phase of it is met.
        let at = KILLED_AT + seed * 7_919 % (seconds * SECOND / 3);
        drop(marks::take());
        if let Some(active) = active {
            world.order_at(at, active, Order::Kill);
        }
        world.run_until(at + 20 * seconds * SECOND);
    } else {
        world.run_until(QUIET);
    }
    world.finish().map_err(|violation| violation.to_string())?;
    Ok(marks::take())
}

/// Log-normal latencies.
struct Latency {
    rng: Rng,
    mean: f64,
    deviation: f64,
}

impl Latency {
    fn new(seed: u64, conditions: Conditions) -> Self {
        let (p50, p999) =
            (conditions.p50.as_micros().max(1) as f64, conditions.p999.as_micros().max(1) as f64);
        Self {
            rng: Rng::new(seed ^ 0x5bd1),
            mean: p50.ln(),
            deviation: (p999 / p50).ln().max(0.0) / DEVIATE_P999,
        }
    }

    /// Within 0..1, neither of them.
    fn share(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 * 0.999_999 + 5e-7
    }

    /// Microseconds; nothing takes longer than an hour.
    fn draw(&mut self) -> TrueTime {
        let (one, two) = (self.share(), self.share());
        let deviate = (-2.0 * one.ln()).sqrt() * (two * std::f64::consts::TAU).cos();
        (self.mean + self.deviation * deviate).exp().min(3.6e9) as TrueTime
    }
}

#[cfg(test)]
mod tests {
    use super::{Conditions, Latency, Outlook, outlook};
    use std::time::Duration;

    const FINE: Conditions =
        Conditions { p50: Duration::from_millis(20), p999: Duration::from_millis(800), drift_ppm: 200 };

    #[test]
    fn latencies_have_the_percentiles_given() {
        let mut latency = Latency::new(1, FINE);
        let mut drawn: Vec<u64> = (0..100_000).map(|_| latency.draw()).collect();
        drawn.sort_unstable();
        assert!((19_000..21_000).contains(&drawn[50_000]), "{}", drawn[50_000]);
        assert!((700_000..900_000).contains(&drawn[99_900]), "{}", drawn[99_900]);
    }

    #[test]
    fn a_fine_store_has_no_false_takeovers_and_a_kill_costs_about_a_lease() {
        let outlook = outlook(10, FINE, Duration::ZERO).expect("no rule is broken");
        assert_eq!(outlook.false_takeovers, 0);
        let gap = outlook.gap(0.5).expect("it was killed fifty times");
        assert!((Duration::from_secs(1)..Duration::from_secs(12)).contains(&gap), "{gap:?}");
    }

    #[test]
    fn what_was_never_seen_is_told_as_a_bound() {
        let outlook = Outlook { simulated: 30 * 86_400_000_000, ..Outlook::default() };
        assert_eq!(outlook.per_day(), (0.1, false));
        assert!(outlook.chance_in(1.0) < 0.1);
    }
}
