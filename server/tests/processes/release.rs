//! SIGTERM at a random moment between two renewals, in one, or in a log write.

use std::time::Duration;

use crate::epochs::Epochs;
use crate::harness::Home;
use crate::load::Load;
use crate::pair::{Member, next_word, terminate};

const ROUNDS: u32 = 16;

/// HA-16, HA-55, HA-98, D-29, D-37, lesson E1: each time the lease is released, so that the other one, which waits,
/// need not wait for an expiry; and nobody answers for two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_016_ha_055_d_029_d_037_lesson_e1_sigterm_at_any_moment_releases_the_lease() {
    let home = Home::new();
    let (a, b, both) = Member::pair(&home);
    let mut active = (a.active(), &a);
    let mut standby = (b.hot_standby().await, &b);
    let epochs = Epochs::watch(&[&a.api, &b.api]);
    let load = Load::begin(&both, 2);
    let seed = u64::from(std::process::id());
    println!("moments from seed {seed}");
    let mut moments = fastrand::Rng::with_seed(seed);
    for round in 0..ROUNDS {
        epochs.until(round as usize + 1).await;
        // A renewal begins a second after the one before.
        tokio::time::sleep(Duration::from_micros(moments.u64(0..1_100_000))).await;
        let (server, member) = active;
        let ended = tokio::task::block_in_place(|| server.terminate());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.last_line(), "dex-server-zd stopped: shutdown: shut down as asked");
        assert!(ended.stderr.contains("the lease is released"), "{}", ended.stderr);
        assert_eq!(next_word(&standby.0).await, "ready");
        active = standby;
        standby = (member.hot_standby().await, member);
    }
    println!("{} Flows over {ROUNDS} shutdowns", load.verify().await);
    epochs.until(ROUNDS as usize + 1).await;
    epochs.verify().await;
    terminate([standby.0, active.0]);
}
