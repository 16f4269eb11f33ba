//! The log's thread: the only one that touches the log, except where requests over a network get threads of
//! their own.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use dexzd_core::ids::{Blob, Position, RequestId};
use dexzd_core::lease::LeaseInput;
use dexzd_core::log::{Entry, LogEnd, ReadEnd};
use dexzd_core::node::Input as NodeInput;
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::crew::Crew;
use super::event::{EventSink, ShellEvent};
use super::messages::{Asker, ControlSender, DataMessage, DataSender, LogAnswer, LogMessage};
use super::survey::{self, Blind};
use crate::clock::Clock;
use crate::log::{LogStore, TrimOutcome};
use crate::store::ObjectStore;

pub(super) struct LogThread {
    pub(super) inbox: Receiver<LogMessage>,
    pub(super) worker: LogWorker,
    pub(super) crew: Crew,
}

/// Does what is asked of the log.
pub(super) struct LogWorker {
    pub(super) data: DataSender,
    pub(super) control: ControlSender,
    pub(super) log: Box<dyn LogStore>,
    /// On a shared store: snapshots tell what a trimmed log does not (D-49).
    pub(super) snapshots: Option<Arc<dyn ObjectStore>>,
    pub(super) node_id: String,
    pub(super) clock: Arc<Clock>,
    pub(super) events: Arc<dyn EventSink>,
}

impl LogThread {
    pub(super) fn run(mut self) {
        while let Ok(message) = self.inbox.recv() {
            match message {
                LogMessage::Stop => return,
                // Over a network a request may hang for longer than the core waits for it: what it asks for
                // then must not wait behind it (D-10, HA-32).
                LogMessage::Write { .. }
                | LogMessage::Read { .. }
                | LogMessage::ReadRange { .. }
                | LogMessage::List { .. }
                | LogMessage::Survey { .. } => match self.worker.fork() {
                    Some(mut worker) => self.crew.submit(move || worker.handle(message)),
                    None => self.worker.handle(message),
                },
                LogMessage::BeginEpoch
                | LogMessage::Check { .. }
                | LogMessage::Sync { .. }
                | LogMessage::TrimBelow { .. } => self.worker.handle(message),
            }
        }
    }
}

impl LogWorker {
    fn fork(&self) -> Option<Self> {
        Some(Self {
            data: self.data.clone(),
            control: self.control.clone(),
            log: self.log.fork()?,
            snapshots: self.snapshots.clone(),
            node_id: self.node_id.clone(),
            clock: Arc::clone(&self.clock),
            events: Arc::clone(&self.events),
        })
    }

    fn handle(&mut self, message: LogMessage) {
        match message {
            LogMessage::Write { asker, request, position, entry } => {
                let outcome = self.write(position, &entry);
                self.answer(asker, LogAnswer::Written { request, outcome });
            }
            LogMessage::Read { asker, request, position } => {
                let outcome = self.read_one(position);
                self.answer(asker, LogAnswer::Read { request, outcome });
            }
            LogMessage::ReadRange { asker, request, from, at_most, at_most_bytes } => {
                let (entries, then) = self.log.read(from, at_most, at_most_bytes);
                self.answer(asker, LogAnswer::Range { request, entries, then });
            }
            LogMessage::List { asker, request, after } => {
                let outcome = self.log.first_after(after);
                self.answer(asker, LogAnswer::Listed { request, outcome });
            }
            LogMessage::BeginEpoch => self.log.begin_epoch(),
            LogMessage::Survey { request } => self.survey(request),
            LogMessage::Check { end, answer } => {
                let _ = answer.send(self.has(end));
            }
            LogMessage::Sync { answer } => {
                let _ = answer.send(matches!(self.log.sync(), WriteOutcome::Done { .. }));
            }
            LogMessage::TrimBelow { position } => self.trim_below(position),
            LogMessage::Stop => unreachable!("the thread takes it"),
        }
    }

    fn answer(&self, asker: Asker, answer: LogAnswer) {
        self.data.send(DataMessage::Log { asker, answer });
    }

    fn write(&mut self, position: Position, entry: &Blob) -> WriteOutcome {
        let begun = self.clock.now().instant;
        let outcome = self.log.append(position, entry);
        if matches!(outcome, WriteOutcome::Done { .. }) {
            self.events.shell(&ShellEvent::Committed {
                position,
                bytes: entry.len(),
                took: self.clock.now().instant.saturating_since(begun),
            });
        }
        outcome
    }

    fn read_one(&mut self, position: Position) -> ReadOutcome {
        let (mut entries, then) = self.log.read(position, 1, 0);
        match (entries.pop(), then) {
            (Some(body), _) => ReadOutcome::Found {
                // Entries are never replaced, so nobody asks for their version.
                version: Version(Blob::default()),
                body,
                stamp_ms: None,
            },
            (None, ReadEnd::Missing) => ReadOutcome::Missing,
            (None, ReadEnd::Full) => ReadOutcome::Transient { retry_after_ms: None },
            (None, ReadEnd::Transient { retry_after_ms }) => ReadOutcome::Transient { retry_after_ms },
            (None, ReadEnd::Permanent) => ReadOutcome::Permanent,
            (None, ReadEnd::LocalFailure) => ReadOutcome::LocalFailure,
        }
    }

    fn trim_below(&mut self, position: Position) {
        match self.log.trim_below(position) {
            TrimOutcome::Done { deleted } => {
                self.events.shell(&ShellEvent::LogTrimmed { below: position, deleted })
            }
            // What is left takes room, and the next trim sees to it.
            outcome @ (TrimOutcome::Transient | TrimOutcome::Permanent) => {
                tracing::warn!(%position, ?outcome, log = %self.log.name(), "the log could not be trimmed");
            }
            TrimOutcome::LocalFailure => {
                self.fail(&format!("the disk of {} failed while it was trimmed", self.log.name()));
            }
        }
    }

    fn fail(&self, detail: &str) {
        self.events.shell(&ShellEvent::Failure { detail: detail.to_owned() });
        self.control.send(NodeInput::Failed(StopReason::LocalStoreFailed));
    }

    // Questions of others.

    /// D-43: the entry at this position carries this checksum.
    fn has(&mut self, end: LogEnd) -> bool {
        match self.read_one(end.position) {
            ReadOutcome::Found { body, .. } => {
                Entry::decode(&body, &self.node_id).is_ok_and(|(_, chain)| chain == end.chain)
            }
            ReadOutcome::Missing
            | ReadOutcome::Transient { .. }
            | ReadOutcome::Permanent
            | ReadOutcome::LocalFailure => false,
        }
    }

    /// D-49: what lies beside a missing lease. None: look again later.
    fn survey(&mut self, request: RequestId) {
        let survey = match survey::look(&mut *self.log, self.snapshots.as_deref(), &self.node_id) {
            Ok(survey) => Some(survey),
            Err(Blind::Now) => None,
            Err(Blind::ForGood { position, error }) => {
                let detail = format!("the log entry at position {position}: {error}");
                self.events.shell(&ShellEvent::Failure { detail });
                self.control.send(NodeInput::Failed(StopReason::LogUnreadable));
                return;
            }
        };
        self.control.send(NodeInput::Lease(LeaseInput::Surveyed { request, survey }));
    }
}
