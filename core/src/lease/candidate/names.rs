use super::{Candidate, Expiry, FAILURE_BACKOFF_S, Step};
use crate::names::{Named, Names};
use crate::store::Version;
use crate::time::SlowInstant;

impl Named for Candidate {
    fn name(&mut self, names: &mut dyn Names) {
        self.pen.name(names);
        names.chance(&mut self.rng);
        names.look(&mut self.now);
        match &mut self.step {
            Step::Watching | Step::Over => {}
            Step::Surveying { request, read_sent_at, read_at, cut_off_at } => {
                names.deadline(cut_off_at);
                names.request(request);
                names.slow_origin(read_sent_at);
                names.slow_origin(read_at);
            }
            Step::Pausing(pause) => {
                names.deadline(&mut pause.until);
                if let Some(base) = &mut pause.target.base {
                    names.version(base);
                }
                names.epoch(&mut pause.target.epoch);
            }
            Step::Writing { request, cut_off_at } => {
                names.current_write(request);
                names.deadline(cut_off_at);
            }
        }
        // One that is never answered only says when the next one is due.
        let newest = self.reads.last().map(|read| read.request);
        self.reads.retain(|read| Some(read.request) == newest || names.may_be_answered(read.request));
        for read in &mut self.reads {
            if names.may_be_answered(read.request) {
                names.slow_origin(&mut read.sent_at);
            } else {
                read.sent_at = self.now.slow;
            }
            names.request(&mut read.request);
            names.deadline(&mut read.cut_off_at);
        }
        names.deadline(&mut self.poll_at);
        // Of the newest read only this counts.
        let is_proven = |seen: &mut Expiry| seen.is_proven_by_read_sent_at(self.read_sent_at);
        let is_proven = self.seen.as_mut().is_some_and(is_proven);
        self.read_sent_at = SlowInstant::ZERO;
        if let Some(seen) = &mut self.seen {
            seen.name(names);
            if is_proven {
                self.read_sent_at = seen.provable_at();
            }
        }
        // It only keeps people from being told twice.
        self.told = None;
        if self.pace.lagging_takeover_delay.is_none() {
            self.available = None;
        }
        self.available.take_if(|(base, _)| base.as_ref().is_some_and(|base| names.is_gone(base)));
        if let Some((base, since)) = &mut self.available {
            if let Some(base) = base {
                names.version(base);
            }
            names.origin(since);
        }
        self.own_ended.retain(|record| names.may_be_seen(record, None));
        for record in &mut self.own_ended {
            names.record(record);
        }
        names.seen_epoch(&mut self.highest_epoch_seen);
        self.tries.name(names);
        // What happened on a version that is gone has no effect on what happens on the next.
        let is_gone = |base: &mut Option<Version>| base.as_ref().is_some_and(|base| names.is_gone(base));
        self.refused_on.take_if(is_gone);
        let is_gone = |base: &mut Option<Version>| base.as_ref().is_some_and(|base| names.is_gone(base));
        if self.failed_on.take_if(is_gone).is_some() {
            self.failures = 0;
            self.not_before = self.now.instant;
        }
        for base in [&mut self.refused_on, &mut self.failed_on].into_iter().flatten().flatten() {
            names.version(base);
        }
        self.failures = self.failures.min(FAILURE_BACKOFF_S.len() - 1);
        names.patience(&mut self.failures, &mut self.not_before);
    }
}
