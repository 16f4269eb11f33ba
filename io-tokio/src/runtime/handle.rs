//! What the server holds: calls, Worker streams, the gate, the role, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dexzd_core::engine::{Answer, Call, CallError};
use dexzd_core::gate::GateView;
use dexzd_core::ids::{CallId, Name, StreamId};
use dexzd_core::node::{Input as NodeInput, Role};
use dexzd_core::stop::StopReason;
use tokio::sync::{mpsc, oneshot, watch};

use super::messages::{ControlSender, DataMessage, DataSender};
use super::stream::{WorkerReceiver, WorkerSender};
use crate::gate::Gate;

/// Calls that wait for their answers at the same time, long polls included: enough for every client of a
/// node, and a bound on what a flood of them takes. One more gets RESOURCE_EXHAUSTED.
pub const OPEN_CALLS: usize = 100_000;

/// How the node ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// The exit status (HA-34).
    pub code: u8,
    /// Why (D-32).
    pub reason: StopReason,
    /// What exactly, where more is known.
    pub detail: Option<String>,
}

/// One running node. A clone is the same node.
#[derive(Clone)]
pub struct NodeHandle {
    pub(super) shared: Arc<HandleShared>,
}

pub(super) struct HandleShared {
    pub(super) data: DataSender,
    pub(super) control: ControlSender,
    pub(super) role: watch::Receiver<Role>,
    pub(super) gate: watch::Receiver<Gate>,
    pub(super) stopped: watch::Receiver<Option<Stopped>>,
    pub(super) next_call: AtomicU64,
    pub(super) open_calls: AtomicUsize,
    pub(super) next_stream: AtomicU64,
}

impl NodeHandle {
    /// Asks the engine and waits for the answer, which is durable and was released while the gate was
    /// open (D-47, D-48). Dropping the future ends the call; what it already decided stays decided.
    ///
    /// # Errors
    ///
    /// [`CallError::Unavailable`] if this process does not serve, or no longer; else what the engine says.
    pub async fn call(&self, call: Call) -> Result<Answer, CallError> {
        let gate = self.gate();
        if !self.role().borrow().is_serving() || gate.look() == GateView::Shut {
            return Err(CallError::Unavailable);
        }
        let _open = OpenCall::new(&self.shared.open_calls)?;
        let id = CallId(self.shared.next_call.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        self.shared.data.send(DataMessage::Call { id, call, reply });
        let mut guard = DropGuard { data: &self.shared.data, id: Some(id) };
        // The sender is dropped if the data plane ends before it answers.
        let answer = answer.await.unwrap_or(Err(CallError::Unavailable));
        guard.id = None;
        if gate.pass().await { answer } else { Err(CallError::Unavailable) }
    }

    /// Opens a Worker stream. Dropping the sender ends it.
    #[must_use]
    pub fn open_stream(&self) -> (WorkerSender, WorkerReceiver) {
        let id = StreamId(self.shared.next_stream.fetch_add(1, Ordering::Relaxed));
        let (frames, receiver) = mpsc::unbounded_channel();
        self.shared.data.send(DataMessage::StreamOpened { id, frames });
        (WorkerSender::new(id, self.shared.data.clone()), WorkerReceiver::new(receiver, self.gate()))
    }

    /// The gate of the newest epoch. The server asks it once more when it hands an answer to the
    /// transport later than [`call`](Self::call) returned.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.shared.gate.borrow().clone()
    }

    /// The role, and every change of it.
    #[must_use]
    pub fn role(&self) -> watch::Receiver<Role> {
        self.shared.role.clone()
    }

    /// SIGTERM: drain, commit, release, end (HA-16, D-29). Returns at once.
    pub fn shutdown(&self) {
        self.shared.control.send(NodeInput::Terminate);
    }

    /// Waits for the end. By then the data directory is free, the log and the local store are closed.
    pub async fn stopped(&self) -> Stopped {
        let mut stopped = self.shared.stopped.clone();
        match stopped.wait_for(Option::is_some).await {
            Ok(end) => end.clone().expect("waited until it is there"),
            // The control plane sends the end before it goes; without it, it panicked.
            Err(_) => Stopped {
                code: 1,
                reason: StopReason::Internal,
                detail: Some("the control plane panicked".to_owned()),
            },
        }
    }
}

/// Counts a call for as long as it is open.
struct OpenCall<'a>(&'a AtomicUsize);

impl<'a> OpenCall<'a> {
    fn new(count: &'a AtomicUsize) -> Result<Self, CallError> {
        let open = Self(count);
        if count.fetch_add(1, Ordering::Relaxed) < OPEN_CALLS {
            return Ok(open);
        }
        Err(CallError::LimitExceeded { limit: Name::from(format!("{OPEN_CALLS} open calls of one node")) })
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the engine that the client of a call went away.
struct DropGuard<'a> {
    data: &'a DataSender,
    id: Option<CallId>,
}

impl Drop for DropGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.data.send(DataMessage::CallDropped { id });
        }
    }
}
