//! After a step down: watching through the hold-off, and the one try to take the lease back (HA-99, HA-102,
//! D-37, D-38).

use alloc::vec::Vec;

use super::{Candidate, CandidateOutput, Step, UnknownHolder};
use crate::ids::ProcessId;
use crate::lease::{LeaseRecord, Look};

impl Candidate {
    /// In the hold-off of a step down: it watches the lease and takes nothing until
    /// [`compete`](Self::compete). `own_ended`: what may still stand in the lease although this process
    /// has given it up (D-37).
    #[must_use]
    pub fn holding_off(mut self, own_ended: Vec<LeaseRecord>) -> Self {
        self.own_ended = own_ended;
        self.is_holding_off = true;
        self
    }

    /// The hold-off is over: tries at once to take the lease back, then goes on like any other candidate.
    /// `Acquired`, `Seen` with another holder, or `RetakeFailed` tells how that try ended (HA-102, D-38).
    pub fn compete(&mut self, look: Look) {
        self.now = look.now;
        self.is_holding_off = false;
        self.is_retaking = true;
        match self.step {
            Step::Writing { .. } | Step::Over => {}
            Step::Watching | Step::Surveying { .. } | Step::Pausing(_) => {
                self.step = Step::Watching;
                // The poll that was due at this very look is as good.
                if self.reads.last().is_none_or(|newest| newest.sent_at < look.now.slow) {
                    self.send_read(look);
                }
            }
        }
    }

    pub(super) fn retake_ended(&mut self, detail: UnknownHolder) {
        if core::mem::take(&mut self.is_retaking) {
            self.outputs.push_back(CandidateOutput::RetakeFailed(detail));
        }
    }

    /// The lease is held: by another, which `Seen` has told, or in this process's name by a write that it
    /// never made.
    pub(super) fn retake_ended_held(&mut self, holder: ProcessId) {
        if holder == self.pen.process_id() {
            self.retake_ended(UnknownHolder::UnknownOwnWrite);
        }
        self.is_retaking = false;
    }

    /// A read failed, or was given up: before the write, or after one that was not answered.
    pub(super) fn retake_ended_unread(&mut self) {
        self.retake_ended(if self.failed_on.is_some() || self.refused_on.is_some() {
            UnknownHolder::TakeBackUnanswered
        } else {
            UnknownHolder::LeaseUnread
        });
    }
}
