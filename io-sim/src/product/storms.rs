//! Weather that strikes one process and one part of the store for a while.

use super::{Place, ProductWorld};
use crate::TrueTime;
use crate::dice::{MILLION, Stream};
use crate::swarm::StoreFaults;
use crate::watch::ProcessNumber;
use crate::weather::{self, Fate, Sky};

/// A part of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefix {
    /// The lease object.
    Lease,
    /// The log.
    Log,
    /// Snapshots and their files.
    Snapshots,
}

/// What requests meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StormKind {
    /// Nothing lands.
    BlackOut,
    /// Every leg takes up to 4 s, and half of it fails.
    BrownOut,
    /// Nearly everything is answered with 429 or 503 and Retry-After.
    Throttling,
}

/// A storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Storm {
    pub(super) process: ProcessNumber,
    pub(super) prefix: Option<Prefix>,
    pub(super) kind: StormKind,
    pub(super) until: TrueTime,
}

impl ProductWorld {
    /// What happens to a request that this process sends now.
    pub(super) fn fate(&mut self, at: TrueTime, number: ProcessNumber, prefix: Prefix) -> Fate {
        if self.config.place == Place::Disk {
            return self.quick_fate();
        }
        self.storms.retain(|storm| storm.until > at);
        let storm = self
            .storms
            .iter()
            .find(|storm| storm.process == number && storm.prefix.is_none_or(|only| only == prefix))
            .copied();
        let calm = StoreFaults::none();
        // Far more often than the calm choice, whose weight is a million.
        let (faults, sky) = match storm.map(|storm| storm.kind) {
            None => (self.store_faults, Sky::Clear),
            Some(StormKind::BlackOut) => (calm, Sky::BlackOut),
            Some(StormKind::BrownOut) => (calm, Sky::BrownOut),
            Some(StormKind::Throttling) => (StoreFaults { throttled: 50 * MILLION, ..calm }, Sky::Clear),
        };
        weather::fate(&mut self.dice, &faults, sky)
    }

    /// A store in a folder of the process's own disk.
    pub(super) fn quick_fate(&mut self) -> Fate {
        let lands = self.dice.between(Stream::Store, "folder", 20, 2 * crate::MILLISECOND);
        Fate::calm(lands, 5)
    }
}
