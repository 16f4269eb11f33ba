//! `dev`: a server on this machine, for as long as this command runs.

use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use dexzd_proto::HealthRequest;
use dexzd_proto::flow_service_client::FlowServiceClient;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::{Child, Command};
use tonic::transport::Endpoint;

use super::interrupt::interrupted;
use crate::args::{Arguments, DevArguments};
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::render;

const OPERATION: &str = "dev";

/// The server's port unless another is given.
const FIRST_PORT: u16 = 8801;

/// How many ports are tried: more dev servers than this on one machine are an accident.
const PORTS_TRIED: u16 = 100;

/// How often a starting server is asked whether it serves.
const READINESS_INTERVAL: Duration = Duration::from_millis(50);

/// A call that takes longer than this is asked anew.
const READINESS_CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server may take to serve: replaying a large log is slow on a small machine. `--timeout`
/// overrides it.
const READINESS_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) async fn run(arguments: &Arguments, dev: &DevArguments, output: &Output) -> Result<(), Failure> {
    let plan = Plan::make(dev)?;
    let mut server = plan.start(dev)?;
    let spinner = output.spinner(format!("dex-server-zd starts on {}", plan.address));
    let limit = arguments.timeout.unwrap_or(READINESS_TIMEOUT);
    let outcome = tokio::select! {
        biased;
        status = server.wait() => Outcome::Ended(status),
        () = interrupted() => Outcome::Interrupted,
        () = serving(&plan.address) => Outcome::Serves,
        () = elapsed(limit) => Outcome::TooSlow,
    };
    spinner.finish_and_clear();
    match outcome {
        Outcome::Ended(status) => return Err(plan.ended(status)),
        Outcome::Interrupted => return stop(&mut server, output).await,
        Outcome::TooSlow => {
            stop(&mut server, output).await?;
            let message = format!("the server did not serve within {limit:?}");
            return Err(Failure::new(Kind::Timeout, OPERATION, message).with_hint(plan.log_hint()));
        }
        Outcome::Serves => {}
    }
    let ready = json!({
        "server": plan.address,
        "dataDir": plan.data_dir.display().to_string(),
        "serverLog": plan.log_file.display().to_string(),
        "processId": server.id(),
    });
    output.result(&ready, render::fields_table);
    output.remark("\nthe server is ready; Ctrl+C stops it, and the next `dexcli dev` goes on with its Flows");
    tokio::select! {
        biased;
        status = server.wait() => Err(plan.ended(status)),
        () = interrupted() => stop(&mut server, output).await,
    }
}

enum Outcome {
    Ended(std::io::Result<ExitStatus>),
    Interrupted,
    Serves,
    TooSlow,
}

/// Where everything goes.
struct Plan {
    program: PathBuf,
    address: String,
    data_dir: PathBuf,
    log_file: PathBuf,
}

impl Plan {
    fn make(dev: &DevArguments) -> Result<Self, Failure> {
        let program = server_program()?;
        let ip: IpAddr = dev.bind_address.parse().map_err(|_| {
            let message = format!("--bind-address: {:?} is not an IP address", dev.bind_address);
            Failure::new(Kind::Usage, OPERATION, message)
                .with_hint("127.0.0.1 is for this machine only, 0.0.0.0 for everybody who can reach it.")
        })?;
        let port = match dev.dex_port {
            Some(port) => port,
            None => next_free_port(ip)?,
        };
        let state = match &dev.data_dir {
            Some(folder) => folder.clone(),
            None => home()?.join(".dex").join("zd").join(port.to_string()),
        };
        let log_folder = dev.server_log_folder.clone().unwrap_or_else(|| state.clone());
        for folder in [&state, &log_folder] {
            std::fs::create_dir_all(folder).map_err(|error| {
                let message = format!("cannot create {}: {error}", folder.display());
                Failure::new(Kind::Io, OPERATION, message)
            })?;
        }
        Ok(Self {
            program,
            address: std::net::SocketAddr::new(ip, port).to_string(),
            data_dir: if dev.data_dir.is_some() { state } else { state.join("data") },
            log_file: log_folder.join("dex-server-zd.log"),
        })
    }

    fn start(&self, dev: &DevArguments) -> Result<Child, Failure> {
        let io_failure = |what: &Path, error: std::io::Error| {
            Failure::new(Kind::Io, OPERATION, format!("{}: {error}", what.display()))
        };
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log_file)
            .map_err(|error| io_failure(&self.log_file, error))?;
        let log_again = log.try_clone().map_err(|error| io_failure(&self.log_file, error))?;
        let mut command = Command::new(&self.program);
        command.arg("dev").arg("--listen").arg(&self.address);
        command.arg("--data-dir").arg(&self.data_dir);
        if let Some(durability) = dev.durability {
            command.arg("--durability").arg(durability.server_flag());
        }
        if let Some(config) = &dev.zd_config {
            command.arg("--config").arg(config);
        }
        command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again)
            // A group of its own: Ctrl+C reaches this process only, which then stops the server in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| io_failure(&self.program, error))
    }

    fn ended(&self, status: std::io::Result<ExitStatus>) -> Failure {
        let how = match status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let last_line = std::fs::read_to_string(&self.log_file)
            .ok()
            .and_then(|text| text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned));
        let message = match last_line {
            Some(line) => format!("the server ended ({how}); its last words: {line}"),
            None => format!("the server ended ({how})"),
        };
        Failure::new(Kind::Io, OPERATION, message).with_hint(self.log_hint())
    }

    fn log_hint(&self) -> String {
        format!("The server's log is {}", self.log_file.display())
    }
}

/// `dex-server-zd` beside this program; else wherever PATH finds it.
fn server_program() -> Result<PathBuf, Failure> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|program| program.parent().map(|folder| folder.join("dex-server-zd")));
    if let Some(beside) = beside.filter(|program| program.is_file()) {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("dex-server-zd"))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            Failure::new(Kind::Io, OPERATION, "dex-server-zd is neither beside dexcli nor in PATH".to_owned())
                .with_hint("In a clone of the project, `cargo build` makes both.")
        })
}

fn home() -> Result<PathBuf, Failure> {
    std::env::var_os("HOME").map(PathBuf::from).ok_or_else(|| {
        Failure::new(Kind::Io, OPERATION, "HOME is not set".to_owned())
            .with_hint("--data-dir names the folder for all Flows.")
    })
}

fn next_free_port(ip: IpAddr) -> Result<u16, Failure> {
    (FIRST_PORT..FIRST_PORT + PORTS_TRIED).find(|port| TcpListener::bind((ip, *port)).is_ok()).ok_or_else(
        || {
            let message =
                format!("no free port from {FIRST_PORT} to {} at {ip}", FIRST_PORT + PORTS_TRIED - 1);
            Failure::new(Kind::Io, OPERATION, message)
                .with_hint("--dex-port chooses one, --bind-address the address.")
        },
    )
}

async fn serving(address: &str) {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .expect("an IP address and a port make a URI")
        .connect_timeout(READINESS_CALL_TIMEOUT)
        .timeout(READINESS_CALL_TIMEOUT);
    let mut client = FlowServiceClient::new(endpoint.connect_lazy());
    loop {
        if let Ok(answer) = client.health(HealthRequest {}).await
            && answer.into_inner().serving
        {
            return;
        }
        tokio::time::sleep(READINESS_INTERVAL).await;
    }
}

async fn elapsed(limit: Duration) {
    if limit.is_zero() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(limit).await;
}

/// Lets the server drain its running attempts; a second Ctrl+C does not wait for them.
async fn stop(server: &mut Child, output: &Output) -> Result<(), Failure> {
    output.remark("stopping: running attempts may finish; Ctrl+C again kills the server");
    if let Some(pid) = server.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It may have ended by itself meanwhile.
        let _ = kill_process(pid, Signal::TERM);
    }
    let ended = tokio::select! {
        biased;
        status = server.wait() => status,
        () = interrupted() => {
            let _ = server.start_kill();
            server.wait().await
        }
    };
    ended
        .map(drop)
        .map_err(|error| Failure::new(Kind::Io, OPERATION, format!("cannot wait for the server: {error}")))
}
