//! Frames on their way to the server: whatever is ready travels in one batch.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use dexzd_proto as proto;
use prost::Message as _;
use proto::WorkerFrame;
use proto::worker_frame::Kind;
use tokio::sync::mpsc;
use tokio_stream::Stream;

/// Frames of one batch: enough that a burst costs one message, few enough that encoding one does not
/// hold the others back.
const BATCH_FRAMES: usize = 256;
/// Encoded bytes after which a batch is full: far below the 16 MiB of a gRPC message, to which one
/// frame may add 8 MiB.
const BATCH_BYTES: usize = 1 << 20;

/// Where handlers put their frames. Frames sent after the stream has ended go nowhere.
#[derive(Clone, Debug)]
pub(crate) struct FrameSender(mpsc::UnboundedSender<Option<WorkerFrame>>);

impl FrameSender {
    pub(crate) fn send(&self, kind: Kind) {
        let _ = self.0.send(Some(WorkerFrame { kind: Some(kind) }));
    }

    /// Ends the stream after what was sent before.
    pub(crate) fn finish(&self) {
        let _ = self.0.send(None);
    }
}

/// The outbound half of a Worker stream.
#[derive(Debug)]
pub(crate) struct Batches {
    receiver: mpsc::UnboundedReceiver<Option<WorkerFrame>>,
    received: Vec<Option<WorkerFrame>>,
    pending: VecDeque<WorkerFrame>,
    is_finished: bool,
}

/// A sender, and the stream that it feeds.
pub(crate) fn frame_channel() -> (FrameSender, Batches) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let batches = Batches { receiver, received: Vec::new(), pending: VecDeque::new(), is_finished: false };
    (FrameSender(sender), batches)
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
                    for frame in this.received.drain(..) {
                        match frame {
                            Some(frame) if !this.is_finished => this.pending.push_back(frame),
                            Some(_) => {}
                            None => this.is_finished = true,
                        }
                    }
                }
                Poll::Pending => {}
            }
        }
        match (this.pending.is_empty(), this.is_finished) {
            (false, _) => Poll::Ready(Some(this.take_batch())),
            (true, true) => Poll::Ready(None),
            (true, false) => Poll::Pending,
        }
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
