//! One snapshot's way: checkpoint, uploads, manifest, read-back. Until the last it does not count.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::desk::{Desk, short_ask, transfer_ask};
use super::io::{Checkpoint, KeeperOptions, KeeperOutput, KeeperTask};
use super::manifest::{Checksum, FileName, Manifest, ManifestName, SnapshotFile};
use crate::ids::{Blob, Position, RequestId};
use crate::log::ask::Ask;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};
use crate::time::Instant;

/// Files on their way at the same time: enough to fill a link whose round trips are long.
const UPLOADS_AT_ONCE: usize = 4;

/// Numbers the uploads of a tenure: no number is given out twice (D-46).
#[derive(Debug)]
pub(super) struct Names {
    pub(super) last: FileName,
}

impl Names {
    /// A name that nobody has ever used.
    fn next(&mut self) -> FileName {
        self.last.counter += 1;
        self.last
    }
}

/// A snapshot that is being made.
#[derive(Debug)]
pub(super) struct Making {
    started_at: Instant,
    uploaded_bytes: u64,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// The local store is being frozen.
    Checkpointing(Option<RequestId>),
    Uploading(Uploading),
    /// The manifest is on its way, or read back.
    Writing {
        ask: Ask,
        read: bool,
        manifest: Manifest,
        body: Blob,
    },
}

#[derive(Debug)]
struct Uploading {
    checkpoint: Checkpoint,
    /// Where each file of the checkpoint stands in the store, once it does.
    stored: Vec<Option<FileName>>,
    waiting: VecDeque<usize>,
    going: Vec<Upload>,
}

#[derive(Debug)]
struct Upload {
    file: usize,
    ask: Ask,
    name: FileName,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Made {
    Going,
    /// It was read back.
    Counts {
        manifest: Manifest,
        uploaded_bytes: u64,
        started_at: Instant,
    },
    /// Another object stands under its name.
    Abandoned(ManifestName),
    Failed(StopReason),
}

impl Making {
    pub(super) const fn new(now: Instant) -> Self {
        Self { started_at: now, uploaded_bytes: 0, step: Step::Checkpointing(None) }
    }

    pub(super) fn poll(&mut self, now: Instant, names: &mut Names, desk: &mut Desk) -> Option<KeeperOutput> {
        match &mut self.step {
            Step::Checkpointing(asked @ None) => {
                let request = desk.request();
                *asked = Some(request);
                Some(KeeperOutput::Checkpoint { request })
            }
            Step::Checkpointing(Some(_)) => None,
            Step::Uploading(uploading) => uploading.poll(now, names, desk),
            Step::Writing { ask, read, manifest, body } => {
                let request = ask.poll(now, &mut desk.next_request)?;
                let name = manifest.name();
                Some(if *read {
                    KeeperOutput::ReadManifest { request, name }
                } else {
                    KeeperOutput::WriteManifest { request, name, body: body.clone() }
                })
            }
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match &self.step {
            Step::Checkpointing(None) => Some(Instant::ZERO),
            Step::Checkpointing(Some(_)) => None,
            Step::Uploading(uploading) => uploading.due(),
            Step::Writing { ask, .. } => Some(ask.due()),
        }
    }

    pub(super) fn time_passed(&mut self, now: Instant, desk: &mut Desk) {
        match &mut self.step {
            Step::Checkpointing(_) => {}
            Step::Uploading(uploading) => {
                for upload in &mut uploading.going {
                    upload.ask.time_passed(now, &mut desk.rng);
                }
            }
            Step::Writing { ask, .. } => ask.time_passed(now, &mut desk.rng),
        }
    }

    /// `reuse`: what the newest complete manifest names, and nothing else (D-46). `above`: the newest
    /// snapshot of this epoch.
    pub(super) fn checkpoint_made(
        &mut self,
        now: Instant,
        request: RequestId,
        checkpoint: Option<Checkpoint>,
        reuse: Option<&Manifest>,
        above: Position,
        options: &KeeperOptions,
    ) -> Made {
        if !matches!(self.step, Step::Checkpointing(Some(asked)) if asked == request) {
            return Made::Going;
        }
        let Some(mut checkpoint) = checkpoint else {
            return Made::Failed(StopReason::LocalStoreFailed);
        };
        assert!(
            checkpoint.end.position > above,
            "the local store has what was applied, and more of it than the snapshot before"
        );
        checkpoint.files.sort_unstable_by(|one, other| one.local_name.cmp(&other.local_name));
        assert!(
            checkpoint.files.is_sorted_by(|one, next| one.local_name < next.local_name),
            "a checkpoint names each file once"
        );
        let there = by_content(reuse);
        let stored: Vec<Option<FileName>> = checkpoint
            .files
            .iter()
            .map(|file| there.get(&(file.checksum, file.size_bytes)).copied())
            .collect();
        let waiting = (0..stored.len()).filter(|&file| stored[file].is_none()).collect();
        self.step = Step::Uploading(Uploading { checkpoint, stored, waiting, going: Vec::new() });
        self.go_on(now, options);
        Made::Going
    }

    pub(super) fn uploaded(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: &WriteOutcome,
        options: &KeeperOptions,
        desk: &mut Desk,
    ) -> Made {
        let Step::Uploading(uploading) = &mut self.step else {
            return Made::Going;
        };
        let Some(index) = uploading.going.iter().position(|upload| upload.ask.awaits(request)) else {
            // Of an upload that was given up: its name is not used, and it will be cleaned away.
            return Made::Going;
        };
        let upload = &mut uploading.going[index];
        match outcome {
            WriteOutcome::Done { .. } => {
                let Upload { file, name, .. } = uploading.going.swap_remove(index);
                uploading.stored[file] = Some(name);
                self.uploaded_bytes += uploading.checkpoint.files[file].size_bytes;
                self.go_on(now, options);
            }
            // Whatever happened to it, its name is not used any more.
            WriteOutcome::Refused => desk.again(now, &mut upload.ask, KeeperTask::Upload, None),
            WriteOutcome::Transient { retry_after_ms } => {
                desk.again(now, &mut upload.ask, KeeperTask::Upload, *retry_after_ms);
            }
            WriteOutcome::Permanent => desk.denied(now, &mut upload.ask, KeeperTask::Upload),
            WriteOutcome::LocalFailure => return Made::Failed(StopReason::LocalStoreFailed),
            WriteOutcome::LockReplaced => return Made::Failed(StopReason::DevLockReplaced),
        }
        Made::Going
    }

    /// Nothing is left to upload: the manifest follows.
    fn go_on(&mut self, now: Instant, options: &KeeperOptions) {
        let Step::Uploading(uploading) = &self.step else {
            return;
        };
        if !uploading.waiting.is_empty() || !uploading.going.is_empty() {
            return;
        }
        let files = uploading.checkpoint.files.iter().zip(&uploading.stored).map(|(file, stored)| {
            let stored_as = stored.expect("it was uploaded or is used again");
            SnapshotFile {
                local_name: file.local_name.clone(),
                stored_as,
                size_bytes: file.size_bytes,
                checksum: file.checksum,
            }
        });
        let manifest = Manifest {
            node_id: options.node_id.clone(),
            process_id: options.process_id,
            epoch: options.epoch,
            end: uploading.checkpoint.end,
            newest_time: uploading.checkpoint.newest_time,
            files: files.collect(),
        };
        let body = manifest.encode();
        self.step = Step::Writing { ask: short_ask(now), read: false, manifest, body };
    }

    pub(super) fn manifest_written(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: &WriteOutcome,
        desk: &mut Desk,
    ) -> Made {
        let Step::Writing { ask, read, .. } = &mut self.step else {
            return Made::Going;
        };
        if *read || !ask.awaits(request) {
            return Made::Going;
        }
        match outcome {
            // Refused: an earlier try may have landed. The read says what stands there.
            WriteOutcome::Done { .. } | WriteOutcome::Refused => {
                *ask = short_ask(now);
                *read = true;
            }
            WriteOutcome::Transient { retry_after_ms } => {
                desk.again(now, ask, KeeperTask::Manifest, *retry_after_ms);
            }
            WriteOutcome::Permanent => desk.denied(now, ask, KeeperTask::Manifest),
            WriteOutcome::LocalFailure => return Made::Failed(StopReason::LocalStoreFailed),
            WriteOutcome::LockReplaced => return Made::Failed(StopReason::DevLockReplaced),
        }
        Made::Going
    }

    pub(super) fn manifest_read(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: &ReadOutcome,
        desk: &mut Desk,
    ) -> Made {
        let Step::Writing { ask, read, manifest, body } = &mut self.step else {
            return Made::Going;
        };
        if !*read || !ask.awaits(request) {
            return Made::Going;
        }
        match outcome {
            ReadOutcome::Found { body: found, .. } if found == body => {
                return Made::Counts {
                    manifest: manifest.clone(),
                    uploaded_bytes: self.uploaded_bytes,
                    started_at: self.started_at,
                };
            }
            ReadOutcome::Found { .. } => return Made::Abandoned(manifest.name()),
            // A write that was refused and changed nothing (D-9).
            ReadOutcome::Missing => {
                *read = false;
                desk.again(now, ask, KeeperTask::Manifest, None);
            }
            ReadOutcome::Transient { retry_after_ms } => {
                desk.again(now, ask, KeeperTask::Manifest, *retry_after_ms);
            }
            ReadOutcome::Permanent | ReadOutcome::LocalFailure => {
                desk.denied(now, ask, KeeperTask::Manifest);
            }
        }
        Made::Going
    }
}

impl Uploading {
    fn poll(&mut self, now: Instant, names: &mut Names, desk: &mut Desk) -> Option<KeeperOutput> {
        while self.going.len() < UPLOADS_AT_ONCE
            && let Some(file) = self.waiting.pop_front()
        {
            let ask = transfer_ask(now, self.checkpoint.files[file].size_bytes);
            self.going.push(Upload { file, ask, name: names.last });
        }
        self.going.iter_mut().find_map(|upload| {
            let request = upload.ask.poll(now, &mut desk.next_request)?;
            // A try that failed may still land: each has a name of its own.
            upload.name = names.next();
            let local_name = self.checkpoint.files[upload.file].local_name.clone();
            Some(KeeperOutput::Upload { request, local_name, name: upload.name })
        })
    }

    fn due(&self) -> Option<Instant> {
        self.going.iter().map(|upload| upload.ask.due()).min()
    }
}

fn by_content(manifest: Option<&Manifest>) -> BTreeMap<(Checksum, u64), FileName> {
    let files = manifest.into_iter().flat_map(|manifest| &manifest.files);
    files.map(|file| ((file.checksum, file.size_bytes), file.stored_as)).collect()
}
