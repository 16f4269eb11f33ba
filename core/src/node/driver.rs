//! Drives a node through virtual time, so that a test reads as a script. The lease's store answers at
//! once, unless the script holds it back; the data plane is the script.

use std::vec::Vec;

use super::{
    AdminAnswer, AdminCode, AdminError, AdminReason, AdminRequest, FollowOrder, Input, Node, NodeConfig,
    NodeEvent, Output, Role,
};
use crate::engine::{NodeOrder, NodeReport};
use crate::gate::{Gate, GateView};
use crate::ids::{CallId, Epoch, Name, RequestId};
use crate::lease::driver::{ME, Store, node, seconds};
use crate::lease::{CandidateConfig, LeaseInput, LeaseOperation, LeaseRecord, LeaseState, Look, Survey};
use crate::standby::StandbyConfig;
use crate::stop::StopReason;
use crate::time::{Instant, Now, SlowInstant, Timestamp};

pub(super) struct Driver {
    pub(super) node: Node,
    pub(super) store: Store,
    pub(super) gate: Gate,
    /// The store does not answer while this is set; the requests wait here.
    pub(super) is_store_silent: bool,
    pub(super) unanswered: Vec<(RequestId, LeaseOperation)>,
    pub(super) survey: Survey,
    pub(super) exit: Option<(u8, StopReason)>,
    pub(super) watchdog: Option<Instant>,
    /// When the lease writes were sent that are known to have landed.
    pub(super) lease_written: Vec<Instant>,
    micros: u64,
    wall_jump_micros: u64,
    entropy: u64,
    told: Vec<Output>,
    roles: Vec<Role>,
    events: Vec<NodeEvent>,
    answers: Vec<(CallId, Answer)>,
    follows: Vec<FollowOrder>,
    calls: u64,
}

fn config(standby: StandbyConfig, candidate: CandidateConfig) -> NodeConfig {
    NodeConfig {
        node_id: node(),
        process_id: ME,
        lease_duration: seconds(10),
        candidate,
        standby,
        attempt_drain_timeout: core::time::Duration::from_secs(30),
        seed: 7,
    }
}

/// The last try of a release may leave in the very look that gives it up.
fn takes(operation: &LeaseOperation) -> bool {
    match operation {
        LeaseOperation::Read => false,
        LeaseOperation::Create { body } | LeaseOperation::Update { body, .. } => {
            let record = LeaseRecord::decode(body, &node()).expect("a readable lease");
            record.state == LeaseState::Held
        }
    }
}

pub(super) type Answer = Result<AdminAnswer, AdminError>;

impl Driver {
    pub(super) fn new(candidate: CandidateConfig, store: Store) -> Self {
        Self::standing_by(StandbyConfig::default(), candidate, store)
    }

    pub(super) fn hot(store: Store) -> Self {
        Self::standing_by(StandbyConfig::hot(), CandidateConfig::default(), store)
    }

    /// Serves epoch 1 since 0 under a lease of this length.
    pub(super) fn with_lease_seconds(lease_seconds: u64) -> Self {
        let config = NodeConfig {
            lease_duration: seconds(lease_seconds),
            ..config(StandbyConfig::default(), CandidateConfig::default())
        };
        let mut driver = Self::with_config(config, Store::default());
        driver.until_ms(0);
        driver.recover();
        driver
    }

    fn standing_by(standby: StandbyConfig, candidate: CandidateConfig, store: Store) -> Self {
        Self::with_config(config(standby, candidate), store)
    }

    fn with_config(config: NodeConfig, store: Store) -> Self {
        let mut driver = Self {
            node: Node::new(config),
            store,
            gate: Gate::default(),
            is_store_silent: false,
            unanswered: Vec::new(),
            survey: Survey::default(),
            exit: None,
            watchdog: None,
            lease_written: Vec::new(),
            micros: 0,
            wall_jump_micros: 0,
            entropy: 0,
            told: Vec::new(),
            roles: Vec::new(),
            events: Vec::new(),
            answers: Vec::new(),
            follows: Vec::new(),
            calls: 0,
        };
        driver.drain();
        driver
    }

    /// A process that serves epoch 1 since 0.
    pub(super) fn active() -> Self {
        let mut driver = Self::new(CandidateConfig::default(), Store::default());
        driver.until_ms(0);
        driver.recover();
        driver
    }

    /// A hot standby that took a free lease, and serves its epoch.
    pub(super) fn hot_active(store: Store) -> Self {
        let mut driver = Self::hot(store);
        driver.until_ms(1_600);
        driver.recover();
        driver
    }

    /// From the lease to serving.
    pub(super) fn recover(&mut self) {
        self.input(Input::LogFenced);
        self.input(Input::Engine(NodeReport::Recovered));
        assert_eq!(self.node.role(), Role::Active);
        self.told();
        self.roles();
        self.follows();
        self.events();
    }

    /// The drain ends at once, everything is durable, nothing can leave any more: the release goes out.
    pub(super) fn drain_and_close(&mut self) {
        for report in [NodeReport::Drained, NodeReport::Committed, NodeReport::Closed] {
            self.input(Input::Engine(report));
        }
    }

    /// On a connection opened just now.
    pub(super) fn call(&mut self, request: AdminRequest) -> CallId {
        let opened_in = self.node.period().number;
        self.call_on(opened_in, request)
    }

    pub(super) fn call_on(&mut self, opened_in: super::Period, request: AdminRequest) -> CallId {
        self.calls += 1;
        let call = CallId(self.calls);
        self.input(Input::Admin { call, opened_in, request });
        call
    }

    pub(super) fn describe(&mut self) -> Answer {
        let call = self.call(AdminRequest::Describe);
        self.answer_of(call).expect("describe is answered at once")
    }

    pub(super) fn step_down(&mut self, epoch: u64) -> CallId {
        self.call(AdminRequest::StepDown { node_id: node(), epoch: Epoch(epoch) })
    }

    /// What a step down gets that is refused at once.
    pub(super) fn refused_step_down(&mut self, epoch: u64) -> (AdminCode, AdminReason) {
        let call = self.step_down(epoch);
        let answer = self.answer_of(call).expect("it is answered at once");
        let AdminError { code, reason } = answer.expect_err("it is refused");
        (code, reason)
    }

    pub(super) fn refused_step_down_of(&mut self, node_id: &str, epoch: u64) -> (AdminCode, AdminReason) {
        let call = self.call(AdminRequest::StepDown { node_id: Name::new(node_id), epoch: Epoch(epoch) });
        let answer = self.answer_of(call).expect("it is answered at once");
        let AdminError { code, reason } = answer.expect_err("it is refused");
        (code, reason)
    }

    /// The answer of this call, if it has one by now.
    pub(super) fn answer_of(&mut self, call: CallId) -> Option<Answer> {
        let index = self.answers.iter().position(|(it, _)| *it == call)?;
        let (_, answer) = self.answers.remove(index);
        assert!(self.answers.iter().all(|(it, _)| *it != call), "a call is answered once");
        Some(answer)
    }

    pub(super) fn follows(&mut self) -> Vec<FollowOrder> {
        core::mem::take(&mut self.follows)
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.micros / 1_000
    }

    pub(super) fn now(&self) -> Now {
        Now {
            instant: Instant::from_micros(self.micros),
            slow: SlowInstant::from_micros(self.micros),
            wall: Timestamp::from_micros(1_700_000_000_000_000 + self.micros + self.wall_jump_micros),
        }
    }

    pub(super) fn input(&mut self, input: Input) {
        self.entropy += 1;
        let look = Look { now: self.now(), entropy: self.entropy };
        self.node.handle(look, input);
        self.drain();
    }

    pub(super) fn until_ms(&mut self, ms: u64) {
        let end = ms * 1_000;
        for _ in 0..100_000 {
            match self.node.poll_timeout() {
                Some((at, _)) if at.as_micros() <= end && self.exit.is_none() => {
                    self.micros = self.micros.max(at.as_micros());
                    self.input(Input::Tick);
                }
                Some(_) | None => {
                    self.micros = self.micros.max(end);
                    return;
                }
            }
        }
        panic!("timers do not let time pass: {:?}", self.node.poll_timeout());
    }

    /// Time passes with an engine that reports every second.
    pub(super) fn alive_until_ms(&mut self, ms: u64) {
        while self.micros < ms * 1_000 {
            let next = (self.micros / 1_000 + 1_000).min(ms);
            self.until_ms(next);
            if self.exit.is_some() {
                return;
            }
            self.input(Input::EngineAlive);
        }
    }

    pub(super) fn freeze_until_ms(&mut self, ms: u64) {
        self.micros = ms * 1_000;
    }

    pub(super) fn jump_wall_ms(&mut self, ms: u64) {
        self.wall_jump_micros += ms * 1_000;
    }

    pub(super) fn look_at_gate(&mut self) -> GateView {
        let now = self.now();
        self.gate.look(now)
    }

    /// The store answers what waits, and everything from now on.
    pub(super) fn answer(&mut self) {
        self.is_store_silent = false;
        for (request, operation) in core::mem::take(&mut self.unanswered) {
            self.serve(request, &operation);
        }
    }

    /// What was decided, without events, lease traffic and watchdog.
    pub(super) fn told(&mut self) -> Vec<Output> {
        core::mem::take(&mut self.told)
    }

    pub(super) fn orders(&mut self) -> Vec<NodeOrder> {
        self.told()
            .into_iter()
            .filter_map(|output| if let Output::Engine(order) = output { Some(order) } else { None })
            .collect()
    }

    pub(super) fn roles(&mut self) -> Vec<Role> {
        core::mem::take(&mut self.roles)
    }

    pub(super) fn events(&mut self) -> Vec<NodeEvent> {
        core::mem::take(&mut self.events)
    }

    pub(super) fn epoch_in_lease(&self) -> Epoch {
        self.store.record().epoch
    }

    fn serve(&mut self, request: RequestId, operation: &LeaseOperation) {
        let input = if *operation == LeaseOperation::Read {
            LeaseInput::Read { request, outcome: self.store.read() }
        } else {
            LeaseInput::Written { request, outcome: self.store.write(operation) }
        };
        self.input(Input::Lease(input));
    }

    fn drain(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Lease { request, operation } => {
                    let holds_off = self.node.role() == Role::HoldOff;
                    assert!(!holds_off || !takes(&operation), "it only watches (HA-99)");
                    if self.is_store_silent {
                        self.unanswered.push((request, operation));
                    } else {
                        self.serve(request, &operation);
                    }
                }
                Output::Survey { request } => {
                    let survey = Some(self.survey);
                    self.input(Input::Lease(LeaseInput::Surveyed { request, survey }));
                }
                Output::Gate(order) => {
                    self.gate.order(order);
                    self.told.push(output);
                }
                Output::Watchdog { exit_at } => self.watchdog = exit_at,
                Output::LeaseWritten { sent_at } => self.lease_written.push(sent_at),
                Output::Event(event) => {
                    if let NodeEvent::RoleChanged { role, .. } = event {
                        self.roles.push(role);
                    }
                    self.events.push(event);
                }
                Output::Follow(order) => self.follows.push(order),
                Output::Admin { call, answer } => self.answers.push((call, answer)),
                Output::Exit { code, reason } => {
                    assert_eq!(self.exit, None, "a process ends once");
                    self.exit = Some((code, reason));
                }
                Output::OpenLog(_) => {
                    // One per tenure (D-47); where the epoch was raised, nobody has opened the first.
                    self.gate = Gate::default();
                    self.told.push(output);
                }
                Output::BuildEngine { .. } | Output::Engine(_) | Output::TrimmedBelow(_) => {
                    self.told.push(output)
                }
            }
        }
    }
}
