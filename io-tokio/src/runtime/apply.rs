//! The thread of the local store: opens it, and applies entries to it in their order, beside the log's next
//! read or write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use dexzd_core::engine::Change;
use dexzd_core::log::LogEnd;
use dexzd_core::node::{Input as NodeInput, OpenLog};
use dexzd_core::stop::StopReason;

use super::event::{EventSink, ShellEvent};
use super::local_opener::{LocalOpener, Replaced};
use super::messages::{ApplyMessage, ControlSender, DataMessage, DataSender, Sender};
use super::tracked::TrackedStore;
use super::upkeep::UpkeepMessage;
use crate::local::LocalStore;
use crate::snapshot::KeeperHandle;

/// The files of a checkpoint are hashed in pieces, and a flush on the way takes a second or two.
const KEEPER_LIMIT: Duration = Duration::from_secs(5);

pub(super) struct Applier {
    pub(super) inbox: Receiver<ApplyMessage>,
    pub(super) data: DataSender,
    pub(super) control: ControlSender,
    pub(super) upkeep: Sender<UpkeepMessage>,
    pub(super) opener: LocalOpener,
    /// Whether the log is synced before it acknowledges.
    pub(super) synced: bool,
    pub(super) events: Arc<dyn EventSink>,
}

fn size_bytes(changes: &[Change]) -> u64 {
    changes.iter().map(|change| (change.key.len() + change.value.as_ref().map_or(0, Vec::len)) as u64).sum()
}

/// The store that is open now.
#[derive(Default)]
struct Using {
    local: Option<Arc<dyn LocalStore>>,
    /// Where the engine looks, once there is one.
    applied: Option<Arc<AtomicU64>>,
    /// Of the active on a shared store.
    keeper: Option<KeeperHandle>,
    flush_asked: bool,
}

impl Applier {
    pub(super) fn run(mut self) {
        let mut using = Using::default();
        while let Ok(message) = self.inbox.recv() {
            match message {
                ApplyMessage::Open => {
                    let opened = self.opener.open();
                    using = self.opened(opened);
                }
                ApplyMessage::Replace(replacement) => {
                    let replaced = self.opener.replace(&replacement);
                    using = self.opened(replaced);
                }
                ApplyMessage::ApplyRange { asker, end, changes } => {
                    if !self.apply(&mut using, end, &changes) {
                        return;
                    }
                    self.data.send(DataMessage::Applied { asker, position: end.position });
                }
                ApplyMessage::Serve { applied, open, fence } => {
                    using.applied = Some(applied);
                    self.begin_snapshots(&mut using, open, fence);
                }
                ApplyMessage::TrimmedBelow { position } => {
                    if let Some(keeper) = &using.keeper {
                        keeper.trimmed_below(position);
                    }
                }
                ApplyMessage::LeaseWritten { sent_at } => {
                    if let Some(keeper) = &using.keeper {
                        keeper.lease_written(sent_at);
                    }
                }
                ApplyMessage::Apply { end, changes } => {
                    if !self.apply(&mut using, end, &changes) {
                        return;
                    }
                }
                ApplyMessage::LetGo { in_order } => {
                    using = Using::default();
                    self.upkeep.send(UpkeepMessage::LetGo { in_order });
                }
                ApplyMessage::Stop => {
                    if let Some(keeper) = &using.keeper {
                        keeper.stop();
                        // If not in time, what it leaves is deleted by the next start.
                        let _ended = keeper.has_ended(KEEPER_LIMIT);
                    }
                    return;
                }
            }
        }
    }

    /// The snapshots of a tenure: its keeper ends with what uses the store.
    fn begin_snapshots(&self, using: &mut Using, open: OpenLog, fence: LogEnd) {
        let local = using.local.as_ref().expect("the fence was applied to it");
        match self.opener.keep_snapshots(local, open, fence, &self.control) {
            Ok(keeper) => using.keeper = keeper,
            // It serves without; the log grows until a thread can be had.
            Err(error) => tracing::error!(%error, "no snapshots are made: there is no thread for them"),
        }
    }

    fn opened(&self, opened: Replaced) -> Using {
        match opened {
            Ok(opened) => {
                let local: Arc<dyn LocalStore> = Arc::new(TrackedStore::new(opened, self.data.clone()));
                self.upkeep.send(UpkeepMessage::Use { local: Arc::clone(&local) });
                self.data.send(DataMessage::LocalStoreOpened(Ok(Arc::clone(&local))));
                Using { local: Some(local), ..Using::default() }
            }
            Err(failure) => {
                self.data.send(DataMessage::LocalStoreOpened(Err(failure)));
                Using::default()
            }
        }
    }

    /// Whether it went well; if not, the node is told.
    fn apply(&self, using: &mut Using, end: LogEnd, changes: &[Change]) -> bool {
        let local = using.local.as_ref().expect("nothing is applied before the store is open");
        if let Err(error) = local.apply(end, changes) {
            self.events.shell(&ShellEvent::Failure { detail: error.to_string() });
            self.control.send(NodeInput::Failed(StopReason::LocalStoreFailed));
            return false;
        }
        if let Some(applied) = &using.applied {
            applied.store(end.position.0, Ordering::Release);
        }
        if let Some(keeper) = &using.keeper {
            keeper.applied(end.position, size_bytes(changes));
        }
        let wants = local.wants_flush();
        if wants && !using.flush_asked {
            self.ask_for_flush(using.applied.is_some());
        }
        using.flush_asked = wants;
        true
    }

    /// Where the log is not synced with every entry, nothing is applied between the sync of the log and the
    /// flush that follows it: a crash of the host must not leave a local store that is ahead of its log,
    /// because a trimmed log could not rebuild it.
    fn ask_for_flush(&self, serving: bool) {
        if self.synced {
            self.upkeep.send(UpkeepMessage::Flush { serving, done: None });
            return;
        }
        let (done, over) = mpsc::channel();
        self.upkeep.send(UpkeepMessage::Flush { serving, done: Some(done) });
        // Either way it is over.
        let _ = over.recv();
    }
}
