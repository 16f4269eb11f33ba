//! Graceful stop.

use std::time::Duration;

use dexzd_proto as proto;
use proto::worker_frame::Kind;
use tokio::time::Instant;

use super::fixture::*;
use crate::prelude::*;
use crate::testing::{FakeServer, send_task, task};

/// Handlers that end when the test says so.
fn on_signal() -> (tokio::sync::watch::Sender<bool>, Test) {
    let (go, gone) = tokio::sync::watch::channel(false);
    let flow = working(move |_| {
        let mut gone = gone.clone();
        Box::pin(async move {
            gone.wait_for(|go| *go).await?;
            Ok(Decision::dead_end())
        })
    });
    (go, flow)
}

#[tokio::test(start_paused = true)]
async fn lesson_f8_a_stopping_worker_finishes_its_ten_tasks_and_waits_until_they_are_settled() {
    let (go, flow) = on_signal();
    let mut server = FakeServer::start();
    let (stop, worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    for counter in 1..=10 {
        send_task(&stream, task("Work", proto::Method::Execute, counter));
    }
    assert!(stream.is_quiet().await);
    stop.send(()).unwrap();
    assert!(matches!(stream.next().await, Kind::StopTaking(_)));

    // A task that crossed the request is handed back unused.
    send_task(&stream, task("Work", proto::Method::Execute, 11));
    assert_eq!(stream.next().await, Kind::ReturnUnused(proto::HandoutId { epoch: 7, counter: 11 }));

    go.send(true).unwrap();
    let mut finished = Vec::new();
    for _ in 0..10 {
        let Kind::ExecuteDone(done) = stream.next().await else {
            panic!("expected a decision");
        };
        finished.push(done.handout);
    }
    assert!(stream.is_quiet().await);
    assert!(!worker.is_finished());
    for handout in finished {
        stream.settle(handout);
    }
    assert_eq!(stream.try_next().await, None);
    drop(stream);
    worker.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn fd_006_after_30_s_running_handlers_are_asked_to_cancel_and_may_still_deliver() {
    let flow = working(|ctx| {
        Box::pin(async move {
            let reason = ctx.cancelled().await;
            Ok(Decision::complete(&format!("{reason:?}")))
        })
    });
    let mut server = FakeServer::start();
    let (stop, worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    send_task(&stream, task("Work", proto::Method::Execute, 1));
    assert!(stream.is_quiet().await);
    stop.send(()).unwrap();
    assert!(matches!(stream.next().await, Kind::StopTaking(_)));
    let stopped_at = Instant::now();
    let Kind::ExecuteDone(done) = stream.next().await else {
        panic!("expected a decision");
    };
    assert_eq!(stopped_at.elapsed().as_secs(), 30);
    stream.settle(done.handout);
    assert_eq!(stream.try_next().await, None);
    drop(stream);
    worker.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn fd_006_a_handler_that_ignores_the_request_ends_with_the_worker() {
    let flow = working(|_| Box::pin(std::future::pending()));
    let mut server = FakeServer::start();
    let (stop, worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    send_task(&stream, task("Work", proto::Method::Execute, 1));
    assert!(stream.is_quiet().await);
    stop.send(()).unwrap();
    assert!(matches!(stream.next().await, Kind::StopTaking(_)));
    let stopped_at = Instant::now();
    assert_eq!(stream.try_next().await, None);
    drop(stream);
    worker.await.unwrap().unwrap();
    assert_eq!(stopped_at.elapsed().as_secs(), 35);
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_tasks_stops_at_once() {
    let (_go, flow) = on_signal();
    let mut server = FakeServer::start();
    let (stop, worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    let before = Instant::now();
    stop.send(()).unwrap();
    assert!(matches!(stream.next().await, Kind::StopTaking(_)));
    assert_eq!(stream.try_next().await, None);
    drop(stream);
    worker.await.unwrap().unwrap();
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_never_reached_its_server_stops_when_told() {
    let (_go, flow) = on_signal();
    let server = FakeServer::start();
    server.set_down(true);
    let (stop, worker) = run(worker(&server, flow));
    tokio::time::sleep(Duration::from_secs(60)).await;
    stop.send(()).unwrap();
    worker.await.unwrap().unwrap();
}
