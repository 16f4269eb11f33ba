//! The data plane of a lease world: it opens, builds, drains, commits and closes after the times that the
//! run draws, and sometimes never, or not at all. There is no log behind it but a list of fences.

use dexzd_core::engine::{NodeOrder, NodeReport};
use dexzd_core::ids::Epoch;
use dexzd_core::node::{FollowOrder, Input, OpenLog, Role};
use dexzd_core::standby::{FollowerReport, FollowerState};
use dexzd_core::stop::StopReason;

use super::{Event, LeaseWorld};
use crate::dice::Stream;
use crate::watch::{ProcessNumber, Seen};
use crate::{MILLISECOND, SECOND, TrueTime};

/// A follower looks at the log so often.
const POLL: TrueTime = 250 * MILLISECOND;
/// An engine shows itself so often (D-54: at least every second).
const ALIVE: TrueTime = 900 * MILLISECOND;

/// What a data plane is busy with.
#[derive(Clone, Debug, Default)]
pub(super) struct Plane {
    /// Raised by every `OpenLog` and `Follow`: what was meant for an earlier job is dropped.
    pub(super) job: u32,
    engine: bool,
    is_silent: bool,
    follows: bool,
    follower: FollowerReport,
    /// It stopped asking for what it does not know (D-14: its lag grows).
    pub(super) is_blind: bool,
    /// Whether a restart finds the local store of the last life.
    pub(super) has_disk: bool,
}

impl Plane {
    /// The data plane of a process that starts with or without the disk of its last life.
    pub(super) fn of_disk(has_disk: bool) -> Self {
        Self { has_disk, ..Self::default() }
    }
}

/// Something of a data plane that takes time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The fence reaches the log, whether or not its sender still lives.
    Fence(Epoch),
    /// `node` hears of it.
    Fenced,
    /// The log has a higher epoch.
    Behind { found: Epoch, duration_ms: u64 },
    /// It cannot go on.
    Fail(StopReason),
    /// The engine reports.
    Report(NodeReport),
    /// A sign of life.
    Alive,
    /// The ended tenure's store is closed.
    StoreClosed,
    /// The follower has looked at the log.
    Poll,
}

impl LeaseWorld {
    /// A step of the data plane ends after up to this long; some never do, some fail instead.
    fn step(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        (shortest, longest): (TrueTime, TrueTime),
        step: Step,
    ) {
        let stream = Stream::Workload;
        let plane = self.config.plane;
        let (stuck, failing) = if self.healed { (0, 0) } else { (plane.stuck, plane.failing) };
        // Opening the log has bounds of its own, which are not this world's; a recovery that hangs is an
        // engine that is silent.
        let stuck = if matches!(step, Step::Fence(_)) { 0 } else { stuck };
        if self.dice.chance(stream, "stuck", stuck) {
            self.trace.line(at, || format!("p{number} hangs before {step:?}"));
            if matches!(step, Step::Report(NodeReport::Recovered)) {
                self.processes[usize::from(number)].plane.is_silent = true;
            }
            return;
        }
        let failed = [StopReason::TakeoverFailed, StopReason::LocalStoreFailed, StopReason::LogHole];
        let step = if self.dice.chance(stream, "fails", failing) {
            Step::Fail(failed[self.dice.weighted(stream, "failure", &[1, 1, 1])])
        } else {
            step
        };
        let takes = self.dice.between(stream, "step", shortest, longest);
        self.schedule(at + takes, number, step);
    }

    fn schedule(&mut self, at: TrueTime, number: ProcessNumber, step: Step) {
        let process = &self.processes[usize::from(number)];
        self.heap.push(at, Event::Plane(number, process.life, process.plane.job, step));
    }

    pub(super) fn open_log(&mut self, at: TrueTime, number: ProcessNumber, open: OpenLog) {
        let process = &mut self.processes[usize::from(number)];
        let job = process.plane.job + 1;
        let has_disk = process.plane.has_disk;
        process.plane = Plane { job, has_disk, ..Plane::default() };
        process.gate = dexzd_core::gate::Gate::default();
        process.epoch = Some(open.epoch);
        self.step(at, number, (0, self.config.plane.slowest_step), Step::Fence(open.epoch));
    }

    pub(super) fn build_engine(&mut self, at: TrueTime, number: ProcessNumber) {
        let plane = &mut self.processes[usize::from(number)].plane;
        plane.engine = true;
        plane.has_disk = true;
        self.step(at, number, (0, self.config.plane.slowest_step), Step::Report(NodeReport::Recovered));
        self.schedule(at + ALIVE, number, Step::Alive);
    }

    /// What the original's data plane was busy with goes on in a copied process too.
    pub(super) fn plane_goes_on(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &self.processes[usize::from(number)];
        let (engine, follows) = (process.plane.engine, process.plane.follows);
        let step = match (process.role(), process.epoch) {
            (Some(Role::Opening), Some(epoch)) => Some(Step::Fence(epoch)),
            (Some(Role::Recovering), _) => Some(Step::Report(NodeReport::Recovered)),
            (Some(Role::Releasing | Role::HoldOff), _) => Some(Step::StoreClosed),
            _ => None,
        };
        for step in step.into_iter().chain(engine.then_some(Step::Alive)).chain(follows.then_some(Step::Poll))
        {
            self.schedule(at + ALIVE, number, step);
        }
    }

    pub(super) fn order_engine(&mut self, at: TrueTime, number: ProcessNumber, order: NodeOrder) {
        let plane = self.config.plane;
        match order {
            NodeOrder::Serve => {}
            NodeOrder::Drain => {
                self.step(
                    at,
                    number,
                    (plane.shortest_drain, plane.longest_drain),
                    Step::Report(NodeReport::Drained),
                );
            }
            // What was asked to cancel does so, or not.
            NodeOrder::Interrupt => {
                self.step(at, number, (0, 7 * SECOND), Step::Report(NodeReport::Drained));
            }
            NodeOrder::Commit => {
                self.step(at, number, (0, plane.slowest_step), Step::Report(NodeReport::Committed));
            }
            NodeOrder::Close => {
                self.processes[usize::from(number)].plane.engine = false;
                self.step(at, number, (0, plane.slowest_step), Step::Report(NodeReport::Closed));
                self.step(at, number, (plane.shortest_closing, plane.longest_closing), Step::StoreClosed);
            }
        }
    }

    pub(super) fn follow(&mut self, at: TrueTime, number: ProcessNumber, order: FollowOrder) {
        let plane = &mut self.processes[usize::from(number)].plane;
        match order {
            FollowOrder::Start { .. } => {
                plane.job += 1;
                plane.follows = true;
                plane.is_blind = false;
                plane.follower = FollowerReport::default();
                // Without a local store there is more to fetch.
                let longest = if plane.has_disk { 0 } else { 2 * self.config.plane.slowest_step };
                let drawn = self.dice.between(Stream::Workload, "bootstrap", 0, longest);
                let takes = self.config.plane.bootstrap + drawn;
                self.schedule(at + takes + MILLISECOND, number, Step::Poll);
            }
            FollowOrder::Lease { .. } => {}
            FollowOrder::Stop => {
                plane.job += 1;
                plane.follows = false;
            }
        }
    }

    /// A step of the data plane ends.
    pub(super) fn plane_step(&mut self, at: TrueTime, number: ProcessNumber, step: Step) {
        match step {
            Step::Fence(epoch) => self.fence(at, number, epoch),
            Step::Fenced => self.tell(at, number, Input::LogFenced),
            Step::Behind { found, duration_ms } => {
                let lease_duration_ms = Some(duration_ms);
                self.tell(at, number, Input::EpochBehind { found, lease_duration_ms });
            }
            Step::Fail(reason) => self.tell(at, number, Input::Failed(reason)),
            Step::Report(report) => self.tell(at, number, Input::Engine(report)),
            Step::Alive => self.alive(at, number),
            Step::StoreClosed => {
                self.watchers.show(at, &Seen::StoreClosed { process: number });
                self.tell(at, number, Input::StoreClosed);
            }
            Step::Poll => self.poll_log(at, number),
        }
    }

    /// The fence is created at the end of the log, if no equal or higher epoch stands there (D-42, D-55).
    fn fence(&mut self, at: TrueTime, number: ProcessNumber, epoch: Epoch) {
        let newest = self.fences.last().copied();
        let step = match newest {
            Some((found, duration_ms)) if found >= epoch => Step::Behind { found, duration_ms },
            Some(_) | None => {
                self.trace.line(at, || format!("p{number} fence of epoch {epoch} stands in the log"));
                self.fences.push((epoch, self.config.duration.as_millis()));
                self.watchers.show(at, &Seen::Fenced { process: number, epoch });
                Step::Fenced
            }
        };
        self.schedule(at, number, step);
    }

    fn alive(&mut self, at: TrueTime, number: ProcessNumber) {
        let plane = &mut self.processes[usize::from(number)].plane;
        if !plane.engine {
            return;
        }
        let stuck = if self.healed { 0 } else { self.config.plane.stuck / 100 };
        if self.dice.chance(Stream::Workload, "silent", stuck) {
            plane.is_silent = true;
        }
        if plane.is_silent {
            return;
        }
        self.tell(at, number, Input::EngineAlive);
        self.schedule(at + ALIVE, number, Step::Alive);
    }

    fn poll_log(&mut self, at: TrueTime, number: ProcessNumber) {
        if !self.processes[usize::from(number)].plane.follows {
            return;
        }
        let changes = if self.healed { 0 } else { self.config.plane.follower_changes };
        let drawn = if self.dice.chance(Stream::Workload, "follower_changes", changes) {
            let states = [
                FollowerState::Following,
                FollowerState::Behind,
                FollowerState::Restarting,
                FollowerState::Failed,
                FollowerState::Bootstrapping,
            ];
            Some(states[self.dice.weighted(Stream::Workload, "follower_state", &[3, 3, 1, 1, 1])])
        } else {
            None
        };
        let process = &mut self.processes[usize::from(number)];
        let plane = &mut process.plane;
        let before = plane.follower;
        let began = plane.follower.state == FollowerState::Bootstrapping && drawn.is_none();
        let state = match drawn {
            Some(state) => state,
            None if began || self.healed && before.state != FollowerState::Failed => FollowerState::Following,
            None => before.state,
        };
        plane.is_blind = state != FollowerState::Following;
        plane.follower.state = state;
        if !plane.is_blind {
            plane.follower.caught_up_at = Some(process.clocks.now(at).instant);
        }
        let report = plane.follower;
        if report != before {
            self.tell(at, number, Input::Follower(report));
        }
        self.schedule(at + POLL, number, Step::Poll);
    }
}
