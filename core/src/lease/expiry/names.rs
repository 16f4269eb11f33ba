use super::{Expiry, Sight};
use crate::names::{Named, Names};

impl Named for Expiry {
    fn name(&mut self, names: &mut dyn Names) {
        match &mut self.sight {
            Sight::Missing => {}
            Sight::Held { version, nonce } => names.sight(version, nonce),
        }
        names.slow_origin(&mut self.since);
    }
}
