//! SIGKILL at random moments under load: every acknowledged effect is there afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dexzd_sdk::prelude::*;

use super::flows::{Relay, SEEN, WORD, relay_worker};
use super::harness::{Home, Start, free_port};

/// What a client was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Acknowledged {
    Started(u64),
    Published(u64),
}

const CLIENTS: u64 = 8;

/// Starts Flows and publishes their words until told to end; calls that meet a dead server are repeated
/// by the SDK with the same request ID.
async fn load(api: String, next: Arc<AtomicU64>, end: Arc<AtomicBool>) -> Vec<Acknowledged> {
    let client = Client::new(&api).expect("an address").with_deadline(Duration::from_secs(60));
    let mut acknowledged = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let flow_id = format!("relay-{number}");
        client.start::<Relay>(&*flow_id, &format!("text {number}")).await.expect("started in the end");
        acknowledged.push(Acknowledged::Started(number));
        client.publish(&*flow_id, &WORD, &format!("word {number}")).await.expect("published in the end");
        acknowledged.push(Acknowledged::Published(number));
    }
    acknowledged
}

/// Kills the server so many times and looks for everything that was acknowledged.
async fn kill_under_load(durability: &'static str, kills: u32) {
    let home = Home::new();
    let api = format!("127.0.0.1:{}", free_port());
    let start = || Start::dev(&home.data()).with(&["--durability", durability]);
    let mut server = start().ready_at(&api);
    let worker = relay_worker(&api);
    let next = Arc::new(AtomicU64::new(0));
    let end = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| tokio::spawn(load(api.clone(), Arc::clone(&next), Arc::clone(&end)))).collect();

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
    end.store(true, Ordering::Relaxed);

    let client = Client::new(&api).expect("an address").with_deadline(Duration::from_secs(60));
    let mut started = 0;
    for handle in clients {
        for effect in handle.await.expect("no panic") {
            match effect {
                Acknowledged::Started(number) => {
                    started += 1;
                    let summary = client.describe(format!("relay-{number}")).await.expect("it was started");
                    assert_eq!(summary.flow_type, "Relay");
                }
                // The word was taken: nothing else lets the Flow complete.
                Acknowledged::Published(number) => {
                    let flow_id = format!("relay-{number}");
                    let result = client.result::<Relay>(&*flow_id).await.expect("it completes");
                    assert_eq!(result, format!("text {number} word {number}"));
                    let seen = client.attribute(&*flow_id, &SEEN).await.expect("readable");
                    assert_eq!(seen, Some(format!("text {number}")));
                }
            }
        }
    }
    println!("{started} Flows started and completed over {kills} kills");
    assert!(started >= CLIENTS, "the load went on between the kills");
    worker.abort();
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
