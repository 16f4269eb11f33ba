//! A full volume under one of two processes: it ends and says so, the other one goes on (D-33, D-15).

use std::time::Duration;

use dexzd_sdk::prelude::*;

use crate::flows::{Relay, WORD, relay_worker};
use crate::harness::{Ended, Home, SMALL_VOLUME, Server, namespace_is_allowed};
use crate::pair::{Member, await_hot, ended, next_word, terminate};

/// A local store reaches the disk after 16 MiB, or 24.
const FLOWS: u32 = 40;

fn assert_full(ended: &Ended) {
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = ended.last_line();
    assert!(line.starts_with("dex-server-zd stopped: local_store_failed: "), "{line}");
    assert!(line.ends_with("; see docs/errors/local_store_failed.md"), "{line}");
    assert!(line.contains("No space left on device"), "HA-34, D-33: what the operating system said: {line}");
}

/// One process is on a volume that fills up. Whoever holds the lease, clients see no error.
async fn one_volume_is_full(is_active: bool) {
    if !namespace_is_allowed(SMALL_VOLUME) {
        return;
    }
    let home = Home::new();
    let (small, large, both) = Member::pair(&home);
    let on_small = || small.start().on_small_volume(64);
    let (full, other): (Server, Server) = if is_active {
        let full = tokio::task::block_in_place(|| on_small().ready_at(&small.api));
        (full, large.hot_standby().await)
    } else {
        let other = large.active();
        let full = tokio::task::block_in_place(|| on_small().standing_by_at(&small.api));
        await_hot(&small.api).await;
        (full, other)
    };
    let worker = relay_worker(&both);
    let client = Client::new(&both).expect("addresses").with_deadline(Duration::from_secs(120));
    client.start::<Relay>("before", &"text".to_owned()).await.expect("started");

    full.fill_volume(&small.data);
    let text = "x".repeat(500_000);
    for number in 0..FLOWS {
        client.start::<Relay>(format!("large-{number}"), &text).await.expect("started in the end");
    }
    let ended = ended(full).await;
    assert_full(&ended);
    if is_active {
        assert!(ended.stderr.contains("the lease is released"), "D-33: {}", ended.stderr);
        assert_eq!(next_word(&other).await, "ready");
    }
    let word = async |flow_id: String| {
        client.publish(&*flow_id, &WORD, &"word".to_owned()).await.expect("published");
        client.result::<Relay>(&*flow_id).await.expect("completed")
    };
    assert_eq!(word("before".to_owned()).await, "text word");
    for number in 0..FLOWS {
        assert_eq!(word(format!("large-{number}")).await, format!("{text} word"));
    }
    worker.abort();
    terminate([other]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_033_ha_055_an_active_with_a_full_volume_gives_the_lease_to_the_other() {
    one_volume_is_full(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_015_d_033_a_standby_with_a_full_volume_ends_and_disturbs_nobody() {
    one_volume_is_full(false).await;
}
