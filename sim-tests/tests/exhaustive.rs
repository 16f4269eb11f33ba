//! The real machines, explored exhaustively (docs/exhaustive.md).

use dexzd_sim_tests::exhaustive::lease::{Bounds, LeaseModel};
use dexzd_sim_tests::exhaustive::log::LogModel;
use dexzd_sim_tests::exhaustive::search::{End, search};

const LIMIT: usize = 3_000_000;

/// Invariant 3, HA-13 and D-37 in every order of everything that may happen to two processes: any number of
/// epochs, crashes, step downs and renewals, answers that come late, writes that land at any time.
#[test]
fn ha_017_two_processes_and_one_lease_hold_in_every_order() {
    let found = search(&LeaseModel { bounds: Bounds::small() }, LIMIT);
    assert_eq!(found.end, End::Closed, "{found}");
    assert!(found.states > 200_000, "{found}");
}

/// Invariants 1, 2 and 6 without any clock: starts, fences, late writes, trimming, restarts with and without disks.
#[test]
fn ha_015_starts_and_appenders_hold_in_every_order_without_any_clock() {
    let found = search(&LogModel { epochs: 3, ..LogModel::small() }, LIMIT);
    assert_eq!(found.end, End::Closed, "{found}");
    assert!(found.states > 400_000, "{found}");
}
