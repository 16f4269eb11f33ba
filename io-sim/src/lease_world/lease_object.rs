//! The lease object and the store around it: requests on their way, the start-up probe, people's hands.

use dexzd_core::ids::{Blob, Name, Position, RequestId};
use dexzd_core::lease::{LeaseOperation, LeaseRecord, LeaseState, Survey};
use dexzd_core::node::{Input, Role};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::{Event, LeaseWorld, Mishap, NODE, Sent, describe};
use crate::TrueTime;
use crate::dice::Stream;
use crate::store::{Operation, StoreAnswer};
use crate::swarm::StoreFaults;
use crate::watch::{ProcessNumber, Seen};
use crate::weather::{self, Fate, Heard, Sky};

/// So many states of the lease may be brought back.
const KEPT_STATES: usize = 32;
/// Where the format number stands in an encoded lease: behind the head of the array.
const FORMAT_BYTE: usize = 1;

/// A request on its way.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) process: ProcessNumber,
    life: u32,
    id: RequestId,
    operation: LeaseOperation,
    record: Option<LeaseRecord>,
    heard: Heard,
}

impl LeaseWorld {
    pub(super) fn send(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        decided: (u64, Role, bool),
        id: RequestId,
        operation: LeaseOperation,
    ) {
        let record = match &operation {
            LeaseOperation::Read => None,
            LeaseOperation::Create { body } | LeaseOperation::Update { body, .. } => {
                Some(LeaseRecord::decode(body, &Name::new(NODE)).expect("the core writes whole leases"))
            }
        };
        let fate = self.fate(at, number, &operation, record.as_ref());
        self.trace.mix(id.0);
        self.trace.line(at, || describe::request(number, id, record.as_ref(), fate));
        self.trace.message(at, number, fate, || describe::request(number, id, record.as_ref(), fate));
        self.show_sent(at, number, decided, (id, &operation), record.as_ref());
        let life = self.processes[usize::from(number)].life;
        if let Some((after, input)) = fate.heard.early(id, &operation) {
            self.heap.push(at + after, Event::Input(number, life, Input::Lease(input)));
        }
        for (after, heard) in fate.landings() {
            let (operation, record) = (operation.clone(), record.clone());
            let request = Request { process: number, life, id, operation, record, heard };
            self.heap.push(at + after, Event::Lands(Box::new(request)));
        }
    }

    /// Shows what a request means: a look, a takeover, a renewal, or the end of an epoch.
    fn show_sent(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        (instant_us, role, is_hot): (u64, Role, bool),
        (request, operation): (RequestId, &LeaseOperation),
        record: Option<&LeaseRecord>,
    ) {
        let Some(record) = record else {
            self.watchers.show(at, &Seen::LeaseAsked { process: number, request, instant_us });
            return;
        };
        let process = &mut self.processes[usize::from(number)];
        let is_hot_mode = process.standby_is_hot();
        let epoch = record.epoch;
        let seen = match (role, record.state) {
            (_, LeaseState::Free) if process.released == Some(epoch) => return,
            (_, LeaseState::Free) => {
                process.released = Some(epoch);
                Seen::ReleaseSent { process: number, epoch }
            }
            (Role::Waiting | Role::Withdrawing | Role::HoldOff, LeaseState::Held) => {
                let base = match operation {
                    LeaseOperation::Update { expected, .. } => Some(expected),
                    LeaseOperation::Create { .. } | LeaseOperation::Read => None,
                };
                let process = number;
                Seen::TakeoverSent { process, epoch, request, base, is_hot_mode, is_hot, instant_us }
            }
            (_, LeaseState::Held) => {
                Seen::RenewalSent { process: number, epoch, nonce: record.nonce.counter, instant_us }
            }
        };
        self.watchers.show(at, &seen);
    }

    fn fate(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        operation: &LeaseOperation,
        record: Option<&LeaseRecord>,
    ) -> Fate {
        let sent = Sent { process: number, at, operation, record };
        if let Some(fate) = self.intercept.as_mut().and_then(|it| it(sent)) {
            return fate;
        }
        let process = &self.processes[usize::from(number)];
        let sky = if process.blacked_out_until > at {
            Sky::BlackOut
        } else if process.browned_out_until > at {
            Sky::BrownOut
        } else {
            Sky::Clear
        };
        let mut faults = self.faults;
        if self.config.slow_process == Some(number) && !self.healed {
            faults = StoreFaults { slow: 300_000, very_slow: 50_000, ..faults };
        }
        weather::fate(&mut self.dice, &faults, sky)
    }

    pub(super) fn lands(&mut self, at: TrueTime, request: Request) {
        let operation = match request.operation {
            LeaseOperation::Read => Operation::Read,
            LeaseOperation::Create { body } => Operation::Create(body),
            LeaseOperation::Update { expected, body } => Operation::Update { expected, body },
        };
        self.choose_server();
        let body = match &operation {
            Operation::Create(body) | Operation::Update { body, .. } => Some(body.clone()),
            Operation::Read | Operation::Delete | Operation::List => None,
        };
        let key = self.lease_key.clone();
        let answer = self.store.apply(at, &key, operation);
        self.trace.event(at, 400 + u64::from(request.process));
        if let (Some(record), StoreAnswer::Write(WriteOutcome::Done { .. })) = (&request.record, &answer) {
            self.trace.line(at, || format!("store: {}", describe::record(record)));
            self.watchers.show(at, &Seen::LeaseLanded { process: request.process, record });
            self.keep_state(body.expect("a write has a body"));
        }
        if let Heard::Answer { after } = request.heard {
            let input = match answer {
                StoreAnswer::Write(outcome) => {
                    dexzd_core::lease::LeaseInput::Written { request: request.id, outcome }
                }
                StoreAnswer::Read(outcome) => {
                    dexzd_core::lease::LeaseInput::Read { request: request.id, outcome }
                }
                StoreAnswer::Listing(_) => unreachable!("the lease is never listed"),
            };
            let event = Event::Input(request.process, request.life, Input::Lease(input));
            self.heap.push(at + after, event);
        }
    }

    /// Which of the store's two servers takes the next request matters only where their clocks differ.
    fn choose_server(&mut self) {
        if self.store.skews_ms[0] != self.store.skews_ms[1] {
            self.store.server = usize::from(self.dice.chance(Stream::Store, "second_server", 500_000));
        }
    }

    pub(super) fn survey(&self) -> Survey {
        Survey {
            anything: !self.fences.is_empty(),
            highest_epoch: self.fences.iter().map(|fence| fence.0).max().unwrap_or_default(),
            fence_duration_ms: self.fences.last().map(|fence| fence.1),
            newest_manifest: Position(0),
        }
    }

    /// The start-up probe (D-31): the stamp of its last write, or what the store does wrong.
    pub(super) fn probe_store(&mut self, at: TrueTime) -> Result<Option<u64>, &'static str> {
        self.choose_server();
        let (key, missing) = (Name::new("node/probe"), Name::new("node/probe/missing"));
        let body = |text: &[u8]| Blob::from(text);
        let store = &mut self.store;
        let mut write = |key: &Name, operation| match store.apply(at, key, operation) {
            StoreAnswer::Write(WriteOutcome::Done { version }) => Some(version),
            StoreAnswer::Write(_) | StoreAnswer::Read(_) | StoreAnswer::Listing(_) => None,
        };
        write(&key, Operation::Delete);
        let Some(first) = write(&key, Operation::Create(body(b"1"))) else {
            return Err("it does not create a new object");
        };
        if write(&key, Operation::Create(body(b"2"))).is_some() {
            return Err("it creates an object that exists");
        }
        let update = |expected: &Version, text: &[u8]| Operation::Update {
            expected: expected.clone(),
            body: body(text),
        };
        if write(&key, update(&first, b"3")).is_none() {
            return Err("it refuses an update of the present version");
        }
        if write(&key, update(&first, b"4")).is_some() {
            return Err("it updates a version that is no more");
        }
        if write(&missing, update(&first, b"5")).is_some() {
            return Err("it updates an object that is missing");
        }
        let read = store.apply(at, &key, Operation::Read);
        store.apply(at, &key, Operation::Delete);
        match read {
            StoreAnswer::Read(ReadOutcome::Found { stamp_ms, .. }) => Ok(stamp_ms),
            StoreAnswer::Read(_) | StoreAnswer::Write(_) | StoreAnswer::Listing(_) => {
                Err("it does not show what was written last")
            }
        }
    }

    // --- people's hands ---

    fn keep_state(&mut self, body: Blob) {
        if self.states.len() == KEPT_STATES {
            self.states.pop_front();
        }
        self.states.push_back(body);
    }

    pub(super) fn mishap(&mut self, at: TrueTime, mishap: Mishap) {
        self.trace.event(at, 200);
        self.trace.line(at, || format!("somebody's hand: {mishap:?}"));
        let key = self.lease_key.clone();
        let present = self.store.peek(&key).cloned();
        let newest = self.states.back().cloned();
        let written = match mishap {
            Mishap::Delete => {
                self.store.lose(&key);
                self.watchers.show(at, &Seen::LeaseLost);
                return;
            }
            Mishap::StepStoreClock { server, by_ms } => {
                self.store.step_clock(server, by_ms);
                return;
            }
            Mishap::CutShort => present.map(|body| Blob::from(&body[..body.len() / 2])),
            Mishap::Flip => present.map(|body| {
                let mut bytes = body.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
                Blob::from(bytes.as_slice())
            }),
            Mishap::NewerFormat => present.map(|body| {
                let mut bytes = body.to_vec();
                bytes[FORMAT_BYTE] += 1;
                Blob::from(bytes.as_slice())
            }),
            Mishap::Mend => {
                let readable =
                    present.as_ref().is_none_or(|body| LeaseRecord::decode(body, &Name::new(NODE)).is_ok());
                newest.filter(|_| !readable)
            }
            Mishap::Restore { back } => {
                let back = usize::try_from(back).unwrap_or(usize::MAX);
                self.states.len().checked_sub(back + 1).map(|index| self.states[index].clone())
            }
        };
        if let Some(body) = written {
            self.choose_server();
            self.store.put_by_hand(at, &key, body);
            self.watchers.show(at, &Seen::LeaseLost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FORMAT_BYTE;
    use dexzd_core::ids::{Epoch, Name, Position, ProcessId};
    use dexzd_core::lease::{LeaseDuration, LeaseRecord, LeaseState, Nonce, Unreadable};

    #[test]
    fn the_format_number_stands_where_a_newer_version_is_made_up() {
        let record = LeaseRecord {
            node_id: Name::new("node"),
            epoch: Epoch(3),
            holder: ProcessId(1),
            state: LeaseState::Held,
            duration: LeaseDuration::DEFAULT,
            nonce: Nonce { process_id: ProcessId(1), counter: 1, entropy: 2 },
            trimmed_below: Position(0),
            log_end: Position(0),
        };
        let mut bytes = record.encode().to_vec();
        bytes[FORMAT_BYTE] += 1;
        assert_eq!(
            LeaseRecord::decode(&bytes, &Name::new("node")),
            Err(Unreadable::NewerFormat { found: 2 })
        );
    }
}
