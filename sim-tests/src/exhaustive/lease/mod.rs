//! The lease: real candidates, holders and releases over one object.
//!
//! What may happen, in any order: a write lands or is refused, at once, later or never; its answer is
//! heard, late or lost; a read shows what stands there now or what stood there; a try fails without a word
//! about its write; a process crashes and is started again; the operator steps the holder down, and it
//! comes back after its hold-off; time passes.
//!
//! What is abstracted: all clocks are the true time (rates, skew, pauses and jumps are dealt with in
//! protocol-review.md 1.7 and 9, and by the simulator); processes are called at multiples of one tick
//! only; an answer to a read that was given up never comes; jitter and back-off are the shortest ones
//! drawn, or both extremes where [`Bounds::jitter`] says so.
//!
//! What is checked after each event:
//!
//! - invariant 3: no two processes hold a lease that is valid in true time;
//! - HA-13: every acquisition has a higher epoch than all before it;
//! - D-37: an epoch is over once its release was begun.

mod renaming;
mod tell;
mod world;

use dexzd_core::time::Instant;

pub use world::{Event, World};

use super::search::{Model, Outcome};

/// How much is explored.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many processes compete.
    pub processes: usize,
    /// Writes of one process that may still land, at most; a state with more is not explored.
    pub live_writes: usize,
    /// Processes are called at multiples of this only, in microseconds.
    pub tick: u64,
    /// Processes crash, and start again.
    pub crashes: bool,
    /// The holder is stepped down, and comes back after its hold-off.
    pub step_downs: bool,
    /// Answers may be heard late; else at once or never.
    pub late_answers: bool,
    /// Reads take time; else they are answered at once or never.
    pub slow_reads: bool,
    /// Reads may show what stood there earlier.
    pub stale_reads: bool,
    /// Requests may fail visibly, whatever becomes of the write.
    pub errors: bool,
    /// Due timers may wait: a process may be frozen at any time.
    pub freezes: bool,
    /// Draws are the shortest or the longest possible; else the shortest.
    pub jitter: bool,
    /// Wrong: a release that was not confirmed counts as failed, and the gate opens again.
    pub reopens: bool,
}

/// The lease with its bounds, as a model.
#[derive(Clone, Copy, Debug)]
pub struct LeaseModel {
    /// How much of it.
    pub bounds: Bounds,
}

impl Bounds {
    /// What runs with the tests.
    #[must_use]
    pub const fn small() -> Self {
        Self {
            processes: 2,
            live_writes: 1,
            tick: 500_000,
            crashes: true,
            step_downs: true,
            late_answers: true,
            slow_reads: false,
            stale_reads: false,
            errors: false,
            freezes: false,
            jitter: false,
            reopens: false,
        }
    }
}

impl Model for LeaseModel {
    type State = World;
    type Event = Event;

    fn initial(&self) -> World {
        let mut world = World::new(&self.bounds);
        world.settle(&self.bounds, true);
        world
    }

    fn events(&self, state: &World, events: &mut Vec<Event>) {
        state.events(&self.bounds, events);
    }

    fn apply(&self, state: &World, event: Event) -> Outcome<World> {
        let mut world = state.clone();
        world.happen(&self.bounds, event);
        if let Some(wrong) = world.wrong() {
            return Outcome::Wrong(wrong);
        }
        if world.is_beyond(&self.bounds) {
            return Outcome::Beyond;
        }
        world.settle(&self.bounds, true);
        Outcome::State(world)
    }

    fn tell(&self, events: &[Event]) -> Vec<String> {
        tell::tell(&self.bounds, events)
    }
}

/// Seconds with one digit.
fn seconds(at: Instant) -> String {
    let tenths = at.saturating_since(world::BEGIN).as_millis() / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}
