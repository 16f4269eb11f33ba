//! `cargo xtask bench failover`: an active server and a hot standby over one bucket, killed and stepped down again
//! and again, before many open Flows.
//!
//! ```text
//! lease 3 s    N/10 Flows wait ─► kills ─► N Flows wait ─► kills ─► step downs
//! lease 10 s   kills ─► under load: kills and step downs
//! ```

use std::time::Duration;

use dexzd_rig::Bucket;
use dexzd_rig::bucket::Latency;

use super::Build;
use super::clients::Clients;
use super::figures::{Figure, Figures};
use super::rounds::{Kill, Running, percentile};
use crate::pair::{Pair, Settings, SharedStore};
use crate::processes::{Interruption, TemporaryFolder};
use crate::shell::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One JSON object per figure and line instead of a table
    #[arg(long)]
    json: bool,

    /// Fewer rounds and open Flows: to see that it works, not to compare
    #[arg(long)]
    quick: bool,

    /// How many Flows are open. Default: 100000
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(10..))]
    open: Option<u32>,

    /// How long the store takes for a PUT, in milliseconds; half of it for everything else
    #[arg(long, value_name = "MS", default_value_t = 20)]
    put: u32,

    #[command(flatten)]
    build: Build,
}

/// How much is done for each figure.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    open_flows: u32,
    kills: u32,
    /// With a tenth of the Flows, to compare recoveries.
    kills_before_few: u32,
    step_downs: u32,
    /// Kills, and as many step downs.
    loaded: u32,
    load_clients: u32,
}

const FULL: Sizes = Sizes {
    open_flows: 100_000,
    kills: 20,
    kills_before_few: 5,
    step_downs: 50,
    loaded: 20,
    load_clients: 16,
};

const QUICK: Sizes =
    Sizes { open_flows: 20_000, kills: 3, kills_before_few: 3, step_downs: 8, loaded: 2, load_clients: 16 };

/// Step downs follow one another as soon as the one before has ended its hold-off, so that is short. It is no part
/// of what is measured.
const HOLD_OFF: Duration = Duration::from_secs(2);

const SHORT_LEASE: Duration = Duration::from_secs(3);
const DEFAULT_LEASE: Duration = Duration::from_secs(10);

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interruption = Interruption::watch()?;
    let programs = arguments.build.programs()?;
    let mut sizes = if arguments.quick { QUICK } else { FULL };
    sizes.open_flows = arguments.open.unwrap_or(sizes.open_flows);
    let bucket = Bucket::open("bench", Latency::NONE)
        .map_err(|error| Failure::new(format!("cannot open a bucket on 127.0.0.1: {error}")))?;
    let folder = TemporaryFolder::create("dex-bench-failover")?;
    let settings = Settings {
        node_id: "bench",
        store: SharedStore::Bucket { endpoint: bucket.endpoint(), name: bucket.name().to_owned() },
        lease: SHORT_LEASE,
        hold_off: Some(HOLD_OFF),
    };
    let pair = Pair::new(&programs, &folder, &interruption, &settings)?;
    let clients = Clients {
        programs: &programs,
        folder: &folder,
        interruption: &interruption,
        address: pair.addresses(),
    };
    let put = Duration::from_millis(arguments.put.into());
    let latency = Latency { put, get: put / 2, delete: put / 2, list: put / 2 };
    let mut bench = Bench {
        bucket: &bucket,
        latency,
        pair: &pair,
        clients,
        sizes,
        figures: Figures::new(arguments.json),
    };
    bench.figures.say(&format!(
        "{}; two servers, hot standby, {} open Flows; store: {} ms PUT, {} ms GET; {} kills (20) per lease, {} step \
         downs (50), {} + {} under load (20 + 20)",
        arguments.build.name(),
        sizes.open_flows,
        latency.put.as_millis(),
        latency.get.as_millis(),
        sizes.kills,
        sizes.step_downs,
        sizes.loaded,
        sizes.loaded
    ));
    bench.short_lease(&settings)?;
    bench.default_lease(&Settings { lease: DEFAULT_LEASE, ..settings })?;
    bench.figures.finish();
    Ok(())
}

struct Bench<'a> {
    bucket: &'a Bucket,
    latency: Latency,
    pair: &'a Pair,
    clients: Clients<'a>,
    sizes: Sizes,
    figures: Figures,
}

impl Bench<'_> {
    fn short_lease(&mut self, settings: &Settings) -> Result<(), Failure> {
        let Sizes { open_flows, kills, kills_before_few, step_downs, .. } = self.sizes;
        let mut running = Running::start(self.pair, self.clients, settings)?;
        self.open_flows(1, open_flows / 10)?;
        let before_few = rounds("kills before few Flows", kills_before_few, || running.kill())?;
        self.open_flows(open_flows / 10 + 1, open_flows)?;
        let before_many = rounds("kills, lease 3 s", kills, || running.kill())?;
        let releases = rounds("step downs", step_downs, || running.step_down())?;
        running.stop()?;

        let p99 = percentile(&releases, 99).map(milliseconds);
        self.figures.report(Figure::Release { open: open_flows, rounds: step_downs }, &p99.into());
        self.report_kills(SHORT_LEASE, &before_many);
        let recovery = |kills: &[Kill]| {
            let times: Vec<_> = kills.iter().map(|kill| kill.recovery).collect();
            percentile(&times, 50).map(|time| time.as_secs_f64())
        };
        let growth = recovery(&before_many).zip(recovery(&before_few)).map(|(many, few)| many / few);
        self.figures.report(Figure::RecoveryGrowth { open: open_flows }, &growth.into());
        Ok(())
    }

    fn default_lease(&mut self, settings: &Settings) -> Result<(), Failure> {
        let Sizes { kills, loaded, load_clients, .. } = self.sizes;
        self.bucket.set_latency(self.latency);
        let mut running = Running::start(self.pair, self.clients, settings)?;
        let kills = rounds("kills, lease 10 s", kills, || running.kill())?;
        self.report_kills(DEFAULT_LEASE, &kills);

        let worker = self.clients.start_worker()?;
        let mut load = self.clients.start(&["load", &load_clients.to_string()])?;
        rounds("kills under load", loaded, || running.kill())?;
        rounds("step downs under load", loaded, || running.step_down())?;
        load.terminate();
        let result = load.answer()?;
        eprintln!(
            "bench: {} Flows ran under load, the slowest took {:.1} s; errors: {}",
            result["flows"],
            result["slowestMs"].as_f64().unwrap_or_default() / 1_000.0,
            result["firstErrors"]
        );
        self.figures.report(Figure::ClientErrors { kills: loaded, step_downs: loaded }, &result["errors"]);
        worker.stop()?;
        running.stop()
    }

    fn report_kills(&mut self, lease: Duration, kills: &[Kill]) {
        let rounds = u32::try_from(kills.len()).unwrap_or(u32::MAX);
        let lease_secs = lease.as_secs();
        let outage = kills.iter().map(|kill| kill.outage.as_secs_f64()).reduce(f64::max);
        let recovery = kills.iter().map(|kill| milliseconds(kill.recovery)).reduce(f64::max);
        let open = self.sizes.open_flows;
        self.figures.report(Figure::Kill { lease_secs, open, rounds }, &outage.into());
        self.figures.report(Figure::Recovery { lease_secs, open, rounds }, &recovery.into());
    }

    /// As quickly as the machine can: how long that takes is not what is measured.
    fn open_flows(&self, from: u32, to: u32) -> Result<(), Failure> {
        self.bucket.set_latency(Latency::NONE);
        let worker = self.clients.start_worker()?;
        self.clients.open_flows(from, to)?;
        worker.stop()?;
        self.bucket.set_latency(self.latency);
        Ok(())
    }
}

fn rounds<T>(
    what: &str,
    count: u32,
    mut round: impl FnMut() -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    eprintln!("bench: {count} {what}");
    (0..count).map(|_| round()).collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
