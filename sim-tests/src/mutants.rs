//! Proof that the suites see what they are for: each deliberate defect of [`Mutant`] breaks a rule within
//! a few hundred seeds. A mutant that lives is a hole in the simulator, and is mended there.
//!
//! The switch is process-wide: one mutant at a time, its seeds on all cores.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::{self, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use dexzd_core::mutant::{Mutant, switch_on};
use dexzd_io_sim::dice::Dice;
use dexzd_io_sim::trace::Trace;

use crate::runner::World;
use crate::worlds::{LEASE, NamedWorld, PRODUCT};

/// A rule that a panic of the code itself breaks.
const PANICS: &str = "an assertion of the code";
/// Seeds of one repetition begin so far behind those of the one before.
const STRIDE: u64 = 1_000_000;

/// The world that shows a mutant soonest.
#[must_use]
pub const fn world_for(mutant: Mutant) -> &'static NamedWorld {
    match mutant {
        Mutant::TrustFromAnswer
        | Mutant::NoCutOffMargin
        | Mutant::AdoptAfterCutOff
        | Mutant::AdoptFromLatestTry
        | Mutant::AdoptFromNow
        | Mutant::AdoptUnknownNonce
        | Mutant::ConflictIsLoss
        | Mutant::NeverAdopt
        | Mutant::RenewEarly
        | Mutant::NoDoubt
        | Mutant::DoubtEndedByOlder
        | Mutant::NoTakeoverMargin
        | Mutant::SeenFromSend
        | Mutant::StampsWhileRunning
        | Mutant::EpochNotRaised
        | Mutant::MissingCreatedAtOnce
        | Mutant::LostRaceBacksOff
        | Mutant::NoHoldOff
        | Mutant::NoLaggingDelay
        | Mutant::StoreCloseNotAwaited
        | Mutant::ReopenAfterRelease
        | Mutant::LateRenewalReopens
        | Mutant::AnyEpochStepsDown
        | Mutant::OldConnectionAccepted
        | Mutant::LeaveDuringTakeover
        | Mutant::ReleaseForgetsEpoch => &LEASE,
        Mutant::NoLastCheck
        | Mutant::NoConfirmAfterFence
        | Mutant::FenceAppliedFirst
        | Mutant::EqualEpochTolerated
        | Mutant::MissingIsTheEnd
        | Mutant::HoleIsTheEnd
        | Mutant::ChainNotCompared
        | Mutant::TrimBeforeLanded
        | Mutant::FenceTrimmed
        | Mutant::TrimToNewest
        | Mutant::CleanUnauthorised
        | Mutant::BlindIsClose
        | Mutant::LateEntrySkipped
        | Mutant::RefusedIsAccepted
        | Mutant::RefusedIsLost
        | Mutant::AnswerBeforeDurable
        | Mutant::TaskBeforeDurable
        | Mutant::ResultAcknowledgedEarly
        | Mutant::ErrorsDontWait
        | Mutant::RequestForgotten
        | Mutant::NotCompletedIsFree
        | Mutant::QueuedIsCharged
        | Mutant::QueuedIsForgotten
        | Mutant::UnsentCounts
        | Mutant::HandoutByAttempt
        | Mutant::ResultFromAnyStream
        | Mutant::SnapshotTakenAgain
        | Mutant::CheckpointLost
        | Mutant::DrainHandsOut
        | Mutant::TimerFiresTwice
        | Mutant::TimeGoesBack
        | Mutant::MessageStays => &PRODUCT,
    }
}

/// How a hunt is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hunt {
    /// So many times, from another first seed each.
    pub repetitions: u64,
    /// Seeds of one repetition, at most.
    pub at_most: u64,
}

/// What became of one mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Which.
    pub mutant: Mutant,
    /// The world it was looked for in.
    pub world: &'static str,
    /// The number of seeds that each repetition took; `None` where it lived.
    pub seeds: Vec<Option<u64>>,
    /// The rules broken, and how often.
    pub rules: BTreeMap<String, u64>,
}

impl Verdict {
    /// Whether most repetitions killed it.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.median_seeds().is_some()
    }

    /// The median number of seeds to kill.
    #[must_use]
    pub fn median_seeds(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.seeds.iter().map(|seeds| seeds.unwrap_or(u64::MAX)).collect();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied().filter(|median| *median != u64::MAX)
    }

    /// The rule that was broken most often.
    #[must_use]
    pub fn rule(&self) -> &str {
        self.rules.iter().max_by_key(|(_, count)| **count).map_or("", |(rule, _)| rule)
    }
}

/// Looks for one mutant. Nothing else of the simulator may run in this process meanwhile.
#[must_use]
pub fn hunt(mutant: Mutant, hunt: Hunt) -> Verdict {
    let NamedWorld { name, make: world, .. } = *world_for(mutant);
    let mut verdict = Verdict { mutant, world: name, seeds: Vec::new(), rules: BTreeMap::new() };
    switch_on(Some(mutant));
    for repetition in 0..hunt.repetitions {
        let first = repetition * STRIDE;
        let found = first_failure(world, first, hunt.at_most);
        verdict.seeds.push(found.as_ref().map(|(seed, _)| seed - first + 1));
        if let Some((_, rule)) = found {
            *verdict.rules.entry(rule).or_default() += 1;
        }
    }
    switch_on(None);
    verdict
}

/// The first seed that fails, and the rule it breaks; the same on any number of cores.
#[must_use]
pub fn first_failure(world: World, first: u64, at_most: u64) -> Option<(u64, String)> {
    let next = AtomicU64::new(first);
    let lowest: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let hook = panic::take_hook();
    // A mutant that panics is dead; its message helps nobody.
    panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let so_far = lowest.lock().expect("nobody panics with it").as_ref().map(|(it, _)| *it);
                    if seed >= first + at_most || so_far.is_some_and(|lowest| lowest < seed) {
                        return;
                    }
                    let run = catch_unwind(|| world(Dice::from_seed(seed), Trace::quiet()));
                    let rule = match run {
                        Ok(run) => run.result.err().map(|violation| violation.rule),
                        Err(_) => Some(PANICS.to_owned()),
                    };
                    if let Some(rule) = rule {
                        let mut lowest = lowest.lock().expect("nobody panics with it");
                        if lowest.as_ref().is_none_or(|(it, _)| seed < *it) {
                            *lowest = Some((seed, rule));
                        }
                    }
                }
            });
        }
    });
    panic::set_hook(hook);
    lowest.into_inner().expect("nobody panics with it")
}
