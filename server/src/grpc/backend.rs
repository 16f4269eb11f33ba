//! What the services need of the shell. `life` implements it for the real one, tests for a scripted one.

use std::future::Future;

use dexzd_core::engine::{Answer, Call, CallError, ServerFrame, WorkerFrame};
use dexzd_core::gate::GateView;
use dexzd_core::node::{AdminAnswer, AdminError, AdminRequest, Period, Role, RolePeriod};
use dexzd_core::time::Instant;
use tokio::sync::{mpsc, watch};

/// What a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct View {
    /// The role.
    pub(crate) role: Role,
    /// The role period, by which connections are judged (D-16).
    pub(crate) period: RolePeriod,
    /// Whether this is a hot standby that follows (HA-65).
    pub(crate) is_hot_standby: bool,
}

/// The shell, as the services see it.
pub(crate) trait Backend: Send + Sync + 'static {
    /// What the process is, and every change of it: by events, never by the mere passing of time.
    fn view(&self) -> watch::Receiver<View>;

    /// What it is now: a look with a clock read now.
    fn present(&self) -> View;

    /// The node's clock, which `RolePeriod::standby_since` is read from.
    fn now(&self) -> Instant;

    /// One look at the gate, with a clock read now (D-47), for a call on a connection that was opened in this
    /// period. Shut also while this process does not serve, and for a connection of an earlier period (D-16).
    fn look(&self, opened_in: Period) -> GateView;

    /// `nodeId`.
    fn node_id(&self) -> &str;

    /// One call on a connection that was opened in this period. Dropping the future tells the engine that the client
    /// went away.
    fn call(&self, opened_in: Period, call: Call) -> impl Future<Output = Result<Answer, CallError>> + Send;

    /// A new Worker stream on such a connection; `None` while this process does not serve.
    fn open_stream(&self, opened_in: Period) -> Option<WorkerConnection>;

    /// One call of `AdminService` on such a connection, arguments checked. Dropping the future ends nothing: a step
    /// down goes on (D-20).
    fn admin(
        &self,
        opened_in: Period,
        request: AdminRequest,
    ) -> impl Future<Output = Result<AdminAnswer, AdminError>> + Send;
}

/// Both directions of one Worker stream.
pub(crate) struct WorkerConnection {
    /// Frames of the Worker; closed or dropped: the stream has ended.
    pub(crate) to_engine: Box<dyn FrameSink>,
    /// Frames of the engine; its end is the end of the stream.
    pub(crate) from_engine: mpsc::UnboundedReceiver<ServerFrame>,
}

/// Takes the frames of one Worker. Dropping it ends the stream.
pub(crate) trait FrameSink: Send + Sync + 'static {
    /// Hands one frame to the engine; after the end of the stream it vanishes.
    fn send(&self, frame: WorkerFrame);
}
