//! Processes whose clocks have nothing to do with one another.
//!
//! The clocks of the lease are read past the C library (`io-tokio/src/clock.rs`), so no preloaded library bends them;
//! a namespace does, but only where a clock begins. What jumps do, the simulator shows.

use crate::epochs::Epochs;
use crate::harness::{Home, Server, namespace_is_allowed};
use crate::load::Load;
use crate::pair::{Member, await_hot, next_word, step_down, terminate};

/// Ten days.
const LATER: &[&str] =
    &["unshare", "--time", "--map-root-user", "--boottime", "864000", "--monotonic", "864000"];

/// D-1, D-2, invariant 3: nobody compares instants of two machines. Were one of them to, the one whose clocks are
/// ten days ahead would find every lease expired, and the other one none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_001_d_002_clocks_that_are_days_apart_change_nothing() {
    if !namespace_is_allowed(LATER) {
        return;
    }
    let home = Home::new();
    let (early, late, both) = Member::pair(&home);
    let start_late = || late.start().within(LATER);
    let first = early.active();
    let second = tokio::task::block_in_place(|| start_late().standing_by_at(&late.api));
    await_hot(&late.api).await;
    let epochs = Epochs::watch(&[&early.api, &late.api]);
    let load = Load::begin(&both, 2);
    let renewals = "dexzd_lease_renewal_seconds_count";
    let live_for_a_lease = async |server: &Server| {
        let (epoch, before) = (server.metric("dexzd_epoch"), server.metric(renewals));
        while server.metric(renewals) < before + 5 {
            load.acknowledge(5).await;
        }
        assert_eq!((server.metric("dexzd_epoch"), server.metric("dexzd_lease_doubts_total")), (epoch, 0));
    };
    live_for_a_lease(&first).await;
    epochs.until(1).await;
    // Each takes over from the other, after an expiry and after a release.
    tokio::task::block_in_place(|| first.kill());
    assert_eq!(next_word(&second).await, "ready");
    let first = early.hot_standby().await;
    live_for_a_lease(&second).await;
    epochs.until(2).await;
    step_down(&late.api).await;
    assert_eq!((next_word(&second).await, next_word(&first).await), ("standby".into(), "ready".into()));
    load.verify().await;
    epochs.until(3).await;
    epochs.verify().await;
    terminate([second, first]);
}
