//! The client against a fake server, in virtual time.

mod credentials;
mod failover;

use std::time::Duration;

use dexzd_proto as proto;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::prelude::*;
use crate::testing::{FakeServer, status};
use crate::{ActiveStepSearch, FlowStatus, IdReusePolicy, TimeoutPolicy};

struct Greet;

impl Step for Greet {
    const TYPE: &'static str = "Greet";
    type Input = String;

    fn options() -> StepOptions {
        StepOptions::new().durability(Durability::Async)
    }

    async fn execute(&self, _: &Context, _: String) -> StepResult {
        Ok(Decision::dead_end())
    }
}

struct Greeting;

impl Flow for Greeting {
    const TYPE: &'static str = "Greeting";
    type Start = Greet;
    type Output = String;

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(Greet)
    }
}

const STATUS: Attribute<String> = Attribute::new("status");
const INBOX: Channel<u32> = Channel::new("inbox");

fn ada() -> String {
    "Ada".to_owned()
}

fn started(run_id: &str) -> Result<proto::StartFlowResponse, Status> {
    Ok(proto::StartFlowResponse { run_id: run_id.to_owned(), newly_started: true })
}

fn client(server: &FakeServer) -> Client {
    Client::of(server.link.clone())
}

#[tokio::test(start_paused = true)]
async fn a_start_carries_the_start_step_with_its_options() {
    let server = FakeServer::start();
    server.state.starts.answer(started("run-1"));
    let options = StartOptions::new()
        .request_id("request-1")
        .timeout(Duration::from_secs(60))
        .id_reuse_policy(IdReusePolicy::AllowIfNotRunning)
        .attribute(&STATUS, &"new".to_owned());
    let run = client(&server).start_with::<Greeting>("greeting-1", &ada(), options).await;
    assert_eq!(run.unwrap(), "run-1");
    let expected = proto::StartFlowRequest {
        request_id: "request-1".to_owned(),
        flow_id: "greeting-1".to_owned(),
        flow_type: "Greeting".to_owned(),
        start: Some(proto::Movement {
            step_type: "Greet".to_owned(),
            input: Some(crate::encode("Ada").unwrap()),
            options: Some(proto::StepOptions {
                execute: Some(proto::MethodOptions {
                    durability: proto::Durability::Async.into(),
                    ..proto::MethodOptions::default()
                }),
                skip_wait_for: true,
                ..proto::StepOptions::default()
            }),
        }),
        timeout_ms: Some(60_000),
        id_reuse_policy: proto::IdReusePolicy::AllowIfNotRunning.into(),
        attributes: vec![proto::AttributeEntry {
            key: Some(proto::Key { name: "status".to_owned(), instance: None }),
            value: Some(proto::AttributeValue {
                kind: Some(proto::attribute_value::Kind::StringValue("new".to_owned())),
            }),
        }],
        ..proto::StartFlowRequest::default()
    };
    assert_eq!(*server.state.starts.requests.lock().unwrap(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_start_carries_the_options_of_the_timeout_handler_and_the_configuration() {
    let server = FakeServer::start();
    server.state.starts.answer(started("run-1"));
    let options = StartOptions::new()
        .timeout(Duration::from_secs(60))
        .timeout_policy(TimeoutPolicy::Handler)
        .timeout_handler(
            StepOptions::new()
                .timeout(Duration::from_secs(5))
                .heartbeat_timeout(Duration::from_secs(2))
                .recover_with::<Greet>(),
        )
        .active_step_search(ActiveStepSearch::None);
    client(&server).start_with::<Greeting>("greeting-1", &ada(), options).await.unwrap();
    let request = server.state.starts.requests.lock().unwrap()[0].clone();
    assert_eq!(request.timeout_policy(), proto::TimeoutPolicy::Handler);
    assert_eq!(
        request.timeout_handler,
        Some(proto::TimeoutHandlerOptions {
            method: Some(proto::MethodOptions { timeout_ms: Some(5_000), ..proto::MethodOptions::default() }),
            heartbeat_timeout_ms: Some(2_000),
            recovery: Some(proto::Recovery {
                step_type: "Greet".to_owned(),
                options: Some(Box::new(Greet::options().to_proto(false))),
            }),
        })
    );
    assert_eq!(
        request.config,
        Some(proto::FlowConfig {
            active_step_search: proto::ActiveStepSearch::None.into(),
            step_durability: 0,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn d_035_an_unavailable_call_is_repeated_with_the_same_request_id() {
    let server = FakeServer::start();
    for _ in 0..4 {
        server.state.starts.answer(Err(Status::unavailable("stepping down")));
    }
    server.state.starts.answer(started("run-1"));
    server.state.starts.answer(started("run-2"));
    let client = client(&server);
    client.start::<Greeting>("greeting-1", &ada()).await.unwrap();
    client.start::<Greeting>("greeting-2", &ada()).await.unwrap();
    let requests = server.state.starts.requests.lock().unwrap();
    let ids: Vec<&str> = requests.iter().map(|request| request.request_id.as_str()).collect();
    assert_eq!(ids.len(), 6);
    assert!(ids[..5].iter().all(|id| *id == ids[0] && !id.is_empty()));
    assert_ne!(ids[5], ids[0]);
}

#[tokio::test(start_paused = true)]
async fn a_call_survives_a_server_that_comes_back_within_its_deadline() {
    let server = FakeServer::start();
    server.set_down(true);
    server.state.starts.answer(started("run-1"));
    let client = client(&server);
    let start = tokio::spawn(async move { client.start::<Greeting>("greeting-1", &ada()).await });
    tokio::time::sleep(Duration::from_secs(20)).await;
    server.set_down(false);
    assert_eq!(start.await.unwrap().unwrap(), "run-1");
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_server_is_named_together_with_how_long_one_tried() {
    let server = FakeServer::start();
    server.set_down(true);
    let began = Instant::now();
    let error = client(&server).start::<Greeting>("greeting-1", &ada()).await.unwrap_err();
    let ClientError::Unavailable { operation, address, waited, message } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (*operation, address.as_str(), message.as_str()),
        ("start a Flow", "fake:1", "connection refused")
    );
    assert!(*waited <= Duration::from_secs(30) && *waited >= Duration::from_secs(28), "{waited:?}");
    assert!(began.elapsed() <= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_ends_at_its_deadline() {
    let server = FakeServer::start();
    server.state.starts.never_answer();
    let client = client(&server).with_deadline(Duration::from_secs(7));
    let error = client.start::<Greeting>("greeting-1", &ada()).await.unwrap_err();
    assert_eq!(error.to_string(), "start a Flow: the server at fake:1 did not answer within 7s");
}

#[tokio::test(start_paused = true)]
async fn connecting_to_nobody_says_where_and_what_to_do() {
    let server = FakeServer::start();
    server.set_down(true);
    let error = client(&server).connected().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot connect to the server at fake:1: connection refused. Is it running? `dexcli dev` starts one; \
         DEX_FLOW_SERVICE_ADDRESS names another address"
    );
}

#[tokio::test(start_paused = true)]
async fn errors_say_what_happened() {
    use proto::SubStatus;
    let cases = [
        (
            SubStatus::FlowAlreadyStarted,
            "the Flow ID \"greeting-1\" is in use by run run-9: choose another ID, or an IdReusePolicy that allows it",
        ),
        (
            SubStatus::FlowNotExisting,
            "there is no Flow \"greeting-1\" (it may have been deleted after its retention period)",
        ),
        (SubStatus::FlowNotActive, "the Flow \"greeting-1\" is canceled and takes no changes"),
        (SubStatus::FlowClosing, "the Flow \"greeting-1\" is closing and takes no changes"),
        (SubStatus::InvalidArgument, "from the server"),
        (SubStatus::Uncategorised, "start a Flow failed (FailedPrecondition): from the server"),
    ];
    let server = FakeServer::start();
    for (sub_status, expected) in cases {
        let detail = proto::ErrorDetail {
            sub_status: sub_status.into(),
            field: "flow_id".to_owned(),
            run_id: "run-9".to_owned(),
            flow_status: proto::FlowStatus::Canceled.into(),
        };
        server.state.starts.answer(Err(status(Code::FailedPrecondition, "from the server", detail)));
        let error = client(&server).start::<Greeting>("greeting-1", &ada()).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn long_poll_timeout() -> Status {
    let detail = proto::ErrorDetail {
        sub_status: proto::SubStatus::LongPollTimeout.into(),
        ..proto::ErrorDetail::default()
    };
    status(Code::DeadlineExceeded, "not yet", detail)
}

fn closed(status: proto::FlowStatus, outputs: &[&str]) -> proto::FlowResult {
    proto::FlowResult {
        run_id: "run-1".to_owned(),
        status: status.into(),
        outputs: outputs
            .iter()
            .map(|output| proto::FlowOutput { step: None, value: Some(crate::encode(output).unwrap()) })
            .collect(),
        error: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_is_asked_again_until_the_flow_closes() {
    let server = FakeServer::start();
    server.state.waits.answer(Err(long_poll_timeout()));
    server.state.waits.answer(Err(Status::unavailable("stepping down")));
    server.state.waits.never_answer();
    server.state.waits.answer(Ok(closed(proto::FlowStatus::Completed, &["Hello"])));
    let output = client(&server).result::<Greeting>("greeting-1").await.unwrap();
    assert_eq!(output, "Hello");
    let requests = server.state.waits.requests.lock().unwrap();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| request.wait_ms == Some(20_000)));
}

#[tokio::test(start_paused = true)]
async fn a_bounded_wait_ends_with_a_long_poll_timeout() {
    let server = FakeServer::start();
    server.state.waits.never_answer();
    let client = client(&server).waiting_at_most(Duration::from_secs(3));
    let error = client.wait_for_flow("greeting-1").await.unwrap_err();
    assert!(matches!(error, ClientError::LongPollTimeout { .. }), "{error}");
    assert_eq!(server.state.waits.requests.lock().unwrap()[0].wait_ms, Some(3_000));
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_did_not_complete_has_no_result() {
    let server = FakeServer::start();
    let mut failed = closed(proto::FlowStatus::Failed, &[]);
    failed.error = Some(proto::FlowError {
        category: proto::ErrorCategory::WorkerFailure.into(),
        error_type: "NoCard".to_owned(),
        text: "the order has no card".to_owned(),
    });
    server.state.waits.answer(Ok(failed));
    let error = client(&server).result::<Greeting>("greeting-1").await.unwrap_err();
    assert_eq!(error.to_string(), "the Flow \"greeting-1\" failed: NoCard: the order has no card");
    let ClientError::FlowNotCompleted { status, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(status, FlowStatus::Failed);

    server.state.waits.answer(Ok(closed(proto::FlowStatus::Completed, &["one", "two"])));
    let error = client(&server).result::<Greeting>("greeting-1").await.unwrap_err();
    assert!(matches!(error, ClientError::SeveralOutputs { count: 2, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_messages_keeps_its_order() {
    let server = FakeServer::start();
    server.state.publishes.answer(Ok(proto::PublishToChannelResponse {
        message_ids: vec!["m-1".to_owned(), "m-2".to_owned()],
    }));
    let ids = client(&server).publish_all("greeting-1", &INBOX, &[1, 2]).await.unwrap();
    assert_eq!(ids, ["m-1", "m-2"]);
    let requests = server.state.publishes.requests.lock().unwrap();
    let values: Vec<_> = requests[0].publications.iter().filter_map(|each| each.value.clone()).collect();
    assert_eq!(values, [crate::encode(&1).unwrap(), crate::encode(&2).unwrap()]);
}
