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
//! | `flows`, `worker`, `client`, `guests` | what people do with the product |
//! | `people` | their connections and calls |
//! | `orders`, `storms`, `operator` | what tests, the weather and operators do |
//! | `control` | performs what `node` wants |
//! | `data` | the data plane: which machine it hosts, what its engine wants |
//! | `follow`, `starting` | a hot standby; the start of an epoch |
//! | `snapshots`, `checkpoint` | keeper and bootstrap; a local store as files |
//! | `leaving` | what leaves a process, and what it waits for |
//! | `log_io`, `snapshot_io` | requests on their way |
//! | `audit` | asks the product, at the end, about every Flow |

mod audit;
mod checkpoint;
mod client;
mod config;
mod control;
mod data;
mod event;
pub mod flows;
mod follow;
mod guests;
mod leaving;
mod log_io;
mod operator;
mod orders;
mod people;
mod process;
mod snapshot_io;
mod snapshots;
mod starting;
mod storms;
mod worker;

use std::collections::BTreeMap;

use dexzd_core::ids::{Blob, RequestId, StreamId};

pub use client::Client;
pub use config::{Place, ProductConfig, Strikes};
pub use dexzd_core::node::Role;
pub use flows::Shape;
pub use operator::Errand;
pub use orders::{ByHand, Order};
pub use process::Part;
pub use storms::{Prefix, StormKind};
pub use worker::WorkerFaults;

use self::event::Event;
use self::operator::Operators;
use self::people::{ClientToken, StreamEnds};
use self::process::{Process, ToData};
use self::storms::Storm;
use self::worker::{Wake, Worker};
use crate::clock::Clocks;
use crate::dice::{Dice, Stream};
use crate::heap::EventHeap;
use crate::store::Store;
use crate::swarm::StoreFaults;
use crate::trace::Trace;
use crate::watch::{ProcessNumber, Violation, Watchers};
use crate::{MILLISECOND, SECOND, TrueTime};

/// The node all processes serve.
pub const NODE: &str = "node";

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
    storms: Vec<Storm>,
    operators: Operators,
    /// Every lease that was ever written.
    lease_writes: Vec<Blob>,
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
    /// When each of them became durable.
    durable_at: Vec<TrueTime>,
    lost_entry: Option<log_io::LostEntry>,
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
        let habits = guests::Habits::draw(&mut dice);
        let mut clients: Vec<(TrueTime, Client)> = (0_u32..)
            .zip(&config.flows)
            .map(|(number, shape)| {
                let at = dice.between(Stream::Workload, "client_starts", 0, config.starts_within);
                (at, Client::new(number, *shape, config.stops_per_million, &habits, &mut dice))
            })
            .collect();
        clients.extend(habits.invite(&clients, config.processes, &mut dice));
        let clients = clients
            .into_iter()
            .map(|(at, client)| {
                heap.push(at, Event::ClientWakes(client.number as usize));
                client
            })
            .collect();
        let mut world = Self {
            store: Store::default(),
            store_faults: config.store,
            storms: Vec::new(),
            operators: Operators::default(),
            lease_writes: Vec::new(),
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
            durable_at: Vec::new(),
            lost_entry: None,
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

    /// Makes somebody do something to an object.
    pub fn by_hand_at(&mut self, at: TrueTime, hand: ByHand) {
        self.heap.push(at, Event::ByHand(hand));
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

    fn happen(&mut self, at: TrueTime, event: Event) {
        if let Some((number, life, part)) = event.addressee() {
            let process = &mut self.processes[usize::from(number)];
            if !process.lives(life) {
                return;
            }
            if process.is_stopped(part, at) {
                process.parked[part as usize].push_back(event);
                return;
            }
        }
        match event {
            Event::ToNode(number, _, input) => self.node_input(at, number, *input),
            Event::ToData(number, _, message) => self.data_message(at, number, *message),
            Event::NodeTimer(number, _) => self.node_tick(at, number),
            Event::DataTimer(number, _) => self.data_tick(at, number),
            Event::Alive(number, life) => self.sign_of_life(at, number, life),
            Event::Watchdog(number, _) => self.watchdog_looks(at, number),
            Event::Thaw(number) => self.thaw(at, number),
            Event::Uncounted(number, lasted, wall_counts) => {
                self.processes[usize::from(number)].clocks.uncounted_pause(at, lasted, wall_counts);
            }
            Event::LeaseLands(request) => self.lease_lands(at, *request),
            Event::LogLands(request) => self.log_lands(at, *request),
            Event::SnapshotLands(request) => self.snapshot_lands(at, *request),
            Event::DiskSynced(number, life) => {
                if self.processes[usize::from(number)].lives(life) {
                    self.disk_synced(at, number);
                }
            }
            Event::Order(number, order) => self.order(at, number, order),
            Event::ByHand(hand) => self.by_hand(at, hand),
            Event::Errand(errand) => self.errand(at, errand),
            Event::AdminCalls(number, call) => self.admin_arrives(at, number, *call),
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

    pub(super) fn network_hop(&mut self) -> TrueTime {
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

/// A request id in a trace.
fn numbered(request: RequestId) -> String {
    format!("r{request}")
}
