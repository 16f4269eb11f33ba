//! Following the log, as a hot standby.

use dexzd_core::ids::{Name, Position};
use dexzd_core::log::LogEnd;
use dexzd_core::node::{FollowOrder, Input};
use dexzd_core::snapshot::BootstrapInput;
use dexzd_core::standby::{Follower, FollowerInput, FollowerOptions, FollowerOutput};

use super::log_io::LogKind;
use super::process::{DataAnswer, Plane, ToData};
use super::{NODE, ProductWorld};
use crate::TrueTime;
use crate::dice::Stream;
use crate::local_store::SharedStore;
use crate::marks::mark;
use crate::watch::{ProcessNumber, Seen};

impl ProductWorld {
    pub(super) fn follow(&mut self, at: TrueTime, number: ProcessNumber, order: FollowOrder) {
        match order {
            FollowOrder::Start { trimmed_below, log_end } => {
                self.begin_to_follow(at, number, trimmed_below, log_end);
            }
            FollowOrder::Lease { trimmed_below, log_end } => {
                let process = &mut self.processes[usize::from(number)];
                process.trimmed_below = process.trimmed_below.max(trimmed_below);
                if process.bootstrap.is_some() {
                    self.bootstrap_input(at, number, BootstrapInput::TrimmedBelow(trimmed_below));
                }
                self.follower_input(at, number, FollowerInput::Lease { trimmed_below, log_end });
            }
            FollowOrder::Stop => {
                self.end_following(number);
            }
        }
    }

    fn begin_to_follow(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        trimmed_below: Position,
        log_end: Position,
    ) {
        let seed = self.dice.seed(Stream::Jitter(number), "follower");
        let standby = self.config.standby_of(number);
        let process = &mut self.processes[usize::from(number)];
        process.trimmed_below = trimmed_below;
        let local = process.local.borrow().end();
        // It is to be compared with the log before anything else (D-43).
        if !process.local.borrow().is_of_another_log() {
            self.watchers.show(at, &Seen::LocalEnd { process: number, end: local });
        }
        let options =
            FollowerOptions { node_id: Name::new(NODE), standby, trimmed_below, log_end, local, seed };
        let follower = Box::new(Follower::new(process.clocks.now(at), options));
        process.host(Plane::Following(follower));
        self.trace.line(at, || format!("p{number} begins to follow behind {}", local.position));
    }

    /// The lease was won, or the process ends: what the local store is good for afterwards.
    pub(super) fn end_following(&mut self, number: ProcessNumber) {
        let process = &mut self.processes[usize::from(number)];
        if let Plane::Following(_) = &process.plane
            && let Plane::Following(follower) = process.host(Plane::Idle)
        {
            if process.bootstrap.take().is_some() {
                mark("a takeover in the middle of a bootstrap");
            }
            let end = follower.hand_over();
            if end == LogEnd::default() {
                process.local = SharedStore::default();
                process.downloads.clear();
            }
        }
    }

    pub(super) fn follower_input(&mut self, at: TrueTime, number: ProcessNumber, input: FollowerInput) {
        self.trace.add(&input);
        let process = &mut self.processes[usize::from(number)];
        let now = process.clocks.now(at);
        if let Plane::Following(follower) = &mut process.plane {
            follower.handle(now, input);
        }
    }

    pub(super) fn follower_answer(&mut self, at: TrueTime, number: ProcessNumber, answer: DataAnswer) {
        let input = match answer {
            DataAnswer::Range { request, entries, then } => FollowerInput::Read { request, entries, then },
            DataAnswer::Listed { request, outcome } => FollowerInput::Listed { request, outcome },
            DataAnswer::Applied(position) => FollowerInput::Applied { position },
            DataAnswer::LocalStore(end) => FollowerInput::LocalStore { end },
            DataAnswer::ReplaceFailed(reason) => FollowerInput::ReplaceFailed(reason),
            DataAnswer::Written { .. } => unreachable!("a follower writes nothing (HA-51)"),
        };
        self.follower_input(at, number, input);
    }

    pub(super) fn perform_follower(&mut self, at: TrueTime, number: ProcessNumber, output: FollowerOutput) {
        let index = usize::from(number);
        let asker = self.processes[index].asker;
        match output {
            FollowerOutput::Read { request, from, at_most, .. } => {
                self.ask_log(at, number, request, LogKind::Read { from, at_most });
            }
            FollowerOutput::List { request, after } => {
                self.ask_log(at, number, request, LogKind::List { after });
            }
            FollowerOutput::Apply { end, changes } => {
                self.apply(at, number, end, changes);
                self.tell_data(at, number, ToData::Answer(asker, DataAnswer::Applied(end.position)));
            }
            FollowerOutput::DiscardLocalStore(reason) => {
                mark("a follower discards its local store");
                self.trace.line(at, || format!("p{number} discards its local store: {reason:?}"));
                let trimmed_below = self.processes[index].trimmed_below;
                self.begin_bootstrap(at, number, trimmed_below);
            }
            FollowerOutput::Report(report) => self.tell_node(at, number, Input::Follower(report)),
            FollowerOutput::Restarting(reason) => {
                self.trace.line(at, || format!("p{number} begins to follow again: {reason:?}"));
            }
            FollowerOutput::GaveUp { reason, at: position, error } => {
                mark("a follower gives up");
                self.trace.line(at, || format!("p{number} gives up: {reason} at {position} {error:?}"));
                let process = &mut self.processes[index];
                process.local = SharedStore::default();
                self.watchers.show(at, &Seen::Discarded { process: number });
            }
            FollowerOutput::Failed(reason) => self.tell_node(at, number, Input::Failed(reason)),
        }
    }
}
