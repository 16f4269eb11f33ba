//! Each defect that the models beside the specification break is found in the real machines as well, with its
//! shortest way (docs/exhaustive.md). One test: the switch of the mutants is process-wide.

use dexzd_core::mutant::{Mutant, switch_on};
use dexzd_sim_tests::exhaustive::lease::{Bounds, LeaseModel};
use dexzd_sim_tests::exhaustive::log::LogModel;
use dexzd_sim_tests::exhaustive::search::{End, Found, Model, search};

const LIMIT: usize = 3_000_000;

fn shortest(model: &impl Model, mutant: Option<Mutant>) -> Option<usize> {
    switch_on(mutant);
    let found: Found = search(model, LIMIT);
    switch_on(None);
    println!("== {}\n{found}", mutant.map_or("a rule outside of the machines", Mutant::label));
    match found.end {
        End::Wrong { trace, .. } => Some(trace.len()),
        End::Closed => None,
        End::Limit => panic!("neither broken nor closed: {found}"),
    }
}

#[test]
fn review_5_and_appendix_b_every_wrong_variant_is_broken_by_its_shortest_way() {
    let small = Bounds { crashes: false, ..Bounds::small() };
    let lease = |bounds| LeaseModel { bounds };
    let calm = lease(Bounds { step_downs: false, live_writes: 2, ..small });
    let releasing = Bounds { late_answers: false, ..small };
    let log = LogModel { wipes: false, epochs: 3, ..LogModel::small() };
    let long = LogModel { writes: 2, ..log };
    let results = [
        ("lease: adopted from the latest try", shortest(&calm, Some(Mutant::AdoptFromLatestTry))),
        ("lease: adopted from now", shortest(&calm, Some(Mutant::AdoptFromNow))),
        ("lease: trusted from the answer", shortest(&calm, Some(Mutant::TrustFromAnswer))),
        ("lease: gate opened again", shortest(&lease(Bounds { reopens: true, ..releasing }), None)),
        ("lease: epoch not raised", shortest(&lease(releasing), Some(Mutant::EpochNotRaised))),
        ("lease: epoch not kept", shortest(&lease(releasing), Some(Mutant::ReleaseForgetsEpoch))),
        ("log: fences trimmed", shortest(&LogModel { keeps_fences: false, ..log }, None)),
        ("log: lease not confirmed", shortest(&LogModel { confirms: false, ..long }, None)),
        ("log: no bound in the lease", shortest(&LogModel { bound_in_lease: false, ..long }, None)),
        ("log: refused is accepted", shortest(&log, Some(Mutant::RefusedIsAccepted))),
        ("log: late entry skipped", shortest(&log, Some(Mutant::LateEntrySkipped))),
    ];
    let expected = [
        ("lease: adopted from the latest try", 27),
        ("lease: adopted from now", 27),
        ("lease: trusted from the answer", 25),
        ("lease: gate opened again", 6),
        ("lease: epoch not raised", 5),
        ("lease: epoch not kept", 5),
        ("log: fences trimmed", 18),
        ("log: lease not confirmed", 30),
        ("log: no bound in the lease", 18),
        ("log: refused is accepted", 9),
        ("log: late entry skipped", 13),
    ];
    assert_eq!(results, expected.map(|(what, steps)| (what, Some(steps))));
}
