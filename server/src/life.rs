//! The life of the process: start in order, serve, drain on a signal, end with a reason.
//!
//! ```text
//! configuration → log lines → addresses → node (lock, probe, log, local store) → gRPC → role "active" → ready
//! waiting for a lease that another process holds → "standby"; each time it serves → "ready"; stepped down → "standby"
//! signal → drain → commit → release → last answers → exit 0
//! a stop for any other reason → last answers → exit 1, the reason on the last line of stderr (D-32, HA-34)
//! ```

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dexzd_core::node::Role;
use dexzd_core::snapshot::Cadence;
use dexzd_core::stop::StopReason;
use dexzd_io_tokio::local;
use dexzd_io_tokio::runtime::{self, NodeConfig, NodeHandle, Stopped};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::announce::{Addresses, Announcer};
use crate::auth;
use crate::cli::{CommandLine, NodeArguments};
use crate::config::{Config, ListenAddress, Profile};
use crate::connections::{self, Closing};
use crate::grpc::{self, Probes};
use crate::logging::Log;
use crate::page::page_of;
use crate::refusal::Refusal;
use crate::shell::Shell;
use crate::storage;
use crate::telemetry::{self, Metrics, Telemetry};
use crate::tls;

/// After the node has ended, the last answers get so long to reach their clients.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// A second signal ends the process at once, with this status.
const EXIT_FORCED: u8 = 1;
/// Signals that follow one another faster are one: a shell's `timeout`, a terminal and a supervisor send
/// theirs to the group and to the process.
const ONE_SIGNAL: Duration = Duration::from_millis(500);

/// Runs the process that the command line asks for; the result is its exit status.
#[must_use]
pub fn run(line: CommandLine) -> u8 {
    let Some(command) = line.into_command() else {
        return refuse(None, &no_command());
    };
    let (profile, arguments) = command.into_parts();
    match run_node(profile, &arguments) {
        Ok(code) => code,
        Err((log, refusal)) => refuse(log.as_ref(), &refusal),
    }
}

fn no_command() -> Refusal {
    Refusal::usage(
        "say what to run: `dex-server-zd dev` for development, `dex-server-zd local` for one lasting node, \
         `dex-server-zd serve --config FILE` for a node on an object store; --help tells more",
    )
}

/// The last line on stderr of a process that did not start.
fn refuse(log: Option<&Log>, refusal: &Refusal) -> u8 {
    last_line(log, &format!("refused to start: {refusal}"));
    refusal.exit
}

fn last_line(log: Option<&Log>, text: &str) {
    if let Some(log) = log {
        log.close();
    }
    // Nobody can be told that stderr is gone.
    let _ = writeln!(std::io::stderr(), "dex-server-zd {text}");
}

fn run_node(profile: Profile, arguments: &NodeArguments) -> Result<u8, (Option<Log>, Refusal)> {
    let config = Config::load(profile, arguments.config.as_deref(), arguments.overrides())
        .map_err(|error| (None, error.into()))?;
    let machine = |action: &'static str| move |error: std::io::Error| Refusal::machine(action, &error);
    let log = Log::start(arguments.log_format)
        .map_err(machine("starting a thread"))
        .map_err(|error| (None, error))?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("dexzd-grpc")
        .enable_all()
        .build()
        .map_err(machine("starting threads"))
        .map_err(|error| (Some(log.clone()), error))?;
    let end = runtime.block_on(live(config, log.clone()));
    // What still runs there has nobody left to answer to.
    runtime.shutdown_background();
    let end = end.map_err(|refusal| (Some(log.clone()), refusal))?;
    last_line(Some(&log), &end.to_string());
    Ok(end.code())
}

/// How a process that had started ended.
enum End {
    Stopped(Stopped),
    /// A second signal came while the first one was being obeyed.
    Forced,
}

impl End {
    const fn code(&self) -> u8 {
        match self {
            Self::Stopped(stopped) => stopped.code,
            Self::Forced => EXIT_FORCED,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Stopped(Stopped { reason, detail, .. }) = self else {
            return formatter
                .write_str("stopped: forced: a second signal ended it before its drain was over");
        };
        write!(formatter, "stopped: {}: {reason}", reason.label())?;
        if *reason == StopReason::Shutdown {
            return Ok(());
        }
        if let Some(detail) = detail {
            write!(formatter, ": {detail}")?;
        }
        write!(formatter, "; see {}", page_of(reason.label()))
    }
}

async fn live(config: Config, log: Log) -> Result<End, Refusal> {
    let mut signals = Signals::catch().map_err(|error| Refusal::machine("catching signals", &error))?;
    let api = listen("api.listen", &config.api_listen).await?;
    let metrics_page = listen_for_metrics(&config).await?;
    let addresses = Addresses { api: local_address(&api)?, metrics: local_address(&metrics_page)? };
    let authenticator = auth::start(config.authentication.as_ref())?;
    let tls = tls::start(config.tls.as_ref())?;
    let node_config = node_config(&config)?;

    let metrics = Arc::new(Metrics::new(log));
    tokio::spawn(telemetry::serve(metrics_page, Arc::clone(&metrics)));
    let (connections, calls) = (metrics.connections(), metrics.calls());
    let hints = Hints { waits: Arc::default(), probes: Probes::default() };
    let events = Arc::new(Telemetry { metrics: Arc::clone(&metrics), waits: Arc::clone(&hints.waits) });
    let node = tokio::task::spawn_blocking(move || runtime::start(node_config, events))
        .await
        .expect("the start does not panic")?;

    let gauges = node.clone();
    metrics.set_standby_source(Box::new(move || gauges.standby_gauges()));
    let shell = Arc::new(Shell::new(node.clone(), config.node_id.as_str().to_owned()));
    let closing = Closing::new();
    let routes = grpc::routes(&shell, &calls, &hints.probes).expect("the descriptors are compiled in");
    let server = connections::Server {
        routes: auth::guard(routes, authenticator),
        backend: shell,
        secure: tls,
        closing: closing.clone(),
        metrics: connections,
        seed: dexzd_io_tokio::entropy(),
    };
    let mut serving = tokio::spawn(connections::serve(api, server));

    let end = attend(&node, &mut signals, &config, &addresses, &hints).await;
    closing.close();
    // Open calls were answered by the end of the engine; a connection that stays open is not waited for.
    let _ = tokio::time::timeout(LAST_ANSWERS, &mut serving).await;
    Ok(end)
}

/// Follows the role and the signals until the node has ended.
async fn attend(
    node: &NodeHandle,
    signals: &mut Signals,
    config: &Config,
    addresses: &Addresses,
    hints: &Hints,
) -> End {
    let mut views = node.view();
    let mut announcer = Announcer::new(config, addresses);
    let mut told_to_stop: Option<tokio::time::Instant> = None;
    let stopped = node.stopped();
    tokio::pin!(stopped);
    loop {
        let (role, period) = {
            let view = views.borrow_and_update();
            (view.role, view.period.number)
        };
        announcer.role(role, period);
        tokio::select! {
            biased;
            stopped = &mut stopped => return End::Stopped(stopped),
            () = signals.next() => {
                match told_to_stop {
                    Some(first) if first.elapsed() > ONE_SIGNAL => return End::Forced,
                    Some(_) => continue,
                    None => told_to_stop = Some(tokio::time::Instant::now()),
                }
                tell_signal(role, config, &hints.probes);
                node.shutdown();
            }
            () = hints.waits.notified() => announcer.waits(role, period),
            changed = views.changed() => {
                if changed.is_err() {
                    return End::Stopped(stopped.await);
                }
            }
        }
    }
}

/// What reaches the life of the process from elsewhere, for people.
struct Hints {
    /// The node waits for a lease that is not free.
    waits: Arc<Notify>,
    /// Who asked for health.
    probes: Probes,
}

fn tell_signal(role: Role, config: &Config, probes: &Probes) {
    if role.is_serving() {
        tracing::info!(
            drain_at_most = ?config.attempt_drain_timeout,
            "signal: draining; a second signal ends the process at once"
        );
        return;
    }
    tracing::info!("signal: ending; this process does not serve");
    if probes.refused_kubernetes() {
        tracing::warn!(
            "Kubernetes asked for health while this process stood by, and was told NOT_SERVING. If it was the kubelet \
             that ends this process now, its livenessProbe or startupProbe is of type grpc: a standby never passes \
             one. Make both tcpSocket, and keep grpc for the readinessProbe (HA-67, HA-76)"
        );
    }
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, Refusal> {
    listener.local_addr().map_err(|error| Refusal::machine("asking for a listener's address", &error))
}

async fn listen(key: &str, address: &ListenAddress) -> Result<TcpListener, Refusal> {
    TcpListener::bind((address.host(), address.port()))
        .await
        .map_err(|error| Refusal::address(key, address, &error))
}

/// A default address of `dev` gives way to another port, so that two development servers run side by
/// side; an address that was asked for, or that a monitor expects, does not.
async fn listen_for_metrics(config: &Config) -> Result<TcpListener, Refusal> {
    let address = &config.metrics_listen;
    match listen("metrics.listen", address).await {
        Err(refusal) if config.profile == Profile::Dev && !config.metrics_listen_given => {
            let listener = listen("metrics.listen", &address.with_any_port()).await.map_err(|_| refusal)?;
            tracing::warn!(
                wanted = %address,
                taken = %local_address(&listener)?,
                "the default address for metrics is in use: another port is taken; metrics.listen chooses one"
            );
            Ok(listener)
        }
        result => result,
    }
}

fn node_config(config: &Config) -> Result<NodeConfig, Refusal> {
    Ok(NodeConfig {
        node_id: config.node_id.as_str().to_owned(),
        data_dir: config.data_dir.clone(),
        lease_duration: config.lease_duration,
        fail_if_held: config.lease_fail_if_held,
        standby: config.standby.to_core(),
        snapshot_cadence: Cadence::STANDARD,
        attempt_drain_timeout: config.attempt_drain_timeout,
        storage: storage::open(&config.storage)?,
        local_store: local::default_kind(),
    })
}

/// SIGTERM and SIGINT, which mean the same (D-29).
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
