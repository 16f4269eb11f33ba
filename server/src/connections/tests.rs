//! Connections in memory and paused time: it passes only when nothing else can happen.

use std::future::Future;
use std::time::Duration;

use dexzd_core::ids::{Epoch, Name};
use dexzd_core::node::{AdminAnswer, Role, StepDownOutcome};
use dexzd_proto as proto;
use proto::admin_service_client::AdminServiceClient;
use proto::flow_service_client::FlowServiceClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::CONNECTIONS;
use crate::grpc::script::{Script, Served};
use crate::telemetry::Metrics;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An open health Watch: it ends with its connection, and never before.
async fn watched(channel: &Channel) -> tonic::Streaming<HealthCheckResponse> {
    let request = HealthCheckRequest { service: String::new() };
    let mut watch = HealthClient::new(channel.clone()).watch(request).await.expect("open").into_inner();
    watch.message().await.expect("open").expect("a status");
    watch
}

/// When the connection below this Watch was closed.
async fn closed(mut watch: tonic::Streaming<HealthCheckResponse>) -> Instant {
    while let Ok(Some(_)) = watch.message().await {}
    Instant::now()
}

async fn server_info(channel: &Channel) -> Result<(), Code> {
    let answer =
        FlowServiceClient::new(channel.clone()).get_server_info(proto::GetServerInfoRequest {}).await;
    answer.map(|_| ()).map_err(|status| status.code())
}

/// How connections have ended, as the metric says.
fn ends(served: &Served) -> Vec<(&'static str, u64)> {
    served.metrics.ends().into_iter().filter(|(_, count)| *count > 0).collect()
}

#[tokio::test(start_paused = true)]
async fn ha_068_a_standby_closes_each_connection_after_2_5_to_3_5_s() {
    let script = Script::new(Role::Waiting);
    let served = script.serve_in_memory();
    let mut closings = Vec::new();
    for _ in 0..20 {
        tokio::time::advance(ms(10)).await;
        let opened_at = Instant::now();
        let watch = watched(&served.channel().await).await;
        closings.push(tokio::spawn(async move { closed(watch).await - opened_at }));
    }
    for closing in closings {
        let stayed = closing.await.expect("no panic");
        assert!((ms(2_500)..=ms(3_500)).contains(&stayed), "{stayed:?}");
    }
    assert_eq!(ends(&served), [("standby", 20)]);
}

/// A connection that nobody speaks on is a client connection too.
#[tokio::test(start_paused = true)]
async fn ha_068_a_silent_connection_is_closed_as_well() {
    let script = Script::new(Role::Waiting);
    let served = script.serve_in_memory();
    let opened_at = Instant::now();
    let mut raw = served.raw();
    let mut bytes = Vec::new();
    raw.read_to_end(&mut bytes).await.expect("closed in order");
    let stayed = opened_at.elapsed();
    assert!((ms(2_500)..=ms(3_500)).contains(&stayed), "{stayed:?}");
}

#[tokio::test(start_paused = true)]
async fn d_016_ha_068_the_close_goes_on_after_a_promotion_and_the_next_connection_stays() {
    let script = Script::new(Role::Waiting);
    let served = script.serve_in_memory();
    let opened_at = Instant::now();
    let channel = served.channel().await;
    let watch = watched(&channel).await;
    tokio::time::sleep(ms(2_400)).await;
    script.turn(Role::Active);
    // On the old connection the new active answers nothing (D-16).
    assert_eq!(server_info(&channel).await, Err(Code::Unavailable));
    let stayed = closed(watch).await - opened_at;
    assert!((ms(2_500)..=ms(3_500)).contains(&stayed), "{stayed:?}");
    // Lesson F3: the client connects anew, and finds the active.
    assert_eq!(server_info(&channel).await, Ok(()));
    let stays = tokio::spawn(closed(watched(&channel).await));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(!stays.is_finished());
    assert_eq!(ends(&served), [("standby", 1)]);
}

#[tokio::test(start_paused = true)]
async fn review_7_1_d_016_the_3_s_count_from_the_begin_of_the_standby_period() {
    let script = Script::active();
    let served = script.serve_in_memory();
    let watch = watched(&served.channel().await).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let stepped_down_at = Instant::now();
    script.turn(Role::HoldOff);
    let stayed = closed(watch).await - stepped_down_at;
    assert!((ms(2_500)..=ms(3_500)).contains(&stayed), "{stayed:?}");
}

fn stepped_down() -> AdminAnswer {
    AdminAnswer::SteppedDown {
        node_id: Name::new("n1"),
        released_epoch: Epoch(7),
        hold_off_ms: 5_000,
        outcome: StepDownOutcome::TakenOver { active: None },
    }
}

fn step_down(channel: &Channel) -> impl Future<Output = Result<(), Code>> + use<> {
    let mut client = AdminServiceClient::new(channel.clone());
    async move {
        let request = proto::StepDownRequest { expected_node_id: "n1".to_owned(), expected_node_epoch: 7 };
        client.step_down(request).await.map(|_| ()).map_err(|status| status.code())
    }
}

#[tokio::test(start_paused = true)]
async fn d_016_review_7_1_the_connection_of_a_step_down_is_closed_after_its_answer() {
    let script = Script::active();
    let served = script.serve_in_memory();
    let channel = served.channel().await;
    let watch = tokio::spawn(closed(watched(&channel).await));
    let call = tokio::spawn(step_down(&channel));
    let (_, _, reply) = script.admin_call().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    script.turn(Role::HoldOff);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!watch.is_finished() && !call.is_finished(), "the call is open");
    let answered_at = Instant::now();
    reply.send(Ok(stepped_down())).expect("the call waits");
    assert_eq!(call.await.expect("no panic"), Ok(()));
    let stayed = watch.await.expect("no panic") - answered_at;
    assert!(stayed <= ms(100), "{stayed:?}");
    assert_eq!(ends(&served), [("standby", 1)]);
}

/// Two operators, one connection: the first answer does not cut the second off.
#[tokio::test(start_paused = true)]
async fn d_016_the_last_step_down_of_a_connection_counts() {
    let script = Script::active();
    let served = script.serve_in_memory();
    let channel = served.channel().await;
    let watch = tokio::spawn(closed(watched(&channel).await));
    let first = tokio::spawn(step_down(&channel));
    let (_, _, first_reply) = script.admin_call().await;
    let second = tokio::spawn(step_down(&channel));
    let (_, _, second_reply) = script.admin_call().await;
    script.turn(Role::HoldOff);
    first_reply.send(Ok(stepped_down())).expect("the call waits");
    assert_eq!(first.await.expect("no panic"), Ok(()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!watch.is_finished());
    second_reply.send(Ok(stepped_down())).expect("the call waits");
    assert_eq!(second.await.expect("no panic"), Ok(()));
    watch.await.expect("no panic");
}

/// A caller that gives up has no answer to wait for.
#[tokio::test(start_paused = true)]
async fn d_016_d_020_a_step_down_that_was_given_up_holds_no_connection() {
    let script = Script::active();
    let served = script.serve_in_memory();
    let channel = served.channel().await;
    let watch = watched(&channel).await;
    let call = tokio::spawn(step_down(&channel));
    let (_, _, reply) = script.admin_call().await;
    call.abort();
    let turned_at = Instant::now();
    script.turn(Role::HoldOff);
    let stayed = closed(watch).await - turned_at;
    assert!((ms(2_500)..=ms(3_500)).contains(&stayed), "{stayed:?}");
    assert!(reply.is_closed(), "the service is gone; the node goes on");
}

#[tokio::test(start_paused = true)]
async fn what_never_speaks_is_cut_off() {
    let script = Script::active();
    let served = script.serve_in_memory();
    let (opened_at, mut raw) = (Instant::now(), served.raw());
    let mut greeting = Vec::new();
    raw.read_to_end(&mut greeting).await.expect("closed in order");
    assert_eq!(opened_at.elapsed(), Duration::from_secs(10));
    assert_eq!(ends(&served), [("handshake", 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_speaks_something_else_is_cut_off_at_once() {
    let script = Script::active();
    let served = script.serve_in_memory();
    let mut raw = served.raw();
    raw.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("open");
    let mut bytes = Vec::new();
    raw.read_to_end(&mut bytes).await.expect("closed in order");
    assert_eq!(ends(&served), [("client", 1)]);
}

#[tokio::test(start_paused = true)]
async fn connections_are_bounded_and_one_more_is_closed_at_once() {
    let script = Script::active();
    let served = script.serve_in_memory();
    let mut open: Vec<_> = (0..CONNECTIONS).map(|_| served.raw()).collect();
    let opened_at = Instant::now();
    assert_eq!(served.raw().read(&mut [0; 64]).await.expect("closed in order"), 0);
    assert_eq!(opened_at.elapsed(), Duration::ZERO);
    assert_eq!(ends(&served), [("too_many", 1)]);
    // One goes, one comes.
    open.pop();
    let channel = served.channel().await;
    assert_eq!(server_info(&channel).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_open_calls_are_answered_and_nothing_new_is_accepted() {
    let script = Script::active();
    let served = script.serve_in_memory();
    let channel = served.channel().await;
    let call = tokio::spawn(step_down(&channel));
    let (_, _, reply) = script.admin_call().await;
    served.closing.close();
    tokio::time::sleep(ms(50)).await;
    assert!(!served.task.is_finished(), "a call is open");
    reply.send(Ok(stepped_down())).expect("the call waits");
    assert_eq!(call.await.expect("no panic"), Ok(()));
    let metrics = served.metrics.clone();
    served.task.await.expect("no panic");
    assert_eq!(metrics.ends().into_iter().find(|(_, count)| *count > 0), Some(("shutdown", 1)));
}

#[test]
fn connections_are_counted_on_the_page() {
    let metrics = Metrics::for_tests();
    let open = metrics.connections().opened();
    assert!(metrics.text().contains("\ndexzd_connections 1\n"));
    open.ended(crate::telemetry::ConnectionEnd::Standby);
    let text = metrics.text();
    assert!(text.contains("\ndexzd_connections 0\n"));
    assert!(text.contains("\ndexzd_connections_closed_total{reason=\"standby\"} 1\n"));
    assert!(text.contains("\ndexzd_connections_closed_total{reason=\"too_many\"} 0\n"));
}
