//! Thousands of seeds of processes that compete for one lease, under whatever the swarm draws.

use dexzd_sim_tests::{runner, worlds};

#[test]
fn lease_seeds() {
    runner::suite(&worlds::LEASE);
}
