//! Giving the lease back (D-12, D-37, D-51).
//!
//! A release is conditional on the last version that the holder knew. A renewal that was still under way
//! has the same condition: whichever lands first, the other never does. If it was the renewal, reading
//! finds it, and the release is built on it. No renewal starts after a release, so that happens once.

#[cfg(feature = "exhaustive")]
mod names;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use minicbor::{Decode, Encode};

use super::pen::{Carried, Pen, Tenure, Tries, Try};
use super::record::{LeaseRecord, LeaseState};
use super::{LeaseInput, LeaseOperation, LeaseTimer, Look};
use crate::backoff::Backoff;
use crate::ids::{Epoch, ProcessId, RequestId};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, Version, WriteOutcome};
use crate::time::Instant;

/// How a release ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum ReleaseOutcome {
    /// The lease is known to be free of this process.
    #[n(0)]
    Released,
    /// Another process already holds it, or held it since.
    #[n(1)]
    TakenOver {
        /// Who.
        #[n(0)]
        holder: ProcessId,
        /// In which epoch.
        #[n(1)]
        epoch: Epoch,
    },
    /// It may or may not have landed: others wait for the expiry.
    #[n(2)]
    Unconfirmed,
    /// The store refuses for good, or the local disk failed.
    #[n(3)]
    Failed(#[n(0)] StopReason),
}

/// What a release wants.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum ReleaseOutput {
    /// Do this with the lease object, and report how it ended.
    #[n(0)]
    Request {
        /// Named by the reply.
        #[n(0)]
        request: RequestId,
        /// What to do.
        #[n(1)]
        operation: LeaseOperation,
    },
    /// It is over. Nothing follows.
    #[n(1)]
    Ended(#[n(0)] ReleaseOutcome),
}

/// A process that gives the lease back. [`LeaseInput`] in, [`ReleaseOutput`] out, until `Ended`; the
/// module shows the loop.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Release {
    pen: Pen,
    rng: Rng,
    tenure: Tenure,
    carried: Carried,
    /// Renewals that may still land.
    renewals: Tries,
    /// Releases that may have landed.
    releases: Tries,
    reads: Vec<RequestId>,
    step: Step,
    backoff: Backoff,
    limit_at: Instant,
    outputs: VecDeque<ReleaseOutput>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Step {
    Trying { request: RequestId, cut_off_at: Instant },
    BackingOff { until: Instant },
    Over,
}

impl Release {
    pub(super) fn new(
        pen: Pen,
        rng: Rng,
        tenure: Tenure,
        carried: Carried,
        renewals: Tries,
        look: Look,
        limit: Duration,
    ) -> Self {
        let mut release = Self {
            pen,
            rng,
            tenure,
            carried,
            renewals,
            releases: Tries::default(),
            reads: Vec::new(),
            step: Step::Over,
            backoff: Backoff::lease(),
            limit_at: look.now.instant.saturating_add(limit),
            outputs: VecDeque::new(),
        };
        release.start_try(look);
        release
    }

    /// Something happened.
    pub fn handle(&mut self, look: Look, input: LeaseInput) {
        if matches!(self.step, Step::Over) {
            return;
        }
        match input {
            LeaseInput::Written { request, outcome } => self.written(look, request, outcome),
            LeaseInput::Read { request, outcome } => self.read(look, request, outcome),
            LeaseInput::Surveyed { .. } | LeaseInput::Tick => {}
        }
        self.on_time(look);
    }

    /// What the shell must do: drain until `None`.
    pub fn poll_output(&mut self) -> Option<ReleaseOutput> {
        self.outputs.pop_front()
    }

    /// When to call again at the latest, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, LeaseTimer)> {
        let next = match self.step {
            Step::Trying { cut_off_at, .. } => (cut_off_at, LeaseTimer::TryCutOff),
            Step::BackingOff { until } => (until, LeaseTimer::Retry),
            Step::Over => return None,
        };
        Some(next.min((self.limit_at, LeaseTimer::ReleaseLimit)))
    }

    /// The pen, for the machine that follows.
    #[must_use]
    pub fn into_pen(self) -> Pen {
        self.pen
    }

    /// For a process that lives on: the pen, and every held record of its own that may still stand in the
    /// lease, or land in it. None of them is served under again (D-37).
    #[must_use]
    pub fn into_pen_and_own(self) -> (Pen, Vec<LeaseRecord>) {
        let mut own: Vec<LeaseRecord> = self.renewals.records().cloned().collect();
        own.push(self.tenure.record);
        (self.pen, own)
    }

    fn on_time(&mut self, look: Look) {
        let now = look.now.instant;
        match self.step {
            Step::Over => {}
            Step::Trying { .. } | Step::BackingOff { .. } if now >= self.limit_at => {
                self.end(ReleaseOutcome::Unconfirmed);
            }
            Step::Trying { cut_off_at, .. } => {
                if now >= cut_off_at {
                    self.failed(look, None);
                }
            }
            Step::BackingOff { until } => {
                if now >= until {
                    self.start_try(look);
                }
            }
        }
    }

    fn start_try(&mut self, look: Look) {
        let now = look.now.instant;
        let forgets = mutant::is(Mutant::ReleaseForgetsEpoch);
        let epoch = if forgets { Epoch(1) } else { self.tenure.record.epoch };
        let record = self.pen.record(look, epoch, LeaseState::Free, self.carried);
        let sent = Try {
            request: self.pen.request(),
            record,
            base: Some(self.tenure.version.clone()),
            sent_at: now,
        };
        self.step = Step::Trying {
            request: sent.request,
            cut_off_at: now.saturating_add(self.pen.duration().try_cut_off()),
        };
        self.outputs.push_back(ReleaseOutput::Request { request: sent.request, operation: sent.operation() });
        self.releases.push(sent);
    }

    fn written(&mut self, look: Look, request: RequestId, outcome: WriteOutcome) {
        if let WriteOutcome::Done { version } = outcome {
            if self.releases.by_request(request).is_some() {
                self.end(ReleaseOutcome::Released);
            } else if let Some(sent) = self.renewals.by_request(request).cloned() {
                self.renewal_landed(look, sent.record, version, sent.sent_at);
            }
            return;
        }
        if !matches!(self.step, Step::Trying { request: it, .. } if it == request) {
            return;
        }
        match outcome {
            WriteOutcome::Done { .. } | WriteOutcome::Refused => self.failed(look, None),
            WriteOutcome::Transient { retry_after_ms } => self.failed(look, retry_after_ms),
            WriteOutcome::Permanent => self.fail(StopReason::StoragePermanent),
            WriteOutcome::LocalFailure => self.fail(StopReason::LocalStoreFailed),
            WriteOutcome::LockReplaced => self.fail(StopReason::DevLockReplaced),
        }
    }

    /// Reads what stands there, and tries again beside it.
    fn failed(&mut self, look: Look, retry_after_ms: Option<u64>) {
        let wait = self.backoff.draw(&mut self.rng).max(Duration::from_millis(retry_after_ms.unwrap_or(0)));
        self.step = Step::BackingOff { until: look.now.instant.saturating_add(wait) };
        let request = self.pen.request();
        self.reads.push(request);
        self.outputs.push_back(ReleaseOutput::Request { request, operation: LeaseOperation::Read });
    }

    fn read(&mut self, look: Look, request: RequestId, outcome: ReadOutcome) {
        let Some(index) = self.reads.iter().position(|&it| it == request) else {
            return;
        };
        self.reads.remove(index);
        match outcome {
            ReadOutcome::Found { version, body, .. } => {
                match LeaseRecord::decode(&body, self.pen.node_id()) {
                    Ok(record) => self.found(look, record, version),
                    Err(_) => self.end(ReleaseOutcome::Unconfirmed),
                }
            }
            ReadOutcome::Missing => self.end(ReleaseOutcome::Unconfirmed),
            ReadOutcome::Transient { .. } => {}
            ReadOutcome::Permanent => self.fail(StopReason::StoragePermanent),
            ReadOutcome::LocalFailure => self.fail(StopReason::LocalStoreFailed),
        }
    }

    fn found(&mut self, look: Look, record: LeaseRecord, version: Version) {
        if record == self.tenure.record {
            return;
        }
        if let Some(own) = self.renewals.by_record(&record) {
            let since = own.sent_at;
            self.renewal_landed(look, record, version, since);
        } else if record.is_of(self.pen.process_id(), self.tenure.record.epoch) {
            self.end(match record.state {
                LeaseState::Free => ReleaseOutcome::Released,
                LeaseState::Held => ReleaseOutcome::Unconfirmed,
            });
        } else {
            self.end(ReleaseOutcome::TakenOver { holder: record.holder, epoch: record.epoch });
        }
    }

    /// The releases sent so far are dead: the lease has moved on to a version of this process's own.
    fn renewal_landed(&mut self, look: Look, record: LeaseRecord, version: Version, since: Instant) {
        self.tenure = Tenure { record, version, since };
        self.renewals.clear();
        self.releases.clear();
        self.reads.clear();
        self.start_try(look);
    }

    fn fail(&mut self, reason: StopReason) {
        self.end(ReleaseOutcome::Failed(reason));
    }

    fn end(&mut self, outcome: ReleaseOutcome) {
        self.step = Step::Over;
        self.outputs.push_back(ReleaseOutput::Ended(outcome));
    }
}
