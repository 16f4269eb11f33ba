//! Deleting what no snapshot needs (D-46).
//!
//! ```text
//! list ── read those of the two newest that are not known ── a lease write sent after the list
//!                                                            is known to have landed ── delete
//! ```
//!
//! Between the list and the deletes nothing that it dooms can come into use: a file is used again only
//! if the newest complete manifest names it, and those are spared. The lease write proves that no later
//! epoch existed when the list was made, so that none of its files is in it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::desk::{Desk, short_ask};
use super::io::{DeleteOutcome, KeeperEvent, KeeperOutput, KeeperTask, SnapshotList};
use super::manifest::{FileName, Manifest, ManifestName};
use crate::ids::{Name, RequestId};
use crate::log::ask::Ask;
use crate::mutant::{self, Mutant};
use crate::store::ReadOutcome;
use crate::time::Instant;

/// As many objects as S3 deletes in one request.
const DELETES_AT_ONCE: usize = 1_000;
/// After so many failures the rest is left for the next list.
const DELETE_TRIES: u32 = 8;

/// What the files of known manifests are called.
pub(super) type Known = BTreeMap<ManifestName, Vec<FileName>>;

/// One round of cleaning.
#[derive(Debug)]
pub(super) struct Cleaning {
    step: Step,
    /// Read back by this process: always spared.
    known: Known,
    /// Of the two newest, not read yet.
    unread: Vec<ManifestName>,
    /// In the list, and not spared.
    manifests: BTreeSet<ManifestName>,
    files: BTreeSet<FileName>,
    objects_deleted: u64,
}

#[derive(Debug)]
enum Step {
    Listing(Ask),
    Reading {
        ask: Ask,
        name: ManifestName,
        listed_at: Instant,
    },
    /// Until a lease write sent after the list has landed.
    Awaiting {
        listed_at: Instant,
    },
    Deleting {
        ask: Ask,
        tries: u32,
        manifests: Vec<ManifestName>,
        files: Vec<FileName>,
    },
}

/// Whether it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cleaned {
    Going,
    Over,
}

impl Cleaning {
    /// Begins with a list. `own`: the one or two newest snapshots that this process has read back;
    /// `inherited`: what else it knows.
    pub(super) fn new<'a>(now: Instant, manifests: impl Iterator<Item = &'a Manifest>) -> Self {
        let known = manifests
            .map(|manifest| {
                let files = manifest.files.iter().map(|file| file.stored_as);
                (manifest.name(), files.collect())
            })
            .collect();
        Self {
            step: Step::Listing(short_ask(now)),
            known,
            unread: Vec::new(),
            manifests: BTreeSet::new(),
            files: BTreeSet::new(),
            objects_deleted: 0,
        }
    }

    /// Whether its list may still be made while files are uploaded that no manifest names yet: then it
    /// must not go on.
    pub(super) const fn has_no_list(&self) -> bool {
        matches!(self.step, Step::Listing(_))
    }

    pub(super) fn poll(&mut self, now: Instant, desk: &mut Desk) -> Option<KeeperOutput> {
        match &mut self.step {
            Step::Listing(ask) => {
                let request = ask.poll(now, &mut desk.next_request)?;
                Some(KeeperOutput::ListSnapshots { request })
            }
            Step::Reading { ask, name, .. } => {
                let request = ask.poll(now, &mut desk.next_request)?;
                Some(KeeperOutput::ReadManifest { request, name: *name })
            }
            Step::Awaiting { .. } => None,
            Step::Deleting { ask, manifests, files, .. } => {
                let request = ask.poll(now, &mut desk.next_request)?;
                let (manifests, files) = (manifests.clone(), files.clone());
                Some(KeeperOutput::DeleteSnapshotObjects { request, manifests, files })
            }
        }
    }

    pub(super) const fn due(&self) -> Option<Instant> {
        match &self.step {
            Step::Listing(ask) | Step::Reading { ask, .. } | Step::Deleting { ask, .. } => Some(ask.due()),
            Step::Awaiting { .. } => None,
        }
    }

    pub(super) fn time_passed(&mut self, now: Instant, desk: &mut Desk) {
        match &mut self.step {
            Step::Listing(ask) | Step::Reading { ask, .. } | Step::Deleting { ask, .. } => {
                ask.time_passed(now, &mut desk.rng);
            }
            Step::Awaiting { .. } => {}
        }
    }

    pub(super) fn listed(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: &SnapshotList,
        desk: &mut Desk,
    ) -> Cleaned {
        let Step::Listing(ask) = &mut self.step else {
            return Cleaned::Going;
        };
        if !ask.awaits(request) {
            return Cleaned::Going;
        }
        match outcome {
            SnapshotList::All { manifests, files } => {
                self.manifests = manifests.iter().copied().collect();
                self.files = files.iter().map(|file| file.name).collect();
                self.spare(now)
            }
            SnapshotList::Transient { retry_after_ms } => {
                desk.again(now, ask, KeeperTask::Cleaning, *retry_after_ms);
                Cleaned::Going
            }
            SnapshotList::Permanent | SnapshotList::LocalFailure => {
                desk.denied(now, ask, KeeperTask::Cleaning);
                Cleaned::Going
            }
        }
    }

    /// The two newest of all, and those that this process counts on.
    fn spare(&mut self, now: Instant) -> Cleaned {
        let own = self.known.keys().next_back().copied();
        if self.manifests.last().copied() > own {
            // Somebody is ahead: whatever this process still deletes is not its business to decide.
            return Cleaned::Over;
        }
        let newest: Vec<ManifestName> = self.manifests.iter().rev().take(2).copied().collect();
        self.unread = newest.iter().copied().filter(|name| !self.known.contains_key(name)).collect();
        for name in newest.iter().chain(self.known.keys()) {
            self.manifests.remove(name);
        }
        for file in self.known.values().flatten() {
            self.files.remove(file);
        }
        self.read_next(now, now)
    }

    fn read_next(&mut self, now: Instant, listed_at: Instant) -> Cleaned {
        self.step = match self.unread.pop() {
            Some(name) => Step::Reading { ask: short_ask(now), name, listed_at },
            None if self.manifests.is_empty() && self.files.is_empty() => return Cleaned::Over,
            None => Step::Awaiting { listed_at },
        };
        if mutant::is(Mutant::CleanUnauthorised) && matches!(self.step, Step::Awaiting { .. }) {
            self.delete_next(now);
        }
        Cleaned::Going
    }

    pub(super) fn read(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: &ReadOutcome,
        node_id: &Name,
        desk: &mut Desk,
    ) -> Cleaned {
        let Step::Reading { ask, name, listed_at } = &mut self.step else {
            return Cleaned::Going;
        };
        if !ask.awaits(request) {
            return Cleaned::Going;
        }
        let (name, listed_at) = (*name, *listed_at);
        // What a manifest names that cannot be read, nobody knows: nothing is deleted in this round.
        let error = match outcome {
            ReadOutcome::Found { body, .. } => match Manifest::decode(body, node_id, name) {
                Ok(manifest) => {
                    for file in &manifest.files {
                        self.files.remove(&file.stored_as);
                    }
                    return self.read_next(now, listed_at);
                }
                Err(error) => Some(error),
            },
            ReadOutcome::Missing => None,
            ReadOutcome::Transient { retry_after_ms } => {
                desk.again(now, ask, KeeperTask::Cleaning, *retry_after_ms);
                return Cleaned::Going;
            }
            ReadOutcome::Permanent | ReadOutcome::LocalFailure => {
                desk.denied(now, ask, KeeperTask::Cleaning);
                return Cleaned::Going;
            }
        };
        desk.tell(KeeperEvent::Unusable { name, error });
        Cleaned::Over
    }

    /// A lease write sent then has landed. Equal readings prove nothing: a clock has ticks.
    pub(super) fn lease_written(&mut self, now: Instant, sent_at: Instant) {
        if matches!(self.step, Step::Awaiting { listed_at } if sent_at > listed_at) {
            self.delete_next(now);
        }
    }

    fn delete_next(&mut self, now: Instant) {
        let manifests: Vec<ManifestName> = self.manifests.iter().take(DELETES_AT_ONCE).copied().collect();
        let rest = DELETES_AT_ONCE - manifests.len();
        let files = self.files.iter().take(rest).copied().collect();
        self.step = Step::Deleting { ask: short_ask(now), tries: 0, manifests, files };
    }

    pub(super) fn deleted(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: DeleteOutcome,
        desk: &mut Desk,
    ) -> Cleaned {
        let Step::Deleting { ask, tries, manifests, files } = &mut self.step else {
            return Cleaned::Going;
        };
        if !ask.awaits(request) {
            return Cleaned::Going;
        }
        match outcome {
            DeleteOutcome::Done => {
                for name in manifests.iter() {
                    self.manifests.remove(name);
                }
                for name in files.iter() {
                    self.files.remove(name);
                }
                let objects = manifests.len() + files.len();
                self.objects_deleted += u64::try_from(objects).expect("at most a thousand");
                if self.manifests.is_empty() && self.files.is_empty() {
                    desk.tell(KeeperEvent::Cleaned { objects: self.objects_deleted });
                    return Cleaned::Over;
                }
                self.delete_next(now);
                return Cleaned::Going;
            }
            DeleteOutcome::Transient { retry_after_ms } => {
                *tries += 1;
                desk.again(now, ask, KeeperTask::Cleaning, retry_after_ms);
            }
            DeleteOutcome::Permanent => {
                *tries += 1;
                desk.denied(now, ask, KeeperTask::Cleaning);
            }
        }
        if *tries < DELETE_TRIES { Cleaned::Going } else { Cleaned::Over }
    }
}
