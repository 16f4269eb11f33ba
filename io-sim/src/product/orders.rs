//! What operators, tests and the swarm do to processes and to objects.

use dexzd_core::ids::{Blob, Name, Position};
use dexzd_core::log::{Chain, LogEnd};
use dexzd_core::node::Input;
use dexzd_core::stop::StopReason;

use super::event::Event;
use super::operator::Errand;
use super::process::Part;
use super::storms::{Prefix, Storm, StormKind};
use super::{ProductWorld, Strikes, WorkerFaults};
use crate::dice::{Dice, Stream};
use crate::swarm::StoreFaults;
use crate::watch::{ProcessNumber, Seen};
use crate::{MILLISECOND, SECOND, TrueTime};

/// What an operator, a test or the swarm does to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Start it, if it does not run.
    Start,
    /// SIGKILL. It starts again within 3 s.
    Kill,
    /// The machine loses its power.
    PowerLoss,
    /// SIGKILL, and nobody starts it for so long: an old volume waits.
    Down(TrueTime),
    /// SIGKILL, and its volume is gone. Where the log is on that volume, nothing happens.
    LoseDisk,
    /// SIGKILL, and in place of its local store it finds one of another node's log, as when the wrong volume is
    /// mounted (D-43).
    SwapDisk,
    /// SIGTERM.
    Terminate,
    /// SIGSTOP for so long.
    Freeze(TrueTime),
    /// One of its two threads gets no processor for so long.
    Starve(Part, TrueTime),
    /// Clients and Workers cannot reach it for so long; connections hold what is sent.
    Isolate(TrueTime),
    /// Its requests to the store meet this for so long, under one prefix or all.
    Storm(StormKind, Option<Prefix>, TrueTime),
    /// The wall clock jumps by so many microseconds.
    StepWall(i64),
    /// The machine pauses for so long; its monotonic clocks do not count that, and its wall clock does or
    /// does not.
    UncountedPause(TrueTime, bool),
    /// The next sync of the disk fails (lesson H4).
    FailSync,
    /// The disk holds no more than it has now, or as much as one likes.
    DiskFull(bool),
}

/// What somebody does to objects with a tool of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByHand {
    /// Deletes the lease.
    LoseLease,
    /// Puts back what the lease was so many writes ago.
    RestoreLease(usize),
    /// Deletes an entry of the log.
    LoseEntry(Position),
    /// Deletes one of the newer entries of the log.
    LoseSomeEntry,
    /// Puts the entry back that was deleted last.
    MendEntry,
    /// Cuts the end off an entry of the log.
    TruncateEntry(Position),
    /// All processes and their volumes are lost at once, and the newest manifest in the store is cut short for
    /// good (review 4.9).
    Disaster,
    /// The store begins or ceases to ignore conditions (lesson C4).
    IgnoreConditions(bool),
}

/// What an output meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strike {
    Nothing,
    /// The process stands still before the output is performed.
    Frozen,
    Dead,
}

impl ProductWorld {
    /// Draws when what strikes.
    pub(super) fn plan(&mut self) {
        let strikes = self.config.strikes;
        let end = self.config.heal_at;
        for process in 0..self.config.processes {
            for (at, order) in planned(&mut self.dice, &strikes, end) {
                self.order_at(at, process, order);
            }
        }
        for at in moments(&mut self.dice, self.config.step_downs_per_hour, end) {
            let errands = [
                Errand::StepDown,
                Errand::StepDownTwice,
                Errand::StaleEpoch,
                Errand::WrongEpoch,
                Errand::WrongNode,
                Errand::Describe,
            ];
            let errand = errands[self.dice.weighted(Stream::Crash, "errand", &[5, 2, 1, 1, 1, 1])];
            self.errand_at(at, errand);
        }
        let hands = [
            (self.config.lease_is_lost, ByHand::LoseLease),
            (self.config.lease_is_restored, ByHand::RestoreLease(0)),
        ];
        for (happens, hand) in hands {
            if happens {
                let at = self.dice.between(Stream::Crash, "by_hand", 0, end);
                self.by_hand_at(at, hand);
            }
        }
        // Not before there is something to lose.
        let disaster = self.dice.between(Stream::Crash, "disaster", end / 3, end);
        if self.config.disaster {
            self.by_hand_at(disaster, ByHand::Disaster);
        }
        if self.config.entry_is_lost {
            let apart = self.dice.between(Stream::Crash, "by_hand", 0, end);
            let at = if self.config.disaster { disaster } else { apart };
            self.by_hand_at(at, ByHand::LoseSomeEntry);
            let mended = self.dice.between(Stream::Crash, "by_hand", at + (end - at) / 2, end);
            self.by_hand_at(mended, ByHand::MendEntry);
        }
        self.heap.push(end, Event::Heal);
    }

    pub(super) fn order(&mut self, at: TrueTime, number: ProcessNumber, order: Order) {
        self.trace.event(at, 100 + u64::from(number));
        self.trace.line(at, || format!("p{number} {order:?}"));
        let index = usize::from(number);
        let runs = self.processes[index].is_running();
        match order {
            Order::Start if runs || self.processes[index].down_until > at => {}
            Order::Start => self.start(at, number),
            Order::Kill if runs => self.die(at, number, None, false),
            Order::PowerLoss if runs => self.die(at, number, None, true),
            Order::Terminate if runs => self.tell_node(at, number, Input::Terminate),
            Order::Kill | Order::PowerLoss | Order::Terminate => {}
            Order::Down(lasts) => {
                self.processes[index].down_until = at + lasts;
                if runs {
                    self.die(at, number, None, false);
                }
                self.heap.push(at + lasts, Event::Order(number, Order::Start));
            }
            Order::LoseDisk if self.config.place == super::Place::Disk => {}
            Order::LoseDisk => {
                if runs {
                    self.die(at, number, None, false);
                }
                self.processes[index].lose_disk();
            }
            Order::SwapDisk => {
                if runs {
                    self.die(at, number, None, false);
                }
                let position = self.dice.between(Stream::Crash, "swapped_at", 1, self.shown.max(1) + 1);
                let end = LogEnd { position: Position(position), chain: Chain([0x5a; 32]) };
                self.processes[index].swap_disk(end);
            }
            Order::Freeze(lasts) => {
                self.stop_parts(at, number, lasts, &[Part::Node, Part::Data, Part::Watchdog])
            }
            Order::Starve(part, lasts) => self.stop_parts(at, number, lasts, &[part]),
            Order::UncountedPause(lasts, wall_counts) => {
                self.stop_parts(at, number, lasts, &[Part::Node, Part::Data, Part::Watchdog]);
                self.heap.push(at + lasts, Event::Uncounted(number, lasts, wall_counts));
            }
            Order::Isolate(lasts) => {
                let process = &mut self.processes[index];
                process.isolated_until = process.isolated_until.max(at + lasts);
            }
            Order::Storm(kind, prefix, lasts) => {
                self.storms.push(Storm { process: number, prefix, kind, until: at + lasts });
            }
            Order::StepWall(by) => self.step_wall(at, number, by),
            Order::FailSync => self.processes[index].disk.failing_syncs = 1,
            Order::DiskFull(full) => {
                let disk = &mut self.processes[index].disk;
                disk.capacity = if full { disk.used() } else { usize::MAX };
            }
        }
    }

    pub(super) fn by_hand(&mut self, at: TrueTime, hand: ByHand) {
        self.trace.event(at, 202);
        self.trace.line(at, || format!("somebody's hand: {hand:?}"));
        let lease = Name::new(super::control::LEASE);
        match hand {
            ByHand::LoseLease => {
                self.store.lose(&lease);
                self.watchers.show(at, &Seen::LeaseLost);
            }
            ByHand::RestoreLease(back) => {
                let writes = self.lease_writes.len() as u64;
                let back = match (writes, back) {
                    (0, _) => return,
                    (_, 0) => self.dice.below(Stream::Crash, "restored", writes),
                    (_, back) => back as u64,
                };
                let index = usize::try_from(writes.saturating_sub(1 + back)).expect("an index");
                let body = self.lease_writes[index].clone();
                self.store.put_by_hand(at, &lease, body);
                self.watchers.show(at, &Seen::LeaseLost);
            }
            ByHand::LoseEntry(position) => self.lose_entry(at, position),
            ByHand::LoseSomeEntry => self.lose_some_entry(at),
            ByHand::MendEntry => self.mend_entry(at),
            ByHand::Disaster => {
                self.damage_newest_manifest(at);
                for number in 0..self.config.processes {
                    self.order(at, number, Order::LoseDisk);
                }
            }
            ByHand::TruncateEntry(position) => {
                let key = Self::log_key(position);
                if let Some(body) = self.store.peek(&key).cloned() {
                    let kept = body.len().saturating_sub(1);
                    self.store.put_by_hand(at, &key, Blob::from(&body[..kept]));
                }
            }
            ByHand::IgnoreConditions(ignores) => self.store.ignores_conditions = ignores,
        }
    }

    /// The process ends; what it had in memory is gone.
    pub(super) fn die(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        reason: Option<StopReason>,
        power: bool,
    ) {
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

    /// Between two outputs.
    pub(super) fn strikes_at_output(&mut self, at: TrueTime, number: ProcessNumber) -> Strike {
        self.outputs += 1;
        let crashes = self.config.crash_at_output == Some(self.outputs)
            || self.dice.chance(Stream::Crash, "at_output", self.strikes.crashes_per_million_outputs);
        if crashes {
            let power = self.strikes.power_loss && self.dice.chance(Stream::Crash, "power", 500_000);
            self.die(at, number, None, power);
            return Strike::Dead;
        }
        let freezes = match self.config.freeze_at_output {
            Some((output, lasts)) if output == self.outputs => Some(lasts),
            Some(_) | None => {
                let rate = self.strikes.freezes_per_million_outputs;
                let freezes = self.dice.chance(Stream::Crash, "freeze_at_output", rate);
                freezes.then(|| self.dice.between(Stream::Crash, "freeze", MILLISECOND, 30 * SECOND))
            }
        };
        if let Some(lasts) = freezes {
            self.trace.line(at, || format!("p{number} freezes between an output and its sending"));
            self.stop_parts(at, number, lasts, &[Part::Node, Part::Data, Part::Watchdog]);
            return Strike::Frozen;
        }
        Strike::Nothing
    }

    fn stop_parts(&mut self, at: TrueTime, number: ProcessNumber, lasts: TrueTime, parts: &[Part]) {
        let process = &mut self.processes[usize::from(number)];
        for part in parts {
            let until = &mut process.stopped_until[*part as usize];
            *until = (*until).max(at + lasts);
            self.heap.push(*until, Event::Thaw(number));
        }
    }

    /// A stop of some part is over: what was about to be performed is performed, then what came meanwhile is
    /// handled in its order, timers last (D-57).
    pub(super) fn thaw(&mut self, at: TrueTime, number: ProcessNumber) {
        let index = usize::from(number);
        if self.processes[index].is_running() {
            if !self.processes[index].is_stopped(Part::Node, at)
                && self.processes[index].stalled_node.is_some()
            {
                self.drain_node(at, number);
            }
            if !self.processes[index].is_stopped(Part::Data, at)
                && self.processes[index].stalled_data.is_some()
            {
                self.drain_data(at, number);
            }
        }
        let process = &mut self.processes[index];
        for part in [Part::Node, Part::Data, Part::Watchdog] {
            if process.is_stopped(part, at) {
                continue;
            }
            let parked = std::mem::take(&mut process.parked[part as usize]);
            let (timers, messages): (Vec<Event>, Vec<Event>) = parked.into_iter().partition(Event::is_timer);
            for event in messages.into_iter().chain(timers) {
                self.heap.push(at, event);
            }
        }
    }

    pub(super) fn heal(&mut self, at: TrueTime) {
        self.trace.event(at, 201);
        self.trace.line(at, || "faults end".to_owned());
        self.store_faults = StoreFaults::none();
        self.strikes = Strikes::default();
        self.worker_faults = WorkerFaults::default();
        self.storms.clear();
        for process in &mut self.processes {
            for until in &mut process.stopped_until {
                *until = (*until).min(at);
            }
            process.isolated_until = process.isolated_until.min(at);
            process.down_until = process.down_until.min(at);
            process.disk.failing_syncs = 0;
            self.heap.push(at, Event::Thaw(process.number));
            self.heap.push(at, Event::Order(process.number, Order::Start));
        }
        self.watchers.show(at, &Seen::Healed);
    }
}

fn planned(dice: &mut Dice, strikes: &Strikes, end: TrueTime) -> Vec<(TrueTime, Order)> {
    let stream = Stream::Crash;
    let mut orders = Vec::new();
    for at in moments(dice, strikes.kills_per_hour, end) {
        orders.push((at, Order::Kill));
    }
    for at in moments(dice, strikes.terminations_per_hour, end) {
        orders.push((at, Order::Terminate));
    }
    for at in moments(dice, strikes.downs_per_hour, end) {
        let lasts = dice.between(stream, "stays_down", SECOND, strikes.longest_down);
        orders.push((at, Order::Down(lasts)));
    }
    for at in moments(dice, strikes.lost_disks_per_hour, end) {
        orders.push((at, Order::LoseDisk));
    }
    for at in moments(dice, strikes.swapped_disks_per_hour, end) {
        orders.push((at, Order::SwapDisk));
    }
    for at in moments(dice, strikes.freezes_per_hour, end) {
        let lasts = dice.between(stream, "freeze", MILLISECOND, 15 * SECOND);
        orders.push((at, Order::Freeze(lasts)));
    }
    for at in moments(dice, strikes.starvations_per_hour, end) {
        let part = [Part::Data, Part::Node][dice.weighted(stream, "starved_part", &[1, 1])];
        let lasts = dice.between(stream, "starvation", MILLISECOND, 40 * SECOND);
        orders.push((at, Order::Starve(part, lasts)));
    }
    for at in moments(dice, strikes.isolations_per_hour, end) {
        let lasts = dice.between(stream, "isolation", MILLISECOND, 40 * SECOND);
        orders.push((at, Order::Isolate(lasts)));
    }
    for at in moments(dice, strikes.storms_per_hour, end) {
        let kind = [StormKind::BrownOut, StormKind::BlackOut, StormKind::Throttling]
            [dice.weighted(stream, "storm", &[1, 1, 1])];
        let prefix = [None, Some(Prefix::Lease), Some(Prefix::Log), Some(Prefix::Snapshots)]
            [dice.weighted(stream, "prefix", &[2, 1, 1, 1])];
        let lasts = dice.between(stream, "storm_lasts", 2 * SECOND, 30 * SECOND);
        orders.push((at, Order::Storm(kind, prefix, lasts)));
    }
    for at in moments(dice, strikes.wall_steps_per_hour, end) {
        let by = dice.around(stream, "wall_step", 60 * SECOND);
        orders.push((at, Order::StepWall(by)));
    }
    for at in moments(dice, strikes.uncounted_pauses_per_hour, end) {
        let lasts = dice.between(stream, "pause_lasts", MILLISECOND, 15 * SECOND);
        let wall_counts = dice.chance(stream, "wall_counts", 500_000);
        orders.push((at, Order::UncountedPause(lasts, wall_counts)));
    }
    orders
}

/// Random moments before `end`, on average so many an hour.
fn moments(dice: &mut Dice, per_hour: u64, end: TrueTime) -> Vec<TrueTime> {
    let mut moments = Vec::new();
    if let Some(mean) = (3_600 * SECOND).checked_div(per_hour) {
        let mut at = dice.pause(Stream::Crash, "pause", 2 * mean);
        while at < end {
            moments.push(at);
            at += dice.pause(Stream::Crash, "pause", 2 * mean);
        }
    }
    moments
}
