//! SIGSTOP: a process that sleeps for longer than its lease, and one that sleeps while it stands by.

use dexzd_proto as proto;
use dexzd_sdk::prelude::*;
use proto::flow_service_client::FlowServiceClient;
use rustix::process::Signal;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::epochs::Epochs;
use crate::flows::{Relay, SEEN, WORD, relay_worker};
use crate::harness::{Home, connect};
use crate::load::Load;
use crate::pair::{Member, await_hot, ended, next_word, terminate};

/// What a process says that wakes up behind the end of its lease: it noticed that by its clock (HA-27), or by the
/// lease or the log itself (HA-30).
fn assert_outlived_its_lease(ended: &crate::harness::Ended) {
    assert_eq!(ended.code, Some(1), "HA-34: {}", ended.stderr);
    let line = ended.last_line();
    let is_documented = ["lease_expired", "lease_taken"].into_iter().any(|reason| {
        line.starts_with(&format!("dex-server-zd stopped: {reason}: "))
            && line.ends_with(&format!("; see docs/errors/{reason}.md"))
    });
    assert!(is_documented, "{line}");
}

/// UNAVAILABLE, or no answer at all: the watchdog of one that slept for long enough is first.
fn assert_unanswered(status: &Status) {
    use std::error::Error as _;
    let is_broken = status.source().is_some_and(|source| source.is::<tonic::transport::Error>());
    assert!(status.code() == Code::Unavailable || is_broken, "{status}");
}

/// HA-69 to HA-72, invariant 3: calls that waited in the sockets of a frozen process are not answered from what it
/// remembers, though its own clock has not moved between two of its instructions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_069_ha_070_ha_071_d_032_a_thawed_process_answers_nothing_from_its_memory_and_ends() {
    let home = Home::new();
    let (a, b, both) = Member::pair(&home);
    let mut first = a.active();
    let second = b.hot_standby().await;
    let epochs = Epochs::watch(&[&a.api, &b.api]);
    let worker = relay_worker(&both);
    let client = Client::new(&both).expect("addresses");
    client.start::<Relay>("flow", &"text".to_owned()).await.expect("started");
    let mut old = FlowServiceClient::new(connect(&a.api).await);
    let target = proto::Target { flow_id: "flow".into(), run_id: None };
    let describe = proto::DescribeFlowRequest { target: Some(target) };
    old.describe_flow(describe.clone()).await.expect("it serves");
    let mut old_health = HealthClient::new(connect(&a.api).await);

    epochs.until(1).await;
    first.freeze();
    let read = tokio::spawn({
        let mut old = old.clone();
        async move { old.describe_flow(describe).await }
    });
    let info = tokio::spawn(async move { old.get_server_info(proto::GetServerInfoRequest {}).await });
    let check = HealthCheckRequest { service: "dex.FlowService".to_owned() };
    let health = tokio::spawn(async move { old_health.check(check).await });
    // The other one waits for the expiry, takes over, and finishes what the frozen one believes to be open.
    assert_eq!(next_word(&second).await, "ready");
    client.publish("flow", &WORD, &"word".to_owned()).await.expect("published");
    assert_eq!(client.result::<Relay>("flow").await.expect("it completes"), "text word");

    epochs.until(2).await;

    first.signal(Signal::CONT);
    assert_unanswered(&read.await.expect("no panic").expect_err("HA-71"));
    assert_unanswered(&info.await.expect("no panic").expect_err("HA-69"));
    if let Ok(answer) = health.await.expect("no panic") {
        assert_eq!(answer.into_inner().status(), ServingStatus::NotServing, "HA-70");
    }
    assert_outlived_its_lease(&ended(first).await);
    assert_eq!(client.attribute("flow", &SEEN).await.expect("readable"), Some("text".to_owned()));
    epochs.verify().await;
    worker.abort();
    terminate([second]);
}

/// HA-14, lesson D1, invariant 2: what is in flight when the freeze comes either counts or is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_014_ha_030_lesson_d1_freezes_under_load_lose_nothing_that_was_acknowledged() {
    let home = Home::new();
    let (a, b, both) = Member::pair(&home);
    let mut active = (a.active(), &a);
    let mut standby = (b.hot_standby().await, &b);
    let epochs = Epochs::watch(&[&a.api, &b.api]);
    let load = Load::begin(&both, 4);
    for round in 0..2 {
        epochs.until(round + 1).await;
        load.acknowledge(20).await;
        let (mut frozen, member) = active;
        frozen.freeze();
        assert_eq!(next_word(&standby.0).await, "ready");
        load.acknowledge(20).await;
        frozen.signal(Signal::CONT);
        assert_outlived_its_lease(&ended(frozen).await);
        active = standby;
        standby = (member.hot_standby().await, member);
    }
    println!("{} Flows over two freezes", load.verify().await);
    epochs.until(3).await;
    epochs.verify().await;
    terminate([standby.0, active.0]);
}

/// HA-83: at most a second behind.
fn is_near(line: &str) -> bool {
    let lag = line.strip_prefix("dexzd_hot_standby_lag_seconds ");
    lag.is_some_and(|lag| lag.parse::<f64>().expect("a number") < 1.0)
}

/// D-2: a standby that slept for longer than the lease reads again before it concludes anything; and it catches up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_002_ha_083_a_thawed_standby_takes_nothing_and_catches_up() {
    let home = Home::new();
    let (a, b, both) = Member::pair(&home);
    let first = a.active();
    let mut second = b.hot_standby().await;
    let load = Load::begin(&both, 4);
    let renewals = "dexzd_lease_renewal_seconds_count";
    let (epoch, before) = (first.metric("dexzd_epoch"), first.metric(renewals));

    second.freeze();
    // A renewal begins when a third of the lease has passed: five are more than a lease and a second.
    while first.metric(renewals) < before + 5 {
        load.acknowledge(20).await;
    }
    second.signal(Signal::CONT);
    while !second.metrics().lines().any(is_near) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    await_hot(&b.api).await;
    assert_eq!((first.metric("dexzd_role{role=\"active\"}"), first.metric("dexzd_epoch")), (1, epoch));

    // What it caught up with is what it serves.
    tokio::task::block_in_place(|| first.kill());
    assert_eq!(next_word(&second).await, "ready");
    load.verify().await;
    terminate([second]);
}
