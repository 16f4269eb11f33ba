//! What the threads say to one another. Every channel has one receiver, which drains it in bulk.

use std::sync::mpsc as std_mpsc;

use dexzd_core::engine::{Answer, Call, CallError, NodeOrder, ServerFrame, WorkerFrame};
use dexzd_core::ids::{CallId, Epoch, StreamId};
use dexzd_core::node::{Input as NodeInput, OpenLog};
use tokio::sync::{mpsc, oneshot};

/// To the data plane.
pub(super) enum DataMessage {
    /// A client asks.
    Call { id: CallId, call: Call, reply: oneshot::Sender<Result<Answer, CallError>> },
    /// It went away.
    CallDropped { id: CallId },
    /// A Worker's stream begins.
    StreamOpened { id: StreamId, frames: mpsc::UnboundedSender<ServerFrame> },
    /// A Worker says something.
    Frame { stream: StreamId, frame: WorkerFrame },
    /// A Worker's stream ended.
    StreamClosed { stream: StreamId },
    /// `node` wants the log opened.
    OpenLog(OpenLog),
    /// `node` has confirmed the lease after the fence.
    BuildEngine { epoch: Epoch },
    /// `node` orders.
    Order(NodeOrder),
}

/// Sends to the data plane. What is sent after its end vanishes: whoever waits for an answer sees the
/// dropped sender.
#[derive(Clone)]
pub(super) struct DataSender(pub(super) std_mpsc::Sender<DataMessage>);

impl DataSender {
    pub(super) fn send(&self, message: DataMessage) {
        let _ = self.0.send(message);
    }
}

/// Sends to the control plane.
#[derive(Clone)]
pub(super) struct ControlSender(pub(super) std_mpsc::Sender<NodeInput>);

impl ControlSender {
    pub(super) fn send(&self, input: NodeInput) {
        let _ = self.0.send(input);
    }
}
