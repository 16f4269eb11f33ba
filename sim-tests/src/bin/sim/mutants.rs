//! `sim mutants`: which deliberate defects the suites see, and how soon.

use dexzd_core::mutant::Mutant;
use dexzd_sim_tests::mutants::{Hunt, Verdict, hunt};
use serde_json::json;

use crate::end::End;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only these; default: all
    names: Vec<String>,

    /// Hunts for each, from other seeds; the median is told
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,

    /// Seeds of one hunt, after which the mutant has survived it
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    at_most: u64,

    /// One JSON object per mutant and line
    #[arg(long)]
    json: bool,
}

/// A mutant that lives is a hole in the simulator.
pub(crate) fn run(arguments: &Arguments) -> Result<End, End> {
    let mutants = chosen(&arguments.names)?;
    let plan = Hunt { repetitions: arguments.repeat, at_most: arguments.at_most };
    let mut survivors = 0;
    if !arguments.json {
        println!("| mutant | what is wrong | breaks | world | median seeds | seen by |");
        println!("| --- | --- | --- | --- | --- | --- |");
    }
    for mutant in mutants {
        let verdict = hunt(mutant, plan);
        survivors += usize::from(!verdict.is_killed());
        println!("{}", if arguments.json { json_line(&verdict) } else { row(&verdict) });
    }
    if survivors > 0 {
        let lived = if survivors == 1 { "mutant" } else { "mutants" };
        eprintln!("{survivors} {lived} lived");
        return Ok(End::SimulatorFault);
    }
    Ok(End::Well)
}

fn chosen(names: &[String]) -> Result<Vec<Mutant>, End> {
    if names.is_empty() {
        return Ok(Mutant::ALL.to_vec());
    }
    names.iter().map(|name| named(name).map_err(End::Usage)).collect()
}

fn row(verdict: &Verdict) -> String {
    let mutant = verdict.mutant;
    let seeds = verdict.median_seeds().map_or("lives".to_owned(), |seeds| seeds.to_string());
    let (what, breaks) = (mutant.description(), mutant.breaks());
    format!("| `{mutant}` | {what} | {breaks} | {} | {seeds} | {} |", verdict.world, verdict.rule())
}

fn json_line(verdict: &Verdict) -> String {
    json!({
        "mutant": verdict.mutant.label(),
        "killed": verdict.is_killed(),
        "median_seeds": verdict.median_seeds(),
        "rule": verdict.rule(),
        "world": verdict.world,
    })
    .to_string()
}

/// The mutant of this name.
pub(crate) fn named(name: &str) -> Result<Mutant, String> {
    let found = Mutant::ALL.iter().copied().find(|mutant| mutant.label().eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let known: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.label()).collect();
        format!("there is no mutant {name:?}, but: {}", known.join(", "))
    })
}
