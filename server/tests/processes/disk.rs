//! A disk that takes no more: the process stops, and a restart with space goes on (D-33).

use std::time::Duration;

use dexzd_sdk::prelude::*;

use super::flows::{Relay, WORD, relay_worker};
use super::harness::{Home, Start, free_port};

/// D-33, HA-34. The limit on the file size stands for the full disk: to the process both are a write
/// that fails, and this one needs no privileges.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_033_ha_034_a_full_disk_stops_the_process_and_a_restart_with_space_goes_on() {
    let home = Home::new();
    let api = format!("127.0.0.1:{}", free_port());
    let mut server = Start::dev(&home.data()).ignoring_file_size_signal().ready_at(&api);
    let worker = relay_worker(&api);
    let client = Client::connect(&api).await.expect("it serves").with_deadline(Duration::from_secs(60));
    client.start::<Relay>("before", &"text".to_owned()).await.expect("started");

    server.limit_file_size(1);
    let during = tokio::spawn({
        let client = client.clone();
        async move { client.start::<Relay>("during", &"text".to_owned()).await }
    });
    let ended = tokio::task::spawn_blocking(move || server.wait()).await.expect("no panic");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = ended.last_line();
    assert!(line.starts_with("dex-server-zd stopped: local_store_failed: "), "{line}");
    assert!(line.ends_with("; see docs/errors/local_store_failed.md"), "{line}");

    let server = Start::dev(&home.data()).ready_at(&api);
    during.await.expect("no panic").expect("the repeated call finds a server with space");
    for flow_id in ["before", "during"] {
        client.publish(flow_id, &WORD, &"word".to_owned()).await.expect("published");
        assert_eq!(client.result::<Relay>(flow_id).await.expect("completed"), "text word");
    }
    worker.abort();
    drop(server);
}
