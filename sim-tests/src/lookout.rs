//! Looks out for interesting states and counts them as marks: seeds that never reach them prove little. It
//! checks nothing.
//!
//! Marks that only the inside of a world can see are set there, with `marks::mark`.

use std::collections::BTreeMap;

use dexzd_core::engine::Durability;
use dexzd_core::ids::{Epoch, HandoutId, Position};
use dexzd_core::lease::LeaseState;
use dexzd_io_sim::marks::{mark, measure};
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};
use dexzd_io_sim::{MILLISECOND, TrueTime};

/// The measured time between the end of one epoch's gate and the first opening of another's.
pub const FAILOVER_GAP: &str = "failover gap";

/// So close to its end is close.
const CLOSE: TrueTime = 100 * MILLISECOND;

/// See the module.
#[derive(Default, Debug)]
pub struct Lookout {
    lease: Option<(ProcessNumber, Epoch, LeaseState)>,
    lease_was_lost: bool,
    released: BTreeMap<ProcessNumber, Epoch>,
    died_since_lease: bool,
    /// The gate opened last: whose, of which epoch, and when it ends or ended.
    gate: Option<(ProcessNumber, Epoch, TrueTime)>,
    durable: Position,
    waiting_tasks: BTreeMap<ProcessNumber, Position>,
    async_tasks: BTreeMap<(String, u32), HandoutId>,
}

impl Lookout {
    fn lease_landed(&mut self, process: ProcessNumber, epoch: Epoch, state: LeaseState) {
        if std::mem::take(&mut self.lease_was_lost) {
            mark("the lease is created again after it was deleted");
        }
        if let Some((before, old, old_state)) = self.lease
            && epoch > old
        {
            match (before == process, old_state) {
                (_, LeaseState::Free) => mark("a released lease is taken"),
                (true, LeaseState::Held) => mark("a process takes its own old lease"),
                (false, LeaseState::Held) if self.died_since_lease => mark("takeover after a death"),
                (false, LeaseState::Held) => mark("takeover from a process that lives"),
            }
        }
        if self.released.get(&process) == Some(&epoch) && state == LeaseState::Held {
            mark("a renewal lands after its release was sent");
        }
        self.died_since_lease = false;
        self.lease = Some((process, epoch, state));
    }

    fn gate_opened(&mut self, at: TrueTime, process: ProcessNumber, epoch: Epoch, until: TrueTime) {
        if let Some((_, old, ends)) = self.gate {
            if old != epoch && at >= ends {
                measure(FAILOVER_GAP, at - ends);
            } else if old == epoch && at > ends && until > at {
                mark("a gate in doubt opens again");
            } else if old == epoch && until > ends && ends > at && ends - at < CLOSE {
                mark("a renewal is known in the last 100 ms");
            }
            if old == epoch && until == at && ends > at {
                mark("a gate is in doubt");
            }
        }
        self.gate = Some((process, epoch, until));
    }

    fn ends(&mut self, at: TrueTime, process: ProcessNumber) {
        if let Some((whose, _, ends)) = &mut self.gate
            && *whose == process
        {
            *ends = (*ends).min(at);
        }
    }
}

impl Watcher for Lookout {
    fn rule(&self) -> &'static str {
        "none: this only counts"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::LeaseLanded { process, record } => self.lease_landed(*process, record.epoch, record.state),
            Seen::LeaseLost => {
                self.lease_was_lost = true;
                if self.gate.is_some_and(|(_, _, ends)| ends > at) {
                    mark("the lease is deleted under an open gate");
                }
            }
            Seen::ReleaseSent { process, epoch } => {
                self.released.insert(*process, *epoch);
            }
            Seen::GateOpen { process, epoch, until } => self.gate_opened(at, *process, *epoch, *until),
            Seen::GateShut { process, .. } => self.ends(at, *process),
            Seen::Died { process, .. } => {
                self.ends(at, *process);
                self.died_since_lease |= self.lease.is_some_and(|(holder, ..)| holder == *process);
                if self.waiting_tasks.remove(process).is_some_and(|after| after > self.durable) {
                    mark("crash between a decision and its durability");
                }
            }
            Seen::EntryDurable { position, .. } => self.durable = self.durable.max(*position),
            Seen::TaskMade { process, after, task, .. }
                if *after > self.durable && task.durability == Durability::Sync =>
            {
                self.waiting_tasks.insert(*process, *after);
            }
            Seen::TaskLeft { task, .. } => {
                if task.attempt > 1 {
                    mark("a task leaves for a further attempt");
                }
                if task.durability == Durability::Async {
                    let which = format!("{} {} {} {:?}", task.flow_id, task.run_id, task.step, task.method);
                    let before = self.async_tasks.insert((which, task.attempt), task.handout);
                    if before.is_some_and(|before| before.epoch < task.handout.epoch) {
                        mark("the start of an ASYNC attempt was lost");
                    }
                }
            }
            Seen::EntryDeleted { .. } => mark("an entry is trimmed"),
            Seen::EntryLost { .. } => mark("an entry is lost by hand"),
            Seen::HandedBack { .. } => mark("a Worker hands a task back"),
            Seen::Settled { accepted: false, .. } => mark("a late result is dropped"),
            Seen::Settled { accepted: true, on_its_stream: false, .. } => {
                mark("a result counts that came on another stream");
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "lookout_tests.rs"]
mod tests;
