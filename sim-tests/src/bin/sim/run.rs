//! `sim run`: many seeds, and what they showed.

use std::time::Duration;

use dexzd_sim_tests::attempt::Fault;
use dexzd_sim_tests::batch::{self, Plan, Summary, percentile};
use dexzd_sim_tests::explain;
use dexzd_sim_tests::lookout::FAILOVER_GAP;
use dexzd_sim_tests::worlds::{self, NamedWorld};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::end::End;
use crate::seeds;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The world, or `all`
    #[arg(long, default_value = "all")]
    world: String,

    /// Which seeds, both ends included: 1..20000. Default: as many as a test run, or without end if there is a
    /// budget
    #[arg(long, value_name = "FIRST..LAST", value_parser = seeds::range)]
    seeds: Option<(u64, u64)>,

    /// Begin no further seed after this time: 4m, 90s. It is shared by all worlds
    #[arg(long, value_name = "TIME", value_parser = seeds::duration)]
    budget: Option<Duration>,

    /// Seeds of this commit: each commit sees others, and the same again when it is run again
    #[arg(long, value_name = "COMMIT", value_parser = seeds::seed_of_commit)]
    seed_of: Option<u64>,

    /// Go on after a failure: one line for each seed that fails
    #[arg(long)]
    go_on: bool,

    /// One JSON object per world and line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<End, End> {
    let worlds: Vec<&NamedWorld> = match arguments.world.as_str() {
        "all" => worlds::ALL.to_vec(),
        name => vec![seeds::world(name).map_err(End::Usage)?],
    };
    let budget = arguments.budget.map(|budget| budget / u32::try_from(worlds.len()).expect("a few"));
    let mut end = End::Well;
    for world in worlds {
        let without_end = if budget.is_some() { u64::MAX } else { world.test_seeds };
        let (first, count) = match arguments.seeds {
            Some((first, last)) => (first, (last - first).saturating_add(1)),
            None => (1, without_end),
        };
        let first = first.wrapping_add(arguments.seed_of.unwrap_or_default());
        let plan = Plan { first, count, budget, goes_on: arguments.go_on };
        let summary = batch::run(plan, world.make, &progress(world, plan));
        let faults = faults(world, &summary);
        if arguments.json {
            println!("{}", json_line(world, &summary, &faults));
        } else {
            tell(world, plan, &summary);
        }
        for (seed, fault) in summary.failures.iter().filter(|_| arguments.go_on) {
            eprintln!("{} seed {seed}: {fault}", world.name);
        }
        if let Some((seed, fault)) = summary.failures.first() {
            eprint!("\n{}", explain::failing_seed(world, *seed, fault).text);
        }
        for fault in faults.iter().filter(|fault| matches!(fault, Fault::MarkMissed(_))) {
            eprintln!("{}: {fault}", world.name);
        }
        // A broken rule is told rather than a fault of the simulator beside it, world for world.
        let worse = faults.iter().find(|fault| !fault.is_the_simulators()).or(faults.first());
        if !matches!(end, End::RuleBroken) && worse.is_some() {
            end = End::of(worse);
        }
    }
    Ok(end)
}

/// What went wrong. Marks are demanded of no fewer seeds than those of a test run.
fn faults(world: &NamedWorld, summary: &Summary) -> Vec<Fault> {
    let mut faults: Vec<Fault> = summary.failures.iter().map(|(_, fault)| fault.clone()).collect();
    if summary.seeds >= world.test_seeds {
        faults.extend(summary.missed(world.demands));
    }
    faults
}

fn progress(world: &NamedWorld, plan: Plan) -> impl Fn(u64) + Sync + use<> {
    // On a terminal only; indicatif draws nothing elsewhere.
    let bar = if plan.count == u64::MAX { ProgressBar::new_spinner() } else { ProgressBar::new(plan.count) };
    let template = if plan.count == u64::MAX {
        "{prefix} {spinner} {pos} seeds, {per_sec}, {elapsed}"
    } else {
        "{prefix} {bar:40} {pos}/{len} seeds, {per_sec}, {eta} left"
    };
    bar.set_style(ProgressStyle::with_template(template).expect("a template of ours"));
    bar.set_prefix(world.name);
    let count = plan.count;
    move |done| {
        if done.is_multiple_of(16) || done == count {
            bar.set_position(done);
        }
        if done == count {
            bar.finish_and_clear();
        }
    }
}

fn tell(world: &NamedWorld, plan: Plan, summary: &Summary) {
    let Summary { seeds, twice, events, simulated, took, cpu, tally, failures, .. } = summary;
    let took = took.as_secs_f64();
    println!("{}: {}", world.name, world.about);
    let of = if *seeds < plan.count && plan.count != u64::MAX {
        format!(" of {}, then the time was over or a rule was broken", plan.count)
    } else {
        String::new()
    };
    println!("  seeds             {seeds}{of}; {twice} of them twice; {} failed", failures.len());
    println!(
        "  seeds per second  {:.0}, {took:.1} s, {:.1} s of CPU",
        *seeds as f64 / took,
        cpu.as_secs_f64()
    );
    println!(
        "  simulated time    {:.1} h, {:.0} times the CPU time",
        *simulated as f64 / 3.6e9,
        summary.simulated_per_cpu()
    );
    println!("  events            {events}, {:.2} M per CPU second", summary.events_per_cpu_second() / 1e6);
    println!("  failover gap      {}", gap(summary));
    println!("  marks");
    for (mark, count) in &tally.marks {
        println!("    {count:>9} x {mark}");
    }
}

/// Sorted gaps, and the shares that are told.
fn gaps(summary: &Summary) -> (Vec<u64>, [(&'static str, f64); 4]) {
    let mut gaps = summary.tally.values.get(FAILOVER_GAP).cloned().unwrap_or_default();
    gaps.sort_unstable();
    (gaps, [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)])
}

fn gap(summary: &Summary) -> String {
    let (gaps, shares) = gaps(summary);
    if gaps.is_empty() {
        return "none was seen".to_owned();
    }
    let told: Vec<String> = shares
        .iter()
        .filter_map(|(name, share)| {
            percentile(&gaps, *share).map(|gap| format!("{name} {:.2} s", gap as f64 / 1e6))
        })
        .collect();
    format!("{}, of {} failovers", told.join(", "), gaps.len())
}

fn json_line(world: &NamedWorld, summary: &Summary, faults: &[Fault]) -> serde_json::Value {
    let (gaps, shares) = gaps(summary);
    let gap: serde_json::Map<String, serde_json::Value> = shares
        .iter()
        .map(|(name, share)| {
            ((*name).to_owned(), percentile(&gaps, *share).map(|gap| gap as f64 / 1e6).into())
        })
        .collect();
    json!({
        "world": world.name,
        "seeds": summary.seeds,
        "runTwice": summary.twice,
        "seconds": summary.took.as_secs_f64(),
        "cpuSeconds": summary.cpu.as_secs_f64(),
        "seedsPerSecond": summary.seeds as f64 / summary.took.as_secs_f64(),
        "simulatedSeconds": summary.simulated as f64 / 1e6,
        "simulatedPerCpu": summary.simulated_per_cpu(),
        "events": summary.events,
        "eventsPerCpuSecond": summary.events_per_cpu_second(),
        "failoverGapSeconds": gap,
        "failovers": gaps.len(),
        "marks": summary.tally.marks,
        "failures": summary.failures.iter().map(|(seed, fault)| json!({
            "seed": seed, "sentence": fault.to_string(), "faultOfTheSimulator": fault.is_the_simulators(),
        })).collect::<Vec<_>>(),
        "ok": faults.is_empty(),
    })
}
