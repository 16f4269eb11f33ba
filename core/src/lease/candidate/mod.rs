//! Waiting for the lease and taking it (HA-17, HA-18, HA-38, HA-39, D-2, D-49, D-52).

mod io;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

pub use self::io::{CandidateConfig, CandidateEvent, CandidateOutput, Survey};
use super::expiry::{Expiry, Sight, is_proven_by_stamps};
use super::pen::{Carried, Pen, Tenure, Tries, Try};
use super::record::{LeaseRecord, LeaseState, Unreadable};
use super::{LeaseDuration, LeaseInput, LeaseOperation, LeaseTimer, Look};
use crate::ids::{Epoch, Position, RequestId};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, Version, WriteOutcome};
use crate::time::{Instant, Now, SlowInstant};

/// How often a candidate looks at a lease that it cannot take (D-13, HA-43).
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Spreads the writes of candidates that saw one release (HA-57).
const LONGEST_JITTER: Duration = Duration::from_millis(50);
/// Between takeovers that failed, not lost races (HA-62); the last one repeats.
const FAILURE_BACKOFF_S: [u64; 6] = [1, 2, 4, 8, 16, 30];
/// A missing lease beside a log without any fence: nobody is advised to hold one for longer (D-49).
const UNKNOWN_DURATION: Duration = super::LONGEST_ADVISED;
/// So far above the highest epoch in the log that an acquisition which never reached it cannot be
/// repeated (D-49).
const EPOCH_GAP: u64 = 1_000;
/// Reads given up but still under way; a slow store answers one of them.
const MOST_READS: usize = 4;
/// Own writes that may still land. A forgotten one counts as another's and is waited for.
const MOST_TRIES: usize = 32;

/// A process that wants the lease. [`LeaseInput`] in, [`CandidateOutput`] out, until `Acquired`,
/// `Stopped` or `Failed`; the module shows the loop.
#[derive(Debug)]
pub struct Candidate {
    pen: Pen,
    config: CandidateConfig,
    rng: Rng,
    /// The last look: tells what is left of a wait by the slow clock.
    now: Now,
    step: Step,
    reads: Vec<PendingRead>,
    poll_at: Instant,
    /// The running observation of a lease that cannot be taken yet.
    seen: Option<Expiry>,
    seen_before: bool,
    unreadable: Option<Unreadable>,
    highest_epoch_seen: Epoch,
    tries: Tries,
    /// The last write that was refused or failed: what it was conditional on.
    refused_on: Option<Option<Version>>,
    failed_on: Option<Option<Version>>,
    failures: usize,
    not_before: Instant,
    stopping: bool,
    outputs: VecDeque<CandidateOutput>,
}

#[derive(Clone, Copy, Debug)]
struct PendingRead {
    request: RequestId,
    sent_at: SlowInstant,
    cut_off_at: Instant,
}

#[derive(Debug)]
enum Step {
    /// A read is under way, or the next one is planned.
    Watching,
    /// The lease is missing: what lies beside it?
    Surveying { request: RequestId, read_sent_at: SlowInstant, read_at: SlowInstant },
    /// It can be taken; the jitter of HA-57 runs.
    Pausing { until: Instant, target: Target },
    /// It is being taken.
    Writing { request: RequestId, cut_off_at: Instant },
    /// The last output was given.
    Over,
}

/// What an acquisition builds on: exactly the state that was judged.
#[derive(Clone, Debug)]
struct Target {
    base: Option<Version>,
    epoch: Epoch,
    carried: Carried,
}

impl Target {
    fn after(record: &LeaseRecord, version: &Version) -> Self {
        Self { base: Some(version.clone()), epoch: Epoch(record.epoch.0 + 1), carried: Carried::of(record) }
    }
}

impl Candidate {
    /// A candidate that looks at the lease as soon as it is called (its first timer is due at once).
    #[must_use]
    pub fn new(pen: Pen, config: CandidateConfig, rng: Rng) -> Self {
        Self {
            pen,
            config,
            rng,
            now: Now::default(),
            step: Step::Watching,
            reads: Vec::new(),
            poll_at: Instant::ZERO,
            seen: None,
            seen_before: false,
            unreadable: None,
            highest_epoch_seen: Epoch(0),
            tries: Tries::default(),
            refused_on: None,
            failed_on: None,
            failures: 0,
            not_before: Instant::ZERO,
            stopping: false,
            outputs: VecDeque::new(),
        }
    }

    /// Something happened.
    pub fn handle(&mut self, look: Look, input: LeaseInput) {
        self.now = look.now;
        match input {
            LeaseInput::Written { request, outcome } => self.written(look, request, outcome),
            LeaseInput::Read { request, outcome } => self.read(look, request, outcome),
            LeaseInput::Surveyed { request, survey } => self.surveyed(look, request, survey),
            LeaseInput::Tick => {}
        }
        self.on_time(look);
    }

    /// The process shuts down: starts nothing new, waits for a write under way (one cut-off) and reads
    /// what came of it (D-29). `Stopped` or `Acquired` follows; what was acquired is to be released.
    pub fn stop(&mut self, look: Look) {
        self.now = look.now;
        self.stopping = true;
        match self.step {
            Step::Writing { .. } | Step::Over => {}
            Step::Watching | Step::Surveying { .. } | Step::Pausing { .. } => {
                self.step = Step::Watching;
                if self.tries.is_empty() {
                    self.finish(CandidateOutput::Stopped);
                } else if self.reads.is_empty() {
                    self.send_read(look);
                }
            }
        }
    }

    /// What the shell must do: drain until `None`.
    pub fn poll_output(&mut self) -> Option<CandidateOutput> {
        self.outputs.pop_front()
    }

    /// When to call again at the latest, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, LeaseTimer)> {
        match &self.step {
            Step::Watching => Some((self.next_read_at(), LeaseTimer::Poll)),
            Step::Pausing { until, .. } => Some((*until, LeaseTimer::Takeover)),
            Step::Writing { cut_off_at, .. } => Some((*cut_off_at, LeaseTimer::TryCutOff)),
            Step::Surveying { .. } | Step::Over => None,
        }
    }

    /// Whether a lease write of this candidate may be under way or unanswered.
    #[must_use]
    pub fn may_have_written(&self) -> bool {
        !self.tries.is_empty()
    }

    /// The pen, for the machine that follows.
    #[must_use]
    pub fn into_pen(self) -> Pen {
        self.pen
    }

    fn next_read_at(&self) -> Instant {
        if let Some(newest) = self.reads.last() {
            return newest.cut_off_at;
        }
        let provable_at = self.seen.as_ref().map_or(Instant::MAX, |seen| {
            let left = seen.provable_at().saturating_since(self.now.slow);
            self.now.instant.saturating_add(left)
        });
        self.poll_at.min(provable_at)
    }

    fn on_time(&mut self, look: Look) {
        match &self.step {
            Step::Watching => {
                if look.now.instant >= self.next_read_at() {
                    if self.stopping && !self.reads.is_empty() {
                        self.finish(CandidateOutput::Stopped);
                    } else {
                        self.send_read(look);
                    }
                }
            }
            Step::Pausing { until, target } => {
                if look.now.instant >= *until {
                    let target = target.clone();
                    self.write(look, target);
                }
            }
            Step::Writing { cut_off_at, .. } => {
                if look.now.instant >= *cut_off_at {
                    self.failed(look, None);
                }
            }
            Step::Surveying { .. } | Step::Over => {}
        }
    }

    fn send_read(&mut self, look: Look) {
        let request = self.pen.request();
        if self.reads.len() == MOST_READS {
            self.reads.remove(0);
        }
        self.reads.push(PendingRead {
            request,
            sent_at: look.now.slow,
            cut_off_at: look.now.instant.saturating_add(self.pen.duration().try_cut_off()),
        });
        self.outputs.push_back(CandidateOutput::Request { request, operation: LeaseOperation::Read });
    }

    fn watch_again_after(&mut self, look: Look, wait: Duration) {
        self.step = Step::Watching;
        self.reads.clear();
        self.poll_at = look.now.instant.saturating_add(wait);
    }

    // --- what a read shows ---

    fn read(&mut self, look: Look, request: RequestId, outcome: ReadOutcome) {
        let Some(read) = self.reads.iter().find(|read| read.request == request).copied() else {
            return;
        };
        // Whatever another read shows would be older than what the next one will.
        self.watch_again_after(look, POLL_INTERVAL);
        match outcome {
            ReadOutcome::Found { version, body, stamp_ms } => {
                match LeaseRecord::decode(&body, self.pen.node_id()) {
                    Ok(record) => self.found(look, read.sent_at, record, version, stamp_ms),
                    Err(reason) => self.found_unreadable(reason),
                }
            }
            ReadOutcome::Missing => self.found_missing(look, read.sent_at),
            ReadOutcome::Transient { retry_after_ms } => {
                let wait = Duration::from_millis(retry_after_ms.unwrap_or(0)).max(POLL_INTERVAL);
                self.watch_again_after(look, wait);
                if self.stopping {
                    self.finish(CandidateOutput::Stopped);
                }
            }
            ReadOutcome::Permanent => self.fail(StopReason::StoragePermanent),
            ReadOutcome::LocalFailure => self.fail(StopReason::LocalStoreFailed),
        }
    }

    fn found(
        &mut self,
        look: Look,
        read_sent_at: SlowInstant,
        record: LeaseRecord,
        version: Version,
        stamp_ms: Option<u64>,
    ) {
        let first = !core::mem::replace(&mut self.seen_before, true);
        self.unreadable = None;
        self.highest_epoch_seen = self.highest_epoch_seen.max(record.epoch);
        if let Some(own) = self.tries.by_record(&record) {
            let since = own.sent_at;
            self.landed(look, record, version, since);
            return;
        }
        self.tries.keep_base(Some(&version));
        if self.stopping {
            self.finish(CandidateOutput::Stopped);
            return;
        }
        self.notice_lost_race(&version);
        let target = Target::after(&record, &version);
        if record.state == LeaseState::Free {
            self.seen = None;
            self.take_after_jitter(look, target);
            return;
        }
        if self.config.lock_held {
            self.take(look, target);
            return;
        }
        let stamps = stamp_ms.zip(self.config.probe_stamp_ms).filter(|_| first);
        if stamps.is_some_and(|(lease, probe)| is_proven_by_stamps(&record, lease, probe)) {
            self.take_after_jitter(look, target);
            return;
        }
        let sight = Sight::Held { version, nonce: record.nonce };
        match &self.seen {
            Some(seen) if seen.is_of(&sight) => {
                if seen.is_proven_by_read_sent_at(read_sent_at) {
                    self.take_after_jitter(look, target);
                }
            }
            Some(_) | None => {
                let changed = !first;
                if self.config.fail_if_held && (changed || stamps.is_some()) {
                    self.fail(StopReason::LeaseHeld);
                    return;
                }
                self.seen = Some(Expiry::first_seen(sight, record.duration, look.now.slow));
                self.tell(CandidateEvent::Waiting {
                    holder: record.holder,
                    epoch: record.epoch,
                    longest_wait_ms: millis(record.duration.takeover()),
                });
            }
        }
    }

    fn found_unreadable(&mut self, reason: Unreadable) {
        self.seen_before = true;
        self.seen = None;
        if self.stopping {
            self.finish(CandidateOutput::Stopped);
        } else if self.config.fail_if_held {
            self.fail(StopReason::LeaseUnreadable);
        } else if self.unreadable.as_ref() != Some(&reason) {
            self.unreadable = Some(reason.clone());
            self.tell(CandidateEvent::WaitingForUnreadable(reason));
        }
    }

    fn found_missing(&mut self, look: Look, read_sent_at: SlowInstant) {
        self.unreadable = None;
        self.tries.keep_base(None);
        if self.stopping {
            self.finish(CandidateOutput::Stopped);
            return;
        }
        let known = self.seen.as_ref().filter(|seen| seen.is_of(&Sight::Missing));
        if known.is_some_and(|seen| !seen.is_proven_by_read_sent_at(read_sent_at)) {
            return;
        }
        let request = self.pen.request();
        self.step = Step::Surveying { request, read_sent_at, read_at: look.now.slow };
        self.outputs.push_back(CandidateOutput::Survey { request });
    }

    fn surveyed(&mut self, look: Look, request: RequestId, survey: Option<Survey>) {
        let Step::Surveying { request: expected, read_sent_at, read_at } = self.step else {
            return;
        };
        if request != expected {
            return;
        }
        self.watch_again_after(look, POLL_INTERVAL);
        let Some(survey) = survey else {
            return;
        };
        let highest_epoch = survey.highest_epoch.max(self.highest_epoch_seen);
        let carried = Carried { trimmed_below: survey.newest_manifest, log_end: Position(0) };
        if !survey.anything && highest_epoch == Epoch(0) {
            let target = Target { base: None, epoch: Epoch(1), carried };
            self.take(look, target);
            return;
        }
        let target = Target { base: None, epoch: Epoch(highest_epoch.0 + EPOCH_GAP), carried };
        if self.config.lock_held {
            self.take(look, target);
            return;
        }
        let duration = self.duration_of_missing(survey);
        if let Some(seen) = self.seen.as_mut().filter(|it| it.is_of(&Sight::Missing)) {
            seen.set_duration(duration);
            if seen.is_proven_by_read_sent_at(read_sent_at) {
                self.take_after_jitter(look, target);
            }
            return;
        }
        if self.config.fail_if_held && self.seen_before {
            self.fail(StopReason::LeaseHeld);
            return;
        }
        self.seen_before = true;
        self.seen = Some(Expiry::first_seen(Sight::Missing, duration, read_at));
        self.tell(CandidateEvent::WaitingForMissing { longest_wait_ms: millis(duration.takeover()) });
    }

    /// Like a held lease with the duration that the newest fence records (D-49).
    fn duration_of_missing(&self, survey: Survey) -> LeaseDuration {
        let unknown = LeaseDuration::from_millis(millis(UNKNOWN_DURATION))
            .expect("the longest advised duration is legal");
        survey
            .fence_duration_ms
            .and_then(LeaseDuration::from_millis)
            .unwrap_or_else(|| self.pen.duration().max(unknown))
    }

    // --- taking it ---

    fn take_after_jitter(&mut self, look: Look, target: Target) {
        if !self.may_take(look, &target) {
            return;
        }
        let jitter = Duration::from_micros(self.rng.up_to(crate::time::micros(LONGEST_JITTER)));
        self.step = Step::Pausing { until: look.now.instant.saturating_add(jitter), target };
    }

    fn take(&mut self, look: Look, target: Target) {
        if self.may_take(look, &target) {
            self.write(look, target);
        }
    }

    /// A takeover that failed is tried again after a while (HA-62); one that was refused although
    /// nothing changed, at the next poll (D-9). Any change of the lease ends both.
    fn may_take(&mut self, look: Look, target: &Target) -> bool {
        if self.refused_on.take().as_ref() == Some(&target.base) {
            return false;
        }
        if self.failed_on.as_ref() == Some(&target.base) {
            return look.now.instant >= self.not_before;
        }
        self.failed_on = None;
        self.failures = 0;
        true
    }

    fn write(&mut self, look: Look, target: Target) {
        let record = self.pen.record(look, target.epoch, LeaseState::Held, target.carried);
        let sent = Try { request: self.pen.request(), record, base: target.base, sent_at: look.now.instant };
        self.step = Step::Writing {
            request: sent.request,
            cut_off_at: look.now.instant.saturating_add(self.pen.duration().try_cut_off()),
        };
        self.reads.clear();
        self.outputs
            .push_back(CandidateOutput::Request { request: sent.request, operation: sent.operation() });
        self.tries.push(sent);
        self.tries.keep_newest(MOST_TRIES);
    }

    fn written(&mut self, look: Look, request: RequestId, outcome: WriteOutcome) {
        let Some(sent) = self.tries.by_request(request).cloned() else {
            return;
        };
        let current = matches!(self.step, Step::Writing { request: it, .. } if it == request);
        match outcome {
            WriteOutcome::Done { version } => {
                // A late answer of a try given up counts as found (D-52).
                self.landed(look, sent.record, version, sent.sent_at);
            }
            WriteOutcome::Refused => {
                if current {
                    self.refused_on = Some(sent.base);
                    self.read_back(look);
                }
            }
            WriteOutcome::Transient { retry_after_ms } => {
                if current {
                    self.failed(look, retry_after_ms);
                }
            }
            WriteOutcome::Permanent => self.fail(StopReason::StoragePermanent),
            WriteOutcome::LocalFailure => self.fail(StopReason::LocalStoreFailed),
            WriteOutcome::LockReplaced => self.fail(StopReason::DevLockReplaced),
        }
    }

    /// A write of this process stands in the lease: held until its send + D; past that, nobody served
    /// under it, and the next epoch is acquired on it at once (D-52).
    fn landed(&mut self, look: Look, record: LeaseRecord, version: Version, since: Instant) {
        let tenure = Tenure { record, version, since };
        if self.stopping || look.now.instant < tenure.renewal_cut_off() {
            self.finish(CandidateOutput::Acquired(tenure));
        } else {
            self.refused_on = None;
            let target = Target::after(&tenure.record, &tenure.version);
            self.tries.clear();
            self.write(look, target);
        }
    }

    fn failed(&mut self, look: Look, retry_after_ms: Option<u64>) {
        let Step::Writing { request, .. } = self.step else {
            return;
        };
        let base = self.tries.by_request(request).map(|sent| sent.base.clone());
        self.failed_on = Some(base.flatten());
        let nominal = FAILURE_BACKOFF_S[self.failures.min(FAILURE_BACKOFF_S.len() - 1)];
        self.failures += 1;
        let wait = Duration::from_secs(nominal).max(Duration::from_millis(retry_after_ms.unwrap_or(0)));
        self.not_before = look.now.instant.saturating_add(wait);
        self.tell(CandidateEvent::TakeoverFailed { retry_after_ms: millis(wait) });
        self.read_back(look);
    }

    fn read_back(&mut self, look: Look) {
        self.watch_again_after(look, Duration::ZERO);
        self.send_read(look);
    }

    fn notice_lost_race(&mut self, version: &Version) {
        if self.refused_on.as_ref().is_some_and(|base| base.as_ref() != Some(version)) {
            self.refused_on = None;
            self.tell(CandidateEvent::LostRace);
        }
    }

    fn tell(&mut self, event: CandidateEvent) {
        self.outputs.push_back(CandidateOutput::Event(event));
    }

    fn fail(&mut self, reason: StopReason) {
        self.finish(CandidateOutput::Failed(reason));
    }

    fn finish(&mut self, output: CandidateOutput) {
        self.step = Step::Over;
        self.reads.clear();
        self.tries.clear();
        self.outputs.push_back(output);
    }
}

fn millis(duration: Duration) -> u64 {
    crate::time::micros(duration) / 1_000
}
