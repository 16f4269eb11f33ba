//! SIGKILL at random moments under load: every acknowledged effect is there afterwards.

use std::time::Duration;

use super::harness::{Home, Start, free_port};
use super::load::Load;

const CLIENTS: u64 = 8;

/// Kills the server so many times and looks for everything that was acknowledged.
async fn kill_under_load(durability: &'static str, kills: u32) {
    let home = Home::new();
    let api = format!("127.0.0.1:{}", free_port());
    let start = || Start::dev(&home.data()).with(&["--durability", durability]);
    let mut server = start().ready_at(&api);
    let load = Load::begin(&api, CLIENTS);

    let seed = u64::from(std::process::id());
    println!("moments of the kills from seed {seed}");
    let mut moments = fastrand::Rng::with_seed(seed);
    let mut epoch = server.metric("dexzd_epoch");
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(moments.u64(20..400))).await;
        server = tokio::task::spawn_blocking({
            let start = start();
            let api = api.clone();
            move || {
                server.kill();
                start.ready_at(&api)
            }
        })
        .await
        .expect("no panic");
        let newer = server.metric("dexzd_epoch");
        assert!(newer > epoch, "HA-13: epoch {newer} after {epoch}");
        epoch = newer;
    }

    let started = load.verify().await;
    println!("{started} Flows started and completed over {kills} kills");
    assert!(started >= CLIENTS, "the load went on between the kills");
    let ended = tokio::task::spawn_blocking(move || server.terminate()).await.expect("no panic");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// HA-8, HA-14, FD-1, FD-4, D-35: in strict mode.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_008_ha_014_fd_001_d_035_twenty_kills_lose_nothing_that_was_acknowledged() {
    kill_under_load("strict", 20).await;
}

/// HA-9: without fsync the death of the process still loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_009_d_028_a_kill_loses_nothing_in_process_crash_safe_mode() {
    kill_under_load("process-crash-safe", 5).await;
}
