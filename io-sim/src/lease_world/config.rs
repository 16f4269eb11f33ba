//! What a lease world is made of, and which faults strike it.

use std::time::Duration;

use dexzd_core::lease::LeaseDuration;
use dexzd_core::standby::{StandbyConfig, StandbyTimes};
use dexzd_core::time::micros;

use super::duration;
use crate::clock::Clocks;
use crate::dice::Dice;
use crate::swarm::StoreFaults;
use crate::weather::LATEST_LANDING;
use crate::{MILLISECOND, SECOND, TrueTime};

/// After the interrupt of a drain a result still counts for so long (D-21).
const INTERRUPT_GRACE: TrueTime = 5 * SECOND;
/// The commit drain's bound (D-18).
const COMMIT_DRAIN: TrueTime = 10 * SECOND;
/// Nothing can leave any more after so long (D-37).
const CLOSE_LIMIT: TrueTime = SECOND;
/// A release is tried for so long (D-37).
const RELEASE_LIMIT: TrueTime = 10 * SECOND;
/// The ended tenure's store is closed after so long, or the process ends (HA-105, D-19).
const STORE_CLOSING: TrueTime = 64 * SECOND;
/// The longest pause between two takeovers that fail (HA-62).
const TAKEOVER_BACKOFF: TrueTime = 30 * SECOND;
/// An engine that is silent for so long is taken for dead (D-54).
const ENGINE_STALL: TrueTime = 30 * SECOND;
/// A survey without an answer is asked for again after so long.
const SURVEY_CUT_OFF: TrueTime = 60 * SECOND;
/// A missing lease without a fence beside it counts for so long (D-49).
const UNKNOWN_DURATION: TrueTime = 120 * SECOND;
/// The longest that a process which died stays down.
pub(super) const LONGEST_DOWN: TrueTime = 5 * SECOND;
/// A leg of a calm request takes no longer.
const CALM_LEG: TrueTime = 20 * MILLISECOND;

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
    /// SIGTERM at random moments.
    pub terminations_per_hour: u64,
    /// SIGSTOP for up to three lease durations.
    pub freezes_per_hour: u64,
    /// The machine is suspended for up to three lease durations: the candidate's clock does not count it.
    pub suspensions_per_hour: u64,
    /// The process gets hold of a processor only now and then, for up to three lease durations.
    pub starvations_per_hour: u64,
    /// Step downs and descriptions, by an operator who is not always right.
    pub calls_per_hour: u64,
    /// The store is out of one process's reach for up to three lease durations.
    pub blackouts_per_hour: u64,
    /// The store is slow and failing for 2 to 30 s, for one process or for all.
    pub brownouts_per_hour: u64,
    /// The wall clock jumps by up to an hour, both ways.
    pub wall_steps_per_hour: u64,
    /// The time service slews the clocks by up to 8 %.
    pub slews_per_hour: u64,
    /// Pauses that no monotonic clock counts, but the wall clock does.
    pub noticed_pauses_per_hour: u64,
    /// Pauses that no clock counts at all; invariant 3 does not hold then.
    pub uncounted_pauses_per_hour: u64,
    /// A process goes on as an exact copy of another one; invariant 3 does not hold then.
    pub clones_per_hour: u64,
    /// SIGKILL between two outputs.
    pub kills_per_million_outputs: u32,
    /// SIGSTOP between an output and its sending.
    pub freezes_per_million_outputs: u32,
}

/// What somebody's hand does to the lease object, and the store's operators to its clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreMishaps {
    /// Somebody deletes the lease object once.
    pub lease_is_lost: bool,
    /// Somebody damages it once: it is cut short, flipped, or of a newer version. It is mended later.
    pub lease_is_damaged: bool,
    /// Somebody brings an old state of it back once.
    pub lease_is_restored: bool,
    /// Versions are hashes of the content.
    pub hashes_content: bool,
    /// There are no stamps: D-2 (b) is off.
    pub has_no_stamps: bool,
    /// The clocks of the store's two servers are off by so much, in milliseconds.
    pub skews_ms: [i64; 2],
    /// One of them jumps by so much once, in milliseconds.
    pub clock_step_ms: i64,
}

impl StoreMishaps {
    /// Whether somebody's hand deletes or changes the lease object.
    #[must_use]
    pub const fn touch_the_lease(&self) -> bool {
        self.lease_is_lost || self.lease_is_damaged || self.lease_is_restored
    }
}

/// The data plane in place of the real one: how long it takes, at most, and how it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlaneFaults {
    /// Opening the log, building the engine, closing.
    pub slowest_step: TrueTime,
    /// What runs when a drain begins, runs for at least so long.
    pub shortest_drain: TrueTime,
    /// And at most so long.
    pub longest_drain: TrueTime,
    /// A local store takes at least so long to close.
    pub shortest_closing: TrueTime,
    /// And at most so long.
    pub longest_closing: TrueTime,
    /// A follower needs so long before it follows, and more where its process has no disk.
    pub bootstrap: TrueTime,
    /// Steps that never end, in parts of a million.
    pub stuck: u32,
    /// Steps that fail, in parts of a million.
    pub failing: u32,
    /// A follower's change of state per so many polls, in parts of a million.
    pub follower_changes: u32,
}

/// A lease world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseConfig {
    /// How many processes compete.
    pub processes: u8,
    /// D, the same for all.
    pub duration: LeaseDuration,
    /// How each process stands by.
    pub standby: [StandbyConfig; 3],
    /// `lifecycle.attemptDrainTimeout`.
    pub drain_timeout: TrueTime,
    /// `lease.failIfHeld`.
    pub fail_if_held: bool,
    /// All but the first start within this.
    pub latest_start: TrueTime,
    /// Faults of the store.
    pub store: StoreFaults,
    /// One process has a way to the store of its own: 1 in 4 of its legs takes up to 12 s.
    pub slow_process: Option<u8>,
    /// What else happens to the store.
    pub mishaps: StoreMishaps,
    /// A store that takes every write (lesson C4): nobody may ever serve on it.
    pub store_ignores_conditions: bool,
    /// Faults of processes.
    pub process_faults: ProcessFaults,
    /// The data plane.
    pub plane: PlaneFaults,
    /// Faults of clocks.
    pub clocks: ClockFaults,
    /// Somebody looks at health names and gauges every so often, at least; 0: nobody.
    pub probe_interval: TrueTime,
    /// Faults end here.
    pub heal_at: TrueTime,
}

impl LeaseConfig {
    /// Fine weather, exact rates, cold standbys and a data plane that takes no time, for as long as the
    /// test wants.
    #[must_use]
    pub fn calm(processes: u8, duration_seconds: u64) -> Self {
        Self {
            processes,
            duration: duration(duration_seconds),
            standby: [StandbyConfig::default(); 3],
            drain_timeout: 30 * SECOND,
            fail_if_held: false,
            latest_start: 100 * MILLISECOND,
            store: StoreFaults::none(),
            slow_process: None,
            mishaps: StoreMishaps::default(),
            store_ignores_conditions: false,
            process_faults: ProcessFaults::default(),
            plane: PlaneFaults::default(),
            clocks: ClockFaults { drift_ppb: 0, skew_us: 0 },
            probe_interval: 0,
            heal_at: u64::MAX / 2,
        }
    }

    /// The same with hot standbys.
    #[must_use]
    pub fn calm_and_hot(processes: u8, duration_seconds: u64) -> Self {
        Self { standby: [StandbyConfig::hot(); 3], ..Self::calm(processes, duration_seconds) }
    }

    /// Whether invariant 3 may be demanded: rates within 1/(2D + 1), every pause counted or seen as a jump
    /// of the wall clock, servers that agree within 60 s, no copies of running processes, and no old lease put back
    /// where a taker-over may fail: it gives its lease back before the log told it that the lease was old
    /// (D-55), and the next one finds a log without a higher epoch.
    #[must_use]
    pub fn gates_never_overlap(&self) -> bool {
        let limit_ppb = 1_000_000_000 / (2 * self.duration.as_millis() / 1_000 + 1);
        let apart_ms = (self.mishaps.skews_ms[0] - self.mishaps.skews_ms[1]).abs();
        self.clocks.drift_ppb <= limit_ppb
            && self.process_faults.uncounted_pauses_per_hour == 0
            && self.process_faults.clones_per_hour == 0
            && !(self.mishaps.lease_is_restored && self.plane.failing > 0)
            && apart_ms + self.mishaps.clock_step_ms.abs() <= 60_000
    }

    /// Whether each clock keeps its rate and counts every pause.
    #[must_use]
    pub const fn clocks_run_evenly(&self) -> bool {
        let faults = &self.process_faults;
        faults.slews_per_hour == 0
            && faults.noticed_pauses_per_hour == 0
            && faults.uncounted_pauses_per_hour == 0
    }

    /// The monotonic clocks of its processes are wrong by at most this, in parts per million.
    #[must_use]
    pub fn wrong_ppm(&self) -> u64 {
        let slew_ppm = if self.process_faults.slews_per_hour > 0 { 80_000 } else { 0 };
        self.clocks.drift_ppb.div_ceil(1_000) + slew_ppm
    }

    /// A duration as the slowest candidate's clock counts it.
    fn by_slow_clock(&self, time: TrueTime) -> TrueTime {
        // 1 / (1 - r) is at most 1 + 2r for the rates of this world.
        time + time / 1_000_000 * 2 * self.wrong_ppm()
    }

    fn times(&self) -> impl Iterator<Item = StandbyConfig> {
        self.standby.into_iter().take(usize::from(self.processes))
    }

    /// How long nobody serves at most once faults have ended and no lease write lands any more
    /// (invariant 7): the expiry, a poll, a round trip, the largest of what may hold a candidate back, then
    /// recovery.
    #[must_use]
    pub fn longest_gap(&self) -> TrueTime {
        let expiry = self.duration.as_millis() * MILLISECOND + SECOND;
        let expiry = if self.mishaps.lease_is_lost || self.mishaps.lease_is_restored {
            // A missing lease (D-49), or an epoch behind the log (D-55), is waited for once more.
            expiry.max(UNKNOWN_DURATION + SECOND) + expiry
        } else {
            expiry
        };
        // A copy waits for the answer to a survey that the original asked for.
        let expiry = if self.process_faults.clones_per_hour > 0 { expiry + SURVEY_CUT_OFF } else { expiry };
        let poll = self.times().map(|it| micros(it.held_lease_poll_interval())).max().unwrap_or_default();
        let lagging = self.times().map(|it| micros(it.lagging_takeover_delay())).max().unwrap_or_default();
        let hold_off = self.times().map(|it| micros(it.step_down_hold_off())).max().unwrap_or_default();
        let poll = poll.max(250 * MILLISECOND);
        let held_back = TAKEOVER_BACKOFF.max(lagging).max(hold_off + STORE_CLOSING);
        let write = 2 * 2 * CALM_LEG + 50 * MILLISECOND;
        self.by_slow_clock(expiry) + poll + write + held_back + LONGEST_DOWN + self.recovery()
    }

    /// From the lease to serving: the log opened, the lease confirmed, the engine built; a step that is
    /// stuck is given up in between.
    fn recovery(&self) -> TrueTime {
        let stuck = if self.plane.stuck > 0 { ENGINE_STALL } else { 0 };
        2 * self.plane.slowest_step + 2 * CALM_LEG + stuck
    }

    /// How long a drain, a release and what follows may still take, once begun.
    fn longest_step_down(&self) -> TrueTime {
        self.drain_timeout + INTERRUPT_GRACE + COMMIT_DRAIN + CLOSE_LIMIT + RELEASE_LIMIT + STORE_CLOSING
    }

    /// By then an active must exist and stay, if faults end when they should (invariant 7): what was under
    /// way has ended, the last late landing is past, and the longest gap after it.
    #[must_use]
    pub fn recovered_by(&self) -> TrueTime {
        let under_way = LATEST_LANDING + self.longest_step_down() + 2 * self.recovery();
        self.heal_at + under_way + 2 * self.longest_gap()
    }

    /// The end of the run: long enough for a lease to run out once more.
    #[must_use]
    pub fn end(&self) -> TrueTime {
        self.recovered_by() + 2 * self.duration.as_millis() * MILLISECOND
    }
}

/// A hot standby with other times.
///
/// # Panics
/// If the hold-off is too short (HA-49).
#[must_use]
pub fn hot(poll_ms: u64, hold_off_ms: u64, lagging_ms: u64) -> StandbyConfig {
    let times = StandbyTimes {
        held_lease_poll_interval: Duration::from_millis(poll_ms),
        step_down_hold_off: Duration::from_millis(hold_off_ms),
        lagging_takeover_delay: Duration::from_millis(lagging_ms),
        ..StandbyTimes::default()
    };
    StandbyConfig::new(dexzd_core::standby::StandbyMode::Hot, times).expect("HA-49 holds")
}
