//! `cargo xtask demo`: orders run through a real server that is killed in the middle, and nothing is lost.

mod effects;
mod orders;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use self::effects::Effects;
use self::orders::{Orders, Verdict};
use crate::node::Node;
use crate::processes::{Interruption, Process, Programs, TemporaryFolder, build};
use crate::shell::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many orders
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(10..=5_000))]
    orders: u32,

    /// Use the programs of this folder instead of building them: target/debug or target/release
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// How long one call to the outside world takes, in the Worker that plays bank, warehouse and mail.
const CALL_MS: u32 = 100;

/// How many Steps the Worker runs at once: few, so that the batch lasts long enough to be watched.
const CONCURRENCY: u32 = 4;

/// How long an order waits for its parcel before it is refunded.
const PATIENCE_MS: u32 = 4_000;

/// The server is killed when this share of the orders is done.
const KILL_AT_PERCENT: u32 = 35;

/// How long the server stays dead, so that everybody notices.
const DEAD_FOR: Duration = Duration::from_millis(800);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let programs = match &arguments.programs {
        Some(folder) => Programs::in_folder(folder)?,
        None => build_programs()?,
    };
    show(&programs, arguments.orders)?;
    print_what_next(&programs)
}

/// Plays the demo with these programs; fails if a promise does not hold.
pub(crate) fn show(programs: &Programs, orders: u32) -> Result<(), Failure> {
    let interruption = Interruption::watch()?;
    let folder = TemporaryFolder::create("dex-demo")?;
    let node = Node::new(programs, &folder, &interruption)?;
    let demo = Demo { programs, folder: &folder, node: &node, interruption: &interruption };
    let verdict = demo.play(orders)?;
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
    ])?;
    println!("Built in {} s.\n", start.elapsed().as_secs());
    Ok(programs)
}

struct Demo<'a> {
    programs: &'a Programs,
    folder: &'a TemporaryFolder,
    node: &'a Node,
    interruption: &'a Interruption,
}

impl Demo<'_> {
    fn play(&self, count: u32) -> Result<Verdict, Failure> {
        let (server, took) = self.node.start()?;
        println!(
            "server    process {}, {}, ready after {} ms",
            server.id(),
            self.node.address,
            took.as_millis()
        );
        let mut worker = self.start_worker()?;
        println!("Worker    process {}, {CONCURRENCY} Steps at once", worker.id());
        println!("orders    {count}: charge the card, ask for shipment, await the parcel or refund\n");

        let mut orders = Orders::start(
            self.order_command(&["start", "--count", &count.to_string()])?,
            self.folder,
            count,
        )?;
        orders.run_until(count * KILL_AT_PERCENT / 100, self.interruption, || worker.expect_alive())?;

        let victim = server.id();
        server.kill()?;
        orders.say(&format!(
            "kill -9 {victim}: the server is gone, {} orders are under way",
            count - orders.finished()
        ));
        std::thread::sleep(DEAD_FOR);
        let (mut server, took) = self.node.start()?;
        orders.say(&format!(
            "process {} read the log and serves after {} ms: every order goes on where it was",
            server.id(),
            took.as_millis()
        ));

        orders.run_until(count, self.interruption, || {
            worker.expect_alive()?;
            server.expect_alive()
        })?;
        let summary = orders.finish(self.interruption)?;
        let verdict = Verdict::reach(self.node, summary, &Effects::read(&self.effects_file())?, count)?;
        worker.stop()?;
        server.stop()?;
        Ok(verdict)
    }

    fn start_worker(&self) -> Result<Process, Failure> {
        let effects = self.effects_file();
        let mut command = self.order_command(&[
            "worker",
            "--effects",
            &effects.to_string_lossy(),
            "--step-delay",
            &CALL_MS.to_string(),
            "--concurrency",
            &CONCURRENCY.to_string(),
            "--patience",
            &PATIENCE_MS.to_string(),
        ])?;
        Process::start("the Worker", &mut command, &self.folder.file("worker.log"), None)
    }

    fn effects_file(&self) -> PathBuf {
        self.folder.file("effects.jsonl")
    }

    fn order_command(&self, arguments: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(self.programs.find("order")?);
        command.args(arguments).env("DEX_FLOW_SERVICE_ADDRESS", &self.node.address).env_remove("RUST_LOG");
        Ok(command)
    }
}

fn print_what_next(programs: &Programs) -> Result<(), Failure> {
    let (dexcli, order) = (programs.find("dexcli")?, programs.find("order")?);
    let (dexcli, order) = (shown(&dexcli), shown(&order));
    println!(
        "\nNothing is left running. To try next:\n\
         \n  {dexcli} dev\n      a server of your own; Ctrl+C stops it\
         \n  {order}\n      a Worker and five orders, from another terminal\
         \n  {dexcli} flow search\n      what ran\
         \n  {dexcli} flow history order-1\n      and how\n\
         \nThe Flow itself is sdk/examples/order.rs; docs/first-flow.md writes one from nothing."
    );
    Ok(())
}

/// As one types it: relative to where one is, if it lies below.
fn shown(program: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    program.strip_prefix(here).unwrap_or(program).display().to_string()
}
