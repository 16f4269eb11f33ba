//! The whole product in simulated time: processes that host `node` and `engine`, their log and local
//! stores, Workers and clients.
//!
//! ```text
//! ProductWorld::new(config, dice, watchers, trace)
//! world.order_at(time, process, order)   what a scenario wants to happen
//! world.run()                            the whole plan, then an audit through the product's own API
//! ```
//!
//! | file | what it does |
//! | --- | --- |
//! | `flows`, `worker`, `client` | what people do with the product |
//! | `people` | their connections and calls |
//! | `control` | performs what `node` wants |
//! | `data` | performs what the start of an epoch and the engine want |
//! | `audit` | asks the product, at the end, about every Flow |

mod audit;
mod client;
mod config;
mod control;
mod data;
pub mod flows;
mod people;
mod process;
mod worker;

use std::collections::BTreeMap;

use dexzd_core::engine::{Answer, CallError, ServerFrame};
use dexzd_core::ids::{Blob, Name, Position, RequestId, StreamId};
use dexzd_core::stop::StopReason;

pub use client::Client;
pub use config::{Place, ProductConfig, Strikes};
pub use dexzd_core::node::Role;
pub use flows::Shape;
pub use worker::WorkerFaults;

use self::control::LeaseRequest;
use self::data::LogRequest;
use self::people::{ClientToken, StreamEnds};
use self::process::{Process, ToData};
use self::worker::{Wake, Worker};
use crate::clock::Clocks;
use crate::dice::{Dice, Stream};
use crate::heap::EventHeap;
use crate::log_store::DiskLog;
use crate::store::Store;
use crate::swarm::StoreFaults;
use crate::trace::Trace;
use crate::watch::{ProcessNumber, Seen, Violation, Watchers};
use crate::{MILLISECOND, SECOND, TrueTime};

/// The node all processes serve.
pub const NODE: &str = "node";

/// What an operator, a test or the swarm does to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Start it, if it does not run.
    Start,
    /// SIGKILL.
    Kill,
    /// The machine loses its power.
    PowerLoss,
    /// SIGTERM.
    Terminate,
    /// SIGSTOP for so long.
    Freeze(TrueTime),
    /// The wall clock jumps by so many microseconds.
    StepWall(i64),
    /// The next sync of the disk fails (lesson H4).
    FailSync,
    /// The disk holds no more than it has now, or as much as one likes.
    DiskFull(bool),
}

#[derive(Debug)]
enum Event {
    ToNode(ProcessNumber, u32, Box<dexzd_core::node::Input>),
    ToData(ProcessNumber, u32, Box<ToData>),
    NodeTimer(ProcessNumber, u32),
    DataTimer(ProcessNumber, u32),
    /// The engine's sign of life.
    Alive(ProcessNumber, u32),
    /// A freeze may be over.
    Thaw(ProcessNumber),
    LeaseLands(Box<LeaseRequest>),
    LogLands(Box<LogRequest>),
    DiskSynced(ProcessNumber, u32),
    Order(ProcessNumber, Order),
    ClientWakes(usize),
    ClientCalls(ClientToken, ProcessNumber, Box<dexzd_core::engine::Call>),
    ClientHears(ClientToken, Box<Result<Answer, CallError>>),
    ClientGivesUp(ClientToken),
    WorkerWakes(usize, Wake),
    WorkerConnects(usize, ProcessNumber),
    WorkerHears(usize, StreamId, Box<ServerFrame>),
    WorkerLosesStream(usize, Option<StreamId>),
    ServerLosesStream(StreamId),
    Heal,
}

/// Processes, stores, Workers and clients.
#[derive(Debug)]
pub struct ProductWorld {
    config: ProductConfig,
    dice: Dice,
    heap: EventHeap<Event>,
    trace: Trace,
    watchers: Watchers,
    store: Store,
    store_faults: StoreFaults,
    strikes: Strikes,
    worker_faults: WorkerFaults,
    processes: Vec<Process>,
    workers: Vec<Worker>,
    clients: Vec<Client>,
    streams: BTreeMap<StreamId, StreamEnds>,
    next_stream: u64,
    next_call: u64,
    next_token: u64,
    open_tokens: BTreeMap<ClientToken, Option<(ProcessNumber, u32, dexzd_core::ids::CallId)>>,
    /// How many outputs were polled.
    outputs: u64,
    outputs_of_work: Option<u64>,
    /// How many entries of the log were shown to the watchers.
    shown: u64,
    audits: audit::Replies,
}

impl ProductWorld {
    /// All processes start at once; Workers connect and clients start their Flows when they like.
    #[must_use]
    pub fn new(config: ProductConfig, mut dice: Dice, watchers: Watchers, trace: Trace) -> Self {
        let mut heap = EventHeap::default();
        let processes = (0..config.processes)
            .map(|number| {
                heap.push(u64::from(number) * MILLISECOND, Event::Order(number, Order::Start));
                Process::new(number, Clocks::draw(&mut dice, number, config.drift_ppb, SECOND))
            })
            .collect();
        let workers = (0..config.worker_count)
            .map(|number| {
                let at = config.workers_from + dice.between(Stream::Workload, "worker_starts", 0, SECOND);
                heap.push(at, Event::WorkerWakes(number as usize, Wake::Connect));
                Worker::new(number, config.slots)
            })
            .collect();
        let clients = (0_u32..)
            .zip(&config.flows)
            .map(|(number, shape)| {
                let at = dice.between(Stream::Workload, "client_starts", 0, config.starts_within);
                heap.push(at, Event::ClientWakes(number as usize));
                Client::new(number, *shape, config.stops_per_million, &mut dice)
            })
            .collect();
        let mut world = Self {
            store: Store::default(),
            store_faults: config.store,
            strikes: config.strikes,
            worker_faults: config.workers,
            processes,
            workers,
            clients,
            streams: BTreeMap::new(),
            next_stream: 1,
            next_call: 1,
            next_token: 1,
            open_tokens: BTreeMap::new(),
            outputs: 0,
            outputs_of_work: None,
            shown: 0,
            audits: audit::Replies::default(),
            config,
            dice,
            heap,
            trace,
            watchers,
        };
        world.plan();
        world
    }

    /// Makes something happen.
    pub fn order_at(&mut self, at: TrueTime, process: ProcessNumber, order: Order) {
        self.heap.push(at, Event::Order(process, order));
    }

    /// Goes on until everything up to this time has happened, or a rule is broken.
    pub fn run_until(&mut self, until: TrueTime) {
        while !self.watchers.is_broken() && self.heap.next_at().is_some_and(|at| at <= until) {
            let (at, event) = self.heap.pop().expect("it was just seen");
            self.dice.set_now(at);
            self.happen(at, event);
        }
    }

    /// Runs the whole plan: faults, healing, the time in which everything must come right again, and the
    /// audit. It ends early when all clients have what they waited for.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn run(&mut self) -> Result<(), Violation> {
        let (recovered_by, end) = (self.config.recovered_by(), self.config.end());
        let mut until = recovered_by;
        self.run_until(until);
        while until < end && !self.watchers.is_broken() && !self.is_done() {
            until += SECOND;
            self.run_until(until);
        }
        self.audit();
        let at = self.now();
        self.watchers.finish(at)
    }

    /// Whether every client knows the end of its Flow.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.clients.iter().all(Client::is_finished)
    }

    /// Now, in true time.
    #[must_use]
    pub fn now(&self) -> TrueTime {
        self.heap.now()
    }

    /// How many outputs of `node`, of starts and of engines were polled, without those of the audit.
    #[must_use]
    pub fn outputs(&self) -> u64 {
        self.outputs_of_work.unwrap_or(self.outputs)
    }

    /// The clients and what became of their Flows.
    #[must_use]
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// The process that serves, if one does.
    #[must_use]
    pub fn active(&self) -> Option<ProcessNumber> {
        let serves = |process: &&Process| {
            process.has_engine() && process.node.as_ref().is_some_and(|node| node.role() == Role::Active)
        };
        self.processes.iter().find(serves).map(|process| process.number)
    }

    /// What happened and what was drawn, once the run is over.
    #[must_use]
    pub fn into_parts(self) -> (Trace, Dice) {
        (self.trace, self.dice)
    }

    fn plan(&mut self) {
        let strikes = self.config.strikes;
        let end = self.config.heal_at;
        for process in 0..self.config.processes {
            let mut orders = Vec::new();
            let dice = &mut self.dice;
            for at in moments(dice, strikes.kills_per_hour, end) {
                orders.push((at, Order::Kill));
            }
            for at in moments(dice, strikes.terminations_per_hour, end) {
                orders.push((at, Order::Terminate));
            }
            for at in moments(dice, strikes.freezes_per_hour, end) {
                let lasts = dice.between(Stream::Crash, "freeze", MILLISECOND, 15 * SECOND);
                orders.push((at, Order::Freeze(lasts)));
            }
            for at in moments(dice, strikes.wall_steps_per_hour, end) {
                let by = dice.between(Stream::Crash, "wall_step", 0, 120 * SECOND);
                orders.push((at, Order::StepWall(i64::try_from(by).expect("two minutes") - 60_000_000)));
            }
            for (at, order) in orders {
                self.order_at(at, process, order);
            }
        }
        self.heap.push(end, Event::Heal);
    }

    fn happen(&mut self, at: TrueTime, event: Event) {
        if let Some((number, life)) = event.addressee() {
            let process = &mut self.processes[usize::from(number)];
            if !process.lives(life) {
                return;
            }
            if process.is_frozen(at) {
                process.parked.push_back(event);
                return;
            }
        }
        match event {
            Event::ToNode(number, _, input) => self.node_input(at, number, *input),
            Event::ToData(number, _, message) => self.data_message(at, number, *message),
            Event::NodeTimer(number, _) => self.node_tick(at, number),
            Event::DataTimer(number, _) => self.data_tick(at, number),
            Event::Alive(number, life) => self.sign_of_life(at, number, life),
            Event::Thaw(number) => self.thaw(at, number),
            Event::LeaseLands(request) => self.lease_lands(at, *request),
            Event::LogLands(request) => self.log_lands(at, *request),
            Event::DiskSynced(number, life) => {
                if self.processes[usize::from(number)].lives(life) {
                    self.disk_synced(at, number);
                }
            }
            Event::Order(number, order) => self.order(at, number, order),
            Event::ClientWakes(client) => self.client_wakes(at, client),
            Event::ClientCalls(token, number, call) => self.client_calls(at, token, number, *call),
            Event::ClientHears(token, answer) => self.client_hears(at, token, &answer),
            Event::ClientGivesUp(token) => self.client_gives_up(at, token),
            Event::WorkerWakes(worker, wake) => self.worker_wakes(at, worker, wake),
            Event::WorkerConnects(worker, number) => self.worker_connects(at, worker, number),
            Event::WorkerHears(worker, stream, frame) => self.worker_hears(at, worker, stream, *frame),
            Event::WorkerLosesStream(worker, stream) => self.worker_loses_stream(at, worker, stream),
            Event::ServerLosesStream(stream) => self.server_loses_stream(at, stream),
            Event::Heal => self.heal(at),
        }
    }

    /// A freeze is over: what came meanwhile is handled in its order, timers last (D-57).
    fn thaw(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &mut self.processes[usize::from(number)];
        if process.is_frozen(at) {
            self.heap.push(process.frozen_until, Event::Thaw(number));
            return;
        }
        let parked = std::mem::take(&mut process.parked);
        let (timers, messages): (Vec<Event>, Vec<Event>) = parked.into_iter().partition(Event::is_timer);
        for event in messages.into_iter().chain(timers) {
            self.heap.push(at, event);
        }
    }

    fn heal(&mut self, at: TrueTime) {
        self.trace.event(at, 201);
        self.trace.line(at, || "faults end".to_owned());
        self.store_faults = StoreFaults::none();
        self.strikes = Strikes::default();
        self.worker_faults = WorkerFaults::default();
        for process in &mut self.processes {
            process.frozen_until = process.frozen_until.min(at);
            process.disk.failing_syncs = 0;
            self.heap.push(at, Event::Thaw(process.number));
            self.heap.push(at, Event::Order(process.number, Order::Start));
        }
        self.watchers.show(at, &Seen::Healed);
    }

    fn order(&mut self, at: TrueTime, number: ProcessNumber, order: Order) {
        self.trace.event(at, 100 + u64::from(number));
        self.trace.line(at, || format!("p{number} {order:?}"));
        let index = usize::from(number);
        let runs = self.processes[index].is_running();
        match order {
            Order::Start if runs => {}
            Order::Start => self.start(at, number),
            Order::Kill if runs => self.die(at, number, None, false),
            Order::PowerLoss if runs => self.die(at, number, None, true),
            Order::Terminate if runs => {
                self.tell_node(at, number, dexzd_core::node::Input::Terminate);
            }
            Order::Kill | Order::PowerLoss | Order::Terminate => {}
            Order::Freeze(lasts) => {
                let process = &mut self.processes[index];
                process.frozen_until = process.frozen_until.max(at + lasts);
                self.heap.push(process.frozen_until, Event::Thaw(number));
            }
            Order::StepWall(by) => self.step_wall(at, number, by),
            Order::FailSync => self.processes[index].disk.failing_syncs = 1,
            Order::DiskFull(full) => {
                let disk = &mut self.processes[index].disk;
                disk.capacity = if full { disk.used() } else { usize::MAX };
            }
        }
    }

    /// The process ends; what it had in memory is gone.
    fn die(&mut self, at: TrueTime, number: ProcessNumber, reason: Option<StopReason>, power: bool) {
        self.trace.event(at, 300 + u64::from(number));
        self.trace.line(at, || match reason {
            Some(reason) => format!("p{number} stops: {reason}"),
            None if power => format!("p{number} loses its power"),
            None => format!("p{number} is killed"),
        });
        self.break_connections(at, number);
        let process = &mut self.processes[usize::from(number)];
        process.forget();
        process.local.borrow_mut().crash(&mut self.dice);
        if power {
            process.disk.power_loss(&mut self.dice);
        } else {
            process.disk.process_crash();
        }
        self.watchers.show(at, &Seen::Died { process: number, reason });
        let pause = self.dice.between(Stream::Crash, "down", 10 * MILLISECOND, 3 * SECOND);
        self.heap.push(at + pause, Event::Order(number, Order::Start));
    }

    /// Between two outputs. True: the process is dead.
    fn strikes_at_output(&mut self, at: TrueTime, number: ProcessNumber) -> bool {
        self.outputs += 1;
        let crashes = self.config.crash_at_output == Some(self.outputs)
            || self.dice.chance(Stream::Crash, "at_output", self.strikes.crashes_per_million_outputs);
        if crashes {
            let power = self.strikes.power_loss && self.dice.chance(Stream::Crash, "power", 500_000);
            self.die(at, number, None, power);
        }
        crashes
    }

    /// The log in the store, or on the only process's disk.
    fn log_key(position: Position) -> Name {
        Name::new(&format!("node/log/{:020}", position.0))
    }

    /// Shows entries that have become durable, in their order.
    fn show_durable(&mut self, at: TrueTime, position: Position, entry: &Blob) {
        if position.0 > self.shown {
            if position.0 != self.shown + 1 {
                let sentence = format!("position {position} became durable before {}", self.shown + 1);
                self.watchers.complain(at, "invariant 1 (log)", sentence);
            }
            self.shown = position.0;
            self.watchers.show(at, &Seen::EntryDurable { position, entry });
        }
    }

    /// After a crash of the process alone, what the operating system had is there.
    fn show_disk(&mut self, at: TrueTime, number: ProcessNumber) {
        let entries = DiskLog::durable_entries(&self.processes[usize::from(number)].disk);
        if (entries.len() as u64) < self.shown {
            let sentence = format!("the log has {} entries after {} were durable", entries.len(), self.shown);
            self.watchers.complain(at, "invariant 2 (durability)", sentence);
        }
        for (position, entry) in (1..).zip(&entries) {
            self.show_durable(at, Position(position), entry);
        }
    }

    fn network_hop(&mut self) -> TrueTime {
        let weights = [crate::dice::MILLION, self.strikes.slow_messages];
        match self.dice.weighted(Stream::Network, "hop", &weights) {
            0 => self.dice.between(Stream::Network, "delay", 50, 2 * MILLISECOND),
            _ => self.dice.between(Stream::Network, "delay", 2 * MILLISECOND, 2 * SECOND),
        }
    }

    fn plane_hop(&mut self) -> TrueTime {
        self.dice.between(Stream::Network, "between_planes", 5, 200)
    }

    fn tell_node(&mut self, at: TrueTime, number: ProcessNumber, input: dexzd_core::node::Input) {
        let hop = self.plane_hop();
        let process = &mut self.processes[usize::from(number)];
        process.to_node_at = process.to_node_at.max(at + hop);
        let event = Event::ToNode(number, process.life, Box::new(input));
        self.heap.push(process.to_node_at, event);
    }

    fn tell_data(&mut self, at: TrueTime, number: ProcessNumber, message: ToData) {
        let hop = self.plane_hop();
        let process = &mut self.processes[usize::from(number)];
        process.to_data_at = process.to_data_at.max(at + hop);
        let event = Event::ToData(number, process.life, Box::new(message));
        self.heap.push(process.to_data_at, event);
    }
}

impl Event {
    /// The process, and the life of it, that must run for this to happen.
    fn addressee(&self) -> Option<(ProcessNumber, u32)> {
        match self {
            Self::ToNode(number, life, _)
            | Self::ToData(number, life, _)
            | Self::NodeTimer(number, life)
            | Self::DataTimer(number, life)
            | Self::Alive(number, life) => Some((*number, *life)),
            Self::Thaw(_)
            | Self::LeaseLands(_)
            | Self::LogLands(_)
            | Self::DiskSynced(..)
            | Self::Order(..)
            | Self::ClientWakes(_)
            | Self::ClientCalls(..)
            | Self::ClientHears(..)
            | Self::ClientGivesUp(_)
            | Self::WorkerWakes(..)
            | Self::WorkerConnects(..)
            | Self::WorkerHears(..)
            | Self::WorkerLosesStream(..)
            | Self::ServerLosesStream(_)
            | Self::Heal => None,
        }
    }

    fn is_timer(&self) -> bool {
        matches!(self, Self::NodeTimer(..) | Self::DataTimer(..) | Self::Alive(..))
    }
}

/// Random moments before `end`, on average so many an hour.
fn moments(dice: &mut Dice, per_hour: u64, end: TrueTime) -> Vec<TrueTime> {
    let mut moments = Vec::new();
    if let Some(mean) = (3_600 * SECOND).checked_div(per_hour) {
        let mut at = dice.between(Stream::Crash, "pause", 1, 2 * mean);
        while at < end {
            moments.push(at);
            at += dice.between(Stream::Crash, "pause", 1, 2 * mean);
        }
    }
    moments
}

/// A request id in a trace.
fn numbered(request: RequestId) -> String {
    format!("r{request}")
}
