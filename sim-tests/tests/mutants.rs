//! Every deliberate defect is seen, and without one the same seeds are clean.
//!
//! One test, because the switch is process-wide.

use dexzd_core::mutant::Mutant;
use dexzd_sim_tests::mutants::{Hunt, hunt};

/// Mutants chosen by `DEXZD_SIM_MUTANTS=a,b`, or all.
fn chosen() -> Vec<Mutant> {
    let names = std::env::var("DEXZD_SIM_MUTANTS").unwrap_or_default();
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    let wanted = |it: &Mutant| names.is_empty() || names.contains(&it.label());
    Mutant::ALL.iter().copied().filter(wanted).collect()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn every_mutant_is_killed() {
    let plan = Hunt { repetitions: number("DEXZD_SIM_REPEAT", 1), at_most: number("DEXZD_SIM_SEEDS", 3_000) };
    let mut survivors = Vec::new();
    for mutant in chosen() {
        let started = std::time::Instant::now();
        let verdict = hunt(mutant, plan);
        println!(
            "{:24} {:8} {:>6} {:?} {} ({:.1} s)",
            mutant.label(),
            verdict.world,
            verdict.median_seeds().map_or("lives".to_owned(), |seeds| seeds.to_string()),
            verdict.seeds,
            verdict.rule(),
            started.elapsed().as_secs_f64()
        );
        if !verdict.is_killed() {
            survivors.push(mutant.label());
        }
    }
    assert_eq!(survivors, Vec::<&str>::new(), "these defects were not seen");
}
