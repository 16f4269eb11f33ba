use super::{Pen, Tries};
use crate::names::{Named, Names};

impl Named for Pen {
    fn name(&mut self, names: &mut dyn Names) {
        names.next_request(&mut self.next_request);
        names.next_nonce(self.process_id, &mut self.next_nonce);
        names.process(&mut self.process_id);
    }
}

impl Named for Tries {
    fn name(&mut self, names: &mut dyn Names) {
        for sent in &mut self.0 {
            names.request(&mut sent.request);
            names.record(&mut sent.record);
            if let Some(base) = &mut sent.base {
                names.version(base);
            }
            names.origin(&mut sent.sent_at);
        }
    }
}
