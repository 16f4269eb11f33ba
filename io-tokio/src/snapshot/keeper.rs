//! The thread of one tenure's [`Keeper`]: does what it asks for, and tells it what came of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dexzd_core::ids::{Name, Position, RequestId};
use dexzd_core::snapshot::{
    Checkpoint, FileName, Keeper, KeeperInput, KeeperOptions, KeeperOutput, SnapshotList, SnapshotObject,
};
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, WriteOutcome};
use dexzd_core::time::Instant;

use super::questions::{delete, inspect_entries, list_entries, list_snapshots, snapshot_key};
use super::transfer::{Transfers, read_manifest, upload};
use super::workers::Workers;
use crate::clock::Clock;
use crate::local::{FileHashes, LocalPlace, LocalStore, LocalStoreError};
use crate::log::{entry_key, log_prefix};
use crate::runtime::{EventSink, ShellEvent};
use crate::store::ObjectStore;

const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// What a keeper works with.
pub struct KeeperParts {
    /// A connection of its own: nothing here may delay a lease write or a log write.
    pub store: Arc<dyn ObjectStore>,
    /// Where that store lies.
    pub place: LocalPlace,
    /// The local store of this tenure.
    pub local: Arc<dyn LocalStore>,
    /// The process's.
    pub clock: Arc<Clock>,
    /// Who is told.
    pub events: Arc<dyn EventSink>,
    /// Tells `node`.
    pub report: Box<dyn Fn(KeeperReport) + Send>,
}

/// What `node` must hear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeeperReport {
    /// `Input::TrimBelow`.
    TrimBelow(Position),
    /// `Input::Failed`.
    Failed(StopReason),
}

/// One keeper at work.
pub struct KeeperHandle {
    inbox: mpsc::Sender<Message>,
    stopped: Arc<AtomicBool>,
    ended: Receiver<()>,
}

enum Message {
    Input(KeeperInput),
    /// The checkpoint that was asked for is over: the local store is not held for it any more.
    CheckpointOver(FileHashes),
    Stop,
}

impl KeeperHandle {
    /// Starts the keeper of an epoch whose fence is in the log and applied.
    ///
    /// # Errors
    ///
    /// There is no thread for it.
    pub fn start(options: KeeperOptions, parts: KeeperParts) -> io::Result<Self> {
        let (inbox, messages) = mpsc::channel();
        let (ended_sender, ended) = mpsc::channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let thread = KeeperThread {
            keeper: Keeper::new(parts.clock.now(), options.clone()),
            node_id: options.node_id,
            parts,
            inbox: messages,
            own: inbox.clone(),
            stopped: Arc::clone(&stopped),
            workers: Workers::default(),
            uploads: Transfers::default(),
            hashes: Some(FileHashes::default()),
        };
        thread::Builder::new().name("dexzd-snapshots".to_owned()).spawn(move || {
            thread.run();
            drop(ended_sender);
        })?;
        Ok(Self { inbox, stopped, ended })
    }

    /// An entry is in the log and in the local store.
    pub fn applied(&self, position: Position, bytes: u64) {
        self.send(KeeperInput::Applied { position, bytes });
    }

    /// `node`'s `Output::TrimmedBelow`.
    pub fn trimmed_below(&self, position: Position) {
        self.send(KeeperInput::TrimmedBelow(position));
    }

    /// `node`'s `Output::LeaseWritten`.
    pub fn lease_written(&self, sent_at: Instant) {
        self.send(KeeperInput::LeaseWritten { sent_at });
    }

    /// The tenure ends: nothing is begun any more, and what is on its way is given up. Returns at once.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let _ = self.inbox.send(Message::Stop);
    }

    /// After [`stop`](Self::stop): waits until nothing here holds the local store. False: not within `limit`.
    pub fn has_ended(&self, limit: Duration) -> bool {
        matches!(self.ended.recv_timeout(limit), Err(RecvTimeoutError::Disconnected))
    }

    fn send(&self, input: KeeperInput) {
        // A keeper that failed has told so.
        let _ = self.inbox.send(Message::Input(input));
    }
}

/// Whoever forgets it ends it.
impl Drop for KeeperHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

struct KeeperThread {
    keeper: Keeper,
    node_id: Name,
    parts: KeeperParts,
    inbox: Receiver<Message>,
    /// To itself, for the answers of workers.
    own: mpsc::Sender<Message>,
    stopped: Arc<AtomicBool>,
    workers: Workers,
    uploads: Transfers,
    /// None while a checkpoint is made.
    hashes: Option<FileHashes>,
}

impl KeeperThread {
    fn run(mut self) {
        loop {
            while let Some(output) = self.keeper.poll_output() {
                if self.stopped.load(Ordering::Acquire) {
                    break;
                }
                self.perform(output);
            }
            match self.next_message() {
                Some(Message::Input(input)) => self.handle(input),
                Some(Message::CheckpointOver(hashes)) => self.hashes = Some(hashes),
                Some(Message::Stop) => break,
                None => self.handle(KeeperInput::Tick),
            }
        }
        self.uploads.give_up_all();
        // The local store may be closed only when nobody freezes it any more.
        while self.hashes.is_none() {
            match self.inbox.recv() {
                Ok(Message::CheckpointOver(hashes)) => self.hashes = Some(hashes),
                Ok(Message::Input(_) | Message::Stop) => {}
                Err(mpsc::RecvError) => unreachable!("the keeper holds a sender to itself"),
            }
        }
        self.drop_checkpoint();
    }

    fn next_message(&self) -> Option<Message> {
        let sleep = match self.keeper.poll_timeout() {
            Some(due) => due.saturating_since(self.parts.clock.now().instant),
            None => LONGEST_SLEEP,
        };
        match self.inbox.recv_timeout(sleep) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the keeper holds a sender to itself"),
        }
    }

    fn handle(&mut self, input: KeeperInput) {
        self.keeper.handle(self.parts.clock.now(), input);
    }

    fn perform(&mut self, output: KeeperOutput) {
        match output {
            KeeperOutput::Checkpoint { request } => self.checkpoint(request),
            KeeperOutput::Upload { request, local_name, name } => self.upload(request, &local_name, name),
            KeeperOutput::WriteManifest { request, name, body } => {
                let key = snapshot_key(&self.node_id, SnapshotObject::Manifest(name));
                let written = move |outcome| KeeperInput::ManifestWritten { request, outcome };
                self.ask(
                    move |store| written(store.create(&key, &body)),
                    written(WriteOutcome::Transient { retry_after_ms: None }),
                );
            }
            KeeperOutput::ReadManifest { request, name } => {
                let key = snapshot_key(&self.node_id, SnapshotObject::Manifest(name));
                let read = move |outcome| KeeperInput::ManifestRead { request, outcome };
                self.ask(
                    move |store| read(read_manifest(store, &key)),
                    read(ReadOutcome::Transient { retry_after_ms: None }),
                );
            }
            KeeperOutput::ListSnapshots { request } => {
                let node_id = self.node_id.clone();
                let listed = move |outcome| KeeperInput::SnapshotsListed { request, outcome };
                self.ask(
                    move |store| listed(list_snapshots(store, &node_id)),
                    listed(SnapshotList::Transient { retry_after_ms: None }),
                );
            }
            KeeperOutput::DropCheckpoint => self.drop_checkpoint(),
            KeeperOutput::TrimBelow(position) => (self.parts.report)(KeeperReport::TrimBelow(position)),
            KeeperOutput::DeleteSnapshotObjects { request, manifests, files } => {
                let key = |object| snapshot_key(&self.node_id, object);
                let manifests = manifests.into_iter().map(|name| key(SnapshotObject::Manifest(name)));
                let files = files.into_iter().map(|name| key(SnapshotObject::File(name)));
                self.delete(request, manifests.collect(), files.collect());
            }
            KeeperOutput::ListEntries { request, after, below, at_most } => {
                let node_id = self.node_id.clone();
                let listed = move |outcome| KeeperInput::EntriesListed { request, outcome };
                self.ask(
                    move |store| listed(list_entries(store, &node_id, after, below, at_most)),
                    listed(dexzd_core::snapshot::EntryList::Transient { retry_after_ms: None }),
                );
            }
            KeeperOutput::InspectEntries { request, positions } => {
                let node_id = self.node_id.clone();
                let inspected =
                    move |(kinds, is_complete)| KeeperInput::EntriesInspected { request, kinds, is_complete };
                self.ask(
                    move |store| inspected(inspect_entries(store, &node_id, &positions)),
                    inspected((Vec::new(), false)),
                );
            }
            KeeperOutput::DeleteEntries { request, positions } => {
                let prefix = log_prefix(&self.node_id);
                let keys = positions.into_iter().map(|position| entry_key(&prefix, position));
                self.delete(request, keys.collect(), Vec::new());
            }
            KeeperOutput::Event(event) => self.parts.events.shell(&ShellEvent::Snapshot(event)),
            KeeperOutput::Failed(reason) => (self.parts.report)(KeeperReport::Failed(reason)),
        }
    }

    /// Makes one request on a thread of its own. Without a thread: `otherwise`, at once.
    fn ask(
        &self,
        request: impl FnOnce(&dyn ObjectStore) -> KeeperInput + Send + 'static,
        otherwise: KeeperInput,
    ) {
        let (store, own) = (Arc::clone(&self.parts.store), self.own.clone());
        let started = self.workers.start("dexzd-snapshot", move || {
            let _ = own.send(Message::Input(request(&*store)));
        });
        if started.is_err() {
            let _ = self.own.send(Message::Input(otherwise));
        }
    }

    fn delete(&self, request: RequestId, first: Vec<String>, then: Vec<String>) {
        let deleted = move |outcome| KeeperInput::Deleted { request, outcome };
        self.ask(
            move |store| deleted(delete(store, &first, &then)),
            deleted(dexzd_core::snapshot::DeleteOutcome::Transient { retry_after_ms: None }),
        );
    }

    fn upload(&mut self, request: RequestId, local_name: &Name, name: FileName) {
        let uploaded = move |outcome| KeeperInput::Uploaded { request, outcome };
        // Opened here: a later checkpoint may have other content under the same name.
        let file = match self.parts.place.open_checkpoint_file(local_name) {
            Ok(file) => file,
            Err(error) => {
                self.tell_failure(format!("cannot read {local_name} of the checkpoint: {error}"));
                let _ = self.own.send(Message::Input(uploaded(WriteOutcome::LocalFailure)));
                return;
            }
        };
        let key = snapshot_key(&self.node_id, SnapshotObject::File(name));
        let wanted = self.uploads.begin(local_name);
        self.ask(
            move |store| {
                let outcome = upload(store, &key, file, &wanted);
                // What was given up was cut off by ourselves: the disk is well.
                uploaded(if wanted.is_given_up() {
                    WriteOutcome::Transient { retry_after_ms: None }
                } else {
                    outcome
                })
            },
            uploaded(WriteOutcome::Transient { retry_after_ms: None }),
        );
    }

    /// On a thread of its own: freezing waits for a flush, and then whatever is new is hashed.
    fn checkpoint(&mut self, request: RequestId) {
        let mut hashes = self.hashes.take().expect("the core asks for one checkpoint at a time");
        let (place, local) = (self.parts.place.clone(), Arc::clone(&self.parts.local));
        let (clock, events) = (Arc::clone(&self.parts.clock), Arc::clone(&self.parts.events));
        let (own, stopped) = (self.own.clone(), Arc::clone(&self.stopped));
        let work = move || {
            // The newest time in the log is not known here, and no entry is stamped later than it is now.
            let newest_time = clock.now().wall;
            let made = freeze(&place, local, &mut hashes, &|| !stopped.load(Ordering::Acquire));
            let checkpoint = match made {
                Ok(Some((end, files))) => Some(Some(Checkpoint { end, newest_time, files })),
                Ok(None) => None,
                Err(error) => {
                    events.shell(&ShellEvent::Failure { detail: error.to_string() });
                    Some(None)
                }
            };
            let _ = own.send(Message::CheckpointOver(hashes));
            if let Some(checkpoint) = checkpoint {
                let _ = own.send(Message::Input(KeeperInput::CheckpointMade { request, checkpoint }));
            }
        };
        if let Err(error) = thread::Builder::new().name("dexzd-checkpoint".to_owned()).spawn(work) {
            self.tell_failure(format!("there is no thread for a checkpoint: {error}"));
            self.hashes = Some(FileHashes::default());
            let failed = KeeperInput::CheckpointMade { request, checkpoint: None };
            let _ = self.own.send(Message::Input(failed));
        }
    }

    fn drop_checkpoint(&mut self) {
        self.uploads.give_up_all();
        if let Err(error) = self.parts.place.drop_checkpoint() {
            // It takes room, and the next checkpoint or start sees to it.
            tracing::warn!(%error, "the files of a checkpoint are left");
        }
    }

    fn tell_failure(&self, detail: String) {
        self.parts.events.shell(&ShellEvent::Failure { detail });
    }
}

type CheckpointContent = (dexzd_core::log::LogEnd, Vec<dexzd_core::snapshot::CheckpointFile>);

/// Holds the local store only until it is frozen. None: the tenure ended meanwhile.
fn freeze(
    place: &LocalPlace,
    local: Arc<dyn LocalStore>,
    hashes: &mut FileHashes,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<CheckpointContent>, LocalStoreError> {
    let frozen = place.checkpoint(&*local)?;
    drop(local);
    Ok(hashes.list(place, &frozen, is_wanted)?.map(|files| (frozen.end, files)))
}
