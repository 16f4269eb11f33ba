//! How a candidate learns that a lease it does not hold has expired (D-2). Wall clocks of two machines
//! are never compared.

#[cfg(feature = "exhaustive")]
mod names;

use core::time::Duration;

use super::LeaseDuration;
use super::duration::TAKEOVER_MARGIN;
use super::record::{LeaseRecord, Nonce};
use crate::store::Version;
use crate::time::SlowInstant;

/// Stamps of stores are cut to whole seconds.
const STAMP_GRANULARITY: Duration = Duration::from_secs(1);
/// The servers that make up one store agree within this.
const STORE_CLOCKS_SLACK: Duration = Duration::from_secs(60);

/// What one state of the lease object looks like from outside. Version and nonce both count: a store
/// could hash the content, an operator could copy it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Sight {
    /// There is none (D-49).
    Missing,
    /// This one.
    Held { version: Version, nonce: Nonce },
}

/// Own observation: one state of the lease seen unchanged for its duration and one second (D-2 a).
///
/// ```text
/// read completes, shows v1 ......... v1 ......... v1 | a read sent from here on that still shows v1
/// |------------- duration + 1 s, by the slower clock --|   is the proof
/// ```
///
/// Only a read that was *sent* after the wait counts. A candidate that was frozen meanwhile therefore
/// reads again before it concludes anything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Expiry {
    sight: Sight,
    since: SlowInstant,
    wait: Duration,
}

impl Expiry {
    /// A state first seen by a read that completed at `now`.
    pub(super) fn first_seen(sight: Sight, duration: LeaseDuration, now: SlowInstant) -> Self {
        Self { sight, since: now, wait: duration.takeover() }
    }

    pub(super) fn is_of(&self, sight: &Sight) -> bool {
        self.sight == *sight
    }

    /// Another duration for the same state: a missing lease is judged by what the log says (D-49).
    pub(super) fn set_duration(&mut self, duration: LeaseDuration) {
        self.wait = duration.takeover();
    }

    /// From when on a read proves expiry.
    #[must_use]
    pub fn provable_at(&self) -> SlowInstant {
        self.since.saturating_add(self.wait)
    }

    /// Whether a read sent at `sent_at` that shows the same state proves it.
    #[must_use]
    pub fn is_proven_by_read_sent_at(&self, sent_at: SlowInstant) -> bool {
        sent_at >= self.provable_at()
    }
}

/// The store's own clock, judged once, on the first version a process sees (D-2 b): both stamps come
/// from the store, so a process that starts long after a crash need not wait.
pub(super) fn is_proven_by_stamps(lease: &LeaseRecord, lease_stamp_ms: u64, probe_stamp_ms: u64) -> bool {
    let needed = lease.duration.period() + TAKEOVER_MARGIN + STAMP_GRANULARITY + STORE_CLOCKS_SLACK;
    Duration::from_millis(probe_stamp_ms.saturating_sub(lease_stamp_ms)) > needed
}
