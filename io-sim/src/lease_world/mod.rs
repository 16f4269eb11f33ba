//! Processes that compete for one lease, and nothing else: the lease machines of the core, clocks, a
//! store. Thousands of seeds a second.
//!
//! ```text
//! LeaseWorld::new(config, dice, watchers, trace)
//! world.order_at(time, order)      what a scenario wants to happen
//! world.run_until(time)            what a seed wants to happen
//! world.finish()                   the first broken rule, if there is one
//! ```

mod config;
mod process;

use dexzd_core::ids::{Blob, Name, RequestId};
use dexzd_core::lease::{LeaseDuration, LeaseInput, LeaseOperation, LeaseRecord, LeaseState, Survey};
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, WriteOutcome};

pub use config::{ClockFaults, LeaseConfig, ProcessFaults};
pub use process::Role;

use crate::TrueTime;
use crate::dice::{Dice, Stream};
use crate::heap::EventHeap;
use crate::lease_world::process::{Act, Process};
use crate::store::{Operation, Store, StoreAnswer};
use crate::swarm::StoreFaults;
use crate::trace::Trace;
use crate::watch::{ProcessNumber, Seen, Violation, Watchers};
use crate::weather::{self, Fate, Heard, Sky};
use crate::{MILLISECOND, SECOND};

/// The node all of them serve.
pub const NODE: &str = "node";

/// What an operator, a test or the swarm does to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Start it, if it does not run.
    Start,
    /// SIGKILL.
    Kill,
    /// Give the lease back, if it is held (a step down: it competes again after the hold-off).
    Release,
    /// SIGSTOP for so long.
    Freeze(TrueTime),
    /// The wall clock jumps by so many microseconds.
    StepWall(i64),
    /// Nothing reaches the store for so long.
    BlackOut(TrueTime),
    /// The machine pauses for so long and its monotonic clocks do not count it; `true`: the wall clock does.
    UncountedPause(TrueTime, bool),
}

/// A request on its way, as a scenario sees it.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Who sends it.
    pub process: ProcessNumber,
    /// When.
    pub at: TrueTime,
    /// What it asks.
    pub operation: &'a LeaseOperation,
    /// The record it would write.
    pub record: Option<&'a LeaseRecord>,
}

/// Decides the fate of a request instead of the dice.
pub type Intercept = Box<dyn FnMut(Sent<'_>) -> Option<Fate>>;

#[derive(Debug)]
enum Event {
    /// A request takes effect.
    Lands(Box<Request>),
    /// A process hears something.
    Reply(ProcessNumber, u32, LeaseInput),
    /// A process wants to be called.
    Timer(ProcessNumber, u32),
    /// Somebody wants something.
    Order(ProcessNumber, Order),
    /// A pause ends that the monotonic clocks did not count.
    Uncounted(ProcessNumber, TrueTime, bool),
    /// The lease object is lost by somebody's hand.
    LoseLease,
    /// Faults end.
    Heal,
}

#[derive(Debug)]
struct Request {
    process: ProcessNumber,
    life: u32,
    id: RequestId,
    operation: LeaseOperation,
    record: Option<LeaseRecord>,
    heard: Heard,
}

/// Processes, a store, and the lease between them.
pub struct LeaseWorld {
    config: LeaseConfig,
    dice: Dice,
    heap: EventHeap<Event>,
    trace: Trace,
    watchers: Watchers,
    store: Store,
    lease_key: Name,
    /// Epoch and lease duration of every fence entry.
    fences: Vec<(dexzd_core::ids::Epoch, u64)>,
    processes: Vec<Process>,
    faults: StoreFaults,
    healed: bool,
    intercept: Option<Intercept>,
}

impl std::fmt::Debug for LeaseWorld {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LeaseWorld")
            .field("config", &self.config)
            .field("at", &self.heap.now())
            .finish_non_exhaustive()
    }
}

impl LeaseWorld {
    /// All processes start at once, the first one first.
    #[must_use]
    pub fn new(config: LeaseConfig, mut dice: Dice, watchers: Watchers, trace: Trace) -> Self {
        let mut heap = EventHeap::default();
        let processes = (0..config.processes)
            .map(|number| {
                let start = if number == 0 {
                    0
                } else {
                    dice.between(Stream::Workload, "starts", MILLISECOND, config.latest_start)
                };
                heap.push(start, Event::Order(number, Order::Start));
                Process::new(number, config.clocks.draw(&mut dice, number))
            })
            .collect();
        let mut world = Self {
            faults: config.store,
            store: Store::with_skew(config.store_skew_ms),
            lease_key: Name::new("node/lease"),
            fences: Vec::new(),
            processes,
            healed: false,
            intercept: None,
            config,
            dice,
            heap,
            trace,
            watchers,
        };
        world.plan();
        world
    }

    /// Lets a scenario decide the fate of requests; those it has no opinion on go to the dice.
    pub fn intercept(&mut self, intercept: Intercept) {
        self.intercept = Some(intercept);
    }

    /// Makes something happen.
    pub fn order_at(&mut self, at: TrueTime, process: ProcessNumber, order: Order) {
        self.heap.push(at, Event::Order(process, order));
    }

    /// Removes the lease object at a moment, as an operator's mistake would.
    pub fn lose_lease_at(&mut self, at: TrueTime) {
        self.heap.push(at, Event::LoseLease);
    }

    /// Goes on until everything up to this time has happened, or a rule is broken.
    pub fn run_until(&mut self, until: TrueTime) {
        while !self.watchers.is_broken() && self.heap.next_at().is_some_and(|at| at <= until) {
            let (at, event) = self.heap.pop().expect("it was just seen");
            self.dice.set_now(at);
            self.happen(at, event);
        }
    }

    /// Runs the whole plan: faults, healing, and the time in which everything must come right again.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.run_until(self.config.end());
        self.finish()
    }

    /// The run is over.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn finish(&mut self) -> Result<(), Violation> {
        let at = self.heap.now();
        self.watchers.finish(at)
    }

    /// Now, in true time.
    #[must_use]
    pub fn now(&self) -> TrueTime {
        self.heap.now()
    }

    /// What happened.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What was drawn.
    #[must_use]
    pub fn dice(&self) -> &Dice {
        &self.dice
    }

    /// What happened and what was drawn, once the run is over.
    #[must_use]
    pub fn into_parts(self) -> (Trace, Dice) {
        (self.trace, self.dice)
    }

    /// What a process is.
    #[must_use]
    pub fn role(&self, process: ProcessNumber) -> Role {
        self.processes[usize::from(process)].role()
    }

    /// What stands in the lease.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseRecord> {
        let body = self.store.peek(&self.lease_key)?;
        LeaseRecord::decode(body, &Name::new(NODE)).ok()
    }

    /// Draws crashes, freezes and the rest of the swarm's plan for this run.
    fn plan(&mut self) {
        let faults = self.config.process_faults;
        let end = self.config.heal_at;
        for process in 0..self.config.processes {
            let mut orders = Vec::new();
            let longest = 3 * self.config.duration.as_millis() * MILLISECOND;
            let at_random = |dice: &mut Dice, per_hour: u64| {
                let mut moments = Vec::new();
                if let Some(mean) = (3_600 * SECOND).checked_div(per_hour) {
                    let mut at = 0;
                    loop {
                        at += dice.pause(Stream::Crash, "pause", 2 * mean);
                        if at >= end {
                            break;
                        }
                        moments.push(at);
                    }
                }
                moments
            };
            let dice = &mut self.dice;
            for at in at_random(dice, faults.kills_per_hour) {
                orders.push((at, Order::Kill));
            }
            for at in at_random(dice, faults.freezes_per_hour) {
                let lasts = dice.between(Stream::Crash, "freeze", MILLISECOND, longest);
                orders.push((at, Order::Freeze(lasts)));
            }
            for at in at_random(dice, faults.releases_per_hour) {
                orders.push((at, Order::Release));
            }
            for at in at_random(dice, faults.blackouts_per_hour) {
                let lasts = dice.between(Stream::Crash, "blackout", MILLISECOND, longest);
                orders.push((at, Order::BlackOut(lasts)));
            }
            for at in at_random(dice, faults.wall_steps_per_hour) {
                let by = dice.around(Stream::Crash, "wall_step", 3_600 * SECOND);
                orders.push((at, Order::StepWall(by)));
            }
            for at in at_random(dice, faults.uncounted_pauses_per_hour) {
                let lasts = dice.between(Stream::Crash, "uncounted", MILLISECOND, longest);
                let counts = dice.chance(Stream::Crash, "wall_counts", 500_000);
                orders.push((at, Order::UncountedPause(lasts, counts)));
            }
            for (at, order) in orders {
                self.order_at(at, process, order);
            }
        }
        if self.config.lease_is_lost {
            let at = self.dice.between(Stream::Crash, "lease_lost", 0, end);
            self.lose_lease_at(at);
        }
        self.heap.push(end, Event::Heal);
    }

    fn happen(&mut self, at: TrueTime, event: Event) {
        match event {
            Event::Lands(request) => self.lands(at, *request),
            Event::Reply(number, life, input) => {
                let process = &mut self.processes[usize::from(number)];
                if !process.lives(life) {
                    return;
                }
                process.queue.push_back(input);
                if !process.is_frozen(at) {
                    self.go_on(at, number, life);
                }
            }
            Event::Timer(number, life) => {
                let process = &self.processes[usize::from(number)];
                if !process.lives(life) {
                    return;
                }
                if process.is_frozen(at) {
                    self.heap.push(process.frozen_until, Event::Timer(number, life));
                    return;
                }
                self.go_on(at, number, life);
                let process = &mut self.processes[usize::from(number)];
                if process.lives(life) && !process.is_frozen(at) && process.take_timer(at) {
                    self.input(at, number, LeaseInput::Tick);
                }
            }
            Event::Order(number, order) => self.order(at, number, order),
            Event::Uncounted(number, lasted, wall_counts) => {
                let clocks = &mut self.processes[usize::from(number)].clocks;
                clocks.uncounted_pause(at, lasted, wall_counts);
            }
            Event::LoseLease => {
                self.trace.event(at, 200);
                self.trace.line(at, || "somebody deletes the lease object".to_owned());
                let key = self.lease_key.clone();
                self.store.lose(&key);
                self.watchers.show(at, &Seen::LeaseLost);
            }
            Event::Heal => self.heal(at),
        }
    }

    /// What a process does with what it has, unless it is frozen: first the outputs that a freeze kept
    /// from being sent, then its replies; timers come after both (D-57).
    fn go_on(&mut self, at: TrueTime, number: ProcessNumber, life: u32) {
        let index = usize::from(number);
        loop {
            let process = &mut self.processes[index];
            if !process.lives(life) || process.is_frozen(at) {
                return;
            }
            if let Some(act) = process.late.pop_front() {
                self.perform(at, number, act);
            } else if let Some(input) = process.queue.pop_front() {
                self.input(at, number, input);
            } else {
                return;
            }
        }
    }

    fn heal(&mut self, at: TrueTime) {
        self.trace.event(at, 201);
        self.trace.line(at, || "faults end".to_owned());
        self.healed = true;
        self.faults = StoreFaults::none();
        for number in 0..self.config.processes {
            let process = &mut self.processes[usize::from(number)];
            process.blacked_out_until = at;
            let life = process.life;
            if process.is_frozen(at) {
                process.frozen_until = at;
            }
            self.heap.push(at, Event::Timer(number, life));
            self.heap.push(at, Event::Order(number, Order::Start));
        }
        self.watchers.show(at, &Seen::Healed);
    }

    fn order(&mut self, at: TrueTime, number: ProcessNumber, order: Order) {
        self.trace.event(at, 100 + u64::from(number));
        self.trace.line(at, || format!("p{number} {order:?}"));
        let index = usize::from(number);
        match order {
            Order::Start => {
                if !self.processes[index].is_running() {
                    let probe_stamp = self.probe_stamp_ms(at);
                    self.processes[index].start(&self.config, probe_stamp, &mut self.dice);
                    self.watchers.show(at, &Seen::Started { process: number });
                    self.drain(at, number);
                }
            }
            Order::Kill => {
                if self.processes[index].is_running() {
                    self.die(at, number, None);
                }
            }
            Order::Release => {
                if !self.processes[index].is_frozen(at) {
                    self.processes[index].release(at, &mut self.watchers);
                    self.drain(at, number);
                }
            }
            Order::Freeze(lasts) => {
                let process = &mut self.processes[index];
                process.frozen_until = process.frozen_until.max(at + lasts);
                self.heap.push(process.frozen_until, Event::Timer(number, process.life));
            }
            Order::StepWall(by) => {
                let process = &mut self.processes[index];
                process.clocks.wall.step(at, by);
                if let Some(act) = process.wall_stepped(at) {
                    self.perform(at, number, act);
                }
            }
            Order::BlackOut(lasts) => {
                let process = &mut self.processes[index];
                process.blacked_out_until = process.blacked_out_until.max(at + lasts);
            }
            Order::UncountedPause(lasts, wall_counts) => {
                // It is told from its end: until then the process is frozen.
                let process = &mut self.processes[index];
                if !process.is_frozen(at) {
                    process.frozen_until = at + lasts;
                    let life = process.life;
                    self.heap.push(at + lasts, Event::Uncounted(number, lasts, wall_counts));
                    self.heap.push(at + lasts, Event::Timer(number, life));
                }
            }
        }
    }

    fn input(&mut self, at: TrueTime, number: ProcessNumber, input: LeaseInput) {
        self.trace.event(at, u64::from(number));
        self.trace.add(&input);
        if self.trace.is_watched() && input != LeaseInput::Tick {
            let text = describe_input(&input);
            self.trace.line(at, || format!("p{number} <- {text}"));
        }
        let index = usize::from(number);
        self.trace.reading(at, number, &self.processes[index].clocks);
        self.processes[index].handle(at, input);
        self.drain(at, number);
    }

    /// Polls outputs one by one; the process may die or freeze behind each of them.
    fn drain(&mut self, at: TrueTime, number: ProcessNumber) {
        let index = usize::from(number);
        let life = self.processes[index].life;
        while let Some(act) = self.processes[index].poll(at) {
            if !self.healed {
                let faults = self.config.process_faults;
                if self.dice.chance(Stream::Crash, "at_output", faults.kills_per_million_outputs) {
                    self.die(at, number, None);
                    return;
                }
                if self.dice.chance(Stream::Crash, "freeze_at_output", faults.freezes_per_million_outputs) {
                    let longest = 3 * self.config.duration.as_millis() * MILLISECOND;
                    let lasts = self.dice.between(Stream::Crash, "freeze", MILLISECOND, longest);
                    self.trace.line(at, || format!("p{number} Freeze({lasts}) before it sends"));
                    let process = &mut self.processes[index];
                    process.frozen_until = process.frozen_until.max(at + lasts);
                    self.heap.push(process.frozen_until, Event::Timer(number, life));
                }
            }
            if self.processes[index].is_frozen(at) {
                self.processes[index].late.push_back(act);
                continue;
            }
            self.perform(at, number, act);
            if !self.processes[index].lives(life) {
                return;
            }
        }
        if let Some(due) = self.processes[index].new_timer(at) {
            self.heap.push(due, Event::Timer(number, life));
        }
    }

    fn perform(&mut self, at: TrueTime, number: ProcessNumber, act: Act) {
        match act {
            Act::Request(decided_at, id, operation) => self.send(at, decided_at, number, id, operation),
            Act::Survey(id) => {
                let survey = self.survey();
                let process = &self.processes[usize::from(number)];
                let input = LeaseInput::Surveyed { request: id, survey: Some(survey) };
                let life = process.life;
                let takes = self.dice.between(Stream::Store, "survey", MILLISECOND, 200 * MILLISECOND);
                self.heap.push(at + takes, Event::Reply(number, life, input));
            }
            Act::Fence(epoch) => {
                self.trace.line(at, || format!("p{number} acquired epoch {epoch}, writes its fence"));
                // A late create can land after the lease object was deleted, and bring an old epoch
                // back: the log says so, and the process stops (D-42).
                if self.survey().highest_epoch >= epoch {
                    self.die(at, number, Some(StopReason::LeaseTaken));
                    return;
                }
                self.fences.push((epoch, self.config.duration.as_millis()));
                self.watchers.show(at, &Seen::Fenced { process: number, epoch });
            }
            Act::GateOpen { epoch, until, nonce } => {
                let known = Seen::RenewalKnown { process: number, nonce };
                self.watchers.show(at, &known);
                let process = &mut self.processes[usize::from(number)];
                let until = process.clocks.when_instant(until);
                self.trace
                    .line(at, || format!("p{number} gate of epoch {epoch} open until {}", seconds(until)));
                let seen = Seen::GateOpen { process: number, epoch, until };
                self.watchers.show(at, &seen);
            }
            Act::GateDoubt(epoch) => {
                let seen = Seen::GateOpen { process: number, epoch, until: at };
                self.watchers.show(at, &seen);
            }
            Act::Known { nonce } => self.watchers.show(at, &Seen::RenewalKnown { process: number, nonce }),
            Act::Tell(telling) => self.trace.line(at, || format!("p{number} {telling}")),
            Act::Die(reason) => self.die(at, number, Some(reason)),
        }
    }

    fn die(&mut self, at: TrueTime, number: ProcessNumber, reason: Option<StopReason>) {
        self.trace.event(at, 300 + u64::from(number));
        self.trace.line(at, || match reason {
            Some(reason) => format!("p{number} stops: {reason}"),
            None => format!("p{number} is killed"),
        });
        self.processes[usize::from(number)].die();
        self.watchers.show(at, &Seen::Died { process: number, reason });
        let pause = self.dice.between(Stream::Crash, "down", 100 * MILLISECOND, 5 * SECOND);
        self.heap.push(at + pause, Event::Order(number, Order::Start));
    }

    fn send(
        &mut self,
        at: TrueTime,
        decided_at: TrueTime,
        number: ProcessNumber,
        id: RequestId,
        operation: LeaseOperation,
    ) {
        let index = usize::from(number);
        let record = match &operation {
            LeaseOperation::Read => None,
            LeaseOperation::Create { body } | LeaseOperation::Update { body, .. } => {
                Some(LeaseRecord::decode(body, &Name::new(NODE)).expect("the core writes whole leases"))
            }
        };
        let fate = self.fate(at, number, &operation, record.as_ref());
        self.trace.mix(id.0);
        self.trace.line(at, || describe_request(number, id, record.as_ref(), fate));
        self.trace.message(at, number, fate, || describe_request(number, id, record.as_ref(), fate));
        self.processes[index].sent(at, decided_at, record.as_ref(), &mut self.watchers);
        let life = self.processes[index].life;
        if let Some((after, input)) = fate.heard.early(id, &operation) {
            self.heap.push(at + after, Event::Reply(number, life, input));
        }
        for (after, heard) in fate.landings() {
            let (operation, record) = (operation.clone(), record.clone());
            let request = Request { process: number, life, id, operation, record, heard };
            self.heap.push(at + after, Event::Lands(Box::new(request)));
        }
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
        let blacked_out = self.processes[usize::from(number)].blacked_out_until > at;
        let sky = if blacked_out { Sky::BlackOut } else { Sky::Clear };
        weather::fate(&mut self.dice, &self.faults, sky)
    }

    fn lands(&mut self, at: TrueTime, request: Request) {
        let operation = match request.operation {
            LeaseOperation::Read => Operation::Read,
            LeaseOperation::Create { body } => Operation::Create(body),
            LeaseOperation::Update { expected, body } => Operation::Update { expected, body },
        };
        let answer = self.store.apply(at, &self.lease_key, operation);
        self.trace.event(at, 400 + u64::from(request.process));
        if let (Some(record), StoreAnswer::Write(WriteOutcome::Done { .. })) = (&request.record, &answer) {
            self.trace.line(at, || format!("store: {}", describe_record(record)));
            let seen = Seen::LeaseLanded { process: request.process, record };
            self.watchers.show(at, &seen);
        }
        if let Heard::Answer { after } = request.heard {
            let input = match answer {
                StoreAnswer::Write(outcome) => LeaseInput::Written { request: request.id, outcome },
                StoreAnswer::Read(outcome) => LeaseInput::Read { request: request.id, outcome },
                StoreAnswer::Listing(_) => unreachable!("the lease is never listed"),
            };
            self.heap.push(at + after, Event::Reply(request.process, request.life, input));
        }
    }

    fn survey(&self) -> Survey {
        Survey {
            anything: !self.fences.is_empty(),
            highest_epoch: self.fences.iter().map(|fence| fence.0).max().unwrap_or_default(),
            fence_duration_ms: self.fences.last().map(|fence| fence.1),
            newest_manifest: dexzd_core::ids::Position(0),
        }
    }

    fn probe_stamp_ms(&mut self, at: TrueTime) -> Option<u64> {
        let key = Name::new("node/probe");
        self.store.lose(&key);
        let body = Blob::from(b"probe".as_slice());
        self.store.apply(at, &key, Operation::Create(body));
        match self.store.apply(at, &key, Operation::Read) {
            StoreAnswer::Read(ReadOutcome::Found { stamp_ms, .. }) => stamp_ms,
            StoreAnswer::Read(_) | StoreAnswer::Write(_) | StoreAnswer::Listing(_) => None,
        }
    }
}

/// The duration of a row of the table in requirements.md, section 1.
#[must_use]
pub fn duration(seconds: u64) -> LeaseDuration {
    LeaseDuration::from_millis(seconds * 1_000).expect("3 s to 1 h")
}

fn seconds(at: TrueTime) -> String {
    format!("{}.{:06}", at / SECOND, at % SECOND)
}

fn describe_record(record: &LeaseRecord) -> String {
    let state = match record.state {
        LeaseState::Held => "held",
        LeaseState::Free => "free",
    };
    format!("lease {state}, epoch {}, nonce {}", record.epoch, record.nonce.counter)
}

fn describe_request(
    number: ProcessNumber,
    id: RequestId,
    record: Option<&LeaseRecord>,
    fate: Fate,
) -> String {
    let what = record.map_or_else(|| "read".to_owned(), describe_record);
    match fate {
        Fate { lands_after: Some(_), again_after: None, heard: Heard::Answer { .. } } => {
            format!("p{number} -> r{id} {what}")
        }
        Fate { lands_after, again_after, heard } => {
            let lands = lands_after.map_or_else(
                || "never lands".to_owned(),
                |after| format!("lands {} s later", seconds(after)),
            );
            let again = again_after
                .map_or_else(String::new, |after| format!(" and {} s later again", seconds(after)));
            format!("p{number} -> r{id} {what}; {lands}{again}, the caller hears {heard:?}")
        }
    }
}

fn describe_input(input: &LeaseInput) -> String {
    match input {
        LeaseInput::Written { request, outcome } => match outcome {
            WriteOutcome::Done { .. } => format!("r{request} done"),
            WriteOutcome::Refused
            | WriteOutcome::Transient { .. }
            | WriteOutcome::Permanent
            | WriteOutcome::LocalFailure
            | WriteOutcome::LockReplaced => format!("r{request} {outcome:?}"),
        },
        LeaseInput::Read { request, outcome } => match outcome {
            ReadOutcome::Found { body, .. } => match LeaseRecord::decode(body, &Name::new(NODE)) {
                Ok(record) => format!("r{request} shows {}", describe_record(&record)),
                Err(reason) => format!("r{request} shows {reason:?}"),
            },
            ReadOutcome::Missing
            | ReadOutcome::Transient { .. }
            | ReadOutcome::Permanent
            | ReadOutcome::LocalFailure => format!("r{request} {outcome:?}"),
        },
        LeaseInput::Surveyed { survey, .. } => format!("survey {survey:?}"),
        LeaseInput::Tick => "tick".to_owned(),
    }
}
