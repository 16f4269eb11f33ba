//! `cargo xtask …`: everything that is done with this repository, as commands.
//!
//! Read-only unless its name says otherwise: `setup` installs, `fix` rewrites, the others only look, build
//! and run.

mod bench;
mod demo;
mod fix;
mod fuzz;
mod node;
mod pair;
mod probe;
mod processes;
mod setup;
mod shell;
mod sim;
mod takeover;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", subcommand_required = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what this machine lacks: a C++ compiler and libclang for RocksDB, and the programs that check deploy/
    Setup,
    /// Watch orders run through two servers while one is killed in the middle: nothing is lost
    Demo(demo::Arguments),
    /// Run every check and every test, exactly as CI does
    Test(test::Arguments),
    /// Measure how fast the product is, against what it is to reach
    #[command(subcommand, subcommand_required = true)]
    Bench(bench::Benchmark),
    /// Seeds, decision logs and reports of the simulator: `cargo xtask sim --help`
    #[command(disable_help_flag = true)]
    Sim(sim::Arguments),
    /// Let libFuzzer make up inputs for the core
    Fuzz(fuzz::Arguments),
    /// Repair what can be repaired: formatting, and what clippy can rewrite
    Fix,
    /// Check what no compiler checks: sizes, left-overs, dead files, requirement numbers
    Tidy(tidy::Arguments),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // The simulator tells kinds of failure apart by its exit code.
    if let Command::Sim(arguments) = &command {
        return sim::run(arguments).unwrap_or_else(failed);
    }
    let result = match command {
        Command::Setup => setup::run(setup::Need::RocksDb).and_then(|()| tools::install()),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Bench(benchmark) => bench::run(&benchmark),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Fix => fix::run(),
        Command::Tidy(arguments) => tidy::run(&arguments),
        Command::Sim(_) => unreachable!("it has ended already"),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failed(failure),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of it")]
fn failed(failure: shell::Failure) -> ExitCode {
    eprintln!("\n{failure}");
    ExitCode::FAILURE
}
