//! What the server holds: calls, Worker streams, admin calls, what the node is, its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dexzd_core::engine::{Answer, Call, CallError};
use dexzd_core::gate::GateView;
use dexzd_core::ids::{CallId, Name, ProcessId, StreamId};
use dexzd_core::node::{
    AdminAnswer, AdminError, AdminRequest, Health, Input as NodeInput, Period, Role, StandbyGauges,
};
use dexzd_core::stop::StopReason;
use dexzd_core::time::Instant;
use tokio::sync::{mpsc, oneshot, watch};

use super::admin::AdminDesk;
use super::messages::{ControlSender, DataMessage, DataSender};
use super::stream::{WorkerReceiver, WorkerSender};
use super::view::NodeView;
use crate::clock::Clock;
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
    pub(super) view: watch::Receiver<NodeView>,
    pub(super) admin: Arc<AdminDesk>,
    pub(super) clock: Arc<Clock>,
    pub(super) process_id: ProcessId,
    pub(super) stopped: watch::Receiver<Option<Stopped>>,
    pub(super) next_call: AtomicU64,
    pub(super) open_calls: AtomicUsize,
    pub(super) next_stream: AtomicU64,
}

impl NodeHandle {
    /// Asks the engine and waits for the answer, which is durable and was released while the gate was
    /// open (D-47, D-48). Dropping the future ends the call; what it already decided stays decided.
    ///
    /// `opened_in` is the period in which the call's connection was opened: one of an earlier period gets
    /// UNAVAILABLE (D-16).
    ///
    /// # Errors
    ///
    /// [`CallError::Unavailable`] if this process does not serve, or no longer; else what the engine says.
    pub async fn call(&self, opened_in: Period, call: Call) -> Result<Answer, CallError> {
        let gate = self.way_in(opened_in).ok_or(CallError::Unavailable)?;
        if gate.look() == GateView::Shut {
            return Err(CallError::Unavailable);
        }
        let _open = OpenCall::new(&self.shared.open_calls)?;
        let id = CallId(self.shared.next_call.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        self.shared.data.send(DataMessage::Call { id, opened_in, call, reply });
        let mut guard = DropGuard { data: &self.shared.data, id: Some(id) };
        // The sender is dropped if the data plane ends before it answers.
        let answer = answer.await.unwrap_or(Err(CallError::Unavailable));
        guard.id = None;
        if gate.pass().await { answer } else { Err(CallError::Unavailable) }
    }

    /// Opens a Worker stream over a connection of that period. Dropping the sender ends it. `None`: this
    /// process does not serve, or the connection is of an earlier period (D-16).
    #[must_use]
    pub fn open_stream(&self, opened_in: Period) -> Option<(WorkerSender, WorkerReceiver)> {
        let gate = self.way_in(opened_in)?;
        let id = StreamId(self.shared.next_stream.fetch_add(1, Ordering::Relaxed));
        let (frames, receiver) = mpsc::unbounded_channel();
        self.shared.data.send(DataMessage::StreamOpened { id, opened_in, frames });
        Some((WorkerSender::new(id, self.shared.data.clone()), WorkerReceiver::new(receiver, gate)))
    }

    /// A call of `AdminService`, credential and arguments checked (D-20). Dropping the future ends the
    /// call; a step down that was accepted goes on.
    ///
    /// # Errors
    ///
    /// What the node says; UNAVAILABLE with [`AdminReason::Ended`](dexzd_core::node::AdminReason::Ended) if it
    /// ends before it has answered.
    pub async fn admin(&self, opened_in: Period, request: AdminRequest) -> Result<AdminAnswer, AdminError> {
        let Some((call, answer)) = self.shared.admin.open() else {
            return Err(self.shared.admin.unanswered());
        };
        self.shared.control.send(NodeInput::Admin { call, opened_in, request });
        answer.await.unwrap_or_else(|_| Err(self.shared.admin.unanswered()))
    }

    /// What the node is, and every change of it.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<NodeView> {
        self.shared.view.clone()
    }

    /// The role now.
    #[must_use]
    pub fn role(&self) -> Role {
        self.shared.view.borrow().role
    }

    /// The period that a connection belongs to which is accepted now (D-16).
    #[must_use]
    pub fn period(&self) -> Period {
        self.shared.view.borrow().period.number
    }

    /// The gate of the newest tenure. The server asks it once more when it hands an answer to the
    /// transport later than [`call`](Self::call) returned.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.shared.view.borrow().gate.clone()
    }

    /// What a health check answers now (HA-64 to HA-70).
    #[must_use]
    pub fn health(&self) -> Health {
        let view = self.shared.view.borrow().clone();
        view.health(self.now())
    }

    /// `dexzd_hot_standby_state` and `dexzd_hot_standby_lag_seconds` now (HA-82, HA-83), whatever the node's
    /// threads do.
    #[must_use]
    pub fn standby_gauges(&self) -> StandbyGauges {
        let standing = self.shared.view.borrow().standing;
        standing.gauges(self.now())
    }

    /// The holder's clock, which connections are counted by (D-16).
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.clock.now().instant
    }

    /// `holderProcessId` of this process, drawn at its start (D-12).
    #[must_use]
    pub fn process_id(&self) -> ProcessId {
        self.shared.process_id
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

impl NodeHandle {
    /// The gate that answers to a connection of this period must pass, if this process serves it.
    fn way_in(&self, opened_in: Period) -> Option<Gate> {
        let view = self.shared.view.borrow();
        (view.is_serving() && view.period.number == opened_in).then(|| view.gate.clone())
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
