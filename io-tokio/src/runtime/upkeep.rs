//! The thread for what may take long and nobody waits for: flushing the local store, trimming the log.
//!
//! ```text
//! so much was applied ─▶ sync the log ─▶ flush the local store, durable up to p
//!     ─▶ the log has the very entry p (D-43) ─▶ node: trim below p ─▶ a lease write carries it
//!     ─▶ node: it landed ─▶ the log deletes what lies below p, fences excepted (D-30)
//! ```
//!
//! The entry at p itself stays: the next start compares it with the local store.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use dexzd_core::node::Input as NodeInput;
use dexzd_core::stop::StopReason;

use super::event::{EventSink, ShellEvent};
use super::messages::{ControlSender, LogMessage, LogSender};
use crate::clock::Clock;
use crate::local::LocalStore;

pub(super) enum UpkeepMessage {
    /// The local store to look after.
    Use { local: Arc<dyn LocalStore> },
    /// It wants to be flushed. `done` is told, or dropped, when that is over.
    Flush {
        /// Of the active: the log may be trimmed behind it.
        serving: bool,
        done: Option<mpsc::Sender<()>>,
    },
    /// The tenure has ended, or the follower: use the store no longer. In order: everything that was applied
    /// is made durable first.
    LetGo { in_order: bool },
    /// The process ends. In order: everything that was applied is made durable first.
    Stop { in_order: bool },
}

pub(super) struct Upkeep {
    pub(super) inbox: Receiver<UpkeepMessage>,
    pub(super) control: ControlSender,
    pub(super) log: LogSender,
    /// Whether the local store is what the log is trimmed behind. On a shared store snapshots are.
    pub(super) trims: bool,
    pub(super) clock: Arc<Clock>,
    pub(super) events: Arc<dyn EventSink>,
}

impl Upkeep {
    /// Returns whether everything that was asked for went well.
    pub(super) fn run(self) -> bool {
        let mut local: Option<Arc<dyn LocalStore>> = None;
        let mut went_well = true;
        while let Ok(message) = self.inbox.recv() {
            match message {
                UpkeepMessage::Use { local: opened } => local = Some(opened),
                UpkeepMessage::Flush { serving, done } => {
                    if let Some(local) = &local
                        && went_well
                        && local.wants_flush()
                    {
                        went_well = self.flush(&**local, serving && self.trims);
                    }
                    drop(done);
                }
                UpkeepMessage::LetGo { in_order } => {
                    if in_order
                        && went_well
                        && let Some(local) = &local
                    {
                        went_well = self.flush(&**local, false);
                    }
                    local = None;
                }
                UpkeepMessage::Stop { in_order } => {
                    if in_order
                        && went_well
                        && let Some(local) = &local
                    {
                        went_well = self.flush(&**local, false);
                    }
                    return went_well;
                }
            }
        }
        went_well
    }

    fn flush(&self, local: &dyn LocalStore, trim: bool) -> bool {
        match self.try_flush(local, trim) {
            Ok(()) => true,
            Err(detail) => {
                self.events.shell(&ShellEvent::Failure { detail });
                self.control.send(NodeInput::Failed(StopReason::LocalStoreFailed));
                false
            }
        }
    }

    fn try_flush(&self, local: &dyn LocalStore, trim: bool) -> Result<(), String> {
        // First the log: where the mode does not sync every write, a host crash must not leave a local
        // store that is ahead of its log.
        self.sync_log()?;
        let begun = self.clock.now().instant;
        let end = local.flush().map_err(|error| error.to_string())?;
        self.events.shell(&ShellEvent::LocalStoreFlushed {
            position: end.position,
            took: self.clock.now().instant.saturating_since(begun),
        });
        if trim {
            self.sync_log()?;
            if !self.log_has(end) {
                return Err(format!(
                    "the log has no entry at position {} that fits the local store",
                    end.position
                ));
            }
            self.control.send(NodeInput::TrimBelow(end.position));
        }
        Ok(())
    }

    fn sync_log(&self) -> Result<(), String> {
        let (answer, answered) = mpsc::channel();
        self.log.send(LogMessage::Sync { answer });
        // The log thread is gone only when the process ends for another reason.
        if answered.recv().unwrap_or(true) { Ok(()) } else { Err("the log could not be synced".to_owned()) }
    }

    fn log_has(&self, end: dexzd_core::log::LogEnd) -> bool {
        let (answer, answered) = mpsc::channel();
        self.log.send(LogMessage::Check { end, answer });
        answered.recv().unwrap_or(true)
    }
}
