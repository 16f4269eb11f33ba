//! `AdminService` on real gRPC, with a scripted node behind it.

use dexzd_core::gate::GateView;
use dexzd_core::ids::{Epoch, Name, ProcessId};
use dexzd_core::node::{
    ActiveProcess, AdminAnswer, AdminCode, AdminError, AdminReason, AdminRequest, Role, StepDownOutcome,
    UnknownHolder,
};
use dexzd_core::stop::StopReason;
use dexzd_proto as proto;
use prost::Message as _;
use proto::LeaseHolder;
use proto::admin_service_client::AdminServiceClient;
use std::sync::Arc;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::health_client::HealthClient;

use super::script::Script;

type Client = AdminServiceClient<Channel>;

async fn house() -> (Arc<Script>, Client) {
    let script = Script::active();
    let channel = script.serve().await.channel().await;
    (script, AdminServiceClient::new(channel))
}

fn expecting(node_id: &str, epoch: u64) -> proto::StepDownRequest {
    proto::StepDownRequest { expected_node_id: node_id.to_owned(), expected_node_epoch: epoch }
}

/// Describes; the node answers so.
async fn describe(
    script: &Script,
    client: &Client,
    answer: Result<AdminAnswer, AdminError>,
) -> Result<proto::NodeDescription, Status> {
    let mut client = client.clone();
    let call = tokio::spawn(async move { client.describe(proto::DescribeNodeRequest {}).await });
    let (period, request, reply) = script.admin_call().await;
    assert_eq!((period, request), (script.period(), AdminRequest::Describe));
    reply.send(answer).expect("the call waits");
    call.await.expect("no panic").map(tonic::Response::into_inner)
}

/// Steps n1 down in epoch 7; the node answers so.
async fn step_down(
    script: &Script,
    client: &Client,
    answer: Result<AdminAnswer, AdminError>,
) -> Result<proto::StepDownResponse, Status> {
    let mut client = client.clone();
    let call = tokio::spawn(async move { client.step_down(expecting("n1", 7)).await });
    let (period, request, reply) = script.admin_call().await;
    let expected = AdminRequest::StepDown { node_id: Name::new("n1"), epoch: Epoch(7) };
    assert_eq!((period, request), (script.period(), expected));
    reply.send(answer).expect("the call waits");
    call.await.expect("no panic").map(tonic::Response::into_inner)
}

fn served() -> Result<AdminAnswer, AdminError> {
    Ok(AdminAnswer::Described { node_id: Name::new("n1"), epoch: Epoch(u64::MAX), holder: ProcessId(0xab) })
}

#[tokio::test]
async fn ha_112_describe_names_node_epoch_and_holder() {
    let (script, client) = house().await;
    let expected = proto::NodeDescription {
        node_id: "n1".to_owned(),
        node_epoch: u64::MAX,
        holder_process_id: "000000000000000000000000000000ab".to_owned(),
    };
    assert_eq!(describe(&script, &client, served()).await.expect("served"), expected);
}

/// Frozen between the answer and its leaving: who serves may have changed meanwhile.
#[tokio::test]
async fn d_017_d_047_a_description_does_not_leave_behind_a_shut_gate() {
    let (script, client) = house().await;
    script.set_gate(GateView::Shut);
    let status = describe(&script, &client, served()).await.expect_err("shut");
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn ha_088_ha_109_ha_113_d_016_d_017_d_020_every_refusal_has_its_status_and_words() {
    let (script, client) = house().await;
    let error = |code, reason| Err::<AdminAnswer, _>(AdminError { code, reason });
    let (failed, unavailable) = (AdminCode::FailedPrecondition, AdminCode::Unavailable);
    for (answer, code, message) in [
        (
            error(failed, AdminReason::SteppingDown),
            Code::FailedPrecondition,
            "this process is stepping down or in its hold-off",
        ),
        (error(unavailable, AdminReason::Standby), Code::Unavailable, "this process is a standby"),
        (
            error(unavailable, AdminReason::TakingOver),
            Code::Unavailable,
            "this process has not finished taking over",
        ),
        (error(unavailable, AdminReason::LeaseEnded), Code::Unavailable, "this process's lease has ended"),
    ] {
        let status = describe(&script, &client, answer).await.expect_err("refused");
        assert_eq!((status.code(), status.message()), (code, message));
    }
    let ended = AdminReason::Ended(StopReason::StoreNotClosed);
    for (answer, code, message) in [
        (
            error(failed, AdminReason::Standby),
            Code::FailedPrecondition,
            "nothing was changed: this process is a standby",
        ),
        (
            error(failed, AdminReason::OldConnection),
            Code::FailedPrecondition,
            "nothing was changed: the connection was opened before this process took its present role",
        ),
        (
            error(failed, AdminReason::ShuttingDown),
            Code::FailedPrecondition,
            "nothing was changed: this process is shutting down",
        ),
        (
            error(failed, AdminReason::OtherNode),
            Code::FailedPrecondition,
            "nothing was changed: this is not a process of node n1",
        ),
        (
            error(failed, AdminReason::OtherEpoch { present: Epoch(8) }),
            Code::FailedPrecondition,
            "nothing was changed: the tenure of epoch 7 is over, this is epoch 8",
        ),
        (
            error(failed, AdminReason::OtherEpoch { present: Epoch(6) }),
            Code::FailedPrecondition,
            "nothing was changed: epoch 7 was never held, this is epoch 6",
        ),
        (
            error(unavailable, AdminReason::LeaseInDoubt),
            Code::Unavailable,
            "this process is proving its lease anew",
        ),
        (error(AdminCode::Internal, ended), Code::Internal, &*ended.to_string()),
    ] {
        let status = step_down(&script, &client, answer).await.expect_err("refused");
        assert_eq!((status.code(), status.message()), (code, message));
    }
}

#[tokio::test]
async fn ha_124_ha_125_every_outcome_of_a_step_down() {
    let (script, client) = house().await;
    let active = ActiveProcess { epoch: Epoch(8), holder: ProcessId(1) };
    let shown = || Some(proto::ActiveProcess { node_epoch: 8, holder_process_id: format!("{:032x}", 1) });
    let detail = UnknownHolder::LeaseUnread;
    for (outcome, holder, active, detail) in [
        (
            StepDownOutcome::TakenOver { active: Some(active) },
            LeaseHolder::TakenOverByAnotherProcess,
            shown(),
            String::new(),
        ),
        (
            StepDownOutcome::TakenOver { active: None },
            LeaseHolder::TakenOverByAnotherProcess,
            None,
            String::new(),
        ),
        (StepDownOutcome::TakenBack { active }, LeaseHolder::TakenBackByThisProcess, shown(), String::new()),
        (StepDownOutcome::Unknown { detail }, LeaseHolder::Unknown, None, detail.to_string()),
    ] {
        let answer = AdminAnswer::SteppedDown {
            node_id: Name::new("n1"),
            released_epoch: Epoch(7),
            hold_off_ms: 5_000,
            outcome,
        };
        let expected = proto::StepDownResponse {
            node_id: "n1".to_owned(),
            released_node_epoch: 7,
            lease_reacquisition_hold_off_ms: 5_000,
            lease_holder_after_step_down: holder.into(),
            active,
            lease_holder_unknown_detail: detail,
        };
        assert_eq!(step_down(&script, &client, Ok(answer)).await.expect("stepped down"), expected);
    }
}

#[tokio::test]
async fn ha_088_d_020_arguments_are_checked_before_the_precondition() {
    let (script, mut client) = house().await;
    let long = "n".repeat(256);
    for (request, field) in [
        (expecting("", 7), "expected_node_id"),
        (expecting(&long, 7), "expected_node_id"),
        (expecting("n1", 0), "expected_node_epoch"),
        (expecting("", 0), "expected_node_id"),
    ] {
        // Also where every precondition would fail.
        for role in [Role::Active, Role::Waiting] {
            script.set_role(role);
            let status = client.step_down(request.clone()).await.expect_err("refused");
            let detail = proto::ErrorDetail::decode(status.details()).expect("a detail");
            assert_eq!((status.code(), &*detail.field), (Code::InvalidArgument, field));
        }
    }
    assert_eq!(script.admin_calls(), 0, "nothing reached the node");
}

/// The core decides by the period of the connection, not by the one at the time of the call.
#[tokio::test]
async fn ha_109_d_016_a_call_carries_the_period_of_its_connection() {
    let script = Script::new(Role::Recovering);
    let channel = script.serve().await.channel().await;
    let opened_in = script.period();
    // Once anything is answered, the connection was accepted.
    let check = tonic_health::pb::HealthCheckRequest { service: String::new() };
    HealthClient::new(channel.clone()).check(check).await.expect("health answers");
    let mut client = AdminServiceClient::new(channel);
    script.turn(Role::Active);
    let call = tokio::spawn(async move { client.step_down(expecting("n1", 7)).await });
    let (period, _, reply) = script.admin_call().await;
    assert_eq!(period, opened_in);
    assert_ne!(period, script.period());
    let refusal = AdminError { code: AdminCode::FailedPrecondition, reason: AdminReason::OldConnection };
    reply.send(Err(refusal)).expect("the call waits");
    assert_eq!(call.await.expect("no panic").expect_err("refused").code(), Code::FailedPrecondition);
}

/// A server of before: all services but this one.
#[tokio::test]
async fn ha_110_without_the_service_a_call_is_unimplemented() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (_, health) = tonic_health::server::health_reporter();
    let server = tonic::transport::Server::builder().add_service(health);
    tokio::spawn(server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)));
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("a URI");
    let mut client = AdminServiceClient::new(endpoint.connect().await.expect("the listener listens"));
    let described = client.describe(proto::DescribeNodeRequest {}).await.expect_err("unknown");
    let stepped_down = client.step_down(expecting("n1", 7)).await.expect_err("unknown");
    assert_eq!([described.code(), stepped_down.code()], [Code::Unimplemented; 2]);
}
