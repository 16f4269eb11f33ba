//! Which snapshot a new active may take files from: the newest complete one, read after its own fence
//! (D-46). What a manifest of an earlier look names may be on its way to be deleted.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::desk::{Desk, short_ask};
use super::io::{KeeperEvent, KeeperOutput, KeeperTask, SnapshotList, StoredFile};
use super::manifest::{FileName, Manifest, ManifestName};
use crate::ids::{Name, RequestId};
use crate::log::ask::Ask;
use crate::store::ReadOutcome;
use crate::time::Instant;

/// A look at what is there.
#[derive(Debug)]
pub(super) struct Survey {
    step: Step,
    /// Not looked at yet, the newest one last.
    candidates: Vec<ManifestName>,
    files: BTreeMap<FileName, u64>,
}

#[derive(Debug)]
enum Step {
    Listing(Ask),
    Reading { ask: Ask, name: ManifestName },
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Surveyed {
    Going,
    /// The newest complete one, if there is any.
    Done(Option<Manifest>),
}

impl Survey {
    pub(super) const fn new(now: Instant) -> Self {
        Self { step: Step::Listing(short_ask(now)), candidates: Vec::new(), files: BTreeMap::new() }
    }

    pub(super) fn poll(&mut self, now: Instant, desk: &mut Desk) -> Option<KeeperOutput> {
        match &mut self.step {
            Step::Listing(ask) => {
                let request = ask.poll(now, &mut desk.next_request)?;
                Some(KeeperOutput::ListSnapshots { request })
            }
            Step::Reading { ask, name } => {
                let request = ask.poll(now, &mut desk.next_request)?;
                Some(KeeperOutput::ReadManifest { request, name: *name })
            }
        }
    }

    pub(super) const fn due(&self) -> Instant {
        match &self.step {
            Step::Listing(ask) | Step::Reading { ask, .. } => ask.due(),
        }
    }

    pub(super) fn time_passed(&mut self, now: Instant, desk: &mut Desk) {
        match &mut self.step {
            Step::Listing(ask) | Step::Reading { ask, .. } => ask.time_passed(now, &mut desk.rng),
        }
    }

    pub(super) fn listed(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: &SnapshotList,
        desk: &mut Desk,
    ) -> Surveyed {
        let Step::Listing(ask) = &mut self.step else {
            return Surveyed::Going;
        };
        if !ask.awaits(request) {
            return Surveyed::Going;
        }
        match outcome {
            SnapshotList::All { manifests, files } => {
                self.candidates.clone_from(manifests);
                self.candidates.sort_unstable();
                self.files =
                    files.iter().map(|&StoredFile { name, size_bytes }| (name, size_bytes)).collect();
                self.next(now)
            }
            SnapshotList::Transient { retry_after_ms } => {
                desk.again(now, ask, KeeperTask::Survey, *retry_after_ms);
                Surveyed::Going
            }
            SnapshotList::Permanent | SnapshotList::LocalFailure => {
                desk.denied(now, ask, KeeperTask::Survey);
                Surveyed::Going
            }
        }
    }

    pub(super) fn read(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: &ReadOutcome,
        node_id: &Name,
        desk: &mut Desk,
    ) -> Surveyed {
        let Step::Reading { ask, name } = &mut self.step else {
            return Surveyed::Going;
        };
        if !ask.awaits(request) {
            return Surveyed::Going;
        }
        let name = *name;
        let error = match outcome {
            ReadOutcome::Found { body, .. } => match Manifest::decode(body, node_id, name) {
                Ok(manifest) if is_complete(&manifest, &self.files) => {
                    desk.tell(KeeperEvent::Inherited(name));
                    return Surveyed::Done(Some(manifest));
                }
                Ok(_) => None,
                Err(error) => Some(error),
            },
            ReadOutcome::Missing => None,
            ReadOutcome::Transient { retry_after_ms } => {
                desk.again(now, ask, KeeperTask::Survey, *retry_after_ms);
                return Surveyed::Going;
            }
            ReadOutcome::Permanent | ReadOutcome::LocalFailure => {
                desk.denied(now, ask, KeeperTask::Survey);
                return Surveyed::Going;
            }
        };
        desk.tell(KeeperEvent::Unusable { name, error });
        self.next(now)
    }

    fn next(&mut self, now: Instant) -> Surveyed {
        match self.candidates.pop() {
            Some(name) => {
                self.step = Step::Reading { ask: short_ask(now), name };
                Surveyed::Going
            }
            None => Surveyed::Done(None),
        }
    }
}

/// Whether the store has every file of it, at its size.
fn is_complete(manifest: &Manifest, files: &BTreeMap<FileName, u64>) -> bool {
    manifest.files.iter().all(|file| files.get(&file.stored_as) == Some(&file.size_bytes))
}
