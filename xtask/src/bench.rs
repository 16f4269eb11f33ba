//! `cargo xtask bench …`: how fast, how small, how soon again. It measures and judges nothing but the figures: it
//! ends with exit code 0 whether or not they are met.

mod clients;
mod failover;
mod figures;
mod flows;
mod proc;
mod rounds;
mod store;

use std::path::{Path, PathBuf};

use crate::processes::{Programs, build};
use crate::setup::{self, Need};
use crate::shell::Failure;
use crate::sim;
use crate::test::{RELEASED, packages};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Benchmark {
    /// Latency, throughput, memory, restart and idle cost of Flows: RocksDB, strict, three processes
    Flows(flows::Arguments),
    /// Kills and step downs: how long nobody serves, and what clients see of it
    Failover(failover::Arguments),
    /// Latency and throughput over a store that takes its time, and how often the lease is written
    Store(store::Arguments),
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

/// What is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Build {
    /// The light build: without RocksDB and not optimised as a release is, but quick to compile
    #[arg(long)]
    light: bool,

    /// Use the programs of this folder instead of building them: target/debug or target/release
    #[arg(long, value_name = "FOLDER", conflicts_with = "light")]
    programs: Option<PathBuf>,
}

pub(crate) fn run(benchmark: &Benchmark) -> Result<(), Failure> {
    match benchmark {
        Benchmark::Flows(arguments) => flows::run(arguments),
        Benchmark::Failover(arguments) => failover::run(arguments),
        Benchmark::Store(arguments) => store::run(arguments),
        Benchmark::Sim(arguments) => simulator(arguments),
    }
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

impl Build {
    fn programs(&self) -> Result<Programs, Failure> {
        match &self.programs {
            Some(folder) => Programs::in_folder(folder),
            None => build_programs(self.light),
        }
    }

    /// For the first line of what is measured.
    fn name(&self) -> String {
        match &self.programs {
            Some(folder) => format!("programs of {}", Path::display(folder)),
            None if self.light => "light build, not optimised, without RocksDB".to_owned(),
            None => "release build with RocksDB".to_owned(),
        }
    }
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
