//! What the services need of the shell. `life` implements it for the real one, tests for a scripted one.

use std::future::Future;

use dexzd_core::engine::{Answer, Call, CallError, ServerFrame, WorkerFrame};
use dexzd_core::gate::GateView;
use tokio::sync::mpsc;

/// The shell, as the services see it.
pub(crate) trait Backend: Send + Sync + 'static {
    /// One look at the gate, with a clock read now (D-47). Shut also while this process does not serve.
    fn look(&self) -> GateView;

    /// Whether the role is a serving one (HA-64).
    fn is_serving(&self) -> bool;

    /// The name of the role, for people.
    fn role_label(&self) -> &'static str;

    /// `nodeId`.
    fn node_id(&self) -> &str;

    /// One call. Dropping the future tells the engine that the client went away.
    fn call(&self, call: Call) -> impl Future<Output = Result<Answer, CallError>> + Send;

    /// A new Worker stream; `None` while this process does not serve.
    fn open_stream(&self) -> Option<WorkerConnection>;
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
