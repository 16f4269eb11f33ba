//! The two halves of one Worker stream, as the server sees them.

use std::mem;

use dexzd_core::engine::{ServerFrame, WorkerFrame};
use dexzd_core::ids::StreamId;
use tokio::sync::mpsc;

use super::messages::{DataMessage, DataSender};
use crate::gate::Gate;

/// So many frames leave in one batch: enough that waking up costs little, and no batch is huge.
const BATCH_FRAMES: usize = 256;

/// What a Worker says goes in here. Dropping it ends the stream (`StreamClosed`).
pub struct WorkerSender {
    id: StreamId,
    data: DataSender,
}

impl WorkerSender {
    pub(super) const fn new(id: StreamId, data: DataSender) -> Self {
        Self { id, data }
    }

    /// Hands a frame to the engine.
    pub fn send(&self, frame: WorkerFrame) {
        self.data.send(DataMessage::Frame { stream: self.id, frame });
    }
}

impl Drop for WorkerSender {
    fn drop(&mut self) {
        self.data.send(DataMessage::StreamClosed { stream: self.id });
    }
}

/// What goes to a Worker comes out here.
pub struct WorkerReceiver {
    frames: mpsc::UnboundedReceiver<ServerFrame>,
    /// Received, and not handed out yet.
    waiting: Vec<ServerFrame>,
    gate: Gate,
}

impl WorkerReceiver {
    pub(super) const fn new(frames: mpsc::UnboundedReceiver<ServerFrame>, gate: Gate) -> Self {
        Self { frames, waiting: Vec::new(), gate }
    }

    /// The frames themselves, for a transport that looks at the gate on its own when it yields a batch:
    /// a task that left the engine must be held while the lease is in doubt, and not be dropped.
    #[must_use]
    pub fn into_frames(self) -> mpsc::UnboundedReceiver<ServerFrame> {
        self.frames
    }

    /// The next frames, all that are ready. None: the stream is over.
    ///
    /// Tasks leave only while the gate is open, by a clock read here (HA-72, D-47); pings and frames of
    /// running tasks flow on (HA-73). May be dropped and called again without losing a frame.
    pub async fn recv(&mut self) -> Option<Vec<ServerFrame>> {
        loop {
            if self.waiting.is_empty() && self.frames.recv_many(&mut self.waiting, BATCH_FRAMES).await == 0 {
                return None;
            }
            // Frames keep their order, so what stands behind a task that is held waits with it.
            if self.waiting.iter().any(is_task) && !self.gate.pass().await {
                // Behind a shut gate a task is withheld for good: the next epoch's recovery knows of it.
                self.waiting.retain(|frame| !is_task(frame));
            }
            if !self.waiting.is_empty() {
                return Some(mem::take(&mut self.waiting));
            }
        }
    }
}

const fn is_task(frame: &ServerFrame) -> bool {
    match frame {
        ServerFrame::Task(_) => true,
        ServerFrame::Cancel { .. }
        | ServerFrame::Settled { .. }
        | ServerFrame::Ping
        | ServerFrame::Refused { .. } => false,
    }
}
