//! The four health names on real gRPC.

use dexzd_core::gate::GateView;
use dexzd_core::node::Role;
use dexzd_proto as proto;
use proto::flow_service_client::FlowServiceClient;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::script::Script;

const NAMES: [&str; 4] = ["", "dex.FlowService", "dex.WorkerTaskService", "dex.HotStandby"];

async fn check(channel: &Channel, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = HealthClient::new(channel.clone()).check(request).await;
    answer.map(|answer| answer.into_inner().status()).map_err(|status| status.code())
}

/// The readiness names, which agree, and the name of a hot standby.
async fn checked(channel: &Channel) -> (bool, bool) {
    let mut serving = Vec::new();
    for name in NAMES {
        match check(channel, name).await.expect("a known name") {
            ServingStatus::Serving => serving.push(true),
            ServingStatus::NotServing => serving.push(false),
            other @ (ServingStatus::Unknown | ServingStatus::ServiceUnknown) => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(serving[..3], [serving[0]; 3], "the readiness names agree");
    (serving[0], serving[3])
}

async fn told(channel: &Channel) -> proto::HealthResponse {
    let answer = FlowServiceClient::new(channel.clone()).health(proto::HealthRequest {}).await;
    answer.expect("health answers in every role").into_inner()
}

#[tokio::test]
async fn lesson_f2_ha_064_ha_065_ha_066_ha_132_the_names_in_every_role() {
    let script = Script::active();
    let channel = script.serve().await.channel().await;
    let serving = [Role::Active, Role::Draining, Role::Interrupting, Role::Committing, Role::Closing];
    for role in Role::ALL {
        script.set_role(role);
        assert_eq!(checked(&channel).await, (serving.contains(&role), false), "{role:?}");
        let told = told(&channel).await;
        assert_eq!((told.serving, &*told.role), (serving.contains(&role), role.label()));
    }
    // Follows, falls behind, follows again, takes over.
    script.turn(Role::Waiting);
    for is_hot in [true, false, true] {
        script.set_hot_standby(is_hot);
        assert_eq!(checked(&channel).await, (false, is_hot));
    }
    script.turn(Role::Opening);
    assert_eq!(checked(&channel).await, (false, false));
    assert_eq!(check(&channel, "dex.Other").await, Err(Code::NotFound));
    assert_eq!(check(&channel, "dex.AdminService").await, Err(Code::NotFound));
}

#[tokio::test]
async fn ha_069_ha_070_a_check_asks_the_gate_too() {
    let script = Script::active();
    let channel = script.serve().await.channel().await;
    for (gate, serving) in
        [(GateView::Open, true), (GateView::Doubt, true), (GateView::Shut, false), (GateView::Open, true)]
    {
        script.set_gate(gate);
        assert_eq!(checked(&channel).await, (serving, false), "{gate:?}");
        assert_eq!(told(&channel).await.serving, serving, "{gate:?}");
    }
}

#[tokio::test]
async fn ha_074_an_open_watch_keeps_its_status_when_the_lease_ends() {
    let script = Script::active();
    let channel = script.serve().await.channel().await;
    let mut watch = HealthClient::new(channel.clone())
        .watch(HealthCheckRequest { service: String::new() })
        .await
        .expect("open")
        .into_inner();
    let status =
        |response: Option<tonic_health::pb::HealthCheckResponse>| response.expect("a status").status();
    assert_eq!(status(watch.message().await.expect("open")), ServingStatus::Serving);
    script.set_gate(GateView::Shut);
    assert_eq!(checked(&channel).await, (false, false));
    // A role that says the same is not told either: the next thing that the Watch shows is the release.
    script.set_role(Role::Draining);
    script.set_role(Role::Releasing);
    assert_eq!(status(watch.message().await.expect("open")), ServingStatus::NotServing);
}

#[tokio::test]
async fn ha_065_a_watch_of_the_hot_standby_follows_its_state() {
    let script = Script::new(Role::Waiting);
    let channel = script.serve().await.channel().await;
    let mut watches = Vec::new();
    for name in ["dex.HotStandby", "dex.Other"] {
        let request = HealthCheckRequest { service: name.to_owned() };
        watches.push(HealthClient::new(channel.clone()).watch(request).await.expect("open").into_inner());
    }
    let mut seen = Vec::new();
    for is_hot in [true, false] {
        let answer = watches[0].message().await.expect("open").expect("a status");
        seen.push(answer.status());
        script.set_hot_standby(is_hot);
    }
    seen.push(watches[0].message().await.expect("open").expect("a status").status());
    assert_eq!(seen, [ServingStatus::NotServing, ServingStatus::Serving, ServingStatus::NotServing]);
    let unknown = watches[1].message().await.expect("open").expect("a status");
    assert_eq!(unknown.status(), ServingStatus::ServiceUnknown);
}

#[tokio::test]
async fn lesson_f1_a_probe_of_kubernetes_that_a_standby_refuses_is_remembered() {
    let script = Script::new(Role::Waiting);
    let served = script.serve().await;
    assert_eq!(checked(&served.channel().await).await, (false, false));
    assert!(!script.probes.refused_kubernetes(), "somebody else asked");
    script.turn(Role::Active);
    let probe = served.channel_of("kube-probe/1.33").await;
    assert_eq!(check(&probe, "").await, Ok(ServingStatus::Serving));
    assert!(!script.probes.refused_kubernetes(), "it was told SERVING");
    script.turn(Role::HoldOff);
    assert_eq!(check(&probe, "").await, Ok(ServingStatus::NotServing));
    assert!(script.probes.refused_kubernetes());
}
