//! The machine: one role at a time, and the lease machine that belongs to it.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::admin::{AdminCode, AdminError, AdminReason};
use super::connections::Period;
use super::event::{NodeEvent, NodeTimer};
use super::io::{Input, NodeConfig, OpenLog, Output};
use super::role::{Role, Trigger};
use crate::engine::{NodeOrder, NodeReport};
use crate::gate::{GateOrder, WallOffset};
use crate::ids::Epoch;
use crate::lease::{
    Candidate, CandidateOutput, Holder, HolderOutput, LONGEST_ADVISED, LeaseDuration, LeaseInput, Look, Pen,
    Release, ReleaseOutcome, ReleaseOutput, TAKEOVER_MARGIN, Tenure,
};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::time::{Instant, SlowInstant};

/// After the interrupt of a drain a result still counts for so long (D-21).
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);
/// The commit drain lasts at most so long (D-18).
const COMMIT_DRAIN: Duration = Duration::from_secs(10);
/// The engine has so long to see that nothing can leave any more (D-37).
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// A release in order is tried for at most so long, and not beyond the period (D-37).
const RELEASE_LIMIT: Duration = Duration::from_secs(10);
/// A release after a failure is tried for so long (D-51).
const BROKEN_RELEASE_LIMIT: Duration = Duration::from_secs(1);
/// An engine that is silent for so long is taken for dead (D-54). It reports every second.
const ENGINE_STALL: Duration = Duration::from_secs(30);
/// The watchdog waits so long after the end of a lease (D-32).
const WATCHDOG_GRACE: Duration = Duration::from_secs(5);

/// The control plane of one process.
///
/// - something happened: [`handle`](Node::handle);
/// - what must be done: [`poll_output`](Node::poll_output);
/// - when to call again: [`poll_timeout`](Node::poll_timeout);
/// - for people: [`role`](Node::role), [`tenure`](Node::tenure).
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
/// The order of the data plane's life: `OpenLog` → `Input::LogFenced` → `BuildEngine` →
/// `NodeReport::Recovered` → `NodeOrder::Serve` → … → `NodeOrder::Close` → `NodeReport::Closed`.
/// The process serves one tenure: what comes after it is a new process.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    rng: Rng,
    role: Role,
    lease: Lease,
    epoch: Option<Epoch>,
    /// The highest epoch in the log, where it lies above this process's own (D-55).
    epoch_found: Epoch,
    outwait_until: SlowInstant,
    /// When the time given to this role is over.
    deadline: Option<Instant>,
    /// The last sign of life, where an engine is expected to be alive (D-54).
    engine_seen_at: Option<Instant>,
    /// The first reason to stop; it decides the exit status.
    reason: Option<StopReason>,
    outputs: VecDeque<Output>,
}

/// Who looks after the lease: only the machine of the present role exists.
#[derive(Debug)]
enum Lease {
    /// In `Waiting` and `Withdrawing`.
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
        let candidate = Candidate::new(pen, config.candidate, Rng::new(rng.next_u64()));
        let mut outputs = VecDeque::new();
        outputs.push_back(Output::Event(NodeEvent::RoleChanged {
            role: Role::Waiting,
            epoch: None,
            period: Period::default(),
        }));
        Self {
            config,
            rng,
            role: Role::Waiting,
            lease: Lease::Candidate(candidate),
            epoch: None,
            epoch_found: Epoch(0),
            outwait_until: SlowInstant::ZERO,
            deadline: None,
            engine_seen_at: None,
            reason: None,
            outputs,
        }
    }

    /// Something happened. Order within one look: the end of the lease, the input, timers (D-57). What
    /// is only to be known (`Durable`, `TrimBelow`, `EngineAlive`) runs no timers, so that a shell may tell
    /// it ahead of a reply.
    pub fn handle(&mut self, look: Look, input: Input) {
        if let Lease::Holder(holder) = &mut self.lease {
            holder.look(look);
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
            Input::Admin { call, .. } => {
                let error = AdminError { code: AdminCode::Unavailable, reason: AdminReason::Standby };
                self.push(Output::Admin { call, answer: Err(error) });
            }
            Input::Follower(_) | Input::StoreClosed | Input::EngineAlive | Input::Tick => {}
        }
        if is_knowledge {
            return;
        }
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
        [lease, role, stall].into_iter().flatten().min()
    }

    /// What this process is.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
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

    fn trigger(&mut self, look: Look, trigger: Trigger) {
        if let Some(next) = self.role.after(trigger) {
            self.enter(look, next);
        }
    }

    /// SIGTERM. Where it changes nothing, the process is already on its way (D-29).
    fn terminate(&mut self, look: Look) {
        if self.role.after(Trigger::Terminate).is_some() {
            self.tell(NodeEvent::Stopping { reason: StopReason::Shutdown });
        }
        self.trigger(look, Trigger::Terminate);
    }

    /// The first failure is the reason; what follows from it is not.
    fn fail(&mut self, look: Look, reason: StopReason) {
        let held = matches!(self.lease, Lease::Holder(_));
        let trigger = if held && reason.leaves_lease_to_release() { Trigger::Broken } else { Trigger::Lost };
        if self.role.after(trigger).is_some() {
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
            self.trigger(look, Trigger::TimedOut);
        }
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
            | Input::Tick => false,
        };
        if alive && self.engine_seen_at.is_some() {
            self.engine_seen_at = Some(look.now.instant);
        }
    }

    // --- what a role begins with ---

    fn enter(&mut self, look: Look, role: Role) {
        self.role = role;
        self.deadline = None;
        self.tell(NodeEvent::RoleChanged { role, epoch: self.epoch, period: Period::default() });
        match role {
            Role::Waiting => {}
            Role::Withdrawing => {
                if let Lease::Candidate(candidate) = &mut self.lease {
                    candidate.stop(look);
                }
                self.drain_lease(look);
            }
            Role::Opening => self.open_log(),
            // Its deadline follows from what was found in the log.
            Role::Outwaiting | Role::HoldOff => {}
            Role::Raising => {
                if let Lease::Holder(holder) = &mut self.lease {
                    holder.raise_epoch(look, self.epoch_found);
                }
                self.drain_lease(look);
            }
            Role::Confirming => {
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
            Role::Stopped => self.stop(look),
        }
    }

    fn order(&mut self, look: Look, order: NodeOrder, limit: Duration) {
        self.push(Output::Engine(order));
        self.deadline = Some(look.now.instant.saturating_add(limit));
    }

    fn open_log(&mut self) {
        let Some(record) = self.tenure().map(|tenure| tenure.record.clone()) else {
            return;
        };
        self.epoch = Some(record.epoch);
        self.push(Output::OpenLog(OpenLog {
            process_id: record.holder,
            epoch: record.epoch,
            lease_duration: record.duration,
            trimmed_below: record.trimmed_below,
            log_end: record.log_end,
        }));
    }

    /// In doubt it stays shut; the end of the doubt opens it.
    fn open_gate(&mut self, look: Look) {
        let order = match &self.lease {
            Lease::Holder(holder) if !holder.is_in_doubt() => {
                GateOrder::Open { until: holder.tenure().ends_at(), offset: WallOffset::at(look.now) }
            }
            Lease::Holder(_) | Lease::Candidate(_) | Lease::Release(_) | Lease::Nobody => GateOrder::Doubt,
        };
        self.push(Output::Gate(order));
    }

    /// From here on this epoch never serves again, whatever becomes of the release (D-37).
    fn release(&mut self, look: Look) {
        self.engine_seen_at = None;
        self.push(Output::Gate(GateOrder::Close));
        // The lease ends by this process's own release: the watchdog does not apply (D-32).
        self.push(Output::Watchdog { exit_at: None });
        let Lease::Holder(holder) = core::mem::replace(&mut self.lease, Lease::Nobody) else {
            return;
        };
        let left = holder
            .tenure()
            .ends_at()
            .saturating_since(look.now.instant)
            .clamp(BROKEN_RELEASE_LIMIT, RELEASE_LIMIT);
        let limit = match self.reason {
            Some(reason) if reason.has_shut_gate() => BROKEN_RELEASE_LIMIT,
            Some(_) | None => left,
        };
        self.lease = Lease::Release(holder.release(look, limit));
        self.drain_lease(look);
    }

    fn stop(&mut self, look: Look) {
        self.engine_seen_at = None;
        if let Lease::Holder(holder) = &self.lease {
            let ended_at = holder.tenure().ends_at().min(look.now.instant);
            self.push(Output::Gate(GateOrder::Close));
            self.push(Output::Watchdog { exit_at: Some(ended_at.saturating_add(WATCHDOG_GRACE)) });
        }
        self.lease = Lease::Nobody;
        let reason = self.reason.unwrap_or(StopReason::Shutdown);
        self.push(Output::Exit { code: reason.exit_code(), reason });
    }

    // --- the lease machines ---

    fn tell_lease(&mut self, look: Look, input: LeaseInput) {
        match &mut self.lease {
            Lease::Candidate(candidate) => candidate.handle(look, input),
            Lease::Holder(holder) => holder.handle(look, input),
            Lease::Release(release) => release.handle(look, input),
            Lease::Nobody => {}
        }
        self.drain_lease(look);
    }

    fn drain_lease(&mut self, look: Look) {
        loop {
            match &mut self.lease {
                Lease::Candidate(candidate) => match candidate.poll_output() {
                    Some(output) => self.on_candidate(look, output),
                    None => return,
                },
                Lease::Holder(holder) => match holder.poll_output() {
                    Some(output) => self.on_holder(look, output),
                    None => return,
                },
                Lease::Release(release) => match release.poll_output() {
                    Some(output) => self.on_release(look, output),
                    None => return,
                },
                Lease::Nobody => return,
            }
        }
    }

    fn on_candidate(&mut self, look: Look, output: CandidateOutput) {
        match output {
            CandidateOutput::Request { request, operation } => {
                self.push(Output::Lease { request, operation });
            }
            CandidateOutput::Survey { request } => self.push(Output::Survey { request }),
            CandidateOutput::Event(event) => self.tell(NodeEvent::Candidate(event)),
            CandidateOutput::Acquired(tenure) => self.acquired(look, tenure),
            CandidateOutput::Stopped => self.trigger(look, Trigger::Withdrawn),
            CandidateOutput::Failed(reason) => self.fail(look, reason),
        }
    }

    fn acquired(&mut self, look: Look, tenure: Tenure) {
        let Lease::Candidate(candidate) = core::mem::replace(&mut self.lease, Lease::Nobody) else {
            return;
        };
        self.epoch = Some(tenure.record.epoch);
        let rng = Rng::new(self.rng.next_u64());
        self.lease = Lease::Holder(Holder::new(candidate.into_pen(), tenure, rng, look));
        self.trigger(look, Trigger::Acquired);
    }

    fn on_holder(&mut self, look: Look, output: HolderOutput) {
        match output {
            HolderOutput::Request { request, operation } => {
                self.push(Output::Lease { request, operation });
            }
            HolderOutput::Valid { until, offset } => {
                self.push(Output::Watchdog { exit_at: Some(until.saturating_add(WATCHDOG_GRACE)) });
                if self.role.is_serving() {
                    self.push(Output::Gate(GateOrder::Open { until, offset }));
                }
            }
            HolderOutput::Doubt => {
                if self.role.is_serving() {
                    self.push(Output::Gate(GateOrder::Doubt));
                }
            }
            HolderOutput::Confirmed => self.trigger(look, Trigger::Confirmed),
            HolderOutput::TrimmedBelow(position) => self.push(Output::TrimmedBelow(position)),
            HolderOutput::Event(event) => self.tell(NodeEvent::Holder(event)),
            HolderOutput::Lost(reason) => self.fail(look, reason),
        }
    }

    fn on_release(&mut self, look: Look, output: ReleaseOutput) {
        match output {
            ReleaseOutput::Request { request, operation } => {
                self.push(Output::Lease { request, operation });
            }
            ReleaseOutput::Ended(outcome) => {
                self.tell(NodeEvent::ReleaseEnded(outcome));
                if let ReleaseOutcome::Failed(reason) = outcome {
                    self.reason.get_or_insert(reason);
                }
                self.trigger(look, Trigger::Released);
            }
        }
    }

    fn role_timer(&self) -> Option<NodeTimer> {
        match self.role {
            Role::Draining => Some(NodeTimer::Drain),
            Role::Interrupting => Some(NodeTimer::Grace),
            Role::Committing => Some(NodeTimer::Commit),
            Role::Closing | Role::Abandoning => Some(NodeTimer::Close),
            Role::Outwaiting => Some(NodeTimer::Outwait),
            Role::Waiting
            | Role::Withdrawing
            | Role::Opening
            | Role::Raising
            | Role::Confirming
            | Role::Recovering
            | Role::Active
            | Role::Releasing
            | Role::HoldOff
            | Role::Stopped => None,
        }
    }

    fn tell(&mut self, event: NodeEvent) {
        self.push(Output::Event(event));
    }

    fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }
}
