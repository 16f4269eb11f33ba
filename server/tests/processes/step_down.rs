//! Step downs of a real process that is alone: nobody takes over, and it comes back.

use dexzd_proto as proto;
use proto::admin_service_client::AdminServiceClient;
use proto::flow_service_client::FlowServiceClient;
use proto::{LeaseHolder, NodeDescription, StepDownRequest, StepDownResponse};
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{Home, Server, Start, connect};

const CONFIG: &str = "standby: {stepDownHoldOff: 1s}\n";

async fn describe(api: &str) -> Result<NodeDescription, Code> {
    let mut client = AdminServiceClient::new(connect(api).await);
    let answer = client.describe(proto::DescribeNodeRequest {}).await;
    answer.map(tonic::Response::into_inner).map_err(|status| status.code())
}

async fn step_down(channel: Channel, epoch: u64) -> Result<StepDownResponse, Code> {
    let request = StepDownRequest { expected_node_id: "dev".to_owned(), expected_node_epoch: epoch };
    let answer = AdminServiceClient::new(channel).step_down(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| status.code())
}

async fn health(api: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: String::new() };
    HealthClient::new(connect(api).await).check(request).await.expect("health answers").into_inner().status()
}

async fn server_info(channel: &Channel) -> Result<(), Code> {
    let answer =
        FlowServiceClient::new(channel.clone()).get_server_info(proto::GetServerInfoRequest {}).await;
    answer.map(|_| ()).map_err(|status| status.code())
}

/// Everything that one step down of a lonely process shows to those around it, twice.
#[tokio::test(flavor = "multi_thread")]
async fn ha_099_ha_113_ha_131_ha_132_a_lonely_process_comes_back_in_a_new_epoch() {
    let home = Home::new();
    let server = Start::dev(&home.data()).config(CONFIG).ready();
    for _ in 0..2 {
        let before = describe(&server.api).await.expect("it serves");
        let channel = connect(&server.api).await;
        assert_eq!(server_info(&channel).await, Ok(()));
        let call = tokio::spawn(step_down(channel.clone(), before.node_epoch));
        assert_eq!(next_word(&server).await, "standby");
        // In the hold-off.
        assert_eq!(health(&server.api).await, ServingStatus::NotServing);
        assert_eq!(describe(&server.api).await, Err(Code::FailedPrecondition));
        let second = step_down(connect(&server.api).await, before.node_epoch).await;
        assert_eq!(second, Err(Code::FailedPrecondition));
        let answer = call.await.expect("no panic").expect("it stepped down");
        assert_eq!(answer.released_node_epoch, before.node_epoch);
        assert_eq!(answer.lease_holder_after_step_down(), LeaseHolder::TakenBackByThisProcess);
        assert_eq!(answer.lease_reacquisition_hold_off_ms, 1_000);
        let active = answer.active.expect("it knows itself");
        assert!(active.node_epoch > before.node_epoch);
        assert_eq!(active.holder_process_id, before.holder_process_id);
        assert_eq!(next_word(&server).await, "ready");
        let after = describe(&server.api).await.expect("it serves again");
        assert_eq!(
            (after.node_epoch, &after.holder_process_id),
            (active.node_epoch, &active.holder_process_id)
        );
        assert_eq!(health(&server.api).await, ServingStatus::Serving);
        // HA-128: the epoch is over.
        let repeated = step_down(connect(&server.api).await, before.node_epoch).await;
        assert_eq!(repeated, Err(Code::FailedPrecondition));
    }
    assert_eq!(server.metric("dexzd_step_downs_total{outcome=\"taken_back\"}"), 2);
    assert_eq!(server.metric("dexzd_tenures_total"), 3);
    let ended = server.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Waits on a thread that may: the calls under way go on.
async fn next_word(server: &Server) -> String {
    tokio::task::block_in_place(|| server.next_word())
}

/// D-29: a signal in the hold-off ends the process at once, and the open call UNAVAILABLE.
#[tokio::test(flavor = "multi_thread")]
async fn d_029_sigterm_in_the_hold_off_ends_it_and_the_call_is_unavailable() {
    let home = Home::new();
    let server = Start::dev(&home.data()).config("standby: {stepDownHoldOff: 1h}\n").ready();
    let before = describe(&server.api).await.expect("it serves");
    let call = tokio::spawn(step_down(connect(&server.api).await, before.node_epoch));
    assert_eq!(next_word(&server).await, "standby");
    let ended = server.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(call.await.expect("no panic"), Err(Code::Unavailable));
}
