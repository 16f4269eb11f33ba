//! Bad input over gRPC: refused with the code and the field, nothing written, nobody else disturbed.

use dexzd_sdk::prelude::*;
use dexzd_sdk::proto;
use prost::Message as _;
use proto::flow_service_client::FlowServiceClient;
use proto::worker_frame::Kind as Frame;
use proto::worker_task_service_client::WorkerTaskServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel as Connection;
use tonic::{Code, Status, Streaming};

use super::flows::{Relay, WORD, relay_worker};
use super::harness::{Home, Start, connect};

fn refused<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.expect_err("bad input");
    let detail = proto::ErrorDetail::decode(status.details()).expect("every error carries one");
    (status.code(), detail.field)
}

fn start() -> proto::StartFlowRequest {
    proto::StartFlowRequest {
        request_id: "request".into(),
        flow_id: "flow".into(),
        flow_type: "Relay".into(),
        start: Some(proto::Movement { step_type: "Take".into(), ..Default::default() }),
        ..Default::default()
    }
}

fn options(request: &mut proto::StartFlowRequest) -> &mut proto::StepOptions {
    request.start.as_mut().expect("set by `start`").options.get_or_insert_default()
}

fn retry(request: &mut proto::StartFlowRequest) -> &mut proto::RetryPolicy {
    options(request).execute.get_or_insert_default().retry.get_or_insert_default()
}

fn value(bytes: usize) -> Option<proto::Value> {
    Some(proto::Value { encoding: "json".into(), data: vec![b'1'; bytes] })
}

/// Issue 2, "Bad input", for the start of a Flow: each field.
#[tokio::test]
async fn bad_input_of_a_start_gets_its_code_and_field_and_writes_nothing() {
    type Spoil = fn(&mut proto::StartFlowRequest);
    let table: [(Spoil, Code, &str); 19] = [
        (|r| r.request_id.clear(), Code::InvalidArgument, "request_id"),
        (|r| r.flow_id.clear(), Code::InvalidArgument, "flow_id"),
        (|r| r.flow_type.clear(), Code::InvalidArgument, "flow_type"),
        (|r| r.request_id = "x".repeat(256), Code::InvalidArgument, "request_id"),
        (|r| r.flow_id = "x".repeat(256), Code::InvalidArgument, "flow_id"),
        (|r| r.flow_type = "x".repeat(256), Code::InvalidArgument, "flow_type"),
        (|r| r.id_reuse_policy = 77, Code::InvalidArgument, "id_reuse_policy"),
        (|r| r.timeout_policy = 77, Code::InvalidArgument, "timeout_policy"),
        (|r| r.timeout_policy = 1, Code::InvalidArgument, "timeout_policy"),
        (|r| r.timeout_ms = Some(-1), Code::InvalidArgument, "timeout_ms"),
        (|r| r.start_delay_ms = Some(i64::MAX), Code::InvalidArgument, "start_delay_ms"),
        (|r| r.retry = Some(proto::RetryPolicy::default()), Code::InvalidArgument, "retry"),
        (|r| r.start.as_mut().expect("set").step_type.clear(), Code::InvalidArgument, "start.step_type"),
        (
            |r| retry(r).maximum_attempts = -1,
            Code::InvalidArgument,
            "start.options.execute.retry.maximum_attempts",
        ),
        (
            |r| retry(r).backoff_coefficient = f64::NAN,
            Code::InvalidArgument,
            "start.options.execute.retry.backoff_coefficient",
        ),
        (
            |r| options(r).heartbeat_timeout_ms = Some(0),
            Code::InvalidArgument,
            "start.options.heartbeat_timeout_ms",
        ),
        (
            |r| {
                let key = Some(proto::Key { name: "map".into(), instance: Some("a/b".into()) });
                r.attributes.push(proto::AttributeEntry { key, value: None });
            },
            Code::InvalidArgument,
            "attributes[0].key.instance",
        ),
        (
            |r| r.start.as_mut().expect("set").input = value((1 << 20) + 1),
            Code::ResourceExhausted,
            "start.input",
        ),
        (
            |r| {
                let write = |number: usize| proto::AttributeEntry {
                    key: Some(proto::Key { name: format!("a{number}"), instance: None }),
                    value: Some(proto::AttributeValue {
                        kind: Some(proto::attribute_value::Kind::ObjectValue(value(1 << 20).expect("set"))),
                    }),
                };
                r.attributes = (0..9).map(write).collect();
            },
            Code::ResourceExhausted,
            "the request",
        ),
    ];
    let home = Home::new();
    let server = Start::dev(&home.data()).ready();
    let mut client = FlowServiceClient::new(connect(&server.api).await);
    let position = server.metric("dexzd_log_position");
    for (number, (spoil, code, field)) in table.into_iter().enumerate() {
        let mut request = start();
        spoil(&mut request);
        let (found_code, found_field) = refused(client.start_flow(request).await);
        assert_eq!(found_code, code, "case {number}, {field}");
        assert!(found_field.contains(field), "case {number}: {found_field:?} does not name {field:?}");
    }
    assert_eq!(server.metric("dexzd_log_position"), position, "nothing was written");
    client.start_flow(start()).await.expect("a good one is taken");
}

/// The other calls, on a Flow that exists.
#[tokio::test]
async fn bad_input_of_other_calls_gets_its_code_and_field_and_writes_nothing() {
    let home = Home::new();
    let server = Start::dev(&home.data()).ready();
    let mut client = FlowServiceClient::new(connect(&server.api).await);
    client.start_flow(start()).await.expect("started");
    let position = server.metric("dexzd_log_position");
    let target = || Some(proto::Target { flow_id: "flow".into(), run_id: None });
    let request_id = || "other".to_owned();
    let key = || Some(proto::Key { name: "word".into(), instance: None });
    let publish = |publications| proto::PublishToChannelRequest {
        request_id: request_id(),
        target: target(),
        publications,
    };
    let invalid = |field: &str| (Code::InvalidArgument, field.to_owned());

    assert_eq!(refused(client.publish_to_channel(publish(Vec::new())).await), invalid("publications"));
    let no_value = vec![proto::Publication { channel: key(), value: None }];
    assert_eq!(refused(client.publish_to_channel(publish(no_value)).await), invalid("publications[0].value"));
    let nameless = vec![proto::Publication { channel: Some(proto::Key::default()), value: value(1) }];
    assert_eq!(
        refused(client.publish_to_channel(publish(nameless)).await),
        invalid("publications[0].channel.name")
    );
    let stop =
        proto::StopFlowRequest { request_id: request_id(), target: target(), kind: 9, reason: String::new() };
    assert_eq!(refused(client.stop_flow(stop).await), invalid("kind"));
    let stop = proto::StopFlowRequest { request_id: String::new(), target: target(), ..Default::default() };
    assert_eq!(refused(client.stop_flow(stop).await), invalid("request_id"));
    let skip = proto::SkipTimerRequest { request_id: request_id(), target: target(), timer: None };
    assert_eq!(refused(client.skip_timer(skip).await), invalid("timer"));
    let writes =
        proto::WriteAttributesRequest { request_id: request_id(), target: target(), writes: Vec::new() };
    assert_eq!(refused(client.write_attributes(writes).await), invalid("writes"));
    let delete = proto::DeleteChannelMessagesRequest {
        request_id: request_id(),
        target: target(),
        channel: key(),
        message_ids: vec!["zz".into()],
    };
    assert_eq!(refused(client.delete_channel_messages(delete).await), invalid("message_ids[0]"));
    let history = proto::GetFlowHistoryRequest { target: target(), start_event: 0, page_size: 1_001 };
    assert_eq!(refused(client.get_flow_history(history).await), invalid("page_size"));
    let wait = proto::WaitForFlowRequest { target: target(), wait_ms: Some(-1) };
    assert_eq!(refused(client.wait_for_flow(wait).await), invalid("wait_ms"));
    let search = proto::SearchFlowsRequest { query: "status = odd".into(), ..Default::default() };
    assert_eq!(refused(client.search_flows(search).await), invalid("query"));
    let search = proto::SearchFlowsRequest { page_token: "odd".into(), ..Default::default() };
    assert_eq!(refused(client.search_flows(search).await), invalid("page_token"));
    let run = proto::Target { flow_id: "flow".into(), run_id: Some("odd".into()) };
    let describe = proto::DescribeFlowRequest { target: Some(run) };
    assert_eq!(refused(client.describe_flow(describe).await), invalid("target.run_id"));

    let nobody = proto::Target { flow_id: "nobody".into(), run_id: None };
    let describe = proto::DescribeFlowRequest { target: Some(nobody) };
    assert_eq!(refused(client.describe_flow(describe).await).0, Code::NotFound);
    let again = proto::StartFlowRequest { request_id: "another".into(), ..start() };
    assert_eq!(refused(client.start_flow(again).await).0, Code::AlreadyExists);
    assert_eq!(server.metric("dexzd_log_position"), position, "nothing was written");

    let huge = proto::StartFlowRequest { flow_id: "x".repeat(proto::MESSAGE_BYTES + 1), ..start() };
    assert_eq!(client.start_flow(huge).await.expect_err("too big").code(), Code::ResourceExhausted);
}

/// One raw Worker stream.
struct RawWorker {
    frames: mpsc::UnboundedSender<proto::WorkerBatch>,
    stream: Streaming<proto::ServerBatch>,
}

impl RawWorker {
    async fn open(connection: &Connection) -> Self {
        let (frames, batches) = mpsc::unbounded_channel();
        let stream = WorkerTaskServiceClient::new(connection.clone())
            .poll_worker_task(UnboundedReceiverStream::new(batches))
            .await
            .expect("it serves")
            .into_inner();
        Self { frames, stream }
    }

    fn say(&self, kind: Option<Frame>) {
        self.frames.send(proto::WorkerBatch { frames: vec![proto::WorkerFrame { kind }] }).expect("open");
    }

    /// The refusal that ends the stream: its last frame, and its status.
    async fn refused(mut self) -> (Code, String) {
        let mut last = None;
        loop {
            match self.stream.message().await {
                Ok(Some(batch)) => {
                    for frame in batch.frames {
                        if let Some(proto::server_frame::Kind::Refused(message)) = frame.kind {
                            last = Some(message);
                        }
                    }
                }
                Ok(None) => panic!("the stream ended without an error, after {last:?}"),
                Err(status) => {
                    assert_eq!(last.as_deref(), Some(status.message()), "frame and status say the same");
                    return (status.code(), last.expect("compared above"));
                }
            }
        }
    }
}

fn hello(worker: &str, slots: u32) -> proto::Hello {
    let relay = proto::FlowTypeDefinition {
        name: "Raw".into(),
        step_types: vec!["Only".into()],
        timeout_handler: false,
    };
    proto::Hello { worker: worker.into(), slots, flow_types: vec![relay], protocol_version: 1 }
}

/// Issue 2, "Bad input", for Worker streams: the faulty stream ends, everybody else goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_frames_end_their_own_stream_only() {
    let home = Home::new();
    let server = Start::dev(&home.data()).ready();
    let worker = relay_worker(&server.api);
    let client = Client::connect(&server.api).await.expect("it serves");
    client.start::<Relay>("relay", &"text".to_owned()).await.expect("started");
    let connection = connect(&server.api).await;

    // No hello at all.
    let raw = RawWorker::open(&connection).await;
    raw.say(Some(Frame::Pong(proto::worker_frame::Pong {})));
    assert_eq!(raw.refused().await.0, Code::InvalidArgument);
    // A frame of no kind.
    let raw = RawWorker::open(&connection).await;
    raw.say(Some(Frame::Hello(hello("w", 1))));
    raw.say(None);
    let (code, message) = raw.refused().await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.starts_with("frames[0].kind: "), "{message}");
    // A second hello.
    let raw = RawWorker::open(&connection).await;
    raw.say(Some(Frame::Hello(hello("w", 1))));
    raw.say(Some(Frame::Hello(hello("w", 1))));
    let (code, message) = raw.refused().await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("hello"), "{message}");
    // No slots, no name, another protocol.
    for (spoiled, field) in [
        (hello("w", 0), "slots"),
        (hello("", 1), "worker"),
        (proto::Hello { protocol_version: 9, ..hello("w", 1) }, "protocol_version"),
    ] {
        let raw = RawWorker::open(&connection).await;
        raw.say(Some(Frame::Hello(spoiled)));
        let (code, message) = raw.refused().await;
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains(field), "{message}");
    }

    client.publish("relay", &WORD, &"word".to_owned()).await.expect("published");
    assert_eq!(client.result::<Relay>("relay").await.expect("completed"), "text word");
    worker.abort();
}

/// FD-11, D-44: a result for a task that this Worker does not hold is dropped whole, without an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fd_011_d_044_a_result_for_a_task_of_somebody_else_is_dropped() {
    let home = Home::new();
    let server = Start::dev(&home.data()).ready();
    let mut client = FlowServiceClient::new(connect(&server.api).await);
    let connection = connect(&server.api).await;
    let mut holder = RawWorker::open(&connection).await;
    holder.say(Some(Frame::Hello(hello("holder", 1))));
    let request = proto::StartFlowRequest {
        flow_type: "Raw".into(),
        start: Some(proto::Movement {
            step_type: "Only".into(),
            options: Some(proto::StepOptions { skip_wait_for: true, ..Default::default() }),
            ..Default::default()
        }),
        ..start()
    };
    client.start_flow(request).await.expect("started");
    let task = next_task(&mut holder.stream).await;

    let mut thief = RawWorker::open(&connection).await;
    thief.say(Some(Frame::Hello(hello("thief", 1))));
    let done = |reason: &str| {
        let kind = proto::decision::Kind::ForceFail(proto::decision::ForceFail { reason: reason.into() });
        let decision = Some(proto::Decision { kind: Some(kind), ..Default::default() });
        Some(Frame::ExecuteDone(proto::worker_frame::ExecuteDone {
            handout: task.handout,
            decision,
            effects: None,
        }))
    };
    thief.say(done("stolen"));
    // The thief's stream is still good: it gets an answer, and a ping one day.
    let settled = next_settled(&mut thief.stream).await;
    assert!(!settled.accepted);
    holder.say(done("mine"));
    assert!(next_settled(&mut holder.stream).await.accepted);
    let target = Some(proto::Target { flow_id: "flow".into(), run_id: None });
    let result = client
        .wait_for_flow(proto::WaitForFlowRequest { target, wait_ms: None })
        .await
        .expect("closed")
        .into_inner();
    assert_eq!(result.error.expect("it failed").text, "mine");
}

async fn next_task(stream: &mut Streaming<proto::ServerBatch>) -> proto::Task {
    loop {
        for frame in stream.message().await.expect("open").expect("open").frames {
            if let Some(proto::server_frame::Kind::Task(task)) = frame.kind {
                return *task;
            }
        }
    }
}

async fn next_settled(stream: &mut Streaming<proto::ServerBatch>) -> proto::server_frame::Settled {
    loop {
        for frame in stream.message().await.expect("open").expect("open").frames {
            if let Some(proto::server_frame::Kind::Settled(settled)) = frame.kind {
                return settled;
            }
        }
    }
}
