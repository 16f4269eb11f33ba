//! Drives a lease machine through virtual time, so that a test reads as a script.

use std::vec::Vec;

use super::record::{LeaseRecord, LeaseState, Nonce};
use super::{
    Candidate, CandidateConfig, CandidateOutput, Holder, HolderEvent, HolderOutput, LeaseDuration,
    LeaseInput, LeaseOperation, LeaseTimer, Look, Pen, Release, ReleaseOutput, Tenure,
};
use crate::ids::{Blob, Epoch, Name, Position, ProcessId, RequestId};
use crate::rng::Rng;
use crate::store::{ReadOutcome, Version, WriteOutcome};
use crate::time::{Instant, Now, SlowInstant, Timestamp};

pub(crate) const ME: ProcessId = ProcessId(0x11);
pub(crate) const OTHER: ProcessId = ProcessId(0x22);
const WALL_AT_ZERO: u64 = 1_700_000_000_000_000;

pub(crate) fn node() -> Name {
    Name::new("node-a")
}

pub(crate) fn seconds(seconds: u64) -> LeaseDuration {
    LeaseDuration::from_millis(seconds * 1_000).expect("a legal duration")
}

pub(crate) fn held_by(holder: ProcessId, epoch: u64, counter: u64) -> LeaseRecord {
    LeaseRecord {
        node_id: node(),
        epoch: Epoch(epoch),
        holder,
        state: LeaseState::Held,
        duration: seconds(10),
        nonce: Nonce { process_id: holder, counter, entropy: 0 },
        trimmed_below: Position(3),
        log_end: Position(40),
    }
}

pub(crate) fn free_from(holder: ProcessId, epoch: u64) -> LeaseRecord {
    LeaseRecord { state: LeaseState::Free, ..held_by(holder, epoch, 900) }
}

/// One object with a counter for a version.
#[derive(Debug, Default)]
pub(crate) struct Store {
    version: u64,
    body: Option<Blob>,
    pub(crate) stamp_ms: Option<u64>,
}

impl Store {
    pub(crate) fn put(&mut self, record: &LeaseRecord) -> Version {
        self.put_bytes(record.encode())
    }

    pub(crate) fn put_bytes(&mut self, body: Blob) -> Version {
        self.version += 1;
        self.body = Some(body);
        self.current()
    }

    pub(crate) fn delete(&mut self) {
        self.body = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_none()
    }

    pub(crate) fn record(&self) -> LeaseRecord {
        LeaseRecord::decode(self.body.as_ref().expect("there is a lease"), &node()).expect("a readable lease")
    }

    fn current(&self) -> Version {
        Version(Blob::from(self.version.to_be_bytes().as_slice()))
    }

    pub(crate) fn write(&mut self, operation: &LeaseOperation) -> WriteOutcome {
        let body = match operation {
            LeaseOperation::Create { body } if self.body.is_none() => body,
            LeaseOperation::Update { expected, body }
                if self.body.is_some() && *expected == self.current() =>
            {
                body
            }
            LeaseOperation::Create { .. } | LeaseOperation::Update { .. } => return WriteOutcome::Refused,
            LeaseOperation::Read => panic!("a read is no write"),
        };
        WriteOutcome::Done { version: self.put_bytes(body.clone()) }
    }

    pub(crate) fn read(&self) -> ReadOutcome {
        match &self.body {
            None => ReadOutcome::Missing,
            Some(body) => {
                ReadOutcome::Found { version: self.current(), body: body.clone(), stamp_ms: self.stamp_ms }
            }
        }
    }
}

pub(crate) trait Machine {
    type Output: core::fmt::Debug + PartialEq;
    fn handle(&mut self, look: Look, input: LeaseInput);
    fn poll_output(&mut self) -> Option<Self::Output>;
    fn poll_timeout(&self) -> Option<(Instant, LeaseTimer)>;
    fn request(output: &Self::Output) -> Option<(RequestId, LeaseOperation)>;
    /// What stands in the lease: told so often that a script asks for it only where it matters.
    fn seen(_output: &Self::Output) -> Option<&LeaseRecord> {
        None
    }
}

macro_rules! machine {
    ($machine:ident, $output:ident $(, $seen:item)?) => {
        impl Machine for $machine {
            $($seen)?
            type Output = $output;
            fn handle(&mut self, look: Look, input: LeaseInput) {
                self.handle(look, input);
            }
            fn poll_output(&mut self) -> Option<$output> {
                self.poll_output()
            }
            fn poll_timeout(&self) -> Option<(Instant, LeaseTimer)> {
                self.poll_timeout()
            }
            fn request(output: &$output) -> Option<(RequestId, LeaseOperation)> {
                if let $output::Request { request, operation } = output {
                    Some((*request, operation.clone()))
                } else {
                    None
                }
            }
        }
    };
}
machine!(
    Candidate,
    CandidateOutput,
    fn seen(output: &CandidateOutput) -> Option<&LeaseRecord> {
        if let CandidateOutput::Seen(record) = output { Some(record) } else { None }
    }
);
machine!(Holder, HolderOutput);
machine!(Release, ReleaseOutput);

/// A request the machine sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) at_micros: u64,
    pub(crate) request: RequestId,
    pub(crate) operation: LeaseOperation,
}

impl Sent {
    pub(crate) fn at_ms(&self) -> f64 {
        f64::from(u32::try_from(self.at_micros).expect("a short script")) / 1_000.0
    }

    pub(crate) fn is_read(&self) -> bool {
        self.operation == LeaseOperation::Read
    }

    pub(crate) fn record(&self) -> LeaseRecord {
        match &self.operation {
            LeaseOperation::Create { body } | LeaseOperation::Update { body, .. } => {
                LeaseRecord::decode(body, &node()).expect("the machine writes readable leases")
            }
            LeaseOperation::Read => panic!("a read has no record"),
        }
    }
}

pub(crate) struct Driver<M: Machine> {
    pub(crate) machine: M,
    pub(crate) store: Store,
    micros: u64,
    /// What the wall clock jumped by.
    wall_jump_micros: i64,
    /// What the candidate's clock did not count.
    slow_lag_micros: u64,
    entropy: u64,
    sent: Vec<Sent>,
    told: Vec<M::Output>,
    seen: Vec<LeaseRecord>,
}

impl<M: Machine> Driver<M> {
    pub(crate) fn at(micros: u64, machine: M, store: Store) -> Self {
        let mut driver = Self {
            machine,
            store,
            micros,
            wall_jump_micros: 0,
            slow_lag_micros: 0,
            entropy: 0,
            sent: Vec::new(),
            told: Vec::new(),
            seen: Vec::new(),
        };
        driver.drain();
        driver
    }

    pub(crate) fn look(&mut self) -> Look {
        self.entropy += 1;
        let wall = i64::try_from(WALL_AT_ZERO + self.micros).expect("fits") + self.wall_jump_micros;
        Look {
            now: Now {
                instant: Instant::from_micros(self.micros),
                slow: SlowInstant::from_micros(self.micros.saturating_sub(self.slow_lag_micros)),
                wall: Timestamp::from_micros(u64::try_from(wall).expect("after 1970")),
            },
            entropy: self.entropy,
        }
    }

    pub(crate) fn now_micros(&self) -> u64 {
        self.micros
    }

    pub(crate) fn input(&mut self, input: LeaseInput) {
        let look = self.look();
        self.machine.handle(look, input);
        self.drain();
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match M::request(&output) {
                Some((request, operation)) => {
                    self.sent.push(Sent { at_micros: self.micros, request, operation });
                }
                None => match M::seen(&output) {
                    Some(record) => self.seen.push(record.clone()),
                    None => self.told.push(output),
                },
            }
        }
    }

    /// Lets time pass, timers included; replies must come from the script.
    pub(crate) fn until_ms(&mut self, ms: u64) {
        self.until_micros(ms * 1_000);
    }

    pub(crate) fn until_micros(&mut self, end: u64) {
        for _ in 0..100_000 {
            match self.machine.poll_timeout() {
                Some((at, _)) if at.as_micros() <= end => {
                    self.micros = self.micros.max(at.as_micros());
                    self.input(LeaseInput::Tick);
                }
                Some(_) | None => {
                    self.micros = self.micros.max(end);
                    return;
                }
            }
        }
        panic!("the machine's timers do not let time pass: {:?}", self.machine.poll_timeout());
    }

    /// The process sees nothing until then: no timer fires.
    pub(crate) fn freeze_until_ms(&mut self, ms: u64) {
        self.micros = ms * 1_000;
    }

    /// The process was suspended until then; only the holder's clock counts that.
    pub(crate) fn suspend_until_ms(&mut self, ms: u64) {
        self.slow_lag_micros += ms * 1_000 - self.micros;
        self.micros = ms * 1_000;
    }

    pub(crate) fn jump_wall_ms(&mut self, ms: i64) {
        self.wall_jump_micros += ms * 1_000;
    }

    /// The one request that waits.
    pub(crate) fn sent(&mut self) -> Sent {
        assert_eq!(self.sent.len(), 1, "exactly one request: {:?}", self.sent);
        self.sent.remove(0)
    }

    pub(crate) fn all_sent(&mut self) -> Vec<Sent> {
        core::mem::take(&mut self.sent)
    }

    pub(crate) fn told(&mut self) -> Vec<M::Output> {
        core::mem::take(&mut self.told)
    }

    /// The records that were told.
    pub(crate) fn seen(&mut self) -> Vec<LeaseRecord> {
        core::mem::take(&mut self.seen)
    }

    /// It takes effect now; the answer is not delivered.
    pub(crate) fn land(&mut self, sent: &Sent) -> WriteOutcome {
        self.store.write(&sent.operation)
    }

    pub(crate) fn answer_write(&mut self, sent: &Sent, outcome: WriteOutcome) {
        self.input(LeaseInput::Written { request: sent.request, outcome });
    }

    pub(crate) fn answer_read(&mut self, sent: &Sent, outcome: ReadOutcome) {
        self.input(LeaseInput::Read { request: sent.request, outcome });
    }

    /// Takes effect and is answered now.
    pub(crate) fn serve(&mut self, sent: &Sent) {
        if sent.is_read() {
            let outcome = self.store.read();
            self.answer_read(sent, outcome);
        } else {
            let outcome = self.store.write(&sent.operation);
            self.answer_write(sent, outcome);
        }
    }

    pub(crate) fn serve_next(&mut self) -> Sent {
        let sent = self.sent();
        self.serve(&sent);
        sent
    }

    /// A store that answers everything after a constant time, applied halfway. Returns what was sent.
    pub(crate) fn run_with_latency(&mut self, end_ms: u64, latency_ms: u64) -> Vec<Sent> {
        enum Leg {
            There(Sent),
            Back(Sent, Result<WriteOutcome, ReadOutcome>),
        }
        let half = latency_ms * 500;
        let mut legs: Vec<(u64, Leg)> = Vec::new();
        let mut log = Vec::new();
        loop {
            for sent in self.all_sent() {
                log.push(sent.clone());
                legs.push((self.micros + half, Leg::There(sent)));
            }
            legs.sort_by_key(|(at, _)| *at);
            let due = legs.first().map_or(u64::MAX, |(at, _)| *at);
            let timer = self.machine.poll_timeout().map_or(u64::MAX, |(at, _)| at.as_micros());
            let next = due.min(timer).max(self.micros);
            if next > end_ms * 1_000 || (due == u64::MAX && timer == u64::MAX) {
                self.micros = self.micros.max(end_ms * 1_000);
                return log;
            }
            self.micros = next;
            if due <= timer {
                match legs.remove(0).1 {
                    Leg::There(sent) => {
                        let outcome = if sent.is_read() {
                            Err(self.store.read())
                        } else {
                            Ok(self.store.write(&sent.operation))
                        };
                        legs.push((next + half, Leg::Back(sent, outcome)));
                    }
                    Leg::Back(sent, Ok(outcome)) => self.answer_write(&sent, outcome),
                    Leg::Back(sent, Err(outcome)) => self.answer_read(&sent, outcome),
                }
            } else {
                self.input(LeaseInput::Tick);
            }
        }
    }
}

/// A candidate that has not been called yet.
pub(crate) fn candidate(config: CandidateConfig, store: Store) -> Driver<Candidate> {
    let pen = Pen::new(node(), ME, seconds(10));
    Driver::at(0, Candidate::new(pen, config, Rng::new(7)), store)
}

/// A holder whose acquisition (epoch 7) was sent at 0.
pub(crate) fn holder(duration: LeaseDuration) -> Driver<Holder> {
    let mut store = Store::default();
    let mut record = held_by(ME, 7, 0);
    record.duration = duration;
    let version = store.put(&record);
    let tenure = Tenure { record, version, since: Instant::ZERO };
    let wall = Timestamp::from_micros(WALL_AT_ZERO);
    let look = Look { now: Now { wall, ..Now::default() }, entropy: 0 };
    let machine = Holder::new(Pen::new(node(), ME, duration), tenure, Rng::new(7), look);
    let mut driver = Driver::at(0, machine, store);
    driver.told();
    driver
}

impl Driver<Holder> {
    /// What was told, without what is only for people.
    pub(crate) fn decided(&mut self) -> Vec<HolderOutput> {
        let mut told = self.told();
        told.retain(|output| !matches!(output, HolderOutput::Event(_)));
        told
    }

    pub(crate) fn valid_until_ms(&self) -> f64 {
        let micros = u32::try_from(self.machine.tenure().ends_at().as_micros()).expect("a short script");
        f64::from(micros) / 1_000.0
    }

    pub(crate) fn adoptions(told: &[HolderOutput]) -> usize {
        told.iter()
            .filter(|output| matches!(output, HolderOutput::Event(HolderEvent::Adopted { .. })))
            .count()
    }

    /// Gives the lease back from now on.
    pub(crate) fn release(self, limit_ms: u64) -> Driver<Release> {
        let mut this = self;
        let look = this.look();
        let release = this.machine.release(look, core::time::Duration::from_millis(limit_ms));
        let mut driver = Driver::at(this.micros, release, this.store);
        driver.entropy = this.entropy + 1;
        driver
    }
}
