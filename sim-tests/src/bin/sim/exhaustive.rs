//! `sim exhaustive`: every order of everything that may happen to a few real machines.

use clap::{Subcommand, ValueEnum};
use dexzd_core::mutant::{Mutant, switch_on};
use dexzd_sim_tests::exhaustive::lease::{Bounds, LeaseModel};
use dexzd_sim_tests::exhaustive::log::LogModel;
use dexzd_sim_tests::exhaustive::search::{End as Found, search};

use crate::end::End;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    machines: Machines,

    /// Give up after so many states
    #[arg(long, default_value_t = 20_000_000, global = true)]
    limit: usize,

    /// With this deliberate defect (docs/mutants.md)
    #[arg(long, global = true)]
    mutant: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Machines {
    /// Candidate, holder and release over one lease object
    Lease {
        /// Processes
        #[arg(long, default_value_t = 2)]
        processes: usize,
        /// Writes of one process that may still land
        #[arg(long, default_value_t = 1)]
        live_writes: usize,
        /// Milliseconds between two instants
        #[arg(long, default_value_t = 500)]
        tick_ms: u64,
        /// What may happen in addition
        #[arg(long, value_enum)]
        with: Vec<Extra>,
        /// What may not
        #[arg(long, value_enum)]
        without: Vec<Extra>,
    },
    /// The start of an epoch and its appender over one log, without a clock
    Log {
        /// Processes
        #[arg(long, default_value_t = 2)]
        processes: usize,
        /// How often the lease is taken
        #[arg(long, default_value_t = 3)]
        epochs: u64,
        /// Entries of one epoch behind its fence
        #[arg(long, default_value_t = 1)]
        writes: u8,
        /// How often each process comes back
        #[arg(long, default_value_t = 1)]
        restarts: u8,
        /// Rules and events to leave out
        #[arg(long, value_enum)]
        without: Vec<Rule>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Extra {
    /// Processes crash
    Crashes,
    /// The operator steps the holder down
    StepDowns,
    /// Answers come late
    LateAnswers,
    /// Reads take time
    SlowReads,
    /// Reads show what was
    StaleReads,
    /// Requests fail visibly
    Errors,
    /// Timers are late
    Freezes,
    /// The longest draws as well
    Jitter,
    /// A release without an answer counts as failed, and the gate opens again (wrong)
    Reopening,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Rule {
    /// Disks are lost
    Wipes,
    /// The lease is confirmed after the fence
    Confirmation,
    /// The trim bound stands in the lease
    Bound,
    /// Fences are kept
    Fences,
    /// The entry at the bound is kept
    EntryAtBound,
}

pub(crate) fn run(arguments: &Arguments) -> Result<End, End> {
    if let Some(name) = &arguments.mutant {
        let found = Mutant::ALL.iter().copied().find(|mutant| mutant.label() == name);
        let known = || Mutant::ALL.iter().map(|it| it.label()).collect::<Vec<_>>().join(", ");
        let mutant =
            found.ok_or_else(|| End::Usage(format!("there is no mutant {name:?}, only {}", known())))?;
        switch_on(Some(mutant));
    }
    let found = match &arguments.machines {
        Machines::Lease { processes, live_writes, tick_ms, with, without } => {
            let small = Bounds::small();
            let has = |extra, usual| (usual || with.contains(&extra)) && !without.contains(&extra);
            let bounds = Bounds {
                processes: *processes,
                live_writes: *live_writes,
                tick: (tick_ms * 1_000).max(1),
                crashes: has(Extra::Crashes, small.crashes),
                step_downs: has(Extra::StepDowns, small.step_downs),
                late_answers: has(Extra::LateAnswers, small.late_answers),
                slow_reads: has(Extra::SlowReads, small.slow_reads),
                stale_reads: has(Extra::StaleReads, small.stale_reads),
                errors: has(Extra::Errors, small.errors),
                freezes: has(Extra::Freezes, small.freezes),
                jitter: has(Extra::Jitter, small.jitter),
                reopens: has(Extra::Reopening, small.reopens),
            };
            search(&LeaseModel { bounds }, arguments.limit)
        }
        Machines::Log { processes, epochs, writes, restarts, without } => {
            let model = LogModel {
                processes: *processes,
                epochs: *epochs,
                writes: *writes,
                restarts: *restarts,
                late_writes: 2,
                wipes: !without.contains(&Rule::Wipes),
                confirms: !without.contains(&Rule::Confirmation),
                bound_in_lease: !without.contains(&Rule::Bound),
                keeps_fences: !without.contains(&Rule::Fences),
                keeps_entry_at_bound: !without.contains(&Rule::EntryAtBound),
            };
            search(&model, arguments.limit)
        }
    };
    println!("{found}");
    Ok(match found.end {
        Found::Closed | Found::Limit => End::Well,
        Found::Wrong { .. } => End::RuleBroken,
    })
}
