use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use super::super::StandbyConfig;
use super::*;
use crate::engine::Change;
use crate::ids::Name;
use crate::log::hand_made::{Log, NODE, changes, fence, origin, two_epochs};
use crate::log::{Chain, Entry, EntryBody, ListOutcome};
use crate::time::Timestamp;

use FollowerState::{Behind, Bootstrapping, Failed, Following, Restarting};

/// A round trip of the store.
const ROUND_TRIP_MS: u64 = 20;

fn now_ms(millis: u64) -> Now {
    Now { instant: Instant::from_millis(millis), ..Now::default() }
}

/// The shell of a follower: answers from the log after a round trip, and writes down what happened.
struct Shell {
    follower: Follower,
    log: Log,
    now_ms: u64,
    /// Answers every read with this.
    trouble: Option<ReadEnd>,
    /// Applies nothing while this is set.
    stuck: bool,
    /// What a bootstrap brings, in order.
    snapshots: Vec<LogEnd>,
    /// Keys and values, as they stand in the local store.
    records: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    local: LogEnd,
    states: Vec<FollowerState>,
    polls: Vec<(u64, u64)>,
    lists: Vec<u64>,
    applied: Vec<u64>,
    discarded: Vec<DiscardReason>,
    restarts: Vec<RestartReason>,
    gave_up: Option<(StopReason, u64, Option<EntryError>)>,
    failed: Option<StopReason>,
    /// The log becomes this one after the next listing.
    after_list: Option<Log>,
}

impl Shell {
    fn new(log: Log, local: LogEnd) -> Self {
        let mut shell = Self::with(log, local, |_| {});
        shell.drain();
        shell
    }

    /// It has not begun yet.
    fn with(log: Log, local: LogEnd, adjust: impl FnOnce(&mut FollowerOptions)) -> Self {
        let mut options = FollowerOptions {
            node_id: Name::new(NODE),
            standby: StandbyConfig::hot(),
            trimmed_below: Position(0),
            log_end: Position(0),
            local,
            seed: 1,
        };
        adjust(&mut options);
        Self {
            follower: Follower::new(now_ms(0), options),
            log,
            now_ms: 0,
            trouble: None,
            stuck: false,
            snapshots: vec![],
            records: BTreeMap::new(),
            local,
            states: vec![],
            polls: vec![],
            lists: vec![],
            applied: vec![],
            discarded: vec![],
            restarts: vec![],
            gave_up: None,
            failed: None,
            after_list: None,
        }
    }

    fn handle(&mut self, input: FollowerInput) {
        self.follower.handle(now_ms(self.now_ms), input);
    }

    fn lease(&mut self, trimmed_below: u64, log_end: u64) {
        let (trimmed_below, log_end) = (Position(trimmed_below), Position(log_end));
        self.handle(FollowerInput::Lease { trimmed_below, log_end });
        self.drain();
    }

    /// Lets time pass, up to and with this moment.
    fn run_to(&mut self, until_ms: u64) {
        loop {
            self.drain();
            let due = self.follower.poll_timeout().map(|due| due.as_micros().div_ceil(1_000));
            match due {
                Some(due) if due <= until_ms => {
                    self.now_ms = self.now_ms.max(due);
                    self.handle(FollowerInput::Tick);
                }
                Some(_) | None => break,
            }
        }
        self.now_ms = self.now_ms.max(until_ms);
        self.handle(FollowerInput::Tick);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.follower.poll_output() {
            match output {
                FollowerOutput::Read { request, from, .. } => {
                    self.polls.push((self.now_ms, from.0));
                    self.now_ms += ROUND_TRIP_MS;
                    let (entries, then) = match self.trouble {
                        Some(trouble) => (vec![], trouble),
                        None => (
                            (from.0..)
                                .map_while(|position| self.log.entries.get(&position).cloned())
                                .collect(),
                            ReadEnd::Missing,
                        ),
                    };
                    self.handle(FollowerInput::Read { request, entries, then });
                }
                FollowerOutput::List { request, after } => {
                    self.lists.push(after.0);
                    let first = self.log.entries.range(after.0 + 1..).next();
                    let outcome = ListOutcome::First(first.map(|(position, _)| Position(*position)));
                    self.handle(FollowerInput::Listed { request, outcome });
                    if let Some(log) = self.after_list.take() {
                        self.log = log;
                    }
                }
                FollowerOutput::Apply { end, changes } => {
                    for Change { key, value } in changes {
                        self.records.insert(key, value);
                    }
                    self.local = end;
                    self.applied.push(end.position.0);
                    if !self.stuck {
                        self.handle(FollowerInput::Applied { position: end.position });
                    }
                }
                FollowerOutput::DiscardLocalStore(reason) => {
                    self.discarded.push(reason);
                    self.records.clear();
                    self.local =
                        if self.snapshots.is_empty() { LogEnd::default() } else { self.snapshots.remove(0) };
                    self.handle(FollowerInput::LocalStore { end: self.local });
                }
                FollowerOutput::Report(report) => {
                    if self.states.last() != Some(&report.state) {
                        self.states.push(report.state);
                    }
                }
                FollowerOutput::Restarting(reason) => self.restarts.push(reason),
                FollowerOutput::GaveUp { reason, at, error } => {
                    assert_eq!(self.gave_up, None);
                    self.gave_up = Some((reason, at.0, error));
                }
                FollowerOutput::Failed(reason) => self.failed = Some(reason),
            }
        }
    }

    fn lag_ms(&self) -> u128 {
        self.follower.lag(now_ms(self.now_ms)).as_millis()
    }
}

#[test]
fn ha_042_a_follower_applies_what_the_active_writes() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    assert_eq!(shell.applied, vec![6]);
    assert_eq!(shell.states, vec![Bootstrapping, Following]);
    shell.run_to(1_000);
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    shell.run_to(1_300);
    assert_eq!(shell.applied, vec![6, 7]);
    assert_eq!(shell.local, shell.log.end);
    assert_eq!(shell.states, vec![Bootstrapping, Following]);
}

#[test]
fn ha_042_it_follows_into_the_next_epoch_and_hands_over_its_end() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.log.epoch((3, 30), 2);
    shell.run_to(300);
    assert_eq!(shell.applied, vec![6, 9]);
    let end = shell.log.end;
    assert_eq!(shell.follower.hand_over(), end);
}

#[test]
fn ha_042_entries_of_the_last_half_second_are_all_that_is_left_to_replay() {
    // Written at any moment, an entry is applied within one interval and two round trips.
    for written_at in 300..560 {
        let mut shell = Shell::new(two_epochs(), LogEnd::default());
        shell.run_to(written_at);
        shell.log.push((2, 20), EntryBody::Changes(changes(7)));
        shell.run_to(written_at + 500 - ROUND_TRIP_MS);
        assert_eq!(shell.applied, vec![6, 7], "written at {written_at}");
    }
}

#[test]
fn d_014_review_12_18_the_next_position_is_read_every_interval_and_at_once_after_a_hit() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(760);
    // Answers take 20 ms, and the interval counts from the start of a poll.
    assert_eq!(shell.polls, vec![(0, 1), (250, 7), (500, 7), (750, 7)]);
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    let read = shell.follower.poll_output();
    assert_eq!(read, None, "one interval has not passed");
    shell.now_ms = 250;
    shell.handle(FollowerInput::Tick);
    let Some(FollowerOutput::Read { request, from: Position(7), .. }) = shell.follower.poll_output() else {
        panic!("a poll was due")
    };
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    let entry = shell.log.entries[&7].clone();
    shell.now_ms = 260;
    shell.handle(FollowerInput::Read { request, entries: vec![entry], then: ReadEnd::Full });
    shell.drain();
    assert_eq!(shell.polls.last(), Some(&(260, 8)), "a hit is followed by a read at once");
}

#[test]
fn d_014_a_round_trip_longer_than_the_interval_makes_the_next_poll_start_at_once() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.now_ms = 250;
    shell.handle(FollowerInput::Tick);
    let Some(FollowerOutput::Read { request, .. }) = shell.follower.poll_output() else {
        panic!("a poll was due")
    };
    shell.now_ms = 900;
    shell.handle(FollowerInput::Read { request, entries: vec![], then: ReadEnd::Missing });
    shell.drain();
    assert_eq!(shell.polls.last(), Some(&(900, 7)));
}

#[test]
fn d_014_the_lag_stays_below_one_poll_when_the_active_is_idle() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    for at in 100..1_500 {
        shell.run_to(at);
        assert!(shell.lag_ms() < 250 + 2 * u128::from(ROUND_TRIP_MS), "{} at {at}", shell.lag_ms());
    }
}

#[test]
fn review_8_6_the_lag_grows_while_it_is_blind() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    shell.trouble = Some(ReadEnd::Transient { retry_after_ms: None });
    shell.run_to(11_000);
    assert_eq!(shell.lag_ms(), 10_000, "since the poll at 1.000 s");
    assert_eq!(shell.states, vec![Bootstrapping, Following]);
    shell.run_to(11_001);
    assert_eq!(shell.states, vec![Bootstrapping, Following, Behind], "HA-46: above the threshold");
    shell.run_to(60_000);
    assert_eq!(shell.lag_ms(), 59_000);
    shell.trouble = None;
    shell.run_to(61_100);
    assert_eq!(shell.states, vec![Bootstrapping, Following, Behind, Following]);
}

#[test]
fn d_014_a_poll_that_the_lease_contradicts_does_not_count() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    // The store says 404 while the lease knows better: a stale cache in between, for one.
    shell.lease(0, 9);
    shell.run_to(1_600);
    assert_eq!(shell.lag_ms(), 600);
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    shell.log.push((2, 20), EntryBody::Changes(changes(8)));
    shell.run_to(1_990);
    assert_eq!(shell.lag_ms(), 990, "8 of 9");
    shell.log.push((2, 20), EntryBody::Changes(changes(9)));
    shell.run_to(2_300);
    assert!(shell.lag_ms() < 300);
}

#[test]
fn d_014_the_lag_grows_while_entries_cannot_be_applied() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    shell.stuck = true;
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    shell.run_to(20_990);
    assert_eq!(shell.lag_ms(), 19_990);
    assert_eq!(shell.states, vec![Bootstrapping, Following, Behind]);
    shell.stuck = false;
    shell.handle(FollowerInput::Applied { position: Position(7) });
    shell.run_to(21_300);
    assert_eq!(shell.states, vec![Bootstrapping, Following, Behind, Following]);
}

#[test]
fn ha_046_a_lag_counts_from_the_beginning_until_it_has_once_caught_up() {
    let mut blind = Shell::with(two_epochs(), LogEnd::default(), |_| {});
    blind.trouble = Some(ReadEnd::Transient { retry_after_ms: None });
    blind.run_to(30_000);
    assert_eq!(blind.lag_ms(), 30_000);
    assert_eq!(blind.states, vec![Bootstrapping], "never hot before it has once had everything");
}

#[test]
fn d_015_a_follower_whose_next_entry_was_trimmed_takes_a_snapshot() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    shell.log.epoch((3, 30), 5);
    shell.snapshots = vec![shell.log.end_at(9)];
    shell.log.entries.retain(|position, _| *position >= 9);
    shell.lease(9, 12);
    shell.run_to(1_300);
    assert_eq!(shell.discarded, vec![DiscardReason::BelowTrimBound]);
    assert_eq!(shell.restarts, vec![RestartReason::Discard(DiscardReason::BelowTrimBound)]);
    assert_eq!(shell.states, vec![Bootstrapping, Following, Restarting, Bootstrapping, Following]);
    assert_eq!(shell.applied, vec![6, 12], "it goes on behind the snapshot");
}

#[test]
fn lesson_d5_a_standby_that_was_stopped_while_the_log_was_trimmed_past_it() {
    let mut log = two_epochs();
    let local = log.end_at(3);
    log.epoch((3, 30), 5);
    let snapshot = log.end_at(9);
    log.entries.retain(|position, _| *position >= 9);
    let mut shell = Shell::with(log, local, |options| options.trimmed_below = Position(9));
    shell.snapshots = vec![snapshot];
    shell.run_to(100);
    assert_eq!(shell.states, vec![Bootstrapping, Restarting, Bootstrapping, Following]);
    assert_eq!(shell.applied, vec![12]);
}

#[test]
fn lesson_d5_without_a_snapshot_it_gives_up_after_eight_tries() {
    let mut log = two_epochs();
    log.entries.retain(|position, _| *position >= 5);
    let mut shell = Shell::with(log, LogEnd::default(), |options| options.trimmed_below = Position(5));
    shell.run_to(300_000);
    assert_eq!(shell.discarded, vec![DiscardReason::BelowTrimBound; 8]);
    assert_eq!(shell.gave_up, Some((StopReason::LogHole, 1, None)));
    assert_eq!(shell.states.last(), Some(&Failed));
    assert_eq!(shell.lag_ms(), 300_000, "the lag keeps growing");
    assert_eq!(shell.follower.poll_timeout(), None);
    assert_eq!(shell.follower.hand_over(), LogEnd::default());
}

#[test]
fn lesson_d8_from_a_snapshot_exactly_at_the_bound_it_continues_behind_it() {
    let mut log = two_epochs();
    let snapshot = log.end_at(5);
    log.entries.retain(|position, _| *position >= 5);
    let mut shell = Shell::with(log, snapshot, |options| options.trimmed_below = Position(5));
    shell.run_to(100);
    assert_eq!(shell.polls[0], (0, 5), "D-43: its own entry is compared first");
    assert_eq!(shell.discarded, vec![]);
    assert_eq!(shell.applied, vec![6]);
}

#[test]
fn lesson_d10_an_hour_of_writes_is_replayed_from_the_exact_position_of_the_snapshot() {
    let mut log = two_epochs();
    let local = log.end_at(4);
    for position in 7..5_000 {
        log.push((2, 20), EntryBody::Changes(changes(position)));
    }
    let mut shell = Shell::new(log, local);
    shell.run_to(100);
    let keys: Vec<u64> = shell
        .records
        .keys()
        .map(|key| u64::from_be_bytes(key[..].try_into().expect("eight bytes")))
        .collect();
    assert_eq!(keys, (5..5_000).collect::<Vec<u64>>());
}

#[test]
fn d_043_nothing_below_the_bound_is_applied_even_if_it_is_there_and_fits() {
    // Review 4.2: the leftover of a frozen writer, whose chain fits the old store.
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    shell.lease(20, 25);
    shell.run_to(1_250);
    assert_eq!(shell.applied, vec![6]);
    assert_eq!(shell.discarded, vec![DiscardReason::BelowTrimBound]);
}

#[test]
fn d_043_what_was_read_and_is_not_applied_yet_is_dropped_when_the_bound_moves_past_it() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(200);
    shell.stuck = true;
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    shell.run_to(300);
    shell.log.push((2, 20), EntryBody::Changes(changes(8)));
    shell.run_to(600);
    assert_eq!(shell.applied, vec![6, 7], "8 waits behind 7");
    shell.log.push((2, 20), EntryBody::Changes(changes(9)));
    shell.snapshots = vec![shell.log.end];
    shell.lease(9, 9);
    shell.run_to(700);
    assert_eq!(shell.discarded, vec![], "7 is still being applied to the store that is to go");
    shell.stuck = false;
    shell.handle(FollowerInput::Applied { position: Position(7) });
    shell.run_to(701);
    assert_eq!(shell.discarded, vec![DiscardReason::BelowTrimBound]);
    assert_eq!(shell.applied, vec![6, 7]);
}

#[test]
fn d_015_what_was_still_being_applied_when_the_error_came_does_not_make_it_hot() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(200);
    shell.stuck = true;
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    shell.run_to(300);
    shell.log.push((2, 20), EntryBody::Changes(changes(8)));
    shell.run_to(600);
    shell.lease(9, 9);
    assert_eq!(shell.states, vec![Bootstrapping, Following, Restarting]);
    let lag_ms = shell.lag_ms();
    shell.handle(FollowerInput::Applied { position: Position(7) });
    assert_eq!(shell.follower.state(), Bootstrapping, "8 was dropped");
    assert_eq!(shell.lag_ms(), lag_ms);
}

#[test]
fn d_043_a_local_store_of_another_chain_or_beyond_the_log_is_discarded() {
    let wrong = LogEnd { position: Position(3), chain: Chain([9; 32]) };
    let mut shell = Shell::new(two_epochs(), wrong);
    shell.run_to(100);
    assert_eq!(shell.discarded, vec![DiscardReason::OtherChain]);
    assert_eq!(shell.applied, vec![6]);
    let beyond = LogEnd { position: Position(9), chain: Chain([9; 32]) };
    let mut shell = Shell::new(two_epochs(), beyond);
    shell.run_to(100);
    assert_eq!(shell.discarded, vec![DiscardReason::BeyondLog]);
    assert_eq!(shell.applied, vec![6]);
}

#[test]
fn d_043_a_broken_chain_makes_it_compare_its_own_entry_first() {
    // The log was replaced under it, from 6 on: the local store is at fault, and is rebuilt.
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(200);
    let mut other = Log::default();
    other.epoch((1, 10), 2).epoch((2, 21), 3);
    shell.log = other;
    shell.run_to(300);
    assert_eq!(shell.discarded, vec![DiscardReason::OtherChain]);
    assert_eq!(shell.local, shell.log.end);
    assert_eq!(shell.gave_up, None);
    // Only 7 does not fit: the log is at fault.
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(200);
    shell.log.end.chain = Chain([9; 32]);
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    shell.run_to(300);
    assert_eq!(shell.gave_up, Some((StopReason::LogUnreadable, 7, Some(EntryError::BrokenChain))));
    assert_eq!(shell.discarded, vec![]);
}

#[test]
fn review_4_8_a_hole_below_the_known_end_is_found_after_two_seconds() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    shell.log.epoch((3, 30), 3);
    shell.log.entries.remove(&7);
    shell.lease(0, 10);
    // The poll at 1.25 s is the first that stands at it: known at 1.27 s.
    shell.run_to(3_240);
    assert_eq!((&shell.lists, shell.follower.state()), (&vec![], Following));
    shell.run_to(3_600);
    assert_eq!(shell.lists, vec![7]);
    assert_eq!(shell.gave_up, Some((StopReason::LogHole, 7, None)));
    assert_eq!(shell.states, vec![Bootstrapping, Following, Failed]);
    assert_eq!(shell.follower.hand_over(), LogEnd::default(), "D-15: with an empty local store");
}

#[test]
fn review_8_3_an_entry_written_between_the_two_looks_is_no_hole() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    let mut full = shell.log.clone();
    full.epoch((3, 30), 3);
    shell.log.entries = full.entries.clone();
    shell.log.entries.remove(&7);
    shell.lease(0, 10);
    shell.after_list = Some(full);
    shell.run_to(4_000);
    assert_eq!(shell.lists, vec![7]);
    assert_eq!(shell.gave_up, None);
    assert_eq!(shell.local, shell.log.end);
}

#[test]
fn d_053_a_log_that_is_only_short_is_waited_for_and_looked_at_again() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    shell.lease(0, 7);
    shell.run_to(8_000);
    assert_eq!(shell.lists, vec![7, 7, 7], "every two seconds");
    assert_eq!(shell.gave_up, None);
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    shell.run_to(8_300);
    assert_eq!(shell.local, shell.log.end);
}

#[test]
fn d_015_an_entry_that_cannot_be_read_is_reported_by_name() {
    let foreign = {
        let mut origin = origin((2, 20));
        origin.node_id = Name::new("payments");
        let entry = Entry {
            origin,
            position: Position(7),
            nonce: 1,
            time: Timestamp::ZERO,
            previous: two_epochs().end.chain,
            body: EntryBody::Changes(changes(7)),
        };
        entry.encode().0
    };
    let cases = [
        (Blob::from(vec![1, 2, 3]), EntryError::Damaged),
        (foreign, EntryError::ForeignNode { found: Name::new("payments") }),
        (newer_format(), EntryError::NewerFormat { found: 2 }),
    ];
    for (bytes, error) in cases {
        let mut shell = Shell::new(two_epochs(), LogEnd::default());
        shell.run_to(200);
        shell.log.entries.insert(7, bytes);
        shell.run_to(300);
        assert_eq!(shell.gave_up, Some((StopReason::LogUnreadable, 7, Some(error))));
        assert_eq!(shell.states, vec![Bootstrapping, Following, Failed]);
        assert_eq!(shell.applied, vec![6]);
    }
}

/// A whole entry of the next format.
fn newer_format() -> Blob {
    use sha2::{Digest, Sha256};
    let mut bytes = two_epochs().entries[&6].to_vec();
    bytes[4..8].copy_from_slice(&2_u32.to_be_bytes());
    let mut hash = Sha256::new();
    hash.update(&bytes[..8]);
    hash.update(&bytes[40..]);
    let checksum: [u8; 32] = hash.finalize().into();
    bytes[8..40].copy_from_slice(&checksum);
    Blob::from(bytes)
}

#[test]
fn d_015_a_denial_is_an_error_that_is_tried_again() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    shell.run_to(1_000);
    shell.trouble = Some(ReadEnd::Permanent);
    shell.run_to(20_000);
    let denied = RestartReason::Store(StopReason::StoragePermanent);
    assert!(shell.restarts.iter().all(|reason| *reason == denied));
    // 1, 2, 4, 8 s, each drawn from its upper half.
    assert!((4..=6).contains(&shell.restarts.len()), "{}", shell.restarts.len());
    assert_eq!(shell.states, vec![Bootstrapping, Following, Restarting]);
    shell.trouble = None;
    shell.run_to(40_000);
    assert_eq!(shell.states, vec![Bootstrapping, Following, Restarting, Following]);
    assert_eq!(shell.discarded, vec![], "its local store is as good as before");
}

#[test]
fn d_015_an_unusable_disk_ends_the_process() {
    let mut log = two_epochs();
    log.entries.retain(|position, _| *position >= 5);
    let mut shell = Shell::with(log, LogEnd::default(), |options| options.trimmed_below = Position(5));
    let discard = FollowerOutput::DiscardLocalStore(DiscardReason::BelowTrimBound);
    let outputs: Vec<FollowerOutput> = core::iter::from_fn(|| shell.follower.poll_output()).collect();
    assert_eq!(outputs[1..], [discard]);
    shell.handle(FollowerInput::ReplaceFailed(StopReason::LocalStoreFailed));
    shell.drain();
    assert_eq!(shell.failed, Some(StopReason::LocalStoreFailed));
    assert_eq!(shell.follower.poll_timeout(), None);
}

#[test]
fn d_015_a_bootstrap_that_the_store_denies_is_tried_again() {
    let mut log = two_epochs();
    let snapshot = log.end_at(5);
    log.entries.retain(|position, _| *position >= 5);
    let mut shell = Shell::with(log, LogEnd::default(), |options| options.trimmed_below = Position(5));
    let _outputs: Vec<FollowerOutput> = core::iter::from_fn(|| shell.follower.poll_output()).collect();
    shell.handle(FollowerInput::ReplaceFailed(StopReason::StoragePermanent));
    shell.snapshots = vec![snapshot];
    shell.run_to(2_000);
    assert_eq!(shell.restarts, vec![RestartReason::Store(StopReason::StoragePermanent)]);
    assert_eq!(shell.states, vec![Restarting, Bootstrapping, Following]);
    assert_eq!(shell.applied.last(), Some(&6));
}

#[test]
fn ha_051_ha_052_a_follower_can_only_read_apply_and_tell() {
    // Whatever is asked of the shell: no output writes to a store, hands out a task or fires a timer.
    fn is_harmless(output: &FollowerOutput) -> bool {
        match output {
            FollowerOutput::Read { .. }
            | FollowerOutput::List { .. }
            | FollowerOutput::Apply { .. }
            | FollowerOutput::DiscardLocalStore(_)
            | FollowerOutput::Report(_)
            | FollowerOutput::Restarting(_)
            | FollowerOutput::GaveUp { .. }
            | FollowerOutput::Failed(_) => true,
        }
    }
    let mut log = two_epochs();
    log.push((2, 20), fence(1));
    let mut follower = Shell::with(log, LogEnd::default(), |_| {}).follower;
    let outputs: Vec<FollowerOutput> = core::iter::from_fn(|| follower.poll_output()).collect();
    assert!(outputs.iter().all(is_harmless));
}
