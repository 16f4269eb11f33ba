//! A server in the same process that answers as a test tells it to, over pipes in memory: time can be
//! paused, and nothing listens on a port.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dexzd_connection::{Link, Target};
use dexzd_proto as proto;
use proto::flow_service_server::{FlowService, FlowServiceServer};
use proto::server_frame::Kind as ServerKind;
use proto::worker_frame::Kind as WorkerKind;
use proto::worker_task_service_server::{WorkerTaskService, WorkerTaskServiceServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// After so long without a frame of the Worker the server pings it (D-21).
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// What the fake server was asked, and what it answers.
pub(crate) struct FakeServer {
    pub(crate) link: Link,
    pub(crate) state: Arc<State>,
    dial: Arc<dyn Fn() -> io::Result<DuplexStream> + Send + Sync>,
    /// Dropped: GOAWAY on every connection.
    running: Option<oneshot::Sender<()>>,
    streams: mpsc::UnboundedReceiver<FakeStream>,
}

pub(crate) struct State {
    /// While true, connecting is refused.
    pub(crate) is_down: Mutex<bool>,
    /// While true, GetServerInfo answers as a standby does.
    pub(crate) is_standby: AtomicBool,
    /// What becomes of bytes on the way.
    wire: watch::Sender<Wire>,
    /// How often somebody tried to connect, and when.
    pub(crate) connects: Mutex<Vec<tokio::time::Instant>>,
    pub(crate) info: Mutex<proto::ServerInfo>,
    /// Answers of StartFlow, in order; the last one stays.
    pub(crate) starts: Script<proto::StartFlowRequest, proto::StartFlowResponse>,
    pub(crate) publishes: Script<proto::PublishToChannelRequest, proto::PublishToChannelResponse>,
    pub(crate) waits: Script<proto::WaitForFlowRequest, proto::FlowResult>,
    streams: mpsc::UnboundedSender<FakeStream>,
}

/// What becomes of bytes on the way to and from a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Whole,
    /// They arrive later, if ever: the process is frozen.
    Frozen,
    /// The connections of this number and below are gone: the process was killed.
    Cut(u32),
}

/// The requests of one method, and its answers in order.
pub(crate) struct Script<Req, Res> {
    pub(crate) requests: Mutex<Vec<Req>>,
    /// The credentials that came with them.
    pub(crate) credentials: Mutex<Vec<Option<String>>>,
    answers: Mutex<VecDeque<Answer<Res>>>,
}

/// One answer of a method.
pub(crate) enum Answer<Res> {
    Now(Result<Res, Status>),
    Later(oneshot::Receiver<Result<Res, Status>>),
    Never,
}

impl<Req, Res> Script<Req, Res> {
    fn new() -> Self {
        Self { requests: Mutex::default(), credentials: Mutex::default(), answers: Mutex::default() }
    }

    pub(crate) fn answer(&self, answer: Result<Res, Status>) {
        self.answers.lock().unwrap().push_back(Answer::Now(answer));
    }

    pub(crate) fn forget_answers(&self) {
        self.answers.lock().unwrap().clear();
    }

    /// An answer that the test gives when it sees fit.
    pub(crate) fn answer_later(&self) -> oneshot::Sender<Result<Res, Status>> {
        let (sender, receiver) = oneshot::channel();
        self.answers.lock().unwrap().push_back(Answer::Later(receiver));
        sender
    }

    pub(crate) fn never_answer(&self) {
        self.answers.lock().unwrap().push_back(Answer::Never);
    }

    async fn call(&self, request: Request<Req>) -> Result<Response<Res>, Status> {
        let credential =
            request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        self.credentials.lock().unwrap().push(credential);
        self.requests.lock().unwrap().push(request.into_inner());
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(Answer::Now(answer)) => answer.map(Response::new),
            Some(Answer::Later(answer)) => answer.await.expect("the test answers").map(Response::new),
            Some(Answer::Never) => std::future::pending().await,
            None => Err(Status::internal("the test has no answer for this call")),
        }
    }
}

/// One open Worker stream, seen from the server.
pub(crate) struct FakeStream {
    pub(crate) credential: Option<String>,
    inbound: Streaming<proto::WorkerBatch>,
    received: VecDeque<proto::WorkerFrame>,
    /// Sent because the Worker was silent, and not yet answered.
    pings: u32,
    outbound: mpsc::UnboundedSender<Result<proto::ServerBatch, Status>>,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        let (streams, streams_receiver) = mpsc::unbounded_channel();
        let (connections, connections_receiver) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            is_down: Mutex::new(false),
            is_standby: AtomicBool::new(false),
            wire: watch::Sender::new(Wire::Whole),
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
        let (running, stopped) = oneshot::channel();
        let incoming = UnboundedReceiverStream::new(connections_receiver);
        tokio::spawn(router.serve_with_incoming_shutdown(incoming, async {
            let _ = stopped.await;
        }));
        let dial = dialer(state.clone(), connections);
        let link = {
            let dial = dial.clone();
            Target::new("fake:1")
                .connect_with(move |_, _| std::future::ready(dial()))
                .link()
                .expect("an address")
        };
        Self { link, state, dial, running: Some(running), streams: streams_receiver }
    }

    /// What connects to several servers, by the number in front of the host's dot.
    pub(crate) fn network(
        servers: &[&Self],
    ) -> impl Fn(String, u16) -> std::future::Ready<io::Result<DuplexStream>> + Send + Sync + 'static {
        let dials: Vec<_> = servers.iter().map(|server| server.dial.clone()).collect();
        move |host, _| {
            let index: usize =
                host.strip_prefix("server-").and_then(|number| number.parse().ok()).expect("one of ours");
            std::future::ready(dials[index]())
        }
    }

    /// A way to several servers: `server-0:1,server-1:1` and so on.
    pub(crate) fn link_to(servers: &[&Self]) -> Link {
        let addresses: Vec<_> = (0..servers.len()).map(|index| format!("server-{index}:1")).collect();
        Target::new(addresses.join(",")).connect_with(Self::network(servers)).link().expect("addresses")
    }

    /// The process is frozen: it takes connections, and says nothing.
    pub(crate) fn freeze(&self) {
        self.state.wire.send_replace(Wire::Frozen);
    }

    /// The process is killed: its connections break, and new ones are refused.
    pub(crate) fn kill(&self) {
        self.set_down(true);
        let count = self.state.connects.lock().unwrap().len();
        self.state.wire.send_replace(Wire::Cut(u32::try_from(count).unwrap()));
    }

    /// GOAWAY on every connection; calls that run are answered, new connections are refused.
    pub(crate) fn say_goodbye(&mut self) {
        self.set_down(true);
        self.running = None;
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

    /// Whether it answers as a standby does.
    pub(crate) fn set_standby(&self, is_standby: bool) {
        self.state.is_standby.store(is_standby, Ordering::Relaxed);
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        *self.state.is_down.lock().unwrap() = is_down;
    }
}

type Incoming = mpsc::UnboundedSender<io::Result<DuplexStream>>;

fn dialer(
    state: Arc<State>,
    connections: Incoming,
) -> Arc<dyn Fn() -> io::Result<DuplexStream> + Send + Sync> {
    Arc::new(move || {
        let number = {
            let mut connects = state.connects.lock().unwrap();
            connects.push(tokio::time::Instant::now());
            u32::try_from(connects.len()).unwrap()
        };
        if *state.is_down.lock().unwrap() {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused"));
        }
        let (client, client_side) = tokio::io::duplex(1 << 20);
        let (server_side, server) = tokio::io::duplex(1 << 20);
        connections.send(Ok(server)).map_err(io::Error::other)?;
        tokio::spawn(carry(client_side, server_side, state.wire.subscribe(), number));
        Ok(client)
    })
}

/// Carries bytes both ways, for as long as the wire is whole.
async fn carry(client: DuplexStream, server: DuplexStream, wire: watch::Receiver<Wire>, number: u32) {
    let (client_reader, client_writer) = tokio::io::split(client);
    let (server_reader, server_writer) = tokio::io::split(server);
    let mut cut = wire.clone();
    tokio::select! {
        _ = async {
            tokio::join!(
                carry_one_way(client_reader, server_writer, wire.clone()),
                carry_one_way(server_reader, client_writer, wire.clone()),
            )
        } => {}
        _ = cut.wait_for(|wire| matches!(wire, Wire::Cut(last) if number <= *last)) => {}
    }
}

async fn carry_one_way(
    mut reader: ReadHalf<DuplexStream>,
    mut writer: WriteHalf<DuplexStream>,
    mut wire: watch::Receiver<Wire>,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let Ok(count) = reader.read(&mut buffer).await else { return };
        if wire.wait_for(|wire| *wire != Wire::Frozen).await.is_err() {
            return;
        }
        if count == 0 {
            let _ = writer.shutdown().await;
            return;
        }
        if writer.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

impl FakeStream {
    /// The next frame from the Worker.
    pub(crate) async fn next(&mut self) -> WorkerKind {
        self.try_next().await.expect("the Worker keeps the stream open")
    }

    /// The next frame from the Worker; None once it has ended the stream. While it waits here, the server does
    /// what a real one does with a Worker that it does not hear: it pings.
    pub(crate) async fn try_next(&mut self) -> Option<WorkerKind> {
        loop {
            while self.received.is_empty() {
                match tokio::time::timeout(PING_INTERVAL, self.inbound.message()).await {
                    Ok(batch) => self.received.extend(batch.ok()??.frames),
                    Err(_) => {
                        let _ =
                            self.outbound.send(Ok(batch_of(ServerKind::Ping(proto::server_frame::Ping {}))));
                        self.pings += 1;
                    }
                }
            }
            let frame = self.received.pop_front()?.kind.expect("frames have a kind");
            if self.pings == 0 || !matches!(frame, WorkerKind::Pong(_)) {
                return Some(frame);
            }
            self.pings -= 1;
        }
    }

    pub(crate) fn send(&self, kind: ServerKind) {
        self.outbound.send(Ok(batch_of(kind))).expect("the Worker listens");
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

fn batch_of(kind: ServerKind) -> proto::ServerBatch {
    proto::ServerBatch { frames: vec![proto::ServerFrame { kind: Some(kind) }] }
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
        if self.is_standby.load(Ordering::Relaxed) {
            return Err(Status::unavailable("this process does not serve"));
        }
        let credential =
            request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let stream = FakeStream {
            credential,
            inbound: request.into_inner(),
            received: VecDeque::new(),
            pings: 0,
            outbound,
        };
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
        if self.is_standby.load(Ordering::Relaxed) {
            return Err(Status::unavailable(
                "this process does not serve; repeat the call with the same request ID",
            ));
        }
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
