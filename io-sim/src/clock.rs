//! What a process believes the time to be: four clocks, each with its own offset and rate.

use dexzd_core::time::{Instant, Now, SlowInstant, Timestamp};

use crate::TrueTime;
use crate::dice::{Dice, Stream};

/// A clock that runs straight from one point on: `reading + (t - since) * (1 + rate)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    since: TrueTime,
    reading: u64,
    /// Parts per billion faster than true time; negative is slower.
    rate_ppb: i64,
}

const BILLION: i128 = 1_000_000_000;

impl Line {
    /// Reads `reading` at the beginning of the run.
    #[must_use]
    pub const fn new(reading: u64, rate_ppb: i64) -> Self {
        Self { since: 0, reading, rate_ppb }
    }

    /// The reading at a moment not before the last change of this clock.
    #[must_use]
    pub fn read(&self, at: TrueTime) -> u64 {
        let passed = at.saturating_sub(self.since);
        let gained = i64::try_from(passed).ok().and_then(|passed| passed.checked_mul(self.rate_ppb));
        let gained = gained.map_or_else(
            || {
                let gained = (i128::from(passed) * i128::from(self.rate_ppb)).div_euclid(BILLION);
                i64::try_from(gained).expect("clocks run for less than 500,000 years")
            },
            // A run of years fits: a division of half the width.
            |gained| gained.div_euclid(1_000_000_000),
        );
        (self.reading + passed).checked_add_signed(gained).expect("clocks run forward")
    }

    /// The first moment at which it reads at least this; the time of its last change if that is past.
    #[must_use]
    pub fn when(&self, reading: u64) -> TrueTime {
        if reading <= self.reading {
            return self.since;
        }
        let wanted = i128::from(reading - self.reading);
        let rate = BILLION + i128::from(self.rate_ppb);
        let passed = (wanted * BILLION + rate - 1) / rate;
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.since.saturating_add(passed)
    }

    /// Jumps by so many microseconds, at this moment.
    pub fn step(&mut self, at: TrueTime, by: i64) {
        self.reading = self.read(at).saturating_add_signed(by);
        self.since = at;
    }

    /// Runs at another rate from this moment on.
    fn set_rate(&mut self, at: TrueTime, rate_ppb: i64) {
        self.step(at, 0);
        self.rate_ppb = rate_ppb;
    }
}

/// The clocks of one process, as its shell reads them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// What a lease holder believes: the faster one.
    pub instant: Line,
    /// What a lease candidate believes: the slower one.
    pub slow: Line,
    /// The wall clock.
    pub wall: Line,
    /// How fast `CLOCK_MONOTONIC_RAW` runs, which nothing slews: the slower and the faster one.
    raw_ppb: (i64, i64),
}

/// Wall clocks begin here: 2026-01-01, in microseconds since the Unix epoch.
pub const WALL_ORIGIN: u64 = 1_767_225_600_000_000;

impl Clocks {
    /// True time, with an origin of its own for each clock.
    #[must_use]
    pub const fn exact() -> Self {
        Self {
            instant: Line::new(1_000_000, 0),
            slow: Line::new(2_000_000, 0),
            wall: Line::new(WALL_ORIGIN, 0),
            raw_ppb: (0, 0),
        }
    }

    /// Random origins; both monotonic clocks within `drift_ppb` of true time, the holder's not slower
    /// than the candidate's; the wall clock within `skew_us` of the truth.
    pub fn draw(dice: &mut Dice, process: u8, drift_ppb: u64, skew_us: u64) -> Self {
        let stream = Stream::Clock(process);
        let mut rate = |kind| dice.around(stream, kind, drift_ppb);
        let (first, second) = (rate("rate"), rate("rate"));
        let wall_rate = rate("wall_rate");
        let instant_origin = dice.below(stream, "origin", 1 << 40);
        let slow_origin = dice.below(stream, "origin", 1 << 40);
        let skew = dice.around(stream, "skew", skew_us);
        Self {
            instant: Line::new(instant_origin, first.max(second)),
            slow: Line::new(slow_origin, first.min(second)),
            wall: Line::new(WALL_ORIGIN.saturating_add_signed(skew), wall_rate),
            raw_ppb: (first.min(second), first.max(second)),
        }
    }

    /// All readings of one look.
    #[must_use]
    pub fn now(&self, at: TrueTime) -> Now {
        Now {
            instant: Instant::from_micros(self.instant.read(at)),
            slow: SlowInstant::from_micros(self.slow.read(at)),
            wall: Timestamp::from_micros(self.wall.read(at)),
        }
    }

    /// When the holder's clock shows at least this.
    #[must_use]
    pub fn when_instant(&self, instant: Instant) -> TrueTime {
        self.instant.when(instant.as_micros())
    }

    /// From this moment on the time service slews the clocks of this machine by so much, 0 to end it. The
    /// holder believes the faster of a slewed and an unslewed clock, the candidate the slower one.
    pub fn slew(&mut self, at: TrueTime, by_ppb: i64) {
        let (slow, fast) = self.raw_ppb;
        self.instant.set_rate(at, fast.max(fast + by_ppb));
        self.slow.set_rate(at, slow.min(slow + by_ppb));
        self.wall.set_rate(at, by_ppb);
    }

    /// A suspension of the machine, ending at this moment: the holder's clock and the wall clock count it,
    /// the candidate's does not.
    pub fn suspended(&mut self, at: TrueTime, lasted: u64) {
        self.slow.step(at, -i64::try_from(lasted).expect("suspensions are short"));
    }

    /// A pause of the machine that these clocks did not count, ending at this moment. Readings
    /// never go back: the pause must have lasted at least as long.
    pub fn uncounted_pause(&mut self, at: TrueTime, lasted: u64, wall_counts: bool) {
        let back = -i64::try_from(lasted).expect("pauses are short");
        self.instant.step(at, back);
        self.slow.step(at, back);
        if !wall_counts {
            self.wall.step(at, back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clocks, Line};
    use crate::dice::Dice;

    #[test]
    fn a_line_and_its_inverse_agree() {
        for rate in [-80_000_000, -1, 0, 1, 333, 80_000_000] {
            let line = Line::new(1_234_567, rate);
            for reading in [0, 1_234_567, 1_234_568, 2_000_000, 3_600_000_000] {
                let at = line.when(reading);
                assert!(line.read(at) >= reading);
                assert!(at == 0 || line.read(at - 1) < reading);
            }
        }
    }

    #[test]
    fn a_step_moves_the_reading_and_keeps_the_rate() {
        let mut line = Line::new(100, 0);
        line.step(50, -30);
        assert_eq!(line.read(50), 120);
        assert_eq!(line.read(60), 130);
        assert_eq!(line.when(130), 60);
    }

    #[test]
    fn r_1_7_the_holder_believes_the_fastest_clock_and_the_candidate_the_slowest() {
        let passed = |by_ppb| {
            let mut clocks = Clocks::exact();
            clocks.slew(1_000_000, by_ppb);
            let (before, after) = (clocks.now(1_000_000), clocks.now(11_000_000));
            let slow = after.slow.saturating_since(before.slow);
            (after.instant.saturating_since(before.instant).as_millis(), slow.as_millis())
        };
        assert_eq!(passed(80_000_000), (10_800, 10_000));
        assert_eq!(passed(-80_000_000), (10_000, 9_200));
        assert_eq!(passed(0), (10_000, 10_000));
    }

    #[test]
    fn a_suspension_is_counted_by_the_holder_alone() {
        let mut clocks = Clocks::exact();
        let before = clocks.now(0);
        clocks.suspended(5_000_000, 4_000_000);
        let after = clocks.now(5_000_000);
        assert_eq!(after.instant.saturating_since(before.instant).as_secs(), 5);
        assert_eq!(after.slow.saturating_since(before.slow).as_secs(), 1);
        assert_eq!(after.wall.saturating_since(before.wall).as_secs(), 5);
    }

    #[test]
    fn the_holders_clock_is_never_slower_than_the_candidates() {
        let mut dice = Dice::from_seed(3);
        for _ in 0..1_000 {
            let clocks = Clocks::draw(&mut dice, 0, 50_000_000, 5_000_000);
            let passed = |line: &Line| line.read(1_000_000_000) - line.read(0);
            assert!(passed(&clocks.instant) >= passed(&clocks.slow));
        }
    }
}
