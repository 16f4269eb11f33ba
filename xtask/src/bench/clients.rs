//! The Worker and the clients of a benchmark, each a process of its own: sdk/examples/bench.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::processes::{Interruption, Process, Programs, TemporaryFolder};
use crate::shell::Failure;

/// A client that takes longer than this has got stuck: a million Flows take minutes.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(3_600);

/// What runs beside one server, or beside those of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clients<'a> {
    pub(super) programs: &'a Programs,
    pub(super) folder: &'a TemporaryFolder,
    pub(super) interruption: &'a Interruption,
    /// `host:port`, or several with commas between.
    pub(super) address: &'a str,
}

impl Clients<'_> {
    pub(super) fn start_worker(&self) -> Result<Process, Failure> {
        let mut command = self.command(&["worker"])?;
        Process::start("the Worker", &mut command, &self.folder.file("worker.log"), None)
    }

    /// Starts a client whose result is asked for later.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Process, Failure> {
        let mut command = self.command(arguments)?;
        Process::start("the client", &mut command, &self.folder.file("client.log"), Some(Stdio::piped()))
    }

    /// Runs a client to its end and returns the JSON that it prints.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Value, Failure> {
        eprintln!("bench: {}", arguments.join(" "));
        let mut client = self.start(arguments)?;
        self.interruption.wait_until("the client", CLIENT_TIMEOUT, || Ok(client.ended()?.is_some()))?;
        client.answer()
    }

    /// Starts the Flows of these numbers, which wait for ever, and returns when they do.
    pub(super) fn open_flows(&self, from: u32, to: u32) -> Result<(), Failure> {
        let result = self.run(&["wait", &from.to_string(), &to.to_string()])?;
        eprintln!("bench: {} Flows wait, after {:.0} s", to, result["seconds"].as_f64().unwrap_or_default());
        Ok(())
    }

    pub(super) fn rest(&self, period: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        self.interruption.wait_until("a rest", period * 2, || Ok(start.elapsed() >= period)).map(drop)
    }

    fn command(&self, arguments: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(self.programs.find("bench")?);
        command.args(arguments).env("DEX_FLOW_SERVICE_ADDRESS", self.address).env_remove("RUST_LOG");
        Ok(command)
    }
}
