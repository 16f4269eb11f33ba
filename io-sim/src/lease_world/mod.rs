//! Processes that compete for one lease: the control plane of the core, clocks, a store, an operator, and a
//! data plane that only takes its time. Thousands of seeds a second.
//!
//! ```text
//! LeaseWorld::new(config, dice, watchers, trace)
//! world.order_at(time, process, order)   what a scenario wants to happen
//! world.intercept(…)                     what becomes of its requests
//! world.run_until(time)                  up to there
//! world.run()                            what a seed wants to happen
//! world.finish()                         the first broken rule, if there is one
//! ```

mod config;
mod describe;
mod draw;
mod lease_object;
mod perform;
mod plan;
mod plane;
mod process;

use std::collections::VecDeque;

use dexzd_core::ids::{Blob, Epoch, Name};
use dexzd_core::lease::{LeaseDuration, LeaseOperation, LeaseRecord};
use dexzd_core::node::{AdminRequest, Input, Period, Role};

pub use config::{ClockFaults, LeaseConfig, PlaneFaults, ProcessFaults, StoreMishaps, hot};

use self::lease_object::Request;
use self::plane::Step;
use self::process::Process;
use crate::dice::{Dice, Stream};
use crate::heap::EventHeap;
use crate::store::Store;
use crate::swarm::StoreFaults;
use crate::trace::Trace;
use crate::watch::{ProcessNumber, Seen, Violation, Watchers};
use crate::weather::{Fate, LATEST_LANDING};
use crate::{MILLISECOND, SECOND, TrueTime};

/// The node all of them serve.
pub const NODE: &str = "node";

/// What an operator, a test or the swarm does to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Start it, if it does not run.
    Start,
    /// SIGKILL; its disk stays.
    Kill,
    /// SIGKILL, and its disk is lost.
    KillAndWipe,
    /// SIGTERM.
    Terminate,
    /// SIGSTOP for so long.
    Freeze(TrueTime),
    /// The machine is suspended for so long: the candidate's clock does not count it.
    Suspend(TrueTime),
    /// For so long it does something only now and then.
    Starve(TrueTime),
    /// The wall clock jumps by so many microseconds.
    StepWall(i64),
    /// From now on its clocks are slewed by so many parts per billion; 0 ends it.
    Slew(i64),
    /// Nothing reaches the store for so long.
    BlackOut(TrueTime),
    /// The store is slow and failing for so long.
    BrownOut(TrueTime),
    /// The machine pauses for so long and its monotonic clocks do not count it; `true`: the wall clock does.
    UncountedPause(TrueTime, bool),
    /// It goes on as an exact copy of that process.
    BecomeCopyOf(ProcessNumber),
    /// Somebody calls step down.
    StepDown {
        /// What the caller expects.
        precondition: Precondition,
        /// Over a connection of an earlier role period.
        old_connection: bool,
    },
    /// Somebody calls describe.
    Describe {
        /// Over a connection of an earlier role period.
        old_connection: bool,
    },
}

/// A step down as it is meant.
pub const STEP_DOWN: Order = Order::StepDown { precondition: Precondition::Right, old_connection: false };

/// What the caller of a step down expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precondition {
    /// The process's own node and epoch.
    Right,
    /// Another node.
    OtherNode,
    /// The epoch before.
    StaleEpoch,
    /// The epoch after.
    LaterEpoch,
    /// What the last call expected, whoever got it.
    Repeated,
    /// This epoch.
    Epoch(Epoch),
}

/// What somebody's hand does to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mishap {
    /// The lease object is deleted.
    Delete,
    /// It loses its second half.
    CutShort,
    /// One bit of it changes.
    Flip,
    /// A newer version of the program wrote it.
    NewerFormat,
    /// Its newest good state is brought back, if it cannot be read.
    Mend,
    /// The state before so many writes is brought back.
    Restore {
        /// How many.
        back: u64,
    },
    /// The clock of one of the store's servers jumps.
    StepStoreClock {
        /// Which.
        server: usize,
        /// By how much.
        by_ms: i64,
    },
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
    Input(ProcessNumber, u32, Input),
    /// A process wants to be called, or can go on.
    Timer(ProcessNumber, u32),
    /// A step of a data plane ends, in this life and job.
    Plane(ProcessNumber, u32, u32, Step),
    /// Somebody wants something.
    Order(ProcessNumber, Order),
    /// A pause ends that not all clocks counted.
    PauseEnds(ProcessNumber, u32, TrueTime, Pause),
    /// Somebody's hand.
    Mishap(Mishap),
    /// Somebody looks at health names and gauges.
    Probe,
    /// Faults end.
    Heal,
}

/// Which clocks did not count a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pause {
    Suspension,
    Uncounted { wall_counts: bool },
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
    fences: Vec<(Epoch, u64)>,
    /// The newest states of the lease object.
    states: VecDeque<Blob>,
    processes: Vec<Process>,
    faults: StoreFaults,
    /// What the last step down expected.
    last_call: Option<AdminRequest>,
    healed: bool,
    /// Who serves since when, once faults have ended.
    serves_since: Option<(Epoch, TrueTime)>,
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
    /// The first process starts at once, the others within the time that the configuration says.
    #[must_use]
    pub fn new(config: LeaseConfig, mut dice: Dice, watchers: Watchers, trace: Trace) -> Self {
        let mut heap = EventHeap::default();
        let may_be_copied = config.process_faults.clones_per_hour > 0;
        let processes = (0..config.processes)
            .map(|number| {
                let start = if number == 0 {
                    0
                } else {
                    dice.between(Stream::Workload, "starts", MILLISECOND, config.latest_start)
                };
                heap.push(start, Event::Order(number, Order::Start));
                Process::new(number, config.clocks.draw(&mut dice, number), may_be_copied)
            })
            .collect();
        let mut store = Store::default();
        store.ignores_conditions = config.store_ignores_conditions;
        store.hashes_content = config.mishaps.hashes_content;
        store.has_no_stamps = config.mishaps.has_no_stamps;
        store.skews_ms = config.mishaps.skews_ms;
        let mut world = Self {
            faults: config.store,
            store,
            lease_key: Name::new("node/lease"),
            fences: Vec::new(),
            states: VecDeque::new(),
            processes,
            last_call: None,
            healed: false,
            serves_since: None,
            intercept: None,
            config,
            dice,
            heap,
            trace,
            watchers,
        };
        for (at, event) in plan::plan(&world.config, &mut world.dice) {
            world.heap.push(at, event);
        }
        if world.config.probe_interval > 0 {
            world.heap.push(world.config.probe_interval, Event::Probe);
        }
        world
    }

    /// Lets a scenario decide the fate of requests; those it has no opinion on go to the dice.
    pub fn intercept(&mut self, intercept: Intercept) {
        self.intercept = Some(intercept);
    }

    /// Lets a scenario change the store itself.
    pub const fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Makes something happen.
    pub fn order_at(&mut self, at: TrueTime, process: ProcessNumber, order: Order) {
        self.heap.push(at, Event::Order(process, order));
    }

    /// Somebody's hand, at a moment.
    pub fn mishap_at(&mut self, at: TrueTime, mishap: Mishap) {
        self.heap.push(at, Event::Mishap(mishap));
    }

    /// Goes on until everything up to this time has happened, or a rule is broken.
    pub fn run_until(&mut self, until: TrueTime) {
        while !self.watchers.is_broken() && self.heap.next_at().is_some_and(|at| at <= until) {
            let (at, event) = self.heap.pop().expect("it was just seen");
            self.dice.set_now(at);
            self.happen(at, event);
        }
    }

    /// Runs the whole plan: faults, healing, and the time in which everything must come right again. It
    /// ends early once one process has served for so long after the last fault that nothing is under way.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn run(&mut self) -> Result<(), Violation> {
        let end = self.config.end();
        while !self.watchers.is_broken()
            && !self.is_calm_for_good()
            && self.heap.next_at().is_some_and(|at| at <= end)
        {
            let (at, event) = self.heap.pop().expect("it was just seen");
            self.dice.set_now(at);
            self.happen(at, event);
        }
        self.finish()
    }

    fn is_calm_for_good(&self) -> bool {
        let quiet = LATEST_LANDING + 2 * self.config.duration.as_millis() * MILLISECOND;
        self.serves_since.is_some_and(|(_, since)| self.heap.now() > since + quiet)
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

    /// What a process is; `None`: it does not run.
    #[must_use]
    pub fn role(&self, process: ProcessNumber) -> Option<Role> {
        self.processes[usize::from(process)].role()
    }

    /// The epoch in which a process serves now, by its own clock.
    pub fn serves(&mut self, process: ProcessNumber) -> Option<Epoch> {
        let at = self.heap.now();
        let process = &mut self.processes[usize::from(process)];
        let now = process.clocks.now(at);
        let open = process.gate.look(now) == dexzd_core::gate::GateView::Open;
        process.epoch.filter(|_| open && process.is_running())
    }

    /// What stands in the lease.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseRecord> {
        let body = self.store.peek(&self.lease_key)?;
        LeaseRecord::decode(body, &Name::new(NODE)).ok()
    }

    fn happen(&mut self, at: TrueTime, event: Event) {
        match event {
            Event::Lands(request) => self.lands(at, *request),
            Event::Input(number, life, input) => {
                let process = &mut self.processes[usize::from(number)];
                if !process.lives(life) {
                    return;
                }
                process.queue.push_back(input);
                if !process.is_frozen(at) {
                    self.go_on(at, number, life);
                }
            }
            Event::Timer(number, life) => self.ring(at, number, life),
            Event::Plane(number, _, _, step @ Step::Fence(_)) => self.plane_step(at, number, step),
            Event::Plane(number, life, job, step) => {
                let process = &self.processes[usize::from(number)];
                if !process.lives(life) || process.plane.job != job {
                    return;
                }
                if process.is_frozen(at) {
                    self.heap.push(process.frozen_until, Event::Plane(number, life, job, step));
                } else {
                    self.plane_step(at, number, step);
                }
            }
            Event::Order(number, order) => self.order(at, number, order),
            Event::PauseEnds(number, life, lasted, pause) => {
                // Who died meanwhile, or was woken by the end of faults, did not sleep to the end.
                let process = &self.processes[usize::from(number)];
                if process.life == life && process.frozen_until >= at {
                    self.pause_ends(at, number, lasted, pause);
                }
            }
            Event::Mishap(mishap) => self.mishap(at, mishap),
            Event::Probe => {
                for process in &mut self.processes {
                    if !process.is_frozen(at) && process.late.is_empty() {
                        process.probed(at, &mut self.watchers);
                    }
                }
                let interval = self.config.probe_interval;
                let pause = self.dice.between(Stream::Workload, "probe", interval, 8 * interval);
                self.heap.push(at + pause, Event::Probe);
            }
            Event::Heal => self.heal(at),
        }
    }

    fn ring(&mut self, at: TrueTime, number: ProcessNumber, life: u32) {
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
            self.input(at, number, Input::Tick);
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
            if let Some(decided) = process.late.pop_front() {
                self.perform(at, number, decided);
            } else if let Some(input) = process.queue.pop_front() {
                self.input(at, number, input);
            } else {
                return;
            }
        }
    }

    /// A healthy process hears something at once.
    fn tell(&mut self, at: TrueTime, number: ProcessNumber, input: Input) {
        let life = self.processes[usize::from(number)].life;
        self.heap.push(at, Event::Input(number, life, input));
    }

    /// Whoever looks at the gate and finds a jump tells `node`.
    fn pass_on_jump(&mut self, at: TrueTime, number: ProcessNumber) {
        if let Some(jumped_at) = self.processes[usize::from(number)].gate.jumped_at() {
            self.tell(at, number, Input::GateJumped(jumped_at));
        }
    }

    fn heal(&mut self, at: TrueTime) {
        self.trace.event(at, 201);
        self.trace.line(at, || "faults end".to_owned());
        self.healed = true;
        self.faults = StoreFaults::none();
        for number in 0..self.config.processes {
            let process = &mut self.processes[usize::from(number)];
            process.blacked_out_until = 0;
            process.browned_out_until = 0;
            process.frozen_until = process.frozen_until.min(at);
            process.starved_until = 0;
            let life = process.life;
            self.heap.push(at, Event::Timer(number, life));
            self.heap.push(at, Event::Order(number, Order::Slew(0)));
            self.heap.push(at, Event::Order(number, Order::Start));
        }
        self.watchers.show(at, &Seen::Healed);
    }

    fn order(&mut self, at: TrueTime, number: ProcessNumber, order: Order) {
        self.trace.event(at, 100 + u64::from(number));
        self.trace.line(at, || format!("p{number} {order:?}"));
        let process = &mut self.processes[usize::from(number)];
        let runs = process.is_running();
        match order {
            Order::Start if !runs => self.start(at, number),
            Order::Kill if runs => self.die(at, number, None),
            Order::KillAndWipe => {
                process.plane.has_disk = false;
                if runs {
                    self.die(at, number, None);
                    self.processes[usize::from(number)].plane.has_disk = false;
                }
            }
            Order::Terminate if runs => {
                self.watchers.show(at, &Seen::Terminated { process: number });
                self.tell(at, number, Input::Terminate);
            }
            Order::Freeze(lasts) if runs => self.freeze(at, number, lasts),
            Order::Starve(lasts) if runs => process.starved_until = process.starved_until.max(at + lasts),
            // A jump back would hide a pause that only the wall clock counted.
            Order::StepWall(_) if process.is_frozen(at) => {}
            Order::StepWall(by) => {
                process.clocks.wall.step(at, by);
                process.look_at_gate(at, &mut self.watchers);
                if runs {
                    self.pass_on_jump(at, number);
                    let after = self.dice.between(Stream::Workload, "look", 0, 2 * SECOND);
                    self.tell(at + after, number, Input::Tick);
                }
            }
            Order::Slew(by) => {
                process.clocks.slew(at, by);
                process.forget_timer();
                process.look_at_gate(at, &mut self.watchers);
                let life = process.life;
                self.pass_on_jump(at, number);
                self.set_timer(at, number, life);
            }
            Order::BlackOut(lasts) => process.blacked_out_until = process.blacked_out_until.max(at + lasts),
            Order::BrownOut(lasts) => process.browned_out_until = process.browned_out_until.max(at + lasts),
            // They are told from their ends: until then the process is frozen.
            Order::Suspend(lasts) if runs && !process.is_frozen(at) => {
                let life = process.life;
                self.heap.push(at + lasts, Event::PauseEnds(number, life, lasts, Pause::Suspension));
                self.freeze(at, number, lasts);
            }
            Order::UncountedPause(lasts, wall_counts) if runs && !process.is_frozen(at) => {
                let pause = Pause::Uncounted { wall_counts };
                let life = process.life;
                self.heap.push(at + lasts, Event::PauseEnds(number, life, lasts, pause));
                self.freeze(at, number, lasts);
            }
            Order::BecomeCopyOf(other) => self.copy(at, number, other),
            Order::StepDown { precondition, old_connection } if runs => {
                let request = self.step_down_request(number, precondition);
                self.last_call = Some(request.clone());
                self.call(at, number, old_connection, request);
            }
            Order::Describe { old_connection } if runs => {
                self.call(at, number, old_connection, AdminRequest::Describe);
            }
            Order::Start
            | Order::Kill
            | Order::Terminate
            | Order::Freeze(_)
            | Order::Starve(_)
            | Order::Suspend(_)
            | Order::UncountedPause(..)
            | Order::StepDown { .. }
            | Order::Describe { .. } => {}
        }
    }

    fn freeze(&mut self, at: TrueTime, number: ProcessNumber, lasts: TrueTime) {
        let process = &mut self.processes[usize::from(number)];
        process.frozen_until = process.frozen_until.max(at + lasts);
        self.heap.push(process.frozen_until, Event::Timer(number, process.life));
    }

    fn pause_ends(&mut self, at: TrueTime, number: ProcessNumber, lasted: TrueTime, pause: Pause) {
        let process = &mut self.processes[usize::from(number)];
        match pause {
            Pause::Suspension => process.clocks.suspended(at, lasted),
            Pause::Uncounted { wall_counts } => process.clocks.uncounted_pause(at, lasted, wall_counts),
        }
        process.forget_timer();
        process.look_at_gate(at, &mut self.watchers);
        let life = process.life;
        self.pass_on_jump(at, number);
        self.set_timer(at, number, life);
    }

    fn copy(&mut self, at: TrueTime, number: ProcessNumber, other: ProcessNumber) {
        let original = &self.processes[usize::from(other)];
        // What it decided and did not do yet, its end perhaps, is not in the memory that is copied.
        if number == other || !original.is_running() || !original.late.is_empty() {
            return;
        }
        if self.processes[usize::from(number)].is_running() {
            self.watchers.show(at, &Seen::Died { process: number, reason: None });
        }
        let entropy = self.dice.seed(Stream::Jitter(number), "entropy");
        let (first, second) = self.processes.split_at_mut(usize::from(number.max(other)));
        let (copy, original) = if number < other {
            (&mut first[usize::from(number)], &second[0])
        } else {
            (&mut second[0], &first[usize::from(other)])
        };
        copy.become_copy_of(original, entropy);
        copy.look_at_gate(at, &mut self.watchers);
        let life = copy.life;
        self.set_timer(at, number, life);
        self.plane_goes_on(at, number);
    }

    fn step_down_request(&self, number: ProcessNumber, precondition: Precondition) -> AdminRequest {
        let epoch = self.processes[usize::from(number)].epoch.unwrap_or(Epoch(1));
        let (node, epoch) = match precondition {
            Precondition::Right => (NODE, epoch),
            Precondition::OtherNode => ("other", epoch),
            Precondition::StaleEpoch => (NODE, Epoch(epoch.0.saturating_sub(1))),
            Precondition::LaterEpoch => (NODE, Epoch(epoch.0 + 1)),
            Precondition::Epoch(epoch) => (NODE, epoch),
            Precondition::Repeated => {
                return self
                    .last_call
                    .clone()
                    .unwrap_or(AdminRequest::StepDown { node_id: Name::new(NODE), epoch });
            }
        };
        AdminRequest::StepDown { node_id: Name::new(node), epoch }
    }

    fn call(&mut self, at: TrueTime, number: ProcessNumber, old_connection: bool, request: AdminRequest) {
        let process = &mut self.processes[usize::from(number)];
        let call = process.call();
        let period = process.period;
        let opened_in = if old_connection { Period(period.0.saturating_sub(1)) } else { period };
        self.tell(at, number, Input::Admin { call, opened_in, request });
    }
}

/// The duration of a row of the table in requirements.md, section 1.
#[must_use]
pub fn duration(seconds: u64) -> LeaseDuration {
    LeaseDuration::from_millis(seconds * 1_000).expect("3 s to 1 h")
}
