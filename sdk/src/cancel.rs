//! How a running handler learns that nobody wants its result any more.

use std::sync::atomic::{AtomicU8, Ordering};

use dexzd_proto as proto;
use tokio::sync::Notify;

/// Why a handler is asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CancelReason {
    /// The Flow was closed or is closing.
    FlowClosed,
    /// Another Step cancelled this one.
    StepCancelled,
    /// The server counts the attempt as failed: its time or its heartbeat ran out.
    TimedOut,
    /// The server stops and its drain is over. A result that arrives within 5 s still counts.
    ServerStopping,
    /// The stream to the server ended. The attempt has failed; its result has nowhere to go (FD-9).
    StreamLost,
    /// This Worker stops and its drain is over. A result that arrives within 5 s still counts.
    WorkerStopping,
}

impl CancelReason {
    const ALL: [Self; 6] = [
        Self::FlowClosed,
        Self::StepCancelled,
        Self::TimedOut,
        Self::ServerStopping,
        Self::StreamLost,
        Self::WorkerStopping,
    ];

    /// Whether a result that still comes is worth sending.
    pub(crate) fn accepts_result(self) -> bool {
        match self {
            Self::ServerStopping | Self::WorkerStopping => true,
            Self::FlowClosed | Self::StepCancelled | Self::TimedOut | Self::StreamLost => false,
        }
    }

    /// Whether the handler is dropped if it has not ended some time after the request: it holds one of
    /// the slots that the server takes for free. After a lost stream it may go on until its deadline.
    pub(crate) fn is_forced(self) -> bool {
        match self {
            Self::FlowClosed | Self::StepCancelled | Self::TimedOut => true,
            Self::ServerStopping | Self::StreamLost | Self::WorkerStopping => false,
        }
    }
}

impl From<proto::CancelReason> for CancelReason {
    fn from(reason: proto::CancelReason) -> Self {
        match reason {
            proto::CancelReason::FlowClosed => Self::FlowClosed,
            proto::CancelReason::TimedOut => Self::TimedOut,
            proto::CancelReason::DrainOver => Self::ServerStopping,
            proto::CancelReason::StepCancelled | proto::CancelReason::Unspecified => Self::StepCancelled,
        }
    }
}

/// One cancellation request: set once, the first reason stays.
#[derive(Default, Debug)]
pub(crate) struct Cancellation {
    /// 0: not cancelled; else an index into `CancelReason::ALL`, plus 1.
    state: AtomicU8,
    notify: Notify,
}

impl Cancellation {
    pub(crate) fn cancel(&self, reason: CancelReason) {
        let state = CancelReason::ALL.iter().position(|each| *each == reason);
        let state = state.expect("ALL lists every reason") as u8 + 1;
        // A reason that still accepts results may be followed by one that does not.
        let accepts = |state: u8| state == 0 || CancelReason::ALL[usize::from(state) - 1].accepts_result();
        let _ =
            self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| accepts(old).then_some(state));
        self.notify.notify_waiters();
    }

    pub(crate) fn reason(&self) -> Option<CancelReason> {
        match self.state.load(Ordering::Acquire) {
            0 => None,
            state => Some(CancelReason::ALL[usize::from(state) - 1]),
        }
    }

    pub(crate) fn accepts_result(&self) -> bool {
        self.reason().is_none_or(CancelReason::accepts_result)
    }

    /// Ends once `wanted` holds for the reason.
    async fn cancelled_for(&self, wanted: impl Fn(CancelReason) -> bool) -> CancelReason {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            // Listen first, look second: a cancellation in between is not missed.
            notified.as_mut().enable();
            if let Some(reason) = self.reason().filter(|reason| wanted(*reason)) {
                return reason;
            }
            notified.await;
        }
    }

    pub(crate) async fn cancelled(&self) -> CancelReason {
        self.cancelled_for(|_| true).await
    }

    pub(crate) async fn forced(&self) -> CancelReason {
        self.cancelled_for(CancelReason::is_forced).await
    }
}
