//! Waiting for the lease and taking it (HA-17, HA-18, HA-38, HA-39, D-2, D-49, D-52), also as a standby
//! (HA-55 to HA-62) and after a step down (HA-99, HA-102, D-38).

mod io;
mod missing;
#[cfg(feature = "exhaustive")]
mod names;
mod pause;
mod retake;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

pub use self::io::{CandidateConfig, CandidateEvent, CandidateOutput, Pace, Survey, UnknownHolder};
use self::pause::Pause;
use super::expiry::{Expiry, Sight, is_proven_by_stamps};
use super::pen::{Carried, Pen, Tenure, Tries, Try};
use super::record::{LeaseRecord, LeaseState, Nonce, Unreadable};
use super::{LeaseInput, LeaseOperation, LeaseTimer, Look};
use crate::ids::{Epoch, RequestId};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, Version, WriteOutcome};
use crate::time::{Instant, Now, SlowInstant};

/// Between takeovers that failed, not lost races (HA-62); the last one repeats.
const FAILURE_BACKOFF_S: [u64; 6] = [1, 2, 4, 8, 16, 30];
/// Reads given up but still under way; a slow store answers one of them.
const MOST_READS: usize = 4;
/// Own writes that may still land. A forgotten one counts as another's and is waited for.
const MOST_TRIES: usize = 32;

/// A process that wants the lease. [`LeaseInput`] in, [`CandidateOutput`] out, until `Acquired`,
/// `Stopped` or `Failed`; the module shows the loop.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Candidate {
    pen: Pen,
    config: CandidateConfig,
    pace: Pace,
    rng: Rng,
    /// The last look: tells what is left of a wait by the slow clock.
    now: Now,
    step: Step,
    reads: Vec<PendingRead>,
    poll_at: Instant,
    /// When the newest read was sent: one that was sent after the wait is not repeated at once.
    read_sent_at: SlowInstant,
    /// The running observation of a lease that cannot be taken yet.
    seen: Option<Expiry>,
    seen_before: bool,
    /// The newest record that was told.
    told: Option<Nonce>,
    /// What can be taken, and since when that is known (HA-58).
    available: Option<(Option<Version>, Instant)>,
    /// Whether the follower of this hot standby is `following` (HA-59).
    is_hot: bool,
    /// Held records of a tenure of this very process that is over: nobody serves under them (D-37).
    own_ended: Vec<LeaseRecord>,
    /// It only watches: this process stepped down (HA-99).
    is_holding_off: bool,
    /// The one try after the hold-off has not come to an end yet (HA-102).
    is_retaking: bool,
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

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct PendingRead {
    request: RequestId,
    sent_at: SlowInstant,
    cut_off_at: Instant,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Step {
    /// A read is under way, or the next one is planned.
    Watching,
    /// The lease is missing: what lies beside it?
    Surveying { request: RequestId, read_sent_at: SlowInstant, read_at: SlowInstant, cut_off_at: Instant },
    /// It can be taken; the jitter of HA-57 runs, or the delay of HA-58.
    Pausing(Pause),
    /// It is being taken.
    Writing { request: RequestId, cut_off_at: Instant },
    /// The last output was given.
    Over,
}

/// What an acquisition builds on: exactly the state that was judged.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Target {
    base: Option<Version>,
    epoch: Epoch,
    carried: Carried,
}

impl Target {
    fn after(record: &LeaseRecord, version: &Version) -> Self {
        let raised = u64::from(!mutant::is(Mutant::EpochNotRaised));
        Self {
            base: Some(version.clone()),
            epoch: Epoch(record.epoch.0 + raised),
            carried: Carried::of(record),
        }
    }
}

impl Candidate {
    /// A candidate that looks at the lease as soon as it is called (its first timer is due at once).
    #[must_use]
    pub fn new(pen: Pen, config: CandidateConfig, rng: Rng) -> Self {
        Self {
            pen,
            config,
            pace: Pace::default(),
            rng,
            now: Now::default(),
            step: Step::Watching,
            reads: Vec::new(),
            poll_at: Instant::ZERO,
            read_sent_at: SlowInstant::ZERO,
            seen: None,
            seen_before: false,
            told: None,
            available: None,
            is_hot: false,
            own_ended: Vec::new(),
            is_holding_off: false,
            is_retaking: false,
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

    /// As this kind of standby.
    #[must_use]
    pub const fn with_pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
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
            Step::Writing { .. } if mutant::is(Mutant::LeaveDuringTakeover) => {
                self.finish(CandidateOutput::Stopped);
            }
            Step::Writing { .. } | Step::Over => {}
            Step::Watching | Step::Surveying { .. } | Step::Pausing(_) => {
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
            Step::Pausing(pause) => {
                Some((pause.until, LeaseTimer::Takeover).min((self.next_look_at(), LeaseTimer::Poll)))
            }
            Step::Writing { cut_off_at, .. } | Step::Surveying { cut_off_at, .. } => {
                Some((*cut_off_at, LeaseTimer::TryCutOff))
            }
            Step::Over => None,
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

    /// The next read, if nothing is to be proven by it.
    fn next_look_at(&self) -> Instant {
        self.reads.last().map_or(self.poll_at, |newest| newest.cut_off_at)
    }

    fn next_read_at(&self) -> Instant {
        let look_at = self.next_look_at();
        if !self.reads.is_empty() {
            return look_at;
        }
        // Once a read was sent after the wait, the next one is an ordinary poll: in the back-off of a
        // failed takeover an expired lease would else be read without a pause.
        match &self.seen {
            Some(seen) if !seen.is_proven_by_read_sent_at(self.read_sent_at) => {
                let left = seen.provable_at().saturating_since(self.now.slow);
                look_at.min(self.now.instant.saturating_add(left))
            }
            Some(_) | None => look_at,
        }
    }

    fn on_time(&mut self, look: Look) {
        match &self.step {
            Step::Watching => {
                if look.now.instant >= self.next_read_at() {
                    if self.stopping && !self.reads.is_empty() {
                        self.finish(CandidateOutput::Stopped);
                    } else {
                        if !self.reads.is_empty() {
                            self.retake_ended_unread();
                        }
                        self.send_read(look);
                    }
                }
            }
            Step::Pausing(pause) => {
                if look.now.instant >= pause.until {
                    let target = pause.target.clone();
                    self.write(look, target);
                } else if look.now.instant >= self.next_look_at() {
                    self.send_read(look);
                }
            }
            Step::Writing { cut_off_at, .. } => {
                if look.now.instant >= *cut_off_at {
                    self.failed(look, None);
                }
            }
            Step::Surveying { cut_off_at, .. } => {
                if look.now.instant >= *cut_off_at {
                    self.watch_again_after(look, Duration::ZERO);
                    self.send_read(look);
                }
            }
            Step::Over => {}
        }
    }

    fn send_read(&mut self, look: Look) {
        let request = self.pen.request();
        self.read_sent_at = look.now.slow;
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
        let pause = self.take_pause();
        // Whatever another read shows would be older than what the next one will.
        self.watch_again_after(look, self.pace.poll_interval);
        match outcome {
            ReadOutcome::Found { version, .. }
                if pause.as_ref().is_some_and(|it| it.is_on(Some(&version))) =>
            {
                self.step = Step::Pausing(pause.expect("there is one"));
            }
            ReadOutcome::Missing if pause.as_ref().is_some_and(|it| it.is_on(None)) => {
                self.step = Step::Pausing(pause.expect("there is one"));
            }
            ReadOutcome::Found { version, body, stamp_ms } => {
                match LeaseRecord::decode(&body, self.pen.node_id()) {
                    Ok(record) => self.found(look, read.sent_at, record, version, stamp_ms),
                    Err(reason) => self.found_unreadable(reason),
                }
            }
            ReadOutcome::Missing => self.found_missing(look, read.sent_at),
            ReadOutcome::Transient { retry_after_ms } => {
                let wait = Duration::from_millis(retry_after_ms.unwrap_or(0)).max(self.pace.poll_interval);
                self.watch_again_after(look, wait);
                if let Some(pause) = pause {
                    self.step = Step::Pausing(pause);
                } else if self.stopping {
                    self.finish(CandidateOutput::Stopped);
                } else {
                    self.retake_ended_unread();
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
        self.tell_record(&record);
        let target = Target::after(&record, &version);
        // Of one's own that is over: no wait for an expiry (D-37).
        if record.state == LeaseState::Free || self.own_ended.contains(&record) {
            self.seen = None;
            self.take_after_jitter(look, target);
            return;
        }
        if self.config.lock_held {
            self.take(look, target);
            return;
        }
        let mut stamps = stamp_ms.zip(self.config.probe_stamp_ms).filter(|_| first);
        if mutant::is(Mutant::StampsWhileRunning) {
            stamps = stamp_ms.map(|lease| (lease, look.now.wall.as_millis()));
        }
        if stamps.is_some_and(|(lease, probe)| is_proven_by_stamps(&record, lease, probe)) {
            self.take_after_jitter(look, target);
            return;
        }
        let sight = Sight::Held { version, nonce: record.nonce };
        match &self.seen {
            Some(seen) if seen.is_of(&sight) => {
                if seen.is_proven_by_read_sent_at(read_sent_at) {
                    self.take_after_jitter(look, target);
                } else {
                    self.retake_ended_held(record.holder);
                }
            }
            Some(_) | None => {
                self.retake_ended_held(record.holder);
                self.available = None;
                let changed = !first;
                if self.config.fail_if_held && (changed || stamps.is_some()) {
                    self.fail(StopReason::LeaseHeld);
                    return;
                }
                let since = if mutant::is(Mutant::SeenFromSend) { read_sent_at } else { look.now.slow };
                self.seen = Some(Expiry::first_seen(sight, record.duration, since));
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
        self.retake_ended(UnknownHolder::LeaseUnreadable);
    }

    // --- taking it ---

    fn take(&mut self, look: Look, target: Target) {
        if self.may_take(look, &target) {
            self.write(look, target);
        }
    }

    /// A takeover that failed is tried again after a while (HA-62); one that was refused although
    /// nothing changed, at the next poll (D-9). Any change of the lease ends both.
    fn may_take(&mut self, look: Look, target: &Target) -> bool {
        if self.is_holding_off && !mutant::is(Mutant::NoHoldOff) {
            return false;
        }
        if self.refused_on.take().as_ref() == Some(&target.base) {
            self.retake_ended(UnknownHolder::TakeBackRefused);
            return false;
        }
        let backs_off = self.failures > 0 && mutant::is(Mutant::LostRaceBacksOff);
        if self.failed_on.as_ref() == Some(&target.base) || backs_off {
            self.retake_ended(UnknownHolder::TakeBackUnanswered);
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
                if current && mutant::is(Mutant::LostRaceBacksOff) {
                    self.failed(look, None);
                } else if current {
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

    /// Every record once: a follower reads its bounds, a step down who holds the lease.
    fn tell_record(&mut self, record: &LeaseRecord) {
        if self.told != Some(record.nonce) {
            self.told = Some(record.nonce);
            self.outputs.push_back(CandidateOutput::Seen(record.clone()));
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
