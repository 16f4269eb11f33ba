//! What the active does about snapshots: when to make one, when the log may be trimmed, what may be
//! deleted (D-11, D-30, D-46).

use alloc::collections::VecDeque;

use super::cleaning::{Cleaned, Cleaning};
use super::desk::Desk;
use super::io::{KeeperEvent, KeeperInput, KeeperOptions, KeeperOutput};
use super::making::{Made, Making, Names};
use super::manifest::{FileName, Manifest};
use super::survey::{Survey, Surveyed};
use super::trimming::Trimming;
use crate::ids::Position;
use crate::mutant::{self, Mutant};
use crate::stop::StopReason;
use crate::time::{Instant, Now, micros};

/// Two are kept: the newest, and one to fall back to (D-30, lesson D4).
const KEPT: usize = 2;

/// Keeps the snapshots of one tenure, from the moment its fence is applied until the epoch ends: then
/// it is dropped, with whatever it had begun. What lands late does no harm.
///
/// ```text
/// new(now, options)
/// while let Some(output) = poll_output() { … }
/// handle(now, input)        an answer, news, or Tick when poll_timeout() is reached
/// ```
///
/// It is over after `Failed`.
#[derive(Debug)]
pub struct Keeper {
    options: KeeperOptions,
    now: Instant,
    desk: Desk,
    names: Names,
    /// The newest entry in the local store.
    applied: Position,
    /// Of the entries of this tenure behind the newest snapshot.
    bytes: u64,
    /// Where the next snapshot's entries begin.
    last_position: Position,
    /// When the newest snapshot was read back, or this tenure began.
    last_at: Instant,
    /// What may be used again until there is an own snapshot.
    inherited: Option<Manifest>,
    /// Read back by this process, the newest one last.
    own: VecDeque<Own>,
    /// The highest bound that was asked for.
    bound: Position,
    survey: Option<Survey>,
    making: Option<Making>,
    cleaning: Option<Cleaning>,
    trimming: Trimming,
    is_over: bool,
}

/// A snapshot that counts.
#[derive(Debug)]
struct Own {
    manifest: Manifest,
    read_back_at: Instant,
}

impl Keeper {
    /// The keeper of an epoch whose fence is in the log and applied.
    #[must_use]
    pub fn new(now: Now, options: KeeperOptions) -> Self {
        let now = now.instant;
        let mut trimming = Trimming::new(options.fence.position);
        // The lease that was acquired carries it on: an earlier holder may not have finished.
        trimming.allow(now, options.trimmed_below);
        Self {
            now,
            desk: Desk::new(options.seed),
            names: Names { last: FileName { epoch: options.epoch, counter: 0 } },
            applied: options.fence.position,
            bytes: 0,
            last_position: Position(0),
            last_at: now,
            inherited: None,
            own: VecDeque::new(),
            bound: options.trimmed_below,
            survey: Some(Survey::new(now)),
            making: None,
            cleaning: None,
            trimming,
            is_over: false,
            options,
        }
    }

    /// Something happened. Answers to requests that were given up are dropped.
    pub fn handle(&mut self, now: Now, input: KeeperInput) {
        if self.is_over {
            return;
        }
        let now = now.instant;
        self.now = now;
        self.on_input(now, input);
        self.decide(now);
    }

    /// What the shell must do: drain until None.
    pub fn poll_output(&mut self) -> Option<KeeperOutput> {
        if let Some(output) = self.desk.outputs.pop_front() {
            return Some(output);
        }
        if self.is_over {
            return None;
        }
        let (now, desk) = (self.now, &mut self.desk);
        if let Some(output) = self.survey.as_mut().and_then(|survey| survey.poll(now, desk)) {
            return Some(output);
        }
        let names = &mut self.names;
        if let Some(output) = self.making.as_mut().and_then(|making| making.poll(now, names, desk)) {
            return Some(output);
        }
        if let Some(output) = self.cleaning.as_mut().and_then(|cleaning| cleaning.poll(now, desk)) {
            return Some(output);
        }
        self.trimming.poll(now, desk)
    }

    /// When to hand in a `Tick`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_over {
            return None;
        }
        let parts = [
            self.survey.as_ref().map(Survey::due),
            self.making.as_ref().and_then(Making::due),
            self.cleaning.as_ref().and_then(Cleaning::due),
            self.trimming.due(),
            self.snapshot_due(),
            self.bound_due(),
        ];
        parts.into_iter().flatten().min()
    }

    /// The position of the newest snapshot of this tenure that was read back.
    #[must_use]
    pub fn newest(&self) -> Option<Position> {
        self.own.back().map(|own| own.manifest.end.position)
    }

    fn on_input(&mut self, now: Instant, input: KeeperInput) {
        let Self { options, desk, .. } = self;
        match input {
            KeeperInput::Applied { position, bytes } => {
                self.applied = self.applied.max(position);
                self.bytes = self.bytes.saturating_add(bytes);
            }
            KeeperInput::CheckpointMade { request, checkpoint } => {
                let above = self.own.back().map_or(Position(0), |own| own.manifest.end.position);
                let above = above.max(Position(options.fence.position.0 - 1));
                let reuse = self.own.back().map(|own| &own.manifest).or(self.inherited.as_ref());
                if let Some(making) = &mut self.making {
                    let made = making.checkpoint_made(now, request, checkpoint, reuse, above, options);
                    self.on_made(now, made);
                }
            }
            KeeperInput::Uploaded { request, outcome } => {
                if let Some(making) = &mut self.making {
                    let made = making.uploaded(now, request, &outcome, options, desk);
                    self.on_made(now, made);
                }
            }
            KeeperInput::ManifestWritten { request, outcome } => {
                if let Some(making) = &mut self.making {
                    let made = making.manifest_written(now, request, &outcome, desk);
                    self.on_made(now, made);
                }
            }
            KeeperInput::ManifestRead { request, outcome } => {
                if let Some(survey) = &mut self.survey {
                    let surveyed = survey.read(now, request, &outcome, &options.node_id, desk);
                    self.on_surveyed(surveyed);
                } else {
                    if let Some(cleaning) = &mut self.cleaning {
                        let cleaned = cleaning.read(now, request, &outcome, &options.node_id, desk);
                        self.on_cleaned(cleaned);
                    }
                    if let Some(making) = &mut self.making {
                        let made = making.manifest_read(now, request, &outcome, &mut self.desk);
                        self.on_made(now, made);
                    }
                }
            }
            KeeperInput::SnapshotsListed { request, outcome } => {
                if let Some(survey) = &mut self.survey {
                    let surveyed = survey.listed(now, request, &outcome, desk);
                    self.on_surveyed(surveyed);
                } else if let Some(cleaning) = &mut self.cleaning {
                    let cleaned = cleaning.listed(now, request, &outcome, desk);
                    self.on_cleaned(cleaned);
                }
            }
            KeeperInput::Deleted { request, outcome } => {
                self.trimming.deleted(now, request, outcome, desk);
                if let Some(cleaning) = &mut self.cleaning {
                    let cleaned = cleaning.deleted(now, request, outcome, desk);
                    self.on_cleaned(cleaned);
                }
            }
            KeeperInput::EntriesListed { request, outcome } => {
                self.trimming.listed(now, request, &outcome, desk);
            }
            KeeperInput::EntriesInspected { request, kinds, is_complete } => {
                self.trimming.inspected(now, request, &kinds, is_complete, desk);
            }
            KeeperInput::TrimmedBelow(position) => self.trimming.allow(now, position),
            KeeperInput::LeaseWritten { sent_at } => {
                if let Some(cleaning) = &mut self.cleaning {
                    cleaning.lease_written(now, sent_at);
                }
            }
            KeeperInput::Tick => self.on_tick(now),
        }
    }

    fn on_tick(&mut self, now: Instant) {
        let desk = &mut self.desk;
        if let Some(survey) = &mut self.survey {
            survey.time_passed(now, desk);
        }
        if let Some(making) = &mut self.making {
            making.time_passed(now, desk);
        }
        if let Some(cleaning) = &mut self.cleaning {
            cleaning.time_passed(now, desk);
        }
        self.trimming.time_passed(now, desk);
    }

    fn on_surveyed(&mut self, surveyed: Surveyed) {
        match surveyed {
            Surveyed::Going => {}
            Surveyed::Done(newest) => {
                self.last_position = newest.as_ref().map_or(Position(0), |manifest| manifest.end.position);
                self.inherited = newest;
                self.survey = None;
            }
        }
    }

    fn on_made(&mut self, now: Instant, made: Made) {
        match made {
            Made::Going => {}
            Made::Counts { manifest, uploaded_bytes, started_at } => {
                self.desk.tell(KeeperEvent::Made {
                    name: manifest.name(),
                    files: u64::try_from(manifest.files.len()).expect("a list in memory is countable"),
                    uploaded_bytes,
                    took_ms: micros(now.saturating_since(started_at)) / 1_000,
                });
                self.over_with_making(now, manifest.end.position);
                self.own.push_back(Own { manifest, read_back_at: now });
                if self.own.len() > KEPT {
                    self.own.pop_front();
                }
                if self.own.len() == KEPT {
                    self.inherited = None;
                }
                let known = self.own.iter().map(|own| &own.manifest).chain(&self.inherited);
                self.cleaning = Some(Cleaning::new(now, known));
            }
            Made::Abandoned(name) => {
                self.desk.tell(KeeperEvent::Abandoned(name));
                self.over_with_making(now, name.position);
            }
            Made::Failed(reason) => self.fail(reason),
        }
    }

    fn over_with_making(&mut self, now: Instant, position: Position) {
        self.making = None;
        self.last_position = position;
        self.last_at = now;
        self.bytes = 0;
        self.desk.push(KeeperOutput::DropCheckpoint);
    }

    fn on_cleaned(&mut self, cleaned: Cleaned) {
        match cleaned {
            Cleaned::Going => {}
            Cleaned::Over => self.cleaning = None,
        }
    }

    /// What time or the last input has made due.
    fn decide(&mut self, now: Instant) {
        if self.bound_due().is_some_and(|due| due <= now) {
            // The bound is the older one's position: the newest may turn out unreadable (review 4.9).
            let older = self.bounding().expect("it is due because there are two");
            self.bound = older.manifest.end.position;
            self.desk.push(KeeperOutput::TrimBelow(self.bound));
        }
        if self.snapshot_due().is_some_and(|due| due <= now) {
            self.making = Some(Making::new(now));
            // Its list would show uploads that no manifest names yet.
            if self.cleaning.as_ref().is_some_and(Cleaning::has_no_list) {
                self.cleaning = None;
            }
        }
    }

    fn bounding(&self) -> Option<&Own> {
        if mutant::is(Mutant::TrimToNewest) { self.own.back() } else { self.own.front() }
    }

    /// When the log may be trimmed to the older of two snapshots (D-30).
    fn bound_due(&self) -> Option<Instant> {
        if self.is_over || self.own.len() < KEPT {
            return None;
        }
        let older = self.bounding()?;
        (older.manifest.end.position > self.bound)
            .then(|| older.read_back_at.saturating_add(self.options.cadence.trim_age))
    }

    /// When the next snapshot is due, as far as is known.
    fn snapshot_due(&self) -> Option<Instant> {
        if self.is_over || self.survey.is_some() || self.making.is_some() {
            return None;
        }
        let entries = self.applied.0.saturating_sub(self.last_position.0);
        if entries == 0 {
            return None;
        }
        let cadence = &self.options.cadence;
        let much = entries >= cadence.entries || self.bytes >= cadence.bytes;
        let wanted = if much { Instant::ZERO } else { self.last_at.saturating_add(cadence.at_least_every) };
        // A third one would take the older one's place before it is old enough.
        let trimmed = self.bound_due().unwrap_or(Instant::ZERO);
        let allowed = self
            .own
            .back()
            .map_or(Instant::ZERO, |own| own.read_back_at.saturating_add(cadence.at_most_every));
        Some(wanted.max(trimmed).max(allowed))
    }

    fn fail(&mut self, reason: StopReason) {
        self.is_over = true;
        self.desk.push(KeeperOutput::Failed(reason));
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "keeper_model_tests.rs"]
mod model_tests;
