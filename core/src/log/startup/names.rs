use super::{Phase, Startup};
use crate::names::{Named, Names};

impl Named for Startup {
    fn name(&mut self, names: &mut dyn Names) {
        names.look(&mut self.now);
        names.chance(&mut self.rng);
        names.next_request(&mut self.next_request.0);
        // One is told to people; of the other only the first and the last count.
        self.entries_applied = 0;
        self.replacements = self.replacements.min(1);
        match &mut self.phase {
            Phase::Reading(ranges) => ranges.name(names),
            Phase::Fencing { write, fence: _ } => write.name(names),
            Phase::Replacing | Phase::Confirming { .. } | Phase::Finishing { .. } | Phase::Over => {}
        }
    }
}
