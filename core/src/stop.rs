//! Why a process stops: one reason each, in the log, in a metric label and in the last line on stderr (D-32).

use core::fmt;

use minicbor::{Decode, Encode};

/// The reason of a stop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum StopReason {
    /// Asked to, by a signal, and everything went in order.
    #[n(0)]
    Shutdown,
    /// HA-27: no renewal succeeded before the cut-off.
    #[n(1)]
    LeaseExpired,
    /// HA-30: another process holds the lease, or the log carries another's entry.
    #[n(2)]
    LeaseTaken,
    /// D-9: the lease object was missing on a renewal.
    #[n(3)]
    LeaseGone,
    /// D-49: the lease object cannot be read, or a newer version wrote it.
    #[n(4)]
    LeaseUnreadable,
    /// HA-31: the store denies, or the bucket is missing.
    #[n(5)]
    StoragePermanent,
    /// HA-32: a log write was not accepted within 10 s.
    #[n(6)]
    LogWriteTimeout,
    /// D-41: an entry is missing below an existing one.
    #[n(7)]
    LogHole,
    /// D-53: the log is shorter than the lease says.
    #[n(8)]
    LogShort,
    /// A log entry is damaged, of a foreign node, or of a newer format.
    #[n(9)]
    LogUnreadable,
    /// D-33: the local disk or store failed.
    #[n(10)]
    LocalStoreFailed,
    /// HA-63: an error after the lease was held and before serving.
    #[n(11)]
    TakeoverFailed,
    /// D-54: the engine gave no sign of life for 30 s.
    #[n(12)]
    EngineStalled,
    /// HA-105: the ended epoch's local store was not closed in time.
    #[n(13)]
    StoreNotClosed,
    /// D-8: the lease carries our process id and epoch with a nonce that we never sent.
    #[n(14)]
    UnknownOwnWrite,
    /// D-45: the path of `dev.lock` no longer names the locked file.
    #[n(15)]
    DevLockReplaced,
    /// HA-39: `lease.failIfHeld` is set and the lease is held.
    #[n(16)]
    LeaseHeld,
    /// A bug of the program itself: the data plane panicked.
    #[n(17)]
    Internal,
}

impl StopReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::Shutdown,
        Self::LeaseExpired,
        Self::LeaseTaken,
        Self::LeaseGone,
        Self::LeaseUnreadable,
        Self::StoragePermanent,
        Self::LogWriteTimeout,
        Self::LogHole,
        Self::LogShort,
        Self::LogUnreadable,
        Self::LocalStoreFailed,
        Self::TakeoverFailed,
        Self::EngineStalled,
        Self::StoreNotClosed,
        Self::UnknownOwnWrite,
        Self::DevLockReplaced,
        Self::LeaseHeld,
        Self::Internal,
    ];

    /// The stable name, as in metric labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::LeaseExpired => "lease_expired",
            Self::LeaseTaken => "lease_taken",
            Self::LeaseGone => "lease_gone",
            Self::LeaseUnreadable => "lease_unreadable",
            Self::StoragePermanent => "storage_permanent",
            Self::LogWriteTimeout => "log_write_timeout",
            Self::LogHole => "log_hole",
            Self::LogShort => "log_short",
            Self::LogUnreadable => "log_unreadable",
            Self::LocalStoreFailed => "local_store_failed",
            Self::TakeoverFailed => "takeover_failed",
            Self::EngineStalled => "engine_stalled",
            Self::StoreNotClosed => "store_not_closed",
            Self::UnknownOwnWrite => "unknown_own_write",
            Self::DevLockReplaced => "dev_lock_replaced",
            Self::LeaseHeld => "lease_held",
            Self::Internal => "internal",
        }
    }

    /// The exit status: 0 for what was asked for, 1 for everything else (HA-34).
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Shutdown => 0,
            Self::LeaseExpired
            | Self::LeaseTaken
            | Self::LeaseGone
            | Self::LeaseUnreadable
            | Self::StoragePermanent
            | Self::LogWriteTimeout
            | Self::LogHole
            | Self::LogShort
            | Self::LogUnreadable
            | Self::LocalStoreFailed
            | Self::TakeoverFailed
            | Self::EngineStalled
            | Self::StoreNotClosed
            | Self::UnknownOwnWrite
            | Self::DevLockReplaced
            | Self::LeaseHeld
            | Self::Internal => 1,
        }
    }

    /// Whether a holder that stops for this reason gives its lease back, so that nobody has to wait for
    /// the expiry (D-51, D-33, D-41, HA-63). Never where the lease is another's, gone, or out of reach.
    #[must_use]
    pub const fn leaves_lease_to_release(self) -> bool {
        match self {
            Self::Shutdown
            | Self::LeaseExpired
            | Self::LogWriteTimeout
            | Self::LogHole
            | Self::LogShort
            | Self::LogUnreadable
            | Self::LocalStoreFailed
            | Self::TakeoverFailed
            | Self::EngineStalled
            | Self::Internal => true,
            Self::LeaseTaken
            | Self::LeaseGone
            | Self::LeaseUnreadable
            | Self::StoragePermanent
            | Self::StoreNotClosed
            | Self::UnknownOwnWrite
            | Self::DevLockReplaced
            | Self::LeaseHeld => false,
        }
    }

    /// Whether the stop is one of those whose release is tried for 1 s only (D-51): HA-27, HA-32, D-33
    /// and D-54.
    #[must_use]
    pub const fn has_shut_gate(self) -> bool {
        match self {
            Self::LeaseExpired
            | Self::LogWriteTimeout
            | Self::LocalStoreFailed
            | Self::EngineStalled
            | Self::Internal => true,
            Self::Shutdown
            | Self::LeaseTaken
            | Self::LeaseGone
            | Self::LeaseUnreadable
            | Self::StoragePermanent
            | Self::LogHole
            | Self::LogShort
            | Self::LogUnreadable
            | Self::TakeoverFailed
            | Self::StoreNotClosed
            | Self::UnknownOwnWrite
            | Self::DevLockReplaced
            | Self::LeaseHeld => false,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Shutdown => "shut down as asked",
            Self::LeaseExpired => "the lease expired: no renewal succeeded in time",
            Self::LeaseTaken => "the lease was taken by another process",
            Self::LeaseGone => "the lease object is gone from the store",
            Self::LeaseUnreadable => "the lease object cannot be read by this version",
            Self::StoragePermanent => "the object store refuses for good",
            Self::LogWriteTimeout => "a log write was not accepted within 10 s",
            Self::LogHole => "the log has a hole",
            Self::LogShort => "the log is shorter than the lease says",
            Self::LogUnreadable => "a log entry cannot be read by this version",
            Self::LocalStoreFailed => "the local disk or store failed",
            Self::TakeoverFailed => "taking over failed",
            Self::EngineStalled => "the engine gave no sign of life for 30 s",
            Self::StoreNotClosed => "the ended epoch's local store was not closed in time",
            Self::UnknownOwnWrite => "the lease carries a write under our identity that we never made",
            Self::DevLockReplaced => "dev.lock was replaced while it was held",
            Self::LeaseHeld => "another process holds the lease and lease.failIfHeld is set",
            Self::Internal => "the server met a bug of its own",
        })
    }
}

#[cfg(test)]
#[path = "stop_tests.rs"]
mod tests;
