//! A server on this machine, and questions to it through `dexcli`, as any operator would ask.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::processes::{Interruption, Process, Programs, TemporaryFolder, free_address};
use crate::shell::Failure;

/// A server that takes longer than this to serve will not.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Where a server runs, and with which programs.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    server: PathBuf,
    dexcli: PathBuf,
    data: PathBuf,
    log: PathBuf,
    interruption: Interruption,
}

impl Node {
    pub(crate) fn new(
        programs: &Programs,
        folder: &TemporaryFolder,
        interruption: &Interruption,
    ) -> Result<Self, Failure> {
        Ok(Self {
            address: free_address()?,
            server: programs.find("dex-server-zd")?,
            dexcli: programs.find("dexcli")?,
            data: folder.file("data"),
            log: folder.file("server.log"),
            interruption: interruption.clone(),
        })
    }

    /// Starts the server on this node's data and waits until it serves. Says how long that took.
    pub(crate) fn start(&self) -> Result<(Process, Duration), Failure> {
        let mut process = self.spawn()?;
        let took = self.interruption.wait_until("the server's start", START_TIMEOUT, || {
            process.expect_alive()?;
            Ok(self.serves())
        });
        match took {
            Ok(took) => Ok((process, took)),
            Err(failure) => Err(process.failure(&failure.to_string())),
        }
    }

    /// Starts the server and does not wait for it.
    pub(crate) fn spawn(&self) -> Result<Process, Failure> {
        let mut command = Command::new(&self.server);
        command.arg("dev").arg("--listen").arg(&self.address).arg("--data-dir").arg(&self.data);
        Process::start("dex-server-zd", &mut command, &self.log, None)
    }

    fn serves(&self) -> bool {
        // Cheaper than a process, and the usual answer while a server starts.
        std::net::TcpStream::connect(&self.address).is_ok()
            && self
                .command(&["health"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
    }

    /// The JSON that `dexcli` prints.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let words = arguments.join(" ");
        let output = self
            .command(arguments)
            .output()
            .map_err(|error| Failure::new(format!("cannot run dexcli: {error}")))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("dexcli {words}: {}", text.trim())));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::new(format!("dexcli {words} printed no JSON: {error}")))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.dexcli);
        command.args(["--server", &self.address, "--output", "json"]).args(arguments);
        command
    }
}
