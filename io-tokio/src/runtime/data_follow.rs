//! The data plane of a hot standby: it follows the log of the active (HA-42).

use dexzd_core::ids::{Name, Position};
use dexzd_core::log::LogEnd;
use dexzd_core::node::{FollowOrder, Input as NodeInput};
use dexzd_core::standby::{Follower, FollowerInput, FollowerOptions, FollowerOutput};
use dexzd_core::time::Now;

use super::data::{DataPlane, Phase};
use super::data_local::{Purpose, Then};
use super::messages::{ApplyMessage, LogAnswer, LogMessage};
use crate::clock::entropy;

impl DataPlane {
    pub(super) fn follow(&mut self, order: FollowOrder) {
        match order {
            FollowOrder::Start { trimmed_below, log_end } => {
                self.local.saw_bound(trimmed_below);
                if matches!(self.phase, Phase::Idle) {
                    self.with_local(Purpose::Follow { trimmed_below, log_end });
                }
            }
            FollowOrder::Lease { trimmed_below, log_end } => {
                self.local.saw_bound(trimmed_below);
                if let Phase::Waiting(purpose @ Purpose::Follow { .. }) = &mut self.phase {
                    *purpose = Purpose::Follow { trimmed_below, log_end };
                }
                self.follower(FollowerInput::Lease { trimmed_below, log_end });
            }
            FollowOrder::Stop => {
                if matches!(self.phase, Phase::Following(_) | Phase::Waiting(Purpose::Follow { .. })) {
                    self.host(Phase::Idle);
                    self.let_go(Then::Nothing, false);
                }
            }
        }
    }

    pub(super) fn begin_to_follow(&mut self, trimmed_below: Position, log_end: Position, local: LogEnd) {
        let options = FollowerOptions {
            node_id: Name::new(&self.settings.node_id),
            standby: self.settings.standby,
            trimmed_below,
            log_end,
            local,
            seed: entropy(),
        };
        let follower = Follower::new(self.now(), options);
        self.host(Phase::Following(Box::new(follower)));
        tracing::info!(behind = %local.position, "following the log");
    }

    pub(super) fn follower(&mut self, input: FollowerInput) {
        let now = self.now();
        if let Phase::Following(follower) = &mut self.phase {
            follower.handle(now, input);
        }
    }

    pub(super) fn tick_follower(&mut self, now: Now) {
        if let Phase::Following(follower) = &mut self.phase
            && follower.poll_timeout().is_some_and(|due| due <= now.instant)
        {
            follower.handle(now, FollowerInput::Tick);
        }
    }

    pub(super) fn follower_answered(&mut self, answer: LogAnswer) {
        match answer {
            LogAnswer::Range { request, entries, then } => {
                self.follower(FollowerInput::Read { request, entries, then });
            }
            LogAnswer::Listed { request, outcome } => {
                self.follower(FollowerInput::Listed { request, outcome });
            }
            LogAnswer::Written { .. } | LogAnswer::Read { .. } => {
                unreachable!("a follower writes nothing (HA-51)")
            }
        }
    }

    pub(super) fn follower_applied(&mut self, position: Position) {
        self.follower(FollowerInput::Applied { position });
    }

    pub(super) fn hand_out_follower(&mut self) {
        while let Phase::Following(follower) = &mut self.phase
            && let Some(output) = follower.poll_output()
        {
            self.perform_follower(output);
        }
    }

    fn perform_follower(&mut self, output: FollowerOutput) {
        let asker = self.asker;
        match output {
            FollowerOutput::Read { request, from, at_most, at_most_bytes } => {
                self.log.send(LogMessage::ReadRange { asker, request, from, at_most, at_most_bytes });
            }
            FollowerOutput::List { request, after } => {
                self.log.send(LogMessage::List { asker, request, after });
            }
            FollowerOutput::Apply { end, changes } => {
                self.granted = end;
                self.apply.send(ApplyMessage::ApplyRange { asker, end, changes });
            }
            FollowerOutput::DiscardLocalStore(reason) => {
                tracing::warn!(?reason, "the local store does not fit the log and is replaced");
                self.replace_local(false);
            }
            FollowerOutput::Report(report) => self.control.send(NodeInput::Follower(report)),
            FollowerOutput::Restarting(reason) => {
                tracing::warn!(?reason, "following the log begins again");
            }
            FollowerOutput::GaveUp { reason, at, error } => {
                let what = error.map_or_else(String::new, |error| format!(": {error}"));
                tracing::error!(
                    reason = reason.label(),
                    position = %at,
                    "the log cannot be followed{what}: this standby competes like a cold one, with an empty local \
                     store (D-15)"
                );
                self.replace_local(true);
            }
            FollowerOutput::Failed(reason) => {
                self.fail(reason, "the local disk failed while the log was followed".to_owned());
            }
        }
    }

    /// The lease is won: what the start of the epoch goes on with. `None`: what is on the disk is of no use.
    pub(super) fn hand_over(&mut self) -> Option<LogEnd> {
        match self.host(Phase::Idle) {
            Phase::Following(follower) => {
                let end = follower.hand_over();
                (end != LogEnd::default() || self.granted == end).then_some(end)
            }
            Phase::Idle | Phase::Waiting(_) | Phase::Starting(_) | Phase::Running(_) | Phase::Over => {
                Some(self.granted)
            }
        }
    }
}
