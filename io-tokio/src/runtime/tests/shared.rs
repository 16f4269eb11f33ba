//! Processes of one node on a shared object store: takeover, step down, and many tenures in one process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dexzd_core::ids::Epoch;
use dexzd_core::node::{
    ActiveProcess, AdminAnswer, AdminCode, AdminError, AdminReason, AdminRequest, StepDownOutcome,
};
use dexzd_core::standby::{FollowerState, StandbyMode, StandbyTimes};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use tempfile::TempDir;

use super::*;
use crate::store::{DeleteOutcome, InMemoryObjectStore, ListOutcome, ObjectStore, SizedListOutcome};

const LEASE: u64 = 3_000;

/// Processes that share a store, each with a volume of its own.
pub(super) struct Cluster {
    pub(super) store: Arc<dyn ObjectStore>,
    volumes: Vec<TempDir>,
}

impl Cluster {
    pub(super) fn new() -> Self {
        Self { store: Arc::new(InMemoryObjectStore::new()), volumes: Vec::new() }
    }

    /// The settings of one more process.
    pub(super) fn config(&mut self, mode: StandbyMode) -> NodeConfig {
        let volume = tempfile::tempdir().expect("a folder");
        let config = self.config_in(volume.path(), mode);
        self.volumes.push(volume);
        config
    }

    fn config_in(&self, volume: &Path, mode: StandbyMode) -> NodeConfig {
        let times = StandbyTimes {
            held_lease_poll_interval: Duration::from_millis(50),
            step_down_hold_off: Duration::from_millis(500),
            lagging_takeover_delay: Duration::from_millis(300),
            ..StandbyTimes::default()
        };
        let connection = || Arc::clone(&self.store);
        NodeConfig {
            node_id: "orders".to_owned(),
            storage: Storage::Shared(SharedStores {
                lease: connection(),
                log: connection(),
                snapshots: connection(),
            }),
            lease_duration: LeaseDuration::from_millis(LEASE).expect("legal"),
            standby: StandbyConfig::new(mode, times).expect("safe"),
            ..config(volume)
        }
    }

    pub(super) fn start(&mut self, mode: StandbyMode) -> NodeHandle {
        start(self.config(mode), Arc::new(())).expect("started")
    }
}

pub(super) async fn until(node: &NodeHandle, condition: impl Fn(&NodeView) -> bool) -> NodeView {
    let mut view = node.view();
    let seen = view.wait_for(|view| condition(view) || view.role == Role::Stopped).await;
    let seen = seen.expect("the node lives").clone();
    assert!(condition(&seen), "the node stopped: {:?}", node.role());
    seen
}

pub(super) async fn until_hot(node: &NodeHandle) {
    until(node, |view| view.is_hot).await;
}

pub(super) async fn step_down(node: &NodeHandle) -> Result<AdminAnswer, AdminError> {
    let epoch = node.view().borrow().epoch.expect("it serves");
    node.admin(node.period(), AdminRequest::StepDown { node_id: Name::new("orders"), epoch }).await
}

/// A Flow of `before` is there and goes on, and another one is started.
async fn goes_on(node: &NodeHandle, before: &str, next: &str) {
    assert_eq!(status(node, before).await, FlowStatus::Running);
    start_flow(node, next).await;
}

fn epoch_of(node: &NodeHandle) -> u64 {
    node.view().borrow().epoch.expect("it had a tenure").0
}

#[test]
fn ha_042_ha_055_fd_016_a_hot_standby_serves_what_a_terminated_active_left() {
    let mut cluster = Cluster::new();
    run(async {
        let active = cluster.start(StandbyMode::Hot);
        wait_until_active(&active).await;
        start_flow(&active, "flow-1").await;

        let standby = cluster.start(StandbyMode::Hot);
        until_hot(&standby).await;
        let gauges = standby.standby_gauges();
        assert_eq!(gauges.state, Some(FollowerState::Following));
        assert_eq!(active.standby_gauges().state, None);
        assert!(standby.health().is_hot_standby && !standby.health().is_serving);
        assert!(active.health().is_serving && !active.health().is_hot_standby);
        let refused = standby.call(standby.period(), flow_start("flow-2")).await;
        assert_eq!(refused, Err(CallError::Unavailable));
        goes_on(&active, "flow-1", "flow-2").await;

        shut_down(active).await;
        wait_until_active(&standby).await;
        assert_eq!(standby.standby_gauges().state, None);
        goes_on(&standby, "flow-1", "flow-3").await;
        assert_eq!(status(&standby, "flow-2").await, FlowStatus::Running);
        assert!(epoch_of(&standby) > 1);
        shut_down(standby).await;
    });
}

#[test]
fn ha_041_a_cold_standby_serves_what_a_terminated_active_left() {
    let mut cluster = Cluster::new();
    run(async {
        let active = cluster.start(StandbyMode::Cold);
        wait_until_active(&active).await;
        start_flow(&active, "flow-1").await;
        let config = cluster.config(StandbyMode::Cold);
        let replica = config.data_dir.join("replica");
        let standby = start(config, Arc::new(())).expect("started");
        until(&standby, |view| view.role == Role::Waiting).await;
        assert!(!replica.exists(), "its local store is opened once the lease is its own");
        shut_down(active).await;
        wait_until_active(&standby).await;
        goes_on(&standby, "flow-1", "flow-2").await;
        shut_down(standby).await;
    });
}

/// Everything that a process sends to this store is lost.
struct Severable(Arc<dyn ObjectStore>, Arc<AtomicBool>);

impl Severable {
    fn is_cut(&self) -> bool {
        self.1.load(Ordering::SeqCst)
    }
}

impl ObjectStore for Severable {
    fn read(&self, key: &str) -> ReadOutcome {
        if self.is_cut() {
            return ReadOutcome::Transient { retry_after_ms: None };
        }
        self.0.read(key)
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        if self.is_cut() {
            return WriteOutcome::Transient { retry_after_ms: None };
        }
        self.0.create(key, body)
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        if self.is_cut() {
            return WriteOutcome::Transient { retry_after_ms: None };
        }
        self.0.replace(key, body, version)
    }

    fn delete(&self, key: &str) -> DeleteOutcome {
        if self.is_cut() {
            return DeleteOutcome::Transient;
        }
        self.0.delete(key)
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome {
        if self.is_cut() {
            return ListOutcome::Transient;
        }
        self.0.list_after(prefix, after, limit)
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome {
        if self.is_cut() {
            return SizedListOutcome::Transient;
        }
        self.0.list_sized_after(prefix, after, limit)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

#[test]
fn ha_017_ha_027_ha_056_a_hot_standby_serves_after_the_expiry_when_the_active_lost_its_store() {
    let mut cluster = Cluster::new();
    let cut = Arc::new(AtomicBool::new(false));
    run(async {
        let switch = Arc::clone(&cut);
        let devices = Devices {
            store: Box::new(move |store| Arc::new(Severable(store, Arc::clone(&switch)))),
            exit: || {},
            ..Devices::default()
        };
        let config = cluster.config(StandbyMode::Hot);
        let active = start_on(config, Arc::new(()), devices).expect("started");
        wait_until_active(&active).await;
        start_flow(&active, "flow-1").await;
        let standby = cluster.start(StandbyMode::Hot);
        until_hot(&standby).await;

        cut.store(true, Ordering::SeqCst);
        let stopped = active.stopped().await;
        assert_eq!((stopped.code, stopped.reason), (1, StopReason::LeaseExpired));
        assert_eq!(active.call(active.period(), flow_start("late")).await, Err(CallError::Unavailable));
        wait_until_active(&standby).await;
        goes_on(&standby, "flow-1", "flow-2").await;
        let late = standby.call(standby.period(), Call::Describe(target("late"))).await;
        assert_eq!(late, Err(CallError::NotFound));
        shut_down(standby).await;
    });
}

#[test]
fn ha_093_ha_100_ha_101_step_downs_lead_from_one_process_to_the_other_and_back() {
    let mut cluster = Cluster::new();
    run(async {
        let first = cluster.start(StandbyMode::Hot);
        wait_until_active(&first).await;
        start_flow(&first, "flow-1").await;
        let second = cluster.start(StandbyMode::Hot);
        until_hot(&second).await;

        let mut flow = 1;
        let (mut active, mut standby) = (&first, &second);
        for _ in 0..3 {
            let released = epoch_of(active);
            let answer = step_down(active).await.expect("stepped down");
            let AdminAnswer::SteppedDown { released_epoch, hold_off_ms, outcome, .. } = answer else {
                panic!("{answer:?}");
            };
            assert_eq!((released_epoch, hold_off_ms), (Epoch(released), 500));
            let StepDownOutcome::TakenOver { active: Some(ActiveProcess { epoch, holder }) } = outcome else {
                panic!("{outcome:?}");
            };
            assert!(epoch > released_epoch);
            assert_eq!(holder, standby.process_id());
            wait_until_active(standby).await;
            assert_eq!(epoch_of(standby), epoch.0);
            goes_on(standby, &format!("flow-{flow}"), &format!("flow-{}", flow + 1)).await;
            flow += 1;
            // It follows from where its own tenure ended.
            until_hot(active).await;
            let refused = active.call(active.period(), Call::Describe(target("flow-1"))).await;
            assert_eq!(refused, Err(CallError::Unavailable));
            (active, standby) = (standby, active);
        }
        for number in 1..=flow {
            assert_eq!(status(active, &format!("flow-{number}")).await, FlowStatus::Running);
        }
        shut_down(first).await;
        shut_down(second).await;
    });
}

#[test]
fn ha_099_ha_102_ha_131_a_process_alone_takes_the_lease_back_with_a_greater_epoch() {
    let mut cluster = Cluster::new();
    run(async {
        for mode in [StandbyMode::Cold, StandbyMode::Hot] {
            let node = cluster.start(mode);
            wait_until_active(&node).await;
            let flow = format!("flow-{mode:?}");
            start_flow(&node, &flow).await;
            for round in 1..=2 {
                let released = epoch_of(&node);
                let answer = step_down(&node).await.expect("stepped down");
                let AdminAnswer::SteppedDown { outcome: StepDownOutcome::TakenBack { active }, .. } = answer
                else {
                    panic!("{answer:?}");
                };
                assert!(active.epoch.0 > released, "round {round}");
                assert_eq!(active.holder, node.process_id());
                wait_until_active(&node).await;
                assert_eq!(status(&node, &flow).await, FlowStatus::Running);
            }
            shut_down(node).await;
        }
    });
}

/// The same in a data directory, where the log lies in segments that a second tenure goes on with (D-45).
#[test]
fn ha_131_d_045_a_process_in_a_data_directory_takes_its_lease_back_and_a_restart_finds_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        for durability in [DurabilityMode::Strict, DurabilityMode::ProcessCrashSafe, DurabilityMode::Relaxed]
        {
            let config = NodeConfig {
                node_id: "orders".to_owned(),
                storage: Storage::DataDir { durability },
                standby: StandbyConfig::cold(Duration::from_millis(100)),
                ..config(&folder.path().join(durability.to_string()))
            };
            let node = serving(config.clone()).await;
            start_flow(&node, "flow-1").await;
            step_down(&node).await.expect("stepped down");
            wait_until_active(&node).await;
            goes_on(&node, "flow-1", "flow-2").await;
            step_down(&node).await.expect("stepped down");
            wait_until_active(&node).await;
            goes_on(&node, "flow-2", "flow-3").await;
            shut_down(node).await;

            let node = serving(config).await;
            for number in 1..=3 {
                assert_eq!(status(&node, &format!("flow-{number}")).await, FlowStatus::Running);
            }
            shut_down(node).await;
        }
    });
}

#[test]
fn ha_088_ha_109_ha_112_d_016_d_017_admin_calls_answer_by_role_and_by_the_period_of_their_connection() {
    let mut cluster = Cluster::new();
    let error = |code, reason| Err(AdminError { code, reason });
    run(async {
        let active = cluster.start(StandbyMode::Hot);
        wait_until_active(&active).await;
        let epoch = Epoch(epoch_of(&active));
        let (node_id, holder) = (Name::new("orders"), active.process_id());
        let described = active.admin(active.period(), AdminRequest::Describe).await;
        assert_eq!(described, Ok(AdminAnswer::Described { node_id: node_id.clone(), epoch, holder }));
        let stale = AdminRequest::StepDown { node_id: node_id.clone(), epoch: Epoch(epoch.0 + 1) };
        let refused = active.admin(active.period(), stale).await;
        assert_eq!(refused, error(AdminCode::FailedPrecondition, AdminReason::OtherEpoch { present: epoch }));

        let standby = cluster.start(StandbyMode::Hot);
        until_hot(&standby).await;
        let opened_in = standby.period();
        let described = standby.admin(opened_in, AdminRequest::Describe).await;
        assert_eq!(described, error(AdminCode::Unavailable, AdminReason::Standby));
        shut_down(active).await;
        wait_until_active(&standby).await;
        let epoch = Epoch(epoch_of(&standby));
        // Over a connection that is older than the promotion nothing takes effect.
        let request = AdminRequest::StepDown { node_id, epoch };
        let refused = standby.admin(opened_in, request).await;
        assert_eq!(refused, error(AdminCode::FailedPrecondition, AdminReason::OldConnection));
        let refused = standby.call(opened_in, flow_start("flow-1")).await;
        assert_eq!(refused, Err(CallError::Unavailable));
        assert!(standby.open_stream(opened_in).is_none());
        assert_eq!(standby.role(), Role::Active);

        shut_down(standby.clone()).await;
        let late = standby.admin(standby.period(), AdminRequest::Describe).await;
        assert_eq!(late, error(AdminCode::Unavailable, AdminReason::Ended(StopReason::Shutdown)));
    });
}

#[test]
fn d_020_a_caller_that_goes_away_does_not_stop_its_step_down() {
    let mut cluster = Cluster::new();
    run(async {
        let node = cluster.start(StandbyMode::Cold);
        wait_until_active(&node).await;
        let before = epoch_of(&node);
        {
            let mut call = std::pin::pin!(step_down(&node));
            std::future::poll_fn(|context| {
                assert!(call.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        }
        until(&node, |view| view.role == Role::Active && view.epoch.is_some_and(|epoch| epoch.0 > before))
            .await;
        shut_down(node).await;
    });
}

#[test]
fn d_029_a_signal_ends_a_hot_standby_and_a_process_in_its_hold_off_at_once() {
    let mut cluster = Cluster::new();
    run(async {
        let active = cluster.start(StandbyMode::Hot);
        wait_until_active(&active).await;
        let standby = cluster.start(StandbyMode::Hot);
        until_hot(&standby).await;
        shut_down(standby).await;

        let long = StandbyTimes { step_down_hold_off: Duration::from_secs(600), ..StandbyTimes::default() };
        let patient = NodeConfig {
            standby: StandbyConfig::new(StandbyMode::Hot, long).expect("safe"),
            ..cluster.config(StandbyMode::Hot)
        };
        let second = start(patient, Arc::new(())).expect("started");
        until_hot(&second).await;
        shut_down(active).await;
        wait_until_active(&second).await;
        let stepping_down = tokio::spawn({
            let second = second.clone();
            async move { step_down(&second).await }
        });
        until(&second, |view| view.role == Role::HoldOff).await;
        shut_down(second).await;
        let ended = stepping_down.await.expect("no panic").expect_err("no outcome");
        assert_eq!((ended.code, ended.reason), (AdminCode::Unavailable, AdminReason::ShuttingDown));
    });
}

#[test]
fn lesson_h1_a_second_process_on_the_same_volume_is_refused_with_its_path() {
    let mut cluster = Cluster::new();
    run(async {
        let config = cluster.config(StandbyMode::Hot);
        let node = start(config.clone(), Arc::new(())).expect("started");
        let Err(error) = start(config.clone(), Arc::new(())) else {
            panic!("two processes on one volume");
        };
        let text = error.to_string();
        assert!(text.contains(&config.data_dir.join("local.lock").display().to_string()), "{text}");
        wait_until_active(&node).await;
        shut_down(node).await;
        let node = start(config, Arc::new(())).expect("the volume is free again");
        wait_until_active(&node).await;
        shut_down(node).await;
    });
}

#[test]
fn ha_039_d_036_with_fail_if_held_a_held_lease_ends_the_start() {
    let mut cluster = Cluster::new();
    run(async {
        let active = cluster.start(StandbyMode::Cold);
        wait_until_active(&active).await;
        let config = NodeConfig { fail_if_held: true, ..cluster.config(StandbyMode::Cold) };
        let second = start(config, Arc::new(())).expect("started");
        let stopped = second.stopped().await;
        assert_eq!((stopped.code, stopped.reason), (1, StopReason::LeaseHeld));
        shut_down(active).await;
    });
}

#[test]
fn lesson_d11_a_hot_takeover_opens_no_local_store_again() {
    let mut cluster = Cluster::new();
    let opened = Arc::new(AtomicUsize::new(0));
    run(async {
        let active = cluster.start(StandbyMode::Hot);
        wait_until_active(&active).await;
        start_flow(&active, "flow-1").await;
        let counter = Arc::clone(&opened);
        let devices = Devices {
            local: Box::new(move |local| {
                counter.fetch_add(1, Ordering::SeqCst);
                local
            }),
            ..Devices::default()
        };
        let standby = start_on(cluster.config(StandbyMode::Hot), Arc::new(()), devices).expect("started");
        until_hot(&standby).await;
        assert_eq!(opened.load(Ordering::SeqCst), 1);
        shut_down(active).await;
        wait_until_active(&standby).await;
        goes_on(&standby, "flow-1", "flow-2").await;
        assert_eq!(opened.load(Ordering::SeqCst), 1);
        // Its next tenure begins with the store closed and opened again.
        step_down(&standby).await.expect("stepped down");
        wait_until_active(&standby).await;
        goes_on(&standby, "flow-2", "flow-3").await;
        assert_eq!(opened.load(Ordering::SeqCst), 2);
        shut_down(standby).await;
    });
}
