//! Workers that find the new active process.

use std::time::Duration;

use dexzd_proto as proto;
use proto::worker_frame::Kind;
use tokio::time::Instant;

use super::fixture::*;
use crate::prelude::*;
use crate::testing::{FakeServer, send_task, task};
use crate::worker::SILENCE_LIMIT;

fn idle() -> Test {
    working(|_| Box::pin(async { Ok(Decision::dead_end()) }))
}

#[tokio::test(start_paused = true)]
async fn lesson_f4_twenty_idle_workers_are_on_the_new_active_within_5_s() {
    let (mut active, mut standby) = (FakeServer::start(), FakeServer::start());
    standby.set_standby(true);
    let workers: Vec<_> =
        (0..20).map(|_| run(worker_at(FakeServer::link_to(&[&active, &standby]), idle()))).collect();
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(active.stream_after_hello().await);
    }
    active.kill();
    tokio::time::sleep(Duration::from_secs(11)).await;
    standby.set_standby(false);
    let serving = Instant::now();
    for _ in 0..20 {
        streams.push(standby.stream_after_hello().await);
    }
    assert!(serving.elapsed() < Duration::from_secs(5), "{:?}", serving.elapsed());
    drop(workers);
}

#[tokio::test(start_paused = true)]
async fn lesson_b5_a_worker_has_left_a_frozen_server_when_the_standby_serves() {
    let (mut active, mut standby) = (FakeServer::start(), FakeServer::start());
    standby.set_standby(true);
    let (_stop, _worker) = run(worker_at(FakeServer::link_to(&[&active, &standby]), idle()));
    let _stream = active.stream_after_hello().await;
    active.freeze();
    tokio::time::sleep(Duration::from_secs(11)).await;
    standby.set_standby(false);
    let serving = Instant::now();
    let _stream = standby.stream_after_hello().await;
    assert!(serving.elapsed() < Duration::from_secs(5), "{:?}", serving.elapsed());
}

/// The connection answers its pings, and the server's work stands still: no ping of the stream comes.
#[tokio::test(start_paused = true)]
async fn lesson_f4_a_stream_that_is_silent_for_too_long_is_replaced() {
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, idle()));
    let _silent = server.stream_after_hello().await;
    let began = Instant::now();
    let _next = server.stream_after_hello().await;
    assert!(began.elapsed() >= SILENCE_LIMIT, "{:?}", began.elapsed());
    assert!(began.elapsed() < SILENCE_LIMIT + Duration::from_secs(2), "{:?}", began.elapsed());
}

/// A handler that sends heartbeats is heard, so that the server has no reason to ping.
#[tokio::test(start_paused = true)]
async fn lesson_f4_a_server_that_hears_heartbeats_may_be_silent() {
    let flow = working(|ctx| {
        Box::pin(async move {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(4)).await;
                ctx.heartbeat();
            }
            Ok(Decision::dead_end())
        })
    });
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    send_task(&stream, task("Work", proto::Method::Execute, 1));
    for _ in 0..10 {
        assert!(matches!(stream.next().await, Kind::Heartbeat(_)));
    }
    assert!(matches!(stream.next().await, Kind::ExecuteDone(_)));
}

/// The result is ready just when the new active takes the Worker's stream: it belongs to the old epoch.
#[tokio::test(start_paused = true)]
async fn lesson_f5_a_result_of_the_old_epoch_never_reaches_the_new_active() {
    let (finish, finished) = tokio::sync::watch::channel(false);
    let flow = working(move |_| {
        let mut finished = finished.clone();
        Box::pin(async move {
            finished.wait_for(|finished| *finished).await?;
            Ok(Decision::dead_end())
        })
    });
    let (mut active, mut standby) = (FakeServer::start(), FakeServer::start());
    let (_stop, _worker) = run(worker_at(FakeServer::link_to(&[&active, &standby]), flow));
    let mut old = active.stream_after_hello().await;
    send_task(&old, task("Work", proto::Method::Execute, 1));
    assert!(old.is_quiet().await);
    active.kill();
    let mut new = standby.stream_after_hello().await;
    finish.send(true).unwrap();
    assert!(new.is_quiet().await);

    let mut again = task("Work", proto::Method::Execute, 1);
    again.handout = Some(proto::HandoutId { epoch: 8, counter: 1 });
    send_task(&new, again);
    let Kind::ExecuteDone(done) = new.next().await else {
        panic!("expected a decision");
    };
    assert_eq!(done.handout, Some(proto::HandoutId { epoch: 8, counter: 1 }));
    assert!(new.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_its_credential_to_be_mended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let mut server = FakeServer::start();
    let link = dexzd_connection::Target::new("server-0:1")
        .credential_file(&path)
        .connect_with(FakeServer::network(&[&server]))
        .link()
        .unwrap();
    let (_stop, worker) = run(worker_at(link, idle()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!worker.is_finished());
    std::fs::write(&path, "first-token-0123").unwrap();
    let mended = Instant::now();
    let stream = server.stream_after_hello().await;
    assert!(mended.elapsed() < Duration::from_secs(3), "{:?}", mended.elapsed());
    assert_eq!(stream.credential.as_deref(), Some("Bearer first-token-0123"));

    // The next stream reads the file again.
    std::fs::write(&path, "second-token-4567").unwrap();
    drop(stream);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut credentials = Vec::new();
    while credentials.last().is_none_or(|last| last != "Bearer second-token-4567") {
        credentials.push(server.stream_after_hello().await.credential.unwrap());
    }
}
