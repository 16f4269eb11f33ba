//! Taking a node apart at its end.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use dexzd_core::stop::StopReason;

use super::handle::Stopped;
use super::messages::{ApplyMessage, ApplySender, DataMessage, DataSender, LogMessage, LogSender, Sender};
use super::recorder::FailureRecorder;
use super::upkeep::UpkeepMessage;
use crate::devlock::DevLock;
use crate::durability::CleanRun;

/// A thread that has not ended after this hangs in the operating system; the process ends without it.
const JOIN_LIMIT: Duration = Duration::from_secs(10);

/// Everything that ends after `node` said so, in order.
pub(super) struct Teardown {
    pub(super) data: (DataSender, Receiver<()>),
    pub(super) apply: (ApplySender, Receiver<()>),
    pub(super) upkeep: (Sender<UpkeepMessage>, Receiver<bool>),
    pub(super) log: (LogSender, Receiver<()>),
    pub(super) clean: CleanRun,
    pub(super) lock: Option<Arc<DevLock>>,
    pub(super) events: Arc<FailureRecorder>,
}

impl Teardown {
    /// Ends all threads, from the one that gives work to those that do it. An end in order leaves
    /// everything on the disk; any other end leaves what is there.
    pub(super) fn run(self, code: u8, reason: StopReason) -> Stopped {
        let in_order = code == 0;
        self.data.0.send(DataMessage::Stop);
        let mut ended = self.data.1.recv_timeout(JOIN_LIMIT).is_ok();
        self.apply.0.send(ApplyMessage::Stop);
        ended &= self.apply.1.recv_timeout(JOIN_LIMIT).is_ok();
        self.upkeep.0.send(UpkeepMessage::Stop { in_order });
        // A last flush of a large local store takes its time.
        let flushed = if in_order {
            self.upkeep.1.recv().unwrap_or(false)
        } else {
            self.upkeep.1.recv_timeout(JOIN_LIMIT).unwrap_or(false)
        };
        self.log.0.send(LogMessage::Stop);
        ended &= self.log.1.recv_timeout(JOIN_LIMIT).is_ok();
        let mut stopped = Stopped { code, reason, detail: self.events.first_failure() };
        if in_order {
            let cleaned = self.clean.finish();
            if !(ended && flushed && cleaned.is_ok()) {
                stopped.code = 1;
                stopped.reason = StopReason::LocalStoreFailed;
            }
        }
        drop(self.lock);
        stopped
    }
}
