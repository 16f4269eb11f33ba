//! The machine: one role at a time, and what a role begins with. Beside it: the lease machine of the
//! role (`tenure`), the step down (`step_down`), following (`follow`), the answers to `AdminService`
//! (`calls`) and what probes see (`health`).

use alloc::collections::VecDeque;
use core::time::Duration;

use super::admin::{AdminError, AdminReason};
use super::connections::Period;
use super::event::{NodeEvent, NodeTimer};
use super::follow::Follow;
use super::io::{Input, NodeConfig, Output};
use super::role::{Role, Trigger};
use super::step_down::StepDown;
use crate::engine::{NodeOrder, NodeReport};
use crate::ids::Epoch;
use crate::lease::{
    Candidate, Holder, LONGEST_ADVISED, LeaseDuration, LeaseInput, Look, Pace, Pen, Release, TAKEOVER_MARGIN,
    Tenure,
};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::time::{Instant, SlowInstant};

/// After the interrupt of a drain a result still counts for so long (D-21).
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);
/// The commit drain lasts at most so long (D-18).
const COMMIT_DRAIN: Duration = Duration::from_secs(10);
/// The engine has so long to see that nothing can leave any more (D-37).
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// An engine that is silent for so long is taken for dead (D-54). It reports every second.
const ENGINE_STALL: Duration = Duration::from_secs(30);
/// The control plane of one process.
///
/// - something happened: [`handle`](Node::handle);
/// - what must be done: [`poll_output`](Node::poll_output);
/// - when to call again: [`poll_timeout`](Node::poll_timeout);
/// - for people, probes and connections: [`role`](Node::role), [`tenure`](Node::tenure),
///   [`period`](Node::period), [`health`](Node::health), [`standby_gauges`](Node::standby_gauges),
///   [`standing`](Node::standing).
///
/// The shell runs it on a thread of its own:
///
/// ```text
/// let mut node = Node::new(config);
/// loop {
///     while let Some(output) = node.poll_output() {
///         match output {
///             Output::Lease { request, operation } => start it; its end comes back as Input::Lease
///             Output::Gate(order) => gate.lock().order(order)      // at once, on this thread
///             Output::Watchdog { exit_at } => watchdog.set(exit_at)
///             Output::Exit { code, reason } => end the process
///             other => hand it to the data plane, or to the event sink
///         }
///     }
///     let due = node.poll_timeout();           // Some(at): call with Input::Tick at that instant
///     let input = receive until due;           // what already waits comes before the tick (D-57)
///     node.handle(Look { now: clocks.read(), entropy: os_random() }, input);
/// }
/// ```
///
/// The data plane's life in one tenure: `OpenLog` → `Input::LogFenced` → `BuildEngine` →
/// `NodeReport::Recovered` → `NodeOrder::Serve` → … → `NodeOrder::Close` → `NodeReport::Closed` →
/// `Input::StoreClosed`. After a step down the process lives on: the same begins anew with the next
/// `OpenLog`, under a higher epoch and a gate of its own. In hot mode `Follow` comes in between.
#[derive(Debug)]
pub struct Node {
    pub(super) config: NodeConfig,
    pub(super) rng: Rng,
    pub(super) role: Role,
    pub(super) lease: Lease,
    /// The number of the present role period (D-16).
    pub(super) period: Period,
    /// When this process began to stand by: now, or the last time.
    pub(super) standby_since: Option<Instant>,
    /// The present tenure, or the last one.
    pub(super) epoch: Option<Epoch>,
    /// The highest epoch in the log, where it lies above this process's own (D-55).
    epoch_found: Epoch,
    outwait_until: SlowInstant,
    /// When the time given to this role is over.
    pub(super) deadline: Option<Instant>,
    /// The last sign of life, where an engine is expected to be alive (D-54).
    pub(super) engine_seen_at: Option<Instant>,
    /// The step down whose call is not answered yet.
    pub(super) step_down: Option<StepDown>,
    /// Whether the local store of a tenure is open (HA-104).
    pub(super) is_store_open: bool,
    /// When a store that is still open ends the process (HA-105).
    pub(super) store_limit_at: Option<Instant>,
    pub(super) follow: Follow,
    /// The first reason to stop; it decides the exit status.
    pub(super) reason: Option<StopReason>,
    outputs: VecDeque<Output>,
}

/// Who looks after the lease: only the machine of the present role exists.
#[derive(Debug)]
pub(super) enum Lease {
    /// In `Waiting`, `Withdrawing` and `HoldOff`.
    Candidate(Candidate),
    /// From `Opening` to `Closing`.
    Holder(Holder),
    /// In `Releasing`.
    Release(Release),
    /// In `Stopped`.
    Nobody,
}

impl Node {
    /// A process that wants the lease. Its first timer is due at once.
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        let mut rng = Rng::new(config.seed);
        let pen = Pen::new(config.node_id.clone(), config.process_id, config.lease_duration);
        let candidate = Candidate::new(pen, config.candidate, Rng::new(rng.next_u64()))
            .with_pace(Pace::of(&config.standby));
        let mut outputs = VecDeque::new();
        let period = Period(1);
        outputs.push_back(Output::Event(NodeEvent::RoleChanged { role: Role::Waiting, epoch: None, period }));
        Self {
            config,
            rng,
            role: Role::Waiting,
            lease: Lease::Candidate(candidate),
            period,
            standby_since: None,
            epoch: None,
            epoch_found: Epoch(0),
            outwait_until: SlowInstant::ZERO,
            deadline: None,
            engine_seen_at: None,
            step_down: None,
            is_store_open: false,
            store_limit_at: None,
            follow: Follow::default(),
            reason: None,
            outputs,
        }
    }

    /// Something happened. Order within one look: the end of the lease, the input, timers (D-57). What
    /// is only to be known (`Durable`, `TrimBelow`, `EngineAlive`) runs no timers, so that a shell may tell
    /// it ahead of a reply.
    pub fn handle(&mut self, look: Look, input: Input) {
        self.standby_since.get_or_insert(look.now.instant);
        match &mut self.lease {
            Lease::Holder(holder) => holder.look(look),
            Lease::Candidate(_) | Lease::Release(_) | Lease::Nobody => {}
        }
        self.drain_lease(look);
        self.see_engine(look, &input);
        let is_knowledge = matches!(input, Input::Durable(_) | Input::TrimBelow(_) | Input::EngineAlive);
        match input {
            Input::Lease(input) => self.tell_lease(look, input),
            Input::LogFenced => self.trigger(look, Trigger::Fenced),
            Input::Engine(report) => self.trigger(
                look,
                match report {
                    NodeReport::Recovered => Trigger::Recovered,
                    NodeReport::Drained => Trigger::Drained,
                    NodeReport::Committed => Trigger::Committed,
                    NodeReport::Closed => Trigger::Closed,
                },
            ),
            Input::EpochBehind { found, lease_duration_ms } => {
                self.epoch_behind(look, found, lease_duration_ms);
            }
            Input::Failed(reason) => self.fail(look, reason),
            Input::Durable(position) => {
                if let Lease::Holder(holder) = &mut self.lease {
                    holder.set_log_end(position);
                }
            }
            Input::TrimBelow(position) => {
                if let Lease::Holder(holder) = &mut self.lease {
                    holder.raise_trimmed_below(position);
                }
            }
            Input::Terminate => self.terminate(look),
            Input::Admin { call, opened_in, request } => self.administer(look, call, opened_in, &request),
            Input::Follower(report) => self.follower_reports(look, report),
            Input::StoreClosed => self.store_closed(look),
            Input::GateJumped(seen_at) => {
                if let Lease::Holder(holder) = &mut self.lease {
                    holder.heed_jump(look, seen_at);
                }
            }
            Input::EngineAlive | Input::Tick => {}
        }
        if is_knowledge {
            return;
        }
        self.tell_heat(look);
        self.tell_lease(look, LeaseInput::Tick);
        self.on_time(look);
    }

    /// What the shell must do: drain until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call again at the latest, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, NodeTimer)> {
        let lease = match &self.lease {
            Lease::Candidate(candidate) => candidate.poll_timeout(),
            Lease::Holder(holder) => holder.poll_timeout(),
            Lease::Release(release) => release.poll_timeout(),
            Lease::Nobody => None,
        };
        let lease = lease.map(|(at, timer)| (at, NodeTimer::Lease(timer)));
        let role = self.deadline.zip(self.role_timer());
        let stall = self.engine_seen_at.map(|at| (at.saturating_add(ENGINE_STALL), NodeTimer::EngineStall));
        let store = self.store_limit_at.map(|at| (at, NodeTimer::StoreClosing));
        [lease, role, stall, store].into_iter().flatten().min()
    }

    /// What this process is.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The present tenure, or the last one.
    #[must_use]
    pub const fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// The lease as its holder knows it, while it is held.
    #[must_use]
    pub const fn tenure(&self) -> Option<&Tenure> {
        match &self.lease {
            Lease::Holder(holder) => Some(holder.tenure()),
            Lease::Candidate(_) | Lease::Release(_) | Lease::Nobody => None,
        }
    }

    // --- what moves it ---

    pub(super) fn trigger(&mut self, look: Look, trigger: Trigger) {
        if let Some(next) = self.role.after(trigger) {
            self.enter(look, next);
        }
    }

    /// SIGTERM. A step down becomes a shutdown on the same deadlines, without a hold-off. Where it changes
    /// nothing, the process is already on its way (D-29).
    fn terminate(&mut self, look: Look) {
        let stepped_down = self.end_step_down(AdminError::unavailable(AdminReason::ShuttingDown));
        if stepped_down || self.role.after(Trigger::Terminate).is_some() {
            self.tell(NodeEvent::Stopping { reason: StopReason::Shutdown });
        }
        self.trigger(look, Trigger::Terminate);
    }

    /// The first failure is the reason; what follows from it is not.
    pub(super) fn fail(&mut self, look: Look, reason: StopReason) {
        let held = matches!(self.lease, Lease::Holder(_));
        let trigger = if held && reason.leaves_lease_to_release() { Trigger::Broken } else { Trigger::Lost };
        // Without a role to go to it still ends a process that would have lived on after its release.
        if self.end_step_down(self.error_of_end(reason)) || self.role.after(trigger).is_some() {
            self.reason = Some(reason);
            self.tell(NodeEvent::Stopping { reason });
        }
        self.trigger(look, trigger);
    }

    /// D-55: whoever wrote the higher epoch may still believe in it for the duration in its fence.
    fn epoch_behind(&mut self, look: Look, found: Epoch, lease_duration_ms: Option<u64>) {
        if self.role.after(Trigger::EpochBehind).is_none() {
            return;
        }
        self.epoch_found = found;
        let unknown = self.config.lease_duration.period().max(LONGEST_ADVISED);
        let duration =
            lease_duration_ms.and_then(LeaseDuration::from_millis).map_or(unknown, LeaseDuration::period);
        self.trigger(look, Trigger::EpochBehind);
        self.outwait_until = look.now.slow.saturating_add(duration + TAKEOVER_MARGIN);
        self.plan_outwait(look);
    }

    /// Like a candidate it waits by the slower clock (D-2), whichever way the timer is counted.
    fn plan_outwait(&mut self, look: Look) {
        let left = self.outwait_until.saturating_since(look.now.slow);
        self.deadline = Some(look.now.instant.saturating_add(left));
    }

    fn on_time(&mut self, look: Look) {
        let now = look.now.instant;
        if self.role == Role::Outwaiting {
            self.plan_outwait(look);
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.deadline = None;
            self.trigger(look, Trigger::TimedOut);
        }
        self.end_hold_off(look);
        if self.engine_seen_at.is_some_and(|seen_at| now >= seen_at.saturating_add(ENGINE_STALL)) {
            self.fail(look, StopReason::EngineStalled);
        }
    }

    fn see_engine(&mut self, look: Look, input: &Input) {
        let alive = match input {
            Input::Engine(_)
            | Input::EngineAlive
            | Input::Failed(_)
            | Input::Durable(_)
            | Input::TrimBelow(_) => true,
            Input::Lease(_)
            | Input::LogFenced
            | Input::EpochBehind { .. }
            | Input::Terminate
            | Input::Follower(_)
            | Input::StoreClosed
            | Input::Admin { .. }
            | Input::GateJumped(_)
            | Input::Tick => false,
        };
        if alive && self.engine_seen_at.is_some() {
            self.engine_seen_at = Some(look.now.instant);
        }
    }

    // --- what a role begins with ---

    fn enter(&mut self, look: Look, role: Role) {
        let from = core::mem::replace(&mut self.role, role);
        self.deadline = None;
        self.turn_period(look, from, role);
        self.tell(NodeEvent::RoleChanged { role, epoch: self.epoch, period: self.period });
        match role {
            Role::Waiting => self.compete(look),
            Role::Withdrawing => {
                self.stop_following();
                if let Lease::Candidate(candidate) = &mut self.lease {
                    candidate.stop(look);
                }
                self.drain_lease(look);
            }
            Role::Opening => self.open_log(),
            // Its deadline follows from what was found in the log.
            Role::Outwaiting => {}
            Role::Raising => {
                if let Lease::Holder(holder) = &mut self.lease {
                    holder.raise_epoch(look, self.epoch_found);
                }
                self.drain_lease(look);
            }
            Role::Confirming => {
                if mutant::is(Mutant::NoConfirmAfterFence) {
                    return self.trigger(look, Trigger::Confirmed);
                }
                if let Lease::Holder(holder) = &mut self.lease {
                    holder.confirm(look);
                }
                self.drain_lease(look);
            }
            Role::Recovering => {
                self.engine_seen_at = Some(look.now.instant);
                let epoch = self.epoch.expect("a process that recovers has an epoch");
                self.push(Output::BuildEngine { epoch });
            }
            Role::Active => {
                self.open_gate(look);
                self.push(Output::Engine(NodeOrder::Serve));
            }
            Role::Draining => {
                self.order(look, NodeOrder::Drain, self.config.attempt_drain_timeout);
            }
            Role::Interrupting => self.order(look, NodeOrder::Interrupt, INTERRUPT_GRACE),
            Role::Committing => self.order(look, NodeOrder::Commit, COMMIT_DRAIN),
            Role::Closing | Role::Abandoning => {
                self.order(look, NodeOrder::Close, CLOSE_LIMIT);
            }
            Role::Releasing => self.release(look),
            Role::HoldOff => self.hold_off(look),
            Role::Stopped => self.stop(look),
        }
    }

    /// A process stands by until it has the lease, and again from the release on (D-16).
    fn turn_period(&mut self, look: Look, from: Role, to: Role) {
        let is_standby = to == Role::Releasing;
        if is_standby {
            self.standby_since = Some(look.now.instant);
        }
        if is_standby || (from, to) == (Role::Waiting, Role::Opening) {
            self.period = Period(self.period.0 + 1);
        }
    }

    fn order(&mut self, look: Look, order: NodeOrder, limit: Duration) {
        self.push(Output::Engine(order));
        self.deadline = Some(look.now.instant.saturating_add(limit));
    }

    fn role_timer(&self) -> Option<NodeTimer> {
        match self.role {
            Role::Draining => Some(NodeTimer::Drain),
            Role::Interrupting => Some(NodeTimer::Grace),
            Role::Committing => Some(NodeTimer::Commit),
            Role::Closing | Role::Abandoning => Some(NodeTimer::Close),
            Role::Outwaiting => Some(NodeTimer::Outwait),
            Role::HoldOff => Some(NodeTimer::HoldOff),
            Role::Waiting
            | Role::Withdrawing
            | Role::Opening
            | Role::Raising
            | Role::Confirming
            | Role::Recovering
            | Role::Active
            | Role::Releasing
            | Role::Stopped => None,
        }
    }

    pub(super) fn tell(&mut self, event: NodeEvent) {
        self.push(Output::Event(event));
    }

    /// Nothing follows an exit: what the same look still answers goes ahead of it.
    pub(super) fn push(&mut self, output: Output) {
        let ends = matches!(self.outputs.back(), Some(Output::Exit { .. }));
        let exit = if ends { self.outputs.pop_back() } else { None };
        self.outputs.push_back(output);
        self.outputs.extend(exit);
    }
}
