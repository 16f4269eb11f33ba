//! What crosses the border of a candidate.

use minicbor::{Decode, Encode};

use crate::ids::{Epoch, Position, ProcessId, RequestId};
use crate::lease::{LeaseOperation, Tenure, Unreadable};
use crate::stop::StopReason;

/// What a candidate may do without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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

/// What lies beside a missing lease (D-49).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
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
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
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
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
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
}
