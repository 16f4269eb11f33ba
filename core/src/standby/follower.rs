//! Following the log of the active (HA-42, D-14, D-15, D-41, D-43, D-53).
//!
//! ```text
//!               the end is reached            lag above the threshold
//! bootstrapping ──────────────────▶ following ──────────────────────▶ behind
//!   ▲   ▲                            ▲   │  ◀─────────────────────────┘
//!   │   └──── back-off ──┐           │   │      the end is reached
//!   │ local store discarded          │   │ an error
//!   └──────────────── restarting ────┘ ◀─┘
//!                          │
//!                          └──▶ failed: a hole, an unreadable entry, nothing to rebuild from
//! ```
//!
//! It applies state changes and decides nothing: no Step runs and no timer fires (HA-52).

use alloc::collections::VecDeque;
use core::time::Duration;

pub use super::follower_io::{FollowerInput, FollowerOptions, FollowerOutput, RestartReason};
use super::{FollowerReport, FollowerState};
use crate::backoff::Backoff;
use crate::ids::{Blob, Position, RequestId};
use crate::log::reader::{Batch, Obstacle, Question, RANGE_BYTES, RANGE_ENTRIES, Ranges, Reader, Seen};
use crate::log::{DiscardReason, EntryError, LogEnd, ReadEnd};
use crate::mutant::{self, Mutant};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::time::{Instant, Now};

/// Standing so long at a missing entry that the lease knows of calls for a look behind it (D-53).
pub const HOLE_PATIENCE: Duration = Duration::from_secs(2);
/// Before the first restart, doubling to the longest; a local store is replaced at once the first time.
const RESTART_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// So often in a row no snapshot can be used: about three minutes, and then somebody has to look.
const REBUILD_TRIES: u32 = 8;
/// A poll without an answer is asked anew after this, so that a lost answer costs half the lag that is
/// allowed. One that catches up reads more, and is given longer.
const POLL_CUT_OFF: Duration = Duration::from_secs(5);

/// Follows the log until it is dropped.
///
/// ```text
/// new(now, options)
/// while let Some(output) = poll_output() { … }
/// handle(now, input)        an answer, a lease, or Tick when poll_timeout() is reached
/// hand_over()               the lease was won: what the start goes on with
/// ```
#[derive(Debug)]
pub struct Follower {
    options: FollowerOptions,
    now: Instant,
    reader: Reader,
    phase: Phase,
    /// The end of the last batch given out to be applied.
    granted: LogEnd,
    /// Read and not yet given out: one at most while reading goes on.
    batches: VecDeque<Batch>,
    applying: Option<Position>,
    state: FollowerState,
    began_at: Instant,
    /// When the range that is awaited was asked for.
    poll_started_at: Instant,
    /// The start of a poll that reached the end, while what it read is being applied.
    end_reached_at: Option<Instant>,
    /// The start of the last poll that reached the end, once everything was applied (D-14).
    caught_up_at: Option<Instant>,
    /// Since when it stands at a missing entry that the lease knows of.
    missing_since: Option<Instant>,
    /// Where the chain broke when the local store was last compared because of it (D-43).
    compared_at: Option<Position>,
    restart_backoff: Backoff,
    restarts: u32,
    /// In a row without a local store that could be used.
    failed_rebuilds: u32,
    next_request: RequestId,
    rng: Rng,
    outputs: VecDeque<FollowerOutput>,
}

#[derive(Debug)]
enum Phase {
    Reading(Ranges),
    /// After an error.
    Resting {
        until: Instant,
        then: Then,
    },
    /// A new local store is on its way.
    Replacing,
    /// It gave up, or the process must stop.
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Read,
    Replace(DiscardReason),
}

impl Follower {
    /// Begins behind the local store, if that can be used, else with a snapshot.
    #[must_use]
    pub fn new(now: Now, options: FollowerOptions) -> Self {
        let now = now.instant;
        let mut follower = Self {
            now,
            reader: Reader::new(options.node_id.clone(), None),
            phase: Phase::Over,
            granted: LogEnd::default(),
            batches: VecDeque::new(),
            applying: None,
            state: FollowerState::Bootstrapping,
            began_at: now,
            poll_started_at: now,
            end_reached_at: None,
            caught_up_at: None,
            missing_since: None,
            compared_at: None,
            restart_backoff: RESTART_BACKOFF,
            restarts: 0,
            failed_rebuilds: 0,
            next_request: RequestId(1),
            rng: Rng::new(options.seed),
            outputs: VecDeque::new(),
            options,
        };
        follower.report();
        let local = follower.options.local;
        if local == LogEnd::default() && follower.is_below_bound(local) {
            // A new volume: no error, it was to be expected.
            follower.replace(DiscardReason::BelowTrimBound);
        } else {
            follower.start_behind(local);
        }
        follower
    }

    /// Something happened. Answers to requests that were given up are dropped.
    pub fn handle(&mut self, now: Now, input: FollowerInput) {
        self.now = now.instant;
        if matches!(self.phase, Phase::Over) {
            return;
        }
        match input {
            FollowerInput::Read { request, entries, then } => self.on_read(request, &entries, then),
            FollowerInput::Listed { request, outcome } => {
                if let Phase::Reading(ranges) = &mut self.phase {
                    let seen = ranges.listed(self.now, request, outcome, &mut self.rng);
                    self.on_seen(seen);
                }
            }
            FollowerInput::Applied { position } => {
                if self.applying == Some(position) {
                    self.applying = None;
                    self.settle();
                }
            }
            FollowerInput::LocalStore { end } => self.on_local_store(end),
            FollowerInput::ReplaceFailed(reason) => self.on_replace_failed(reason),
            FollowerInput::Lease { trimmed_below, log_end } => {
                self.options.trimmed_below = self.options.trimmed_below.max(trimmed_below);
                self.options.log_end = self.options.log_end.max(log_end);
                self.heed_bound();
            }
            FollowerInput::Tick => {
                if let Phase::Reading(ranges) = &mut self.phase {
                    ranges.time_passed(self.now, &mut self.rng);
                }
            }
        }
        self.on_time();
    }

    /// What the shell must do: drain until None.
    pub fn poll_output(&mut self) -> Option<FollowerOutput> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if self.applying.is_none()
            && let Some(batch) = self.batches.pop_front()
        {
            assert!(batch.first >= self.options.trimmed_below, "the bound was heeded before (D-43)");
            self.applying = Some(batch.end.position);
            self.granted = batch.end;
            return Some(FollowerOutput::Apply { end: batch.end, changes: batch.changes });
        }
        let now = self.now;
        match &mut self.phase {
            // One batch at most waits in memory behind the one being applied.
            Phase::Reading(ranges) if self.batches.is_empty() || ranges.is_listing() => {
                let question = ranges.poll(now, &mut self.next_request)?;
                let position = self.reader.next_position();
                Some(match question {
                    Question::Range(request) => {
                        self.poll_started_at = now;
                        FollowerOutput::Read {
                            request,
                            from: position,
                            at_most: RANGE_ENTRIES,
                            at_most_bytes: RANGE_BYTES,
                        }
                    }
                    Question::Behind(request) => FollowerOutput::List { request, after: position },
                })
            }
            Phase::Reading(_) | Phase::Resting { .. } | Phase::Replacing | Phase::Over => None,
        }
    }

    /// When to hand in a `Tick`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Reading(ranges) if self.batches.is_empty() || ranges.is_listing() => Some(ranges.due()),
            // What is being applied belongs to the store that is to be replaced.
            Phase::Resting { until, .. } if self.applying.is_none() => Some(*until),
            Phase::Reading(_) | Phase::Resting { .. } | Phase::Replacing | Phase::Over => None,
        };
        let behind = self.state.is_hot().then(|| self.behind_at());
        phase.into_iter().chain(behind).min()
    }

    /// D-14: how long ago it last knew that it had everything, by its own clock. It grows while nothing
    /// is known, whatever the state.
    #[must_use]
    pub fn lag(&self, now: Now) -> Duration {
        now.instant.saturating_since(self.caught_up_at.unwrap_or(self.began_at))
    }

    /// How close it is.
    #[must_use]
    pub const fn state(&self) -> FollowerState {
        self.state
    }

    /// What the start of an epoch goes on with: the end of the local store, once the last `Apply` is
    /// done. Position 0: it gave up or was interrupted in a bootstrap, and whatever is on the disk has
    /// to be deleted first.
    #[must_use]
    pub fn hand_over(self) -> LogEnd {
        match self.phase {
            Phase::Reading(_) | Phase::Resting { .. } => self.granted,
            Phase::Replacing | Phase::Over => LogEnd::default(),
        }
    }

    // --- the local store ---

    /// D-43: its last entry is compared with the log's before anything is applied.
    fn start_behind(&mut self, local: LogEnd) {
        self.granted = local;
        self.batches.clear();
        self.end_reached_at = None;
        self.missing_since = None;
        self.reader.start_behind(local);
        self.read_at(self.now);
        self.heed_bound();
    }

    fn is_below_bound(&self, local: LogEnd) -> bool {
        // Position 1 is the first of all: an empty store is as good as any while it is there.
        let needed = if local.position == Position(0) { Position(1) } else { local.position };
        needed < self.options.trimmed_below
    }

    /// D-15, D-43: nothing below the bound is applied, not even what is still there or already read.
    fn heed_bound(&mut self) {
        match self.phase {
            Phase::Reading(_) | Phase::Resting { then: Then::Read, .. } => {}
            Phase::Resting { then: Then::Replace(_), .. } | Phase::Replacing | Phase::Over => return,
        }
        let is_below = if self.reader.is_unverified() {
            self.is_below_bound(self.reader.end())
        } else {
            let next = self.batches.front().map_or(self.reader.next_position(), |batch| batch.first);
            next < self.options.trimmed_below
        };
        if is_below {
            self.discard(DiscardReason::BelowTrimBound);
        }
    }

    fn discard(&mut self, reason: DiscardReason) {
        self.restart(RestartReason::Discard(reason), Then::Replace(reason));
    }

    fn replace(&mut self, reason: DiscardReason) {
        self.phase = Phase::Replacing;
        self.enter(FollowerState::Bootstrapping);
        self.outputs.push_back(FollowerOutput::DiscardLocalStore(reason));
    }

    fn on_local_store(&mut self, end: LogEnd) {
        if !matches!(self.phase, Phase::Replacing) {
            return;
        }
        if !self.is_below_bound(end) {
            return self.start_behind(end);
        }
        self.failed_rebuilds += 1;
        if self.failed_rebuilds >= REBUILD_TRIES {
            return self.give_up(StopReason::LogHole, end.position.next(), None);
        }
        let then = Then::Replace(DiscardReason::BelowTrimBound);
        self.restart(RestartReason::NothingToRebuildFrom, then);
    }

    fn on_replace_failed(&mut self, reason: StopReason) {
        if !matches!(self.phase, Phase::Replacing) {
            return;
        }
        if reason == StopReason::LocalStoreFailed {
            return self.fail(reason);
        }
        self.restart(RestartReason::Store(reason), Then::Replace(DiscardReason::BelowTrimBound));
    }

    // --- reading ---

    fn read_at(&mut self, at: Instant) {
        let ranges = if self.state.is_hot() { Ranges::poll_at(at, POLL_CUT_OFF) } else { Ranges::read(at) };
        self.phase = Phase::Reading(ranges);
    }

    fn on_read(&mut self, request: RequestId, entries: &[Blob], then: ReadEnd) {
        let Phase::Reading(ranges) = &mut self.phase else {
            return;
        };
        if !ranges.awaits_range(request) {
            return;
        }
        match self.reader.take_in(entries) {
            Ok(batch) => self.batches.extend(batch),
            Err(obstacle) => return self.on_obstacle(obstacle),
        }
        if !entries.is_empty() {
            self.missing_since = None;
        }
        let seen = ranges.range_ended(self.now, entries.is_empty(), then, &mut self.rng);
        self.on_seen(seen);
    }

    fn on_obstacle(&mut self, obstacle: Obstacle) {
        let at = self.reader.next_position();
        match obstacle {
            Obstacle::OtherChain => self.discard(DiscardReason::OtherChain),
            // Either the local store is of another log, or the log is broken: its own last entry tells.
            Obstacle::Unreadable(EntryError::BrokenChain)
                if self.granted.position > Position(0) && self.compared_at != Some(at) =>
            {
                self.compared_at = Some(at);
                self.start_behind(self.granted);
            }
            Obstacle::Unreadable(error) => self.give_up(StopReason::LogUnreadable, at, Some(error)),
            Obstacle::EpochBehind { .. } | Obstacle::Taken => {
                unreachable!("a follower has no epoch that the log could be ahead of")
            }
        }
    }

    fn on_seen(&mut self, seen: Seen) {
        let next = self.reader.next_position();
        match seen {
            Seen::Going => {}
            Seen::Missing if self.reader.is_unverified() => self.discard(DiscardReason::BeyondLog),
            Seen::Missing => self.on_end(),
            Seen::NothingBehind => {
                // The log is shorter than the lease says. It may yet show up; the lag grows meanwhile.
                self.missing_since = Some(self.now);
                self.poll_again();
            }
            Seen::Hole => self.give_up(StopReason::LogHole, next, None),
            Seen::Failed(StopReason::LocalStoreFailed) => self.fail(StopReason::LocalStoreFailed),
            Seen::Failed(reason) => self.restart(RestartReason::Store(reason), Then::Read),
        }
    }

    /// The next entry is missing, at or above the trim bound.
    fn on_end(&mut self) {
        if self.options.log_end > self.reader.end().position {
            let since = *self.missing_since.get_or_insert(self.now);
            if self.now >= since.saturating_add(HOLE_PATIENCE) {
                self.phase = Phase::Reading(Ranges::look_behind(self.now));
                return;
            }
        } else {
            self.missing_since = None;
            self.end_reached_at = Some(self.poll_started_at);
            self.settle();
        }
        self.poll_again();
    }

    /// The next poll starts one interval after the last one did, or at once if that is over.
    fn poll_again(&mut self) {
        let interval = self.options.standby.held_lease_poll_interval();
        self.read_at(self.poll_started_at.saturating_add(interval));
    }

    /// It has everything as of the start of a poll, if all of that is applied.
    fn settle(&mut self) {
        if self.applying.is_some() || !self.batches.is_empty() {
            return;
        }
        let Some(reached_at) = self.end_reached_at.take() else {
            return;
        };
        self.caught_up_at = Some(reached_at);
        self.restart_backoff.reset();
        self.restarts = 0;
        self.failed_rebuilds = 0;
        self.state =
            if self.now > self.behind_after() { FollowerState::Behind } else { FollowerState::Following };
        self.report();
    }

    // --- states ---

    /// The lag is at the threshold then, and above it afterwards.
    fn behind_after(&self) -> Instant {
        let since = if mutant::is(Mutant::BlindIsClose) {
            self.now
        } else {
            self.caught_up_at.unwrap_or(self.began_at)
        };
        since.saturating_add(self.options.standby.behind_lag_threshold())
    }

    fn behind_at(&self) -> Instant {
        self.behind_after().saturating_add(Duration::from_micros(1))
    }

    fn on_time(&mut self) {
        if self.state.is_hot() && self.now >= self.behind_at() {
            self.enter(FollowerState::Behind);
        }
        if let Phase::Resting { until, then } = self.phase
            && self.now >= until
            && self.applying.is_none()
        {
            match then {
                Then::Read => self.read_at(self.now),
                Then::Replace(reason) => self.replace(reason),
            }
        }
    }

    fn restart(&mut self, reason: RestartReason, then: Then) {
        let is_first = self.restarts == 0;
        self.restarts += 1;
        let delay = match then {
            Then::Replace(_) if is_first => Duration::ZERO,
            Then::Replace(_) | Then::Read => self.restart_backoff.draw(&mut self.rng),
        };
        if let Then::Replace(_) = then {
            self.batches.clear();
        }
        // What is still being applied does not make up for the error, nor for what was dropped.
        self.end_reached_at = None;
        self.phase = Phase::Resting { until: self.now.saturating_add(delay), then };
        self.enter(FollowerState::Restarting);
        self.outputs.push_back(FollowerOutput::Restarting(reason));
    }

    fn give_up(&mut self, reason: StopReason, at: Position, error: Option<EntryError>) {
        self.phase = Phase::Over;
        self.batches.clear();
        self.enter(FollowerState::Failed);
        self.outputs.push_back(FollowerOutput::GaveUp { reason, at, error });
    }

    fn fail(&mut self, reason: StopReason) {
        self.phase = Phase::Over;
        self.batches.clear();
        self.enter(FollowerState::Failed);
        self.outputs.push_back(FollowerOutput::Failed(reason));
    }

    fn enter(&mut self, state: FollowerState) {
        if self.state != state {
            self.state = state;
            self.report();
        }
    }

    fn report(&mut self) {
        let report = FollowerReport { state: self.state, caught_up_at: self.caught_up_at };
        self.outputs.push_back(FollowerOutput::Report(report));
    }
}

#[cfg(test)]
#[path = "follower_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "follower_model_tests.rs"]
mod model_tests;
