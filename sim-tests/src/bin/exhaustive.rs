//! Explores the real machines exhaustively; see docs/exhaustive.md.

use dexzd_sim_tests::exhaustive::lease::{Bounds, LeaseModel};
use dexzd_sim_tests::exhaustive::search::search;

fn main() {
    let mut bounds = Bounds::small();
    let mut limit = 20_000_000;
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').expect("name=number");
        let number: u64 = value.parse().expect("a number");
        let flag = number > 0;
        match name {
            "limit" => limit = number as usize,
            "live" => bounds.live_writes = number as usize,
            "processes" => bounds.processes = number as usize,
            "tick" => bounds.tick = number * 1_000,
            "held" => bounds.starts_held = flag,
            "crashes" => bounds.crashes = flag,
            "step" => bounds.step_downs = flag,
            "late" => bounds.late_answers = flag,
            "slow" => bounds.slow_reads = flag,
            "stale" => bounds.stale_reads = flag,
            "errors" => bounds.errors = flag,
            "freezes" => bounds.freezes = flag,
            "jitter" => bounds.jitter = flag,
            _ => panic!("what is {name}?"),
        }
    }
    println!("{bounds:?}\n{}", search(&LeaseModel { bounds }, limit));
}
