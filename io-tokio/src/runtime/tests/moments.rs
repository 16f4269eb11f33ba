//! SIGTERM at every moment: a node is told to stop within each of its operations on store and disk in turn, the first
//! one, the second one, and so on to the end of a short life.

use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use dexzd_core::standby::StandbyMode;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::shared::Cluster;
use super::*;
use crate::log::{Disk, RealDisk};
use crate::store::{DeleteOutcome, ListOutcome, ObjectStore, SizedListOutcome};

/// The operation within which the node is told, counted from 1; 0 for none.
struct Moment {
    at: u64,
    passed: AtomicU64,
    node: OnceLock<NodeHandle>,
}

impl Moment {
    fn new(at: u64) -> Arc<Self> {
        Arc::new(Self { at, passed: AtomicU64::new(0), node: OnceLock::new() })
    }

    /// The node's own threads only: what the start does on the test's thread comes before there is a node.
    fn pass(&self) {
        if !thread::current().name().is_some_and(|name| name.starts_with("dexzd-")) {
            return;
        }
        if self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            self.node.wait().shutdown();
        }
    }

    fn devices(self: &Arc<Self>) -> Devices {
        let moment = Arc::clone(self);
        Devices {
            disk: Arc::new(Watched(RealDisk, Arc::clone(self))),
            store: Box::new(move |store| Arc::new(Watched(store, Arc::clone(&moment)))),
            ..Devices::default()
        }
    }
}

struct Watched<T>(T, Arc<Moment>);

impl Disk for Watched<RealDisk> {
    fn create(&self, path: &Path, bytes: u64, written: bool) -> io::Result<File> {
        self.1.pass();
        self.0.create(path, bytes, written)
    }

    fn write_at(&self, file: &File, content: &[u8], offset: u64) -> io::Result<()> {
        self.1.pass();
        self.0.write_at(file, content, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.1.pass();
        self.0.sync(file)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.1.pass();
        self.0.sync_folder(folder)
    }
}

impl ObjectStore for Watched<Arc<dyn ObjectStore>> {
    fn read(&self, key: &str) -> ReadOutcome {
        self.1.pass();
        self.0.read(key)
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        self.1.pass();
        self.0.create(key, body)
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        self.1.pass();
        self.0.replace(key, body, version)
    }

    fn delete(&self, key: &str) -> DeleteOutcome {
        self.1.pass();
        self.0.delete(key)
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome {
        self.1.pass();
        self.0.list_after(prefix, after, limit)
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome {
        self.1.pass();
        self.0.list_sized_after(prefix, after, limit)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

/// Flows that a life starts, each durable before the next.
const FLOWS: [&str; 4] = ["flow-1", "flow-2", "flow-3", "flow-4"];

/// Lives until it is told to stop, or has nothing left to do. Which starts were acknowledged, and how many operations
/// there were.
async fn live(config: NodeConfig, at: u64) -> (Vec<&'static str>, u64) {
    let moment = Moment::new(at);
    let node = start_on(config, Arc::new(()), moment.devices()).expect("started");
    assert!(moment.node.set(node.clone()).is_ok(), "set once");
    let mut view = node.view();
    let came = view.wait_for(|view| matches!(view.role, Role::Active | Role::Stopped)).await.is_ok();
    assert!(came, "the node ended without a word");
    let mut acknowledged = Vec::new();
    for flow_id in FLOWS {
        match node.call(node.period(), flow_start(flow_id)).await {
            Ok(_) => acknowledged.push(flow_id),
            Err(error) => assert_eq!(error, CallError::Unavailable, "moment {at}"),
        }
    }
    node.shutdown();
    let stopped = node.stopped().await;
    assert_eq!(stopped, Stopped { code: 0, reason: StopReason::Shutdown, detail: None }, "moment {at}");
    assert_eq!(node.call(node.period(), flow_start("late")).await, Err(CallError::Unavailable));
    (acknowledged, moment.passed.load(Ordering::SeqCst))
}

/// Everything that was acknowledged is there.
async fn holds(node: &NodeHandle, acknowledged: &[&str], at: u64) {
    for flow_id in acknowledged {
        assert_eq!(status(node, flow_id).await, FlowStatus::Running, "{flow_id}, moment {at}");
    }
}

/// In its own directory: it ends in order, the lease is given back, and the next process serves at once.
#[test]
fn d_029_ha_016_a_node_told_to_stop_at_any_moment_ends_in_order_and_loses_nothing() {
    run(async {
        let mut at = 1;
        let mut told_before_the_end = 0;
        loop {
            let folder = tempfile::tempdir().expect("a folder");
            let (acknowledged, passed) = live(config(folder.path()), at).await;
            told_before_the_end += u64::from(acknowledged.len() < FLOWS.len());
            let node = serving(config(folder.path())).await;
            holds(&node, &acknowledged, at).await;
            shut_down(node).await;
            if passed < at {
                break;
            }
            at += 1;
        }
        assert!(at > 10 && told_before_the_end > 5, "{at} moments, {told_before_the_end} before the end");
    });
}

/// On a shared store: the standby beside it serves what it left, whenever it left.
#[test]
fn d_029_ha_055_a_standby_follows_whatever_moment_the_active_is_told_to_stop() {
    run(async {
        let mut at = 1;
        loop {
            let mut cluster = Cluster::new();
            let first = cluster.config(StandbyMode::Hot);
            let (acknowledged, passed) = live(first, at).await;
            let standby = cluster.start(StandbyMode::Hot);
            wait_until_active(&standby).await;
            holds(&standby, &acknowledged, at).await;
            shut_down(standby).await;
            if passed < at {
                break;
            }
            at += 1;
        }
        assert!(at > 10, "{at} moments");
    });
}

/// And the other way round: a standby that is told to stop, while it follows or takes over, leaves the node to others.
#[test]
fn d_029_ha_051_a_standby_told_to_stop_at_any_moment_leaves_the_node_as_it_was() {
    run(async {
        for at in (1..60).step_by(3) {
            let mut cluster = Cluster::new();
            let active = cluster.start(StandbyMode::Hot);
            wait_until_active(&active).await;
            start_flow(&active, "before").await;
            let moment = Moment::new(at);
            let config = cluster.config(StandbyMode::Hot);
            let standby = start_on(config, Arc::new(()), moment.devices()).expect("started");
            assert!(moment.node.set(standby.clone()).is_ok(), "set once");
            start_flow(&active, "beside").await;
            // The lease is free from here on: the standby takes it, unless it was told to stop before.
            shut_down(active).await;
            let mut view = standby.view();
            let came = view.wait_for(|view| matches!(view.role, Role::Active | Role::Stopped)).await.is_ok();
            assert!(came, "the node ended without a word");
            standby.shutdown();
            let stopped = standby.stopped().await;
            assert_eq!((stopped.code, stopped.reason), (0, StopReason::Shutdown), "moment {at}");
            let third = cluster.start(StandbyMode::Hot);
            wait_until_active(&third).await;
            holds(&third, &["before", "beside"], at).await;
            shut_down(third).await;
        }
    });
}
