//! Frames on their way to the server: whatever is ready travels in one batch.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use dexzd_proto as proto;
use prost::Message as _;
use proto::WorkerFrame;
use proto::worker_frame::{Heartbeat, Kind};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::Stream;

/// Frames of one batch: enough that a burst costs one message, few enough that encoding one does not
/// hold the others back.
const BATCH_FRAMES: usize = 256;
/// Encoded bytes after which a batch is full: far below the 16 MiB of a gRPC message, to which one
/// frame may add 8 MiB.
const BATCH_BYTES: usize = 1 << 20;

/// Where handlers put their frames. Frames sent after the stream has ended go nowhere.
#[derive(Clone, Debug)]
pub(crate) struct FrameSender {
    sender: mpsc::UnboundedSender<Outgoing>,
    last_left: Arc<Mutex<Instant>>,
}

#[expect(clippy::large_enum_variant, reason = "nearly all are frames, and a box for each would cost more")]
#[derive(Debug)]
enum Outgoing {
    Frame(WorkerFrame),
    Heartbeat(Arc<HeartbeatSlot>),
    Finish,
}

/// The heartbeat of one task that has not left yet: a newer one replaces it, so that a handler that sends
/// more of them than the connection carries fills no memory.
#[derive(Debug)]
pub(crate) struct HeartbeatSlot {
    handout: Option<proto::HandoutId>,
    /// Outer None: nothing to send. Inner None: a heartbeat without a checkpoint.
    waiting: Mutex<Option<Option<proto::Value>>>,
}

impl HeartbeatSlot {
    pub(crate) fn new(handout: Option<proto::HandoutId>) -> Self {
        Self { handout, waiting: Mutex::default() }
    }

    /// True: nothing was waiting before.
    fn put(&self, checkpoint: Option<proto::Value>) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).replace(checkpoint).is_none()
    }

    fn take(&self) -> Option<WorkerFrame> {
        let checkpoint = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let kind = Kind::Heartbeat(Heartbeat { handout: self.handout, checkpoint });
        Some(WorkerFrame { kind: Some(kind) })
    }
}

impl FrameSender {
    pub(crate) fn send(&self, kind: Kind) {
        let _ = self.sender.send(Outgoing::Frame(WorkerFrame { kind: Some(kind) }));
    }

    /// Sends a heartbeat, unless an older one of the same task still waits: then it takes its place.
    pub(crate) fn send_heartbeat(&self, slot: &Arc<HeartbeatSlot>, checkpoint: Option<proto::Value>) {
        if slot.put(checkpoint) {
            let _ = self.sender.send(Outgoing::Heartbeat(slot.clone()));
        }
    }

    /// When a batch was last handed to the connection; at first, when the stream began.
    pub(crate) fn last_left(&self) -> Instant {
        *self.last_left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the stream after what was sent before.
    pub(crate) fn finish(&self) {
        let _ = self.sender.send(Outgoing::Finish);
    }
}

/// The outbound half of a Worker stream.
#[derive(Debug)]
pub(crate) struct Batches {
    receiver: mpsc::UnboundedReceiver<Outgoing>,
    received: Vec<Outgoing>,
    pending: VecDeque<WorkerFrame>,
    is_finished: bool,
    last_left: Arc<Mutex<Instant>>,
}

/// A sender, and the stream that it feeds.
pub(crate) fn frame_channel() -> (FrameSender, Batches) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let last_left = Arc::new(Mutex::new(Instant::now()));
    let batches = Batches {
        receiver,
        received: Vec::new(),
        pending: VecDeque::new(),
        is_finished: false,
        last_left: last_left.clone(),
    };
    (FrameSender { sender, last_left }, batches)
}

impl Batches {
    fn take_batch(&mut self) -> proto::WorkerBatch {
        let mut bytes = 0;
        let mut count = 0;
        for frame in &self.pending {
            bytes += frame.encoded_len();
            count += 1;
            if bytes >= BATCH_BYTES || count == BATCH_FRAMES {
                break;
            }
        }
        proto::WorkerBatch { frames: self.pending.drain(..count).collect() }
    }
}

impl Stream for Batches {
    type Item = proto::WorkerBatch;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if !this.is_finished && this.pending.len() < BATCH_FRAMES {
            match this.receiver.poll_recv_many(cx, &mut this.received, BATCH_FRAMES) {
                Poll::Ready(0) => this.is_finished = true,
                Poll::Ready(_) => {
                    for outgoing in this.received.drain(..) {
                        match outgoing {
                            _ if this.is_finished => {}
                            Outgoing::Frame(frame) => this.pending.push_back(frame),
                            Outgoing::Heartbeat(slot) => this.pending.extend(slot.take()),
                            Outgoing::Finish => this.is_finished = true,
                        }
                    }
                }
                Poll::Pending => {}
            }
        }
        match (this.pending.is_empty(), this.is_finished) {
            (false, _) => {
                *this.last_left.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                Poll::Ready(Some(this.take_batch()))
            }
            (true, true) => Poll::Ready(None),
            (true, false) => Poll::Pending,
        }
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
