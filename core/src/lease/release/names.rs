use super::{Release, Step};
use crate::names::{Named, Names};

impl Named for Release {
    fn name(&mut self, names: &mut dyn Names) {
        self.pen.name(names);
        names.chance(&mut self.rng);
        names.tenure(&mut self.tenure);
        self.renewals.name(names);
        self.releases.name(names);
        // One that is never answered changes nothing.
        self.reads.retain(|&request| names.may_be_answered(request));
        for request in &mut self.reads {
            names.request(request);
        }
        match &mut self.step {
            Step::Over => {}
            Step::Trying { request, cut_off_at } => {
                names.current_write(request);
                names.deadline(cut_off_at);
            }
            Step::BackingOff { until } => names.deadline(until),
        }
        names.deadline(&mut self.limit_at);
    }
}
