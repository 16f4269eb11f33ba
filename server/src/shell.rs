//! The node, as the gRPC services see it.

use dexzd_core::engine::{Answer, Call, CallError, ServerFrame, WorkerFrame};
use dexzd_core::gate::GateView;
use dexzd_core::node::{AdminAnswer, AdminError, AdminRequest, Period};
use dexzd_core::time::Instant;
use dexzd_io_tokio::runtime::{NodeHandle, NodeView, WorkerSender};
use tokio::sync::{mpsc, watch};

use crate::grpc::{Backend, FrameSink, View, WorkerConnection};

/// One running node behind all services.
pub(crate) struct Shell {
    node: NodeHandle,
    node_id: String,
    view: watch::Receiver<View>,
}

impl Shell {
    /// Follows the node from now on.
    pub(crate) fn new(node: NodeHandle, node_id: String) -> Self {
        let mut changes = node.view();
        let (shown, view) = watch::channel(streamed(&changes.borrow_and_update()));
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                shown.send_replace(streamed(&changes.borrow_and_update()));
            }
            // Until nobody looks any more: an open health Watch keeps its last status (HA-74).
            shown.closed().await;
        });
        Self { node, node_id, view }
    }
}

/// As streams show it, which change by events only.
fn streamed(view: &NodeView) -> View {
    View { role: view.role, period: view.period, is_hot_standby: view.is_hot }
}

impl Backend for Shell {
    fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    fn present(&self) -> View {
        let view = self.node.view().borrow().clone();
        View { is_hot_standby: view.standing.is_hot(self.now()), ..streamed(&view) }
    }

    fn now(&self) -> Instant {
        self.node.now()
    }

    fn look(&self, opened_in: Period) -> GateView {
        let view = self.node.view();
        let gate = {
            let view = view.borrow();
            (view.is_serving() && view.period.number == opened_in).then(|| view.gate.clone())
        };
        gate.map_or(GateView::Shut, |gate| gate.look())
    }

    fn node_id(&self) -> &str {
        &self.node_id
    }

    async fn call(&self, opened_in: Period, call: Call) -> Result<Answer, CallError> {
        self.node.call(opened_in, call).await
    }

    fn open_stream(&self, opened_in: Period) -> Option<WorkerConnection> {
        let (sender, receiver) = self.node.open_stream(opened_in)?;
        let from_engine: mpsc::UnboundedReceiver<ServerFrame> = receiver.into_frames();
        Some(WorkerConnection { to_engine: Box::new(sender), from_engine })
    }

    async fn admin(&self, opened_in: Period, request: AdminRequest) -> Result<AdminAnswer, AdminError> {
        self.node.admin(opened_in, request).await
    }
}

impl FrameSink for WorkerSender {
    fn send(&self, frame: WorkerFrame) {
        Self::send(self, frame);
    }
}
