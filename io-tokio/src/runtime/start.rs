//! Putting a node together, and taking it apart at its end.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use dexzd_core::ids::{Name, Position, ProcessId};
use dexzd_core::lease::CandidateConfig;
use dexzd_core::node::{Input as NodeInput, Node, NodeConfig as CoreNodeConfig, Role};
use dexzd_core::stop::StopReason;
use tokio::sync::watch;

use super::apply::Applier;
use super::config::{NodeConfig, StartError};
use super::control::ControlPlane;
use super::data::{DataPlane, DataSettings, Phase};
use super::data_exits::Exits;
use super::event::{EventSink, ShellEvent};
use super::handle::{HandleShared, NodeHandle, Stopped};
use super::local_opener::LocalOpener;
use super::log_thread::LogThread;
use super::messages::{
    ApplyMessage, ApplySender, ControlSender, DataMessage, DataSender, LogMessage, LogSender, Sender, channel,
};
use super::recorder::FailureRecorder;
use super::upkeep::{Upkeep, UpkeepMessage};
use super::watchdog::{self, Watchdog};
use crate::clock::{Clock, entropy, entropy_u128};
use crate::devlock::{DevLock, LockError, LockOutcome};
use crate::durability::CleanRun;
use crate::gate::Gate;
use crate::local::{LocalStore, open_local_store};
use crate::log::{Disk, LogStore, ObjectLog, RealDisk, SegmentLog};
use crate::store::{FolderStore, ObjectStore, probe};

/// The folder of the data directory that holds the object store: lease, probe, and the log's objects.
const STORE_FOLDER: &str = "store";
/// The folder of the data directory that holds the log in segment files.
const LOG_FOLDER: &str = "log";
/// The folder of the data directory that holds the local store.
const LOCAL_FOLDER: &str = "local";
/// A thread that has not ended after this hangs in the operating system; the process ends without it.
const JOIN_LIMIT: Duration = Duration::from_secs(10);

/// Starts a node. It returns once everything that can be refused was looked at; the lease is taken after
/// that, and [`NodeHandle::role`] tells when it serves.
///
/// # Errors
///
/// See [`StartError`]: the data directory is in use, unclean, another node's, of a newer format or
/// damaged; the object store is unfit; the operating system refuses.
pub fn start(config: NodeConfig, events: Arc<dyn EventSink>) -> Result<NodeHandle, StartError> {
    start_on(config, events, Devices::default())
}

/// What a node runs on: a seam at which tests break things.
pub(super) struct Devices {
    pub(super) disk: Arc<dyn Disk>,
    /// Put around the object store.
    pub(super) store: Wrap<dyn ObjectStore>,
    /// Put around the local store.
    pub(super) local: Wrap<dyn LocalStore>,
    /// How the data directory is locked.
    pub(super) lock: fn(&Path) -> Result<LockOutcome, LockError>,
    /// What the watchdog does.
    pub(super) exit: fn(),
}

pub(super) type Wrap<T> = Box<dyn Fn(Arc<T>) -> Arc<T> + Send>;

impl Default for Devices {
    fn default() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            store: Box::new(|store| store),
            local: Box::new(|local| local),
            lock: DevLock::acquire,
            exit: watchdog::exit_now,
        }
    }
}

pub(super) fn start_on(
    config: NodeConfig,
    events: Arc<dyn EventSink>,
    devices: Devices,
) -> Result<NodeHandle, StartError> {
    let events = Arc::new(FailureRecorder::new(events));
    let process_id = ProcessId(entropy_u128());
    let lock = lock((devices.lock)(&config.data_dir)?, &*events);
    CleanRun::check(&config.data_dir)?;
    let store_folder = config.data_dir.join(STORE_FOLDER);
    let store = FolderStore::open(&store_folder, config.durability.syncs())
        .map_err(|source| io_error("cannot open", &store_folder, source))?;
    let store = (devices.store)(Arc::new(store));
    let probe_stamp_ms = probe(&*store, &config.node_id, process_id)?;
    let log = open_log(&config, lock.as_ref(), &store, devices.disk)?;
    let local_folder = config.data_dir.join(LOCAL_FOLDER);
    // Without the lock another process may have it open: then it waits for the lease.
    let opened = lock
        .is_some()
        .then(|| open_local_store(config.local_store, &local_folder, &config.node_id))
        .transpose()?;
    let opener = LocalOpener {
        kind: config.local_store,
        folder: local_folder,
        node_id: config.node_id.clone(),
        opened,
        wrap: devices.local,
    };

    let clock = Arc::new(Clock::new());
    let watchdog = Watchdog::start(Arc::clone(&clock), devices.exit)
        .map_err(|source| io_error("cannot start a thread for", &config.data_dir, source))?;
    let (control_sender, control_inbox) = channel();
    let (data_sender, data_inbox) = channel();
    let (log_sender, log_inbox) = channel();
    let (apply_sender, apply_inbox) = channel();
    let (upkeep_sender, upkeep_inbox) = channel();
    let (role_sender, role) = watch::channel(Role::Waiting);
    let (gate_sender, gate) = watch::channel(Gate::new(Arc::clone(&clock), |_| {}));
    let (stopped_sender, stopped) = watch::channel(None);
    let durable = Arc::new(AtomicU64::new(0));
    let applied = Arc::new(AtomicU64::new(0));
    let sink: Arc<dyn EventSink> = Arc::clone(&events) as Arc<dyn EventSink>;

    let log_thread = LogThread {
        inbox: log_inbox,
        data: data_sender.clone(),
        control: control_sender.clone(),
        log,
        opener,
        local: None,
        node_id: config.node_id.clone(),
        clock: Arc::clone(&clock),
        events: Arc::clone(&sink),
    };
    let applier = Applier {
        synced: config.durability.syncs(),
        inbox: apply_inbox,
        control: control_sender.clone(),
        upkeep: upkeep_sender.clone(),
        applied: Arc::clone(&applied),
        events: Arc::clone(&sink),
    };
    let upkeep = Upkeep {
        inbox: upkeep_inbox,
        control: control_sender.clone(),
        log: log_sender.clone(),
        clock: Arc::clone(&clock),
        events: Arc::clone(&sink),
    };
    let data_plane = DataPlane {
        inbox: data_inbox,
        control: control_sender.clone(),
        log: log_sender.clone(),
        apply: apply_sender.clone(),
        upkeep: upkeep_sender.clone(),
        alive_due: clock.now().instant,
        clock: Arc::clone(&clock),
        events: Arc::clone(&sink),
        durable: Arc::clone(&durable),
        applied,
        applied_told: 0,
        settings: DataSettings { node_id: config.node_id.clone(), synced: config.durability.syncs() },
        exits: Exits::default(),
        phase: Phase::Idle,
    };
    let control_plane = ControlPlane {
        node: Node::new(CoreNodeConfig {
            node_id: Name::new(&config.node_id),
            process_id,
            lease_duration: config.lease_duration,
            candidate: CandidateConfig {
                fail_if_held: config.fail_if_held,
                lock_held: lock.is_some(),
                // D-2 (b) is not for a folder store, which gives no stamp.
                probe_stamp_ms,
            },
            standby: config.standby,
            attempt_drain_timeout: config.attempt_drain_timeout,
            seed: entropy(),
        }),
        inbox: control_inbox,
        own: control_sender.clone(),
        data: data_sender.clone(),
        log: log_sender.clone(),
        store,
        lease_key: format!("{}/lease", config.node_id).into(),
        clock,
        watchdog,
        events: sink,
        role: role_sender,
        gate: gate_sender,
        durable,
        durable_told: Position(0).0,
    };

    // Last of all: a start that was refused leaves no mark.
    let clean = CleanRun::begin(&config.data_dir, config.durability)?;
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
            role,
            gate,
            stopped,
            next_call: AtomicU64::new(1),
            open_calls: AtomicUsize::new(0),
            next_stream: AtomicU64::new(1),
        }),
    })
}

/// Segment files where the lock makes this process the only writer, else one object per entry.
fn open_log(
    config: &NodeConfig,
    lock: Option<&Arc<DevLock>>,
    store: &Arc<dyn ObjectStore>,
    disk: Arc<dyn Disk>,
) -> Result<Box<dyn LogStore>, StartError> {
    let Some(lock) = lock else {
        return Ok(Box::new(ObjectLog::new(Arc::clone(store), &config.node_id)));
    };
    let lock = Arc::clone(lock);
    let log = SegmentLog::open(
        &config.data_dir.join(LOG_FOLDER),
        config.durability,
        disk,
        Box::new(move || lock.still_locked()),
    )?;
    Ok(Box::new(log))
}

fn lock(outcome: LockOutcome, events: &dyn EventSink) -> Option<Arc<DevLock>> {
    match outcome {
        LockOutcome::Held(lock) => Some(Arc::new(lock)),
        LockOutcome::NotSupported { reason } => {
            events.shell(&ShellEvent::LockNotSupported { reason });
            None
        }
    }
}

fn io_error(action: &'static str, path: &Path, source: std::io::Error) -> StartError {
    StartError::Io { action, path: path.to_path_buf(), source }
}

/// Starts a thread; the receiver gets what it returned, once. A panic stops the node: without this
/// thread the others would wait for ever.
fn spawn<T: Send + 'static>(
    name: &'static str,
    guard: &PanicGuard,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Receiver<T>> {
    let (ended, end) = mpsc::channel();
    let guard = guard.clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(result) => {
                let _ = ended.send(result);
            }
            Err(panic) => {
                guard.events.shell(&ShellEvent::Failure { detail: panic_text(name, &*panic) });
                guard.control.send(NodeInput::Failed(StopReason::Internal));
            }
        }
    })?;
    Ok(end)
}

#[derive(Clone)]
struct PanicGuard {
    control: ControlSender,
    events: Arc<dyn EventSink>,
}

/// What a panic says, for people.
pub(super) fn panic_text(thread: &str, panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("{thread} panicked: {}", text.as_deref().unwrap_or("no message"))
}

/// Everything that ends after `node` said so, in order.
struct Teardown {
    data: (DataSender, Receiver<()>),
    apply: (ApplySender, Receiver<()>),
    upkeep: (Sender<UpkeepMessage>, Receiver<bool>),
    log: (LogSender, Receiver<()>),
    clean: CleanRun,
    lock: Option<Arc<DevLock>>,
    events: Arc<FailureRecorder>,
}

impl Teardown {
    /// Ends all threads, from the one that gives work to those that do it. An end in order leaves
    /// everything on the disk; any other end leaves what is there.
    fn run(self, code: u8, reason: StopReason) -> Stopped {
        let in_order = code == 0;
        self.data.0.send(DataMessage::Stop);
        let mut ended = self.data.1.recv_timeout(JOIN_LIMIT).is_ok();
        self.apply.0.send(ApplyMessage::Stop);
        ended &= self.apply.1.recv_timeout(JOIN_LIMIT).is_ok();
        self.upkeep.0.send(UpkeepMessage::Stop { in_order });
        // A last flush of a large local store takes its time.
        let flushed = if in_order {
            self.upkeep.1.recv().unwrap_or(false)
        } else {
            self.upkeep.1.recv_timeout(JOIN_LIMIT).unwrap_or(false)
        };
        self.log.0.send(LogMessage::Stop);
        ended &= self.log.1.recv_timeout(JOIN_LIMIT).is_ok();
        let mut stopped = Stopped { code, reason, detail: self.events.first_failure() };
        if in_order {
            let cleaned = self.clean.finish();
            if !(ended && flushed && cleaned.is_ok()) {
                stopped.code = 1;
                stopped.reason = StopReason::LocalStoreFailed;
            }
        }
        drop(self.lock);
        stopped
    }
}
