//! `cargo xtask bench flows`: how fast, how small, how soon again. It measures and judges nothing but the
//! figures: it ends with exit code 0 whether or not they are met.

mod figures;
mod proc;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use self::figures::{Figure, Figures, Group};
use crate::node::Node;
use crate::processes::{Interruption, Process, Programs, TemporaryFolder, build};
use crate::setup::{self, Need};
use crate::shell::Failure;
use crate::sim;
use crate::test::{RELEASED, packages};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Benchmark {
    /// Latency, throughput, memory, restart and idle cost of Flows: RocksDB, strict, three processes
    Flows(Arguments),
    /// The simulator: its speed, its counterexamples, the defects it sees
    Sim(SimArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SimArguments {
    /// One JSON object per figure and line instead of a table
    #[arg(long)]
    json: bool,

    /// Fewer seeds and mutants: to see that it works, not to compare
    #[arg(long)]
    quick: bool,
}

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

    /// The light build: without RocksDB and not optimised as a release is, but quick to compile
    #[arg(long)]
    light: bool,

    /// Use the programs of this folder instead of building them: target/debug or target/release
    #[arg(long, value_name = "FOLDER", conflicts_with = "light")]
    programs: Option<PathBuf>,
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

/// A client that takes longer than this has got stuck: a million Flows take minutes.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(3_600);

/// After a load the server may still compact and evict: it is left alone for so long.
const SETTLE: Duration = Duration::from_secs(5);

pub(crate) fn run(benchmark: &Benchmark) -> Result<(), Failure> {
    let arguments = match benchmark {
        Benchmark::Flows(arguments) => arguments,
        Benchmark::Sim(arguments) => return simulator(arguments),
    };
    let interruption = Interruption::watch()?;
    let programs = match &arguments.programs {
        Some(folder) => Programs::in_folder(folder)?,
        None => build_programs(arguments.light)?,
    };
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

/// The program `sim` measures itself: what it measures is its own CPU time.
fn simulator(arguments: &SimArguments) -> Result<(), Failure> {
    let mut command = sim::command(&[])?;
    command.arg("bench");
    for (wanted, flag) in [(arguments.json, "--json"), (arguments.quick, "--quick")] {
        if wanted {
            command.arg(flag);
        }
    }
    let status = command.status().map_err(|error| Failure::new(format!("cannot run sim: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("sim bench ended with {status}"))) }
}

fn build_programs(light: bool) -> Result<Programs, Failure> {
    eprintln!("bench: building server, dexcli, Worker and client");
    let mut flags = packages(&RELEASED);
    if light {
        flags.push("--no-default-features");
    } else {
        setup::run(Need::RocksDb)?;
        flags.push("--release");
    }
    // Examples too, as the tests build them: the same features, so RocksDB is not compiled again.
    flags.extend(["--bins", "--examples"]);
    build(&flags)
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
        let worker = self.start_worker(&node, &folder)?;
        let flows = self.sizes.latency_flows.to_string();
        if wanted(Group::Sync) {
            let result = self.client(&node, &folder, &["latency", "sync", &flows])?;
            self.figures.report(Figure::SyncP50, &result["p50Ms"]);
            self.figures.report(Figure::SyncP99, &result["p99Ms"]);
        }
        if wanted(Group::Throughput) {
            let seconds = self.sizes.throughput_seconds.to_string();
            let result = self.client(&node, &folder, &["throughput", "64", &seconds])?;
            self.figures.report(Figure::FlowsPerSecond, &result["flowsPerSecond"]);
            self.figures.report(Figure::LoadedP50, &result["p50Ms"]);
        }
        if wanted(Group::Async) {
            let result = self.client(&node, &folder, &["latency", "async", &flows])?;
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
        let worker = self.start_worker(&node, &folder)?;
        let Sizes { open_flows, waiting_flows, idle_seconds, .. } = self.sizes;
        let mut open = 0;
        if wanted(Group::Idle) || wanted(Group::Restart) {
            self.open_flows(&node, &folder, 1, open_flows)?;
            open = open_flows;
        }
        if wanted(Group::Idle) {
            let share = self.idle_share(&server, Duration::from_secs(idle_seconds.into()))?;
            self.figures.report(Figure::IdleCpu { open }, &(share * 100.0).into());
        }
        if wanted(Group::Restart) {
            let took;
            (server, took) = self.kill_and_restart(&node, &folder, server)?;
            self.figures.report(Figure::Restart { open }, &took.as_secs_f64().into());
        }
        if wanted(Group::Memory) {
            if open < waiting_flows {
                self.open_flows(&node, &folder, open + 1, waiting_flows)?;
                open = waiting_flows;
            }
            self.rest(SETTLE)?;
            let bytes = proc::resident_bytes(server.id())?;
            self.figures.report(Figure::Memory { open }, &(bytes as f64 / 1e6).into());
        }
        worker.stop()?;
        server.stop()?;
        Ok(())
    }

    fn open_flows(&self, node: &Node, folder: &TemporaryFolder, from: u32, to: u32) -> Result<(), Failure> {
        let result = self.client(node, folder, &["wait", &from.to_string(), &to.to_string()])?;
        eprintln!("bench: {} Flows wait, after {:.0} s", to, result["seconds"].as_f64().unwrap_or_default());
        Ok(())
    }

    /// The share of one core that the server uses while nothing happens.
    fn idle_share(&self, server: &Process, period: Duration) -> Result<f64, Failure> {
        self.rest(SETTLE)?;
        let (start, before) = (Instant::now(), proc::cpu_time(server.id())?);
        self.rest(period)?;
        let used = proc::cpu_time(server.id())?.saturating_sub(before);
        Ok(used.as_secs_f64() / start.elapsed().as_secs_f64())
    }

    /// From SIGKILL to the first call that is served, the start of the new process included.
    fn kill_and_restart(
        &self,
        node: &Node,
        folder: &TemporaryFolder,
        server: Process,
    ) -> Result<(Process, Duration), Failure> {
        let start = Instant::now();
        server.kill()?;
        let mut probe = self.start_client(node, folder, &["first-call", "wait-1"])?;
        let server = node.spawn()?;
        self.interruption
            .wait_until("the first served call", CLIENT_TIMEOUT, || Ok(probe.ended()?.is_some()))?;
        Ok((server, start.elapsed()))
    }

    fn rest(&self, period: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        self.interruption.wait_until("a rest", period * 2, || Ok(start.elapsed() >= period)).map(drop)
    }

    fn start_worker(&self, node: &Node, folder: &TemporaryFolder) -> Result<Process, Failure> {
        let mut command = self.command(node, &["worker"])?;
        Process::start("the Worker", &mut command, &folder.file("worker.log"), None)
    }

    fn start_client(
        &self,
        node: &Node,
        folder: &TemporaryFolder,
        arguments: &[&str],
    ) -> Result<Process, Failure> {
        let mut command = self.command(node, arguments)?;
        Process::start("the client", &mut command, &folder.file("client.log"), Some(Stdio::piped()))
    }

    /// Runs the client to its end and returns the JSON that it prints.
    fn client(&self, node: &Node, folder: &TemporaryFolder, arguments: &[&str]) -> Result<Value, Failure> {
        eprintln!("bench: {}", arguments.join(" "));
        let mut client = self.start_client(node, folder, arguments)?;
        let stdout = client.take_stdout().expect("stdout was asked for as a pipe");
        let mut status = None;
        self.interruption.wait_until("the client", CLIENT_TIMEOUT, || {
            status = client.ended()?;
            Ok(status.is_some())
        })?;
        // One line: it fits into the pipe, so reading after the end misses nothing.
        let text = std::io::read_to_string(stdout).unwrap_or_default();
        serde_json::from_str(&text)
            .map_err(|_| client.failure(&format!("the client printed no result ({status:?})")))
    }

    fn command(&self, node: &Node, arguments: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(self.programs.find("bench")?);
        command.args(arguments).env("DEX_FLOW_SERVICE_ADDRESS", &node.address).env_remove("RUST_LOG");
        Ok(command)
    }
}
