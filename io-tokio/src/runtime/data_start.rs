//! The data plane before its engine lives: the start of an epoch (D-41 to D-43).

use std::sync::Arc;

use dexzd_core::engine::{Engine, EngineConfig, limits};
use dexzd_core::ids::{Name, Position};
use dexzd_core::log::{DiscardReason, LogEnd, Origin, Startup, StartupInput, StartupOptions, StartupOutput};
use dexzd_core::node::{Input as NodeInput, OpenLog};
use dexzd_core::stop::StopReason;
use dexzd_core::time::{Now, Timestamp};

use super::data::{DataPlane, Phase};
use super::data_local::Purpose;
use super::messages::{ApplyMessage, LogAnswer, LogMessage};
use crate::clock::entropy;

/// The log is being opened for this tenure.
pub(super) struct Starting {
    pub(super) open: OpenLog,
    pub(super) startup: Startup,
}

impl DataPlane {
    /// What a follower has applied is the store that the log is opened with: nothing is opened again, and
    /// what is left to do does not grow with the state (lesson D11).
    pub(super) fn open_log(&mut self, open: OpenLog) {
        self.local.saw_bound(open.trimmed_below);
        if self.hand_over().is_none() {
            self.replace_local(true);
        }
        self.with_local(Purpose::Start(open));
    }

    pub(super) fn begin_start(&mut self, open: OpenLog, local: LogEnd) {
        let options = StartupOptions {
            origin: origin(&self.settings.node_id, open),
            lease_duration_ms: open.lease_duration.as_millis(),
            trimmed_below: open.trimmed_below,
            log_end: open.log_end,
            synced: self.settings.synced,
            local,
            seed: entropy(),
        };
        let startup = Startup::new(self.now(), options);
        self.host(Phase::Starting(Box::new(Starting { open, startup })));
    }

    pub(super) fn startup(&mut self, input: StartupInput) {
        let now = self.now();
        if let Phase::Starting(starting) = &mut self.phase {
            starting.startup.handle(now, input);
        }
    }

    /// The lease still is this process's own, read or renewed after the fence (D-42).
    pub(super) fn lease_confirmed(&mut self) {
        self.startup(StartupInput::LeaseConfirmed);
    }

    pub(super) fn tick_start(&mut self, now: Now) {
        if let Phase::Starting(starting) = &mut self.phase
            && starting.startup.poll_timeout().is_some_and(|due| due <= now.instant)
        {
            starting.startup.handle(now, StartupInput::Tick);
        }
    }

    pub(super) fn hand_out_start(&mut self) {
        while let Phase::Starting(starting) = &mut self.phase
            && let Some(output) = starting.startup.poll_output()
        {
            self.perform_start(output);
        }
    }

    pub(super) fn start_answered(&mut self, answer: LogAnswer) {
        self.startup(match answer {
            LogAnswer::Range { request, entries, then } => StartupInput::Read { request, entries, then },
            LogAnswer::Listed { request, outcome } => StartupInput::Listed { request, outcome },
            LogAnswer::Written { request, outcome } => StartupInput::Written { request, outcome },
            LogAnswer::Read { .. } => unreachable!("a start reads ranges"),
        });
    }

    pub(super) fn start_applied(&mut self, position: Position) {
        self.startup(StartupInput::Applied { position });
    }

    fn perform_start(&mut self, output: StartupOutput) {
        let asker = self.asker;
        match output {
            StartupOutput::Read { request, from, at_most, at_most_bytes } => {
                self.log.send(LogMessage::ReadRange { asker, request, from, at_most, at_most_bytes })
            }
            StartupOutput::List { request, after } => {
                self.log.send(LogMessage::List { asker, request, after });
            }
            StartupOutput::Write { request, position, entry } => {
                self.log.send(LogMessage::Write { asker, request, position, entry })
            }
            StartupOutput::Apply { end, changes } => {
                self.granted = end;
                self.apply.send(ApplyMessage::ApplyRange { asker, end, changes });
            }
            StartupOutput::DiscardLocalStore(reason) => self.discard_local(reason),
            StartupOutput::FenceAccepted { end: _ } => self.control.send(NodeInput::LogFenced),
            StartupOutput::LogShorter { known, found } => {
                tracing::warn!(%known, %found, "a crash of the host took the end of the log, as this durability mode allows");
            }
            StartupOutput::EpochBehind { found, lease_duration_ms } => {
                // The local store stays open for the next try (D-55).
                self.host(Phase::Idle);
                tracing::warn!(%found, "the log carries an epoch above the one just taken: it is raised");
                self.control.send(NodeInput::EpochBehind { found, lease_duration_ms });
            }
            StartupOutput::Ready { end, newest_time, entries_applied } => {
                tracing::info!(position = %end.position, entries_applied, "the log is open");
                self.build_engine(end, newest_time);
            }
            StartupOutput::Failed { reason, at, error } => {
                let what = error.map_or_else(String::new, |error| format!(": {error}"));
                self.fail(reason, format!("opening the log failed at position {at}{what}"));
            }
        }
    }

    /// Where there are no snapshots, a store that a trimmed log cannot rebuild is not thrown away: it may be
    /// all there is.
    fn discard_local(&mut self, reason: DiscardReason) {
        let Phase::Starting(starting) = &self.phase else {
            return;
        };
        let trimmed_below = starting.open.trimmed_below;
        if trimmed_below.0 > 1 && !self.settings.has_snapshots {
            let detail = format!(
                "the local store does not fit the log ({reason:?}), which was trimmed below {trimmed_below} and cannot \
                 rebuild it; nothing was changed",
            );
            self.fail(StopReason::LocalStoreFailed, detail);
            return;
        }
        tracing::warn!(?reason, "the local store does not fit the log and is replaced");
        self.replace_local(false);
    }

    fn build_engine(&mut self, log_end: LogEnd, newest_time: Timestamp) {
        let Phase::Starting(starting) = self.host(Phase::Over) else {
            unreachable!("only a start becomes ready")
        };
        let local = self.local.store().expect("a start becomes ready with the store it has applied all to");
        let local = Arc::clone(local);
        let config = EngineConfig {
            origin: origin(&self.settings.node_id, starting.open),
            log_end,
            newest_time,
            seed: entropy(),
            retention_ms: limits::RETENTION_MS,
        };
        self.became_durable(log_end.position);
        self.alive_due = self.now().instant;
        let applied = Arc::clone(&self.applied);
        self.apply.send(ApplyMessage::Serve { applied, open: starting.open, fence: log_end });
        self.host(Phase::Running(Box::new(Engine::new(config, local))));
    }
}

fn origin(node_id: &str, open: OpenLog) -> Origin {
    Origin { node_id: Name::new(node_id), process_id: open.process_id, epoch: open.epoch }
}
