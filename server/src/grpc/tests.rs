//! The services over a real connection, with a scripted engine behind them.

use std::collections::VecDeque;
use std::sync::Mutex;

use dexzd_core::engine::{Answer, Call, CallError, CancelReason, ServerFrame, Task, WorkerFrame};
use dexzd_core::gate::GateView;
use dexzd_core::ids::{Epoch, HandoutId, Name, RunId};
use prost::Message as _;
use proto::flow_service_client::FlowServiceClient;
use proto::worker_task_service_client::WorkerTaskServiceClient;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::*;

/// An engine that gives prepared answers, and lets the test shut the gate while a call is with it.
struct Script {
    gate: Mutex<GateView>,
    serving: Mutex<bool>,
    answers: Mutex<VecDeque<Result<Answer, CallError>>>,
    /// What the gate becomes once an answer has been given.
    gate_after_answer: Mutex<Option<GateView>>,
    calls: Mutex<Vec<Call>>,
    stream: Mutex<Option<WorkerConnection>>,
}

impl Script {
    fn set_gate(&self, view: GateView) {
        *self.gate.lock().expect("no test panics here") = view;
    }
}

impl Backend for Script {
    fn look(&self) -> GateView {
        *self.gate.lock().expect("no test panics here")
    }

    fn is_serving(&self) -> bool {
        *self.serving.lock().expect("no test panics here")
    }

    fn role_label(&self) -> &'static str {
        "active"
    }

    fn node_id(&self) -> &str {
        "n1"
    }

    async fn call(&self, call: Call) -> Result<Answer, CallError> {
        self.calls.lock().expect("no test panics here").push(call);
        let answer = self.answers.lock().expect("no test panics here").pop_front();
        if let Some(view) = self.gate_after_answer.lock().expect("no test panics here").take() {
            self.set_gate(view);
        }
        answer.expect("the test prepared an answer")
    }

    fn open_stream(&self) -> Option<WorkerConnection> {
        self.stream.lock().expect("no test panics here").take()
    }
}

struct Sink(mpsc::UnboundedSender<WorkerFrame>);

impl backend::FrameSink for Sink {
    fn send(&self, frame: WorkerFrame) {
        let _ = self.0.send(frame);
    }
}

struct House {
    script: Arc<Script>,
    names: Arc<HealthNames>,
    channel: Channel,
    /// What the engine gets of the one Worker stream.
    frames: mpsc::UnboundedReceiver<WorkerFrame>,
    /// What the engine sends on it.
    to_worker: mpsc::UnboundedSender<ServerFrame>,
}

async fn house(gate: GateView) -> House {
    let (to_engine, frames) = mpsc::unbounded_channel();
    let (to_worker, from_engine) = mpsc::unbounded_channel();
    let script = Arc::new(Script {
        gate: Mutex::new(gate),
        serving: Mutex::new(true),
        answers: Mutex::default(),
        gate_after_answer: Mutex::default(),
        calls: Mutex::default(),
        stream: Mutex::new(Some(WorkerConnection { to_engine: Box::new(Sink(to_engine)), from_engine })),
    });
    let names = Arc::new(HealthNames::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let router =
        tonic::transport::Server::builder().add_routes(routes(&script, &names).expect("descriptors"));
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    let channel = Channel::from_shared(format!("http://{address}"))
        .expect("a URI")
        .connect()
        .await
        .expect("the listener listens");
    House { script, names, channel, frames, to_worker }
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
    house.script.answers.lock().expect("idle").push_back(run_started());
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
    assert!(house.script.calls.lock().expect("idle").is_empty(), "nothing reached the engine");
}

/// Lesson B4, HA-71: the state was read while the gate was open, the answer comes when it is shut.
#[tokio::test]
async fn ha_071_d_047_review_6_1_an_answer_that_comes_after_the_gate_shut_never_leaves() {
    let house = house(GateView::Open).await;
    house.script.answers.lock().expect("idle").extend([run_started(), Err(CallError::NotFound)]);
    let mut client = FlowServiceClient::new(house.channel);
    *house.script.gate_after_answer.lock().expect("idle") = Some(GateView::Shut);
    assert_eq!(client.start_flow(start()).await.expect_err("shut").code(), Code::Unavailable);
    house.script.set_gate(GateView::Open);
    *house.script.gate_after_answer.lock().expect("idle") = Some(GateView::Shut);
    assert_eq!(client.describe_flow(describe()).await.expect_err("shut").code(), Code::Unavailable);
}

#[tokio::test]
async fn d_001_an_answer_is_held_while_the_lease_is_in_doubt() {
    let house = house(GateView::Open).await;
    house.script.answers.lock().expect("idle").push_back(run_started());
    *house.script.gate_after_answer.lock().expect("idle") = Some(GateView::Doubt);
    let mut client = FlowServiceClient::new(house.channel);
    let held = tokio::spawn(async move { client.start_flow(start()).await });
    while house.script.calls.lock().expect("idle").is_empty() {
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
        house.script.answers.lock().expect("idle").push_back(Err(error));
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
    house.script.answers.lock().expect("idle").push_back(Err(error));
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

async fn check(house: &House, service: &str) -> Result<i32, Code> {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(house.channel.clone())
        .check(request)
        .await
        .map(|response| response.into_inner().status)
        .map_err(|status| status.code())
}

#[tokio::test]
async fn ha_064_ha_066_ha_070_health_names_follow_role_and_gate() {
    let house = house(GateView::Open).await;
    let serving = tonic_health::pb::health_check_response::ServingStatus::Serving as i32;
    let not_serving = tonic_health::pb::health_check_response::ServingStatus::NotServing as i32;
    for (gate, role_serves, expected) in [
        (GateView::Open, true, serving),
        (GateView::Open, false, not_serving),
        (GateView::Shut, true, not_serving),
        (GateView::Shut, false, not_serving),
    ] {
        house.script.set_gate(gate);
        *house.script.serving.lock().expect("idle") = role_serves;
        for name in ["", "dex.FlowService", "dex.WorkerTaskService"] {
            assert_eq!(check(&house, name).await, Ok(expected), "{name} at {gate:?}, {role_serves}");
        }
        assert_eq!(check(&house, "dex.HotStandby").await, Ok(not_serving));
    }
    assert_eq!(check(&house, "dex.Other").await, Err(Code::NotFound));
    let simple = FlowServiceClient::new(house.channel.clone()).health(proto::HealthRequest {}).await;
    let simple = simple.expect("health answers in every role").into_inner();
    assert_eq!((simple.serving, &*simple.role), (false, "active"));
}

#[tokio::test]
async fn ha_074_an_open_watch_keeps_its_status_when_the_lease_ends() {
    let house = house(GateView::Open).await;
    house.names.set_serving(true);
    let mut watch = HealthClient::new(house.channel.clone())
        .watch(HealthCheckRequest { service: String::new() })
        .await
        .expect("open")
        .into_inner();
    let serving = tonic_health::pb::health_check_response::ServingStatus::Serving as i32;
    let not_serving = tonic_health::pb::health_check_response::ServingStatus::NotServing as i32;
    assert_eq!(watch.message().await.expect("open").expect("a status").status, serving);
    house.script.set_gate(GateView::Shut);
    assert_eq!(check(&house, "").await, Ok(not_serving));
    // The next thing that the Watch shows is the role's, not the gate's.
    house.names.set_serving(false);
    assert_eq!(watch.message().await.expect("open").expect("a status").status, not_serving);
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
            "dex.FlowService",
            "dex.WorkerTaskService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection"
        ]
    );
}
