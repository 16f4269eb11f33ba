use super::{Ask, State};
use crate::names::{Named, Names};

impl Named for Ask {
    fn name(&mut self, names: &mut dyn Names) {
        names.backoff(&mut self.backoff);
        match &mut self.state {
            State::Due(at) => names.deadline(at),
            State::Sent { request, cut_off } => {
                names.request(request);
                names.limit(cut_off);
            }
        }
    }
}
