//! A server on this machine, and questions to it through `dexcli`, as any operator would ask.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::processes::{Interruption, Process, Programs, TemporaryFolder, free_address};
use crate::shell::Failure;

/// A server that takes longer than this to serve will not.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Where a server runs alone, and with which programs.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) dexcli: Dexcli,
    server: PathBuf,
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
            dexcli: Dexcli::new(programs, free_address()?)?,
            server: programs.find("dex-server-zd")?,
            data: folder.file("data"),
            log: folder.file("server.log"),
            interruption: interruption.clone(),
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.dexcli.address
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
        command.arg("dev").arg("--listen").arg(self.address()).arg("--data-dir").arg(&self.data);
        Process::start("dex-server-zd", &mut command, &self.log, None)
    }

    fn serves(&self) -> bool {
        // Cheaper than a process, and the usual answer while a server starts.
        std::net::TcpStream::connect(self.address()).is_ok()
            && self
                .dexcli
                .command(&["health"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
    }
}

/// `dexcli` for one server, or for those of one node.
#[derive(Debug)]
pub(crate) struct Dexcli {
    /// `host:port`, or several with commas between.
    pub(crate) address: String,
    program: PathBuf,
}

impl Dexcli {
    pub(crate) fn new(programs: &Programs, address: String) -> Result<Self, Failure> {
        Ok(Self { address, program: programs.find("dexcli")? })
    }

    /// The same program, asking one server.
    pub(crate) fn of(&self, address: &str) -> Self {
        Self { address: address.to_owned(), program: self.program.clone() }
    }

    /// Steps the server down that serves at this address; runs until another one does.
    pub(crate) fn step_down(&self, folder: &TemporaryFolder) -> Result<Process, Failure> {
        let mut command = self.command(&["admin", "step-down", "--yes"]);
        Process::start(
            "dexcli admin step-down",
            &mut command,
            &folder.file("step-down.log"),
            Some(Stdio::piped()),
        )
    }

    /// The JSON that it prints.
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

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--server", &self.address, "--output", "json"]).args(arguments);
        command
    }
}
