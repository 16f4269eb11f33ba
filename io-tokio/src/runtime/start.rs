//! Putting a node together.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use dexzd_core::ids::{Name, ProcessId};
use dexzd_core::lease::CandidateConfig;
use dexzd_core::log::LogEnd;
use dexzd_core::node::{Node, NodeConfig as CoreNodeConfig, Period};
use tokio::sync::watch;

use super::admin::AdminDesk;
use super::apply::Applier;
use super::config::{NodeConfig, StartError, Storage};
use super::control::ControlPlane;
use super::crew::Crew;
use super::data::{DataPlane, DataSettings, Phase};
use super::data_exits::Exits;
use super::data_local::Local;
use super::devices::Devices;
use super::event::EventSink;
use super::handle::{HandleShared, NodeHandle};
use super::log_thread::{LogThread, LogWorker};
use super::messages::{Asker, channel};
use super::place::Place;
use super::recorder::FailureRecorder;
use super::teardown::Teardown;
use super::threads::{PanicGuard, spawn};
use super::upkeep::Upkeep;
use super::view::NodeView;
use super::watchdog::Watchdog;
use crate::clock::{Clock, entropy, entropy_u128};
use crate::durability::CleanRun;
use crate::gate::Gate;

/// Starts a node. It returns once everything that can be refused was looked at; the lease is taken after
/// that, and [`NodeHandle::view`] tells when it serves.
///
/// # Errors
///
/// See [`StartError`]: the data directory is in use, unclean, another node's, of a newer format or
/// damaged; the object store is unfit; the operating system refuses.
pub fn start(config: NodeConfig, events: Arc<dyn EventSink>) -> Result<NodeHandle, StartError> {
    start_on(config, events, Devices::default())
}

pub(super) fn start_on(
    config: NodeConfig,
    events: Arc<dyn EventSink>,
    devices: Devices,
) -> Result<NodeHandle, StartError> {
    let events = Arc::new(FailureRecorder::new(events));
    let process_id = ProcessId(entropy_u128());
    let exit = devices.exit;
    let clock = Arc::new(Clock::new());
    let sink: Arc<dyn EventSink> = Arc::clone(&events) as Arc<dyn EventSink>;
    let Place { lease, log, snapshots, opener, probe_stamp_ms, lock, lease_locked } =
        Place::open(&config, process_id, devices, &clock, &sink)?;
    let durability = config.storage.durability();
    let is_shared = matches!(config.storage, Storage::Shared(_));

    let watchdog = Watchdog::start(Arc::clone(&clock), exit)
        .map_err(|source| io_error("cannot start a thread for", &config.data_dir, source))?;
    let (control_sender, control_inbox) = channel();
    let (data_sender, data_inbox) = channel();
    let (log_sender, log_inbox) = channel();
    let (apply_sender, apply_inbox) = channel();
    let (upkeep_sender, upkeep_inbox) = channel();
    let gate = Gate::new(Arc::clone(&clock), |_| {});
    let admin = Arc::new(AdminDesk::default());
    let (stopped_sender, stopped) = watch::channel(None);

    let log_thread = LogThread {
        inbox: log_inbox,
        worker: LogWorker {
            data: data_sender.clone(),
            control: control_sender.clone(),
            log,
            snapshots,
            node_id: config.node_id.clone(),
            clock: Arc::clone(&clock),
            events: Arc::clone(&sink),
        },
        crew: Crew::new("dexzd-log-io"),
    };
    let applier = Applier {
        inbox: apply_inbox,
        data: data_sender.clone(),
        opener,
        synced: durability.syncs(),
        control: control_sender.clone(),
        upkeep: upkeep_sender.clone(),
        events: Arc::clone(&sink),
    };
    let upkeep = Upkeep {
        inbox: upkeep_inbox,
        control: control_sender.clone(),
        log: log_sender.clone(),
        trims: !is_shared,
        clock: Arc::clone(&clock),
        events: Arc::clone(&sink),
    };
    let data_plane = DataPlane {
        inbox: data_inbox,
        control: control_sender.clone(),
        log: log_sender.clone(),
        apply: apply_sender.clone(),
        clock: Arc::clone(&clock),
        events: Arc::clone(&sink),
        settings: DataSettings {
            node_id: config.node_id.clone(),
            standby: config.standby,
            synced: durability.syncs(),
            has_snapshots: is_shared,
        },
        phase: Phase::Idle,
        asker: Asker::default(),
        local: Local::new(),
        granted: LogEnd::default(),
        exits: Exits::default(),
        period: Period::default(),
        durable: Arc::default(),
        applied: Arc::default(),
        applied_told: 0,
        alive_due: clock.now().instant,
    };
    let node = core_node(&config, process_id, lease_locked, probe_stamp_ms);
    let standing = node.standing();
    let (view_sender, view) = watch::channel(NodeView {
        role: node.role(),
        epoch: node.epoch(),
        period: node.period(),
        standing,
        is_hot: false,
        gate: gate.clone(),
    });
    let control_plane = ControlPlane {
        node,
        inbox: control_inbox,
        own: control_sender.clone(),
        data: data_sender.clone(),
        log: log_sender.clone(),
        apply: apply_sender.clone(),
        is_shared,
        store: lease,
        lease_key: format!("{}/lease", config.node_id).into(),
        clock: Arc::clone(&clock),
        watchdog,
        events: sink,
        view: view_sender,
        gate,
        admin: Arc::clone(&admin),
        durable: Arc::default(),
        durable_told: 0,
    };

    // Last of all: a start that was refused leaves no mark.
    let clean = CleanRun::begin(&config.data_dir, durability)?;
    let guard =
        PanicGuard { control: control_sender.clone(), events: Arc::clone(&events) as Arc<dyn EventSink> };
    let failed = |source| io_error("cannot start a thread for", &config.data_dir, source);
    let teardown = Teardown {
        log: (log_sender, spawn("dexzd-log", &guard, move || log_thread.run()).map_err(failed)?),
        apply: (apply_sender, spawn("dexzd-apply", &guard, move || applier.run()).map_err(failed)?),
        upkeep: (upkeep_sender, spawn("dexzd-upkeep", &guard, move || upkeep.run()).map_err(failed)?),
        data: (data_sender.clone(), spawn("dexzd-data", &guard, move || data_plane.run()).map_err(failed)?),
        clean,
        lock,
        events,
    };
    spawn("dexzd-control", &guard, move || {
        let (code, reason) = control_plane.run();
        stopped_sender.send_replace(Some(teardown.run(code, reason)));
    })
    .map_err(failed)?;

    Ok(NodeHandle {
        shared: Arc::new(HandleShared {
            data: data_sender,
            control: control_sender,
            view,
            admin,
            clock,
            process_id,
            stopped,
            next_call: AtomicU64::new(1),
            open_calls: AtomicUsize::new(0),
            next_stream: AtomicU64::new(1),
        }),
    })
}

/// The control plane's own machine. The lock proves that a held lease is a dead process's (HA-6); the stamp is the
/// store's clock for D-2 (b).
fn core_node(
    config: &NodeConfig,
    process_id: ProcessId,
    lock_held: bool,
    probe_stamp_ms: Option<u64>,
) -> Node {
    Node::new(CoreNodeConfig {
        node_id: Name::new(&config.node_id),
        process_id,
        lease_duration: config.lease_duration,
        candidate: CandidateConfig { fail_if_held: config.fail_if_held, lock_held, probe_stamp_ms },
        standby: config.standby,
        attempt_drain_timeout: config.attempt_drain_timeout,
        seed: entropy(),
    })
}

fn io_error(action: &'static str, path: &Path, source: std::io::Error) -> StartError {
    StartError::Io { action, path: path.to_path_buf(), source }
}
