//! A follower against an active that writes, changes, snapshots and trims, over a store that answers
//! late, in pieces or not at all.
//!
//! At every moment: what the local store holds is what the active held at that position (invariant 6);
//! nothing below the bound is applied (D-43); the lag is at least as long as any entry that it never had
//! has been readable (D-14); it calls itself hot only within the threshold (HA-46). In the end it has it all.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::StandbyConfig;
use super::*;
use crate::engine::Change;
use crate::ids::Name;
use crate::log::hand_made::{Log, NODE, fence};
use crate::log::{EntryBody, ListOutcome};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a store may answer a read or a listing with: how many entries, and then what.
#[derive(Clone, Copy)]
enum Fate {
    Whole,
    Pieces(usize),
    Trouble(usize),
    Denied,
    Silent,
}

struct World {
    follower: Follower,
    now_ms: u64,
    log: Log,
    epoch: u64,
    /// The active's records after each position.
    truth: BTreeMap<u64, Records>,
    written_at_ms: BTreeMap<u64, u64>,
    fences: Vec<u64>,
    snapshots: Vec<LogEnd>,
    trimmed_below: u64,
    /// What the follower was told.
    known_bound: u64,
    local: LogEnd,
    /// The newest position that it has ever had: a snapshot may take it back.
    newest: u64,
    records: Records,
    /// Requests on their way.
    reads: Vec<FollowerOutput>,
    applying: Option<(LogEnd, Vec<Change>)>,
    replacing: bool,
    applied: u64,
    replaced: u64,
}

impl World {
    fn new() -> Self {
        let options = FollowerOptions {
            node_id: Name::new(NODE),
            standby: StandbyConfig::hot(),
            trimmed_below: Position(0),
            log_end: Position(0),
            local: LogEnd::default(),
            seed: 1,
        };
        let mut world = Self {
            follower: Follower::new(at(0), options),
            now_ms: 0,
            log: Log::default(),
            epoch: 0,
            truth: BTreeMap::from([(0, Records::new())]),
            written_at_ms: BTreeMap::new(),
            fences: vec![],
            snapshots: vec![],
            trimmed_below: 0,
            known_bound: 0,
            local: LogEnd::default(),
            newest: 0,
            records: Records::new(),
            reads: vec![],
            applying: None,
            replacing: false,
            applied: 0,
            replaced: 0,
        };
        world.take_over();
        world
    }

    fn take_over(&mut self) {
        self.epoch += 1;
        self.push(fence(10_000), vec![]);
        self.fences.push(self.log.end.position.0);
    }

    fn write(&mut self, key: u8, is_delete: bool) {
        let value = (!is_delete).then(|| self.now_ms.to_be_bytes().to_vec());
        let changes = vec![Change { key: vec![key], value }];
        self.push(EntryBody::Changes(changes.clone()), changes);
    }

    fn push(&mut self, body: EntryBody, changes: Vec<Change>) {
        let mut records = self.truth[&self.log.end.position.0].clone();
        apply(&mut records, changes);
        self.log.push((self.epoch, u128::from(self.epoch)), body);
        let position = self.log.end.position.0;
        self.truth.insert(position, records);
        self.written_at_ms.insert(position, self.now_ms);
    }

    fn handle(&mut self, input: FollowerInput) {
        self.follower.handle(at(self.now_ms), input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.follower.poll_output() {
            match output {
                FollowerOutput::Read { .. } | FollowerOutput::List { .. } => self.reads.push(output),
                FollowerOutput::Apply { end, changes } => {
                    assert_eq!(self.applying, None, "one batch at a time");
                    assert!(self.local.position.0 + 1 >= self.known_bound, "D-43: below the bound");
                    self.applying = Some((end, changes));
                }
                FollowerOutput::DiscardLocalStore(_) => {
                    assert_eq!(self.applying, None, "nothing is applied to a store that goes");
                    self.replacing = true;
                    self.local = LogEnd::default();
                    self.records.clear();
                }
                FollowerOutput::Report(_) | FollowerOutput::Restarting(_) => {}
                FollowerOutput::GaveUp { reason, at, error } => {
                    panic!("there is no hole here: {reason} at {at}, {error:?}")
                }
                FollowerOutput::Failed(reason) => panic!("the disk works: {reason}"),
            }
        }
    }

    fn step(&mut self, [what, how]: [u8; 2]) {
        match what % 16 {
            0..=3 => self.pass(u64::from(how)),
            // A long silence.
            4 => self.pass(u64::from(how) * 100),
            5..=7 => self.write(how % 8, how >= 200),
            8 if how < 40 => self.take_over(),
            8 => self.snapshots.push(self.log.end),
            9 => self.lease(),
            10 if how < 100 => self.trim(),
            10..=12 => self.answer(how),
            13..=14 => self.apply_now(),
            _ => self.replace(),
        }
        self.check();
    }

    fn pass(&mut self, millis: u64) {
        self.now_ms += millis;
        self.handle(FollowerInput::Tick);
    }

    fn lease(&mut self) {
        self.known_bound = self.trimmed_below;
        let (trimmed_below, log_end) = (Position(self.trimmed_below), self.log.end.position);
        self.handle(FollowerInput::Lease { trimmed_below, log_end });
    }

    /// Long before the entries go, the follower knows: a snapshot is an hour old then.
    fn trim(&mut self) {
        if let [.., older, _] = self.snapshots[..] {
            self.trimmed_below = self.trimmed_below.max(older.position.0);
        }
        self.lease();
        let bound = self.trimmed_below;
        self.log.entries.retain(|position, _| *position >= bound || self.fences.contains(position));
    }

    fn answer(&mut self, how: u8) {
        if self.reads.is_empty() {
            return;
        }
        let fate = match how % 12 {
            0..=6 => Fate::Whole,
            7 => Fate::Pieces(usize::from(how / 64) + 1),
            8..=9 => Fate::Trouble(usize::from(how / 100)),
            10 => Fate::Denied,
            _ => Fate::Silent,
        };
        let output = self.reads.remove(usize::from(how / 12) % self.reads.len());
        self.answer_with(output, fate);
    }

    fn answer_with(&mut self, output: FollowerOutput, fate: Fate) {
        match output {
            FollowerOutput::Read { request, from, .. } => {
                let there: Vec<Blob> =
                    (from.0..).map_while(|position| self.log.entries.get(&position).cloned()).collect();
                let (count, then) = match fate {
                    Fate::Whole => (there.len(), ReadEnd::Missing),
                    Fate::Pieces(count) if count < there.len() => (count, ReadEnd::Full),
                    Fate::Pieces(_) => (there.len(), ReadEnd::Missing),
                    Fate::Trouble(count) => {
                        (count.min(there.len()), ReadEnd::Transient { retry_after_ms: None })
                    }
                    Fate::Denied => (0, ReadEnd::Permanent),
                    Fate::Silent => return,
                };
                let entries = there.into_iter().take(count).collect();
                self.handle(FollowerInput::Read { request, entries, then });
            }
            FollowerOutput::List { request, after } => {
                let first = self.log.entries.range(after.0 + 1..).next();
                let outcome = match fate {
                    Fate::Whole | Fate::Pieces(_) => {
                        ListOutcome::First(first.map(|(position, _)| Position(*position)))
                    }
                    Fate::Trouble(_) => ListOutcome::Transient { retry_after_ms: None },
                    Fate::Denied => ListOutcome::Permanent,
                    Fate::Silent => return,
                };
                self.handle(FollowerInput::Listed { request, outcome });
            }
            other => unreachable!("only these wait for an answer: {other:?}"),
        }
    }

    fn apply_now(&mut self) {
        if let Some((end, changes)) = self.applying.take() {
            apply(&mut self.records, changes);
            self.local = end;
            self.newest = self.newest.max(end.position.0);
            self.applied += 1;
            self.handle(FollowerInput::Applied { position: end.position });
        }
    }

    fn replace(&mut self) {
        if !self.replacing {
            return;
        }
        self.replacing = false;
        let usable = |end: &&LogEnd| end.position.0 >= self.trimmed_below;
        self.local = self.snapshots.iter().rev().find(usable).copied().unwrap_or_default();
        self.records = self.truth[&self.local.position.0].clone();
        self.newest = self.newest.max(self.local.position.0);
        self.replaced += 1;
        self.handle(FollowerInput::LocalStore { end: self.local });
    }

    fn check(&self) {
        if self.replacing {
            return;
        }
        let position = self.local.position.0;
        assert_eq!(self.records, self.truth[&position], "invariant 6, at {position}");
        let lag_ms = u64::try_from(self.follower.lag(at(self.now_ms)).as_millis()).expect("it is short");
        if let Some((_, written_at_ms)) = self.written_at_ms.range(self.newest + 1..).next() {
            assert!(lag_ms >= self.now_ms - written_at_ms, "D-14: {lag_ms} ms at {}", self.now_ms);
        }
        if self.follower.state().is_hot() {
            assert!(lag_ms <= 10_000, "HA-46: {lag_ms} ms");
        }
    }

    /// Faults stop.
    fn settle(&mut self) {
        self.lease();
        for _ in 0..2_000 {
            self.apply_now();
            self.replace();
            for output in core::mem::take(&mut self.reads) {
                self.answer_with(output, Fate::Whole);
            }
            self.pass(50);
            self.check();
        }
        assert_eq!(self.local, self.log.end);
        assert_eq!(self.follower.state(), FollowerState::Following);
        assert!(self.follower.lag(at(self.now_ms)) <= Duration::from_millis(350));
    }
}

fn at(millis: u64) -> Now {
    Now { instant: Instant::from_millis(millis), ..Now::default() }
}

fn apply(records: &mut Records, changes: Vec<Change>) {
    for Change { key, value } in changes {
        match value {
            Some(value) => records.insert(key, value),
            None => records.remove(&key),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn ha_042_d_014_d_043_a_follower_is_right_at_every_moment(
        steps in prop::collection::vec(any::<[u8; 2]>(), 0..400)
    ) {
        let mut world = World::new();
        world.drain();
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}

#[test]
fn d_015_the_model_reaches_what_it_is_about() {
    let (mut applied, mut replaced) = (0, 0);
    for seed in 0..200 {
        let mut rng = crate::rng::Rng::new(seed);
        let mut world = World::new();
        world.drain();
        for _ in 0..400 {
            let [what, how, ..] = rng.next_u64().to_be_bytes();
            world.step([what, how]);
        }
        applied += world.applied;
        replaced += world.replaced;
    }
    assert!(applied > 1_000, "{applied}");
    assert!(replaced > 100, "{replaced}");
}
