//! Keeping the lease (HA-3, HA-22 to HA-31, D-1, D-4 to D-9).
//!
//! ```text
//! since                since + D/3                                          cut-off   end
//!   |---- resting ---------| try | back-off | try | back-off | last try -------|-100ms-|
//!                                ^ a read after each failure, beside the next try: it finds a write
//!                                  that landed although its answer was lost or late, and adopts it
//! ```

#[cfg(feature = "exhaustive")]
mod names;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use minicbor::{Decode, Encode};

use super::pen::{Carried, Pen, Tenure, Tries, Try};
use super::record::{HIGHEST_EPOCH, LeaseRecord, LeaseState};
use super::release::Release;
use super::{LeaseInput, LeaseOperation, LeaseTimer, Look};
use crate::backoff::Backoff;
use crate::gate::WallOffset;
use crate::ids::{Epoch, Position, RequestId};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, Version, WriteOutcome};
use crate::time::Instant;

/// Something worth telling people about a holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum HolderEvent {
    /// A renewal landed.
    #[n(0)]
    Renewed {
        /// From its sending to the moment it was known, in milliseconds.
        #[n(0)]
        took_ms: u64,
    },
    /// A renewal that had been given up was found in the lease, or answered late (D-8).
    #[n(1)]
    Adopted {
        /// From its sending to the moment it was known, in milliseconds.
        #[n(0)]
        took_ms: u64,
    },
    /// A try failed.
    #[n(2)]
    TryFailed {
        /// What is left until the cut-off, in milliseconds.
        #[n(0)]
        left_ms: u64,
    },
    /// The wall clock jumped: nothing leaves until a new renewal is known to have landed (D-1).
    #[n(3)]
    DoubtBegan,
    /// It is known.
    #[n(4)]
    DoubtEnded,
}

/// What a holder wants.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum HolderOutput {
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
    /// The lease is this process's own until then, and not in doubt.
    #[n(1)]
    Valid {
        /// The end of the period (D-1).
        #[n(0)]
        until: Instant,
        /// For the gate's own look at the clocks.
        #[n(1)]
        offset: WallOffset,
    },
    /// The lease is in doubt until the next `Valid` (D-1).
    #[n(2)]
    Doubt,
    /// A lease write sent after `Holder::confirm` has landed (D-42).
    #[n(3)]
    Confirmed,
    /// A lease write with this bound has landed: what lies below may be deleted (D-30).
    #[n(4)]
    TrimmedBelow(#[n(0)] Position),
    /// Tell people.
    #[n(5)]
    Event(#[n(0)] HolderEvent),
    /// The tenure is over. Nothing follows.
    #[n(6)]
    Lost(#[n(0)] StopReason),
}

/// The process that holds the lease. [`LeaseInput`] in, [`HolderOutput`] out, until `Lost`; the module
/// shows the loop.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holder {
    pen: Pen,
    rng: Rng,
    tenure: Tenure,
    /// The epoch of the next write: the tenure's, except while it is raised (D-55).
    epoch: Epoch,
    carried: Carried,
    tries: Tries,
    reads: Vec<RequestId>,
    step: Step,
    backoff: Backoff,
    /// The offset of the clocks at the last look (D-1).
    offset: WallOffset,
    /// A write with this nonce counter or a higher one ends the doubt.
    doubt: Option<u64>,
    /// A write with this nonce counter or a higher one confirms the lease.
    confirm: Option<u64>,
    outputs: VecDeque<HolderOutput>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Step {
    /// Until D/3 of the period has passed.
    Resting,
    /// One try is waited for; `backoff` was drawn before it started (D-4).
    Trying { request: RequestId, cut_off_at: Instant, backoff: Duration },
    /// The next try starts then.
    BackingOff { until: Instant },
    /// No further try fits: what is under way may still save the tenure until the cut-off.
    Finishing,
    /// The last output was given.
    Over,
}

impl Holder {
    /// The holder of a lease that was just acquired.
    #[must_use]
    pub fn new(pen: Pen, tenure: Tenure, rng: Rng, look: Look) -> Self {
        let offset = WallOffset::at(look.now);
        let mut outputs = VecDeque::new();
        outputs.push_back(HolderOutput::Valid { until: tenure.ends_at(), offset });
        Self {
            pen,
            rng,
            epoch: tenure.record.epoch,
            carried: Carried::of(&tenure.record),
            tenure,
            tries: Tries::default(),
            reads: Vec::new(),
            step: Step::Resting,
            backoff: Backoff::lease(),
            offset,
            doubt: None,
            confirm: None,
            outputs,
        }
    }

    /// Something happened. The end of the period is judged first, replies before timers (D-57).
    pub fn handle(&mut self, look: Look, input: LeaseInput) {
        let late = mutant::is(Mutant::AdoptAfterCutOff) && input != LeaseInput::Tick;
        if !late && !self.look_at_clocks(look) {
            return;
        }
        match input {
            LeaseInput::Written { request, outcome } => self.written(look, request, outcome),
            LeaseInput::Read { request, outcome } => self.read(look, request, outcome),
            LeaseInput::Surveyed { .. } | LeaseInput::Tick => {}
        }
        self.on_time(look);
    }

    /// A look at the clocks: ends the tenure, or begins a doubt. Timers wait for `handle`.
    pub fn look(&mut self, look: Look) {
        if mutant::is(Mutant::AdoptAfterCutOff) {
            return;
        }
        let _over = self.look_at_clocks(look);
    }

    /// Somebody else's look found a jump of the wall clock at that instant: doubt, unless there is one already or a
    /// renewal sent later has landed (D-1).
    pub fn heed_jump(&mut self, look: Look, seen_at: Instant) {
        if self.look_at_clocks(look) && self.doubt.is_none() && self.tenure.since < seen_at {
            self.begin_doubt(look);
        }
    }

    /// Asks for proof that the lease is still this process's own: a renewal sent from now on (D-42).
    /// `Confirmed` follows, or `Lost`.
    pub fn confirm(&mut self, look: Look) {
        if self.look_at_clocks(look) {
            self.confirm = Some(self.pen.next_nonce());
            self.on_time(look);
        }
    }

    /// Raises the epoch above one that the log carries, by a renewal sent at once (D-55). Only before it
    /// serves. `Confirmed` follows, or `Lost`; the new epoch is the tenure's then.
    pub fn raise_epoch(&mut self, look: Look, above: Epoch) {
        self.epoch = self.epoch.max(Epoch(above.0.saturating_add(1).min(HIGHEST_EPOCH.0)));
        self.confirm(look);
    }

    /// The holder's last durable position: later lease writes carry it (D-53).
    pub fn set_log_end(&mut self, position: Position) {
        self.carried.log_end = self.carried.log_end.max(position);
    }

    /// Asks for a higher bound: the next lease write carries it, `TrimmedBelow` follows when one that
    /// does has landed (D-30).
    pub fn raise_trimmed_below(&mut self, position: Position) {
        if mutant::is(Mutant::TrimBeforeLanded) {
            self.outputs.push_back(HolderOutput::TrimmedBelow(position));
        }
        self.carried.trimmed_below = self.carried.trimmed_below.max(position);
    }

    /// Gives the lease back, trying for at most `limit` (D-37, D-51). From here on this epoch never
    /// serves again, whatever comes of it.
    #[must_use]
    pub fn release(self, look: Look, limit: Duration) -> Release {
        Release::new(self.pen, self.rng, self.tenure, self.carried, self.tries, look, limit)
    }

    /// The pen, where nothing is released any more.
    #[must_use]
    pub fn into_pen(self) -> Pen {
        self.pen
    }

    /// What the shell must do: drain until `None`.
    pub fn poll_output(&mut self) -> Option<HolderOutput> {
        self.outputs.pop_front()
    }

    /// When to call again at the latest, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, LeaseTimer)> {
        let cut_off = (self.tenure.renewal_cut_off(), LeaseTimer::RenewalCutOff);
        let next = match self.step {
            Step::Resting if self.proof_is_wanted() => (Instant::ZERO, LeaseTimer::Renewal),
            Step::Resting => (self.tenure.renewal_at(), LeaseTimer::Renewal),
            Step::Trying { cut_off_at, .. } => (cut_off_at, LeaseTimer::TryCutOff),
            Step::BackingOff { until } => (until, LeaseTimer::Retry),
            Step::Finishing => cut_off,
            Step::Over => return None,
        };
        Some(next.min(cut_off))
    }

    /// The lease as it was last known.
    #[must_use]
    pub const fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// Whether the lease is in doubt (D-1).
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    // --- clocks and timers ---

    /// Ends the tenure or begins a doubt, as the clocks say. False if it is over.
    fn look_at_clocks(&mut self, look: Look) -> bool {
        if matches!(self.step, Step::Over) {
            return false;
        }
        if look.now.instant >= self.tenure.renewal_cut_off() {
            self.lose(StopReason::LeaseExpired);
            return false;
        }
        let offset = WallOffset::at(look.now);
        let jumped = offset.jumped_since(self.offset);
        self.offset = offset;
        if jumped && !mutant::is(Mutant::NoDoubt) {
            self.begin_doubt(look);
        }
        true
    }

    /// Only a renewal sent from now on ends it, and one is sent at once.
    fn begin_doubt(&mut self, look: Look) {
        if self.doubt.is_none() {
            self.outputs.push_back(HolderOutput::Doubt);
            self.tell(HolderEvent::DoubtBegan);
        }
        self.doubt = Some(self.pen.next_nonce());
        self.start_try(look);
    }

    fn on_time(&mut self, look: Look) {
        let now = look.now.instant;
        match self.step {
            Step::Resting => {
                if now >= self.tenure.renewal_at() || self.proof_is_wanted() {
                    self.start_try(look);
                }
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
            Step::Finishing | Step::Over => {}
        }
    }

    const fn proof_is_wanted(&self) -> bool {
        self.doubt.is_some() || self.confirm.is_some()
    }

    // --- tries ---

    /// D-5: whether another try fits is judged now, with the back-off that would precede it.
    fn start_try(&mut self, look: Look) {
        let now = look.now.instant;
        let record = self.pen.record(look, self.epoch, LeaseState::Held, self.carried);
        let sent = Try {
            request: self.pen.request(),
            record,
            base: Some(self.tenure.version.clone()),
            sent_at: now,
        };
        let backoff = self.backoff.draw(&mut self.rng);
        let renewal_cut_off = self.tenure.renewal_cut_off();
        let cut_off_at = now.saturating_add(self.tenure.record.duration.try_cut_off());
        let another_fits = cut_off_at.saturating_add(backoff) < renewal_cut_off;
        self.step = Step::Trying {
            request: sent.request,
            cut_off_at: if another_fits { cut_off_at } else { renewal_cut_off },
            backoff,
        };
        self.outputs.push_back(HolderOutput::Request { request: sent.request, operation: sent.operation() });
        self.tries.push(sent);
    }

    fn written(&mut self, look: Look, request: RequestId, outcome: WriteOutcome) {
        let Some(sent) = self.tries.by_request(request).cloned() else {
            return;
        };
        let current = matches!(self.step, Step::Trying { request: it, .. } if it == request);
        match outcome {
            WriteOutcome::Done { version } => {
                let answered = mutant::is(Mutant::TrustFromAnswer);
                let since = if answered { look.now.instant } else { sent.sent_at };
                self.landed(look, sent.record, version, since, current);
            }
            WriteOutcome::Refused => {
                if current && mutant::is(Mutant::ConflictIsLoss) {
                    self.lose(StopReason::LeaseTaken);
                } else if current {
                    self.failed(look, None);
                }
            }
            WriteOutcome::Transient { retry_after_ms } => {
                if current {
                    self.failed(look, retry_after_ms);
                }
            }
            WriteOutcome::Permanent => self.lose(StopReason::StoragePermanent),
            WriteOutcome::LocalFailure => self.lose(StopReason::LocalStoreFailed),
            WriteOutcome::LockReplaced => self.lose(StopReason::DevLockReplaced),
        }
    }

    /// D-6, D-8: reads what came of the failed tries, and tries again if the back-off ends in time.
    fn failed(&mut self, look: Look, retry_after_ms: Option<u64>) {
        let Step::Trying { backoff, .. } = self.step else {
            return;
        };
        let now = look.now.instant;
        let renewal_cut_off = self.tenure.renewal_cut_off();
        self.tell(HolderEvent::TryFailed { left_ms: millis(renewal_cut_off.saturating_since(now)) });
        let backoff = backoff.max(Duration::from_millis(retry_after_ms.unwrap_or(0)));
        let until = now.saturating_add(backoff);
        self.step = if until < renewal_cut_off { Step::BackingOff { until } } else { Step::Finishing };
        let request = self.pen.request();
        self.reads.push(request);
        self.outputs.push_back(HolderOutput::Request { request, operation: LeaseOperation::Read });
    }

    // --- what the lease shows ---

    fn read(&mut self, look: Look, request: RequestId, outcome: ReadOutcome) {
        // A read sent before the newest base was known may show what was before: it is forgotten.
        let Some(index) = self.reads.iter().position(|&it| it == request) else {
            return;
        };
        self.reads.remove(index);
        match outcome {
            ReadOutcome::Found { version, body, .. } => {
                match LeaseRecord::decode(&body, self.pen.node_id()) {
                    Ok(record) => self.found(look, record, version),
                    Err(_) => self.lose(StopReason::LeaseUnreadable),
                }
            }
            ReadOutcome::Missing => self.lose(StopReason::LeaseGone),
            ReadOutcome::Transient { .. } => self.nothing_found(),
            ReadOutcome::Permanent => self.lose(StopReason::StoragePermanent),
            ReadOutcome::LocalFailure => self.lose(StopReason::LocalStoreFailed),
        }
    }

    fn found(&mut self, look: Look, record: LeaseRecord, version: Version) {
        if record == self.tenure.record
            || mutant::is(Mutant::NeverAdopt) && self.tries.by_record(&record).is_some()
        {
            self.nothing_found();
        } else if let Some(own) = self.tries.by_record(&record) {
            let since = match () {
                () if mutant::is(Mutant::AdoptFromLatestTry) => self.tries.latest_sent_at(),
                () if mutant::is(Mutant::AdoptFromNow) => look.now.instant,
                () => own.sent_at,
            };
            self.landed(look, record, version, since, false);
        } else if record.state == LeaseState::Held
            && record.is_of(self.pen.process_id(), self.tenure.record.epoch)
        {
            if mutant::is(Mutant::AdoptUnknownNonce) {
                return self.landed(look, record, version, look.now.instant, false);
            }
            self.lose(StopReason::UnknownOwnWrite);
        } else {
            self.lose(StopReason::LeaseTaken);
        }
    }

    /// The lease stands as before. If no further try fits, that was the last hope.
    fn nothing_found(&mut self) {
        if matches!(self.step, Step::Finishing) && self.reads.is_empty() {
            self.lose(StopReason::LeaseExpired);
        }
    }

    /// One of the kept tries stands in the lease: it is the new base, and *its* send starts the period.
    fn landed(&mut self, look: Look, record: LeaseRecord, version: Version, since: Instant, current: bool) {
        let took_ms = millis(look.now.instant.saturating_since(since));
        self.tell(if current { HolderEvent::Renewed { took_ms } } else { HolderEvent::Adopted { took_ms } });
        let counter = record.nonce.counter;
        let bound = record.trimmed_below;
        let raised = bound > self.tenure.record.trimmed_below;
        self.tenure = Tenure { record, version, since };
        self.tries.clear();
        self.reads.clear();
        self.backoff.reset();
        self.step = Step::Resting;
        if raised {
            self.outputs.push_back(HolderOutput::TrimmedBelow(bound));
        }
        if self.doubt.is_some_and(|needed| counter >= needed || mutant::is(Mutant::DoubtEndedByOlder)) {
            self.doubt = None;
            self.tell(HolderEvent::DoubtEnded);
        }
        if self.doubt.is_none() {
            self.outputs.push_back(HolderOutput::Valid { until: self.tenure.ends_at(), offset: self.offset });
        }
        if self.confirm.is_some_and(|needed| counter >= needed) {
            self.confirm = None;
            self.outputs.push_back(HolderOutput::Confirmed);
        }
    }

    fn tell(&mut self, event: HolderEvent) {
        self.outputs.push_back(HolderOutput::Event(event));
    }

    fn lose(&mut self, reason: StopReason) {
        self.step = Step::Over;
        self.reads.clear();
        self.outputs.push_back(HolderOutput::Lost(reason));
    }
}

fn millis(duration: Duration) -> u64 {
    crate::time::micros(duration) / 1_000
}
