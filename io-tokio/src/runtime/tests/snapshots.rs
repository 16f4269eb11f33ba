//! Snapshots in whole processes: made and trimmed by the active, restored by whoever comes without a store
//! or too late for the log.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Weak};

use dexzd_core::lease::HolderEvent;
use dexzd_core::log::LogEnd;
use dexzd_core::node::{AdminAnswer, StepDownOutcome};
use dexzd_core::snapshot::{BootstrapEvent, Cadence, KeeperEvent, ManifestName};
use dexzd_core::standby::StandbyMode;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::shared::{Cluster, step_down, until_hot};
use super::*;
use crate::local::LocalStore;
use crate::store::{DeleteOutcome, FetchOutcome, ListOutcome, ObjectStore, SizedListOutcome};

/// Nothing here takes that long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every ten entries, and nothing is too young.
fn often() -> Cadence {
    Cadence { entries: 10, at_most_every: Duration::ZERO, trim_age: Duration::ZERO, ..Cadence::STANDARD }
}

fn often_in(cluster: &mut Cluster, mode: StandbyMode) -> NodeConfig {
    NodeConfig { snapshot_cadence: often(), ..cluster.config(mode) }
}

/// What a process said, for whoever waits for it.
#[derive(Default)]
struct Told {
    shell: Mutex<Vec<ShellEvent>>,
    node: Mutex<Vec<NodeEvent>>,
    more: Condvar,
}

impl Told {
    fn wait_for<T, E>(&self, events: &Mutex<Vec<E>>, count: usize, find: impl Fn(&E) -> Option<T>) -> Vec<T> {
        let events = events.lock().expect("no panic");
        let missing = |events: &mut Vec<E>| events.iter().filter_map(&find).count() < count;
        let (events, late) = self.more.wait_timeout_while(events, PATIENCE, missing).expect("no panic");
        assert!(!late.timed_out(), "{:#?}", self.node.lock().map(|node| node.len()));
        events.iter().filter_map(find).collect()
    }

    /// The snapshots made, once there are so many.
    fn made(&self, count: usize) -> Vec<ManifestName> {
        self.wait_for(&self.shell, count, |event| match event {
            ShellEvent::Snapshot(KeeperEvent::Made { name, .. }) => Some(*name),
            _ => None,
        })
    }

    /// The bounds that the log was trimmed to, once there are so many.
    fn trimmed(&self, count: usize) -> Vec<Position> {
        self.wait_for(&self.shell, count, |event| match event {
            ShellEvent::Snapshot(KeeperEvent::Trimmed { below, .. }) => Some(*below),
            _ => None,
        })
    }

    /// The snapshots chosen for restores.
    fn restored(&self) -> Vec<ManifestName> {
        self.wait_for(&self.shell, 0, |event| match event {
            ShellEvent::Restore(BootstrapEvent::Chosen { name, .. }) => Some(*name),
            _ => None,
        })
    }

    fn failures(&self) -> Vec<String> {
        self.wait_for(&self.shell, 0, |event| match event {
            ShellEvent::Failure { detail } | ShellEvent::RestoreUnfit { detail } => Some(detail.clone()),
            _ => None,
        })
    }
}

impl EventSink for Told {
    fn engine(&self, _: &EngineEvent) {}

    fn node(&self, event: &NodeEvent) {
        self.node.lock().expect("no panic").push(event.clone());
        self.more.notify_all();
    }

    fn shell(&self, event: &ShellEvent) {
        self.shell.lock().expect("no panic").push(event.clone());
        self.more.notify_all();
    }
}

/// A process, what it says, and a look at its local store.
struct Process {
    node: NodeHandle,
    told: Arc<Told>,
    local: Arc<Mutex<Weak<dyn LocalStore>>>,
}

impl Process {
    fn start(config: NodeConfig) -> Self {
        let told = Arc::new(Told::default());
        let local: Arc<Mutex<Weak<dyn LocalStore>>> =
            Arc::new(Mutex::new(Weak::<crate::local::MemoryStore>::new()));
        let seen = Arc::clone(&local);
        let devices = Devices {
            local: Box::new(move |opened| {
                *seen.lock().expect("no panic") = Arc::downgrade(&opened);
                opened
            }),
            ..Devices::default()
        };
        let node = start_on(config, Arc::clone(&told) as Arc<dyn EventSink>, devices).expect("started");
        Self { node, told, local }
    }

    async fn active(config: NodeConfig) -> Self {
        let process = Self::start(config);
        wait_until_active(&process.node).await;
        process
    }

    async fn hot(config: NodeConfig) -> Self {
        let process = Self::start(config);
        until_hot(&process.node).await;
        process
    }

    fn end(&self) -> LogEnd {
        let local = self.local.lock().expect("no panic").upgrade().expect("it is open");
        local.end()
    }

    /// How far the local store is, and all that is in it.
    fn state(&self) -> (LogEnd, BTreeMap<Vec<u8>, Vec<u8>>) {
        let local = self.local.lock().expect("no panic").upgrade().expect("it is open");
        let mut content = BTreeMap::new();
        local.scan(b"", &[0xff], &mut |key, value| {
            content.insert(key.to_vec(), value.to_vec());
            true
        });
        (local.end(), content)
    }

    /// So many Flows, one entry each.
    async fn start_flows(&self, flows: std::ops::Range<u32>) {
        for number in flows {
            start_flow(&self.node, &format!("flow-{number}")).await;
        }
    }

    /// Flows for two snapshots, one after the other, and the trimming that they allow: 24 at least.
    async fn start_flows_and_trim(&self, flows: std::ops::Range<u32>) -> Position {
        let half = flows.start + 12;
        self.start_flows(flows.start..half).await;
        self.told.made(1);
        self.start_flows(half..flows.end).await;
        self.told.made(2);
        *self.told.trimmed(1).last().expect("one at least")
    }

    async fn has_flows(&self, flows: std::ops::Range<u32>) {
        for number in flows {
            assert_eq!(status(&self.node, &format!("flow-{number}")).await, FlowStatus::Running);
        }
    }
}

fn log_positions(store: &dyn ObjectStore) -> Vec<u64> {
    let ListOutcome::Found(keys) = store.list_after("orders/log/", "", 100_000) else { panic!("it lists") };
    keys.iter()
        .map(|key| key.rsplit('/').next().and_then(|digits| digits.parse().ok()).expect("digits"))
        .collect()
}

#[test]
fn d_015_d_030_d_046_lesson_d10_a_process_with_an_empty_volume_restores_what_the_active_has() {
    let mut cluster = Cluster::new();
    run(async {
        let active = Process::active(often_in(&mut cluster, StandbyMode::Hot)).await;
        let bound = active.start_flows_and_trim(0..24).await;
        let made = active.told.made(2);
        assert_eq!(bound, made[0].position, "the older of the two, once a lease write carries it");
        let kept = log_positions(&*cluster.store);
        assert_eq!(kept[..2], [1, bound.0], "the fence, and the entry at the bound");

        let standby = Process::hot(often_in(&mut cluster, StandbyMode::Hot)).await;
        let restored = standby.told.restored();
        assert!(restored.len() == 1 && restored[0].position >= bound, "{restored:?}");
        active.start_flows(24..30).await;
        // Nobody writes any more: they become equal.
        while active.end() != standby.end() {
            std::thread::yield_now();
        }
        assert_eq!(active.state(), standby.state());
        shut_down(active.node).await;
        wait_until_active(&standby.node).await;
        standby.has_flows(0..30).await;
        // The second epoch uses what the first one left, and goes on trimming.
        assert!(standby.start_flows_and_trim(30..60).await > bound);
        assert_eq!((active.told.failures(), standby.told.failures()), (vec![], vec![]));
        shut_down(standby.node).await;
    });
}

#[test]
fn lesson_d5_a_standby_that_was_down_while_the_log_was_trimmed_past_it_starts_from_a_snapshot() {
    let mut cluster = Cluster::new();
    run(async {
        let active = Process::active(often_in(&mut cluster, StandbyMode::Hot)).await;
        let late = often_in(&mut cluster, StandbyMode::Hot);
        let standby = Process::hot(late.clone()).await;
        active.start_flows(0..2).await;
        assert_eq!(standby.told.restored(), []);
        shut_down(standby.node).await;

        let bound = active.start_flows_and_trim(2..40).await;
        assert!(bound > Position(4), "it was at most there when it ended");
        let standby = Process::hot(late).await;
        assert_eq!(standby.told.restored().len(), 1);
        while active.end() != standby.end() {
            std::thread::yield_now();
        }
        assert_eq!(active.state(), standby.state());
        shut_down(standby.node).await;
        shut_down(active.node).await;
    });
}

#[test]
fn d_046_a_process_that_takes_its_lease_back_goes_on_with_its_snapshots() {
    let mut cluster = Cluster::new();
    run(async {
        let process = Process::active(often_in(&mut cluster, StandbyMode::Cold)).await;
        process.start_flows(0..12).await;
        let first = process.told.made(1)[0];
        let answer = step_down(&process.node).await.expect("stepped down");
        assert!(
            matches!(answer, AdminAnswer::SteppedDown { outcome: StepDownOutcome::TakenBack { .. }, .. }),
            "{answer:?}"
        );
        wait_until_active(&process.node).await;
        process.start_flows(12..40).await;
        let made = process.told.made(2);
        assert!(made[1].epoch > first.epoch, "{made:?}");
        process.told.wait_for(&process.told.shell, 1, |event| {
            matches!(event, ShellEvent::Snapshot(KeeperEvent::Inherited(name)) if *name == first)
                .then_some(())
        });
        assert_eq!(process.told.failures(), Vec::<String>::new());
        shut_down(process.node).await;
    });
}

/// Killed in the middle of a restore, as far as the next process can tell.
#[test]
fn d_015_an_interrupted_restore_is_deleted_at_the_start_and_begun_again() {
    let mut cluster = Cluster::new();
    run(async {
        let active = Process::active(often_in(&mut cluster, StandbyMode::Hot)).await;
        active.start_flows_and_trim(0..30).await;
        let config = often_in(&mut cluster, StandbyMode::Hot);
        let half = config.data_dir.join("replica.restoring");
        fs::create_dir_all(&half).expect("created");
        fs::write(half.join("checkpoint"), "half a file").expect("written");
        let standby = Process::hot(config).await;
        standby.told.wait_for(&standby.told.shell, 1, |event| {
            matches!(event, ShellEvent::LeftoverDeleted { folder } if *folder == half).then_some(())
        });
        assert_eq!(standby.told.restored().len(), 1);
        assert!(!half.exists());
        shut_down(active.node).await;
        wait_until_active(&standby.node).await;
        standby.has_flows(0..30).await;
        shut_down(standby.node).await;
    });
}

/// Damaged on this volume: it is worth nothing where it can be had again, and never in the way.
#[test]
fn d_043_a_damaged_local_store_on_a_private_volume_is_rebuilt_and_another_nodes_is_refused() {
    let mut cluster = Cluster::new();
    run(async {
        let active = Process::active(often_in(&mut cluster, StandbyMode::Cold)).await;
        active.start_flows_and_trim(0..30).await;
        shut_down(active.node).await;
        let config = often_in(&mut cluster, StandbyMode::Cold);
        let replica = config.data_dir.join("replica");
        fs::create_dir_all(&replica).expect("created");
        let identity = "dexzd local store\nformat 1\nkind memory\nnode orders\n";
        fs::write(replica.join("IDENTITY"), identity).expect("written");
        fs::write(replica.join("checkpoint"), "these bytes are no checkpoint").expect("written");
        let second = Process::active(config.clone()).await;
        let broken = second.told.wait_for(&second.told.shell, 1, |event| match event {
            ShellEvent::LocalStoreBroken { detail } => Some(detail.clone()),
            _ => None,
        });
        assert!(broken[0].contains("replica/checkpoint"), "{broken:?}");
        assert_eq!(second.told.restored().len(), 1);
        second.has_flows(0..30).await;
        shut_down(second.node).await;

        fs::write(replica.join("IDENTITY"), identity.replace("orders", "billing")).expect("written");
        let third = Process::start(config);
        let stopped = third.node.stopped().await;
        assert_eq!((stopped.code, stopped.reason), (1, StopReason::LocalStoreFailed));
        let detail = stopped.detail.expect("it says why");
        assert!(detail.contains("belongs to node `billing`"), "{detail}");
        assert!(replica.join("checkpoint").exists(), "nothing was changed");
    });
}

#[test]
fn d_041_lesson_d5_a_missing_entry_in_the_middle_stops_with_its_reason_and_writes_nothing() {
    let mut cluster = Cluster::new();
    run(async {
        // One snapshot, and no more.
        let once = Cadence { at_most_every: Duration::from_secs(3_600), ..often() };
        let config = NodeConfig { snapshot_cadence: once, ..cluster.config(StandbyMode::Cold) };
        let active = Process::active(config).await;
        active.start_flows(0..12).await;
        let snapshot = active.told.made(1)[0];
        active.start_flows(12..20).await;
        shut_down(active.node).await;
        let positions = log_positions(&*cluster.store);
        let missing = positions[positions.len() - 3];
        assert!(snapshot.position.0 < missing);
        cluster.store.delete(&format!("orders/log/{missing:020}"));
        let before = log_positions(&*cluster.store);
        let second = Process::start(often_in(&mut cluster, StandbyMode::Cold));
        let stopped = second.node.stopped().await;
        assert_eq!((stopped.code, stopped.reason), (1, StopReason::LogHole), "{:?}", stopped.detail);
        assert_eq!(log_positions(&*cluster.store), before);
    });
}

/// The lease was deleted by hand; the log behind the snapshots is trimmed.
#[test]
fn d_049_lesson_d2_a_lease_that_is_missing_beside_snapshots_is_made_anew_from_the_newest() {
    let mut cluster = Cluster::new();
    run(async {
        let active = Process::active(often_in(&mut cluster, StandbyMode::Cold)).await;
        active.start_flows_and_trim(0..30).await;
        let newest = *active.told.made(2).last().expect("two");
        shut_down(active.node).await;
        cluster.store.delete("orders/lease");
        let second = Process::active(often_in(&mut cluster, StandbyMode::Cold)).await;
        let epoch = second.node.view().borrow().epoch.expect("it serves").0;
        assert_eq!(epoch, 1_001, "the highest found, and a thousand");
        assert!(second.told.restored()[0] >= newest);
        second.has_flows(0..30).await;
        shut_down(second.node).await;
    });
}

/// A store over which no upload ever ends.
struct Stuck {
    inner: Arc<dyn ObjectStore>,
    is_stuck: Arc<AtomicBool>,
}

impl ObjectStore for Stuck {
    fn read(&self, key: &str) -> ReadOutcome {
        self.inner.read(key)
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        self.inner.create(key, body)
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        self.inner.replace(key, body, version)
    }

    fn delete(&self, key: &str) -> DeleteOutcome {
        self.inner.delete(key)
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome {
        self.inner.list_after(prefix, after, limit)
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome {
        self.inner.list_sized_after(prefix, after, limit)
    }

    fn create_from(&self, key: &str, size_bytes: u64, content: &mut (dyn Read + Send)) -> WriteOutcome {
        while self.is_stuck.load(Ordering::SeqCst) {
            // It goes on for ever, as long as somebody wants it.
            if content.read(&mut []).is_err() {
                return WriteOutcome::LocalFailure;
            }
            std::thread::yield_now();
        }
        self.inner.create_from(key, size_bytes, content)
    }

    fn read_into(&self, key: &str, sink: &mut (dyn Write + Send)) -> FetchOutcome {
        self.inner.read_into(key, sink)
    }

    fn name(&self) -> String {
        "stuck".to_owned()
    }
}

#[test]
fn d_011_lesson_10_uploads_that_never_end_delay_no_renewal_and_no_end() {
    let mut cluster = Cluster::new();
    run(async {
        let is_stuck = Arc::new(AtomicBool::new(true));
        let mut config = often_in(&mut cluster, StandbyMode::Cold);
        if let Storage::Shared(stores) = &mut config.storage {
            let inner = Arc::clone(&stores.snapshots);
            stores.snapshots = Arc::new(Stuck { inner, is_stuck: Arc::clone(&is_stuck) });
        }
        let active = Process::active(config).await;
        active.start_flows(0..12).await;
        // Longer than a lease, so that it would have ended.
        active.told.wait_for(&active.told.node, 4, |event| {
            matches!(event, NodeEvent::Holder(HolderEvent::Renewed { .. })).then_some(())
        });
        assert!(active.told.made(0).is_empty());
        active.start_flows(12..14).await;
        assert_eq!(active.told.failures(), Vec::<String>::new());
        shut_down(active.node).await;
        is_stuck.store(false, Ordering::SeqCst);
    });
}
