//! Programs that run beside a task and never outlive it.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use rustix::process::{Pid, Signal, kill_process};

use crate::shell::{Failure, cargo};

/// How often a process is looked at while something is waited for.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long a process may take to stop in order before it is killed: the server's drain, and some.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// Knows whether somebody pressed Ctrl+C. From its creation on, that no longer ends this process by itself.
#[derive(Clone, Debug)]
pub(crate) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    pub(crate) fn watch() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map_err(|error| Failure::new(format!("cannot listen for Ctrl+C: {error}")))?;
        }
        Ok(Self(flag))
    }

    /// Knows of nothing, for tests.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(Arc::default())
    }

    /// Fails once Ctrl+C was pressed: for every loop that waits.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Failure::new("interrupted; everything that was started is stopped again"));
        }
        Ok(())
    }

    /// Waits until `done` says so; fails on Ctrl+C and, with `what`, after `limit`.
    pub(crate) fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        mut done: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<Duration, Failure> {
        let start = Instant::now();
        while !done()? {
            self.check()?;
            if start.elapsed() > limit {
                return Err(Failure::new(format!("{what} took more than {} s", limit.as_secs())));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(start.elapsed())
    }
}

/// A folder that is removed at the end.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub(crate) fn create(name: &str) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(|error| Failure::new(format!("cannot create {}: {error}", path.display())))?;
        Ok(Self(path))
    }

    /// A path within.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be removed from the folder for temporary files is not worth a failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output appended to `log`, unless the command's own stdout is taken.
    pub(crate) fn start(
        name: &'static str,
        command: &mut Command,
        log: &Path,
        stdout: Option<Stdio>,
    ) -> Result<Self, Failure> {
        let io_failure = |error| Failure::new(format!("cannot start {name}: {error}"));
        let file = File::options().create(true).append(true).open(log).map_err(io_failure)?;
        let stdout = match stdout {
            Some(stdout) => stdout,
            None => file.try_clone().map_err(io_failure)?.into(),
        };
        command.stdin(Stdio::null()).stdout(stdout).stderr(file);
        // A group of its own: Ctrl+C reaches this task only, which then stops everything in order.
        command.process_group(0);
        let child = command.spawn().map_err(io_failure)?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// The JSON that a process which has ended well left in its stdout, taken as a pipe.
    pub(crate) fn answer(&mut self) -> Result<Value, Failure> {
        let status = self
            .child
            .wait()
            .map_err(|error| Failure::new(format!("cannot await {}: {error}", self.name)))?;
        // It fits into the pipe, so reading after the end misses nothing.
        let text = self.take_stdout().map(std::io::read_to_string);
        let text = text.transpose().ok().flatten().unwrap_or_default();
        if !status.success() {
            return Err(self.failure(&format!("{} failed ({status})", self.name)));
        }
        serde_json::from_str(&text)
            .map_err(|_| self.failure(&format!("{} printed no result ({status})", self.name)))
    }

    /// How the process ended; none while it runs.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child.try_wait().map_err(|error| Failure::new(format!("cannot look at {}: {error}", self.name)))
    }

    /// Fails, with the end of its log, if the process has ended.
    pub(crate) fn expect_alive(&mut self) -> Result<(), Failure> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(self.failure(&format!("{} ended by itself ({status})", self.name))),
        }
    }

    /// `text`, followed by the last lines of the log.
    pub(crate) fn failure(&self, text: &str) -> Failure {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(10)..].join("\n  ");
        Failure::new(format!("{text}; the end of its log:\n  {tail}"))
    }

    /// SIGTERM, without waiting for what comes of it.
    pub(crate) fn terminate(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It may have ended by itself meanwhile.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// SIGKILL: no farewell, like a power cut for this one process.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        let failure = |error| Failure::new(format!("cannot kill {}: {error}", self.name));
        self.child.kill().map_err(failure)?;
        self.child.wait().map(drop).map_err(failure)
    }

    /// SIGTERM, then SIGKILL for one that does not listen.
    pub(crate) fn stop(mut self) -> Result<ExitStatus, Failure> {
        self.terminate();
        let start = Instant::now();
        while start.elapsed() < STOP_TIMEOUT {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Err(Failure::new(format!(
            "{} did not stop within {} s of SIGTERM",
            self.name,
            STOP_TIMEOUT.as_secs()
        )))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address at which nobody listens.
pub(crate) fn free_address() -> Result<String, Failure> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.to_string())
        .map_err(|error| Failure::new(format!("no free port on 127.0.0.1: {error}")))
}

/// Builds with cargo and says where the programs are, by name.
pub(crate) fn build(arguments: &[&str]) -> Result<Programs, Failure> {
    let mut command = cargo(&["build", "--message-format=json-render-diagnostics"]);
    let output = command
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("cannot run cargo: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new("the build failed"));
    }
    let programs = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect();
    Ok(Programs(programs))
}

/// What a build made.
#[derive(Debug)]
pub(crate) struct Programs(Vec<PathBuf>);

impl Programs {
    /// What lies in a folder that cargo built into, and in its `examples`.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, Failure> {
        let mut programs = Vec::new();
        for folder in [folder.to_owned(), folder.join("examples")] {
            let entries = std::fs::read_dir(&folder)
                .map_err(|error| Failure::new(format!("cannot look into {}: {error}", folder.display())))?;
            programs.extend(
                entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_none()),
            );
        }
        Ok(Self(programs))
    }

    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, Failure> {
        self.0
            .iter()
            .find(|path| path.file_stem().is_some_and(|stem| stem == name))
            .cloned()
            .ok_or_else(|| Failure::new(format!("the build made no {name}")))
    }
}
