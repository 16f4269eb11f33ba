//! A server in the same process that answers as a test tells it to, over pipes in memory: time can be
//! paused, and nothing listens on a port.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use dexzd_proto as proto;
use hyper_util::rt::TokioIo;
use proto::flow_service_server::{FlowService, FlowServiceServer};
use proto::server_frame::Kind as ServerKind;
use proto::worker_frame::Kind as WorkerKind;
use proto::worker_task_service_server::{WorkerTaskService, WorkerTaskServiceServer};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Uri;
use tonic::{Request, Response, Status, Streaming};

use crate::address::Server;

/// What the fake server was asked, and what it answers.
pub(crate) struct FakeServer {
    pub(crate) address: Server,
    pub(crate) state: Arc<State>,
    streams: mpsc::UnboundedReceiver<FakeStream>,
}

pub(crate) struct State {
    /// While true, connecting is refused.
    pub(crate) is_down: Mutex<bool>,
    /// How often somebody tried to connect, and when.
    pub(crate) connects: Mutex<Vec<tokio::time::Instant>>,
    pub(crate) info: Mutex<proto::ServerInfo>,
    /// Answers of StartFlow, in order; the last one stays.
    pub(crate) starts: Script<proto::StartFlowRequest, proto::StartFlowResponse>,
    pub(crate) publishes: Script<proto::PublishToChannelRequest, proto::PublishToChannelResponse>,
    pub(crate) waits: Script<proto::WaitForFlowRequest, proto::FlowResult>,
    streams: mpsc::UnboundedSender<FakeStream>,
}

/// The requests of one method, and its answers in order.
pub(crate) struct Script<Req, Res> {
    pub(crate) requests: Mutex<Vec<Req>>,
    answers: Mutex<VecDeque<Answer<Res>>>,
}

/// One answer of a method.
pub(crate) enum Answer<Res> {
    Now(Result<Res, Status>),
    Never,
}

impl<Req, Res> Script<Req, Res> {
    fn new() -> Self {
        Self { requests: Mutex::default(), answers: Mutex::default() }
    }

    pub(crate) fn answer(&self, answer: Result<Res, Status>) {
        self.answers.lock().unwrap().push_back(Answer::Now(answer));
    }

    pub(crate) fn never_answer(&self) {
        self.answers.lock().unwrap().push_back(Answer::Never);
    }

    async fn call(&self, request: Request<Req>) -> Result<Response<Res>, Status> {
        self.requests.lock().unwrap().push(request.into_inner());
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(Answer::Now(answer)) => answer.map(Response::new),
            Some(Answer::Never) => std::future::pending().await,
            None => Err(Status::internal("the test has no answer for this call")),
        }
    }
}

/// One open Worker stream, seen from the server.
pub(crate) struct FakeStream {
    inbound: Streaming<proto::WorkerBatch>,
    received: VecDeque<proto::WorkerFrame>,
    outbound: mpsc::UnboundedSender<Result<proto::ServerBatch, Status>>,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        let (streams, streams_receiver) = mpsc::unbounded_channel();
        let (connections, connections_receiver) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            is_down: Mutex::new(false),
            connects: Mutex::default(),
            info: Mutex::new(proto::ServerInfo {
                version: "0.0.0".to_owned(),
                protocol_min: 1,
                protocol_max: 1,
                node_id: "fake".to_owned(),
            }),
            starts: Script::new(),
            publishes: Script::new(),
            waits: Script::new(),
            streams,
        });
        let router = tonic::transport::Server::builder()
            .add_service(FlowServiceServer::from_arc(state.clone()))
            .add_service(WorkerTaskServiceServer::from_arc(state.clone()));
        tokio::spawn(router.serve_with_incoming(UnboundedReceiverStream::new(connections_receiver)));
        Self { address: address(state.clone(), connections), state, streams: streams_receiver }
    }

    /// The next stream that a Worker opens.
    pub(crate) async fn stream(&mut self) -> FakeStream {
        self.streams.recv().await.expect("the state holds a sender")
    }

    /// The next stream that a Worker opens, after its hello.
    pub(crate) async fn stream_after_hello(&mut self) -> FakeStream {
        let mut stream = self.stream().await;
        assert!(matches!(stream.next().await, WorkerKind::Hello(_)));
        stream
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        *self.state.is_down.lock().unwrap() = is_down;
    }
}

type Incoming = mpsc::UnboundedSender<io::Result<DuplexStream>>;

fn address(state: Arc<State>, connections: Incoming) -> Server {
    let dial = move || {
        state.connects.lock().unwrap().push(tokio::time::Instant::now());
        let is_down = *state.is_down.lock().unwrap();
        let connections = connections.clone();
        async move {
            if is_down {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused"));
            }
            let (client, server) = tokio::io::duplex(1 << 20);
            connections.send(Ok(server)).map_err(io::Error::other)?;
            Ok(TokioIo::new(client))
        }
    };
    let dial_lazily = dial.clone();
    Server::parse("fake:1").unwrap().with_connector(
        move |endpoint| {
            let dial = dial.clone();
            Box::pin(
                async move { endpoint.connect_with_connector(tower::service_fn(move |_: Uri| dial())).await },
            )
        },
        move |endpoint| {
            let dial = dial_lazily.clone();
            endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| dial()))
        },
    )
}

impl FakeStream {
    /// The next frame from the Worker.
    pub(crate) async fn next(&mut self) -> WorkerKind {
        self.try_next().await.expect("the Worker keeps the stream open")
    }

    /// The next frame from the Worker; None once it has ended the stream.
    pub(crate) async fn try_next(&mut self) -> Option<WorkerKind> {
        while self.received.is_empty() {
            let batch = self.inbound.message().await.ok()??;
            self.received.extend(batch.frames);
        }
        self.received.pop_front().map(|frame| frame.kind.expect("frames have a kind"))
    }

    pub(crate) fn send(&self, kind: ServerKind) {
        let batch = proto::ServerBatch { frames: vec![proto::ServerFrame { kind: Some(kind) }] };
        self.outbound.send(Ok(batch)).expect("the Worker listens");
    }

    pub(crate) fn settle(&self, handout: Option<proto::HandoutId>) {
        self.send(ServerKind::Settled(proto::server_frame::Settled { handout, accepted: true }));
    }

    pub(crate) fn cancel(&self, handout: Option<proto::HandoutId>, reason: proto::CancelReason) {
        self.send(ServerKind::Cancel(proto::server_frame::Cancel { handout, reason: reason.into() }));
    }

    /// Whether the Worker sends nothing more, however long one waits: proven by a ping whose answer is
    /// the next frame.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        self.send(ServerKind::Ping(proto::server_frame::Ping {}));
        matches!(self.next().await, WorkerKind::Pong(_))
    }
}

/// A task for the Step `Work` of the Flow type `Test`; `counter` tells tasks apart.
pub(crate) fn task(step_type: &str, method: proto::Method, counter: u64) -> proto::Task {
    let now =
        std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_millis();
    proto::Task {
        handout: Some(proto::HandoutId { epoch: 7, counter }),
        flow_type: "Test".to_owned(),
        flow_id: "flow-1".to_owned(),
        run_id: "run-1".to_owned(),
        step: Some(proto::StepExecutionId { step_type: step_type.to_owned(), number: 1 }),
        method: method.into(),
        attempt: 1,
        deadline_unix_ms: i64::try_from(now).unwrap() + 7_200_000,
        ..proto::Task::default()
    }
}

pub(crate) fn send_task(stream: &FakeStream, task: proto::Task) {
    stream.send(ServerKind::Task(Box::new(task)));
}

/// A status with details, as the server sends it.
pub(crate) fn status(code: tonic::Code, message: &str, detail: proto::ErrorDetail) -> Status {
    Status::with_details(code, message, prost::Message::encode_to_vec(&detail).into())
}

#[tonic::async_trait]
impl WorkerTaskService for State {
    type PollWorkerTaskStream = UnboundedReceiverStream<Result<proto::ServerBatch, Status>>;

    async fn poll_worker_task(
        &self,
        request: Request<Streaming<proto::WorkerBatch>>,
    ) -> Result<Response<Self::PollWorkerTaskStream>, Status> {
        let (outbound, receiver) = mpsc::unbounded_channel();
        let stream = FakeStream { inbound: request.into_inner(), received: VecDeque::new(), outbound };
        let _ = self.streams.send(stream);
        Ok(Response::new(UnboundedReceiverStream::new(receiver)))
    }
}

fn unscripted<T>() -> Result<T, Status> {
    Err(Status::internal("the fake server does not play this call"))
}

#[tonic::async_trait]
impl FlowService for State {
    async fn start_flow(
        &self,
        request: Request<proto::StartFlowRequest>,
    ) -> Result<Response<proto::StartFlowResponse>, Status> {
        self.starts.call(request).await
    }

    async fn publish_to_channel(
        &self,
        request: Request<proto::PublishToChannelRequest>,
    ) -> Result<Response<proto::PublishToChannelResponse>, Status> {
        self.publishes.call(request).await
    }

    async fn wait_for_flow(
        &self,
        request: Request<proto::WaitForFlowRequest>,
    ) -> Result<Response<proto::FlowResult>, Status> {
        self.waits.call(request).await
    }

    async fn get_server_info(
        &self,
        _: Request<proto::GetServerInfoRequest>,
    ) -> Result<Response<proto::ServerInfo>, Status> {
        Ok(Response::new(self.info.lock().unwrap().clone()))
    }

    async fn stop_flow(
        &self,
        _: Request<proto::StopFlowRequest>,
    ) -> Result<Response<proto::StopFlowResponse>, Status> {
        unscripted()
    }

    async fn delete_channel_messages(
        &self,
        _: Request<proto::DeleteChannelMessagesRequest>,
    ) -> Result<Response<proto::DeleteChannelMessagesResponse>, Status> {
        unscripted()
    }

    async fn write_attributes(
        &self,
        _: Request<proto::WriteAttributesRequest>,
    ) -> Result<Response<proto::WriteAttributesResponse>, Status> {
        unscripted()
    }

    async fn skip_timer(
        &self,
        _: Request<proto::SkipTimerRequest>,
    ) -> Result<Response<proto::SkipTimerResponse>, Status> {
        unscripted()
    }

    async fn update_flow_config(
        &self,
        _: Request<proto::UpdateFlowConfigRequest>,
    ) -> Result<Response<proto::UpdateFlowConfigResponse>, Status> {
        unscripted()
    }

    async fn describe_flow(
        &self,
        _: Request<proto::DescribeFlowRequest>,
    ) -> Result<Response<proto::FlowSummary>, Status> {
        unscripted()
    }

    async fn get_flow_state(
        &self,
        _: Request<proto::GetFlowStateRequest>,
    ) -> Result<Response<proto::FlowState>, Status> {
        unscripted()
    }

    async fn get_flow_history(
        &self,
        _: Request<proto::GetFlowHistoryRequest>,
    ) -> Result<Response<proto::GetFlowHistoryResponse>, Status> {
        unscripted()
    }

    async fn wait_for_history_event(
        &self,
        _: Request<proto::WaitForHistoryEventRequest>,
    ) -> Result<Response<proto::WaitForHistoryEventResponse>, Status> {
        unscripted()
    }

    async fn wait_for_step(
        &self,
        _: Request<proto::WaitForStepRequest>,
    ) -> Result<Response<proto::WaitForStepResponse>, Status> {
        unscripted()
    }

    async fn search_flows(
        &self,
        _: Request<proto::SearchFlowsRequest>,
    ) -> Result<Response<proto::SearchFlowsResponse>, Status> {
        unscripted()
    }

    async fn health(
        &self,
        _: Request<proto::HealthRequest>,
    ) -> Result<Response<proto::HealthResponse>, Status> {
        unscripted()
    }
}
