//! Scripts of the whole product: what happened, for exact questions. Every draw is the calm one unless a
//! script says otherwise.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use dexzd_core::ids::{Epoch, Position, ProcessId};
use dexzd_core::lease::LeaseState;
use dexzd_core::node::{AdminAnswer, AdminError, AdminRequest, Role};
use dexzd_core::standby::FollowerState;
use dexzd_core::stop::StopReason;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::dice::{Dice, Script};
use dexzd_io_sim::product::{Place, ProductConfig, ProductWorld, Shape};
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use crate::product_watchers;
use crate::runner::story;

/// What happened, in order.
#[derive(Default, Debug)]
pub struct Facts {
    /// Each epoch that came to serve: when, by whom.
    pub served: Vec<(TrueTime, ProcessNumber, Epoch)>,
    /// Stops, with their reasons; None: killed.
    pub died: Vec<(TrueTime, ProcessNumber, Option<StopReason>)>,
    /// Tasks that were handed to the transport: Step and attempt.
    pub left: Vec<(TrueTime, String)>,
    /// The same tasks: by whom, under which epoch, and the identity of Step and attempt.
    pub handed_out: Vec<(ProcessNumber, u64, String)>,
    /// Answers of the public API that left.
    pub answers: Vec<(TrueTime, ProcessNumber)>,
    /// What each process applied.
    pub applied: Vec<(TrueTime, ProcessNumber, Position)>,
    /// Local stores that were deleted.
    pub discarded: Vec<(TrueTime, ProcessNumber)>,
    /// Entries that were trimmed.
    pub deleted: Vec<Position>,
    /// When each entry became durable.
    pub durable: Vec<TrueTime>,
    /// Every change of what a follower shows.
    pub follower: Vec<(TrueTime, ProcessNumber, Option<FollowerState>)>,
    /// Every change of `dex.HotStandby`.
    pub hot: Vec<(TrueTime, ProcessNumber, bool)>,
    /// Acquisitions and releases that landed.
    pub lease: Vec<(TrueTime, ProcessNumber, Epoch, LeaseState)>,
    /// Answers of `AdminService`.
    pub admin: Vec<(TrueTime, ProcessNumber, AdminRequest, Result<AdminAnswer, AdminError>)>,
    /// Who is who.
    pub process_ids: BTreeMap<ProcessNumber, ProcessId>,
    /// Accepted step downs.
    pub stepping_down: Vec<(TrueTime, ProcessNumber, Epoch)>,
    /// Results that did not count.
    pub late: usize,
    /// What Workers learned of their results: when, of which epoch's hand-out, whether it counted.
    pub settled: Vec<(TrueTime, u64, bool)>,
    /// What the local stores contained behind each position, by whom.
    pub digests: BTreeMap<Position, Vec<(ProcessNumber, u64)>>,
}

/// A watcher that breaks nothing and writes everything down.
#[derive(Clone, Default, Debug)]
pub struct Notes(Rc<RefCell<Facts>>);

impl Notes {
    /// What was written so far.
    #[must_use]
    pub fn facts(&self) -> Ref<'_, Facts> {
        self.0.borrow()
    }
}

impl Facts {
    /// Who served which epoch, without the times.
    #[must_use]
    pub fn tenures(&self) -> Vec<(ProcessNumber, u64)> {
        self.served.iter().map(|(_, process, epoch)| (*process, epoch.0)).collect()
    }

    /// Reasons of those that were not killed.
    #[must_use]
    pub fn reasons(&self) -> Vec<StopReason> {
        self.died.iter().filter_map(|(_, _, reason)| *reason).collect()
    }

    /// Attempts of Steps whose name begins so, in the order of leaving.
    #[must_use]
    pub fn attempts(&self, step: &str) -> Vec<&str> {
        self.left.iter().map(|(_, word)| word.as_str()).filter(|word| word.starts_with(step)).collect()
    }

    /// What a process's follower showed, one after the other.
    #[must_use]
    pub fn followed(&self, process: ProcessNumber) -> Vec<FollowerState> {
        self.follower.iter().filter(|(_, of, _)| *of == process).filter_map(|(_, _, state)| *state).collect()
    }

    /// How many entries a process applied in this time.
    #[must_use]
    pub fn applied_between(&self, process: ProcessNumber, from: TrueTime, to: TrueTime) -> usize {
        self.applied.iter().filter(|(at, of, _)| *of == process && (from..=to).contains(at)).count()
    }
}

impl Watcher for Notes {
    fn rule(&self) -> &'static str {
        "notes"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        let mut facts = self.0.borrow_mut();
        match seen {
            Seen::GateOpen { process, epoch, until }
                if *until > at && facts.served.last().is_none_or(|(_, _, last)| last != epoch) =>
            {
                facts.served.push((at, *process, *epoch));
            }
            Seen::Died { process, reason } => facts.died.push((at, *process, *reason)),
            Seen::TaskLeft { process, epoch, task, .. } => {
                let word = format!("{} {}", task.step, task.attempt);
                facts.left.push((at, word.clone()));
                facts.handed_out.push((*process, epoch.0, word));
            }
            Seen::AnswerLeft { process, .. } => facts.answers.push((at, *process)),
            Seen::Applied { process, end, digest, .. } => {
                facts.applied.push((at, *process, end.position));
                facts.digests.entry(end.position).or_default().push((*process, *digest));
            }
            Seen::Discarded { process } => facts.discarded.push((at, *process)),
            Seen::EntryDeleted { position, .. } => facts.deleted.push(*position),
            Seen::EntryDurable { .. } => facts.durable.push(at),
            Seen::Probed { process, role, health, gauges, .. } => {
                let state = gauges.state.filter(|_| *role != Role::Stopped);
                let before = facts.follower.iter().rfind(|(_, of, _)| of == process).and_then(|last| last.2);
                if before != state {
                    facts.follower.push((at, *process, state));
                }
                let before = facts.hot.iter().rfind(|(_, of, _)| of == process).is_some_and(|last| last.2);
                if before != health.is_hot_standby {
                    facts.hot.push((at, *process, health.is_hot_standby));
                }
            }
            Seen::LeaseLanded { process, record } => {
                let (epoch, state) = (record.epoch, record.state);
                if facts.lease.last().is_none_or(|last| (last.2, last.3) != (epoch, state)) {
                    facts.lease.push((at, *process, epoch, state));
                }
                facts.process_ids.insert(*process, record.holder);
            }
            Seen::AdminAnswered { process, request, answer, .. } => {
                facts.admin.push((at, *process, (*request).clone(), (*answer).clone()));
            }
            Seen::SteppingDown { process, epoch } => facts.stepping_down.push((at, *process, *epoch)),
            Seen::Settled { handout, accepted, .. } => {
                facts.late += usize::from(!accepted);
                facts.settled.push((at, handout.epoch.0, *accepted));
            }
            _ => {}
        }
        Ok(())
    }
}

/// A world of these processes in fine weather, and what is written down about it.
#[must_use]
pub fn world(config: ProductConfig) -> (ProductWorld, Notes) {
    world_with(config, "")
}

/// The same; these draws are not the calm ones.
///
/// # Panics
/// If the draws cannot be read.
#[must_use]
pub fn world_with(config: ProductConfig, draws: &str) -> (ProductWorld, Notes) {
    let notes = Notes::default();
    let mut watchers = product_watchers(&config);
    watchers.add(Box::new(notes.clone()));
    let script = Script::parse(draws).expect("a script's draws are well formed");
    (ProductWorld::new(config, Dice::from_script(script), watchers, story()), notes)
}

/// Runs to the end.
///
/// # Panics
/// When a rule is broken.
pub fn run(world: &mut ProductWorld) {
    if let Err(violation) = world.run() {
        panic!("{violation}");
    }
}

/// So many hot standbys and actives in a store.
#[must_use]
pub fn hot(processes: u8, flows: Vec<Shape>) -> ProductConfig {
    ProductConfig { hot: 0b111, ..cold(processes, flows) }
}

/// So many cold ones.
#[must_use]
pub fn cold(processes: u8, flows: Vec<Shape>) -> ProductConfig {
    ProductConfig { place: Place::Store, processes, ..ProductConfig::calm(flows) }
}

/// Draws that let so many clients begin one after the other, evenly over this time.
#[must_use]
pub fn one_after_the_other(clients: usize, lasts: TrueTime) -> String {
    let step = lasts / clients as u64;
    (0..clients as u64)
        .map(|client| format!("workload client_starts {} {}\n", lasts + 1, client * step))
        .collect()
}
