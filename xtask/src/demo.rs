//! `cargo xtask demo`: orders run through real servers of which one is killed in the middle, and nothing is lost.

mod effects;
mod failover;
mod orders;
mod single;
mod stage;

use std::path::{Path, PathBuf};
use std::time::Instant;

use self::orders::Verdict;
use self::stage::Stage;
use crate::processes::{Interruption, Programs, TemporaryFolder, build};
use crate::shell::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many orders
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(20..=5_000))]
    orders: u32,

    /// One server without a standby, which is killed and started again
    #[arg(long)]
    single: bool,

    /// Use the programs of this folder instead of building them: target/debug or target/release
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let programs = match &arguments.programs {
        Some(folder) => Programs::in_folder(folder)?,
        None => build_programs()?,
    };
    if arguments.single {
        show_single(&programs, arguments.orders)?;
    } else {
        show(&programs, arguments.orders)?;
    }
    print_what_next(&programs, arguments.single)
}

/// Plays the failover demo with these programs; fails if a promise does not hold.
pub(crate) fn show(programs: &Programs, orders: u32) -> Result<(), Failure> {
    play("dex-demo", programs, |stage| failover::play(stage, orders))
}

/// Plays the demo of one server with these programs; fails if a promise does not hold.
pub(crate) fn show_single(programs: &Programs, orders: u32) -> Result<(), Failure> {
    play("dex-demo-single", programs, |stage| single::play(stage, orders))
}

fn play(
    name: &str,
    programs: &Programs,
    piece: impl FnOnce(&Stage<'_>) -> Result<Verdict, Failure>,
) -> Result<(), Failure> {
    let interruption = Interruption::watch()?;
    let folder = TemporaryFolder::create(name)?;
    let verdict = piece(&Stage { programs, folder: &folder, interruption: &interruption })?;
    print!("\n{verdict}");
    if verdict.holds() {
        return Ok(());
    }
    Err(Failure::new("the demo found something that must not happen: see above"))
}

fn build_programs() -> Result<Programs, Failure> {
    println!("Building the light build: server, dexcli and an example Worker. The first time takes minutes.");
    let start = Instant::now();
    let programs = build(&[
        "-p",
        "dexzd-server",
        "-p",
        "dexzd-cli",
        "-p",
        "dexzd-sdk",
        "--no-default-features",
        "--bin",
        "dex-server-zd",
        "--bin",
        "dexcli",
        "--example",
        "order",
        "--example",
        "probe",
    ])?;
    println!("Built in {} s.\n", start.elapsed().as_secs());
    Ok(programs)
}

fn print_what_next(programs: &Programs, single: bool) -> Result<(), Failure> {
    let (dexcli, order) = (programs.find("dexcli")?, programs.find("order")?);
    let (dexcli, order) = (shown(&dexcli), shown(&order));
    println!(
        "\nNothing is left running. To try next:\n\
         \n  {dexcli} dev\n      a server of your own; Ctrl+C stops it\
         \n  {order}\n      a Worker and five orders, from another terminal\
         \n  {dexcli} flow search\n      what ran\
         \n  {dexcli} flow history order-1\n      and how"
    );
    if !single {
        println!("  cargo xtask demo --single\n      one server without a standby: killed, started again");
        println!(
            "\ndocs/operator-guide.md sets up two servers over your own bucket; docs/protocol.md says why it holds."
        );
    }
    println!("The Flow itself is sdk/examples/order.rs; docs/first-flow.md writes one from nothing.");
    Ok(())
}

/// As one types it: relative to where one is, if it lies below.
fn shown(program: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    program.strip_prefix(here).unwrap_or(program).display().to_string()
}
