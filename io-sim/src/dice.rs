//! Chance: named streams from one root seed, and the log of everything they decided.
//!
//! A run is a seed *or* a decision log. Streams are independent, so that a new draw in one place does
//! not reshuffle the others. In a replay each draw takes the next logged choice of its stream and kind;
//! where the log has none left the draw is 0, which is the calm choice everywhere: no fault, the
//! shortest latency, the first alternative. A log therefore survives changes of the code, and can be
//! cut shorter by hand.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write as _};

use dexzd_core::rng::Rng;

use crate::TrueTime;

/// One million: chances are given in parts of it.
pub const MILLION: u32 = 1_000_000;

/// A named source of chance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream {
    /// Which faults exist in this run, and the configuration drawn.
    Swarm,
    /// Latency and faults of the object store and the disks.
    Store,
    /// Messages between clients, Workers, `node` and `engine`.
    Network,
    /// Moments of crashes, freezes and restarts.
    Crash,
    /// What clients and Workers do.
    Workload,
    /// Offset and drift of one process's clocks.
    Clock(u8),
    /// The seeds of one process's own generators.
    Jitter(u8),
}

/// Processes have numbers below this.
pub const PROCESSES: usize = 8;
const SHARED_STREAMS: usize = 5;
const STREAMS: usize = SHARED_STREAMS + 2 * PROCESSES;

impl Stream {
    fn slot(self) -> usize {
        match self {
            Self::Swarm => 0,
            Self::Store => 1,
            Self::Network => 2,
            Self::Crash => 3,
            Self::Workload => 4,
            Self::Clock(process) => SHARED_STREAMS + usize::from(process),
            Self::Jitter(process) => SHARED_STREAMS + PROCESSES + usize::from(process),
        }
    }

    fn from_slot(slot: usize) -> Self {
        let number = |slot: usize| u8::try_from(slot).expect("fewer than 256 processes");
        match slot {
            0 => Self::Swarm,
            1 => Self::Store,
            2 => Self::Network,
            3 => Self::Crash,
            4 => Self::Workload,
            slot if slot < SHARED_STREAMS + PROCESSES => Self::Clock(number(slot - SHARED_STREAMS)),
            slot => Self::Jitter(number(slot - SHARED_STREAMS - PROCESSES)),
        }
    }

    /// The stream of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        (0..STREAMS).map(Self::from_slot).find(|stream| stream.to_string() == name)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Swarm => formatter.write_str("swarm"),
            Self::Store => formatter.write_str("store"),
            Self::Network => formatter.write_str("network"),
            Self::Crash => formatter.write_str("crash"),
            Self::Workload => formatter.write_str("workload"),
            Self::Clock(process) => write!(formatter, "clock[{process}]"),
            Self::Jitter(process) => write!(formatter, "jitter[{process}]"),
        }
    }
}

/// One draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Where it was drawn.
    pub stream: Stream,
    /// What it decides.
    pub kind: &'static str,
    /// Choices are `0..alternatives`.
    pub alternatives: u64,
    /// The choice.
    pub chosen: u64,
    /// When it was drawn. Not part of a written log's meaning: a note for people.
    pub at: TrueTime,
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, kind, alternatives, chosen, at: _ } = self;
        write!(formatter, "{stream} {kind} {alternatives} {chosen}")
    }
}

/// A written log says `0*500` for five hundred calm choices; more than this in all are nobody's log.
const MOST_CHOICES: usize = 10_000_000;

/// The choices of a written log, per stream and kind, in order.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Script {
    choices: BTreeMap<Stream, BTreeMap<String, VecDeque<u64>>>,
}

impl Script {
    /// Reads the lines that [`Dice::written`] made: stream, kind, alternatives, chosen, where chosen may be
    /// `0*500` for a choice that repeats. What follows a `#` says nothing, nor does an empty line.
    ///
    /// # Errors
    /// Names the first line that is not of this form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self::default();
        let mut total = 0;
        for (index, line) in text.lines().enumerate() {
            let said = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = said.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let parsed = match words.as_slice() {
                [stream, kind, alternatives, chosen] => parse_line(stream, kind, alternatives, chosen),
                _ => None,
            };
            let (stream, kind, chosen, times) = parsed.ok_or_else(|| {
                format!(
                    "line {} of the decision log is {:?}: it must be a stream, a kind, the number \
                     of alternatives and the one chosen",
                    index + 1,
                    line.trim()
                )
            })?;
            total += times;
            if total > MOST_CHOICES {
                return Err(format!(
                    "line {} of the decision log leads to more than {MOST_CHOICES} choices in all",
                    index + 1
                ));
            }
            let choices = script.choices.entry(stream).or_default().entry(kind.to_owned()).or_default();
            choices.extend(std::iter::repeat_n(chosen, times));
        }
        Ok(script)
    }

    /// The choice of one more draw of this kind.
    pub fn push(&mut self, stream: Stream, kind: &str, chosen: u64) {
        let choices = self.choices.entry(stream).or_default();
        match choices.get_mut(kind) {
            Some(choices) => choices.push_back(chosen),
            None => {
                choices.insert(kind.to_owned(), VecDeque::from([chosen]));
            }
        }
    }

    fn next(&mut self, stream: Stream, kind: &str) -> Option<u64> {
        self.choices.get_mut(&stream)?.get_mut(kind)?.pop_front()
    }
}

fn parse_line<'a>(
    stream: &str,
    kind: &'a str,
    alternatives: &str,
    chosen: &str,
) -> Option<(Stream, &'a str, u64, usize)> {
    alternatives.parse::<u64>().ok()?;
    let (chosen, times) = match chosen.split_once('*') {
        Some((chosen, times)) => (chosen, times.parse().ok().filter(|times| *times <= MOST_CHOICES)?),
        None => (chosen, 1),
    };
    Some((Stream::named(stream)?, kind, chosen.parse().ok()?, times))
}

/// What was drawn. If the run panics it outlives it, so that a panic can be replayed and shrunk too.
#[derive(Clone, Default, Debug)]
struct Log(Vec<Decision>);

thread_local! {
    static OF_PANICKED_RUN: RefCell<Vec<Decision>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            OF_PANICKED_RUN.replace(std::mem::take(&mut self.0));
        }
    }
}

/// What the run had drawn that panicked last on this thread.
#[must_use]
pub fn decisions_of_panicked_run() -> Vec<Decision> {
    OF_PANICKED_RUN.take()
}

/// Every draw of a run comes from here.
#[derive(Clone, Debug)]
pub struct Dice {
    generators: Vec<Rng>,
    script: Option<Script>,
    log: Log,
    now: TrueTime,
}

impl Dice {
    /// Equal seeds give equal runs.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let generators =
            (0..STREAMS).map(|slot| Rng::new(stream_seed(seed, Stream::from_slot(slot)))).collect();
        Self { generators, script: None, log: Log::default(), now: 0 }
    }

    /// Follows a written log; draws that it does not cover are 0.
    #[must_use]
    pub fn from_script(script: Script) -> Self {
        Self { script: Some(script), ..Self::from_seed(0) }
    }

    /// Decisions from here on are drawn at this time; worlds say so at every event.
    pub fn set_now(&mut self, now: TrueTime) {
        self.now = now;
    }

    /// Uniform in `0..alternatives`, which must not be empty.
    pub fn below(&mut self, stream: Stream, kind: &'static str, alternatives: u64) -> u64 {
        assert!(alternatives > 0, "a draw of {kind} needs alternatives");
        let chosen = match &mut self.script {
            Some(script) => script.next(stream, kind).unwrap_or(0).min(alternatives - 1),
            None => self.generators[stream.slot()].up_to(alternatives - 1),
        };
        self.record(stream, kind, alternatives, chosen)
    }

    /// Uniform in `low..=high`.
    pub fn between(&mut self, stream: Stream, kind: &'static str, low: u64, high: u64) -> u64 {
        assert!(low <= high, "a draw of {kind} needs an interval");
        low + self.below(stream, kind, high - low + 1)
    }

    /// Uniform in `1..=longest`, for the time until something strikes: the calm choice is the longest.
    pub fn pause(&mut self, stream: Stream, kind: &'static str, longest: u64) -> u64 {
        longest - self.below(stream, kind, longest)
    }

    /// Uniform in `-limit..=limit`; the calm choice is 0, and small choices are near it.
    pub fn around(&mut self, stream: Stream, kind: &'static str, limit: u64) -> i64 {
        let drawn = self.below(stream, kind, 2 * limit + 1);
        let size = i64::try_from(drawn.div_ceil(2)).expect("limits are small");
        if drawn.is_multiple_of(2) { size } else { -size }
    }

    /// True with this chance. A fault that does not exist in this run draws nothing.
    pub fn chance(&mut self, stream: Stream, kind: &'static str, per_million: u32) -> bool {
        if per_million == 0 {
            return false;
        }
        let chosen = match &mut self.script {
            Some(script) => script.next(stream, kind).unwrap_or(0).min(1),
            None => {
                let drawn = self.generators[stream.slot()].up_to(u64::from(MILLION) - 1);
                u64::from(drawn < u64::from(per_million))
            }
        };
        self.record(stream, kind, 2, chosen) == 1
    }

    /// An index into the weights; the first is the calm one. What has no weight does not happen, not even if
    /// a written log says so: a run has the faults of its configuration and no others.
    pub fn weighted(&mut self, stream: Stream, kind: &'static str, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        assert!(total > 0, "a draw of {kind} needs a weight above zero");
        let chosen = match &mut self.script {
            Some(script) => {
                let wanted = script.next(stream, kind).unwrap_or(0);
                let weight = usize::try_from(wanted).ok().and_then(|index| weights.get(index));
                if weight.is_some_and(|weight| *weight > 0) { wanted } else { 0 }
            }
            None => {
                let mut drawn = self.generators[stream.slot()].up_to(total - 1);
                let mut index = 0;
                while drawn >= u64::from(weights[index]) {
                    drawn -= u64::from(weights[index]);
                    index += 1;
                }
                index as u64
            }
        };
        let last = weights.len() as u64 - 1;
        let chosen = self.record(stream, kind, last + 1, chosen);
        usize::try_from(chosen).expect("an index into a slice")
    }

    /// A seed for a generator inside the simulation. In a replay it is what the log says, so that the
    /// core's own draws repeat.
    pub fn seed(&mut self, stream: Stream, kind: &'static str) -> u64 {
        self.below(stream, kind, u64::MAX)
    }

    /// Everything drawn so far, in order.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        &self.log.0
    }

    /// Everything drawn so far, as lines for a file that [`Script::parse`] reads.
    #[must_use]
    pub fn written(&self) -> String {
        let mut text = String::new();
        for decision in &self.log.0 {
            writeln!(text, "{decision}").expect("writing to a string cannot fail");
        }
        text
    }

    fn record(&mut self, stream: Stream, kind: &'static str, alternatives: u64, chosen: u64) -> u64 {
        self.log.0.push(Decision { stream, kind, alternatives, chosen, at: self.now });
        chosen
    }
}

/// Streams are told apart by their names, so that their order in the code means nothing.
fn stream_seed(seed: u64, stream: Stream) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in stream.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Rng::new(seed ^ hash.rotate_left(17)).next_u64()
}

#[cfg(test)]
#[path = "dice_tests.rs"]
mod tests;
