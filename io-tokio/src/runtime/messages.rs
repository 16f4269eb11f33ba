//! What the threads say to one another. Every channel has one receiver, which drains it in bulk.

use std::sync::Arc;
use std::sync::mpsc as std_mpsc;

use dexzd_core::engine::{Answer, Call, CallError, Change, NodeOrder, ServerFrame, WorkerFrame};
use dexzd_core::ids::{Blob, CallId, Position, RequestId, StreamId};
use dexzd_core::log::{AppenderInput, LogEnd, StartupInput};
use dexzd_core::node::{FollowOrder, Input as NodeInput, OpenLog, Period};
use tokio::sync::{mpsc, oneshot};

use crate::local::LocalStore;

/// To the data plane.
pub(super) enum DataMessage {
    /// A client asks.
    Call { id: CallId, opened_in: Period, call: Call, reply: oneshot::Sender<Result<Answer, CallError>> },
    /// It went away.
    CallDropped { id: CallId },
    /// A Worker's stream begins.
    StreamOpened { id: StreamId, opened_in: Period, frames: mpsc::UnboundedSender<ServerFrame> },
    /// A Worker says something.
    Frame { stream: StreamId, frame: WorkerFrame },
    /// A Worker's stream ended.
    StreamClosed { stream: StreamId },
    /// The log answers the engine.
    Log(AppenderInput),
    /// The log or the local store answers during the start.
    Startup(StartupInput),
    /// The local store is open.
    LocalStoreOpened { local: Arc<dyn LocalStore> },
    /// `node` wants the log opened, in this period.
    OpenLog { open: OpenLog, period: Period },
    /// `node` orders the follower.
    Follow(FollowOrder),
    /// `node` has confirmed the lease after the fence.
    BuildEngine,
    /// `node` orders.
    Order(NodeOrder),
    /// The process ends.
    Stop,
}

/// To the log thread.
pub(super) enum LogMessage {
    /// Open the local store; `LocalStoreOpened` answers.
    OpenLocalStore,
    /// Of the start.
    ReadRange { request: RequestId, from: Position, at_most: u32, at_most_bytes: u64 },
    /// Of the start.
    List { request: RequestId, after: Position },
    /// Of the start.
    WriteFence { request: RequestId, position: Position, entry: Blob },
    /// Of the start.
    ApplyRange { end: LogEnd, changes: Vec<Change> },
    /// Of the start.
    ReplaceLocalStore,
    /// Of the engine.
    Write { request: RequestId, position: Position, entry: Blob },
    /// Of the engine.
    Read { request: RequestId, position: Position },
    /// Of `node` (D-49).
    Survey { request: RequestId },
    /// Whether the log has this very entry (D-43); the upkeep asks.
    Check { end: LogEnd, answer: std_mpsc::Sender<bool> },
    /// Make durable what the mode leaves to the operating system; the upkeep and the end ask.
    Sync { answer: std_mpsc::Sender<bool> },
    /// The lease carries this bound (D-30).
    TrimBelow { position: Position },
    /// The process ends.
    Stop,
}

/// To the thread that applies entries to the local store.
pub(super) enum ApplyMessage {
    /// The local store of this epoch.
    Use { local: Arc<dyn LocalStore> },
    /// An entry is in the log.
    Apply { end: LogEnd, changes: Vec<Change> },
    /// The process ends; what was sent before is applied.
    Stop,
}

/// The sending half of a thread's channel. What is sent after the thread's end vanishes: whoever waits
/// for an answer sees that its sender is gone.
pub(super) struct Sender<T>(std_mpsc::Sender<T>);

impl<T> Sender<T> {
    pub(super) fn send(&self, message: T) {
        let _ = self.0.send(message);
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

pub(super) fn channel<T>() -> (Sender<T>, std_mpsc::Receiver<T>) {
    let (sender, receiver) = std_mpsc::channel();
    (Sender(sender), receiver)
}

pub(super) type DataSender = Sender<DataMessage>;
pub(super) type ControlSender = Sender<NodeInput>;
pub(super) type LogSender = Sender<LogMessage>;
pub(super) type ApplySender = Sender<ApplyMessage>;
