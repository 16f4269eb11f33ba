//! What the swarm chooses for a lease world.

use std::time::Duration;

use dexzd_core::standby::StandbyConfig;

use super::config::{ClockFaults, LeaseConfig, PlaneFaults, ProcessFaults, StoreMishaps, hot};
use super::duration;
use crate::dice::{Dice, Stream};
use crate::swarm::StoreFaults;
use crate::{MILLISECOND, SECOND};

const SWARM: Stream = Stream::Swarm;

impl LeaseConfig {
    /// A swarm's choice: most faults are absent, the others differ wildly.
    pub fn draw(dice: &mut Dice) -> Self {
        let seconds = [10, 3, 6, 30, 60][dice.weighted(SWARM, "duration", &[4, 3, 2, 1, 1])];
        // Invariant 3 holds for rates within 1 / (2D + 1), and for no others.
        let limit_ppb = 1_000_000_000 / (2 * seconds + 1);
        let drifts = [0, 200_000, limit_ppb / 2, limit_ppb * 99 / 100, 3 * limit_ppb];
        let drift_ppb = drifts[dice.weighted(SWARM, "drift", &[8, 12, 4, 4, 1])];
        let processes = [2, 1, 3][dice.weighted(SWARM, "processes", &[6, 1, 2])];
        Self {
            processes,
            duration: duration(seconds),
            standby: [(); 3].map(|()| draw_standby(dice)),
            drain_timeout: [2, 0, 30][dice.weighted(SWARM, "drain_timeout", &[3, 1, 1])] * SECOND,
            fail_if_held: false,
            latest_start: 5 * SECOND,
            store: StoreFaults::draw(dice),
            slow_process: dice.chance(SWARM, "slow_process", 150_000).then_some(0),
            mishaps: draw_mishaps(dice),
            store_ignores_conditions: false,
            process_faults: draw_process_faults(dice),
            plane: draw_plane(dice),
            clocks: ClockFaults {
                drift_ppb,
                skew_us: [1_000, 3_600 * SECOND][dice.weighted(SWARM, "skew", &[1, 1])],
            },
            probe_interval: SECOND,
            heal_at: dice.between(SWARM, "heal_at", 10 * SECOND, 300 * SECOND),
        }
    }
}

/// Mostly the defaults of one mode; the times that HA-49 barely allows now and then.
fn draw_standby(dice: &mut Dice) -> StandbyConfig {
    match dice.weighted(SWARM, "standby", &[3, 4, 1, 1, 1]) {
        0 => StandbyConfig::default(),
        1 => StandbyConfig::hot(),
        2 => hot(1_000, 3_000, 1_900),
        3 => hot(50, 20_000, 0),
        _ => StandbyConfig::cold(Duration::from_millis(100)),
    }
}

fn draw_mishaps(dice: &mut Dice) -> StoreMishaps {
    let mut rare = |kind| dice.chance(SWARM, kind, 80_000);
    let (lease_is_lost, lease_is_damaged) = (rare("lease_is_lost"), rare("lease_is_damaged"));
    let lease_is_restored = rare("lease_is_restored");
    let (hashes_content, has_no_stamps) = (rare("hashes_content"), rare("has_no_stamps"));
    let mut skew = |kind| {
        let widest = [0, 2_000, 25_000][dice.weighted(SWARM, kind, &[6, 1, 1])];
        dice.around(SWARM, "store_skew", widest)
    };
    let skews_ms = [skew("first_server"), skew("second_server")];
    let clock_step_ms = [0, 9_000, -9_000][dice.weighted(SWARM, "store_step", &[8, 1, 1])];
    StoreMishaps {
        lease_is_lost,
        lease_is_damaged,
        lease_is_restored,
        hashes_content,
        has_no_stamps,
        skews_ms,
        clock_step_ms,
    }
}

fn draw_process_faults(dice: &mut Dice) -> ProcessFaults {
    let mut per_hour = |kind, rates: [u64; 4]| rates[dice.weighted(SWARM, kind, &[5, 2, 2, 1])];
    let faults = ProcessFaults {
        kills_per_hour: per_hour("kills", [0, 10, 60, 300]),
        terminations_per_hour: per_hour("terminations", [0, 10, 60, 200]),
        freezes_per_hour: per_hour("freezes", [0, 10, 60, 300]),
        suspensions_per_hour: per_hour("suspensions", [0, 0, 30, 200]),
        starvations_per_hour: per_hour("starvations", [0, 0, 30, 200]),
        calls_per_hour: per_hour("calls", [0, 30, 120, 600]),
        blackouts_per_hour: per_hour("blackouts", [0, 10, 60, 200]),
        brownouts_per_hour: per_hour("brownouts", [0, 10, 60, 200]),
        wall_steps_per_hour: per_hour("wall_steps", [0, 0, 30, 200]),
        slews_per_hour: per_hour("slews", [0, 0, 0, 60]),
        noticed_pauses_per_hour: per_hour("noticed_pauses", [0, 0, 30, 200]),
        uncounted_pauses_per_hour: 0,
        clones_per_hour: 0,
        kills_per_million_outputs: 0,
        freezes_per_million_outputs: 0,
    };
    // These two take invariant 3 away: they have runs of their own.
    let beyond = dice.weighted(SWARM, "beyond", &[18, 1, 1]);
    let rates = [0, 500, 5_000, 50_000];
    let mut per_million = |kind| rates[dice.weighted(SWARM, kind, &[5, 2, 2, 1])];
    ProcessFaults {
        uncounted_pauses_per_hour: if beyond == 1 { 60 } else { 0 },
        clones_per_hour: if beyond == 2 { 60 } else { 0 },
        kills_per_million_outputs: per_million("output_kills"),
        freezes_per_million_outputs: per_million("output_freezes"),
        ..faults
    }
}

fn draw_plane(dice: &mut Dice) -> PlaneFaults {
    let rates = [0, 1_000, 20_000, 200_000];
    let mut per_million = |kind| rates[dice.weighted(SWARM, kind, &[6, 2, 1, 1])];
    let (stuck, failing) = (per_million("stuck"), per_million("plane_fails"));
    let follower_changes = [50_000, 0, 500_000][dice.weighted(SWARM, "follower_changes", &[2, 1, 1])];
    PlaneFaults {
        slowest_step: [20 * MILLISECOND, SECOND, 15 * SECOND]
            [dice.weighted(SWARM, "slowest_step", &[3, 2, 1])],
        longest_drain: [100 * MILLISECOND, 3 * SECOND, 40 * SECOND]
            [dice.weighted(SWARM, "longest_drain", &[3, 2, 1])],
        longest_closing: [20 * MILLISECOND, 4 * SECOND, 70 * SECOND]
            [dice.weighted(SWARM, "longest_closing", &[3, 2, 1])],
        stuck,
        failing,
        follower_changes,
        ..PlaneFaults::default()
    }
}
