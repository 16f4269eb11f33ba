//! A new local store from the newest whole snapshot (D-15, D-43, D-46, review 8.4).
//!
//! ```text
//! discard ─▶ list ─▶ newest usable manifest ─▶ download its files ─▶ install ─▶ Done
//!             ▲              │damaged, a file wrong: the next older one
//!             └──────────────┴──404: that one is broken; list again, a newer one may be there
//! nothing usable ─▶ install an empty store ─▶ Done
//! ```
//!
//! It only reads (HA-51).

mod io;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

pub use self::io::{
    BootstrapEvent, BootstrapInput, BootstrapOptions, BootstrapOutput, DownloadOutcome, SnapshotProblem,
};
use super::desk::{short_ask, transfer_ask};
use super::io::SnapshotList;
use super::manifest::{Manifest, ManifestName};
use crate::ids::RequestId;
use crate::log::LogEnd;
use crate::log::ask::Ask;
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::ReadOutcome;
use crate::time::{Instant, Now};

/// Files on their way at the same time.
const DOWNLOADS_AT_ONCE: usize = 4;

/// One bootstrap.
///
/// ```text
/// new(now, options)
/// while let Some(output) = poll_output() { … }
/// handle(now, input)        an answer, or Tick when poll_timeout() is reached
/// ```
///
/// It is over after `Done` or `Failed`. Dropped before, it leaves downloads behind, which the next one
/// discards.
#[derive(Debug)]
pub struct Bootstrap {
    options: BootstrapOptions,
    now: Instant,
    step: Step,
    /// Found unusable by this bootstrap.
    broken: BTreeSet<ManifestName>,
    next_request: RequestId,
    rng: Rng,
    outputs: VecDeque<BootstrapOutput>,
}

#[derive(Debug)]
enum Step {
    Discarding {
        then: Then,
    },
    Listing(Ask),
    Reading {
        ask: Ask,
        name: ManifestName,
        older: Vec<ManifestName>,
    },
    Downloading {
        manifest: Manifest,
        older: Vec<ManifestName>,
        waiting: VecDeque<usize>,
        going: Vec<Download>,
    },
    Installing {
        name: Option<ManifestName>,
        end: LogEnd,
    },
    Over,
}

/// What follows a discard.
#[derive(Debug)]
enum Then {
    List,
    Next(Vec<ManifestName>),
}

#[derive(Debug)]
struct Download {
    file: usize,
    ask: Ask,
}

impl Bootstrap {
    /// Begins by discarding what is there.
    #[must_use]
    pub fn new(now: Now, options: BootstrapOptions) -> Self {
        Self {
            now: now.instant,
            step: Step::Discarding { then: Then::List },
            broken: BTreeSet::new(),
            next_request: RequestId(1),
            rng: Rng::new(options.seed),
            outputs: VecDeque::from([BootstrapOutput::Discard]),
            options,
        }
    }

    /// Something happened. Answers to requests that were given up are dropped.
    pub fn handle(&mut self, now: Now, input: BootstrapInput) {
        self.now = now.instant;
        match input {
            BootstrapInput::Discarded { done } => self.on_discarded(done),
            BootstrapInput::SnapshotsListed { request, outcome } => self.on_listed(request, outcome),
            BootstrapInput::ManifestRead { request, outcome } => self.on_read(request, &outcome),
            BootstrapInput::Downloaded { request, outcome } => self.on_downloaded(request, outcome),
            BootstrapInput::Installed { end } => self.on_installed(end),
            BootstrapInput::TrimmedBelow(position) => {
                self.options.trimmed_below = self.options.trimmed_below.max(position);
            }
            BootstrapInput::Tick => self.on_tick(),
        }
    }

    /// What the shell must do: drain until None.
    pub fn poll_output(&mut self) -> Option<BootstrapOutput> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        let now = self.now;
        match &mut self.step {
            Step::Listing(ask) => {
                let request = ask.poll(now, &mut self.next_request)?;
                Some(BootstrapOutput::ListSnapshots { request })
            }
            Step::Reading { ask, name, .. } => {
                let request = ask.poll(now, &mut self.next_request)?;
                Some(BootstrapOutput::ReadManifest { request, name: *name })
            }
            Step::Downloading { manifest, waiting, going, .. } => {
                while going.len() < DOWNLOADS_AT_ONCE
                    && let Some(file) = waiting.pop_front()
                {
                    going.push(Download { file, ask: transfer_ask(now, manifest.files[file].size_bytes) });
                }
                going.iter_mut().find_map(|download| {
                    let request = download.ask.poll(now, &mut self.next_request)?;
                    let file = &manifest.files[download.file];
                    let (name, local_name) = (file.stored_as, file.local_name.clone());
                    Some(BootstrapOutput::Download { request, name, local_name })
                })
            }
            Step::Discarding { .. } | Step::Installing { .. } | Step::Over => None,
        }
    }

    /// When to hand in a `Tick`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.step {
            Step::Listing(ask) | Step::Reading { ask, .. } => Some(ask.due()),
            Step::Downloading { going, .. } => going.iter().map(|download| download.ask.due()).min(),
            Step::Discarding { .. } | Step::Installing { .. } | Step::Over => None,
        }
    }

    fn on_tick(&mut self) {
        let now = self.now;
        match &mut self.step {
            Step::Listing(ask) | Step::Reading { ask, .. } => ask.time_passed(now, &mut self.rng),
            Step::Downloading { going, .. } => {
                for download in going {
                    download.ask.time_passed(now, &mut self.rng);
                }
            }
            Step::Discarding { .. } | Step::Installing { .. } | Step::Over => {}
        }
    }

    fn on_discarded(&mut self, done: bool) {
        if !matches!(self.step, Step::Discarding { .. }) {
            return;
        }
        if !done {
            return self.fail(StopReason::LocalStoreFailed);
        }
        match core::mem::replace(&mut self.step, Step::Over) {
            Step::Discarding { then: Then::Next(older) } => self.choose(older),
            Step::Discarding { then: Then::List }
            | Step::Listing(_)
            | Step::Reading { .. }
            | Step::Downloading { .. }
            | Step::Installing { .. }
            | Step::Over => self.step = Step::Listing(short_ask(self.now)),
        }
    }

    fn on_listed(&mut self, request: RequestId, outcome: SnapshotList) {
        let Step::Listing(ask) = &mut self.step else {
            return;
        };
        if !ask.awaits(request) {
            return;
        }
        match outcome {
            SnapshotList::All { mut manifests, .. } => {
                manifests.sort_unstable();
                self.choose(manifests);
            }
            SnapshotList::Transient { retry_after_ms } => {
                ask.retry(self.now, retry_after_ms, &mut self.rng);
                self.tell(BootstrapEvent::Retrying);
            }
            SnapshotList::Permanent => self.fail(StopReason::StoragePermanent),
            SnapshotList::LocalFailure => self.fail(StopReason::LocalStoreFailed),
        }
    }

    /// The newest of these, rising, that can be of use.
    fn choose(&mut self, mut names: Vec<ManifestName>) {
        while let Some(name) = names.pop() {
            if name.position >= self.options.trimmed_below && !self.broken.contains(&name) {
                self.step = Step::Reading { ask: short_ask(self.now), name, older: names };
                return;
            }
        }
        self.tell(BootstrapEvent::Nothing);
        self.install(None, LogEnd::default());
    }

    fn install(&mut self, name: Option<ManifestName>, end: LogEnd) {
        self.step = Step::Installing { name, end };
        self.outputs.push_back(BootstrapOutput::Install { end });
    }

    fn on_read(&mut self, request: RequestId, outcome: &ReadOutcome) {
        let Step::Reading { ask, name, older } = &mut self.step else {
            return;
        };
        if !ask.awaits(request) {
            return;
        }
        let name = *name;
        match outcome {
            ReadOutcome::Found { body, .. } => {
                let older = core::mem::take(older);
                match Manifest::decode(body, &self.options.node_id, name) {
                    Ok(manifest) => self.download(manifest, older),
                    Err(error) => {
                        self.is_broken(name, SnapshotProblem::Manifest(error));
                        self.choose(older);
                    }
                }
            }
            ReadOutcome::Missing => {
                self.is_broken(name, SnapshotProblem::ManifestMissing);
                self.step = Step::Listing(short_ask(self.now));
            }
            ReadOutcome::Transient { retry_after_ms } => {
                ask.retry(self.now, *retry_after_ms, &mut self.rng);
                self.tell(BootstrapEvent::Retrying);
            }
            ReadOutcome::Permanent => self.fail(StopReason::StoragePermanent),
            ReadOutcome::LocalFailure => self.fail(StopReason::LocalStoreFailed),
        }
    }

    fn download(&mut self, manifest: Manifest, older: Vec<ManifestName>) {
        let name = manifest.name();
        self.tell(BootstrapEvent::Chosen { name, bytes: manifest.size_bytes() });
        if manifest.files.is_empty() {
            return self.install(Some(name), manifest.end);
        }
        let waiting = (0..manifest.files.len()).collect();
        self.step = Step::Downloading { manifest, older, waiting, going: Vec::new() };
    }

    fn on_downloaded(&mut self, request: RequestId, outcome: DownloadOutcome) {
        let Step::Downloading { manifest, older, waiting, going } = &mut self.step else {
            return;
        };
        let Some(index) = going.iter().position(|download| download.ask.awaits(request)) else {
            return;
        };
        let file = &manifest.files[going[index].file];
        let (manifest_name, name) = (manifest.name(), file.stored_as);
        match outcome {
            DownloadOutcome::Stored { size_bytes, checksum }
                if size_bytes == file.size_bytes && checksum == file.checksum =>
            {
                going.swap_remove(index);
                if going.is_empty() && waiting.is_empty() {
                    let end = manifest.end;
                    self.install(Some(manifest_name), end);
                }
            }
            DownloadOutcome::Stored { .. } => {
                let then = Then::Next(core::mem::take(older));
                self.is_broken(manifest_name, SnapshotProblem::FileDiffers(name));
                self.discard(then);
            }
            // Cleaned away meanwhile: then a newer one is there. Or it is lost: then an older one serves.
            DownloadOutcome::Missing => {
                self.is_broken(manifest_name, SnapshotProblem::FileMissing(name));
                self.discard(Then::List);
            }
            DownloadOutcome::Transient { retry_after_ms } => {
                going[index].ask.retry(self.now, retry_after_ms, &mut self.rng);
                self.tell(BootstrapEvent::Retrying);
            }
            DownloadOutcome::Permanent => self.fail(StopReason::StoragePermanent),
            DownloadOutcome::LocalFailure => self.fail(StopReason::LocalStoreFailed),
        }
    }

    fn on_installed(&mut self, opened: Option<LogEnd>) {
        let Step::Installing { name, end } = self.step else {
            return;
        };
        match (opened, name) {
            (Some(opened), _) if opened == end => {
                self.step = Step::Over;
                self.outputs.push_back(BootstrapOutput::Done { end });
            }
            (Some(_) | None, Some(name)) => {
                self.is_broken(name, SnapshotProblem::DoesNotOpen);
                self.discard(Then::List);
            }
            // Not even an empty one.
            (Some(_) | None, None) => self.fail(StopReason::LocalStoreFailed),
        }
    }

    fn is_broken(&mut self, name: ManifestName, problem: SnapshotProblem) {
        self.broken.insert(name);
        self.tell(BootstrapEvent::Unusable { name, problem });
    }

    fn discard(&mut self, then: Then) {
        self.step = Step::Discarding { then };
        self.outputs.push_back(BootstrapOutput::Discard);
    }

    fn tell(&mut self, event: BootstrapEvent) {
        self.outputs.push_back(BootstrapOutput::Event(event));
    }

    fn fail(&mut self, reason: StopReason) {
        self.step = Step::Over;
        self.outputs.push_back(BootstrapOutput::Failed(reason));
    }
}

#[cfg(test)]
mod tests;
