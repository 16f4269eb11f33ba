//! The lease machines of the roles: what they want, and what their ends mean.

use core::time::Duration;

use super::event::NodeEvent;
use super::follow::Follow;
use super::io::{OpenLog, Output};
use super::machine::{Lease, Node};
use super::role::Trigger;
use crate::gate::{GateOrder, WallOffset};
use crate::lease::{
    CandidateOutput, Holder, HolderOutput, LeaseInput, Look, ReleaseOutcome, ReleaseOutput, Tenure,
};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::WriteOutcome;

/// A release in order is tried for at most so long, and not beyond the period (D-37).
const RELEASE_LIMIT: Duration = Duration::from_secs(10);
/// A release after a failure is tried for so long (D-51).
const BROKEN_RELEASE_LIMIT: Duration = Duration::from_secs(1);
/// The watchdog waits so long after the end of a lease (D-32).
const WATCHDOG_GRACE: Duration = Duration::from_secs(5);

impl Node {
    pub(super) fn open_log(&mut self) {
        let Some(record) = self.tenure().map(|tenure| tenure.record.clone()) else {
            return;
        };
        self.epoch = Some(record.epoch);
        self.is_store_open = true;
        self.push(Output::OpenLog(OpenLog {
            process_id: record.holder,
            epoch: record.epoch,
            lease_duration: record.duration,
            trimmed_below: record.trimmed_below,
            log_end: record.log_end,
        }));
    }

    /// In doubt it stays shut; the end of the doubt opens it.
    pub(super) fn open_gate(&mut self, look: Look) {
        let order = match &self.lease {
            Lease::Holder(holder) if !holder.is_in_doubt() => {
                let tenure = holder.tenure();
                GateOrder::Open {
                    until: tenure.ends_at(),
                    offset: WallOffset::at(look.now),
                    since: tenure.since,
                }
            }
            Lease::Holder(_) | Lease::Candidate(_) | Lease::Release(_) | Lease::Nobody => GateOrder::Doubt,
        };
        self.push(Output::Gate(order));
    }

    /// From here on this epoch never serves again, whatever becomes of the release (D-37).
    pub(super) fn release(&mut self, look: Look) {
        self.engine_seen_at = None;
        self.plan_store_limit(look);
        self.push(Output::Gate(GateOrder::Close));
        // The lease ends by this process's own release: the watchdog does not apply (D-32).
        self.push(Output::Watchdog { exit_at: None });
        let Lease::Holder(holder) = core::mem::replace(&mut self.lease, Lease::Nobody) else {
            return;
        };
        let left = holder
            .tenure()
            .ends_at()
            .saturating_since(look.now.instant)
            .clamp(BROKEN_RELEASE_LIMIT, RELEASE_LIMIT);
        let limit = match self.reason {
            Some(reason) if reason.has_shut_gate() => BROKEN_RELEASE_LIMIT,
            Some(_) | None => left,
        };
        self.lease = Lease::Release(holder.release(look, limit));
        self.drain_lease(look);
    }

    pub(super) fn stop(&mut self, look: Look) {
        self.engine_seen_at = None;
        if let Lease::Holder(holder) = &self.lease {
            let ended_at = holder.tenure().ends_at().min(look.now.instant);
            self.push(Output::Gate(GateOrder::Close));
            self.push(Output::Watchdog { exit_at: Some(ended_at.saturating_add(WATCHDOG_GRACE)) });
        }
        self.lease = Lease::Nobody;
        self.store_limit_at = None;
        let reason = self.reason.unwrap_or(StopReason::Shutdown);
        self.push(Output::Exit { code: reason.exit_code(), reason });
    }

    // --- the lease machines ---

    pub(super) fn tell_lease(&mut self, look: Look, input: LeaseInput) {
        match &mut self.lease {
            Lease::Candidate(candidate) => candidate.handle(look, input),
            Lease::Holder(holder) => holder.handle(look, input),
            Lease::Release(release) => {
                let landed = matches!(input, LeaseInput::Written { outcome: WriteOutcome::Done { .. }, .. });
                release.handle(look, input);
                if landed && mutant::is(Mutant::LateRenewalReopens) {
                    self.reopen_gate(look);
                }
            }
            Lease::Nobody => {}
        }
        self.drain_lease(look);
    }

    pub(super) fn drain_lease(&mut self, look: Look) {
        loop {
            match &mut self.lease {
                Lease::Candidate(candidate) => match candidate.poll_output() {
                    Some(output) => self.on_candidate(look, output),
                    None => return,
                },
                Lease::Holder(holder) => match holder.poll_output() {
                    Some(output) => self.on_holder(look, output),
                    None => return,
                },
                Lease::Release(release) => match release.poll_output() {
                    Some(output) => self.on_release(look, output),
                    None => return,
                },
                Lease::Nobody => return,
            }
        }
    }

    fn on_candidate(&mut self, look: Look, output: CandidateOutput) {
        match output {
            CandidateOutput::Request { request, operation } => {
                self.push(Output::Lease { request, operation });
            }
            CandidateOutput::Survey { request } => self.push(Output::Survey { request }),
            CandidateOutput::Event(event) => self.tell(NodeEvent::Candidate(event)),
            CandidateOutput::Acquired(tenure) => self.acquired(look, tenure),
            CandidateOutput::Seen(record) => self.lease_seen(&record),
            CandidateOutput::RetakeFailed(detail) => self.retake_failed(detail),
            CandidateOutput::Stopped => self.trigger(look, Trigger::Withdrawn),
            CandidateOutput::Failed(reason) => self.fail(look, reason),
        }
    }

    fn acquired(&mut self, look: Look, tenure: Tenure) {
        let Lease::Candidate(candidate) = core::mem::replace(&mut self.lease, Lease::Nobody) else {
            return;
        };
        self.epoch = Some(tenure.record.epoch);
        self.taken_back(tenure.record.epoch);
        self.follow = Follow::default();
        let rng = Rng::new(self.rng.next_u64());
        self.lease = Lease::Holder(Holder::new(candidate.into_pen(), tenure, rng, look));
        self.trigger(look, Trigger::Acquired);
    }

    fn on_holder(&mut self, look: Look, output: HolderOutput) {
        match output {
            HolderOutput::Request { request, operation } => {
                self.push(Output::Lease { request, operation });
            }
            HolderOutput::Valid { until, offset } => {
                self.push(Output::Watchdog { exit_at: Some(until.saturating_add(WATCHDOG_GRACE)) });
                if self.role.is_serving()
                    && let Lease::Holder(holder) = &self.lease
                {
                    let since = holder.tenure().since;
                    self.push(Output::Gate(GateOrder::Open { until, offset, since }));
                    self.push(Output::LeaseWritten { sent_at: since });
                }
            }
            HolderOutput::Doubt => {
                if self.role.is_serving() {
                    self.push(Output::Gate(GateOrder::Doubt));
                }
            }
            HolderOutput::Confirmed => self.trigger(look, Trigger::Confirmed),
            HolderOutput::TrimmedBelow(position) => self.push(Output::TrimmedBelow(position)),
            HolderOutput::Event(event) => self.tell(NodeEvent::Holder(event)),
            HolderOutput::Lost(reason) => self.fail(look, reason),
        }
    }

    /// Only mutants do.
    fn reopen_gate(&mut self, look: Look) {
        let until = look.now.instant.saturating_add(self.config.lease_duration.period());
        self.push(Output::Gate(GateOrder::Open {
            until,
            offset: WallOffset::at(look.now),
            since: look.now.instant,
        }));
    }

    fn on_release(&mut self, look: Look, output: ReleaseOutput) {
        match output {
            ReleaseOutput::Request { request, operation } => {
                self.push(Output::Lease { request, operation });
            }
            ReleaseOutput::Ended(outcome) => {
                self.tell(NodeEvent::ReleaseEnded(outcome));
                if outcome == ReleaseOutcome::Unconfirmed && mutant::is(Mutant::ReopenAfterRelease) {
                    self.reopen_gate(look);
                }
                if let ReleaseOutcome::Failed(reason) = outcome {
                    self.end_step_down(self.error_of_end(reason));
                    self.reason.get_or_insert(reason);
                }
                let trigger = self.after_release(outcome);
                self.trigger(look, trigger);
            }
        }
    }
}
