//! What a product world is made of, and which faults strike it.

use dexzd_core::lease::LeaseDuration;
use dexzd_core::standby::StandbyConfig;

use super::flows::{SHAPES, Shape};
use super::worker::WorkerFaults;
use crate::dice::{Dice, Stream};
use crate::swarm::{StoreFaults, rate};
use crate::watch::ProcessNumber;
use crate::weather::LATEST_LANDING;
use crate::{MILLISECOND, SECOND, TrueTime};

/// Where the log and the lease are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On the disk of one process, which holds `dev.lock`: the shape of `dev` and `local`.
    Disk,
    /// In an object store that all processes share.
    Store,
}

/// What strikes processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Strikes {
    /// The process dies between two outputs, in parts of a million outputs.
    pub crashes_per_million_outputs: u32,
    /// Half of the deaths take the machine's power with them, if this is set.
    pub power_loss: bool,
    /// SIGKILL at random moments.
    pub kills_per_hour: u64,
    /// SIGTERM at random moments.
    pub terminations_per_hour: u64,
    /// SIGSTOP for up to 15 s at random moments.
    pub freezes_per_hour: u64,
    /// The wall clock jumps by up to a minute, both ways.
    pub wall_steps_per_hour: u64,
    /// SIGKILL, and nobody starts it for a while.
    pub downs_per_hour: u64,
    /// That while is at most so long.
    pub longest_down: TrueTime,
    /// SIGKILL, and its volume is gone.
    pub lost_disks_per_hour: u64,
    /// SIGKILL, and its local store is exchanged for one of another log.
    pub swapped_disks_per_hour: u64,
    /// One of its two threads stands still for up to 40 s.
    pub starvations_per_hour: u64,
    /// Nobody reaches it for up to 40 s.
    pub isolations_per_hour: u64,
    /// The store is black, slow or throttled for it, for up to 30 s.
    pub storms_per_hour: u64,
    /// Pauses of up to 15 s that no monotonic clock counts; invariant 3 does not hold then.
    pub uncounted_pauses_per_hour: u64,
    /// SIGSTOP for up to 30 s between an output and its sending, in parts of a million outputs.
    pub freezes_per_million_outputs: u32,
    /// The local store of an ended tenure stays open for up to 80 s, in parts of a million.
    pub stuck_stores: u32,
    /// A stream breaks and takes the frame on its way with it, in parts of a million frames.
    pub cut_frames: u32,
    /// An operator's call comes over a connection of an earlier role period, in parts of a million.
    pub old_connections: u32,
    /// A client or Worker tries any process instead of the one that serves, in parts of a million.
    pub misdirected: u32,
    /// Syncs that fail, in parts of a million.
    pub failing_syncs: u32,
    /// A message between client, Worker and process takes up to 2 s, in parts of a million.
    pub slow_messages: u32,
    /// A broken connection is noticed by nobody before its time-outs, in parts of a million.
    pub silent_breaks: u32,
}

/// A product world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProductConfig {
    /// Where the log and the lease are.
    pub place: Place,
    /// How many processes; one on a disk.
    pub processes: u8,
    /// D.
    pub duration: LeaseDuration,
    /// Which processes are hot standbys: a bit for each, the first one lowest.
    pub hot: u8,
    /// The keeper makes a snapshot that often at most, and trims after twice that; None: it makes none.
    pub snapshot_seconds: Option<u64>,
    /// Operators step the active down so often.
    pub step_downs_per_hour: u64,
    /// D of every process but the first, where it differs.
    pub other_duration: Option<LeaseDuration>,
    /// Faults of the store.
    pub store: StoreFaults,
    /// Faults of processes and connections.
    pub strikes: Strikes,
    /// Faults of Workers.
    pub workers: WorkerFaults,
    /// How many Workers.
    pub worker_count: u32,
    /// Slots of each.
    pub slots: u32,
    /// The Flows that clients start.
    pub flows: Vec<Shape>,
    /// They start within this time.
    pub starts_within: TrueTime,
    /// Clients that stop their Flow, in parts of a million.
    pub stops_per_million: u32,
    /// Clock rates differ from true time by at most this, in parts per billion.
    pub drift_ppb: u64,
    /// Workers connect from here on.
    pub workers_from: TrueTime,
    /// The process that gives this output, counted over the whole run from 1, dies before it is performed
    /// (lesson G10).
    pub crash_at_output: Option<u64>,
    /// The process that gives this output stands still for so long before it is performed.
    pub freeze_at_output: Option<(u64, TrueTime)>,
    /// Somebody deletes the lease object once.
    pub lease_is_lost: bool,
    /// Somebody puts an old version of the lease object back once.
    pub lease_is_restored: bool,
    /// Somebody deletes an entry of the log once, and puts it back later.
    pub entry_is_lost: bool,
    /// All volumes are lost at once, and with them the newest manifest.
    pub disaster: bool,
    /// Faults end here.
    pub heal_at: TrueTime,
}

impl ProductConfig {
    /// Fine weather: one process on its disk, two Workers.
    #[must_use]
    pub fn calm(flows: Vec<Shape>) -> Self {
        Self {
            place: Place::Disk,
            processes: 1,
            duration: LeaseDuration::DEFAULT,
            other_duration: None,
            hot: 0,
            snapshot_seconds: None,
            step_downs_per_hour: 0,
            store: StoreFaults::none(),
            strikes: Strikes::default(),
            workers: WorkerFaults::default(),
            worker_count: 2,
            slots: 4,
            flows,
            starts_within: SECOND,
            stops_per_million: 0,
            drift_ppb: 0,
            workers_from: 0,
            crash_at_output: None,
            freeze_at_output: None,
            lease_is_lost: false,
            lease_is_restored: false,
            entry_is_lost: false,
            disaster: false,
            heal_at: 0,
        }
    }

    /// A swarm's choice: most faults are absent, the others differ wildly.
    pub fn draw(dice: &mut Dice) -> Self {
        let stream = Stream::Swarm;
        let place = [Place::Disk, Place::Store][dice.weighted(stream, "place", &[1, 1])];
        let processes = match place {
            Place::Disk => 1,
            Place::Store => [2, 1, 3][dice.weighted(stream, "processes", &[4, 2, 1])],
        };
        let mut per_hour = |kind, rates: [u64; 4]| rates[dice.weighted(stream, kind, &[4, 2, 2, 1])];
        let strikes = Strikes {
            kills_per_hour: per_hour("kills", [0, 30, 120, 600]),
            terminations_per_hour: per_hour("terminations", [0, 0, 60, 300]),
            freezes_per_hour: per_hour("freezes", [0, 0, 30, 120]),
            wall_steps_per_hour: per_hour("wall_steps", [0, 0, 30, 120]),
            downs_per_hour: per_hour("downs", [0, 0, 30, 120]),
            lost_disks_per_hour: per_hour("lost_disks", [0, 0, 30, 120]),
            starvations_per_hour: per_hour("starvations", [0, 0, 30, 120]),
            isolations_per_hour: per_hour("isolations", [0, 0, 30, 120]),
            storms_per_hour: per_hour("storms", [0, 0, 60, 240]),
            ..Strikes::default()
        };
        let crash_rates = [2_000, 0, 10_000, 40_000];
        let strikes = Strikes {
            crashes_per_million_outputs: crash_rates[dice.weighted(stream, "crashes", &[4, 2, 2, 1])],
            power_loss: dice.chance(stream, "power_loss", 500_000),
            failing_syncs: rate(dice, "failing_syncs").min(5_000),
            slow_messages: rate(dice, "slow_messages").min(200_000),
            silent_breaks: rate(dice, "silent_breaks").min(500_000),
            freezes_per_million_outputs: [0, 500, 5_000][dice.weighted(stream, "output_freezes", &[4, 1, 1])],
            cut_frames: rate(dice, "cut_frames").min(50_000),
            misdirected: rate(dice, "misdirected").min(200_000),
            uncounted_pauses_per_hour: [0, 60][dice.weighted(stream, "uncounted", &[15, 1])],
            stuck_stores: rate(dice, "stuck_stores").min(300_000),
            old_connections: rate(dice, "old_connections").min(200_000),
            longest_down: 60 * SECOND,
            ..strikes
        };
        let heal_at = dice.between(stream, "heal_at", 20 * SECOND, 120 * SECOND);
        let flow_count = dice.between(stream, "flows", 2, 20);
        let flows =
            (0..flow_count).map(|_| SHAPES[dice.weighted(stream, "shape", &[1; SHAPES.len()])]).collect();
        let mut duration = |kind| {
            LeaseDuration::from_millis([3_000, 6_000, 10_000][dice.weighted(stream, kind, &[2, 1, 2])])
                .expect("3 s to 1 h")
        };
        let (first, other) = (duration("duration"), duration("other_duration"));
        let by_hand = |dice: &mut Dice, kind| place == Place::Store && dice.chance(stream, kind, 50_000);
        let config = Self {
            place,
            processes,
            duration: first,
            hot: [0b111, 0b000, 0b010, 0b101][dice.weighted(stream, "hot", &[4, 2, 1, 1])],
            snapshot_seconds: [Some(5), None, Some(1), Some(15)]
                [dice.weighted(stream, "snapshots", &[2, 2, 4, 1])],
            step_downs_per_hour: [0, 60, 240][dice.weighted(stream, "step_downs", &[2, 2, 1])],
            other_duration: dice.chance(stream, "durations_differ", 200_000).then_some(other),
            lease_is_lost: by_hand(dice, "lease_is_lost"),
            lease_is_restored: by_hand(dice, "lease_is_restored"),
            entry_is_lost: false,
            disaster: false,
            store: StoreFaults::draw(dice),
            strikes,
            workers: WorkerFaults::draw(dice),
            worker_count: [2, 1, 3][dice.weighted(stream, "workers", &[3, 1, 1])],
            slots: [4, 1, 16][dice.weighted(stream, "slots", &[3, 1, 1])],
            flows,
            starts_within: heal_at,
            stops_per_million: rate(dice, "stops").min(200_000),
            drift_ppb: [0, 200_000, 20_000_000][dice.weighted(stream, "drift", &[2, 2, 1])],
            workers_from: 0,
            crash_at_output: None,
            freeze_at_output: None,
            heal_at,
        };
        let mut rare = |kind, chance| place == Place::Store && dice.chance(stream, kind, chance);
        let (entry_is_lost, disaster) = (rare("entry_is_lost", 250_000), rare("disaster", 300_000));
        let swapped_disks_per_hour = [0, 30, 120][dice.weighted(stream, "swapped_disks", &[6, 2, 1])];
        let strikes = Strikes { swapped_disks_per_hour, ..config.strikes };
        Self { entry_is_lost, disaster, strikes, ..config }
    }

    /// How this process stands by.
    #[must_use]
    pub fn standby_of(&self, process: ProcessNumber) -> StandbyConfig {
        if self.is_hot(process) { StandbyConfig::hot() } else { StandbyConfig::default() }
    }

    /// Whether this process follows the log while it stands by.
    #[must_use]
    pub fn is_hot(&self, process: ProcessNumber) -> bool {
        self.place == Place::Store && self.hot >> process & 1 == 1
    }

    /// D of this process.
    #[must_use]
    pub fn duration_of(&self, process: ProcessNumber) -> LeaseDuration {
        match self.other_duration {
            Some(other) if process > 0 => other,
            Some(_) | None => self.duration,
        }
    }

    /// Whether the conditions of invariant 3 hold.
    #[must_use]
    pub fn clocks_are_sane(&self) -> bool {
        self.strikes.uncounted_pauses_per_hour == 0
    }

    /// By then an active must exist and stay (as in the lease world).
    #[must_use]
    pub fn recovered_by(&self) -> TrueTime {
        let longest = self.other_duration.map_or(self.duration, |other| other.max(self.duration));
        // Without a lease, or with one whose epochs lie behind the log, whoever may still believe in one is
        // waited for: a duration nobody knows counts as the longest that is advised (D-49, D-55).
        let unknown = if self.lease_is_lost || self.lease_is_restored { 2 * 121 * SECOND } else { 0 };
        let expiry = longest.as_millis() * MILLISECOND + SECOND;
        // A store that still closes ends its process after 64 s, or lets it compete again (HA-105).
        let closing = if self.strikes.stuck_stores > 0 { 70 * SECOND } else { 0 };
        self.heal_at + unknown + closing + LATEST_LANDING + 2 * expiry + 30 * SECOND + 10 * SECOND
    }

    /// By then every Flow must be closed: the longest wait of a shape, the longest handler with its
    /// time-out, and the longest back-off, a few times over.
    #[must_use]
    pub fn end(&self) -> TrueTime {
        self.recovered_by().max(self.starts_within) + 400 * SECOND
    }
}
