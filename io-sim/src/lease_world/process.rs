//! One process of a lease world: the lease machines one after the other, its clocks and its gate.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use dexzd_core::gate::{Gate, GateOrder, GateView, WallOffset};
use dexzd_core::ids::{Epoch, Name, ProcessId, RequestId};
use dexzd_core::lease::{
    Candidate, CandidateConfig, CandidateEvent, CandidateOutput, Holder, HolderEvent, HolderOutput,
    LeaseInput, LeaseOperation, LeaseRecord, LeaseState, Look, Pen, Release, ReleaseOutcome, ReleaseOutput,
};
use dexzd_core::rng::Rng;
use dexzd_core::stop::StopReason;
use dexzd_core::time::Instant;

use super::{LeaseConfig, NODE};
use crate::TrueTime;
use crate::clock::Clocks;
use crate::dice::{Dice, Stream};
use crate::watch::{ProcessNumber, Seen, Watchers};

/// `standby.stepDownHoldOff` (HA-44).
const HOLD_OFF: Duration = Duration::from_secs(5);
/// A release is tried for so long (D-37).
const RELEASE_LIMIT: Duration = Duration::from_secs(10);

/// What a process is, from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It does not run.
    Down,
    /// It waits for the lease.
    Candidate,
    /// It holds the lease, and serves if that was confirmed.
    Holder {
        /// Its epoch.
        epoch: Epoch,
        /// Whether its gate was opened.
        serves: bool,
    },
    /// It gives the lease back.
    Releasing,
    /// It does not compete for a while.
    HoldOff,
}

/// What a process wants done, one at a time.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Decided at this moment, which may be long before it is sent.
    Request(TrueTime, RequestId, LeaseOperation),
    Survey(RequestId),
    /// The lease is acquired: the fence lands at once in this world.
    Fence(Epoch),
    GateOpen {
        epoch: Epoch,
        until: Instant,
        nonce: u64,
    },
    GateDoubt(Epoch),
    Known {
        nonce: u64,
    },
    Tell(Telling),
    Die(StopReason),
}

/// What a machine says to people.
#[derive(Clone, Debug)]
pub(super) enum Telling {
    Candidate(CandidateEvent),
    Holder(HolderEvent),
    Released(ReleaseOutcome),
}

impl fmt::Display for Telling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Candidate(event) => write!(formatter, "{event:?}"),
            Self::Holder(event) => write!(formatter, "{event:?}"),
            Self::Released(outcome) => write!(formatter, "release ended: {outcome:?}"),
        }
    }
}

#[derive(Debug)]
enum Machine {
    Down,
    Candidate(Box<Candidate>),
    Holder(Box<Holding>),
    Release(Box<Release>),
    HoldOff { pen: Option<Pen>, until: Instant },
}

#[derive(Debug)]
struct Holding {
    holder: Holder,
    epoch: Epoch,
    gate: Gate,
    valid: GateOrder,
    confirmed: bool,
    known_nonce: u64,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: ProcessNumber,
    pub(super) clocks: Clocks,
    /// Raised by every death: what was meant for an earlier life is dropped.
    pub(super) life: u32,
    pub(super) frozen_until: TrueTime,
    pub(super) blacked_out_until: TrueTime,
    /// Replies that came while it was frozen.
    pub(super) queue: VecDeque<LeaseInput>,
    /// Outputs that a freeze kept from being sent.
    pub(super) late: VecDeque<Act>,
    machine: Machine,
    entropy: Rng,
    timer_at: Option<TrueTime>,
    config: CandidateConfig,
    released: Option<Epoch>,
}

impl Process {
    pub(super) fn new(number: ProcessNumber, clocks: Clocks) -> Self {
        Self {
            number,
            clocks,
            life: 0,
            frozen_until: 0,
            blacked_out_until: 0,
            queue: VecDeque::new(),
            late: VecDeque::new(),
            machine: Machine::Down,
            entropy: Rng::new(0),
            timer_at: None,
            config: CandidateConfig::default(),
            released: None,
        }
    }

    pub(super) fn start(&mut self, config: &LeaseConfig, probe_stamp_ms: Option<u64>, dice: &mut Dice) {
        let stream = Stream::Jitter(self.number);
        let high = dice.seed(stream, "process_id");
        let low = dice.seed(stream, "process_id");
        // Told apart even where a script draws nothing but zeros.
        let own = u128::from(self.life) << 8 | u128::from(self.number + 1);
        let process_id = ProcessId((u128::from(high) << 64 | u128::from(low)) ^ own);
        self.entropy = Rng::new(dice.seed(stream, "entropy"));
        self.config = CandidateConfig { probe_stamp_ms, ..CandidateConfig::default() };
        let pen = Pen::new(Name::new(NODE), process_id, config.duration);
        self.become_candidate(pen);
    }

    pub(super) fn die(&mut self) {
        self.life += 1;
        self.machine = Machine::Down;
        self.queue.clear();
        self.late.clear();
        self.frozen_until = 0;
        self.timer_at = None;
    }

    pub(super) fn lives(&self, life: u32) -> bool {
        self.life == life && self.is_running()
    }

    pub(super) fn is_running(&self) -> bool {
        !matches!(self.machine, Machine::Down)
    }

    pub(super) fn is_frozen(&self, at: TrueTime) -> bool {
        self.frozen_until > at
    }

    pub(super) fn role(&self) -> Role {
        match &self.machine {
            Machine::Down => Role::Down,
            Machine::Candidate(_) => Role::Candidate,
            Machine::Holder(holding) => Role::Holder { epoch: holding.epoch, serves: holding.confirmed },
            Machine::Release(_) => Role::Releasing,
            Machine::HoldOff { .. } => Role::HoldOff,
        }
    }

    pub(super) fn handle(&mut self, at: TrueTime, input: LeaseInput) {
        let look = self.look(at);
        match &mut self.machine {
            Machine::Down => {}
            Machine::Candidate(candidate) => candidate.handle(look, input),
            Machine::Holder(holding) => holding.holder.handle(look, input),
            Machine::Release(release) => release.handle(look, input),
            Machine::HoldOff { pen, until } => {
                if look.now.instant >= *until {
                    let pen = pen.take().expect("a hold-off ends once");
                    self.become_candidate(pen);
                }
            }
        }
    }

    /// A step down, if there is something to step down from.
    pub(super) fn release(&mut self, at: TrueTime, watchers: &mut Watchers) {
        let look = self.look(at);
        match std::mem::replace(&mut self.machine, Machine::Down) {
            Machine::Holder(holding) => {
                let epoch = holding.epoch;
                watchers.show(at, &Seen::GateShut { process: self.number, epoch });
                let release = holding.holder.release(look, RELEASE_LIMIT);
                self.machine = Machine::Release(Box::new(release));
            }
            other @ (Machine::Down
            | Machine::Candidate(_)
            | Machine::Release(_)
            | Machine::HoldOff { .. }) => self.machine = other,
        }
    }

    pub(super) fn poll(&mut self, at: TrueTime) -> Option<Act> {
        match &mut self.machine {
            Machine::Down | Machine::HoldOff { .. } => None,
            Machine::Candidate(candidate) => {
                // What stands in the lease is news for followers only.
                let mut output = candidate.poll_output()?;
                while matches!(output, CandidateOutput::Seen(_)) {
                    output = candidate.poll_output()?;
                }
                Some(self.candidate_act(at, output))
            }
            Machine::Holder(holding) => {
                let output = holding.holder.poll_output()?;
                Some(holding.act(at, output))
            }
            Machine::Release(release) => {
                let output = release.poll_output()?;
                Some(self.release_act(at, output))
            }
        }
    }

    /// When the process wants to be called, if that is news.
    pub(super) fn new_timer(&mut self, at: TrueTime) -> Option<TrueTime> {
        let due = match &self.machine {
            Machine::Down => None,
            Machine::Candidate(candidate) => candidate.poll_timeout(),
            Machine::Holder(holding) => holding.holder.poll_timeout(),
            Machine::Release(release) => release.poll_timeout(),
            Machine::HoldOff { until, .. } => Some((*until, dexzd_core::lease::LeaseTimer::Takeover)),
        };
        let due = due.map(|(instant, _)| self.clocks.when_instant(instant).max(at));
        if due == self.timer_at {
            return None;
        }
        self.timer_at = due;
        due
    }

    /// Whether the timer that was set rings now.
    pub(super) fn take_timer(&mut self, at: TrueTime) -> bool {
        let rings = self.timer_at.is_some_and(|due| due <= at);
        if rings {
            self.timer_at = None;
        }
        rings
    }

    /// Shows what a request means: a renewal, or the end of an epoch.
    pub(super) fn sent(
        &mut self,
        at: TrueTime,
        decided_at: TrueTime,
        record: Option<&LeaseRecord>,
        watchers: &mut Watchers,
    ) {
        let Some(record) = record else {
            return;
        };
        let (process, epoch) = (self.number, record.epoch);
        match (&self.machine, record.state) {
            (Machine::Holder(_), LeaseState::Held) => {
                let seen = Seen::RenewalSent {
                    process,
                    epoch,
                    nonce: record.nonce.counter,
                    instant_us: self.clocks.instant.read(decided_at),
                };
                watchers.show(at, &seen);
            }
            (_, LeaseState::Free) if self.released != Some(epoch) => {
                self.released = Some(epoch);
                watchers.show(at, &Seen::ReleaseSent { process, epoch });
            }
            _ => {}
        }
    }

    /// A step of the wall clock: whoever looks at the gate from now on may find it in doubt.
    pub(super) fn wall_stepped(&mut self, at: TrueTime) -> Option<Act> {
        let now = self.clocks.now(at);
        let Machine::Holder(holding) = &mut self.machine else {
            return None;
        };
        (holding.confirmed && holding.gate.look(now) == GateView::Doubt)
            .then_some(Act::GateDoubt(holding.epoch))
    }

    fn look(&mut self, at: TrueTime) -> Look {
        Look { now: self.clocks.now(at), entropy: self.entropy.next_u64() }
    }

    fn become_candidate(&mut self, pen: Pen) {
        let rng = Rng::new(self.entropy.next_u64());
        let candidate = Candidate::new(pen, self.config, rng);
        self.machine = Machine::Candidate(Box::new(candidate));
    }

    fn candidate_act(&mut self, at: TrueTime, output: CandidateOutput) -> Act {
        match output {
            CandidateOutput::Request { request, operation } => Act::Request(at, request, operation),
            CandidateOutput::Survey { request } => Act::Survey(request),
            CandidateOutput::Event(event) => Act::Tell(Telling::Candidate(event)),
            CandidateOutput::Failed(reason) => Act::Die(reason),
            CandidateOutput::Stopped => unreachable!("nobody asks a candidate to stop here"),
            CandidateOutput::Seen(_) => unreachable!("skipped"),
            CandidateOutput::RetakeFailed(_) => unreachable!("nobody holds a candidate off here"),
            CandidateOutput::Acquired(tenure) => {
                let look = self.look(at);
                let rng = Rng::new(self.entropy.next_u64());
                let epoch = tenure.record.epoch;
                let known_nonce = tenure.record.nonce.counter;
                let Machine::Candidate(candidate) = std::mem::replace(&mut self.machine, Machine::Down)
                else {
                    unreachable!("a candidate gave this output")
                };
                let valid = GateOrder::Open { until: tenure.ends_at(), offset: WallOffset::at(look.now) };
                let mut holder = Holder::new(candidate.into_pen(), tenure, rng, look);
                holder.confirm(look);
                self.machine = Machine::Holder(Box::new(Holding {
                    holder,
                    epoch,
                    gate: Gate::default(),
                    valid,
                    confirmed: false,
                    known_nonce,
                }));
                Act::Fence(epoch)
            }
        }
    }

    fn release_act(&mut self, at: TrueTime, output: ReleaseOutput) -> Act {
        match output {
            ReleaseOutput::Request { request, operation } => Act::Request(at, request, operation),
            ReleaseOutput::Ended(outcome) => {
                let until = self.look(at).now.instant.saturating_add(HOLD_OFF);
                let Machine::Release(release) = std::mem::replace(&mut self.machine, Machine::Down) else {
                    unreachable!("a release gave this output")
                };
                self.machine = Machine::HoldOff { pen: Some(release.into_pen()), until };
                Act::Tell(Telling::Released(outcome))
            }
        }
    }
}

impl Holding {
    fn act(&mut self, at: TrueTime, output: HolderOutput) -> Act {
        match output {
            HolderOutput::Request { request, operation } => Act::Request(at, request, operation),
            HolderOutput::Valid { until, offset } => {
                self.valid = GateOrder::Open { until, offset };
                self.known_nonce = self.holder.tenure().record.nonce.counter;
                if self.confirmed {
                    self.gate.order(self.valid);
                    self.opened(until)
                } else {
                    Act::Known { nonce: self.known_nonce }
                }
            }
            HolderOutput::Doubt => {
                self.gate.order(GateOrder::Doubt);
                Act::GateDoubt(self.epoch)
            }
            HolderOutput::Confirmed => {
                self.confirmed = true;
                self.gate.order(self.valid);
                let GateOrder::Open { until, .. } = self.valid else {
                    unreachable!("only openings are kept")
                };
                self.opened(until)
            }
            HolderOutput::TrimmedBelow(_) => unreachable!("nobody trims here"),
            HolderOutput::Event(event) => Act::Tell(Telling::Holder(event)),
            HolderOutput::Lost(reason) => Act::Die(reason),
        }
    }

    fn opened(&self, until: Instant) -> Act {
        Act::GateOpen { epoch: self.epoch, until, nonce: self.known_nonce }
    }
}
