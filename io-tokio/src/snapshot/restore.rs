//! The thread of one [`Bootstrap`]: a new local store from the newest whole snapshot.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dexzd_core::ids::{Name, Position, RequestId};
use dexzd_core::snapshot::{
    Bootstrap, BootstrapEvent, BootstrapInput, BootstrapOptions, BootstrapOutput, DownloadOutcome, FileName,
    SnapshotList, SnapshotObject,
};
use dexzd_core::stop::StopReason;
use dexzd_core::store::ReadOutcome;
use dexzd_core::time::Instant;

use super::questions::{list_snapshots, snapshot_key};
use super::transfer::{Progress, Transfers, download, read_manifest};
use super::workers::Workers;
use crate::clock::Clock;
use crate::local::{LocalPlace, LocalStore};
use crate::runtime::{EventSink, ShellEvent};
use crate::store::ObjectStore;

const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// A log line and a metric need no more.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// What a restore works with.
pub struct RestoreParts {
    /// Only read (HA-51).
    pub store: Arc<dyn ObjectStore>,
    /// Nobody has its store open.
    pub place: LocalPlace,
    /// The process's.
    pub clock: Arc<Clock>,
    /// Who is told.
    pub events: Arc<dyn EventSink>,
    /// Told once, unless it is stopped before.
    pub done: Box<dyn FnOnce(Restored) + Send>,
}

/// The new local store, possibly empty, or why there is none.
pub type Restored = Result<Arc<dyn LocalStore>, StopReason>;

/// One restore at work.
pub struct RestoreHandle {
    inbox: mpsc::Sender<Message>,
    ended: Receiver<()>,
}

enum Message {
    Input(BootstrapInput),
    Stop,
}

impl RestoreHandle {
    /// Begins by discarding what is there.
    ///
    /// # Errors
    ///
    /// There is no thread for it.
    pub fn start(options: BootstrapOptions, parts: RestoreParts) -> io::Result<Self> {
        let (inbox, messages) = mpsc::channel();
        let (ended_sender, ended) = mpsc::channel();
        let thread = RestoreThread {
            bootstrap: Bootstrap::new(parts.clock.now(), options.clone()),
            node_id: options.node_id,
            store: parts.store,
            place: parts.place,
            clock: parts.clock,
            events: parts.events,
            inbox: messages,
            own: inbox.clone(),
            workers: Workers::default(),
            downloads: Transfers::default(),
            progress: Progress::default(),
            of_bytes: 0,
            told_bytes: 0,
            progress_due: None,
            opened: None,
        };
        let done = parts.done;
        thread::Builder::new().name("dexzd-restore".to_owned()).spawn(move || {
            if let Some(end) = thread.run() {
                done(end);
            }
            drop(ended_sender);
        })?;
        Ok(Self { inbox, ended })
    }

    /// A newer lease version was seen.
    pub fn trimmed_below(&self, position: Position) {
        let _ = self.inbox.send(Message::Input(BootstrapInput::TrimmedBelow(position)));
    }

    /// Nobody wants it any more. What was downloaded is left for the next start, which deletes it. Returns
    /// at once.
    pub fn stop(&self) {
        let _ = self.inbox.send(Message::Stop);
    }

    /// Waits until nothing here touches the folders any more. False: not within `limit`.
    pub fn has_ended(&self, limit: Duration) -> bool {
        matches!(self.ended.recv_timeout(limit), Err(RecvTimeoutError::Disconnected))
    }
}

struct RestoreThread {
    bootstrap: Bootstrap,
    node_id: Name,
    store: Arc<dyn ObjectStore>,
    place: LocalPlace,
    clock: Arc<Clock>,
    events: Arc<dyn EventSink>,
    inbox: Receiver<Message>,
    /// To itself, for the answers of workers.
    own: mpsc::Sender<Message>,
    workers: Workers,
    downloads: Transfers,
    progress: Progress,
    of_bytes: u64,
    told_bytes: u64,
    /// None: nothing is on its way.
    progress_due: Option<Instant>,
    opened: Option<Arc<dyn LocalStore>>,
}

impl RestoreThread {
    /// None: it was stopped.
    fn run(mut self) -> Option<Restored> {
        loop {
            while let Some(output) = self.bootstrap.poll_output() {
                if let Some(end) = self.perform(output) {
                    return Some(end);
                }
            }
            match self.next_message() {
                Some(Message::Input(input)) => self.handle(input),
                Some(Message::Stop) => return None,
                None => self.handle(BootstrapInput::Tick),
            }
            self.tell_progress();
        }
    }

    fn next_message(&self) -> Option<Message> {
        let due = [self.bootstrap.poll_timeout(), self.progress_due].into_iter().flatten().min();
        let now = self.clock.now().instant;
        let sleep = due.map_or(LONGEST_SLEEP, |due| due.saturating_since(now));
        match self.inbox.recv_timeout(sleep) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the restore holds a sender to itself"),
        }
    }

    fn handle(&mut self, input: BootstrapInput) {
        self.bootstrap.handle(self.clock.now(), input);
    }

    fn perform(&mut self, output: BootstrapOutput) -> Option<Restored> {
        match output {
            BootstrapOutput::Discard => self.discard(),
            BootstrapOutput::ListSnapshots { request } => {
                let node_id = self.node_id.clone();
                let listed = move |outcome| BootstrapInput::SnapshotsListed { request, outcome };
                self.ask(
                    move |store| listed(list_snapshots(store, &node_id)),
                    listed(SnapshotList::Transient { retry_after_ms: None }),
                );
            }
            BootstrapOutput::ReadManifest { request, name } => {
                let key = snapshot_key(&self.node_id, SnapshotObject::Manifest(name));
                let read = move |outcome| BootstrapInput::ManifestRead { request, outcome };
                self.ask(
                    move |store| read(read_manifest(store, &key)),
                    read(ReadOutcome::Transient { retry_after_ms: None }),
                );
            }
            BootstrapOutput::Download { request, name, local_name } => {
                self.download(request, name, &local_name);
            }
            BootstrapOutput::Install { end } => {
                self.end_progress();
                let end = match self.place.install(end) {
                    Ok(opened) => Some(self.opened.insert(opened).end()),
                    Err(error) => {
                        self.events.shell(&ShellEvent::RestoreUnfit { detail: error.to_string() });
                        None
                    }
                };
                self.handle(BootstrapInput::Installed { end });
            }
            BootstrapOutput::Done { .. } => {
                return Some(Ok(self.opened.take().expect("it was installed before it is done")));
            }
            BootstrapOutput::Event(event) => {
                if let BootstrapEvent::Chosen { bytes, .. } = event {
                    self.begin_progress(bytes);
                }
                self.events.shell(&ShellEvent::Restore(event));
            }
            BootstrapOutput::Failed(reason) => return Some(Err(reason)),
        }
        None
    }

    fn discard(&mut self) {
        self.opened = None;
        self.downloads.give_up_all();
        self.progress_due = None;
        let done = match self.place.discard() {
            Ok(()) => true,
            Err(error) => {
                self.events.shell(&ShellEvent::Failure { detail: error.to_string() });
                false
            }
        };
        self.handle(BootstrapInput::Discarded { done });
    }

    fn download(&mut self, request: RequestId, name: FileName, local_name: &Name) {
        let downloaded = move |outcome| BootstrapInput::Downloaded { request, outcome };
        // Created here: one that is begun after a discard would come back into the folder.
        let file = match self.place.download(local_name) {
            Ok(file) => file,
            Err(error) => {
                let detail = format!("cannot create {local_name} for a download: {error}");
                self.events.shell(&ShellEvent::Failure { detail });
                let _ = self.own.send(Message::Input(downloaded(DownloadOutcome::LocalFailure)));
                return;
            }
        };
        let key = snapshot_key(&self.node_id, SnapshotObject::File(name));
        let wanted = self.downloads.begin(local_name);
        let (progress, events) = (self.progress.clone(), Arc::clone(&self.events));
        self.ask(
            move |store| {
                let (outcome, failure) = download(store, &key, file, &wanted, &progress);
                if wanted.is_given_up() {
                    // It was cut off by ourselves: the disk is well.
                    return downloaded(DownloadOutcome::Transient { retry_after_ms: None });
                }
                if let Some(error) = failure {
                    let detail = format!("a download of a snapshot cannot be written: {error}");
                    events.shell(&ShellEvent::Failure { detail });
                }
                downloaded(outcome)
            },
            downloaded(DownloadOutcome::Transient { retry_after_ms: None }),
        );
    }

    /// Makes one request on a thread of its own. Without a thread: `otherwise`, at once.
    fn ask(
        &self,
        request: impl FnOnce(&dyn ObjectStore) -> BootstrapInput + Send + 'static,
        otherwise: BootstrapInput,
    ) {
        let (store, own) = (Arc::clone(&self.store), self.own.clone());
        let started = self.workers.start("dexzd-restore-io", move || {
            let _ = own.send(Message::Input(request(&*store)));
        });
        if started.is_err() {
            let _ = self.own.send(Message::Input(otherwise));
        }
    }

    // Progress, for people.

    fn begin_progress(&mut self, of_bytes: u64) {
        self.progress = Progress::default();
        self.of_bytes = of_bytes;
        self.told_bytes = 0;
        self.progress_due = Some(self.clock.now().instant.saturating_add(PROGRESS_INTERVAL));
    }

    fn tell_progress(&mut self) {
        let now = self.clock.now().instant;
        if self.progress_due.is_some_and(|due| due <= now) {
            self.progress_due = Some(now.saturating_add(PROGRESS_INTERVAL));
            self.tell_bytes();
        }
    }

    fn end_progress(&mut self) {
        if self.progress_due.take().is_some() {
            self.tell_bytes();
        }
    }

    fn tell_bytes(&mut self) {
        let done_bytes = self.progress.bytes();
        if done_bytes != self.told_bytes {
            self.told_bytes = done_bytes;
            self.events.shell(&ShellEvent::RestoreProgress { done_bytes, of_bytes: self.of_bytes });
        }
    }
}
