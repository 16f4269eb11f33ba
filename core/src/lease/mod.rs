//! The lease: who may be active, decided by one object that is compared and swapped.
//!
//! Three machines, one after the other, share the object and this module's words:
//!
//! - [`Candidate`] waits until the lease can be taken and takes it;
//! - [`Holder`] renews it until it is lost or no longer wanted;
//! - [`Release`] gives it back.
//!
//! Each is driven in the same way:
//!
//! ```text
//! loop {
//!     while let Some(output) = machine.poll_output() { perform(output) }
//!     let due = machine.poll_timeout();                  // call again then, at the latest
//!     let input = next_reply_or(due, LeaseInput::Tick);
//!     machine.handle(Look { now: clocks.read(), entropy: os_random() }, input);
//! }
//! ```
//!
//! A request is never cancelled by a machine that has given it up: the shell keeps it alive and reports
//! its end whenever it comes (D-8). A reply that nobody waits for any more is ignored.

mod candidate;
mod duration;
mod expiry;
mod holder;
mod pen;
mod record;
mod release;

use minicbor::{Decode, Encode};

pub use candidate::{
    Candidate, CandidateConfig, CandidateEvent, CandidateOutput, Pace, Survey, UnknownHolder,
};
pub use duration::{
    CUT_OFF_MARGIN, LONGEST, LONGEST_ADVISED, LONGEST_TRY, LeaseDuration, SHORTEST, SHORTEST_TRY,
    TAKEOVER_MARGIN,
};
pub use expiry::Expiry;
pub use holder::{Holder, HolderEvent, HolderOutput};
pub use pen::{Pen, Tenure};
pub use record::{
    FORMAT_VERSION, HIGHEST_EPOCH, LONGEST_RECORD_BYTES, LeaseRecord, LeaseState, Nonce, Unreadable,
};
pub use release::{Release, ReleaseOutcome, ReleaseOutput};

use crate::ids::{Blob, RequestId};
use crate::store::{ReadOutcome, Version, WriteOutcome};
use crate::time::Now;

/// What comes with every input: clock readings, and 64 fresh bits from the operating system (in the
/// simulator: from a named stream) for the nonce of a write that this input may cause (D-50).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
pub struct Look {
    /// All clocks, read just now.
    #[n(0)]
    pub now: Now,
    /// Never the same twice.
    #[n(1)]
    pub entropy: u64,
}

/// What to do with the lease object. Conditions are the store's own: nothing here is checked first and
/// written later.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum LeaseOperation {
    /// Read it: body, version and stamp from one response (D-50).
    #[n(0)]
    Read,
    /// Write it if there is none.
    #[n(1)]
    Create {
        /// The record.
        #[n(0)]
        body: Blob,
    },
    /// Write it if it has this version.
    #[n(2)]
    Update {
        /// The version it must have.
        #[n(0)]
        expected: Version,
        /// The record.
        #[n(1)]
        body: Blob,
    },
}

/// Something happened to a lease machine.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum LeaseInput {
    /// A `Create` or `Update` ended.
    #[n(0)]
    Written {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: WriteOutcome,
    },
    /// A `Read` ended.
    #[n(1)]
    Read {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// What it shows.
        #[n(1)]
        outcome: ReadOutcome,
    },
    /// A survey of log and snapshots ended; only a candidate asks for one (D-49).
    #[n(2)]
    Surveyed {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// What is there; `None` if the survey failed and is to be repeated.
        #[n(1)]
        survey: Option<Survey>,
    },
    /// Time has passed: what became due is done.
    #[n(3)]
    Tick,
}

/// Why a lease machine wants to be called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum LeaseTimer {
    /// The next renewal starts (HA-3).
    #[n(0)]
    Renewal,
    /// The running try is given up (HA-23, HA-24).
    #[n(1)]
    TryCutOff,
    /// The next try starts (D-4).
    #[n(2)]
    Retry,
    /// The period is over for the holder (HA-25).
    #[n(3)]
    RenewalCutOff,
    /// The candidate looks again (D-13), or may conclude (D-2).
    #[n(4)]
    Poll,
    /// The candidate's pause before its write is over (HA-57).
    #[n(5)]
    Takeover,
    /// The release is tried no longer (D-37).
    #[n(6)]
    ReleaseLimit,
}

#[cfg(test)]
mod candidate_standby_tests;
#[cfg(test)]
mod candidate_tests;
#[cfg(test)]
mod candidate_write_tests;
#[cfg(test)]
pub(crate) mod driver;
#[cfg(test)]
mod duration_tests;
#[cfg(test)]
mod holder_stop_tests;
#[cfg(test)]
mod holder_tests;
#[cfg(test)]
mod record_tests;
#[cfg(test)]
mod release_tests;
