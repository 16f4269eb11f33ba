//! `cargo xtask test`: the one gate. It only looks; `cargo xtask fix` repairs.

use std::time::Instant;

use crate::demo;
use crate::processes::build;
use crate::setup::{self, Need};
use crate::shell::{self, Failure, cargo};
use crate::tidy;
use crate::tools;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Leave out everything that links RocksDB: minutes instead of the better part of an hour on a fresh
    /// machine, but not the whole gate
    #[arg(long)]
    light: bool,
}

/// What runs in the simulator, in the profile `sim`: optimised, with every assertion on. And what needs nothing.
pub(crate) const SIMULATED: [&str; 4] = ["dexzd-core", "dexzd-io-sim", "dexzd-sim-tests", "dexzd-rig"];

/// What links RocksDB, or stands beside it: always in the profile `release`, and always exactly these
/// packages together. Another selection would give shared dependencies other features, and cargo would
/// compile RocksDB, 40 CPU minutes, once more.
pub(crate) const RELEASED: [&str; 7] =
    ["dexzd-connection", "dexzd-io-tokio", "dexzd-server", "dexzd-sdk", "dexzd-cli", "xtask", "dexzd-deploy"];

/// Enough orders that some are under way when the server is killed.
const DEMO_ORDERS: u32 = 40;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let start = Instant::now();
    if !arguments.light {
        setup::run(Need::Checks)?;
    }
    tools::install()?;
    // From quick to slow, so that a small mistake is not found after an hour.
    shell::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::check()?;
    lint(arguments)?;
    shell::run(cargo(&["test", "--profile", "sim"]).args(packages(&SIMULATED)))?;
    if arguments.light {
        shell::run(cargo(&["test", "--no-default-features"]).args(packages(&RELEASED)))?;
    } else {
        shell::run(cargo(&["test", "--release"]).args(packages(&RELEASED)))?;
    }
    // The demos are the one test that goes through every program, dexcli included.
    let profile = if arguments.light { "--no-default-features" } else { "--release" };
    let mut flags = packages(&RELEASED);
    flags.extend([profile, "--bins", "--examples"]);
    let programs = build(&flags)?;
    demo::show_single(&programs, DEMO_ORDERS)?;
    demo::show(&programs, DEMO_ORDERS)?;
    println!("\nall checks and tests passed in {} s", start.elapsed().as_secs());
    if arguments.light {
        println!("left out: everything with RocksDB (`cargo xtask test` without --light)");
    }
    Ok(())
}

/// Clippy in the profiles of the tests, which share their build scripts, so RocksDB is compiled once.
fn lint(arguments: &Arguments) -> Result<(), Failure> {
    let deny = ["--", "--deny", "warnings"];
    let simulated = ["clippy", "--profile", "sim", "--all-targets"];
    shell::run(cargo(&simulated).args(packages(&SIMULATED)).args(deny))?;
    let released: &[&str] = if arguments.light {
        &["clippy", "--no-default-features", "--all-targets"]
    } else {
        &["clippy", "--release", "--all-targets"]
    };
    shell::run(cargo(released).args(packages(&RELEASED)).args(deny))
}

/// `-p a -p b`
pub(crate) fn packages(names: &[&'static str]) -> Vec<&'static str> {
    names.iter().flat_map(|name| ["-p", name]).collect()
}
