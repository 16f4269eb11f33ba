//! Opening, losing and reopening streams.

use std::time::Duration;

use dexzd_proto as proto;
use proto::server_frame::Kind as ServerKind;
use proto::worker_frame::Kind;
use tokio::time::Instant;

use super::fixture::*;
use crate::CancelReason;
use crate::prelude::*;
use crate::testing::{FakeServer, send_task, task};

fn idle() -> Test {
    working(|_| Box::pin(async { Ok(Decision::dead_end()) }))
}

#[tokio::test(start_paused = true)]
async fn the_hello_says_who_how_much_and_what() {
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, idle()));
    let mut stream = server.stream().await;
    assert_eq!(
        stream.next().await,
        Kind::Hello(proto::Hello {
            worker: "test".to_owned(),
            slots: 10,
            flow_types: vec![proto::FlowTypeDefinition {
                name: "Test".to_owned(),
                step_types: vec!["Pause".to_owned(), "Work".to_owned()],
                timeout_handler: false,
            }],
            protocol_version: 1,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_highest_common_protocol_version_is_taken_and_none_in_common_is_an_error() {
    let mut server = FakeServer::start();
    {
        let mut info = server.state.info.lock().unwrap();
        (info.protocol_min, info.protocol_max) = (2, 4);
    }
    let mut newer = worker(&server, idle());
    newer.protocol_versions = (1, 3);
    let (_stop, _worker) = run(newer);
    let Kind::Hello(hello) = server.stream().await.next().await else {
        panic!("expected a hello");
    };
    assert_eq!(hello.protocol_version, 3);

    let error = worker(&server, idle()).run().await.expect_err("no version in common");
    assert_eq!(
        error.to_string(),
        "the server at fake:1 (version 0.0.0) speaks protocol versions 2-4, this library 1-1: upgrade the SDK \
         (servers before SDKs)"
    );
}

#[tokio::test(start_paused = true)]
async fn lesson_f4_a_worker_whose_stream_ended_has_a_new_one_within_5_s() {
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, idle()));
    for _ in 0..5 {
        let stream = server.stream_after_hello().await;
        let ended_at = Instant::now();
        drop(stream);
        let _stream = server.stream_after_hello().await;
        assert!(ended_at.elapsed() < Duration::from_secs(5), "{:?}", ended_at.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn d_021_a_worker_without_a_server_tries_at_least_once_a_second() {
    let server = FakeServer::start();
    server.set_down(true);
    let (_stop, _worker) = run(worker(&server, idle()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let connects = server.state.connects.lock().unwrap().clone();
    let delays: Vec<Duration> = connects.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(delays.iter().all(|delay| *delay <= Duration::from_millis(1_002)), "{delays:?}");
    assert!(connects.len() >= 60, "{}", connects.len());
    // Spread, not in step.
    assert!(delays.iter().any(|delay| *delay < Duration::from_millis(990)));
}

#[tokio::test(start_paused = true)]
async fn fd_009_a_lost_stream_cancels_its_handlers_and_their_results_go_nowhere() {
    let (told, mut reasons) = tokio::sync::mpsc::unbounded_channel();
    let flow = working(move |ctx| {
        let told = told.clone();
        Box::pin(async move {
            let reason = ctx.cancelled().await;
            // The handler goes on for as long as it likes.
            tokio::time::sleep(Duration::from_secs(10)).await;
            let _ = told.send(reason);
            Ok(Decision::dead_end())
        })
    });
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut first = server.stream_after_hello().await;
    send_task(&first, task("Work", proto::Method::Execute, 1));
    assert!(first.is_quiet().await);
    drop(first);
    let mut second = server.stream_after_hello().await;
    assert_eq!(reasons.recv().await, Some(CancelReason::StreamLost));
    assert!(second.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_answered() {
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, idle()));
    let mut stream = server.stream_after_hello().await;
    stream.send(ServerKind::Ping(proto::server_frame::Ping {}));
    assert_eq!(stream.next().await, Kind::Pong(proto::worker_frame::Pong {}));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_over_one_frame_is_opened_again() {
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, idle()));
    let mut first = server.stream_after_hello().await;
    assert!(first.is_quiet().await);
    first.send(ServerKind::Refused("frames[0]: is missing".to_owned()));
    let mut second = server.stream_after_hello().await;
    assert!(second.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_refused_hello_ends_the_worker_with_the_reason() {
    let mut server = FakeServer::start();
    let (_stop, worker) = run(worker(&server, idle()));
    let stream = server.stream_after_hello().await;
    stream.send(ServerKind::Refused("flow_types[0].name: is too long".to_owned()));
    assert_eq!(
        worker.await.unwrap().unwrap_err().to_string(),
        "the server at fake:1 refuses this Worker (InvalidArgument): flow_types[0].name: is too long"
    );
}
