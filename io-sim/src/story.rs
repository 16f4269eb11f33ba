//! What a watched run tells people, in order and with times, for time lines and pages.

use std::fmt;

use crate::TrueTime;
use crate::watch::ProcessNumber;
use crate::weather::{Fate, Heard};

/// One line for people. By custom it begins with who does something: `p0 …`, `store: …`, `worker-1 …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// When.
    pub at: TrueTime,
    /// What.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:>6}.{:06} {}", self.at / 1_000_000, self.at % 1_000_000, self.text)
    }
}

/// A request of a process to the store, and what becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Who sends it.
    pub process: ProcessNumber,
    /// When it leaves.
    pub sent: TrueTime,
    /// When it takes effect in the store; None: never.
    pub lands: Option<TrueTime>,
    /// When the sender hears of it, if it still runs then; None: never.
    pub heard: Option<TrueTime>,
    /// Whether what is heard is what the store said.
    pub answered: bool,
    /// What it asks.
    pub text: String,
}

impl Message {
    /// A request whose fate is known when it leaves.
    #[must_use]
    pub fn new(process: ProcessNumber, sent: TrueTime, fate: Fate, text: String) -> Self {
        let lands = fate.lands_after.map(|after| sent + after);
        let heard = match fate.heard {
            Heard::Answer { after } => lands.map(|lands| lands + after),
            Heard::Transient { after, .. } | Heard::Refused { after } | Heard::Permanent { after } => {
                Some(sent + after)
            }
            Heard::Nothing => None,
        };
        let answered = matches!(fate.heard, Heard::Answer { .. });
        Self { process, sent, lands, heard, answered, text }
    }
}

/// What a process's own clocks showed at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Whose.
    pub process: ProcessNumber,
    /// True time.
    pub at: TrueTime,
    /// The clock of a lease holder, in microseconds.
    pub instant_us: u64,
    /// The wall clock, in microseconds since the Unix epoch.
    pub wall_us: u64,
}

/// What a watcher saw, as far as a picture shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sight {
    /// A process started.
    Started,
    /// It ended; None: it was killed.
    Died(Option<String>),
    /// Its write of the lease took effect.
    Lease {
        /// Under this epoch.
        epoch: u64,
        /// Or given back.
        held: bool,
    },
    /// Its gate was opened or its deadline moved.
    GateOpen {
        /// Of this epoch.
        epoch: u64,
        /// In true time.
        until: TrueTime,
    },
    /// Its gate was shut for good.
    GateShut,
    /// Its fence landed.
    Fenced {
        /// Of this epoch.
        epoch: u64,
    },
}

/// Everything of one watched run.
#[derive(Clone, Default, Debug)]
pub struct Story {
    /// What watchers saw of each process.
    pub sights: Vec<(TrueTime, ProcessNumber, Sight)>,
    /// Lines, in their order.
    pub lines: Vec<Line>,
    /// Requests to the store.
    pub messages: Vec<Message>,
    /// Readings of clocks.
    pub readings: Vec<Reading>,
}
