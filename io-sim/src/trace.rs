//! What happened: a rolling hash over every event for machines, lines for people.

use std::fmt;
use std::io::Write as _;

use minicbor::Encode;

use crate::TrueTime;
use crate::clock::Clocks;
use crate::story::{Line, Message, Reading, Sight, Story};
use crate::watch::ProcessNumber;
use crate::weather::Fate;

/// Nobody reads a longer story: later lines are dropped, and that is said.
const LONGEST_STORY: usize = 500_000;

/// Equal runs have equal traces; the hash covers time, place, input and outputs of every event.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    events: u64,
    story: Option<Box<Story>>,
    prints: bool,
    checkpoints: Vec<Checkpoint>,
    /// Lent to every encoding.
    bytes: Vec<u8>,
}

/// The beginning of one event of a watched run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Checkpoint {
    at: TrueTime,
    place: u64,
    hash_before: u64,
}

impl Trace {
    /// Without lines: for thousands of seeds.
    #[must_use]
    pub fn quiet() -> Self {
        Self {
            hash: 0x9e37_79b9_7f4a_7c15,
            events: 0,
            story: None,
            prints: false,
            checkpoints: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// With lines and a hash per event: for the one seed a person looks at.
    #[must_use]
    pub fn watched() -> Self {
        Self { story: Some(Box::default()), ..Self::quiet() }
    }

    /// As watched, and each line is printed at once: it is there even if the run panics.
    #[must_use]
    pub fn printing() -> Self {
        Self { prints: true, ..Self::watched() }
    }

    /// Begins the record of one event.
    pub fn event(&mut self, at: TrueTime, place: u64) {
        if self.story.is_some() {
            self.checkpoints.push(Checkpoint { at, place, hash_before: self.hash });
        }
        self.events += 1;
        self.mix(at);
        self.mix(place);
    }

    /// Adds an input or output to the event begun last.
    pub fn add<T: Encode<()>>(&mut self, value: &T) {
        self.bytes.clear();
        minicbor::encode(value, &mut self.bytes).expect("a Vec takes everything");
        // All at once: an encoder writes a byte or two at a time.
        let mut chunks = self.bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.hash = mixed(self.hash, u64::from_le_bytes(chunk.try_into().expect("8 bytes")));
        }
        let mut last = [0; 8];
        let rest = chunks.remainder();
        last[..rest.len()].copy_from_slice(rest);
        self.hash = mixed(self.hash, u64::from_le_bytes(last) ^ (self.bytes.len() as u64) << 56);
    }

    /// Adds a number to the event begun last.
    pub fn mix(&mut self, number: u64) {
        self.hash = mixed(self.hash, number);
    }

    /// Adds a line for people; it is made only if somebody looks.
    pub fn line(&mut self, at: TrueTime, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story
            && story.lines.len() < LONGEST_STORY
        {
            let line = Line { at, text: line() };
            if self.prints {
                // Whoever reads may have read enough.
                let _ = writeln!(std::io::stdout(), "{line}");
            }
            story.lines.push(line);
        }
    }

    /// A process sends a request to the store.
    pub fn message(&mut self, at: TrueTime, from: ProcessNumber, fate: Fate, text: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.messages.push(Message::new(from, at, fate, text()));
        }
    }

    /// A process looks at its clocks.
    pub fn reading(&mut self, at: TrueTime, process: ProcessNumber, clocks: &Clocks) {
        if let Some(story) = &mut self.story {
            let (instant_us, wall_us) = (clocks.instant.read(at), clocks.wall.read(at));
            story.readings.push(Reading { process, at, instant_us, wall_us });
        }
    }

    /// Adds what watchers saw.
    pub fn add_sights(&mut self, sights: impl IntoIterator<Item = (TrueTime, ProcessNumber, Sight)>) {
        if let Some(story) = &mut self.story {
            story.sights.extend(sights);
        }
    }

    /// What people are told; empty if nobody looked.
    #[must_use]
    pub fn story(&self) -> Story {
        self.story.as_deref().cloned().unwrap_or_default()
    }

    /// Every event of a watched run, one a line: number, time, place, and the hash before it; then its lines
    /// for people. Two runs of one seed are equal here byte for byte.
    #[must_use]
    pub fn full(&self) -> String {
        let mut text = String::new();
        let mut lines = self.story.iter().flat_map(|story| &story.lines).peekable();
        for (number, event) in self.checkpoints.iter().enumerate() {
            while let Some(line) = lines.next_if(|line| line.at < event.at) {
                text.push_str(&format!("{line}\n"));
            }
            let Checkpoint { at, place, hash_before } = event;
            text.push_str(&format!("event {number} at {at} in {place} after {hash_before:016x}\n"));
        }
        for line in lines {
            text.push_str(&format!("{line}\n"));
        }
        text.push_str(&format!("end after {} events: {:016x}\n", self.events, self.hash));
        text
    }

    /// Whether somebody looks.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.story.is_some()
    }

    /// Of everything so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many events there were.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The first event (from 0) at which two watched runs of one seed differ.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<usize> {
        if self.hash == other.hash {
            return None;
        }
        let differs = self
            .checkpoints
            .iter()
            .zip(&other.checkpoints)
            .position(|(one, two)| one.hash_before != two.hash_before);
        let shorter = self.checkpoints.len().min(other.checkpoints.len());
        Some(differs.unwrap_or(shorter).saturating_sub(1))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.story.iter().flat_map(|story| &story.lines) {
            writeln!(formatter, "{line}")?;
        }
        Ok(())
    }
}

fn mixed(hash: u64, number: u64) -> u64 {
    let product = u128::from(hash ^ number) * u128::from(0xa076_1d64_78bd_642f_u64);
    let folded = u64::try_from((product >> 64) ^ (product & u128::from(u64::MAX)));
    folded.expect("both halves have 64 bits") ^ hash.rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::Trace;

    #[test]
    fn equal_events_give_equal_hashes_and_a_difference_is_found() {
        let run = |odd: u64| {
            let mut trace = Trace::watched();
            for event in 0..10_u64 {
                trace.event(event * 10, 1);
                trace.add(&(event, "same"));
                trace.mix(if event == 6 { odd } else { 0 });
            }
            trace
        };
        assert_eq!(run(0).hash(), run(0).hash());
        assert_eq!(run(0).first_difference(&run(0)), None);
        assert_eq!(run(0).first_difference(&run(1)), Some(6));
    }

    #[test]
    fn lines_are_made_only_when_watched() {
        let mut quiet = Trace::quiet();
        quiet.line(0, || unreachable!("nobody looks"));
        let mut watched = Trace::watched();
        watched.line(1_500_000, || "p0 starts".to_owned());
        assert_eq!(watched.to_string(), "     1.500000 p0 starts\n");
    }
}
