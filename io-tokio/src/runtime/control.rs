//! The control plane's thread: drives `core::node`, starts its requests, and carries its orders out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dexzd_core::ids::{Position, RequestId};
use dexzd_core::lease::{LeaseInput, LeaseOperation, Look};
use dexzd_core::node::{Input, Node, Output};
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, WriteOutcome};
use tokio::sync::watch;

use super::admin::AdminDesk;
use super::event::EventSink;
use super::messages::{
    ApplyMessage, ApplySender, ControlSender, DataMessage, DataSender, LogMessage, LogSender, Tenure,
};
use super::view::NodeView;
use super::watchdog::Watchdog;
use crate::clock::{Clock, entropy};
use crate::gate::Gate;
use crate::store::ObjectStore;

/// Without a timer `node` is looked at this often; it always has one while it holds a lease.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

pub(super) struct ControlPlane {
    pub(super) node: Node,
    pub(super) inbox: Receiver<Input>,
    /// To itself: replies of requests, and looks that found doubt.
    pub(super) own: ControlSender,
    pub(super) data: DataSender,
    pub(super) log: LogSender,
    pub(super) apply: ApplySender,
    /// Whether lease and log are on a shared store.
    pub(super) is_shared: bool,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) lease_key: Arc<str>,
    pub(super) clock: Arc<Clock>,
    pub(super) watchdog: Watchdog,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) view: watch::Sender<NodeView>,
    /// Of the newest tenure; the view follows it.
    pub(super) gate: Gate,
    pub(super) admin: Arc<AdminDesk>,
    /// The newest durable position of this tenure: read before every look, so that a commit wakes nobody (D-53).
    pub(super) durable: Arc<AtomicU64>,
    pub(super) durable_told: u64,
}

impl ControlPlane {
    /// Runs until `node` ends the process; returns its exit status and reason.
    pub(super) fn run(mut self) -> (u8, StopReason) {
        loop {
            let mut end = None;
            while let Some(output) = self.node.poll_output() {
                end = end.or(self.perform(output));
            }
            // After everything that comes with it: whoever sees the role finds the gate and the engine
            // as they should be.
            self.show();
            if let Some(end) = end {
                self.admin.close(end.1);
                return end;
            }
            match self.next_input() {
                Some(input) => self.handle(input),
                None => self.handle(Input::Tick),
            }
        }
    }

    /// What already waits comes before what became due (D-57).
    fn next_input(&self) -> Option<Input> {
        let sleep = match self.node.poll_timeout() {
            Some((due, _)) => due.saturating_since(self.clock.now().instant),
            None => LONGEST_SLEEP,
        };
        match self.inbox.recv_timeout(sleep) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                unreachable!("the control plane holds a sender to itself")
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let durable = self.durable.load(Ordering::Acquire);
        if durable > self.durable_told {
            self.durable_told = durable;
            let look = self.look();
            self.node.handle(look, Input::Durable(Position(durable)));
        }
        let look = self.look();
        self.node.handle(look, input);
    }

    fn look(&self) -> Look {
        Look { now: self.clock.now(), entropy: entropy() }
    }

    fn perform(&mut self, output: Output) -> Option<(u8, StopReason)> {
        match output {
            Output::Lease { request, operation } => self.start_request(request, operation),
            Output::Survey { request } => self.log.send(LogMessage::Survey { request }),
            Output::OpenLog(open) => {
                self.gate = self.new_gate();
                self.durable = Arc::default();
                self.durable_told = 0;
                self.data.send(DataMessage::OpenLog(Tenure {
                    open,
                    period: self.node.period().number,
                    durable: Arc::clone(&self.durable),
                }));
            }
            Output::BuildEngine { epoch: _ } => self.data.send(DataMessage::BuildEngine),
            Output::Engine(order) => self.data.send(DataMessage::Order(order)),
            Output::Gate(order) => self.gate.order(order),
            Output::Watchdog { exit_at } => self.watchdog.set(exit_at),
            Output::LeaseWritten { sent_at } => self.apply.send(ApplyMessage::LeaseWritten { sent_at }),
            // On a shared store the keeper of snapshots trims, else the log itself.
            Output::TrimmedBelow(position) if self.is_shared => {
                self.apply.send(ApplyMessage::TrimmedBelow { position });
            }
            Output::TrimmedBelow(position) => self.log.send(LogMessage::TrimBelow { position }),
            Output::Event(event) => self.events.node(&event),
            Output::Follow(order) => self.data.send(DataMessage::Follow(order)),
            Output::Admin { call, answer } => self.admin.answer(call, answer),
            Output::Exit { code, reason } => return Some((code, reason)),
        }
        None
    }

    /// Shows what the node is now; wakes those who watch only if it shows.
    fn show(&self) {
        let standing = self.node.standing();
        let view = NodeView {
            role: self.node.role(),
            epoch: self.node.epoch(),
            period: self.node.period(),
            standing,
            is_hot: standing.is_hot(self.clock.now().instant),
            gate: self.gate.clone(),
        };
        self.view.send_if_modified(|shown| {
            let wakes = !view.looks_like(shown);
            *shown = view;
            wakes
        });
    }

    fn new_gate(&self) -> Gate {
        let own = self.own.clone();
        Gate::new(Arc::clone(&self.clock), move |jumped_at| own.send(Input::GateJumped(jumped_at)))
    }

    /// Every request has a thread of its own: one that hangs delays no other, is never cancelled, and
    /// its end counts whenever it comes (D-8, lesson 10). There are a few per lease duration.
    fn start_request(&self, request: RequestId, operation: LeaseOperation) {
        let store = Arc::clone(&self.store);
        let key = Arc::clone(&self.lease_key);
        let own = self.own.clone();
        let failed = lease_reply(request, &operation, None);
        let started = thread::Builder::new().name("dexzd-lease".to_owned()).spawn(move || {
            let reply = lease_reply(request, &operation, Some((&*store, &key)));
            own.send(Input::Lease(reply));
        });
        if started.is_err() {
            // Out of threads or memory for the moment: like a store that does not answer.
            self.own.send(Input::Lease(failed));
        }
    }
}

/// Does what is asked. Without a store: the answer of one that could not be reached.
fn lease_reply(
    request: RequestId,
    operation: &LeaseOperation,
    store: Option<(&dyn ObjectStore, &str)>,
) -> LeaseInput {
    let written = |outcome| LeaseInput::Written { request, outcome };
    let transient = WriteOutcome::Transient { retry_after_ms: None };
    match operation {
        LeaseOperation::Read => LeaseInput::Read {
            request,
            outcome: store
                .map_or(ReadOutcome::Transient { retry_after_ms: None }, |(store, key)| store.read(key)),
        },
        LeaseOperation::Create { body } => {
            written(store.map_or(transient, |(store, key)| store.create(key, body)))
        }
        LeaseOperation::Update { expected, body } => {
            written(store.map_or(transient, |(store, key)| store.replace(key, body, expected)))
        }
    }
}
