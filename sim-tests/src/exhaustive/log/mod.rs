//! The log: real starts of an epoch and real appenders over one log, without any clock.
//!
//! Any process may take the lease at any time; the old holder notices nothing; a write lands at once,
//! with or without an answer, or long after its process gave up; entries below the authorised bound
//! are deleted at any time; processes end and come back with their disk, or with an empty one. What holds
//! here holds for every lease duration, skew, freeze and delay (protocol-review.md, section 5).
//!
//! What is abstracted: a standby follows by a rule of this model (the entry that fits is applied); a snapshot
//! is a position and a checksum; reads give one entry at a time; a process that stops is restarted; the
//! lease is its record and nothing else (module `lease` has its machines).
//!
//! What is checked after each event:
//!
//! - invariant 2: what was acknowledged is in the log, for ever, and in the state of the true holder that serves;
//! - invariants 1 and 6: the true holder serves the state that the log says.

mod names;
mod world;

pub use world::{Event, World};

use super::search::{Model, Outcome};

/// How much is explored, and which rules hold outside of the machines.
#[derive(Clone, Copy, Debug)]
pub struct LogModel {
    /// How many processes.
    pub processes: usize,
    /// The lease is taken so often.
    pub epochs: u64,
    /// Entries that one epoch writes behind its fence.
    pub writes: u8,
    /// How often each process comes back.
    pub restarts: u8,
    /// Whether it may come back with an empty disk.
    pub wipes: bool,
    /// Writes of processes that gave up, which may still land.
    pub late_writes: usize,
    /// D-42: the lease is confirmed after the fence.
    pub confirms: bool,
    /// D-30: trimming is authorised by a lease write, and a start knows the bound.
    pub bound_in_lease: bool,
    /// D-30: fences are never deleted.
    pub keeps_fences: bool,
    /// D-30: the entry at the bound is kept.
    pub keeps_entry_at_bound: bool,
}

impl LogModel {
    /// What runs with the tests.
    #[must_use]
    pub const fn small() -> Self {
        Self {
            processes: 2,
            epochs: 2,
            writes: 1,
            restarts: 1,
            wipes: true,
            late_writes: 2,
            confirms: true,
            bound_in_lease: true,
            keeps_fences: true,
            keeps_entry_at_bound: true,
        }
    }
}

impl Model for LogModel {
    type State = World;
    type Event = Event;

    fn initial(&self) -> World {
        World::new(self)
    }

    fn events(&self, state: &World, events: &mut Vec<Event>) {
        state.events(self, events);
    }

    fn apply(&self, state: &World, event: Event) -> Outcome<World> {
        let mut world = state.clone();
        world.happen(self, event);
        match world.wrong.take() {
            Some(wrong) => Outcome::Wrong(wrong),
            None => {
                world.settle();
                Outcome::State(world)
            }
        }
    }

    fn tell(&self, events: &[Event]) -> Vec<String> {
        let mut world = World::new(self);
        events
            .iter()
            .map(|&event| {
                world.story = Some(Vec::new());
                world.happen(self, event);
                let story = world.story.take().unwrap_or_default();
                world.settle();
                if story.is_empty() { format!("({event:?})") } else { story.join("; ") }
            })
            .collect()
    }
}
