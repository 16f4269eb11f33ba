//! Calls of `AdminService` on their way to the control plane and back.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use dexzd_core::ids::CallId;
use dexzd_core::node::{AdminAnswer, AdminCode, AdminError, AdminReason};
use dexzd_core::stop::StopReason;
use tokio::sync::oneshot;

/// What a call gets.
pub(super) type AdminResult = Result<AdminAnswer, AdminError>;

/// Who waits for an answer. Each gets exactly one: the node's, or UNAVAILABLE when the node ends first.
#[derive(Default)]
pub(super) struct AdminDesk {
    state: Mutex<Desk>,
}

#[derive(Default)]
struct Desk {
    next: u64,
    waiting: HashMap<CallId, oneshot::Sender<AdminResult>>,
    /// The node has ended, for this reason.
    ended: Option<StopReason>,
}

impl AdminDesk {
    /// A call that the node is about to be told of. None: there is no node any more to answer it.
    pub(super) fn open(&self) -> Option<(CallId, oneshot::Receiver<AdminResult>)> {
        let mut desk = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if desk.ended.is_some() {
            return None;
        }
        desk.next += 1;
        let call = CallId(desk.next);
        let (sender, receiver) = oneshot::channel();
        desk.waiting.insert(call, sender);
        Some((call, receiver))
    }

    /// The node's answer. A caller that has gone changes nothing (D-20).
    pub(super) fn answer(&self, call: CallId, answer: AdminResult) {
        let mut desk = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = desk.waiting.remove(&call) {
            let _ = waiting.send(answer);
        }
    }

    /// The node has ended: whoever still waits waits for nothing.
    pub(super) fn close(&self, reason: StopReason) {
        let mut desk = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        desk.ended.get_or_insert(reason);
        desk.waiting.clear();
    }

    /// What a call gets that nobody answers.
    pub(super) fn unanswered(&self) -> AdminError {
        let desk = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Without an end that was told, the control plane panicked.
        let reason = AdminReason::Ended(desk.ended.unwrap_or(StopReason::Internal));
        AdminError { code: AdminCode::Unavailable, reason }
    }
}
