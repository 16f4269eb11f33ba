use super::Appender;
use crate::names::{Named, Names};

impl Named for Appender {
    fn name(&mut self, names: &mut dyn Names) {
        names.chance(&mut self.rng);
        names.next_request(&mut self.next_request.0);
        if let Some(writing) = &mut self.writing {
            writing.write.name(names);
        }
    }
}
