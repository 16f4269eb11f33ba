//! Label values, bounded: what applications name themselves cannot fill the memory of a monitor.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::{PoisonError, RwLock};

use dexzd_core::ids::Name;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// Distinct names of one kind that get series of their own; the rest share one.
pub(super) const DISTINCT_NAMES: usize = 200;
/// The shared series.
const OTHER: &str = "(other)";

/// One label value; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Label(Name);

impl EncodeLabelValue for Label {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.0)
    }
}

/// The names of one kind, for example Flow types.
#[derive(Default)]
pub(super) struct Names {
    known: RwLock<BTreeSet<Name>>,
}

impl Names {
    /// The name itself, or the shared one if too many are known already.
    pub(super) fn label(&self, name: &Name) -> Label {
        if self.known.read().unwrap_or_else(PoisonError::into_inner).contains(name) {
            return Label(name.clone());
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < DISTINCT_NAMES || known.contains(name) {
            known.insert(name.clone());
            return Label(name.clone());
        }
        Label(Name::new(OTHER))
    }
}
