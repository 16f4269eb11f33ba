//! What the threads say to one another. Every channel has one receiver, which drains it in bulk.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc as std_mpsc;

use dexzd_core::engine::{Answer, Call, CallError, Change, NodeOrder, ServerFrame, WorkerFrame};
use dexzd_core::ids::{Blob, CallId, Position, RequestId, StreamId};
use dexzd_core::log::{ListOutcome, LogEnd, ReadEnd};
use dexzd_core::node::{FollowOrder, Input as NodeInput, OpenLog, Period};
use dexzd_core::store::{ReadOutcome, WriteOutcome};
use dexzd_core::time::Instant;
use tokio::sync::{mpsc, oneshot};

use super::local_opener::{Replaced, Replacement};

/// To the data plane.
pub(super) enum DataMessage {
    /// A client asks, over a connection of that period.
    Call { id: CallId, opened_in: Period, call: Call, reply: oneshot::Sender<Result<Answer, CallError>> },
    /// It went away.
    CallDropped { id: CallId },
    /// A Worker's stream begins, over a connection of that period.
    StreamOpened { id: StreamId, opened_in: Period, frames: mpsc::UnboundedSender<ServerFrame> },
    /// A Worker says something.
    Frame { stream: StreamId, frame: WorkerFrame },
    /// A Worker's stream ended.
    StreamClosed { stream: StreamId },
    /// The log answers.
    Log { asker: Asker, answer: LogAnswer },
    /// The local store has applied what the start or the follower gave out.
    Applied { asker: Asker, position: Position },
    /// The local store is open, or what was wrong with it.
    LocalStoreOpened(Replaced),
    /// The local store is closed: nobody uses it any more (HA-104).
    LocalStoreClosed,
    /// `node` wants the log opened: a tenure begins.
    OpenLog(Tenure),
    /// `node` has confirmed the lease after the fence.
    BuildEngine,
    /// `node` orders the engine.
    Order(NodeOrder),
    /// `node` orders the follower.
    Follow(FollowOrder),
    /// The process ends.
    Stop,
}

/// What a tenure begins with. Nothing of an earlier one is used again.
pub(super) struct Tenure {
    pub(super) open: OpenLog,
    /// Its role period (D-16).
    pub(super) period: Period,
    /// The newest durable position, for the control plane, which reads it when it looks (D-53).
    pub(super) durable: Arc<AtomicU64>,
}

/// Who asked. Every machine of the data plane has a number of its own: an answer to an earlier one is for
/// nobody, although request numbers begin anew with each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Asker(pub(super) u64);

/// How a request to the log ended.
pub(super) enum LogAnswer {
    Range { request: RequestId, entries: Vec<Blob>, then: ReadEnd },
    Listed { request: RequestId, outcome: ListOutcome },
    Written { request: RequestId, outcome: WriteOutcome },
    Read { request: RequestId, outcome: ReadOutcome },
}

/// To the log thread.
pub(super) enum LogMessage {
    /// Of the start and of the follower.
    ReadRange { asker: Asker, request: RequestId, from: Position, at_most: u32, at_most_bytes: u64 },
    /// Of the start and of the follower.
    List { asker: Asker, request: RequestId, after: Position },
    /// Of the start and of the engine.
    Write { asker: Asker, request: RequestId, position: Position, entry: Blob },
    /// Of the engine.
    Read { asker: Asker, request: RequestId, position: Position },
    /// A tenure begins: what it writes is kept apart from what was there (D-45).
    BeginEpoch,
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

/// To the thread of the local store, which opens it, and applies entries to it in their order.
pub(super) enum ApplyMessage {
    /// Open it; `LocalStoreOpened` answers.
    Open,
    /// Put another one in its place, which is closed; `LocalStoreOpened` answers.
    Replace(Replacement),
    /// Of the start and of the follower; `Applied` answers.
    ApplyRange { asker: Asker, end: LogEnd, changes: Vec<Change> },
    /// The fence is applied and the engine's entries follow; the newest position applied goes here.
    Serve { applied: Arc<AtomicU64>, open: OpenLog, fence: LogEnd },
    /// For the keeper of snapshots: the lease carries this bound (D-30).
    TrimmedBelow { position: Position },
    /// For the keeper of snapshots: a lease write that was sent then has landed (D-46).
    LeaseWritten { sent_at: Instant },
    /// An entry of the engine is in the log.
    Apply { end: LogEnd, changes: Vec<Change> },
    /// What was sent before is applied: use the store no longer. In order: it is made durable first.
    LetGo { in_order: bool },
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
