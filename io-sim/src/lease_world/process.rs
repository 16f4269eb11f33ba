//! One process of a lease world: the control plane of the core, its clocks, its gate, and what a freeze
//! keeps from happening.

use std::collections::VecDeque;

use dexzd_core::gate::{Gate, GateOrder, GateView};
use dexzd_core::ids::{CallId, Epoch, Name, ProcessId};
use dexzd_core::lease::{CandidateConfig, LeaseInput, Look};
use dexzd_core::node::{Input, Node, NodeConfig, Output, Period, Role};
use dexzd_core::rng::Rng;

use super::plane::Plane;
use super::{LeaseConfig, NODE};
use crate::TrueTime;
use crate::clock::Clocks;
use crate::dice::{Dice, Stream};
use crate::watch::{ProcessNumber, Seen, Watchers};

/// What a process wants done. It may be done long after it was decided.
#[derive(Debug)]
pub(super) struct Decided {
    /// Its holder clock then, in microseconds.
    pub(super) instant_us: u64,
    /// What the process was then.
    pub(super) role: Role,
    /// Whether it was hot then.
    pub(super) is_hot: bool,
    pub(super) output: Output,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: ProcessNumber,
    pub(super) clocks: Clocks,
    /// Raised by every death: what was meant for an earlier life is dropped.
    pub(super) life: u32,
    pub(super) frozen_until: TrueTime,
    pub(super) starved_until: TrueTime,
    pub(super) blacked_out_until: TrueTime,
    pub(super) browned_out_until: TrueTime,
    /// What came while it was frozen.
    pub(super) queue: VecDeque<Input>,
    /// Outputs that a freeze kept from being sent.
    pub(super) late: VecDeque<Decided>,
    pub(super) plane: Plane,
    pub(super) gate: Gate,
    /// Whose gate that is.
    pub(super) epoch: Option<Epoch>,
    pub(super) node: Option<Box<Node>>,
    /// The period of its present role (D-16).
    pub(super) period: Period,
    next_call: u64,
    pub(super) released: Option<Epoch>,
    /// The last nonce of its own that it knew to stand in the lease.
    known_nonce: u64,
    entropy: Rng,
    timer_at: Option<TrueTime>,
    config: Option<NodeConfig>,
    /// Everything it was ever told in this life, where copies may be made of it.
    told: Option<Vec<(Look, Input)>>,
}

impl Process {
    pub(super) fn new(number: ProcessNumber, clocks: Clocks, may_be_copied: bool) -> Self {
        Self {
            number,
            clocks,
            life: 0,
            frozen_until: 0,
            starved_until: 0,
            blacked_out_until: 0,
            browned_out_until: 0,
            queue: VecDeque::new(),
            late: VecDeque::new(),
            plane: Plane::default(),
            gate: Gate::default(),
            epoch: None,
            node: None,
            period: Period::default(),
            next_call: 0,
            released: None,
            known_nonce: 0,
            entropy: Rng::new(0),
            timer_at: None,
            config: None,
            told: may_be_copied.then(Vec::new),
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
        let node = NodeConfig {
            node_id: Name::new(NODE),
            process_id,
            lease_duration: config.duration,
            candidate: CandidateConfig {
                probe_stamp_ms,
                fail_if_held: config.fail_if_held,
                ..CandidateConfig::default()
            },
            standby: config.standby[usize::from(self.number)],
            attempt_drain_timeout: std::time::Duration::from_micros(config.drain_timeout),
            seed: dice.seed(stream, "node"),
        };
        self.node = Some(Box::new(Node::new(node.clone())));
        self.config = Some(node);
        if let Some(told) = &mut self.told {
            told.clear();
        }
    }

    pub(super) fn die(&mut self) {
        self.life += 1;
        self.node = None;
        self.epoch = None;
        self.gate = Gate::default();
        self.period = Period::default();
        self.known_nonce = 0;
        self.released = None;
        self.queue.clear();
        self.late.clear();
        self.frozen_until = 0;
        self.starved_until = 0;
        self.timer_at = None;
        self.plane = Plane::of_disk(self.plane.has_disk);
    }

    /// Goes on as a copy of another process: its identity, its generator, its memory, its clocks. Only what
    /// the operating system draws from now on differs. Nothing that the other has sent is answered here.
    pub(super) fn become_copy_of(&mut self, other: &Self, entropy: u64) {
        self.die();
        let (Some(config), Some(told)) = (&other.config, &other.told) else {
            return;
        };
        let mut node = Node::new(config.clone());
        while node.poll_output().is_some() {}
        for (look, input) in told {
            node.handle(*look, input.clone());
            while node.poll_output().is_some() {}
        }
        self.node = Some(Box::new(node));
        self.config = Some(config.clone());
        self.told = Some(told.clone());
        self.clocks = other.clocks;
        self.gate = other.gate.clone();
        self.epoch = other.epoch;
        self.period = other.period;
        self.known_nonce = other.known_nonce;
        self.released = other.released;
        self.plane = other.plane.clone();
        self.entropy = Rng::new(entropy);
    }

    pub(super) fn lives(&self, life: u32) -> bool {
        self.life == life && self.is_running()
    }

    pub(super) const fn is_running(&self) -> bool {
        self.node.is_some()
    }

    pub(super) const fn is_frozen(&self, at: TrueTime) -> bool {
        self.frozen_until > at
    }

    pub(super) fn role(&self) -> Option<Role> {
        self.node.as_ref().map(|node| node.role())
    }

    /// Who it is in this life, or was in the last one.
    pub(super) fn process_id(&self) -> ProcessId {
        self.config.as_ref().map_or(ProcessId(0), |config| config.process_id)
    }

    pub(super) fn standby_is_hot(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.standby.is_hot())
    }

    pub(super) fn call(&mut self) -> CallId {
        self.next_call += 1;
        CallId(self.next_call)
    }

    pub(super) fn handle(&mut self, at: TrueTime, input: Input, watchers: &mut Watchers) {
        let look = Look { now: self.clocks.now(at), entropy: self.entropy.next_u64() };
        let Some(node) = &mut self.node else {
            return;
        };
        if let Some(told) = &mut self.told {
            told.push((look, input.clone()));
        }
        let was_shown = matches!(input, Input::Lease(LeaseInput::Read { .. }));
        node.handle(look, input);
        let (process, instant_us) = (self.number, look.now.instant.as_micros());
        if let Some(tenure) = node.tenure()
            && tenure.record.nonce.counter != self.known_nonce
        {
            let nonce = tenure.record.nonce.counter;
            self.known_nonce = nonce;
            let (epoch, until_us) = (tenure.record.epoch, tenure.ends_at().as_micros());
            watchers.show(at, &Seen::RenewalKnown { process, nonce });
            watchers.show(at, &Seen::Prolonged { process, epoch, nonce, instant_us, until_us });
        }
        if was_shown
            && node.role() == Role::Waiting
            && let Some((due, timer)) = node.poll_timeout()
        {
            let is_hot = node.health(look.now.instant).is_hot_standby;
            let (is_hot_mode, due_us) = (self.standby_is_hot(), due.as_micros());
            watchers.show(at, &Seen::Planned { process, is_hot_mode, is_hot, timer, due_us, instant_us });
        }
    }

    pub(super) fn poll(&mut self, at: TrueTime) -> Option<Decided> {
        let node = self.node.as_mut()?;
        let output = node.poll_output()?;
        let (now, role) = (self.clocks.now(at).instant, node.role());
        let is_hot = matches!((&output, role), (Output::Lease { .. }, Role::Waiting))
            && node.health(now).is_hot_standby;
        Some(Decided { instant_us: now.as_micros(), role, is_hot, output })
    }

    /// When the process wants to be called, if that is news.
    pub(super) fn new_timer(&mut self, at: TrueTime) -> Option<TrueTime> {
        let due = self.node.as_ref().and_then(|node| node.poll_timeout());
        let due = due.map(|(instant, _)| self.clocks.when_instant(instant).max(at));
        if due == self.timer_at {
            return None;
        }
        self.timer_at = due;
        due
    }

    /// Clocks changed: the timer rings at another time.
    pub(super) fn forget_timer(&mut self) {
        self.timer_at = None;
    }

    /// Whether the timer that was set rings now.
    pub(super) fn take_timer(&mut self, at: TrueTime) -> bool {
        let rings = self.timer_at.is_some_and(|due| due <= at);
        if rings {
            self.timer_at = None;
        }
        rings
    }

    // --- the gate ---

    pub(super) fn order_gate(&mut self, at: TrueTime, order: GateOrder, watchers: &mut Watchers) {
        let Some(epoch) = self.epoch else {
            return;
        };
        let was_shut = self.gate.is_closed();
        self.gate.order(order);
        let process = self.number;
        if matches!(order, GateOrder::Open { .. })
            && !was_shut
            && self.node.as_ref().is_none_or(|it| it.tenure().is_none())
        {
            // The tenure ended in the same breath: the order to close comes next.
            return;
        }
        match (order, self.gate.look(self.clocks.now(at))) {
            (GateOrder::Open { until, .. }, GateView::Open) => {
                let until = self.clocks.when_instant(until);
                watchers.show(at, &Seen::GateOpen { process, epoch, until });
            }
            (GateOrder::Close, _) => watchers.show(at, &Seen::GateShut { process, epoch }),
            (GateOrder::Open { .. } | GateOrder::Doubt, _) => {
                watchers.show(at, &Seen::GateOpen { process, epoch, until: at });
            }
        }
    }

    /// A clock changed: whoever looks at the gate from now on may find another end, or doubt.
    pub(super) fn look_at_gate(&mut self, at: TrueTime, watchers: &mut Watchers) {
        let now = self.clocks.now(at);
        let (Some(epoch), Some(node)) = (self.epoch, &self.node) else {
            return;
        };
        let process = self.number;
        match self.gate.look(now) {
            GateView::Shut => {}
            GateView::Doubt => watchers.show(at, &Seen::GateOpen { process, epoch, until: at }),
            GateView::Open => {
                if let Some(tenure) = node.tenure() {
                    let until = self.clocks.when_instant(tenure.ends_at());
                    watchers.show(at, &Seen::GateOpen { process, epoch, until });
                }
            }
        }
    }

    /// What a prober sees: the node's own words, at this moment.
    pub(super) fn probed(&mut self, at: TrueTime, watchers: &mut Watchers) {
        let Some(node) = &self.node else {
            return;
        };
        let now = self.clocks.now(at).instant;
        let (health, gauges) = (node.health(now), node.standby_gauges(now));
        let seen = Seen::HealthLook {
            process: self.number,
            is_hot_mode: self.standby_is_hot(),
            health,
            gauges,
            instant_us: now.as_micros(),
        };
        watchers.show(at, &seen);
    }
}
