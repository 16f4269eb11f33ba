//! `cargo xtask bench flows`: one server on a local disk.

use std::time::{Duration, Instant};

use super::Build;
use super::clients::{CLIENT_TIMEOUT, Clients};
use super::figures::{Figure, Figures, Group};
use super::proc;
use crate::node::Node;
use crate::processes::{Interruption, Process, Programs, TemporaryFolder};
use crate::shell::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One JSON object per figure and line instead of a table
    #[arg(long)]
    json: bool,

    /// Only these figures; may be repeated. Default: all
    #[arg(long, value_name = "GROUP")]
    only: Vec<Group>,

    /// Fewer Flows and shorter runs: to see that it works, not to compare
    #[arg(long)]
    quick: bool,

    /// How many Flows wait while memory is measured. Default: 1000000
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    waiting: Option<u32>,

    #[command(flatten)]
    build: Build,
}

/// How much is done for each figure.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    latency_flows: u32,
    throughput_seconds: u32,
    /// For restart and idle cost.
    open_flows: u32,
    waiting_flows: u32,
    idle_seconds: u32,
}

const FULL: Sizes = Sizes {
    latency_flows: 2_000,
    throughput_seconds: 10,
    open_flows: 100_000,
    waiting_flows: 1_000_000,
    idle_seconds: 20,
};

const QUICK: Sizes = Sizes {
    latency_flows: 300,
    throughput_seconds: 3,
    open_flows: 5_000,
    waiting_flows: 10_000,
    idle_seconds: 5,
};

/// After a load the server may still compact and evict: it is left alone for so long.
const SETTLE: Duration = Duration::from_secs(5);

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interruption = Interruption::watch()?;
    let programs = arguments.build.programs()?;
    let mut sizes = if arguments.quick { QUICK } else { FULL };
    sizes.waiting_flows = arguments.waiting.unwrap_or(sizes.waiting_flows);
    let mut bench = Bench { programs, interruption, sizes, figures: Figures::new(arguments.json) };
    let wanted = |group| arguments.only.is_empty() || arguments.only.contains(&group);
    if [Group::Sync, Group::Throughput, Group::Async].into_iter().any(wanted) {
        bench.speed(&wanted)?;
    }
    if [Group::Restart, Group::Idle, Group::Memory].into_iter().any(wanted) {
        bench.many_open_flows(&wanted)?;
    }
    bench.figures.finish();
    Ok(())
}

struct Bench {
    programs: Programs,
    interruption: Interruption,
    sizes: Sizes,
    figures: Figures,
}

impl Bench {
    /// Flows that run through.
    fn speed(&mut self, wanted: &impl Fn(Group) -> bool) -> Result<(), Failure> {
        let folder = TemporaryFolder::create("dex-bench-speed")?;
        let node = Node::new(&self.programs, &folder, &self.interruption)?;
        let (server, _) = node.start()?;
        let clients = clients(&self.programs, &self.interruption, &folder, &node);
        let worker = clients.start_worker()?;
        let flows = self.sizes.latency_flows.to_string();
        if wanted(Group::Sync) {
            let result = clients.run(&["latency", "sync", &flows])?;
            self.figures.report(Figure::SyncP50, &result["p50Ms"]);
            self.figures.report(Figure::SyncP99, &result["p99Ms"]);
        }
        if wanted(Group::Throughput) {
            let seconds = self.sizes.throughput_seconds.to_string();
            let result = clients.run(&["throughput", "64", &seconds])?;
            self.figures.report(Figure::FlowsPerSecond, &result["flowsPerSecond"]);
            self.figures.report(Figure::LoadedP50, &result["p50Ms"]);
        }
        if wanted(Group::Async) {
            let result = clients.run(&["latency", "async", &flows])?;
            self.figures.report(Figure::AsyncP50, &result["p50Ms"]);
        }
        worker.stop()?;
        server.stop()?;
        Ok(())
    }

    /// Flows that wait: what they cost, and how soon they are served again.
    fn many_open_flows(&mut self, wanted: &impl Fn(Group) -> bool) -> Result<(), Failure> {
        let folder = TemporaryFolder::create("dex-bench-open")?;
        let node = Node::new(&self.programs, &folder, &self.interruption)?;
        let (mut server, _) = node.start()?;
        let clients = clients(&self.programs, &self.interruption, &folder, &node);
        let worker = clients.start_worker()?;
        let Sizes { open_flows, waiting_flows, idle_seconds, .. } = self.sizes;
        let mut open = 0;
        if wanted(Group::Idle) || wanted(Group::Restart) {
            clients.open_flows(1, open_flows)?;
            open = open_flows;
        }
        if wanted(Group::Idle) {
            let share = idle_share(&clients, &server, Duration::from_secs(idle_seconds.into()))?;
            self.figures.report(Figure::IdleCpu { open }, &(share * 100.0).into());
        }
        if wanted(Group::Restart) {
            let took;
            (server, took) = kill_and_restart(&clients, &node, server)?;
            self.figures.report(Figure::Restart { open }, &took.as_secs_f64().into());
        }
        if wanted(Group::Memory) {
            if open < waiting_flows {
                clients.open_flows(open + 1, waiting_flows)?;
                open = waiting_flows;
            }
            clients.rest(SETTLE)?;
            let bytes = proc::resident_bytes(server.id())?;
            self.figures.report(Figure::Memory { open }, &(bytes as f64 / 1e6).into());
        }
        worker.stop()?;
        server.stop()?;
        Ok(())
    }
}

fn clients<'a>(
    programs: &'a Programs,
    interruption: &'a Interruption,
    folder: &'a TemporaryFolder,
    node: &'a Node,
) -> Clients<'a> {
    Clients { programs, folder, interruption, address: node.address() }
}

/// The share of one core that the server uses while nothing happens.
fn idle_share(clients: &Clients<'_>, server: &Process, period: Duration) -> Result<f64, Failure> {
    clients.rest(SETTLE)?;
    let (start, before) = (Instant::now(), proc::cpu_time(server.id())?);
    clients.rest(period)?;
    let used = proc::cpu_time(server.id())?.saturating_sub(before);
    Ok(used.as_secs_f64() / start.elapsed().as_secs_f64())
}

/// From SIGKILL to the first call that is served, the start of the new process included.
fn kill_and_restart(
    clients: &Clients<'_>,
    node: &Node,
    mut server: Process,
) -> Result<(Process, Duration), Failure> {
    let start = Instant::now();
    server.kill()?;
    let mut probe = clients.start(&["first-call", "wait-1"])?;
    let server = node.spawn()?;
    clients
        .interruption
        .wait_until("the first served call", CLIENT_TIMEOUT, || Ok(probe.ended()?.is_some()))?;
    Ok((server, start.elapsed()))
}
