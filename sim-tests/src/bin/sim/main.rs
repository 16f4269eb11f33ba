//! `sim`: seeds, decision logs and reports of the simulator. `cargo xtask sim …` builds and runs it.

#![forbid(unsafe_code)]

mod advise;
mod bench;
mod end;
mod exhaustive;
mod files;
mod mutants;
mod run;
mod seeds;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dexzd_core::mutant::{Mutant, switch_on};
use dexzd_sim_tests::explain;

use crate::end::End;

const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  the product broke a rule
  2  the options are wrong or contradict each other
  3  a file cannot be read, or is no decision log
  4  a decision log of another format version
  5  the simulator is at fault: a check panicked, a mark was not reached, two runs of one seed differ";

#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", bin_name = "cargo xtask sim", about = "Seeds, decision logs and reports of the simulator", after_help = EXIT_CODES, subcommand_required = true)]
struct Arguments {
    /// Switch this deliberate defect on: to see what a failure looks like
    #[arg(long, global = true, value_name = "MUTANT", value_parser = mutants::named)]
    mutant: Option<Mutant>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run many seeds, and say what they showed
    Run(run::Arguments),
    /// Run one seed or decision log, and print its story as it goes
    Replay(files::Replay),
    /// Make a failing seed or decision log as small as it can be
    Shrink(files::Shrink),
    /// Tell a failure: sentence, time line, rule, configuration, reasons
    Explain(files::One),
    /// Write a failure as one page for a browser
    Report(files::Report),
    /// Go through every order of everything that may happen to a few real machines
    Exhaustive(exhaustive::Arguments),
    /// Add a decision log to the scenarios that every test run replays, and print a test for it
    ToTest(files::ToTest),
    /// What a lease duration means with a given store: false takeovers, gaps, and what to change
    Advise(advise::Arguments),
    /// Which deliberate defects the suites see, and after how many seeds
    Mutants(mutants::Arguments),
    /// How fast the simulator is, and how small its counterexamples are
    Bench(bench::Arguments),
}

/// A seed, or a decision log.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// A decision log or scenario
    file: Option<PathBuf>,

    /// A seed instead of a file
    #[arg(long, requires = "world")]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.mutant.is_some() && matches!(arguments.command, Command::Mutants(_) | Command::Bench(_)) {
        let end = End::Usage("mutants and bench switch defects on themselves: no --mutant here".to_owned());
        return told(end);
    }
    switch_on(arguments.mutant);
    if let Some(mutant) = arguments.mutant {
        explain::end_commands_with(format!(" --mutant {mutant}"));
    }
    let end = match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Replay(arguments) => files::replay(&arguments),
        Command::Shrink(arguments) => files::shrink(&arguments),
        Command::Explain(arguments) => files::explain(&arguments),
        Command::Report(arguments) => files::report(&arguments),
        Command::Exhaustive(arguments) => exhaustive::run(&arguments),
        Command::ToTest(arguments) => files::to_test(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Mutants(arguments) => mutants::run(&arguments),
        Command::Bench(arguments) => Ok(bench::run(&arguments)),
    };
    told(end.unwrap_or_else(|end| end))
}

fn told(end: End) -> ExitCode {
    if let End::Usage(text) | End::Unreadable(text) | End::OtherVersion(text) = &end {
        eprintln!("error: {text}");
    }
    end.code()
}
