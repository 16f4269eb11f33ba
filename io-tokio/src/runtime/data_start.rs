//! The data plane before its engine lives: the start of an epoch (D-41 to D-43).

use std::sync::Arc;

use dexzd_core::engine::{Engine, EngineConfig, limits};
use dexzd_core::ids::Name;
use dexzd_core::log::{LogEnd, Origin, Startup, StartupInput, StartupOptions, StartupOutput};
use dexzd_core::node::{Input as NodeInput, OpenLog};
use dexzd_core::stop::StopReason;
use dexzd_core::time::{Now, Timestamp};

use super::data::{DataPlane, Phase, Starting};
use super::messages::{ApplyMessage, LogMessage};
use super::upkeep::UpkeepMessage;
use crate::clock::entropy;
use crate::local::LocalStore;

impl DataPlane {
    pub(super) fn open_log(&mut self, open: OpenLog) {
        self.phase = Phase::OpeningLocal(open);
        self.log.send(LogMessage::OpenLocalStore);
    }

    /// The local store is open: first, or in the place of one that was discarded.
    pub(super) fn local_opened(&mut self, local: Arc<dyn LocalStore>) {
        let now = self.now();
        match &mut self.phase {
            Phase::OpeningLocal(open) => {
                let open = *open;
                let options = StartupOptions {
                    origin: origin(&self.settings.node_id, open),
                    lease_duration_ms: open.lease_duration.as_millis(),
                    trimmed_below: open.trimmed_below,
                    log_end: open.log_end,
                    synced: self.settings.synced,
                    local: local.end(),
                    seed: entropy(),
                };
                self.phase = Phase::Starting(Box::new(Starting {
                    open,
                    startup: Startup::new(now, options),
                    local: Some(local),
                }));
            }
            Phase::Starting(starting) => {
                let end = local.end();
                starting.local = Some(local);
                starting.startup.handle(now, StartupInput::LocalStore { end });
            }
            Phase::Idle | Phase::Running(_) | Phase::Over => {}
        }
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

    fn perform_start(&mut self, output: StartupOutput) {
        match output {
            StartupOutput::Read { request, from, at_most, at_most_bytes } => {
                self.log.send(LogMessage::ReadRange { request, from, at_most, at_most_bytes })
            }
            StartupOutput::List { request, after } => {
                self.log.send(LogMessage::List { request, after });
            }
            StartupOutput::Write { request, position, entry } => {
                self.log.send(LogMessage::WriteFence { request, position, entry })
            }
            StartupOutput::Apply { end, changes } => {
                self.log.send(LogMessage::ApplyRange { end, changes });
            }
            StartupOutput::DiscardLocalStore(reason) => self.discard_local(reason),
            StartupOutput::FenceAccepted { end: _ } => self.control.send(NodeInput::LogFenced),
            StartupOutput::LogShorter { known, found } => {
                tracing::warn!(%known, %found, "a crash of the host took the end of the log, as this durability mode allows");
            }
            StartupOutput::EpochBehind { found, .. } => self.fail(
                StopReason::LeaseTaken,
                format!("the log carries epoch {found}, which is above the one just taken"),
            ),
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

    /// A store that a trimmed log cannot rebuild is not thrown away: it may be all there is.
    fn discard_local(&mut self, reason: dexzd_core::log::DiscardReason) {
        let Phase::Starting(starting) = &mut self.phase else {
            return;
        };
        if starting.open.trimmed_below.0 > 1 {
            let detail = format!(
                "the local store does not fit the log ({reason:?}), which was trimmed below {} and cannot rebuild it; \
                 nothing was changed",
                starting.open.trimmed_below,
            );
            self.fail(StopReason::LocalStoreFailed, detail);
            return;
        }
        tracing::warn!(?reason, "the local store does not fit the log and is rebuilt from it");
        // Nobody else holds it now; the log thread opens an empty one in its place.
        starting.local = None;
        self.log.send(LogMessage::ReplaceLocalStore);
    }

    fn build_engine(&mut self, log_end: LogEnd, newest_time: Timestamp) {
        let Phase::Starting(starting) = std::mem::replace(&mut self.phase, Phase::Over) else {
            unreachable!("only a start becomes ready")
        };
        let local =
            starting.local.expect("a start becomes ready with the local store it has applied everything to");
        let config = EngineConfig {
            origin: origin(&self.settings.node_id, starting.open),
            log_end,
            newest_time,
            seed: entropy(),
            retention_ms: limits::RETENTION_MS,
        };
        self.became_durable(log_end.position);
        self.alive_due = self.now().instant;
        self.apply.send(ApplyMessage::Use { local: Arc::clone(&local) });
        self.upkeep.send(UpkeepMessage::Use { local: Arc::clone(&local) });
        self.phase = Phase::Running(Box::new(Engine::new(config, local)));
    }
}

fn origin(node_id: &str, open: OpenLog) -> Origin {
    Origin { node_id: Name::new(node_id), process_id: open.process_id, epoch: open.epoch }
}
