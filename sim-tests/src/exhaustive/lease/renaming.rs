//! Makes states that behave alike for ever equal: ranks instead of counters, distances instead of instants.

use std::time::Duration;

use dexzd_core::ids::{Blob, Epoch, ProcessId, RequestId};
use dexzd_core::lease::{LeaseRecord, Nonce};
use dexzd_core::names::Names;
use dexzd_core::rng::Rng;
use dexzd_core::store::Version;
use dexzd_core::time::{Instant, Now, SlowInstant, Timestamp, micros};

use super::Bounds;
use super::world::{BEGIN, duration};

/// The lease's epoch in every canonical state; older ones lie below it without gaps, newer ones above it.
const EPOCH: u64 = 100;
/// Process ids that no living process has.
const DEAD: u128 = 100;
/// Of a record that nobody sees again.
const NOBODY: ProcessId = ProcessId(0);
/// Between a takeover that failed and the next one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// A generator whose first draw is as short as can be: `SplitMix64` turns the sum 0 into 0.
pub(super) const SHORTEST_DRAW: u64 = 0_u64.wrapping_sub(0x9e37_79b9_7f4a_7c15);

/// What one walk over all machines does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Walk {
    /// Finds out whose answers matter, and makes the next draw the shortest.
    Look,
    /// Collects the names.
    Collect,
    /// Writes the new ones.
    Rewrite,
}

/// One process after another is shown to it; see [`Names`].
#[derive(Debug)]
pub(super) struct Renaming {
    pub(super) walk: Walk,
    /// The process whose machine is being walked over.
    pub(super) process: usize,
    pub(super) now: Instant,
    pub(super) tick: u64,
    /// How far back a period matters, in microseconds.
    pub(super) horizon: u64,
    /// How far back an observation matters, in microseconds.
    pub(super) slow_horizon: u64,
    /// Nonces of records that may still be seen.
    pub(super) alive: Vec<Nonce>,
    /// Versions that may still be seen.
    pub(super) alive_versions: Vec<u64>,
    /// Requests under way.
    pub(super) awaited: Vec<(usize, RequestId)>,
    /// Requests whose answer a machine may still be told.
    pub(super) named: Vec<(usize, RequestId)>,
    /// Writes of which any answer moves its machine.
    pub(super) current: Vec<(usize, RequestId)>,
    /// Living processes first.
    pub(super) processes: Vec<ProcessId>,
    pub(super) living: usize,
    pub(super) epoch: Epoch,
    requests: Vec<(usize, u64)>,
    nonces: Vec<(ProcessId, u64)>,
    versions: Vec<u64>,
    older_epochs: Vec<u64>,
    pub(super) lowest_epoch: u64,
}

impl Renaming {
    pub(super) fn new(now: Instant, bounds: &Bounds, processes: Vec<ProcessId>) -> Self {
        let longest_read = if bounds.slow_reads {
            Duration::from_secs(1) + Duration::from_micros(bounds.tick)
        } else {
            Duration::ZERO
        };
        Self {
            walk: Walk::Look,
            process: 0,
            now,
            tick: bounds.tick,
            horizon: micros(duration().period()),
            slow_horizon: micros(duration().takeover() + longest_read),
            alive: Vec::new(),
            alive_versions: Vec::new(),
            awaited: Vec::new(),
            named: Vec::new(),
            current: Vec::new(),
            living: processes.len(),
            processes,
            epoch: Epoch(0),
            requests: Vec::new(),
            nonces: Vec::new(),
            versions: Vec::new(),
            older_epochs: Vec::new(),
            lowest_epoch: u64::MAX,
        }
    }

    /// Between `Collect` and `Rewrite`.
    pub(super) fn rank(&mut self) {
        self.requests.sort_unstable();
        self.requests.dedup();
        self.nonces.sort_unstable();
        self.nonces.dedup();
        self.versions.sort_unstable();
        self.versions.dedup();
        self.older_epochs.sort_unstable();
        self.older_epochs.dedup();
        self.walk = Walk::Rewrite;
    }

    /// A request of this process, as a plain number.
    pub(super) fn request_number(&mut self, process: usize, request: &mut u64) {
        match self.walk {
            Walk::Look => {}
            Walk::Collect => self.requests.push((process, *request)),
            Walk::Rewrite => {
                let rank = |key: &(usize, u64)| self.requests.partition_point(|it| it < key);
                *request = u64::try_from(rank(&(process, *request)) - rank(&(process, 0))).expect("few") + 1;
            }
        }
    }

    /// A version of the object, as a plain number.
    pub(super) fn version_number(&mut self, version: &mut u64) {
        match self.walk {
            Walk::Look => {}
            Walk::Collect if self.alive_versions.contains(version) => self.versions.push(*version),
            Walk::Collect => {}
            Walk::Rewrite if !self.alive_versions.contains(version) => *version = 0,
            Walk::Rewrite => {
                let rank = self.versions.partition_point(|it| it < version);
                *version = u64::try_from(rank).expect("few") + 1;
            }
        }
    }

    /// An epoch that only records what was; 0 if it can never come again.
    pub(super) fn past_epoch(&mut self, epoch: &mut Epoch) {
        if self.walk == Walk::Rewrite && epoch.0 < self.lowest_epoch {
            *epoch = Epoch(0);
        } else if epoch.0 > 0 {
            let lowest = self.lowest_epoch;
            self.epoch(epoch);
            self.lowest_epoch = lowest;
        }
    }

    fn shifted(&self, micros: u64) -> u64 {
        micros - (self.now.as_micros() - BEGIN.as_micros())
    }
}

impl Names for Renaming {
    fn request(&mut self, request: &mut RequestId) {
        if self.walk == Walk::Look {
            self.named.push((self.process, *request));
        }
        self.request_number(self.process, &mut request.0);
    }

    fn current_write(&mut self, request: &mut RequestId) {
        if self.walk == Walk::Look {
            self.current.push((self.process, *request));
        }
        self.request(request);
    }

    fn may_be_answered(&self, request: RequestId) -> bool {
        self.awaited.contains(&(self.process, request))
    }

    fn may_be_seen(&self, record: &LeaseRecord, request: Option<RequestId>) -> bool {
        self.walk == Walk::Look
            || self.alive.contains(&record.nonce)
            || request.is_some_and(|request| self.may_be_answered(request))
    }

    fn is_gone(&self, version: &Version) -> bool {
        self.walk != Walk::Look && !self.alive_versions.contains(&number_of(version))
    }

    fn patience(&mut self, failures: &mut usize, until: &mut Instant) {
        // The first wait stands for all of them.
        *failures = (*failures).min(1);
        *until = (*until).min(self.now.saturating_add(FIRST_WAIT));
        self.deadline(until);
    }

    fn record(&mut self, record: &mut LeaseRecord) {
        self.epoch(&mut record.epoch);
        match self.walk {
            Walk::Look => {}
            Walk::Collect | Walk::Rewrite if self.alive.contains(&record.nonce) => {
                self.nonce(record.nonce.process_id, &mut record.nonce.counter);
                self.process(&mut record.nonce.process_id);
                self.process(&mut record.holder);
            }
            Walk::Collect => {}
            Walk::Rewrite => {
                record.holder = NOBODY;
                record.nonce = Nonce { process_id: NOBODY, counter: 0, entropy: 0 };
            }
        }
    }

    fn sight(&mut self, version: &mut Version, nonce: &mut Nonce) {
        if self.is_gone(version) && self.walk == Walk::Rewrite {
            *nonce = Nonce { process_id: NOBODY, counter: 0, entropy: 0 };
        } else if !self.is_gone(version) {
            self.nonce(nonce.process_id, &mut nonce.counter);
            self.process(&mut nonce.process_id);
        }
        self.version(version);
    }

    fn next_request(&mut self, next: &mut u64) {
        self.request_number(self.process, next);
    }

    fn nonce(&mut self, process_id: ProcessId, counter: &mut u64) {
        match self.walk {
            Walk::Look => {}
            Walk::Collect => self.nonces.push((process_id, *counter)),
            Walk::Rewrite => {
                let rank = |key: &(ProcessId, u64)| self.nonces.partition_point(|it| it < key);
                let rank = rank(&(process_id, *counter)) - rank(&(process_id, 0));
                *counter = u64::try_from(rank).expect("few") + 1;
            }
        }
    }

    fn process(&mut self, process_id: &mut ProcessId) {
        if self.walk == Walk::Look {
            return;
        }
        let index = self.processes.iter().position(|it| it == process_id).unwrap_or_else(|| {
            self.processes.push(*process_id);
            self.processes.len() - 1
        });
        if self.walk == Walk::Rewrite {
            let index128 = u128::try_from(index).expect("few");
            *process_id = ProcessId(if index < self.living { index128 + 1 } else { DEAD + index128 });
        }
    }

    fn epoch(&mut self, epoch: &mut Epoch) {
        match self.walk {
            Walk::Look => {}
            Walk::Collect => {
                self.lowest_epoch = self.lowest_epoch.min(epoch.0);
                if *epoch < self.epoch {
                    self.older_epochs.push(epoch.0);
                }
            }
            Walk::Rewrite => {
                *epoch = Epoch(if *epoch < self.epoch {
                    let above =
                        self.older_epochs.len() - self.older_epochs.partition_point(|it| *it < epoch.0);
                    EPOCH - u64::try_from(above).expect("few")
                } else {
                    EPOCH + (epoch.0 - self.epoch.0)
                });
            }
        }
    }

    fn seen_epoch(&mut self, epoch: &mut Epoch) {
        // The lease never vanishes here.
        *epoch = Epoch(0);
    }

    fn version(&mut self, version: &mut Version) {
        if self.walk != Walk::Look {
            let before = number_of(version);
            let mut number = before;
            self.version_number(&mut number);
            if number != before {
                *version = version_of(number);
            }
        }
    }

    fn deadline(&mut self, at: &mut Instant) {
        if self.walk == Walk::Rewrite {
            let ahead = at.saturating_since(self.now);
            let ticks = u64::try_from(ahead.as_micros()).expect("a short run").div_ceil(self.tick);
            *at = Instant::from_micros(BEGIN.as_micros() + ticks * self.tick);
        }
    }

    fn origin(&mut self, at: &mut Instant) {
        if self.walk == Walk::Rewrite {
            let oldest = self.now.as_micros() - self.horizon;
            *at = Instant::from_micros(self.shifted(at.as_micros().max(oldest)));
        }
    }

    fn slow_origin(&mut self, at: &mut SlowInstant) {
        if self.walk == Walk::Rewrite {
            let oldest = self.now.as_micros() - self.slow_horizon;
            *at = SlowInstant::from_micros(self.shifted(at.as_micros().max(oldest)));
        }
    }

    fn look(&mut self, now: &mut Now) {
        if self.walk == Walk::Rewrite {
            *now = now_at(BEGIN);
        }
    }

    fn chance(&mut self, rng: &mut Rng) {
        *rng = Rng::new(SHORTEST_DRAW);
    }
}

/// Makes the next draw of every machine the longest.
pub(super) struct LongestDraws(pub(super) u64);

impl Names for LongestDraws {
    fn request(&mut self, _: &mut RequestId) {}
    fn may_be_answered(&self, _: RequestId) -> bool {
        true
    }
    fn may_be_seen(&self, _: &LeaseRecord, _: Option<RequestId>) -> bool {
        true
    }
    fn is_gone(&self, _: &Version) -> bool {
        false
    }
    fn next_request(&mut self, _: &mut u64) {}
    fn nonce(&mut self, _: ProcessId, _: &mut u64) {}
    fn process(&mut self, _: &mut ProcessId) {}
    fn epoch(&mut self, _: &mut Epoch) {}
    fn version(&mut self, _: &mut Version) {}
    fn deadline(&mut self, _: &mut Instant) {}
    fn origin(&mut self, _: &mut Instant) {}
    fn slow_origin(&mut self, _: &mut SlowInstant) {}
    fn look(&mut self, _: &mut Now) {}
    fn chance(&mut self, rng: &mut Rng) {
        *rng = Rng::new(self.0);
    }
}

/// All clocks show the true time.
pub(super) const fn now_at(at: Instant) -> Now {
    Now {
        instant: at,
        slow: SlowInstant::from_micros(at.as_micros()),
        wall: Timestamp::from_micros(at.as_micros()),
    }
}

pub(super) fn version_of(number: u64) -> Version {
    Version(Blob::from(number.to_be_bytes().as_slice()))
}

pub(super) fn number_of(version: &Version) -> u64 {
    u64::from_be_bytes(version.0[..].try_into().expect("versions of this store have 8 bytes"))
}
