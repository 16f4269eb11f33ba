//! Signals: drain, commit, release, exit 0; or at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dexzd_sdk::prelude::*;
use rustix::process::Signal;

use super::flows::Slow;
use super::harness::{Ended, Home, Server, Start, connect, free_port};

/// A server with one Flow whose only Step takes so long, once that Step runs.
async fn running(home: &Home, config: &str, api: &str, takes: Duration) -> (Server, Arc<AtomicU32>) {
    let server = Start::dev(&home.data()).config(config).ready_at(api);
    let begun = Arc::new(AtomicU32::new(0));
    let flow = Slow { takes, begun: Arc::clone(&begun) };
    let worker = Worker::builder(api).flow(flow).build().expect("a sound Flow");
    tokio::spawn(async move { worker.run().await.expect("a Worker reconnects") });
    let client = Client::connect(api).await.expect("it serves");
    client.start::<Slow>("slow", &()).await.expect("started");
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (server, begun)
}

async fn ended(mut server: Server) -> Ended {
    tokio::task::spawn_blocking(move || server.wait()).await.expect("no panic")
}

async fn result(api: &str) -> u32 {
    let client = Client::connect(api).await.expect("it serves");
    client.result::<Slow>("slow").await.expect("completed")
}

/// HA-16, HA-92, D-29, D-32: the attempt that runs is waited for, and its result is durable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_016_ha_092_d_029_a_signal_lets_running_attempts_finish() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = Home::new();
        let api = format!("127.0.0.1:{}", free_port());
        let (mut server, begun) = running(&home, "", &api, Duration::from_millis(700)).await;
        server.signal(signal);
        let ended = ended(server).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.last_line(), "dex-server-zd stopped: shutdown: shut down as asked");
        assert!(ended.stderr.contains("the lease is released"), "{}", ended.stderr);

        let _server = Start::dev(&home.data()).ready_at(&api);
        assert_eq!((result(&api).await, begun.load(Ordering::SeqCst)), (1, 1), "attempt 1 counted");
    }
}

/// HA-90, HA-96, D-25: what outlasts the drain is failed by the next epoch, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_090_ha_096_d_025_an_attempt_that_outlasts_the_drain_costs_one_retry() {
    let home = Home::new();
    let api = format!("127.0.0.1:{}", free_port());
    let config = "lifecycle: {attemptDrainTimeout: 200ms}";
    let (server, begun) = running(&home, config, &api, Duration::from_secs(20)).await;
    let ended = tokio::task::spawn_blocking(move || server.terminate()).await.expect("no panic");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);

    let server = Start::dev(&home.data()).ready_at(&api);
    while begun.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let client = Client::connect(&api).await.expect("it serves");
    let state = client.state("slow").await.expect("open");
    assert_eq!(state.steps[0].attempt, 2);
    let failure = state.steps[0].last_failure.as_ref().expect("the first attempt failed");
    assert_eq!(failure.error_type, "NOT_COMPLETED");
    drop(server);
}

/// D-32: a second signal does not wait; the state is as after a kill, which loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_032_a_second_signal_ends_the_drain_at_once() {
    let home = Home::new();
    let api = format!("127.0.0.1:{}", free_port());
    let (mut server, _begun) = running(&home, "", &api, Duration::from_secs(20)).await;
    // Signals in quick succession are one; those of a person who has had enough are not.
    let ended = tokio::task::spawn_blocking(move || {
        while server.is_running() {
            server.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(50));
        }
        server.wait()
    })
    .await
    .expect("no panic");
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.last_line(),
        "dex-server-zd stopped: forced: a second signal ended it before its drain was over"
    );
    assert_eq!(Start::dev(&home.data()).ready().terminate().code, Some(0));
}

/// HA-95: a long poll that is open at the release gets UNAVAILABLE, so the client asks the next active.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_095_an_open_long_poll_ends_unavailable_and_the_sdk_goes_on_with_the_next_process() {
    let home = Home::new();
    let api = format!("127.0.0.1:{}", free_port());
    let (server, _begun) = running(&home, "", &api, Duration::from_millis(500)).await;
    let mut raw = dexzd_sdk::proto::flow_service_client::FlowServiceClient::new(connect(&api).await);
    let request = dexzd_sdk::proto::WaitForFlowRequest {
        target: Some(dexzd_sdk::proto::Target { flow_id: "idle".into(), run_id: None }),
        wait_ms: None,
    };
    let idle = dexzd_sdk::proto::StartFlowRequest {
        request_id: "r".into(),
        flow_id: "idle".into(),
        flow_type: "Idle".into(),
        ..Default::default()
    };
    raw.start_flow(idle).await.expect("started");
    let poll = tokio::spawn(async move { raw.wait_for_flow(request).await });
    let waiting = tokio::spawn({
        let api = api.clone();
        async move { result(&api).await }
    });
    let ended = tokio::task::spawn_blocking(move || server.terminate()).await.expect("no panic");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let status = poll.await.expect("no panic").expect_err("it never closes");
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let _server = Start::dev(&home.data()).ready_at(&api);
    assert_eq!(waiting.await.expect("no panic"), 1);
}
