//! `cargo xtask bench store`: servers over a bucket that takes its time.

use std::time::{Duration, Instant};

use dexzd_rig::Bucket;
use dexzd_rig::bucket::{Kind, Latency, Served};

use super::Build;
use super::clients::Clients;
use super::figures::{Figure, Figures};
use crate::pair::{Member, Settings, SharedStore};
use crate::processes::{Interruption, Process, Programs, TemporaryFolder};
use crate::shell::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One JSON object per figure and line instead of a table
    #[arg(long)]
    json: bool,

    /// Fewer Flows and shorter runs: to see that it works, not to compare
    #[arg(long)]
    quick: bool,

    /// How long the store takes for a PUT, in milliseconds; half of it for everything else
    #[arg(long, value_name = "MS", default_value_t = 50)]
    put: u32,

    #[command(flatten)]
    build: Build,
}

/// How much is done for each figure.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    sync_flows: u32,
    async_flows: u32,
    throughput_seconds: u32,
    clients: u32,
    /// For how long the writes of the lease are counted.
    lease_window: Duration,
}

const FULL: Sizes = Sizes {
    sync_flows: 50,
    async_flows: 200,
    throughput_seconds: 20,
    clients: 1_024,
    lease_window: Duration::from_secs(245),
};

const QUICK: Sizes = Sizes {
    sync_flows: 10,
    async_flows: 50,
    throughput_seconds: 5,
    clients: 1_024,
    lease_window: Duration::from_secs(65),
};

/// Steps of a chain.
const CHAIN: u32 = 10;

/// The leases whose writes are counted.
const LEASES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interruption = Interruption::watch()?;
    let programs = arguments.build.programs()?;
    let sizes = if arguments.quick { QUICK } else { FULL };
    let put = Duration::from_millis(arguments.put.into());
    let latency = Latency { put, get: put / 2, delete: put / 2, list: put / 2 };
    let folder = TemporaryFolder::create("dex-bench-store")?;
    let mut figures = Figures::new(arguments.json);
    figures.say(&format!(
        "{}; one server; store: {} ms PUT, {} ms GET; lease writes counted for {} s",
        arguments.build.name(),
        latency.put.as_millis(),
        latency.get.as_millis(),
        sizes.lease_window.as_secs()
    ));
    let bench = Bench { programs: &programs, folder: &folder, interruption: &interruption, sizes, latency };
    bench.flows(&mut figures, arguments.put)?;
    // By itself, and after the rest: a renewal that waits for a core is no measure of how often one is sent.
    bench.lease_writes(&mut figures)?;
    figures.finish();
    Ok(())
}

struct Bench<'a> {
    programs: &'a Programs,
    folder: &'a TemporaryFolder,
    interruption: &'a Interruption,
    sizes: Sizes,
    latency: Latency,
}

impl Bench<'_> {
    fn flows(&self, figures: &mut Figures, put_ms: u32) -> Result<(), Failure> {
        let bucket = self.bucket()?;
        let (member, server) = self.start("flows", &bucket, LEASES[0])?;
        let clients = Clients {
            programs: self.programs,
            folder: self.folder,
            interruption: self.interruption,
            address: &member.address,
        };
        let worker = clients.start_worker()?;
        let chain = CHAIN.to_string();

        let result = clients.run(&["chain", "sync", &chain, &self.sizes.sync_flows.to_string()])?;
        let per_step = result["p50Ms"].as_f64().map(|time| time / f64::from(CHAIN));
        figures.report(Figure::SyncStep { put_ms }, &per_step.into());

        let result = clients.run(&["chain", "async", &chain, &self.sizes.async_flows.to_string()])?;
        figures.report(Figure::AsyncChain { put_ms }, &result["p50Ms"]);

        let (count, seconds) = (self.sizes.clients, self.sizes.throughput_seconds);
        let result = clients.run(&["throughput", &count.to_string(), &seconds.to_string()])?;
        figures.report(Figure::StoreFlows { put_ms, clients: count }, &result["flowsPerSecond"]);
        worker.stop()?;
        server.stop().map(drop)
    }

    fn lease_writes(&self, figures: &mut Figures) -> Result<(), Failure> {
        let buckets = [self.bucket()?, self.bucket()?];
        let mut servers = Vec::new();
        for ((bucket, lease), name) in buckets.iter().zip(LEASES).zip(["ten", "sixty"]) {
            servers.push(self.start(name, bucket, lease)?.1);
        }
        for bucket in &buckets {
            bucket.record();
        }
        eprintln!("bench: counting writes of the lease for {} s", self.sizes.lease_window.as_secs());
        let start = Instant::now();
        self.interruption.wait_until("the count", self.sizes.lease_window * 2, || {
            servers.iter_mut().try_for_each(Process::expect_alive)?;
            Ok(start.elapsed() >= self.sizes.lease_window)
        })?;
        for (bucket, lease) in buckets.iter().zip(LEASES) {
            let per_hour = lease_writes_per_hour(&bucket.recorded());
            figures.report(Figure::LeaseWrites { lease_secs: lease.as_secs() }, &per_hour.into());
        }
        for server in servers {
            server.stop()?;
        }
        Ok(())
    }

    fn bucket(&self) -> Result<Bucket, Failure> {
        Bucket::open("bench", self.latency)
            .map_err(|error| Failure::new(format!("cannot open a bucket on 127.0.0.1: {error}")))
    }

    fn start(
        &self,
        name: &'static str,
        bucket: &Bucket,
        lease: Duration,
    ) -> Result<(Member, Process), Failure> {
        let settings = Settings {
            node_id: "bench",
            store: SharedStore::Bucket { endpoint: bucket.endpoint(), name: bucket.name().to_owned() },
            lease,
            hold_off: None,
        };
        let member = Member::new(name, self.programs, self.folder, self.interruption, &settings)?;
        let mut server = member.spawn()?;
        member.wait_until_active(&mut server)?;
        Ok((member, server))
    }
}

/// From the time between the first write and the last one: a window that cuts the last interval off does not blur it.
fn lease_writes_per_hour(served: &[Served]) -> Option<f64> {
    let mut writes = served.iter().filter(|it| it.kind == Kind::Put && it.key.ends_with("/lease"));
    let first = writes.next()?;
    let (intervals, last) = writes.enumerate().last().map(|(index, last)| (index + 1, last))?;
    Some(intervals as f64 * 3_600.0 / (last.at - first.at).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_per_hour_follow_from_the_time_between_the_first_and_the_last() {
        let start = Instant::now();
        let served = |seconds, kind, key: &str| Served {
            at: start + Duration::from_secs(seconds),
            kind,
            key: key.to_owned(),
            status: 200,
            bytes: 1,
        };
        let all = [
            served(0, Kind::Get, "bench/lease"),
            served(5, Kind::Put, "bench/lease"),
            served(7, Kind::Put, "bench/log/1"),
            served(25, Kind::Put, "bench/lease"),
            served(45, Kind::Put, "bench/lease"),
            served(60, Kind::Get, "bench/lease"),
        ];
        assert_eq!(lease_writes_per_hour(&all), Some(180.0));
        assert_eq!(lease_writes_per_hour(&all[..3]), None);
    }
}
