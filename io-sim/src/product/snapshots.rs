//! Snapshots: what the keeper of the active wants, and what a bootstrap wants.

use dexzd_core::ids::{Epoch, Name, Position, RequestId};
use dexzd_core::log::LogEnd;
use dexzd_core::node::Input;
use dexzd_core::snapshot::{
    Bootstrap, BootstrapInput, BootstrapOptions, BootstrapOutput, Cadence, Checkpoint, DeleteOutcome, Keeper,
    KeeperInput, KeeperOptions, KeeperOutput, SnapshotList, SnapshotObject,
};
use dexzd_core::store::WriteOutcome;
use dexzd_core::time::Timestamp;

use super::checkpoint::{files_of, listed, store_of};
use super::event::Event;
use super::process::{DataAnswer, Desk, Plane, SideJob, ToData};
use super::snapshot_io::{Ask, SnapshotAnswer, snapshot_key};
use super::{NODE, Place, ProductWorld};
use crate::dice::Stream;
use crate::local_store::{LocalStore, SharedStore};
use crate::watch::{ProcessNumber, Seen};
use crate::{MILLISECOND, TrueTime};

/// Deletions that belong to one request of the keeper.
#[derive(Clone, Debug)]
pub(super) struct Deleting {
    /// Not sent yet; manifests come first.
    waiting: Vec<Name>,
    on_their_way: usize,
    failed: bool,
}

/// What a simulated keeper does in seconds and entries where a real one takes minutes and thousands:
/// nothing of D-30 rests on an age.
#[must_use]
fn cadence(seconds: u64) -> Cadence {
    let second = core::time::Duration::from_secs(1);
    Cadence {
        // The most eager one trims within a handful of entries: most runs have few of them in one tenure.
        entries: if seconds == 1 { 6 } else { 20 * seconds },
        bytes: 1 << 20,
        at_least_every: second * u32::try_from(20 * seconds).expect("short"),
        at_most_every: second * u32::try_from(seconds).expect("short"),
        trim_age: second * u32::try_from(2 * seconds).expect("short"),
    }
}

impl ProductWorld {
    /// What became of a request about snapshots.
    pub(super) fn snapshot_answer(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        job: SideJob,
        answer: SnapshotAnswer,
    ) {
        if self.processes[usize::from(number)].side_job != job {
            return;
        }
        match (answer, job.desk) {
            (SnapshotAnswer::ObjectDeleted(request, done), _) => self.deleted(at, number, request, done),
            (answer, Desk::Keeper) => {
                if let Some(input) = answer.for_keeper() {
                    self.keeper_input(at, number, input);
                }
            }
            (answer, Desk::Bootstrap) => {
                let process = &mut self.processes[usize::from(number)];
                if let Some(input) = answer.for_bootstrap(&mut process.downloads) {
                    self.bootstrap_input(at, number, input);
                }
            }
        }
    }

    // The keeper.

    /// The keeper of the epoch that begins to serve.
    pub(super) fn new_keeper(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        epoch: Epoch,
        fence: LogEnd,
    ) -> Option<Box<Keeper>> {
        let seconds = self.config.snapshot_seconds?;
        if self.config.place == Place::Disk {
            return None;
        }
        let seed = self.dice.seed(Stream::Jitter(number), "keeper");
        let process = &mut self.processes[usize::from(number)];
        process.side_job = process.side_job.next(Desk::Keeper);
        process.deleting.clear();
        let options = KeeperOptions {
            node_id: Name::new(NODE),
            process_id: process.process_id,
            epoch,
            fence,
            trimmed_below: process.trimmed_below,
            cadence: cadence(seconds),
            seed,
        };
        Some(Box::new(Keeper::new(process.clocks.now(at), options)))
    }

    pub(super) fn keeper_input(&mut self, at: TrueTime, number: ProcessNumber, input: KeeperInput) {
        self.trace.add(&input);
        let process = &mut self.processes[usize::from(number)];
        let now = process.clocks.now(at);
        if let Plane::Serving(serving) = &mut process.plane
            && let Some(keeper) = &mut serving.keeper
        {
            keeper.handle(now, input);
        }
    }

    pub(super) fn perform_keeper(&mut self, at: TrueTime, number: ProcessNumber, output: KeeperOutput) {
        let index = usize::from(number);
        let job = self.processes[index].side_job;
        match output {
            KeeperOutput::Checkpoint { request } => self.make_checkpoint(at, number, request),
            KeeperOutput::Upload { request, local_name, name } => {
                let file = self.processes[index].checkpoint.get(&local_name).cloned();
                match file {
                    Some(body) => self.ask_snapshot(at, number, request, Ask::Upload(name, body)),
                    None => {
                        let answer = SnapshotAnswer::Uploaded(request, WriteOutcome::LocalFailure);
                        self.tell_data(at, number, ToData::Snapshot(job, answer));
                    }
                }
            }
            KeeperOutput::WriteManifest { request, name, body } => {
                self.ask_snapshot(at, number, request, Ask::WriteManifest(name, body));
            }
            KeeperOutput::ReadManifest { request, name } => {
                self.ask_snapshot(at, number, request, Ask::ReadManifest(name));
            }
            KeeperOutput::ListSnapshots { request } => {
                self.watchers.show(at, &Seen::SnapshotsAsked { process: number });
                self.ask_snapshot(at, number, request, Ask::ListSnapshots);
            }
            KeeperOutput::DropCheckpoint => self.processes[index].checkpoint.clear(),
            KeeperOutput::TrimBelow(position) => self.tell_node(at, number, Input::TrimBelow(position)),
            KeeperOutput::DeleteSnapshotObjects { request, manifests, files } => {
                let objects = manifests.len() + files.len();
                self.watchers.show(at, &Seen::SnapshotDeletion { process: number, objects });
                let manifests = manifests.into_iter().map(SnapshotObject::Manifest);
                let files = files.into_iter().map(SnapshotObject::File);
                let keys = manifests.chain(files).map(|object| snapshot_key(&object)).collect();
                self.delete(at, number, request, keys);
            }
            KeeperOutput::ListEntries { request, after, below, at_most } => {
                self.ask_snapshot(at, number, request, Ask::ListEntries { after, below, at_most });
            }
            KeeperOutput::InspectEntries { request, positions } => {
                self.ask_snapshot(at, number, request, Ask::InspectEntries(positions));
            }
            KeeperOutput::DeleteEntries { request, positions } => {
                self.delete(at, number, request, positions.into_iter().map(Self::log_key).collect());
            }
            KeeperOutput::Event(event) => self.trace.line(at, || format!("p{number} {event:?}")),
            KeeperOutput::Failed(reason) => self.tell_node(at, number, Input::Failed(reason)),
        }
    }

    fn make_checkpoint(&mut self, at: TrueTime, number: ProcessNumber, request: RequestId) {
        let takes = self.dice.between(Stream::Store, "checkpoint", MILLISECOND, 300 * MILLISECOND);
        let fails = self.dice.chance(Stream::Store, "checkpoint_fails", self.strikes.failing_syncs);
        let process = &mut self.processes[usize::from(number)];
        let files = files_of(&process.local.borrow());
        let listed = listed(&files);
        let end = process.local.borrow().end();
        let newest_time = Timestamp::from_micros(process.clocks.wall.read(at));
        process.checkpoint = files;
        let checkpoint = (!fails).then_some(Checkpoint { end, newest_time, files: listed });
        let answer = SnapshotAnswer::CheckpointMade(request, checkpoint);
        let message = ToData::Snapshot(process.side_job, answer);
        let event = Event::ToData(number, process.life, Box::new(message));
        self.heap.push(at + takes, event);
    }

    // Deletions.

    fn delete(&mut self, at: TrueTime, number: ProcessNumber, request: RequestId, mut keys: Vec<Name>) {
        keys.reverse();
        let deleting = Deleting { waiting: keys, on_their_way: 0, failed: false };
        let process = &mut self.processes[usize::from(number)];
        process.deleting.insert(request, deleting);
        self.delete_on(at, number, request);
    }

    /// Manifests one after the other, then everything else at once; then the answer.
    fn delete_on(&mut self, at: TrueTime, number: ProcessNumber, request: RequestId) {
        loop {
            let process = &mut self.processes[usize::from(number)];
            let job = process.side_job;
            let Some(deleting) = process.deleting.get_mut(&request) else {
                return;
            };
            let next_is_manifest = deleting.waiting.last().is_some_and(|key| key.ends_with(".manifest"));
            if deleting.on_their_way > 0 && (next_is_manifest || deleting.waiting.is_empty()) {
                return;
            }
            if deleting.failed || deleting.waiting.is_empty() {
                if deleting.on_their_way > 0 {
                    return;
                }
                let outcome = if deleting.failed {
                    DeleteOutcome::Transient { retry_after_ms: None }
                } else {
                    DeleteOutcome::Done
                };
                process.deleting.remove(&request);
                self.tell_data(at, number, ToData::Snapshot(job, SnapshotAnswer::Deleted(request, outcome)));
                return;
            }
            let key = deleting.waiting.pop().expect("it is not empty");
            deleting.on_their_way += 1;
            self.ask_snapshot(at, number, request, Ask::Delete(key));
            if next_is_manifest {
                return;
            }
        }
    }

    /// One of the deletions was answered, or given up.
    pub(super) fn deleted(&mut self, at: TrueTime, number: ProcessNumber, request: RequestId, done: bool) {
        if let Some(deleting) = self.processes[usize::from(number)].deleting.get_mut(&request) {
            deleting.on_their_way -= 1;
            deleting.failed |= !done;
            self.delete_on(at, number, request);
        }
    }

    // Bootstraps.

    /// The local store is discarded: a bootstrap looks for the next best.
    pub(super) fn begin_bootstrap(&mut self, at: TrueTime, number: ProcessNumber, trimmed_below: Position) {
        let seed = self.dice.seed(Stream::Jitter(number), "bootstrap");
        let process = &mut self.processes[usize::from(number)];
        process.side_job = process.side_job.next(Desk::Bootstrap);
        let options = BootstrapOptions { node_id: Name::new(NODE), trimmed_below, seed };
        process.bootstrap = Some(Box::new(Bootstrap::new(process.clocks.now(at), options)));
    }

    pub(super) fn bootstrap_input(&mut self, at: TrueTime, number: ProcessNumber, input: BootstrapInput) {
        self.trace.add(&input);
        let process = &mut self.processes[usize::from(number)];
        let now = process.clocks.now(at);
        if let Some(bootstrap) = &mut process.bootstrap {
            bootstrap.handle(now, input);
        }
    }

    pub(super) fn perform_bootstrap(&mut self, at: TrueTime, number: ProcessNumber, output: BootstrapOutput) {
        let index = usize::from(number);
        let (job, asker) = (self.processes[index].side_job, self.processes[index].asker);
        match output {
            BootstrapOutput::Discard => {
                let process = &mut self.processes[index];
                // What is still being downloaded belongs to what is discarded.
                let job = process.side_job.next(Desk::Bootstrap);
                process.side_job = job;
                process.local = SharedStore::default();
                process.downloads.clear();
                self.watchers.show(at, &Seen::Discarded { process: number });
                self.tell_data(at, number, ToData::Snapshot(job, SnapshotAnswer::Discarded));
            }
            BootstrapOutput::ListSnapshots { request } if self.config.place == Place::Disk => {
                let outcome = SnapshotList::All { manifests: Vec::new(), files: Vec::new() };
                let answer = SnapshotAnswer::SnapshotsListed(request, outcome);
                self.tell_data(at, number, ToData::Snapshot(job, answer));
            }
            BootstrapOutput::ListSnapshots { request } => {
                self.ask_snapshot(at, number, request, Ask::ListSnapshots);
            }
            BootstrapOutput::ReadManifest { request, name } => {
                self.ask_snapshot(at, number, request, Ask::ReadManifest(name));
            }
            BootstrapOutput::Download { request, name, local_name } => {
                self.ask_snapshot(at, number, request, Ask::Download(name, local_name));
            }
            BootstrapOutput::Install { end } => {
                let process = &mut self.processes[index];
                let downloads = std::mem::take(&mut process.downloads);
                let installed =
                    if end == LogEnd::default() { Some(LocalStore::default()) } else { store_of(&downloads) };
                let end = installed.as_ref().map(LocalStore::end);
                if let Some(store) = installed {
                    process.local = SharedStore::new(store);
                    self.show_local_state(at, number);
                }
                self.tell_data(at, number, ToData::Snapshot(job, SnapshotAnswer::Installed(end)));
            }
            BootstrapOutput::Done { end } => {
                self.processes[index].bootstrap = None;
                self.trace.line(at, || format!("p{number} has a local store at {}", end.position));
                self.tell_data(at, number, ToData::Answer(asker, DataAnswer::LocalStore(end)));
            }
            BootstrapOutput::Event(event) => self.trace.line(at, || format!("p{number} {event:?}")),
            BootstrapOutput::Failed(reason) => {
                self.processes[index].bootstrap = None;
                self.tell_data(at, number, ToData::Answer(asker, DataAnswer::ReplaceFailed(reason)));
            }
        }
    }
}
