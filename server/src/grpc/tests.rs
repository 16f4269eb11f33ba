//! The services over a real connection, with a scripted engine behind them.

use dexzd_core::engine::{Answer, CallError, CancelReason, ServerFrame, Task, WorkerFrame};
use dexzd_core::gate::GateView;
use dexzd_core::ids::{Epoch, HandoutId, Name, RunId};
use prost::Message as _;
use proto::flow_service_client::FlowServiceClient;
use proto::worker_task_service_client::WorkerTaskServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::script::{Script, Sink};
use super::*;

struct House {
    script: Arc<Script>,
    channel: Channel,
    /// What the engine gets of the one Worker stream.
    frames: mpsc::UnboundedReceiver<WorkerFrame>,
    /// What the engine sends on it.
    to_worker: mpsc::UnboundedSender<ServerFrame>,
}

async fn house(gate: GateView) -> House {
    let (to_engine, frames) = mpsc::unbounded_channel();
    let (to_worker, from_engine) = mpsc::unbounded_channel();
    let script = Script::active();
    script.set_gate(gate);
    script.set_stream(WorkerConnection { to_engine: Box::new(Sink(to_engine)), from_engine });
    let channel = script.serve().await.channel().await;
    House { script, channel, frames, to_worker }
}

fn describe() -> proto::DescribeFlowRequest {
    let target = proto::Target { flow_id: "f".into(), run_id: None };
    proto::DescribeFlowRequest { target: Some(target) }
}

fn detail(status: &Status) -> proto::ErrorDetail {
    proto::ErrorDetail::decode(status.details()).expect("every error carries one")
}

fn run_started() -> Result<Answer, CallError> {
    Ok(Answer::Started { run_id: RunId(7), newly: true })
}

fn start() -> proto::StartFlowRequest {
    proto::StartFlowRequest { request_id: "r".into(), flow_id: "f".into(), ..Default::default() }
}

#[tokio::test]
async fn an_answer_leaves_through_an_open_gate() {
    let house = house(GateView::Open).await;
    house.script.answer(run_started());
    let mut client = FlowServiceClient::new(house.channel);
    let response = client.start_flow(start()).await.expect("served").into_inner();
    assert_eq!(response.run_id, RunId(7).to_string());
    assert!(response.newly_started);
}

#[tokio::test]
async fn ha_053_ha_069_behind_a_shut_gate_every_public_call_is_unavailable() {
    let house = house(GateView::Shut).await;
    let mut client = FlowServiceClient::new(house.channel.clone());
    let calls = [
        client.start_flow(start()).await.expect_err("shut").code(),
        client.describe_flow(describe()).await.expect_err("shut").code(),
        client.get_server_info(proto::GetServerInfoRequest {}).await.expect_err("shut").code(),
        WorkerTaskServiceClient::new(house.channel)
            .poll_worker_task(tokio_stream::pending())
            .await
            .expect_err("shut")
            .code(),
    ];
    assert_eq!(calls, [Code::Unavailable; 4]);
    assert_eq!(house.script.calls(), 0, "nothing reached the engine");
}

/// Lesson B4, HA-71: the state was read while the gate was open, the answer comes when it is shut.
#[tokio::test]
async fn ha_071_d_047_review_6_1_an_answer_that_comes_after_the_gate_shut_never_leaves() {
    let house = house(GateView::Open).await;
    house.script.answer(run_started());
    house.script.answer(Err(CallError::NotFound));
    let mut client = FlowServiceClient::new(house.channel);
    house.script.set_gate_after_answer(GateView::Shut);
    assert_eq!(client.start_flow(start()).await.expect_err("shut").code(), Code::Unavailable);
    house.script.set_gate(GateView::Open);
    house.script.set_gate_after_answer(GateView::Shut);
    assert_eq!(client.describe_flow(describe()).await.expect_err("shut").code(), Code::Unavailable);
}

#[tokio::test]
async fn d_001_an_answer_is_held_while_the_lease_is_in_doubt() {
    let house = house(GateView::Open).await;
    house.script.answer(run_started());
    house.script.set_gate_after_answer(GateView::Doubt);
    let mut client = FlowServiceClient::new(house.channel);
    let held = tokio::spawn(async move { client.start_flow(start()).await });
    while house.script.calls() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!held.is_finished());
    house.script.set_gate(GateView::Open);
    assert!(held.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn every_error_has_its_code_and_its_detail() {
    let name = |text: &str| Name::new(text);
    let status = dexzd_core::engine::FlowStatus::Failed;
    let table = [
        (
            CallError::InvalidArgument { field: name("flow_id"), rule: name("is empty") },
            Code::InvalidArgument,
            proto::SubStatus::InvalidArgument,
        ),
        (
            CallError::AlreadyStarted { run_id: RunId(1), status },
            Code::AlreadyExists,
            proto::SubStatus::FlowAlreadyStarted,
        ),
        (CallError::NotFound, Code::NotFound, proto::SubStatus::FlowNotExisting),
        (CallError::NotActive { status }, Code::FailedPrecondition, proto::SubStatus::FlowNotActive),
        (CallError::Closing, Code::FailedPrecondition, proto::SubStatus::FlowClosing),
        (CallError::LongPollTimeout, Code::DeadlineExceeded, proto::SubStatus::LongPollTimeout),
        (
            CallError::MessageNotFound { message: dexzd_core::ids::MessageId(1) },
            Code::NotFound,
            proto::SubStatus::ChannelMessageNotFound,
        ),
        (CallError::TimerNotFound, Code::NotFound, proto::SubStatus::TimerNotFound),
        (CallError::StepNotCompleted, Code::FailedPrecondition, proto::SubStatus::StepNotCompleted),
        (
            CallError::LimitExceeded { limit: name("values") },
            Code::ResourceExhausted,
            proto::SubStatus::LimitExceeded,
        ),
        (CallError::Unavailable, Code::Unavailable, proto::SubStatus::Uncategorised),
        (CallError::RequestIdReused, Code::FailedPrecondition, proto::SubStatus::RequestIdReused),
        (CallError::Internal { detail: name("x") }, Code::Internal, proto::SubStatus::Uncategorised),
    ];
    let house = house(GateView::Open).await;
    let mut client = FlowServiceClient::new(house.channel);
    for (error, code, sub_status) in table {
        house.script.answer(Err(error));
        let status = client.describe_flow(describe()).await.expect_err("an error");
        assert_eq!((status.code(), detail(&status).sub_status()), (code, sub_status));
    }
}

#[tokio::test]
async fn facts_of_an_error_travel_in_its_detail() {
    let house = house(GateView::Open).await;
    let mut client = FlowServiceClient::new(house.channel);
    let error =
        CallError::AlreadyStarted { run_id: RunId(9), status: dexzd_core::engine::FlowStatus::Completed };
    house.script.answer(Err(error));
    let status = client.start_flow(start()).await.expect_err("refused");
    let expected = proto::ErrorDetail {
        sub_status: proto::SubStatus::FlowAlreadyStarted.into(),
        field: String::new(),
        run_id: RunId(9).to_string(),
        flow_status: proto::FlowStatus::Completed.into(),
    };
    assert_eq!(detail(&status), expected);
    let malformed = proto::StartFlowRequest { timeout_ms: Some(-1), ..start() };
    let status = client.start_flow(malformed).await.expect_err("refused");
    assert_eq!((status.code(), &*detail(&status).field), (Code::InvalidArgument, "timeout_ms"));
    let query = proto::SearchFlowsRequest { query: "status = what".into(), ..Default::default() };
    let status = client.search_flows(query).await.expect_err("refused");
    assert_eq!((status.code(), &*detail(&status).field), (Code::InvalidArgument, "query"));
}

fn handout(counter: u64) -> HandoutId {
    HandoutId { epoch: Epoch(1), counter }
}

fn task(counter: u64) -> ServerFrame {
    ServerFrame::Task(Box::new(Task {
        handout: handout(counter),
        flow_type: Name::new("F"),
        flow_id: Name::new("f"),
        run_id: RunId(1),
        step: dexzd_core::ids::StepExecutionId { step_type: Name::new("S"), number: 1 },
        method: dexzd_core::engine::Method::Execute,
        attempt: 1,
        deadline: dexzd_core::time::Timestamp::ZERO,
        heartbeat_timeout_ms: None,
        input: None,
        snapshot: dexzd_core::engine::Snapshot::default(),
        locals: Vec::new(),
        conditions: Vec::new(),
        recovery: None,
        checkpoint: None,
        durability: dexzd_core::engine::Durability::Sync,
        lineage: dexzd_core::engine::Lineage::FlowStart,
        wait_for_failed: false,
        flow_start_time: dexzd_core::time::Timestamp::ZERO,
    }))
}

fn worker_frame(kind: proto::worker_frame::Kind) -> proto::WorkerFrame {
    proto::WorkerFrame { kind: Some(kind) }
}

fn labels(batch: &proto::ServerBatch) -> Vec<&'static str> {
    use proto::server_frame::Kind;
    let label = |frame: &proto::ServerFrame| match frame.kind {
        Some(Kind::Task(_)) => "task",
        Some(Kind::Cancel(_)) => "cancel",
        Some(Kind::Settled(_)) => "settled",
        Some(Kind::Ping(_)) => "ping",
        Some(Kind::Refused(_)) => "refused",
        None => "none",
    };
    batch.frames.iter().map(label).collect()
}

#[tokio::test]
async fn ha_072_ha_073_behind_a_shut_gate_tasks_are_withheld_and_running_ones_go_on() {
    let mut house = house(GateView::Open).await;
    let (worker, frames) = mpsc::unbounded_channel();
    let mut stream = WorkerTaskServiceClient::new(house.channel.clone())
        .poll_worker_task(UnboundedReceiverStream::new(frames))
        .await
        .expect("open")
        .into_inner();
    house.to_worker.send(task(1)).expect("open");
    assert_eq!(labels(&stream.message().await.expect("open").expect("a batch")), ["task"]);

    house.script.set_gate(GateView::Shut);
    for frame in [
        task(2),
        ServerFrame::Ping,
        ServerFrame::Settled { handout: handout(1), accepted: true },
        ServerFrame::Cancel { handout: handout(1), reason: CancelReason::DrainOver },
    ] {
        house.to_worker.send(frame).expect("open");
    }
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(labels(&stream.message().await.expect("open").expect("a batch")));
    }
    assert_eq!(seen, ["ping", "settled", "cancel"]);

    let pong = worker_frame(proto::worker_frame::Kind::Pong(proto::worker_frame::Pong {}));
    worker.send(proto::WorkerBatch { frames: vec![pong] }).expect("open");
    assert_eq!(house.frames.recv().await, Some(WorkerFrame::Pong));
}

#[tokio::test]
async fn a_malformed_frame_ends_its_stream_with_the_field_named() {
    let mut house = house(GateView::Open).await;
    let (worker, frames) = mpsc::unbounded_channel();
    let mut stream = WorkerTaskServiceClient::new(house.channel.clone())
        .poll_worker_task(UnboundedReceiverStream::new(frames))
        .await
        .expect("open")
        .into_inner();
    let pong = || worker_frame(proto::worker_frame::Kind::Pong(proto::worker_frame::Pong {}));
    worker
        .send(proto::WorkerBatch { frames: vec![pong(), proto::WorkerFrame { kind: None }, pong()] })
        .expect("open");
    let last = stream.message().await.expect("open").expect("a batch");
    let expected = "frames[1].kind: is missing, or of a kind that the server does not know";
    assert_eq!(last.frames[0].kind, Some(proto::server_frame::Kind::Refused(expected.to_owned())));
    let status = stream.message().await.expect_err("the stream is refused");
    assert_eq!((status.code(), &*detail(&status).field), (Code::InvalidArgument, "frames[1].kind"));
    assert_eq!(house.frames.recv().await, Some(WorkerFrame::Pong));
    assert_eq!(house.frames.recv().await, None, "the engine sees the stream end");
}

#[tokio::test]
async fn a_refusal_of_the_engine_is_the_last_frame_and_the_status() {
    let house = house(GateView::Open).await;
    let mut stream = WorkerTaskServiceClient::new(house.channel.clone())
        .poll_worker_task(tokio_stream::pending())
        .await
        .expect("open")
        .into_inner();
    let message = Name::new("hello: was given before");
    house.to_worker.send(ServerFrame::Refused { message }).expect("open");
    drop(house.to_worker);
    assert_eq!(labels(&stream.message().await.expect("open").expect("a batch")), ["refused"]);
    let status = stream.message().await.expect_err("the stream is refused");
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "hello: was given before"));
}

#[tokio::test]
async fn a_worker_that_goes_away_ends_its_engine_stream() {
    let mut house = house(GateView::Open).await;
    let (worker, frames) = mpsc::unbounded_channel::<proto::WorkerBatch>();
    let stream = WorkerTaskServiceClient::new(house.channel.clone())
        .poll_worker_task(UnboundedReceiverStream::new(frames))
        .await
        .expect("open");
    drop((worker, stream));
    assert_eq!(house.frames.recv().await, None);
}

#[tokio::test]
async fn reflection_lists_all_services() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let house = house(GateView::Shut).await;
    let request = tonic_reflection::pb::v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(house.channel)
        .server_reflection_info(tokio_stream::once(request))
        .await
        .expect("reflection")
        .into_inner();
    let answer = answers.message().await.expect("open").expect("an answer");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("another answer")
    };
    let mut names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "dex.AdminService",
            "dex.FlowService",
            "dex.WorkerTaskService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection"
        ]
    );
}
