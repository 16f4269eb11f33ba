//! Breadth first over a model: the first wrong state found is one of those with the shortest way to it.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::fingerprint::{BuildAlreadyHashed, fingerprint};

/// What is explored.
pub trait Model {
    /// One state, canonical: states that behave alike for ever are equal.
    type State: Clone + Hash;
    /// One thing that may happen.
    type Event: Copy;

    /// Where it begins.
    fn initial(&self) -> Self::State;

    /// Everything that may happen next, in a fixed order.
    fn events(&self, state: &Self::State, events: &mut Vec<Self::Event>);

    /// What it leads to.
    fn apply(&self, state: &Self::State, event: Self::Event) -> Outcome<Self::State>;

    /// The way to a wrong state, told for people.
    fn tell(&self, events: &[Self::Event]) -> Vec<String>;
}

/// What an event leads to.
#[derive(Clone, Debug)]
pub enum Outcome<State> {
    /// Another state.
    State(State),
    /// Something that must never be.
    Wrong(String),
    /// A state beyond the model's bounds.
    Beyond,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// Events applied.
    pub events: u64,
    /// Events that led beyond the model's bounds.
    pub beyond: u64,
    /// The longest shortest way to a state.
    pub depth: u32,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub end: End,
}

/// How a search ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Every reachable state was seen; none is wrong.
    Closed,
    /// The limit on states was reached first.
    Limit,
    /// This is wrong.
    Wrong {
        /// What.
        what: String,
        /// The shortest way there, one line for each event.
        trace: Vec<String>,
    },
}

/// Explores until everything was seen, something is wrong, or `limit` states were seen.
pub fn search<M: Model>(model: &M, limit: usize) -> Found {
    let start = Instant::now();
    let mut seen: HashSet<u128, BuildAlreadyHashed> = HashSet::default();
    // From where each state was first reached, and by what.
    let mut ways: Vec<(u32, Option<M::Event>)> = Vec::new();
    let mut waiting: VecDeque<(u32, u32, M::State)> = VecDeque::new();
    let initial = model.initial();
    seen.insert(fingerprint(&initial));
    ways.push((0, None));
    waiting.push_back((0, 0, initial));
    let mut events = Vec::new();
    let mut found =
        Found { states: 0, events: 0, beyond: 0, depth: 0, took: Duration::ZERO, end: End::Closed };
    'all: while let Some((index, depth, state)) = waiting.pop_front() {
        found.depth = depth;
        events.clear();
        model.events(&state, &mut events);
        for &event in &events {
            found.events += 1;
            match model.apply(&state, event) {
                Outcome::State(next) => {
                    if !seen.insert(fingerprint(&next)) {
                        continue;
                    }
                    if seen.len() > limit {
                        found.end = End::Limit;
                        break 'all;
                    }
                    let next_index = u32::try_from(ways.len()).expect("the limit is far below 2^32");
                    ways.push((index, Some(event)));
                    waiting.push_back((next_index, depth + 1, next));
                }
                Outcome::Wrong(what) => {
                    let mut way = way_to(&ways, index);
                    way.push(event);
                    found.end = End::Wrong { what, trace: model.tell(&way) };
                    break 'all;
                }
                Outcome::Beyond => found.beyond += 1,
            }
        }
    }
    found.states = seen.len();
    found.took = start.elapsed();
    found
}

fn way_to<Event: Copy>(ways: &[(u32, Option<Event>)], mut index: u32) -> Vec<Event> {
    let mut way = Vec::new();
    while let (from, Some(event)) = ways[usize::try_from(index).expect("an index of a Vec")] {
        way.push(event);
        index = from;
    }
    way.reverse();
    way
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::Closed => write!(formatter, "holds, closed")?,
            End::Limit => write!(formatter, "holds as far as seen, NOT closed")?,
            End::Wrong { what, trace } => write!(formatter, "BROKEN in {} steps: {what}", trace.len())?,
        }
        write!(
            formatter,
            ": {} states, {} events, depth {}, {:.1} s",
            self.states,
            self.events,
            self.depth,
            self.took.as_secs_f64()
        )?;
        if self.beyond > 0 {
            write!(formatter, ", {} events led beyond the bounds", self.beyond)?;
        }
        if let End::Wrong { trace, .. } = &self.end {
            for (number, line) in trace.iter().enumerate() {
                write!(formatter, "\n    {:>3} {line}", number + 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Model, Outcome, search};

    /// A number that may grow by 2 or 3 up to 20, and must never be 7.
    struct Numbers {
        forbidden: u32,
    }

    impl Model for Numbers {
        type State = u32;
        type Event = u32;

        fn initial(&self) -> u32 {
            0
        }

        fn events(&self, _: &u32, events: &mut Vec<u32>) {
            events.extend([2, 3]);
        }

        fn apply(&self, state: &u32, event: u32) -> Outcome<u32> {
            match state + event {
                next if next == self.forbidden => Outcome::Wrong(format!("it is {next}")),
                next if next > 20 => Outcome::Beyond,
                next => Outcome::State(next),
            }
        }

        fn tell(&self, events: &[u32]) -> Vec<String> {
            events.iter().map(|event| format!("plus {event}")).collect()
        }
    }

    #[test]
    fn a_closure_counts_each_state_once() {
        let found = search(&Numbers { forbidden: 99 }, 1_000);
        assert_eq!(found.end, End::Closed);
        // 0 and 2 to 20.
        assert_eq!((found.states, found.beyond), (20, 5));
    }

    #[test]
    fn the_way_to_a_wrong_state_is_the_shortest() {
        let found = search(&Numbers { forbidden: 9 }, 1_000);
        let End::Wrong { what, trace } = found.end else { panic!("{found}") };
        assert_eq!((what.as_str(), trace.len()), ("it is 9", 3));
    }

    #[test]
    fn a_limit_is_no_closure() {
        assert_eq!(search(&Numbers { forbidden: 99 }, 5).end, End::Limit);
    }
}
