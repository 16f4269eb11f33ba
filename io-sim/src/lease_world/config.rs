//! What a lease world is made of, and which faults strike it.

use dexzd_core::lease::LeaseDuration;

use super::duration;
use crate::clock::Clocks;
use crate::dice::{Dice, Stream};
use crate::swarm::StoreFaults;
use crate::weather::LATEST_LANDING;
use crate::{MILLISECOND, SECOND, TrueTime};

/// How wrong clocks may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockFaults {
    /// Rates differ from true time by at most this, in parts per billion.
    pub drift_ppb: u64,
    /// Wall clocks differ from the truth by at most this.
    pub skew_us: u64,
}

impl ClockFaults {
    pub(super) fn draw(self, dice: &mut Dice, process: u8) -> Clocks {
        Clocks::draw(dice, process, self.drift_ppb, self.skew_us)
    }
}

/// What strikes processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessFaults {
    /// SIGKILL at random moments.
    pub kills_per_hour: u64,
    /// SIGSTOP for up to three lease durations.
    pub freezes_per_hour: u64,
    /// Step downs.
    pub releases_per_hour: u64,
    /// The store is out of reach for up to three lease durations.
    pub blackouts_per_hour: u64,
    /// The wall clock jumps by up to an hour, both ways.
    pub wall_steps_per_hour: u64,
    /// Pauses that no monotonic clock counts; invariant 3 does not hold then.
    pub uncounted_pauses_per_hour: u64,
    /// SIGKILL between two outputs.
    pub kills_per_million_outputs: u32,
    /// SIGSTOP between an output and its sending.
    pub freezes_per_million_outputs: u32,
}

/// A lease world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseConfig {
    /// How many processes compete.
    pub processes: u8,
    /// D, the same for all.
    pub duration: LeaseDuration,
    /// All but the first start within this.
    pub latest_start: TrueTime,
    /// Faults of the store.
    pub store: StoreFaults,
    /// The store's own clock is off by this.
    pub store_skew_ms: i64,
    /// Faults of processes.
    pub process_faults: ProcessFaults,
    /// Faults of clocks.
    pub clocks: ClockFaults,
    /// Somebody deletes the lease object once.
    pub lease_is_lost: bool,
    /// Faults end here.
    pub heal_at: TrueTime,
}

impl LeaseConfig {
    /// Fine weather, exact rates, for as long as the test wants.
    #[must_use]
    pub fn calm(processes: u8, duration_seconds: u64) -> Self {
        Self {
            processes,
            duration: duration(duration_seconds),
            latest_start: 100 * MILLISECOND,
            store: StoreFaults::none(),
            store_skew_ms: 0,
            process_faults: ProcessFaults::default(),
            clocks: ClockFaults { drift_ppb: 0, skew_us: 0 },
            lease_is_lost: false,
            heal_at: u64::MAX / 2,
        }
    }

    /// A swarm's choice: most faults are absent, the others differ wildly.
    pub fn draw(dice: &mut Dice) -> Self {
        let stream = Stream::Swarm;
        let seconds = [10, 3, 6, 30, 60][dice.weighted(stream, "duration", &[4, 3, 2, 1, 1])];
        let mut per_hour = |kind, rates: [u64; 4]| rates[dice.weighted(stream, kind, &[5, 2, 2, 1])];
        let process_faults = ProcessFaults {
            kills_per_hour: per_hour("kills", [0, 10, 60, 300]),
            freezes_per_hour: per_hour("freezes", [0, 10, 60, 300]),
            releases_per_hour: per_hour("releases", [0, 10, 60, 300]),
            blackouts_per_hour: per_hour("blackouts", [0, 10, 60, 200]),
            wall_steps_per_hour: per_hour("wall_steps", [0, 0, 30, 200]),
            uncounted_pauses_per_hour: 0,
            kills_per_million_outputs: 0,
            freezes_per_million_outputs: 0,
        };
        let mut per_million = |kind, rates: [u32; 4]| rates[dice.weighted(stream, kind, &[5, 2, 2, 1])];
        let process_faults = ProcessFaults {
            kills_per_million_outputs: per_million("output_kills", [0, 500, 5_000, 50_000]),
            freezes_per_million_outputs: per_million("output_freezes", [0, 500, 5_000, 50_000]),
            ..process_faults
        };
        // Invariant 3 holds for rates within 1 / (2D + 1), and for no others.
        let limit_ppb = 1_000_000_000 / (2 * seconds + 1);
        let drift_ppb =
            [0, 200_000, limit_ppb / 2, limit_ppb * 99 / 100][dice.weighted(stream, "drift", &[2, 3, 1, 1])];
        let processes = [2, 1, 3][dice.weighted(stream, "processes", &[6, 1, 2])];
        Self {
            processes,
            duration: duration(seconds),
            latest_start: 5 * SECOND,
            store: StoreFaults::draw(dice),
            store_skew_ms: 0,
            process_faults,
            clocks: ClockFaults {
                drift_ppb,
                skew_us: [1_000, 3_600 * SECOND][dice.weighted(stream, "skew", &[1, 1])],
            },
            lease_is_lost: dice.chance(stream, "lease_is_lost", 100_000),
            heal_at: dice.between(stream, "heal_at", 10 * SECOND, 300 * SECOND),
        }
    }

    /// By then an active must exist and stay, if faults end when they should (invariant 7): the last
    /// late landing, its lease's expiry as the slowest clock sees it, the rest of a takeover's back-off
    /// or a hold-off, and a few calm round trips.
    #[must_use]
    pub fn recovered_by(&self) -> TrueTime {
        let missing_lease = 121 * SECOND;
        let expiry = self.duration.as_millis() * MILLISECOND + SECOND;
        let expiry = if self.lease_is_lost { expiry.max(missing_lease) } else { expiry };
        let by_slow_clock = expiry + expiry / 1_000_000 * self.clocks.drift_ppb.div_ceil(1_000);
        self.heal_at + LATEST_LANDING + by_slow_clock + 30 * SECOND + 5 * SECOND
    }

    /// The end of the run: long enough for a lease to run out once more.
    #[must_use]
    pub fn end(&self) -> TrueTime {
        self.recovered_by() + 2 * self.duration.as_millis() * MILLISECOND
    }
}
