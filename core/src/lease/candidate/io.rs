//! What crosses the border of a candidate.

use core::fmt;
use core::time::Duration;

use minicbor::{Decode, Encode};

use crate::ids::{Epoch, Position, ProcessId, RequestId};
use crate::lease::{LeaseOperation, LeaseRecord, Tenure, Unreadable};
use crate::standby::StandbyConfig;
use crate::stop::StopReason;

/// What a candidate may do without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CandidateConfig {
    /// `lease.failIfHeld` (HA-39, D-36).
    pub fail_if_held: bool,
    /// `dev.lock` is held, and the lease lies in the locked directory (HA-6, D-45): a held lease
    /// belongs to a dead process.
    pub lock_held: bool,
    /// The store's stamp of the last write of the start-up probe: switches D-2 (b) on, for the first
    /// version seen.
    pub probe_stamp_ms: Option<u64>,
}

/// How a candidate stands by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pace {
    /// How often it looks at a lease that it cannot take (D-13, HA-43).
    pub poll_interval: Duration,
    /// How long it leaves an available lease to others as long as it is not hot (HA-58); `None`: it is a
    /// cold one, and competes at once (D-13).
    pub lagging_takeover_delay: Option<Duration>,
}

impl Pace {
    /// Of a cold standby (D-13).
    const COLD: Self = Self { poll_interval: Duration::from_millis(250), lagging_takeover_delay: None };

    /// As `standby.*` says.
    #[must_use]
    pub const fn of(config: &StandbyConfig) -> Self {
        if config.is_hot() {
            Self {
                poll_interval: config.held_lease_poll_interval(),
                lagging_takeover_delay: Some(config.lagging_takeover_delay()),
            }
        } else {
            Self::COLD
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::COLD
    }
}

/// What lies beside a missing lease (D-49).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
pub struct Survey {
    /// Whether there is any log entry or snapshot.
    #[n(0)]
    pub anything: bool,
    /// The highest epoch found; 0 if none.
    #[n(1)]
    pub highest_epoch: Epoch,
    /// The duration that the newest fence entry records, in milliseconds.
    #[n(2)]
    pub fence_duration_ms: Option<u64>,
    /// The position of the newest snapshot manifest; 0 if there is none.
    #[n(3)]
    pub newest_manifest: Position,
}

/// Something worth telling people about a candidate.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum CandidateEvent {
    /// It waits for a lease that another process holds.
    #[n(0)]
    Waiting {
        /// Who holds it.
        #[n(0)]
        holder: ProcessId,
        /// In which epoch.
        #[n(1)]
        epoch: Epoch,
        /// The longest wait if the holder is dead, in milliseconds.
        #[n(2)]
        longest_wait_ms: u64,
    },
    /// It waits, because the lease is missing beside a log (D-49).
    #[n(1)]
    WaitingForMissing {
        /// In milliseconds.
        #[n(0)]
        longest_wait_ms: u64,
    },
    /// It waits for as long as the object stays as it is (D-49).
    #[n(2)]
    WaitingForUnreadable(#[n(0)] Unreadable),
    /// Another candidate was faster.
    #[n(3)]
    LostRace,
    /// A takeover failed; the next one comes no earlier than this.
    #[n(4)]
    TakeoverFailed {
        /// In milliseconds.
        #[n(0)]
        retry_after_ms: u64,
    },
}

/// What a candidate wants.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum CandidateOutput {
    /// Do this with the lease object, and report how it ended.
    #[n(0)]
    Request {
        /// Named by the reply.
        #[n(0)]
        request: RequestId,
        /// What to do.
        #[n(1)]
        operation: LeaseOperation,
    },
    /// Look what log and snapshots say, and report `LeaseInput::Surveyed`.
    #[n(1)]
    Survey {
        /// Named by the reply.
        #[n(0)]
        request: RequestId,
    },
    /// Tell people.
    #[n(2)]
    Event(#[n(0)] CandidateEvent),
    /// The lease is this process's own. Nothing follows.
    #[n(3)]
    Acquired(#[n(0)] Tenure),
    /// After `Candidate::stop`: nothing is held. Nothing follows.
    #[n(4)]
    Stopped,
    /// The process must stop. Nothing follows.
    #[n(5)]
    Failed(#[n(0)] StopReason),
    /// A record not seen before stands in the lease, of whomever; not one that this candidate wrote.
    #[n(6)]
    Seen(#[n(0)] LeaseRecord),
    /// The try after the hold-off came to nothing that is known; it goes on as an ordinary candidate.
    #[n(7)]
    RetakeFailed(#[n(0)] UnknownHolder),
}

/// Why it is not known who holds the lease after a step down (`leaseHolderUnknownDetail`, D-38).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum UnknownHolder {
    /// After the hold-off the lease could not be read.
    #[n(0)]
    LeaseUnread,
    /// The lease object is missing (D-49).
    #[n(1)]
    LeaseMissing,
    /// The lease object cannot be understood (D-49).
    #[n(2)]
    LeaseUnreadable,
    /// The store refused to take the lease back although nobody else took it.
    #[n(3)]
    TakeBackRefused,
    /// It is not known whether the lease was taken back.
    #[n(4)]
    TakeBackUnanswered,
    /// The lease is held under this process's own id by a write that it never made (D-8).
    #[n(5)]
    UnknownOwnWrite,
}

impl fmt::Display for UnknownHolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::LeaseUnread => "after the hold-off the lease could not be read",
            Self::LeaseMissing => "the lease object is missing",
            Self::LeaseUnreadable => "the lease object cannot be read by this version",
            Self::TakeBackRefused => "the store refused to take the lease back, and nobody else has taken it",
            Self::TakeBackUnanswered => "the store did not say whether the lease was taken back",
            Self::UnknownOwnWrite => "the lease carries a write under this process's id that it never made",
        })
    }
}
