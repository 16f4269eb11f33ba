//! Deliberate defects, for test builds only: each one breaks one rule, at the line where the rule is kept.
//!
//! ```text
//! let since = if mutant::is(Mutant::TrustFromAnswer) { look.now.instant } else { sent.sent_at };
//! ```
//!
//! [`is`] is the constant `false`, and the wrong branch is gone, unless the feature `mutants` *and* debug
//! assertions are on. Only `sim-tests` asks for the feature, and nothing that is shipped is built together
//! with `sim-tests`: `xtask` names the packages it builds. Even a workspace build that unified the feature
//! has no debug assertions in its release profile. With the feature on and nothing switched on, a hook
//! costs one relaxed load of a byte that nobody writes.
//!
//! `docs/mutants.md` has the table of what kills each of them, and the command that makes it.

use core::fmt;

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $name:ident: $rule:literal,)+) => {
        /// One defect. The comment says what is wrong; [`Mutant::breaks`] names the rule.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Mutant {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The rule that it breaks, and where it is explained.
            #[must_use]
            pub const fn breaks(self) -> &'static str {
                match self {
                    $(Self::$name => $rule,)+
                }
            }

            /// What is wrong, for the table.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc,)+).trim_ascii(),)+
                }
            }

            /// The name, as the command takes and prints it.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

mutants! {
    // The lease: holder.
    /// The period counts from the answer to a lease write, not from its sending.
    TrustFromAnswer: "D-1; review 1.1",
    /// A late renewal is adopted although the cut-off has passed.
    AdoptAfterCutOff: "HA-25, D-8; review 2.8, 2.9",
    /// Renewing goes on until the very end of the period.
    NoCutOffMargin: "HA-25",
    /// An adopted renewal counts from the latest try, not from its own.
    AdoptFromLatestTry: "D-8; review 2.1",
    /// An adopted renewal counts from the moment it was read.
    AdoptFromNow: "D-8; review 2.2",
    /// A held lease with this process's identity and an unknown nonce is adopted.
    AdoptUnknownNonce: "D-8, D-50; review 2.10, 2.11",
    /// A refused renewal is taken for a lost lease, without a look at it.
    ConflictIsLoss: "D-9, HA-28; review 2.5, 2.7",
    /// Only the answer to the running try counts: what a read finds is never adopted.
    NeverAdopt: "D-8, HA-28; review 2.13",
    /// A renewal starts after a quarter of the period.
    RenewEarly: "HA-3, HA-36, invariant 10",
    /// Forward jumps of the wall clock are not noticed.
    NoDoubt: "D-1; review 9.2, 9.3",
    /// A renewal that was sent before the jump ends the doubt.
    DoubtEndedByOlder: "D-1; review 9.3",

    // The lease: candidate.
    /// A lease counts as expired after its duration, without the margin of one second.
    NoTakeoverMargin: "D-2, HA-17; review 1.1",
    /// The wait counts from the sending of the read that first showed a version, not from its end.
    SeenFromSend: "D-2; review 1.1",
    /// A running standby judges by the lease's stamp and a wall clock.
    StampsWhileRunning: "D-2 b; review 1.2",
    /// An acquisition writes the epoch that it found.
    EpochNotRaised: "HA-13, invariant 1",
    /// A missing lease is created at once, whoever may still hold it.
    MissingCreatedAtOnce: "D-49; review 11.1",
    /// A lost race counts as a failed takeover, and the loser backs off.
    LostRaceBacksOff: "HA-62, D-52; review 12.5",
    /// SIGTERM ends a process whose takeover write is under way.
    LeaveDuringTakeover: "D-29; review 7.10",

    /// A process that has stepped down competes at once.
    NoHoldOff: "HA-100, HA-102",
    /// A standby that is not hot does not let the hot one go first.
    NoLaggingDelay: "HA-58",

    /// A process competes again while the store of its ended tenure is open.
    StoreCloseNotAwaited: "HA-104",

    // The lease: release.
    /// The free record does not keep the epoch.
    ReleaseForgetsEpoch: "D-12; HA-13",

    /// The gate opens again after a release that nobody confirmed.
    ReopenAfterRelease: "D-37; review 3.2",
    /// A late renewal opens the shut gate again.
    LateRenewalReopens: "D-37, D-47; review 6.3",
    /// A step down is accepted whatever epoch it expects.
    AnyEpochStepsDown: "HA-88, D-17",
    /// A step down is accepted on a connection of an earlier role.
    OldConnectionAccepted: "HA-109, D-16; review 7.2",

    // The gate.
    /// Nobody looks at the clock when an answer leaves.
    NoLastCheck: "D-47; review 6.1",

    // The start of an epoch.
    /// The lease is not confirmed after the fence.
    NoConfirmAfterFence: "D-42; review 4.5",
    /// The fence is applied to the local store before the lease is confirmed.
    FenceAppliedFirst: "D-42; review 4.5",
    /// An entry of this epoch by another process is tolerated.
    EqualEpochTolerated: "D-42; review 4.6",
    /// A late entry of a lower epoch in the fence's place is not applied.
    LateEntrySkipped: "D-42; review 4.4",

    /// Trimmed entries are not asked about: whatever is missing is the end of the log.
    MissingIsTheEnd: "D-41; review 4.1",
    /// Nobody looks behind a missing entry: a hole is the end of the log.
    HoleIsTheEnd: "D-41; review 4.8",
    /// A local store's last entry is not compared with the log's.
    ChainNotCompared: "D-43; review 8.2",

    /// Entries are deleted before a lease write with their bound has landed.
    TrimBeforeLanded: "D-30; review 4.3",
    /// Fences are deleted like other entries.
    FenceTrimmed: "D-30; review 4.2",
    /// The log is trimmed to the newest snapshot, not to the older one.
    TrimToNewest: "D-30; review 4.9",
    /// Files are deleted before a lease write sent after the list has landed.
    CleanUnauthorised: "D-46 iii; review 4.10",
    /// A follower that knows of nothing new believes that it has everything.
    BlindIsClose: "D-14; review 8.6",

    // The log.
    /// A refused create counts as accepted, without a read-back.
    RefusedIsAccepted: "D-10; review 4.4",
    /// A refused create is taken for another's entry, without a read-back.
    RefusedIsLost: "D-10; review 4.4",

    // The engine: durability.
    /// Answers leave before what they say is durable.
    AnswerBeforeDurable: "invariant 2, D-48",
    /// SYNC tasks leave before their start is durable.
    TaskBeforeDurable: "FD-7, D-23",
    /// A Worker hears that its SYNC result counted before that is durable.
    ResultAcknowledgedEarly: "D-48",
    /// Error answers do not wait for what they read.
    ErrorsDontWait: "D-48; review 6.4",
    /// A repeated request is applied again.
    RequestForgotten: "D-35; review 12.16",

    // The engine: attempts.
    /// NOT_COMPLETED consumes no retry.
    NotCompletedIsFree: "HA-20, D-25",
    /// Recovery charges a call that was only queued.
    QueuedIsCharged: "HA-20, D-23; review area 5",
    /// Recovery forgets calls that were queued.
    QueuedIsForgotten: "HA-19, invariant 7",
    /// An attempt whose frame never left counts as received.
    UnsentCounts: "D-23",
    /// A hand-out is named by its attempt number.
    HandoutByAttempt: "D-44; review area 5",
    /// A result counts from whatever stream it comes.
    ResultFromAnyStream: "D-44",
    /// A retry sees a new snapshot.
    SnapshotTakenAgain: "FD-3",
    /// The checkpoint of a failed attempt is lost.
    CheckpointLost: "FD-12; concepts.md 1.13",
    /// A drain hands out queued tasks.
    DrainHandsOut: "HA-95, D-17",

    // The engine: time and messages.
    /// A durable timer stays behind when it fires, and fires again in the next epoch.
    TimerFiresTwice: "D-39, FD-8",
    /// Engine time follows a wall clock that goes back.
    TimeGoesBack: "D-39; review 12.15",
    /// A consumed message stays in its Channel.
    MessageStays: "invariant 5; concepts.md 1.7",
}

impl fmt::Display for Mutant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

#[cfg(all(feature = "mutants", debug_assertions))]
mod switch {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Mutant;

    /// 0: none; else the mutant's number and one.
    static ON: AtomicU8 = AtomicU8::new(0);

    /// Whether this defect is on.
    #[must_use]
    #[inline]
    pub fn is(mutant: Mutant) -> bool {
        ON.load(Ordering::Relaxed) == mutant as u8 + 1
    }

    /// Switches one defect on and all others off, in the whole process: a test binary that uses this runs
    /// nothing else at the same time.
    pub fn switch_on(mutant: Option<Mutant>) {
        ON.store(mutant.map_or(0, |it| it as u8 + 1), Ordering::SeqCst);
    }
}

#[cfg(all(feature = "mutants", debug_assertions))]
pub use switch::{is, switch_on};

/// Whether this defect is on: never, in this build.
#[cfg(not(all(feature = "mutants", debug_assertions)))]
#[must_use]
#[inline(always)]
pub const fn is(_mutant: Mutant) -> bool {
    false
}
