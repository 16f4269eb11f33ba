//! Seeds of the whole product: processes that crash at every output and start again, Workers that fail,
//! hang, decline and come back late, clients that repeat their calls.

use dexzd_sim_tests::{runner, worlds};

#[test]
fn product_seeds() {
    runner::suite(&worlds::PRODUCT);
}
