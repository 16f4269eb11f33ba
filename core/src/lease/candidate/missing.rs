//! A lease object that is missing: what lies beside it decides (D-49).

use core::time::Duration;

use super::{Candidate, CandidateEvent, CandidateOutput, Step, Survey, Target, UnknownHolder, millis};
use crate::ids::{Epoch, Position, RequestId};
use crate::lease::expiry::{Expiry, Sight};
use crate::lease::pen::Carried;
use crate::lease::{LONGEST_ADVISED, LeaseDuration, Look};
use crate::mutant::{self, Mutant};
use crate::stop::StopReason;
use crate::time::SlowInstant;

/// A missing lease beside a log without any fence: nobody is advised to hold one for longer (D-49).
const UNKNOWN_DURATION: Duration = LONGEST_ADVISED;
/// So far above the highest epoch in the log that an acquisition which never reached it cannot be
/// repeated (D-49).
const EPOCH_GAP: u64 = 1_000;
/// A survey lists log and snapshots and reads the newest fence; one that takes longer is asked for again. Like every
/// request it may never be answered, and nobody else would look at the lease meanwhile.
const SURVEY_CUT_OFF: Duration = Duration::from_secs(60);

impl Candidate {
    pub(super) fn found_missing(&mut self, look: Look, read_sent_at: SlowInstant) {
        self.unreadable = None;
        self.tries.keep_base(None);
        if self.stopping {
            self.finish(CandidateOutput::Stopped);
            return;
        }
        self.retake_ended(UnknownHolder::LeaseMissing);
        let known = self.seen.as_ref().filter(|seen| seen.is_of(&Sight::Missing));
        if known.is_some_and(|seen| !seen.is_proven_by_read_sent_at(read_sent_at)) {
            return;
        }
        let request = self.pen.request();
        let cut_off_at = look.now.instant.saturating_add(SURVEY_CUT_OFF);
        self.step = Step::Surveying { request, read_sent_at, read_at: look.now.slow, cut_off_at };
        self.outputs.push_back(CandidateOutput::Survey { request });
    }

    pub(super) fn surveyed(&mut self, look: Look, request: RequestId, survey: Option<Survey>) {
        let Step::Surveying { request: expected, read_sent_at, read_at, .. } = self.step else {
            return;
        };
        if request != expected {
            return;
        }
        self.watch_again_after(look, self.pace.poll_interval);
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
        if mutant::is(Mutant::MissingCreatedAtOnce) {
            return self.take(look, target);
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
}
