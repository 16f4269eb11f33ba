//! The thread that applies durable entries to the local store, beside the log's next write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};

use dexzd_core::node::Input as NodeInput;
use dexzd_core::stop::StopReason;

use super::event::{EventSink, ShellEvent};
use super::messages::{ApplyMessage, ControlSender, Sender};
use super::upkeep::UpkeepMessage;
use crate::local::LocalStore;

pub(super) struct Applier {
    pub(super) inbox: Receiver<ApplyMessage>,
    pub(super) control: ControlSender,
    pub(super) upkeep: Sender<UpkeepMessage>,
    pub(super) applied: Arc<AtomicU64>,
    /// Whether the log is synced before it acknowledges.
    pub(super) synced: bool,
    pub(super) events: Arc<dyn EventSink>,
}

impl Applier {
    pub(super) fn run(self) {
        let mut local: Option<Arc<dyn LocalStore>> = None;
        let mut flush_asked = false;
        while let Ok(message) = self.inbox.recv() {
            match message {
                ApplyMessage::Use { local: opened } => local = Some(opened),
                ApplyMessage::Apply { end, changes } => {
                    let local = local.as_ref().expect("the engine writes after the store was opened");
                    if let Err(error) = local.apply(end, &changes) {
                        self.events.shell(&ShellEvent::Failure { detail: error.to_string() });
                        self.control.send(NodeInput::Failed(StopReason::LocalStoreFailed));
                        return;
                    }
                    self.applied.store(end.position.0, Ordering::Release);
                    let wants = local.wants_flush();
                    if wants && !flush_asked {
                        self.ask_for_flush();
                    }
                    flush_asked = wants;
                }
                ApplyMessage::Stop => return,
            }
        }
    }

    /// Where the log is not synced with every entry, nothing is applied between the sync of the log and the
    /// flush that follows it: a crash of the host must not leave a local store that is ahead of its log,
    /// because a trimmed log could not rebuild it.
    fn ask_for_flush(&self) {
        if self.synced {
            self.upkeep.send(UpkeepMessage::Flush { done: None });
            return;
        }
        let (done, over) = mpsc::channel();
        self.upkeep.send(UpkeepMessage::Flush { done: Some(done) });
        // Either way it is over.
        let _ = over.recv();
    }
}
