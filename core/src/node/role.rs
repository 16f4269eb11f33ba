//! The roles of a process and the one table of what moves it between them.

use minicbor::{Decode, Encode};

/// What a process is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum Role {
    /// It wants the lease.
    #[n(0)]
    Waiting,
    /// It shuts down and waits for what becomes of its last lease write (D-29).
    #[n(1)]
    Withdrawing,
    /// It holds the lease; the data plane reads the log to its end and writes the fence (D-41, D-42).
    #[n(2)]
    Opening,
    /// The fence was accepted; the lease is proven once more (D-42).
    #[n(3)]
    Confirming,
    /// The engine fails what earlier epochs left running (HA-20).
    #[n(4)]
    Recovering,
    /// It serves.
    #[n(5)]
    Active,
    /// It serves, hands out nothing new and waits for running attempts (HA-16).
    #[n(6)]
    Draining,
    /// Running attempts were asked to cancel; late results still count (D-21).
    #[n(7)]
    Interrupting,
    /// New calls are refused, what was gathered becomes durable (D-18).
    #[n(8)]
    Committing,
    /// Calls and streams end; nothing may leave after that (D-37).
    #[n(9)]
    Closing,
    /// It shuts down before it ever served: the data plane gives up what it does (D-29).
    #[n(10)]
    Abandoning,
    /// The gate is shut for good; the lease is given back.
    #[n(11)]
    Releasing,
    /// The process ends.
    #[n(12)]
    Stopped,
    /// The log carries a higher epoch than its own: it waits until whoever wrote it is gone (D-55).
    #[n(13)]
    Outwaiting,
    /// It raises its epoch above that one (D-55).
    #[n(14)]
    Raising,
    /// It stepped down: it watches the lease and does not compete until the hold-off is over and the
    /// ended tenure's store is closed (HA-99, HA-104).
    #[n(15)]
    HoldOff,
}

/// What moves a process from one role to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Trigger {
    /// The lease was taken.
    Acquired,
    /// Nothing is held, and nothing more is tried.
    Withdrawn,
    /// SIGTERM.
    Terminate,
    /// A step down was accepted (HA-88).
    StepDown,
    /// The fence stands in the log.
    Fenced,
    /// The log carries a higher epoch (D-55).
    EpochBehind,
    /// A lease write sent after it was asked for has landed.
    Confirmed,
    /// Recovery is durable.
    Recovered,
    /// Nothing runs any more.
    Drained,
    /// Everything gathered is durable.
    Committed,
    /// Nothing can leave any more.
    Closed,
    /// The time given to this role is over.
    TimedOut,
    /// The process must stop, and its lease may still be its own: it is given back (D-51, HA-63, D-41).
    Broken,
    /// The process must stop, and there is nothing to give back.
    Lost,
    /// The release is over, and with it the process.
    Released,
    /// The release of a step down is over: the process lives on (HA-93).
    SteppedDown,
    /// The hold-off is over and the ended tenure's store is closed (HA-99, HA-104).
    HeldOff,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 16] = [
        Self::Waiting,
        Self::Withdrawing,
        Self::Opening,
        Self::Outwaiting,
        Self::Raising,
        Self::Confirming,
        Self::Recovering,
        Self::Active,
        Self::Draining,
        Self::Interrupting,
        Self::Committing,
        Self::Closing,
        Self::Abandoning,
        Self::Releasing,
        Self::HoldOff,
        Self::Stopped,
    ];

    /// The role after this trigger; `None` if it means nothing here (it came too late).
    #[must_use]
    pub fn after(self, trigger: Trigger) -> Option<Self> {
        TRANSITIONS.iter().find(|(from, by, _)| *from == self && *by == trigger).map(|(_, _, to)| *to)
    }

    /// Whether the health names of the API report SERVING (HA-64): from the end of recovery until the
    /// release or the end of the lease, drain included.
    #[must_use]
    pub const fn is_serving(self) -> bool {
        match self {
            Self::Active | Self::Draining | Self::Interrupting | Self::Committing | Self::Closing => true,
            Self::Waiting
            | Self::Withdrawing
            | Self::Opening
            | Self::Outwaiting
            | Self::Raising
            | Self::Confirming
            | Self::Recovering
            | Self::Abandoning
            | Self::Releasing
            | Self::HoldOff
            | Self::Stopped => false,
        }
    }

    /// The stable name, as in metric labels and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Withdrawing => "withdrawing",
            Self::Opening => "opening",
            Self::Outwaiting => "outwaiting",
            Self::Raising => "raising",
            Self::Confirming => "confirming",
            Self::Recovering => "recovering",
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Interrupting => "interrupting",
            Self::Committing => "committing",
            Self::Closing => "closing",
            Self::Abandoning => "abandoning",
            Self::Releasing => "releasing",
            Self::HoldOff => "hold_off",
            Self::Stopped => "stopped",
        }
    }
}

/// Every move there is. What is not here does not happen.
pub const TRANSITIONS: &[(Role, Trigger, Role)] = {
    use Role::{
        Abandoning, Active, Closing, Committing, Confirming, Draining, HoldOff, Interrupting, Opening,
        Outwaiting, Raising, Recovering, Releasing, Stopped, Waiting, Withdrawing,
    };
    use Trigger::{
        Acquired, Broken, Closed, Committed, Confirmed, Drained, EpochBehind, Fenced, HeldOff, Lost,
        Recovered, Released, StepDown, SteppedDown, Terminate, TimedOut, Withdrawn,
    };
    &[
        (Waiting, Acquired, Opening),
        (Waiting, Terminate, Withdrawing),
        (Waiting, Lost, Stopped),
        (Withdrawing, Withdrawn, Stopped),
        (Withdrawing, Acquired, Releasing),
        (Withdrawing, Lost, Stopped),
        (Opening, Fenced, Confirming),
        (Opening, EpochBehind, Outwaiting),
        (Opening, Terminate, Abandoning),
        (Opening, Broken, Releasing),
        (Opening, Lost, Stopped),
        (Outwaiting, TimedOut, Raising),
        (Outwaiting, Terminate, Abandoning),
        (Outwaiting, Broken, Releasing),
        (Outwaiting, Lost, Stopped),
        (Raising, Confirmed, Opening),
        (Raising, Terminate, Abandoning),
        (Raising, Broken, Releasing),
        (Raising, Lost, Stopped),
        (Confirming, Confirmed, Recovering),
        (Confirming, Terminate, Abandoning),
        (Confirming, Broken, Releasing),
        (Confirming, Lost, Stopped),
        (Recovering, Recovered, Active),
        (Recovering, Terminate, Abandoning),
        (Recovering, Broken, Releasing),
        (Recovering, Lost, Stopped),
        (Active, Terminate, Draining),
        (Active, StepDown, Draining),
        (Active, Broken, Releasing),
        (Active, Lost, Stopped),
        (Draining, Drained, Committing),
        (Draining, TimedOut, Interrupting),
        (Draining, Broken, Releasing),
        (Draining, Lost, Stopped),
        (Interrupting, Drained, Committing),
        (Interrupting, TimedOut, Committing),
        (Interrupting, Broken, Releasing),
        (Interrupting, Lost, Stopped),
        (Committing, Committed, Closing),
        (Committing, TimedOut, Closing),
        (Committing, Broken, Releasing),
        (Committing, Lost, Stopped),
        (Closing, Closed, Releasing),
        (Closing, TimedOut, Releasing),
        (Closing, Broken, Releasing),
        (Closing, Lost, Stopped),
        (Abandoning, Closed, Releasing),
        (Abandoning, TimedOut, Releasing),
        (Abandoning, Broken, Releasing),
        (Abandoning, Lost, Stopped),
        (Releasing, Released, Stopped),
        (Releasing, SteppedDown, HoldOff),
        (HoldOff, HeldOff, Waiting),
        (HoldOff, Terminate, Withdrawing),
        (HoldOff, Lost, Stopped),
    ]
};
