//! The threads with the real core, over stores in memory and in folders, on a real disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use dexzd_core::engine::{Change, EngineEvent};
use dexzd_core::ids::{Epoch, Name, Position, ProcessId};
use dexzd_core::log::{Chain, LogEnd};
use dexzd_core::node::NodeEvent;
use dexzd_core::snapshot::{
    BootstrapEvent, BootstrapOptions, Cadence, KeeperEvent, KeeperOptions, ManifestName, SnapshotProblem,
};
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::*;
use crate::clock::Clock;
use crate::local::{LocalPlace, LocalStore, LocalStoreKind};
use crate::runtime::{EventSink, ShellEvent};
use crate::store::{
    DeleteOutcome, FetchOutcome, FolderStore, InMemoryObjectStore, ListOutcome, ObjectStore, SizedListOutcome,
};

mod keeping;
mod restoring;

const NODE: &str = "orders";
/// Nothing here takes that long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was told, for whoever waits for it.
#[derive(Default)]
struct Heard {
    events: Mutex<Vec<ShellEvent>>,
    reports: Mutex<Vec<KeeperReport>>,
    more: Condvar,
}

impl Heard {
    fn report(&self, report: KeeperReport) {
        self.reports.lock().expect("no panic").push(report);
        self.more.notify_all();
    }

    /// Waits until so many of the events are such.
    fn wait(&self, count: usize, is_it: impl Fn(&ShellEvent) -> bool) {
        let events = self.events.lock().expect("no panic");
        let missing =
            |events: &mut Vec<ShellEvent>| events.iter().filter(|event| is_it(event)).count() < count;
        let (events, timeout) = self.more.wait_timeout_while(events, PATIENCE, missing).expect("no panic");
        assert!(!timeout.timed_out(), "{events:#?}");
    }

    fn wait_for_reports(&self, count: usize) -> Vec<KeeperReport> {
        let reports = self.reports.lock().expect("no panic");
        let missing = |reports: &mut Vec<KeeperReport>| reports.len() < count;
        let (reports, timeout) = self.more.wait_timeout_while(reports, PATIENCE, missing).expect("no panic");
        assert!(!timeout.timed_out(), "{reports:?}");
        reports.clone()
    }

    fn keeper(&self) -> Vec<KeeperEvent> {
        let events = self.events.lock().expect("no panic");
        let keeper = events.iter().filter_map(|event| match event {
            ShellEvent::Snapshot(event) => Some(event.clone()),
            _ => None,
        });
        keeper.collect()
    }

    fn restore(&self) -> Vec<BootstrapEvent> {
        let events = self.events.lock().expect("no panic");
        let restore = events.iter().filter_map(|event| match event {
            ShellEvent::Restore(event) => Some(event.clone()),
            _ => None,
        });
        restore.collect()
    }

    fn failures(&self) -> Vec<String> {
        let events = self.events.lock().expect("no panic");
        let failures = events.iter().filter_map(|event| match event {
            ShellEvent::Failure { detail } | ShellEvent::RestoreUnfit { detail } => Some(detail.clone()),
            _ => None,
        });
        failures.collect()
    }
}

impl EventSink for Heard {
    fn engine(&self, _: &EngineEvent) {}

    fn node(&self, _: &NodeEvent) {}

    fn shell(&self, event: &ShellEvent) {
        self.events.lock().expect("no panic").push(event.clone());
        self.more.notify_all();
    }
}

/// Every ten entries, and nothing is too young.
fn cadence() -> Cadence {
    Cadence { entries: 10, at_most_every: Duration::ZERO, trim_age: Duration::ZERO, ..Cadence::STANDARD }
}

fn end(position: u64) -> LogEnd {
    LogEnd {
        position: Position(position),
        chain: Chain([u8::try_from(position % 251).expect("below 251"); 32]),
    }
}

fn log_key(position: u64) -> String {
    format!("{NODE}/log/{position:020}")
}

/// An active process, as far as snapshots are concerned: one epoch whose fence stands at 1.
struct Active {
    store: Arc<dyn ObjectStore>,
    local: Arc<dyn LocalStore>,
    keeper: KeeperHandle,
    heard: Arc<Heard>,
    clock: Arc<Clock>,
    position: u64,
}

impl Active {
    fn new(store: &Arc<dyn ObjectStore>, folder: &Path) -> Self {
        let place = LocalPlace::new(LocalStoreKind::Memory, &folder.join("active"), NODE);
        let local = place.open().expect("opened");
        local.apply(end(1), &[]).expect("applied");
        store.create(&log_key(1), b"fence");
        Self::with(store, place, local, 1, 1)
    }

    fn with(
        store: &Arc<dyn ObjectStore>,
        place: LocalPlace,
        local: Arc<dyn LocalStore>,
        epoch: u64,
        fence: u64,
    ) -> Self {
        let heard = Arc::new(Heard::default());
        let clock = Arc::new(Clock::new());
        let options = KeeperOptions {
            node_id: Name::new(NODE),
            process_id: ProcessId(u128::from(epoch)),
            epoch: Epoch(epoch),
            fence: end(fence),
            trimmed_below: Position(0),
            cadence: cadence(),
            seed: 7,
        };
        let reports = Arc::clone(&heard);
        let parts = KeeperParts {
            store: Arc::clone(store),
            place,
            local: Arc::clone(&local),
            clock: Arc::clone(&clock),
            events: Arc::clone(&heard) as Arc<dyn EventSink>,
            report: Box::new(move |report| reports.report(report)),
        };
        let keeper = KeeperHandle::start(options, parts).expect("a thread");
        Self { store: Arc::clone(store), local, keeper, heard, clock, position: fence }
    }

    /// So many entries that go through the log into the local store.
    fn write(&mut self, entries: u64) {
        for _ in 0..entries {
            self.position += 1;
            let position = self.position;
            let created = self.store.create(&log_key(position), b"entry");
            assert!(matches!(created, WriteOutcome::Done { .. }), "{created:?}");
            let change = |key: String| Change { key: key.into(), value: Some(vec![7; 1_000]) };
            let changes = [change(format!("key-{position}")), change("newest".to_owned())];
            self.local.apply(end(position), &changes).expect("applied");
            self.keeper.applied(Position(position), 2_000);
        }
    }

    /// Writes until the next snapshot is there, and says which it is.
    fn snapshot(&mut self) -> ManifestName {
        let before = self.made().len();
        self.write(10);
        self.heard.wait(before + 1, is_made);
        *self.made().last().expect("it was made")
    }

    fn made(&self) -> Vec<ManifestName> {
        let made = self.heard.keeper().into_iter().filter_map(|event| match event {
            KeeperEvent::Made { name, .. } => Some(name),
            _ => None,
        });
        made.collect()
    }

    /// A renewal that is sent and lands now.
    fn renew(&self) {
        self.keeper.lease_written(self.clock.now().instant);
    }

    fn end(self) -> Arc<dyn LocalStore> {
        self.keeper.stop();
        assert!(self.keeper.has_ended(PATIENCE));
        self.local
    }
}

fn is_made(event: &ShellEvent) -> bool {
    matches!(event, ShellEvent::Snapshot(KeeperEvent::Made { .. }))
}

fn content(store: &dyn LocalStore) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut content = BTreeMap::new();
    store.scan(b"", &[0xff], &mut |key, value| {
        content.insert(key.to_vec(), value.to_vec());
        true
    });
    content
}

fn keys(store: &dyn ObjectStore, prefix: &str) -> Vec<String> {
    match store.list_after(prefix, "", 10_000) {
        ListOutcome::Found(keys) => keys,
        other => panic!("{other:?}"),
    }
}

fn in_memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemoryObjectStore::new())
}

fn in_folder(folder: &Path) -> Arc<dyn ObjectStore> {
    Arc::new(FolderStore::open(&folder.join("store"), false).expect("opened"))
}

/// A store that gets something wrong, or shows what a listing does not show any more.
struct Faulty {
    inner: Arc<dyn ObjectStore>,
    /// Reads of such keys end so, once each.
    hidden: Mutex<Vec<String>>,
    /// Half of what is read of such keys arrives, and then nothing for as long as this is set.
    stalled: AtomicBool,
    /// What is written to such keys hangs until it is given up.
    denied: AtomicBool,
}

impl Faulty {
    fn new(inner: &Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            hidden: Mutex::default(),
            stalled: AtomicBool::new(false),
            denied: AtomicBool::new(false),
        })
    }
}

impl ObjectStore for Faulty {
    fn read(&self, key: &str) -> ReadOutcome {
        self.inner.read(key)
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        if self.denied.load(Ordering::SeqCst) {
            WriteOutcome::Permanent
        } else {
            self.inner.create(key, body)
        }
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

    fn read_into(&self, key: &str, sink: &mut (dyn std::io::Write + Send)) -> FetchOutcome {
        if self.hidden.lock().expect("no panic").iter().any(|hidden| key.ends_with(hidden)) {
            return FetchOutcome::Missing;
        }
        if !key.contains("/files/") || !self.stalled.load(Ordering::SeqCst) {
            return self.inner.read_into(key, sink);
        }
        let ReadOutcome::Found { body, .. } = self.inner.read(key) else {
            return FetchOutcome::Missing;
        };
        for byte in body.chunks(1) {
            while self.stalled.load(Ordering::SeqCst) {
                // A connection over which nothing moves.
                if sink.write_all(&[]).is_err() || sink.write(byte).is_err() {
                    return FetchOutcome::LocalFailure;
                }
                std::thread::yield_now();
            }
        }
        FetchOutcome::Transient { retry_after_ms: None }
    }

    fn name(&self) -> String {
        "faulty".to_owned()
    }
}

/// What a restore came to.
struct RestoreRun {
    heard: Arc<Heard>,
    place: LocalPlace,
    handle: RestoreHandle,
    done: mpsc::Receiver<Restored>,
}

impl RestoreRun {
    fn begin(store: &Arc<dyn ObjectStore>, folder: &Path, trimmed_below: u64) -> Self {
        let place = LocalPlace::new(LocalStoreKind::Memory, &folder.join("local"), NODE);
        let heard = Arc::new(Heard::default());
        let (sender, done) = mpsc::channel();
        let options =
            BootstrapOptions { node_id: Name::new(NODE), trimmed_below: Position(trimmed_below), seed: 7 };
        let parts = RestoreParts {
            store: Arc::clone(store),
            place: place.clone(),
            clock: Arc::new(Clock::new()),
            events: Arc::clone(&heard) as Arc<dyn EventSink>,
            done: Box::new(move |restored| sender.send(restored).expect("the test waits")),
        };
        let handle = RestoreHandle::start(options, parts).expect("a thread");
        Self { heard, place, handle, done }
    }

    fn finish(&self) -> Restored {
        let restored = self.done.recv_timeout(PATIENCE).expect("it ends");
        assert!(self.handle.has_ended(PATIENCE));
        restored
    }
}

fn restored(restored: Restored) -> Arc<dyn LocalStore> {
    restored.unwrap_or_else(|reason| panic!("{reason:?}"))
}
