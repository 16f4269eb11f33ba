//! Calls that survive the failover to another process.

use std::time::Duration;

use tokio::time::Instant;
use tonic::Status;

use super::{Greeting, ada, started};
use crate::testing::FakeServer;
use crate::{CALL_DEADLINE, Client, ClientError, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT};

/// What a standby answers.
fn standby() -> Status {
    Status::unavailable("this process does not serve; repeat the call with the same request ID")
}

fn client_of(servers: &[&FakeServer]) -> Client {
    Client::of(FakeServer::link_to(servers))
}

fn request_ids(server: &FakeServer) -> Vec<String> {
    server.state.starts.requests.lock().unwrap().iter().map(|request| request.request_id.clone()).collect()
}

/// A takeover takes the lease and 1 s; a call that begins with it must outlive it, and the try after it.
#[test]
fn ha_018_a_call_outlives_a_takeover_of_the_default_lease() {
    let takeover = Duration::from_secs(10 + 1);
    assert!(CALL_DEADLINE > takeover + dexzd_connection::BACKOFF_CAP + dexzd_connection::CONNECT_TIMEOUT);
    // A frozen process is noticed before its lease is over.
    assert!(KEEP_ALIVE_INTERVAL + KEEP_ALIVE_TIMEOUT < takeover);
}

#[tokio::test(start_paused = true)]
async fn lesson_f3_a_call_moves_on_from_a_standby_with_the_same_request_id() {
    let (first, second) = (FakeServer::start(), FakeServer::start());
    first.state.starts.answer(Err(standby()));
    second.state.starts.answer(started("run-1"));
    let client = client_of(&[&first, &second]);
    let began = Instant::now();
    assert_eq!(client.start::<Greeting>("greeting-1", &ada()).await.unwrap(), "run-1");
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!(request_ids(&first), request_ids(&second));

    // It stays with whoever serves.
    second.state.starts.answer(started("run-2"));
    assert_eq!(client.start::<Greeting>("greeting-2", &ada()).await.unwrap(), "run-2");
    assert_eq!(request_ids(&first).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lesson_f3_nobody_serves_for_11_s_and_no_call_is_lost() {
    let (active, standby_server) = (FakeServer::start(), FakeServer::start());
    active.state.starts.answer(started("run-0"));
    let client = client_of(&[&active, &standby_server]);
    client.start::<Greeting>("greeting-0", &ada()).await.unwrap();

    active.kill();
    let killed = Instant::now();
    // Each look of the client at the standby, until its takeover.
    for _ in 0..10_000 {
        standby_server.state.starts.answer(Err(standby()));
    }
    let calls = (0..20).map(|number| {
        let client = client.clone();
        tokio::spawn(async move { client.start::<Greeting>(format!("greeting-{number}"), &ada()).await })
    });
    let calls: Vec<_> = calls.collect();
    tokio::time::sleep(Duration::from_secs(11)).await;
    standby_server.state.starts.forget_answers();
    for _ in 0..20 {
        standby_server.state.starts.answer(started("run-1"));
    }
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "run-1");
    }
    assert!(killed.elapsed() <= Duration::from_secs(12), "{:?}", killed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn lesson_f3_a_graceful_goodbye_is_no_error() {
    let (mut first, second) = (FakeServer::start(), FakeServer::start());
    let answer = first.state.starts.answer_later();
    let client = client_of(&[&first, &second]);
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.start::<Greeting>("greeting-1", &ada()).await }
    });
    while request_ids(&first).is_empty() {
        tokio::task::yield_now().await;
    }
    first.say_goodbye();
    second.state.starts.answer(started("run-2"));
    let next = tokio::spawn({
        let client = client.clone();
        async move { client.start::<Greeting>("greeting-2", &ada()).await }
    });
    assert_eq!(next.await.unwrap().unwrap(), "run-2");
    // What ran when the goodbye came is answered over the old connection.
    answer.send(started("run-1")).unwrap();
    assert_eq!(running.await.unwrap().unwrap(), "run-1");
    assert_eq!(request_ids(&second).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lesson_b5_a_call_to_a_frozen_server_moves_on_after_9_s() {
    let (first, second) = (FakeServer::start(), FakeServer::start());
    first.state.starts.answer(started("run-0"));
    let client = client_of(&[&first, &second]);
    client.start::<Greeting>("greeting-0", &ada()).await.unwrap();
    first.freeze();
    second.state.starts.answer(started("run-1"));
    let frozen = Instant::now();
    assert_eq!(client.start::<Greeting>("greeting-1", &ada()).await.unwrap(), "run-1");
    let noticed = KEEP_ALIVE_INTERVAL + KEEP_ALIVE_TIMEOUT;
    assert!(frozen.elapsed() <= noticed + Duration::from_millis(200), "{:?}", frozen.elapsed());
}

#[tokio::test(start_paused = true)]
async fn lesson_b5_an_idle_client_has_left_a_frozen_server_before_its_next_call() {
    let (first, second) = (FakeServer::start(), FakeServer::start());
    first.state.starts.answer(started("run-0"));
    let client = client_of(&[&first, &second]);
    client.start::<Greeting>("greeting-0", &ada()).await.unwrap();
    first.freeze();
    tokio::time::sleep(Duration::from_secs(11)).await;
    second.state.starts.answer(started("run-1"));
    let began = Instant::now();
    assert_eq!(client.start::<Greeting>("greeting-1", &ada()).await.unwrap(), "run-1");
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_moves_on_when_its_server_is_killed() {
    let (first, second) = (FakeServer::start(), FakeServer::start());
    first.state.waits.never_answer();
    second.state.waits.answer(Ok(dexzd_proto::FlowResult {
        status: dexzd_proto::FlowStatus::Completed.into(),
        ..dexzd_proto::FlowResult::default()
    }));
    let client = client_of(&[&first, &second]);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.wait_for_flow("greeting-1").await }
    });
    while first.state.waits.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    first.kill();
    assert_eq!(waiting.await.unwrap().unwrap().status, crate::FlowStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_connect_waits_for_a_standby_that_takes_over_and_not_for_nobody() {
    let server = FakeServer::start();
    server.set_down(true);
    let connect = || Client::builder("server-0:1").connect_with(FakeServer::network(&[&server])).connect();
    let began = Instant::now();
    let error = connect().await.expect_err("nobody listens");
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());

    server.set_down(false);
    server.state.is_standby.store(true, std::sync::atomic::Ordering::Relaxed);
    let state = server.state.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(11)).await;
        state.is_standby.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    connect().await.expect("it took over");
    assert!(began.elapsed() <= Duration::from_millis(12_200), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_addresses_are_named_when_none_answers() {
    let (first, second) = (FakeServer::start(), FakeServer::start());
    first.set_down(true);
    second.set_down(true);
    let error = client_of(&[&first, &second]).start::<Greeting>("greeting-1", &ada()).await.unwrap_err();
    let ClientError::Unavailable { address, message, .. } = &error else { panic!("{error}") };
    assert_eq!(address, "server-0:1,server-1:1");
    let mut failures: Vec<_> = message.split("; ").collect();
    failures.sort_unstable();
    assert_eq!(failures, ["server-0:1: connection refused", "server-1:1: connection refused"]);
}
