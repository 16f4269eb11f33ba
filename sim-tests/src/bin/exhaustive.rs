//! Explores the real machines exhaustively; see docs/exhaustive.md.

use dexzd_sim_tests::exhaustive::lease::{Bounds, LeaseModel};
use dexzd_sim_tests::exhaustive::log::LogModel;
use dexzd_sim_tests::exhaustive::search::search;

fn main() {
    let mut bounds = Bounds::small();
    let mut log = LogModel::small();
    let mut limit = 20_000_000;
    let mut is_log = false;
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').expect("name=number");
        let number: u64 = value.parse().expect("a number");
        let flag = number > 0;
        match name {
            "log" => is_log = flag,
            "limit" => limit = number as usize,
            "live" => bounds.live_writes = number as usize,
            "processes" => {
                bounds.processes = number as usize;
                log.processes = number as usize;
            }
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
            "epochs" => log.epochs = number,
            "writes" => log.writes = number as u8,
            "restarts" => log.restarts = number as u8,
            "wipes" => log.wipes = flag,
            "confirms" => log.confirms = flag,
            "bound" => log.bound_in_lease = flag,
            "fences" => log.keeps_fences = flag,
            "head" => log.keeps_entry_at_bound = flag,
            _ => panic!("what is {name}?"),
        }
    }
    if is_log {
        println!("{log:?}\n{}", search(&log, limit));
    } else {
        println!("{bounds:?}\n{}", search(&LeaseModel { bounds }, limit));
    }
}
