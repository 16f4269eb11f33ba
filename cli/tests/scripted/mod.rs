//! A server with an `AdminService` that gives prepared answers, in a runtime of its own.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use dexzd_proto as proto;
use proto::admin_service_server::{AdminService, AdminServiceServer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server as TonicServer;
use tonic::{Request, Response, Status};

/// What the next call gets.
pub(crate) enum Reply {
    Described(Result<proto::NodeDescription, Status>),
    SteppedDown(Result<proto::StepDownResponse, Status>),
    /// No answer.
    Never,
}

/// A call that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Describe,
    StepDown { node_id: String, epoch: u64 },
}

pub(crate) struct Server {
    runtime: Runtime,
    address: SocketAddr,
    asked: Receiver<Asked>,
    connections: Arc<AtomicUsize>,
    credentials: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Gives these replies, in this order; a call more is a fault.
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::run(Some(replies.into_iter().collect()))
    }

    /// A server of before `AdminService`.
    pub(crate) fn without_admin_service() -> Self {
        Self::run(None)
    }

    fn run(replies: Option<VecDeque<Reply>>) -> Self {
        let runtime = Runtime::new().expect("threads");
        let listener = StdListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        listener.set_nonblocking(true).expect("a socket");
        let (tell, asked) = channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let credentials = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&credentials);
        runtime.spawn(async move {
            let incoming = TcpListenerStream::new(TcpListener::from_std(listener).expect("a socket"));
            let incoming = incoming.map(move |connection| {
                counted.fetch_add(1, Ordering::SeqCst);
                connection
            });
            let (_, health) = tonic_health::server::health_reporter();
            let router = TonicServer::builder().add_service(health);
            match replies {
                Some(replies) => {
                    let admin =
                        Scripted { replies: Mutex::new(replies), tell: Mutex::new(tell), credentials: noted };
                    router.add_service(AdminServiceServer::new(admin)).serve_with_incoming(incoming).await
                }
                None => router.serve_with_incoming(incoming).await,
            }
        });
        Self { runtime, address, asked, connections, credentials }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// All calls that arrived and were not looked at yet.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.try_iter().collect()
    }

    /// Waits for the next call.
    pub(crate) fn next_asked(&self) -> Asked {
        self.asked.recv().expect("the server runs")
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The header `authorization` of every call that had one.
    pub(crate) fn credentials(&self) -> Vec<String> {
        self.credentials.lock().expect("no test panics here").clone()
    }

    /// Ends in the middle of everything: connections break.
    pub(crate) fn cut(self) {
        self.runtime.shutdown_background();
    }
}

struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    tell: Mutex<Sender<Asked>>,
    credentials: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    fn note_credential<T>(&self, request: &Request<T>) {
        if let Some(value) = request.metadata().get("authorization") {
            let value = value.to_str().expect("visible ASCII").to_owned();
            self.credentials.lock().expect("no test panics here").push(value);
        }
    }

    fn next(&self, asked: Asked) -> Reply {
        let reply = self.replies.lock().expect("no test panics here").pop_front();
        let reply = reply.unwrap_or_else(|| panic!("no reply is prepared for {asked:?}"));
        let _ = self.tell.lock().expect("no test panics here").send(asked);
        reply
    }
}

#[tonic::async_trait]
impl AdminService for Scripted {
    async fn describe(
        &self,
        request: Request<proto::DescribeNodeRequest>,
    ) -> Result<Response<proto::NodeDescription>, Status> {
        self.note_credential(&request);
        match self.next(Asked::Describe) {
            Reply::Described(answer) => answer.map(Response::new),
            Reply::Never => std::future::pending().await,
            Reply::SteppedDown(_) => panic!("the test prepared the answer of a step down"),
        }
    }

    async fn step_down(
        &self,
        request: Request<proto::StepDownRequest>,
    ) -> Result<Response<proto::StepDownResponse>, Status> {
        self.note_credential(&request);
        let request = request.into_inner();
        let asked = Asked::StepDown { node_id: request.expected_node_id, epoch: request.expected_node_epoch };
        match self.next(asked) {
            Reply::SteppedDown(answer) => answer.map(Response::new),
            Reply::Never => std::future::pending().await,
            Reply::Described(_) => panic!("the test prepared the answer of a describe"),
        }
    }
}
