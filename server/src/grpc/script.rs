//! A node that says what the test wants, behind the real services and real connections.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dexzd_core::engine::{Answer, Call, CallError, WorkerFrame};
use dexzd_core::gate::GateView;
use dexzd_core::node::{AdminAnswer, AdminError, AdminRequest, Period, Role, RolePeriod};
use dexzd_core::time::Instant;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::{Channel, Endpoint, Uri};

use super::{Backend, FrameSink, Probes, View, WorkerConnection};
use crate::connections::{self, Closing, Listener, Plain};
use crate::telemetry::{ConnectionMetrics, Metrics};

/// What an operator asked, on a connection of which period, and where the answer goes.
pub(crate) type AdminCall = (Period, AdminRequest, oneshot::Sender<Result<AdminAnswer, AdminError>>);

/// An engine that gives prepared answers, and lets the test shut the gate while a call is with it.
pub(crate) struct Script {
    state: Mutex<State>,
    view: watch::Sender<View>,
    admin: Mutex<VecDeque<AdminCall>>,
    admin_arrived: watch::Sender<usize>,
    began: tokio::time::Instant,
    pub(crate) probes: Probes,
}

struct State {
    gate: GateView,
    answers: VecDeque<Result<Answer, CallError>>,
    gate_after_answer: Option<GateView>,
    calls: usize,
    stream: Option<WorkerConnection>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Script {
    /// A process in this role, whose period 1 begins now.
    pub(crate) fn new(role: Role) -> Arc<Self> {
        let script = Self {
            state: Mutex::new(State {
                gate: GateView::Open,
                answers: VecDeque::new(),
                gate_after_answer: None,
                calls: 0,
                stream: None,
            }),
            view: watch::Sender::new(View { role, period: RolePeriod::default(), is_hot_standby: false }),
            admin: Mutex::default(),
            admin_arrived: watch::Sender::new(0),
            began: tokio::time::Instant::now(),
            probes: Probes::default(),
        };
        script.turn(role);
        Arc::new(script)
    }

    pub(crate) fn active() -> Arc<Self> {
        Self::new(Role::Active)
    }

    /// A new role, in a new period.
    pub(crate) fn turn(&self, role: Role) {
        let (now, is_standby) = (self.now(), matches!(role, Role::Waiting | Role::HoldOff));
        self.view.send_modify(|view| {
            view.role = role;
            view.is_hot_standby = false;
            let standby_since = if is_standby { now } else { view.period.standby_since };
            view.period = RolePeriod { number: Period(view.period.number.0 + 1), is_standby, standby_since };
        });
    }

    /// A new role in the same period.
    pub(crate) fn set_role(&self, role: Role) {
        self.view.send_modify(|view| view.role = role);
    }

    pub(crate) fn set_hot_standby(&self, is_hot_standby: bool) {
        self.view.send_modify(|view| view.is_hot_standby = is_hot_standby);
    }

    pub(crate) fn period(&self) -> Period {
        self.view.borrow().period.number
    }

    pub(crate) fn set_gate(&self, gate: GateView) {
        lock(&self.state).gate = gate;
    }

    /// What the gate becomes once the next answer has been given.
    pub(crate) fn set_gate_after_answer(&self, gate: GateView) {
        lock(&self.state).gate_after_answer = Some(gate);
    }

    /// What the next call gets.
    pub(crate) fn answer(&self, answer: Result<Answer, CallError>) {
        lock(&self.state).answers.push_back(answer);
    }

    /// What the next Worker stream gets.
    pub(crate) fn set_stream(&self, stream: WorkerConnection) {
        lock(&self.state).stream = Some(stream);
    }

    /// How many calls reached the engine.
    pub(crate) fn calls(&self) -> usize {
        lock(&self.state).calls
    }

    /// The next call of an operator.
    pub(crate) async fn admin_call(&self) -> AdminCall {
        let mut arrived = self.admin_arrived.subscribe();
        loop {
            arrived.mark_unchanged();
            if let Some(call) = lock(&self.admin).pop_front() {
                return call;
            }
            arrived.changed().await.expect("the sender lives in self");
        }
    }

    /// How many calls of operators wait.
    pub(crate) fn admin_calls(&self) -> usize {
        lock(&self.admin).len()
    }

    /// Serves on a real socket.
    pub(crate) async fn serve(self: &Arc<Self>) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        self.start(listener, Way::Tcp(address))
    }

    /// Serves on connections in memory, so that paused time passes only when nothing else can happen.
    pub(crate) fn serve_in_memory(self: &Arc<Self>) -> Served {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.start(Pipes(receiver), Way::Memory(sender))
    }

    fn start<L: Listener>(self: &Arc<Self>, listener: L, way: Way) -> Served {
        let closing = Closing::new();
        let metrics = ConnectionMetrics::default();
        let server = connections::Server {
            routes: super::routes(self, &Metrics::for_tests().calls(), &self.probes).expect("descriptors"),
            backend: Arc::clone(self),
            secure: Plain,
            closing: closing.clone(),
            metrics: metrics.clone(),
            seed: 7,
        };
        let task = tokio::spawn(connections::serve(listener, server));
        Served { way, closing, metrics, task }
    }
}

enum Way {
    Tcp(SocketAddr),
    Memory(mpsc::UnboundedSender<DuplexStream>),
}

/// A server that runs.
pub(crate) struct Served {
    way: Way,
    pub(crate) closing: Closing,
    pub(crate) metrics: ConnectionMetrics,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

/// Bytes under way in one direction of a connection in memory.
const PIPE_BYTES: usize = 1 << 16;

impl Served {
    /// A new connection, which a later call opens anew if it was closed.
    pub(crate) async fn channel(&self) -> Channel {
        match &self.way {
            Way::Tcp(address) => {
                let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URI");
                endpoint.connect().await.expect("the listener listens")
            }
            Way::Memory(connections) => {
                let connections = connections.clone();
                let connect = tower::service_fn(move |_: Uri| {
                    let stream = open(&connections);
                    async move { stream.map(TokioIo::new) }
                });
                let endpoint = Endpoint::from_static("http://memory");
                endpoint.connect_with_connector(connect).await.expect("the listener listens")
            }
        }
    }

    /// A new connection of a client that calls itself so.
    pub(crate) async fn channel_of(&self, user_agent: &'static str) -> Channel {
        let Way::Tcp(address) = &self.way else { panic!("on a real socket only") };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URI");
        let endpoint = endpoint.user_agent(user_agent).expect("a header's value");
        endpoint.connect().await.expect("the listener listens")
    }

    /// A new connection without anybody who speaks HTTP/2 on it.
    pub(crate) fn raw(&self) -> DuplexStream {
        match &self.way {
            Way::Tcp(_) => panic!("in memory only"),
            Way::Memory(connections) => open(connections).expect("the listener listens"),
        }
    }
}

fn open(connections: &mpsc::UnboundedSender<DuplexStream>) -> io::Result<DuplexStream> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    connections.send(theirs).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
    Ok(ours)
}

/// Connections in memory.
struct Pipes(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for Pipes {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(stream) => Ok((stream, SocketAddr::from(([127, 0, 0, 1], 1)))),
            None => std::future::pending().await,
        }
    }
}

impl Backend for Script {
    fn view(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    fn present(&self) -> View {
        *self.view.borrow()
    }

    fn now(&self) -> Instant {
        let micros = u64::try_from(self.began.elapsed().as_micros()).expect("tests are short");
        Instant::from_micros(1_000_000_000 + micros)
    }

    fn look(&self, opened_in: Period) -> GateView {
        let view = *self.view.borrow();
        if view.role.is_serving() && view.period.number == opened_in {
            lock(&self.state).gate
        } else {
            GateView::Shut
        }
    }

    fn node_id(&self) -> &str {
        "n1"
    }

    async fn call(&self, _: Period, _: Call) -> Result<Answer, CallError> {
        let mut state = lock(&self.state);
        state.calls += 1;
        let answer = state.answers.pop_front();
        if let Some(gate) = state.gate_after_answer.take() {
            state.gate = gate;
        }
        answer.expect("the test prepared an answer")
    }

    fn open_stream(&self, _: Period) -> Option<WorkerConnection> {
        lock(&self.state).stream.take()
    }

    async fn admin(&self, opened_in: Period, request: AdminRequest) -> Result<AdminAnswer, AdminError> {
        let (reply, answer) = oneshot::channel();
        lock(&self.admin).push_back((opened_in, request, reply));
        self.admin_arrived.send_modify(|arrived| *arrived += 1);
        answer.await.expect("the test answers")
    }
}

/// Takes the frames of a Worker for the test.
pub(crate) struct Sink(pub(crate) mpsc::UnboundedSender<WorkerFrame>);

impl FrameSink for Sink {
    fn send(&self, frame: WorkerFrame) {
        let _ = self.0.send(frame);
    }
}
