//! `dex.WorkerTaskService`: one engine stream per gRPC stream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use dexzd_core::engine::ServerFrame;
use dexzd_core::gate::GateView;
use dexzd_core::ids::Name;
use dexzd_core::node::Period;
use dexzd_proto as proto;
use prost::Message as _;
use proto::worker_task_service_server::WorkerTaskService;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::Backend;
use super::backend::{FrameSink, WorkerConnection};
use super::status::{refused_stream, unavailable};
use crate::connections::ConnectionInfo;
use crate::convert;

/// Frames gathered into one message: a burst costs one message, a quiet stream waits for nobody.
const BATCH_FRAMES: usize = 256;
/// A batch takes no further frame above this, far below the limit of a message.
const BATCH_BYTES: usize = 1 << 20;
/// How often a held task looks at the gate while the lease is in doubt.
const DOUBT_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The service of Workers.
pub(super) struct Workers<B> {
    backend: Arc<B>,
}

impl<B: Backend> Workers<B> {
    pub(super) const fn new(backend: Arc<B>) -> Self {
        Self { backend }
    }
}

#[tonic::async_trait]
impl<B: Backend> WorkerTaskService for Workers<B> {
    type PollWorkerTaskStream = TaskStream<B>;

    async fn poll_worker_task(
        &self,
        request: Request<Streaming<proto::WorkerBatch>>,
    ) -> Result<Response<TaskStream<B>>, Status> {
        let opened_in = ConnectionInfo::of(&request).opened_in;
        if self.backend.look(opened_in) == GateView::Shut {
            return Err(unavailable());
        }
        let WorkerConnection { to_engine, from_engine } =
            self.backend.open_stream(opened_in).ok_or_else(unavailable)?;
        let (malformed, fault) = oneshot::channel();
        let reader = tokio::spawn(read(request.into_inner(), to_engine, malformed));
        Ok(Response::new(TaskStream {
            backend: Arc::clone(&self.backend),
            opened_in,
            from_engine,
            waiting: VecDeque::new(),
            fault: Some(fault),
            doubt: None,
            refusal: None,
            ended: false,
            reader: AbortOnDrop(reader),
        }))
    }
}

/// Hands the Worker's frames to the engine until either side ends the stream. The drop of `to_engine`
/// tells the engine.
async fn read(
    mut batches: Streaming<proto::WorkerBatch>,
    to_engine: Box<dyn FrameSink>,
    malformed: oneshot::Sender<Refusal>,
) {
    loop {
        let batch = match batches.message().await {
            Ok(Some(batch)) => batch,
            // The Worker has closed its side, or the connection is gone.
            Ok(None) => return,
            Err(status) => {
                // Bytes that are no message, or one above the limit: said to the Worker, where it still listens.
                let too_large = status.code() == Code::OutOfRange;
                let code = if too_large { Code::ResourceExhausted } else { Code::InvalidArgument };
                let _ = malformed.send(Refusal { code, message: Name::new(status.message()) });
                return;
            }
        };
        for (index, frame) in batch.frames.into_iter().enumerate() {
            match convert::worker_frame(index, frame) {
                Ok(frame) => to_engine.send(frame),
                Err(invalid) => {
                    let message = Name::from(invalid.to_string());
                    let _ = malformed.send(Refusal { code: Code::InvalidArgument, message });
                    return;
                }
            }
        }
    }
}

/// What a Worker said that ends its stream.
struct Refusal {
    code: Code,
    message: Name,
}

/// Ends the reading half together with the writing half.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The engine's frames as batches. The gate is compared when a batch is yielded (D-47): behind a shut
/// gate tasks are withheld for good (HA-72), everything about running ones still flows (HA-73).
pub(super) struct TaskStream<B> {
    backend: Arc<B>,
    opened_in: Period,
    from_engine: mpsc::UnboundedReceiver<ServerFrame>,
    /// Received and not yet yielded.
    waiting: VecDeque<ServerFrame>,
    /// Says what was malformed, if the Worker's side ended for that.
    fault: Option<oneshot::Receiver<Refusal>>,
    /// Running while a task is held because the lease is in doubt.
    doubt: Option<Pin<Box<Sleep>>>,
    /// Why the stream ends with an error.
    refusal: Option<Refusal>,
    ended: bool,
    #[expect(dead_code, reason = "held for its drop")]
    reader: AbortOnDrop,
}

impl<B: Backend> TaskStream<B> {
    /// Everything that is there, up to a batch.
    fn receive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(fault) = &mut self.fault
            && let Poll::Ready(refusal) = Pin::new(fault).poll(context)
        {
            self.fault = None;
            if let Ok(refusal) = refusal {
                self.from_engine.close();
                self.waiting.push_back(ServerFrame::Refused { message: refusal.message.clone() });
                self.refusal = Some(refusal);
                self.ended = true;
            }
        }
        while !self.ended && self.waiting.len() < BATCH_FRAMES {
            match self.from_engine.poll_recv(context) {
                Poll::Ready(Some(frame)) => self.waiting.push_back(frame),
                Poll::Ready(None) => self.ended = true,
                Poll::Pending => break,
            }
        }
        if self.waiting.is_empty() && !self.ended { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Withholds tasks that must not leave; pending while that is open.
    fn pass_gate(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_task = |frame: &ServerFrame| match frame {
            ServerFrame::Task(_) => true,
            ServerFrame::Cancel { .. }
            | ServerFrame::Settled { .. }
            | ServerFrame::Ping
            | ServerFrame::Refused { .. } => false,
        };
        if !self.waiting.iter().any(is_task) {
            return Poll::Ready(());
        }
        loop {
            match self.backend.look(self.opened_in) {
                GateView::Open => {
                    self.doubt = None;
                    return Poll::Ready(());
                }
                GateView::Shut => {
                    self.doubt = None;
                    self.waiting.retain(|frame| !is_task(frame));
                    return Poll::Ready(());
                }
                GateView::Doubt => {
                    let sleep =
                        self.doubt.get_or_insert_with(|| Box::pin(tokio::time::sleep(DOUBT_LOOK_INTERVAL)));
                    ready!(sleep.as_mut().poll(context));
                    self.doubt = None;
                }
            }
        }
    }

    fn batch(&mut self) -> proto::ServerBatch {
        let mut frames = Vec::with_capacity(self.waiting.len());
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && let Some(frame) = self.waiting.pop_front()
        {
            if let ServerFrame::Refused { message } = &frame
                && self.refusal.is_none()
            {
                self.refusal = Some(Refusal { code: Code::InvalidArgument, message: message.clone() });
            }
            let frame = convert::server_frame(&frame);
            bytes += frame.encoded_len();
            frames.push(frame);
        }
        proto::ServerBatch { frames }
    }
}

impl<B: Backend> Stream for TaskStream<B> {
    type Item = Result<proto::ServerBatch, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            ready!(self.receive(context));
            if self.waiting.is_empty() {
                // Only an ended stream comes here with nothing in hand.
                return Poll::Ready(
                    self.refusal.take().map(|refusal| Err(refused_stream(refusal.code, &refusal.message))),
                );
            }
            ready!(self.pass_gate(context));
            let batch = self.batch();
            if !batch.frames.is_empty() {
                return Poll::Ready(Some(Ok(batch)));
            }
        }
    }
}
