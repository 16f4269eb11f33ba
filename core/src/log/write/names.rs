use super::{EntryWrite, Phase};
use crate::names::{Named, Names};

impl Named for EntryWrite {
    fn name(&mut self, names: &mut dyn Names) {
        names.limit(&mut self.deadline);
        names.backoff(&mut self.backoff);
        self.writes.retain(|&request| names.may_be_answered(request));
        for request in &mut self.writes {
            names.request(request);
        }
        match &mut self.phase {
            Phase::Due { send: _, at } => names.deadline(at),
            Phase::Sent { kind: _, request, cut_off } => {
                names.request(request);
                names.limit(cut_off);
            }
        }
    }
}
