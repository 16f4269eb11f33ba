//! The shell on devices that break.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use dexzd_core::engine::{Change, StateRead};
use dexzd_core::log::LogEnd;
use dexzd_core::standby::StandbyMode;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::shared::{Cluster, step_down, until};
use super::*;
use crate::local::{Frozen, LocalReadFailed, LocalStore, LocalStoreError};
use crate::log::{Disk, RealDisk};
use crate::store::{DeleteOutcome, ListOutcome, ObjectStore, SizedListOutcome};

/// What is broken now; shared by all devices of one test.
#[derive(Default)]
struct Faults {
    /// Every write to the log's files fails: the disk is full.
    disk_full: AtomicU64,
    /// Every sync of the log's files fails.
    syncs_fail: AtomicU64,
    /// So many lease writes hang until the end of the test.
    lease_writes_that_hang: AtomicU64,
    /// Lease writes are denied.
    lease_denied: AtomicU64,
    /// The local store cannot be read.
    reads_fail: AtomicU64,
    /// The local store panics.
    reads_panic: AtomicU64,
    /// Syncs wait until this is over.
    stall: Mutex<bool>,
    stall_over: Condvar,
    /// Flushes of the local store wait until this is over.
    flushes_stall: Mutex<bool>,
    flushes_go_on: Condvar,
    /// What was asked of log and local store, in order.
    asked: Mutex<Vec<Asked>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    SyncLog,
    Apply,
    Flush,
}

impl Faults {
    fn set(switch: &AtomicU64, value: u64) {
        switch.store(value, Ordering::SeqCst);
    }

    fn is_on(switch: &AtomicU64) -> bool {
        switch.load(Ordering::SeqCst) > 0
    }

    fn take_one(switch: &AtomicU64) -> bool {
        switch.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    fn asked(&self, what: Asked) {
        self.asked.lock().expect("no panic").push(what);
    }

    fn set_stall(&self, stalled: bool) {
        *self.stall.lock().expect("no panic") = stalled;
        self.stall_over.notify_all();
    }
}

impl Faults {
    fn set_flushes_stall(&self, stalled: bool) {
        *self.flushes_stall.lock().expect("no panic") = stalled;
        self.flushes_go_on.notify_all();
    }
}

/// Set when the watchdog of any test would have ended the process.
static WATCHDOG_BARKS: AtomicBool = AtomicBool::new(false);

struct FaultyDisk(Arc<Faults>);

impl Disk for FaultyDisk {
    fn create(&self, path: &Path, bytes: u64, written: bool) -> io::Result<File> {
        RealDisk.create(path, bytes, written)
    }

    fn write_at(&self, file: &File, content: &[u8], offset: u64) -> io::Result<()> {
        if Faults::is_on(&self.0.disk_full) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        RealDisk.write_at(file, content, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.0.asked(Asked::SyncLog);
        let mut stalled = self.0.stall.lock().expect("no panic");
        while *stalled {
            stalled = self.0.stall_over.wait(stalled).expect("no panic");
        }
        drop(stalled);
        if Faults::is_on(&self.0.syncs_fail) {
            return Err(io::Error::other("the medium failed"));
        }
        RealDisk.sync(file)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_folder(folder)
    }
}

struct FaultyStore(Arc<dyn ObjectStore>, Arc<Faults>);

impl ObjectStore for FaultyStore {
    fn read(&self, key: &str) -> ReadOutcome {
        self.0.read(key)
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        self.0.create(key, body)
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        if key.ends_with("/lease") {
            if Faults::is_on(&self.1.lease_denied) {
                return WriteOutcome::Permanent;
            }
            if Faults::take_one(&self.1.lease_writes_that_hang) {
                std::thread::park();
            }
        }
        self.0.replace(key, body, version)
    }

    fn delete(&self, key: &str) -> DeleteOutcome {
        self.0.delete(key)
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome {
        self.0.list_after(prefix, after, limit)
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome {
        self.0.list_sized_after(prefix, after, limit)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

struct FaultyLocal(Arc<dyn LocalStore>, Arc<Faults>);

impl FaultyLocal {
    fn break_if_asked(&self) {
        assert!(!Faults::is_on(&self.1.reads_panic), "a bug, on purpose");
        if Faults::is_on(&self.1.reads_fail) {
            let error = LocalStoreError::FailedBefore { folder: "the local store".into() };
            std::panic::resume_unwind(Box::new(LocalReadFailed(error)));
        }
    }
}

impl StateRead for FaultyLocal {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.break_if_asked();
        self.0.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.break_if_asked();
        self.0.scan(from, to, visit);
    }
}

impl LocalStore for FaultyLocal {
    fn apply(&self, end: LogEnd, changes: &[Change]) -> Result<(), LocalStoreError> {
        self.1.asked(Asked::Apply);
        self.0.apply(end, changes)
    }

    fn end(&self) -> LogEnd {
        self.0.end()
    }

    fn durable_end(&self) -> LogEnd {
        self.0.durable_end()
    }

    fn wants_flush(&self) -> bool {
        self.0.wants_flush()
    }

    fn flush(&self) -> Result<LogEnd, LocalStoreError> {
        self.1.asked(Asked::Flush);
        let mut stalled = self.1.flushes_stall.lock().expect("no panic");
        while *stalled {
            stalled = self.1.flushes_go_on.wait(stalled).expect("no panic");
        }
        drop(stalled);
        self.0.flush()
    }

    fn checkpoint(&self, folder: &Path) -> Result<Frozen, LocalStoreError> {
        self.0.checkpoint(folder)
    }
}

async fn serving_on(folder: &Path, faults: &Arc<Faults>) -> NodeHandle {
    serving_with(config_with_renewals(folder), faults).await
}

async fn serving_with(config: NodeConfig, faults: &Arc<Faults>) -> NodeHandle {
    let (store_faults, local_faults) = (Arc::clone(faults), Arc::clone(faults));
    let devices = Devices {
        disk: Arc::new(FaultyDisk(Arc::clone(faults))),
        store: Box::new(move |store| Arc::new(FaultyStore(store, Arc::clone(&store_faults)))),
        local: Box::new(move |local| Arc::new(FaultyLocal(local, Arc::clone(&local_faults)))),
        exit: || WATCHDOG_BARKS.store(true, Ordering::SeqCst),
        ..Devices::default()
    };
    let node = start_on(config, Arc::new(()), devices).expect("started");
    wait_until_active(&node).await;
    node
}

async fn ends_with(node: &NodeHandle, reason: StopReason) -> String {
    let stopped = node.stopped().await;
    assert_eq!((stopped.code, stopped.reason), (1, reason), "{:?}", stopped.detail);
    stopped.detail.unwrap_or_default()
}

#[test]
fn d_033_a_full_disk_stops_the_node_and_a_restart_with_space_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    run(async {
        let node = serving_on(folder.path(), &faults).await;
        start_flow(&node, "flow-1").await;
        Faults::set(&faults.disk_full, 1);
        assert_eq!(node.call(node.period(), flow_start("flow-2")).await, Err(CallError::Unavailable));
        ends_with(&node, StopReason::LocalStoreFailed).await;

        Faults::set(&faults.disk_full, 0);
        let node = serving_on(folder.path(), &faults).await;
        assert_eq!(status(&node, "flow-1").await, FlowStatus::Running);
        assert_eq!(
            node.call(node.period(), Call::Describe(target("flow-2"))).await,
            Err(CallError::NotFound)
        );
        start_flow(&node, "flow-2").await;
        shut_down(node).await;
    });
}

#[test]
fn d_033_lesson_h4_a_failed_sync_is_never_acknowledged_and_stops_the_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    run(async {
        let node = serving_on(folder.path(), &faults).await;
        Faults::set(&faults.syncs_fail, 1);
        assert_eq!(node.call(node.period(), flow_start("flow-1")).await, Err(CallError::Unavailable));
        ends_with(&node, StopReason::LocalStoreFailed).await;
    });
}

#[test]
fn d_033_a_local_store_that_cannot_be_read_stops_the_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    run(async {
        let node = serving_on(folder.path(), &faults).await;
        Faults::set(&faults.reads_fail, 1);
        let unknown = Call::Describe(target("never started"));
        assert_eq!(node.call(node.period(), unknown).await, Err(CallError::Unavailable));
        let detail = ends_with(&node, StopReason::LocalStoreFailed).await;
        assert_eq!(detail, "the local store in the local store failed before and is not used any further");
    });
}

#[test]
fn a_panic_of_the_data_plane_stops_the_node_with_its_own_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    run(async {
        let node = serving_on(folder.path(), &faults).await;
        Faults::set(&faults.reads_panic, 1);
        let unknown = Call::Describe(target("never started"));
        assert_eq!(node.call(node.period(), unknown).await, Err(CallError::Unavailable));
        let detail = ends_with(&node, StopReason::Internal).await;
        assert_eq!(detail, "the data plane panicked: a bug, on purpose");
    });
}

#[test]
fn ha_031_d_032_lesson_a5_a_denied_renewal_stops_the_node_at_once_and_the_watchdog_waits_for_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    run(async {
        let node = serving_on(folder.path(), &faults).await;
        Faults::set(&faults.lease_denied, 1);
        ends_with(&node, StopReason::StoragePermanent).await;
        // The process of this test lives on, longer than the watchdog of D-32 lets any.
        while !WATCHDOG_BARKS.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(node.call(node.period(), flow_start("flow-1")).await, Err(CallError::Unavailable));
    });
}

/// The first renewal starts after 2 s and hangs, is given up after 1 s, and the next one lands before
/// the cut-off at 5.9 s.
#[test]
fn ha_023_a_renewal_that_hangs_delays_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    run(async {
        let node = serving_on(folder.path(), &faults).await;
        Faults::set(&faults.lease_writes_that_hang, 1);
        wait_for_renewals(folder.path(), 3).await;
        assert!(!Faults::is_on(&faults.lease_writes_that_hang), "one write hangs");
        start_flow(&node, "flow-1").await;
        shut_down(node).await;
    });
}

#[test]
fn lesson_a7_a_stalled_log_delays_no_renewal() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    run(async {
        let node = serving_on(folder.path(), &faults).await;
        faults.set_stall(true);
        let call = tokio::spawn({
            let node = node.clone();
            async move { node.call(node.period(), flow_start("flow-1")).await }
        });
        // Each renewal is due 2 s after the one before: four of them outlive a lease of 6 s.
        wait_for_renewals(folder.path(), 4).await;
        assert!(!call.is_finished());
        faults.set_stall(false);
        assert!(matches!(call.await.expect("no panic"), Ok(Answer::Started { newly: true, .. })));
        shut_down(node).await;
    });
}

/// Waits until the lease was written so many times more.
async fn wait_for_renewals(folder: &Path, count: usize) {
    let store = crate::store::FolderStore::open(&folder.join("store"), false).expect("opened");
    let mut versions = std::collections::BTreeSet::new();
    while versions.len() <= count {
        if let ReadOutcome::Found { version, .. } = store.read("dev/lease") {
            versions.insert(version);
        }
        std::thread::sleep(Duration::from_millis(20));
        tokio::task::yield_now().await;
    }
}

/// A crash of the host takes what was not synced. It must not take the log's end and leave a local store
/// that has it: a trimmed log could not rebuild that store.
#[test]
fn ha_009_the_log_is_synced_before_the_local_store_is_flushed_and_nothing_is_applied_in_between() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(Faults::default());
    let mode = DurabilityMode::ProcessCrashSafe;
    run(async {
        let node = serving_with(
            NodeConfig { storage: Storage::DataDir { durability: mode }, ..config(folder.path()) },
            &faults,
        )
        .await;
        // 40 MB of inputs make the local store ask for a flush at least once.
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let node = node.clone();
                tokio::spawn(async move {
                    for number in 0..10 {
                        node.call(node.period(), large_start(&format!("flow-{client}-{number}")))
                            .await
                            .expect("started");
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.expect("no client failed");
        }
        shut_down(node).await;
    });
    let asked = faults.asked.lock().expect("no panic");
    let flushes: Vec<usize> = (0..asked.len()).filter(|index| asked[*index] == Asked::Flush).collect();
    assert!(flushes.len() >= 2, "one under load, one at the end");
    for flush in flushes {
        let before = asked[..flush].iter().rev().find(|what| **what != Asked::Flush);
        assert_eq!(before, Some(&Asked::SyncLog));
    }
}

/// A flush that hangs is a user of the store like any other. Meanwhile others take over, and leave.
#[test]
fn ha_104_ha_108_lesson_e6_a_process_competes_only_once_the_last_user_of_its_old_store_is_gone() {
    let mut cluster = Cluster::new();
    let faults = Arc::new(Faults::default());
    run(async {
        let local_faults = Arc::clone(&faults);
        let devices = Devices {
            local: Box::new(move |local| Arc::new(FaultyLocal(local, Arc::clone(&local_faults)))),
            ..Devices::default()
        };
        let stuck = start_on(cluster.config(StandbyMode::Cold), Arc::new(()), devices).expect("started");
        wait_until_active(&stuck).await;
        start_flow(&stuck, "flow-1").await;
        faults.set_flushes_stall(true);
        let stepping_down = tokio::spawn({
            let stuck = stuck.clone();
            async move { step_down(&stuck).await }
        });
        until(&stuck, |view| view.role == Role::HoldOff).await;
        let held_off_at = stuck.now();
        // Its hold-off of 500 ms is over when the lease is free for the last time.
        while stuck.now().saturating_since(held_off_at) < Duration::from_millis(600) {
            let other = cluster.start(StandbyMode::Cold);
            wait_until_active(&other).await;
            assert_eq!(status(&other, "flow-1").await, FlowStatus::Running);
            shut_down(other).await;
        }
        assert_eq!(stuck.role(), Role::HoldOff);
        stepping_down.await.expect("no panic").expect("another process had taken over");
        assert_eq!(stuck.role(), Role::HoldOff);

        faults.set_flushes_stall(false);
        wait_until_active(&stuck).await;
        assert_eq!(status(&stuck, "flow-1").await, FlowStatus::Running);
        shut_down(stuck).await;
    });
}
