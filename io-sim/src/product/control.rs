//! Starts processes and performs what `node` wants.

use dexzd_core::gate::{GateOrder, GateView};
use dexzd_core::ids::{Blob, Epoch, Name, ProcessId, RequestId};
use dexzd_core::lease::{CandidateConfig, LeaseInput, LeaseOperation, LeaseRecord, LeaseState, Look, Survey};
use dexzd_core::log::{Entry, EntryBody};
use dexzd_core::node::{Input, Node, NodeConfig, NodeEvent, Output};
use dexzd_core::rng::Rng;
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, WriteOutcome};
use dexzd_core::time::Instant;

use super::event::Event;
use super::orders::Strike;
use super::process::{Plane, ToData};
use super::storms::Prefix;
use super::{NODE, Place, ProductWorld, numbered};
use crate::TrueTime;
use crate::dice::Stream;
use crate::log_store::{DiskLog, SyncMode};
use crate::store::{Operation, StoreAnswer};
use crate::watch::{ProcessNumber, Seen};
use crate::weather::Heard;
use crate::{MILLISECOND, SECOND};

/// `lifecycle.attemptDrainTimeout` of the simulation: shorter than the default, so that runs are.
const DRAIN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// The key of the lease.
pub(super) const LEASE: &str = "node/lease";

/// A lease request on its way.
#[derive(Clone, Debug)]
pub(super) struct LeaseRequest {
    process: ProcessNumber,
    life: u32,
    request: RequestId,
    operation: LeaseOperation,
    record: Option<LeaseRecord>,
    heard: Heard,
}

impl ProductWorld {
    /// A process starts, with the disk and the local store of its last life.
    pub(super) fn start(&mut self, at: TrueTime, number: ProcessNumber) {
        let stream = Stream::Jitter(number);
        let high = self.dice.seed(stream, "process_id");
        let low = self.dice.seed(stream, "process_id");
        // Told apart even where a script draws nothing but zeros.
        let life = self.processes[usize::from(number)].life;
        let own = u128::from(life) << 8 | u128::from(number + 1);
        let process_id = ProcessId((u128::from(high) << 64 | u128::from(low)) ^ own);
        let entropy = self.dice.seed(stream, "entropy");
        let config = NodeConfig {
            node_id: Name::new(NODE),
            process_id,
            lease_duration: self.config.duration_of(number),
            candidate: CandidateConfig {
                fail_if_held: false,
                lock_held: self.config.place == Place::Disk,
                probe_stamp_ms: None,
            },
            attempt_drain_timeout: DRAIN_TIMEOUT,
            standby: self.config.standby_of(number),
            seed: self.dice.seed(stream, "node"),
        };
        self.watchers.show(at, &Seen::Started { process: number, process_id });
        let place = self.config.place;
        let process = &mut self.processes[usize::from(number)];
        process.process_id = process_id;
        process.entropy = Rng::new(entropy);
        process.node = Some(Node::new(config));
        if place == Place::Disk {
            let log = DiskLog::open(&mut process.disk, SyncMode::Strict);
            process.log = Some(log);
            self.show_disk(at, number);
        }
        self.drain_node(at, number);
    }

    pub(super) fn node_input(&mut self, at: TrueTime, number: ProcessNumber, input: Input) {
        self.trace.event(at, u64::from(number));
        self.trace.add(&input);
        self.trace.reading(at, number, &self.processes[usize::from(number)].clocks);
        let look = self.look(at, number);
        let Some(node) = &mut self.processes[usize::from(number)].node else {
            return;
        };
        node.handle(look, input);
        self.drain_node(at, number);
    }

    pub(super) fn node_tick(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &mut self.processes[usize::from(number)];
        if process.node_timer.is_some_and(|due| due <= at) {
            process.node_timer = None;
            self.node_input(at, number, Input::Tick);
        }
    }

    /// The clock's step is a look of somebody sooner or later; the gate is looked at right away.
    pub(super) fn step_wall(&mut self, at: TrueTime, number: ProcessNumber, by: i64) {
        let process = &mut self.processes[usize::from(number)];
        process.clocks.wall.step(at, by);
        let now = process.clocks.now(at);
        if let Some(epoch) = process.epoch
            && process.gate.look(now) == GateView::Doubt
        {
            let seen = Seen::GateOpen { process: number, epoch, until: at };
            self.watchers.show(at, &seen);
        }
    }

    fn look(&mut self, at: TrueTime, number: ProcessNumber) -> Look {
        let process = &mut self.processes[usize::from(number)];
        Look { now: process.clocks.now(at), entropy: process.entropy.next_u64() }
    }

    pub(super) fn drain_node(&mut self, at: TrueTime, number: ProcessNumber) {
        let index = usize::from(number);
        let life = self.processes[index].life;
        loop {
            let process = &mut self.processes[index];
            let output = match process.stalled_node.take() {
                Some(stalled) => *stalled,
                None => {
                    let Some(output) = process.node.as_mut().and_then(Node::poll_output) else {
                        break;
                    };
                    self.trace.add(&output);
                    process.stalled_node = Some(Box::new(output));
                    match self.strikes_at_output(at, number) {
                        Strike::Nothing => continue,
                        Strike::Frozen | Strike::Dead => return,
                    }
                }
            };
            self.perform_node(at, number, output);
            if !self.processes[index].lives(life) {
                return;
            }
        }
        self.probe(at, number);
        let process = &mut self.processes[index];
        let due = process.node.as_ref().and_then(Node::poll_timeout);
        let due = due.map(|(instant, _)| process.clocks.when_instant(instant).max(at));
        if due != process.node_timer {
            process.node_timer = due;
            if let Some(due) = due {
                self.heap.push(due, Event::NodeTimer(number, life));
            }
        }
    }

    /// What probes see.
    fn probe(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &mut self.processes[usize::from(number)];
        let Some(node) = &process.node else {
            return;
        };
        let now = process.clocks.now(at).instant;
        let seen = Seen::Probed {
            process: number,
            role: node.role(),
            is_hot_mode: self.config.is_hot(number),
            health: node.health(now),
            gauges: node.standby_gauges(now),
        };
        self.watchers.show(at, &seen);
    }

    fn perform_node(&mut self, at: TrueTime, number: ProcessNumber, output: Output) {
        let index = usize::from(number);
        match output {
            Output::Lease { request, operation } => self.send_lease(at, number, request, operation),
            Output::Survey { request } => {
                let survey = Some(self.survey(number));
                let takes = self.dice.between(Stream::Store, "survey", MILLISECOND, 100 * MILLISECOND);
                let input = Input::Lease(LeaseInput::Surveyed { request, survey });
                self.tell_node(at + takes, number, input);
            }
            Output::OpenLog(open) => {
                let process = &mut self.processes[index];
                process.epoch = Some(open.epoch);
                process.gate = dexzd_core::gate::Gate::default();
                self.trace.line(at, || format!("p{number} opens the log for epoch {}", open.epoch));
                self.tell_data(at, number, ToData::Open(open));
            }
            Output::BuildEngine { .. } => self.tell_data(at, number, ToData::Build),
            Output::Engine(order) => {
                let input = dexzd_core::engine::Input::Node(order);
                self.tell_data(at, number, ToData::Engine(input));
            }
            Output::Gate(order) => self.order_gate(at, number, order),
            Output::Watchdog { exit_at } => self.set_watchdog(at, number, exit_at),
            Output::LeaseWritten { sent_at } => {
                self.tell_data(at, number, ToData::LeaseWritten(sent_at));
            }
            Output::TrimmedBelow(position) => {
                self.tell_data(at, number, ToData::TrimmedBelow(position));
            }
            Output::Event(event) => {
                self.trace.line(at, || format!("p{number} {event:?}"));
                if let NodeEvent::SteppingDown { epoch } = event {
                    self.watchers.show(at, &Seen::SteppingDown { process: number, epoch });
                }
            }
            Output::Follow(order) => self.tell_data(at, number, ToData::Follow(order)),
            Output::Admin { call, answer } => self.admin_answered(at, number, call, &answer),
            Output::Exit { reason, .. } => self.die(at, number, Some(reason), false),
        }
    }

    fn order_gate(&mut self, at: TrueTime, number: ProcessNumber, order: GateOrder) {
        let process = &mut self.processes[usize::from(number)];
        let Some(epoch) = process.epoch else {
            return;
        };
        process.gate.order(order);
        let view = process.gate.look(process.clocks.now(at));
        let seen = match (order, view) {
            (GateOrder::Open { until, .. }, GateView::Open) => {
                let until = process.clocks.when_instant(until);
                Seen::GateOpen { process: number, epoch, until }
            }
            (GateOrder::Close, _) => Seen::GateShut { process: number, epoch },
            (GateOrder::Open { .. } | GateOrder::Doubt, _) => {
                Seen::GateOpen { process: number, epoch, until: at }
            }
        };
        self.watchers.show(at, &seen);
        self.trace.line(at, || format!("p{number} gate of epoch {epoch}: {order:?}"));
        let held = std::mem::take(&mut self.processes[usize::from(number)].held);
        for leaving in held {
            self.leave(at, number, leaving);
        }
    }

    fn send_lease(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        request: RequestId,
        operation: LeaseOperation,
    ) {
        let record = match &operation {
            LeaseOperation::Read => None,
            LeaseOperation::Create { body } | LeaseOperation::Update { body, .. } => {
                Some(LeaseRecord::decode(body, &Name::new(NODE)).expect("the core writes whole leases"))
            }
        };
        let process = &mut self.processes[usize::from(number)];
        if let Some(record) = &record
            && record.state == LeaseState::Free
            && process.released != Some(record.epoch)
        {
            process.released = Some(record.epoch);
            self.watchers.show(at, &Seen::ReleaseSent { process: number, epoch: record.epoch });
        }
        if let Some(record) = &record {
            self.watchers.show(at, &Seen::LeaseSent { process: number, nonce: record.nonce });
        }
        let fate = self.fate(at, number, Prefix::Lease);
        let told = || {
            let what = record.as_ref().map_or_else(
                || "reads the lease".to_owned(),
                |record| format!("writes the lease, epoch {} {:?}", record.epoch, record.state),
            );
            format!("p{number} {} {what} {fate:?}", numbered(request))
        };
        self.trace.line(at, told);
        self.trace.message(at, number, fate, told);
        if let Some((after, input)) = fate.heard.early(request, &operation) {
            self.tell_node(at + after, number, Input::Lease(input));
        }
        let life = self.processes[usize::from(number)].life;
        let sent = LeaseRequest { process: number, life, request, operation, record, heard: fate.heard };
        for (after, heard) in fate.landings() {
            let landing = LeaseRequest { heard, ..sent.clone() };
            self.heap.push(at + after, Event::LeaseLands(Box::new(landing)));
        }
    }

    pub(super) fn lease_lands(&mut self, at: TrueTime, request: LeaseRequest) {
        let operation = match request.operation.clone() {
            LeaseOperation::Read => Operation::Read,
            LeaseOperation::Create { body } => Operation::Create(body),
            LeaseOperation::Update { expected, body } => Operation::Update { expected, body },
        };
        let body = match &operation {
            Operation::Create(body) | Operation::Update { body, .. } => Some(body.clone()),
            Operation::Read | Operation::Delete | Operation::List => None,
        };
        let LeaseRequest { process, life, request, record, heard, .. } = request;
        let mut answer = self.store.apply(at, &Name::new(LEASE), operation);
        self.trace.event(at, 400 + u64::from(process));
        if let StoreAnswer::Read(ReadOutcome::Found { body, .. }) = &mut answer {
            *body = self.perhaps_damaged(body.clone());
        }
        if let (Some(record), StoreAnswer::Write(WriteOutcome::Done { .. })) = (&record, &answer) {
            self.trace.line(at, || format!("store: lease of epoch {} {:?}", record.epoch, record.state));
            self.watchers.show(at, &Seen::LeaseLanded { process, record });
            self.lease_writes.extend(body);
        }
        if let Heard::Answer { after } = heard
            && self.processes[usize::from(process)].lives(life)
        {
            let input = match answer {
                StoreAnswer::Write(outcome) => LeaseInput::Written { request, outcome },
                StoreAnswer::Read(outcome) => LeaseInput::Read { request, outcome },
                StoreAnswer::Listing(_) => unreachable!("the lease is never listed"),
            };
            let event = Event::ToNode(process, life, Box::new(Input::Lease(input)));
            self.heap.push(at + after, event);
        }
    }

    fn survey(&self, number: ProcessNumber) -> Survey {
        let entries: Vec<Blob> = match self.config.place {
            Place::Disk => DiskLog::durable_entries(&self.processes[usize::from(number)].disk),
            Place::Store => self.log_in_store().cloned().collect(),
        };
        let of_snapshots = self.highest_snapshot_epoch();
        let mut survey = Survey {
            anything: !entries.is_empty() || of_snapshots.is_some(),
            highest_epoch: of_snapshots.unwrap_or_default(),
            ..Survey::default()
        };
        for bytes in &entries {
            if let Ok((entry, _)) = Entry::decode(bytes, NODE) {
                survey.highest_epoch = survey.highest_epoch.max(entry.origin.epoch);
                if let EntryBody::Fence { lease_duration_ms } = entry.body {
                    survey.fence_duration_ms = Some(lease_duration_ms);
                }
            }
        }
        survey
    }

    fn set_watchdog(&mut self, at: TrueTime, number: ProcessNumber, exit_at: Option<Instant>) {
        let process = &mut self.processes[usize::from(number)];
        process.watchdog = exit_at;
        if let Some(exit_at) = exit_at {
            let due = process.clocks.when_instant(exit_at).max(at);
            self.heap.push(due, Event::Watchdog(number, process.life));
        }
    }

    /// The lease ended 5 s ago and the process is still there (D-32).
    pub(super) fn watchdog_looks(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &self.processes[usize::from(number)];
        let now = process.clocks.now(at).instant;
        match process.watchdog {
            Some(exit_at) if exit_at <= now => {
                self.trace.line(at, || format!("p{number} is ended by its watchdog"));
                self.die(at, number, Some(StopReason::LeaseExpired), false);
            }
            Some(exit_at) if process.clocks.when_instant(exit_at) <= at => {
                // A clock that was set back meanwhile: another look later.
                self.set_watchdog(at + MILLISECOND, number, Some(exit_at));
            }
            Some(_) | None => {}
        }
    }

    /// At least once a second while there is an engine (D-54); it brings the durable position along (D-53).
    pub(super) fn sign_of_life(&mut self, at: TrueTime, number: ProcessNumber, life: u32) {
        let Plane::Serving(serving) = &self.processes[usize::from(number)].plane else {
            return;
        };
        let durable = serving.durable;
        self.tell_node(at, number, Input::Durable(durable));
        self.heap.push(at + SECOND * 9 / 10, Event::Alive(number, life));
    }

    /// The epoch whose gate this process has, or 0.
    pub(super) fn epoch_of(&self, number: ProcessNumber) -> Epoch {
        self.processes[usize::from(number)].epoch.unwrap_or_default()
    }
}
