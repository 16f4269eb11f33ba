use super::Ranges;
use crate::names::{Named, Names};

impl Named for Ranges {
    fn name(&mut self, names: &mut dyn Names) {
        match self {
            Self::Reading { ask, again: _ } | Self::Listing(ask) => ask.name(names),
        }
    }
}
