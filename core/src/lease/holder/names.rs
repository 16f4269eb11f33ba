use super::{Holder, Step};
use crate::names::{Named, Names};

impl Named for Holder {
    fn name(&mut self, names: &mut dyn Names) {
        let process_id = self.pen.process_id();
        for counter in [&mut self.doubt, &mut self.confirm].into_iter().flatten() {
            names.nonce(process_id, counter);
        }
        self.pen.name(names);
        names.chance(&mut self.rng);
        names.tenure(&mut self.tenure);
        names.epoch(&mut self.epoch);
        self.tries.name(names);
        // One that is never answered is as good as another.
        let mut unanswered = 0;
        self.reads.retain(|&request| {
            let alive = names.may_be_answered(request);
            unanswered += usize::from(!alive);
            alive || unanswered == 1
        });
        for request in &mut self.reads {
            names.request(request);
        }
        match &mut self.step {
            Step::Resting | Step::Finishing | Step::Over => {}
            Step::Trying { request, cut_off_at, backoff: _ } => {
                names.current_write(request);
                names.deadline(cut_off_at);
            }
            Step::BackingOff { until } => names.deadline(until),
        }
    }
}
