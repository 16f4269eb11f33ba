//! Deleting log entries below the bound that a lease write has carried into the store (D-30).
//!
//! Fences are never deleted: a writer that was frozen before its send finds its slot taken by one, for
//! as long as one write is in flight at a time (D-10). Entries above the own fence are this epoch's and
//! none of them is a fence; older ones are looked at first.

use alloc::vec::Vec;

use super::desk::{Desk, short_ask};
use super::io::{DeleteOutcome, EntryList, KeeperEvent, KeeperOutput, KeeperTask};
use crate::ids::{Position, RequestId};
use crate::log::EntryKind;
use crate::log::ask::Ask;
use crate::mutant::{self, Mutant};
use crate::time::Instant;

/// As many objects as S3 lists or deletes in one request.
const ENTRIES_AT_ONCE: u32 = 1_000;

/// Goes through the log from its beginning, and on whenever the bound has moved.
#[derive(Debug)]
pub(super) struct Trimming {
    fence: Position,
    /// What a lease write allows: everything below.
    allowed: Position,
    /// Everything up to here was looked at.
    done: Position,
    deleted: u64,
    step: Option<Step>,
}

#[derive(Debug)]
enum Step {
    Listing {
        ask: Ask,
        below: Position,
    },
    /// What the unknown ones are. `upto`: everything up to there is done afterwards.
    Inspecting {
        ask: Ask,
        unknown: Vec<Position>,
        doomed: Vec<Position>,
        upto: Position,
    },
    Deleting {
        ask: Ask,
        doomed: Vec<Position>,
        upto: Position,
    },
}

impl Trimming {
    pub(super) const fn new(fence: Position) -> Self {
        Self { fence, allowed: Position(0), done: Position(0), deleted: 0, step: None }
    }

    /// A lease write with this bound has landed.
    pub(super) fn allow(&mut self, now: Instant, below: Position) {
        self.allowed = self.allowed.max(below);
        self.go_on(now);
    }

    fn go_on(&mut self, now: Instant) {
        if self.step.is_none() && self.done.next() < self.allowed {
            self.step = Some(Step::Listing { ask: short_ask(now), below: self.allowed });
        }
    }

    pub(super) fn poll(&mut self, now: Instant, desk: &mut Desk) -> Option<KeeperOutput> {
        Some(match self.step.as_mut()? {
            Step::Listing { ask, below } => KeeperOutput::ListEntries {
                request: ask.poll(now, &mut desk.next_request)?,
                after: self.done,
                below: *below,
                at_most: ENTRIES_AT_ONCE,
            },
            Step::Inspecting { ask, unknown, .. } => KeeperOutput::InspectEntries {
                request: ask.poll(now, &mut desk.next_request)?,
                positions: unknown.clone(),
            },
            Step::Deleting { ask, doomed, .. } => KeeperOutput::DeleteEntries {
                request: ask.poll(now, &mut desk.next_request)?,
                positions: doomed.clone(),
            },
        })
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.step.as_ref().map(|step| match step {
            Step::Listing { ask, .. } | Step::Inspecting { ask, .. } | Step::Deleting { ask, .. } => {
                ask.due()
            }
        })
    }

    pub(super) fn time_passed(&mut self, now: Instant, desk: &mut Desk) {
        match &mut self.step {
            Some(Step::Listing { ask, .. } | Step::Inspecting { ask, .. } | Step::Deleting { ask, .. }) => {
                ask.time_passed(now, &mut desk.rng)
            }
            None => {}
        }
    }

    pub(super) fn listed(&mut self, now: Instant, request: RequestId, outcome: &EntryList, desk: &mut Desk) {
        let Some(Step::Listing { ask, below }) = &mut self.step else {
            return;
        };
        if !ask.awaits(request) {
            return;
        }
        match outcome {
            EntryList::Positions(positions) => {
                let below = *below;
                // What lies outside was not asked for, and is not deleted whatever the answer says.
                let range = |position: &&Position| **position > self.done && **position < below;
                let found: Vec<Position> = positions.iter().filter(range).copied().collect();
                let is_full = positions.len() >= usize::try_from(ENTRIES_AT_ONCE).expect("it is small");
                let upto = match found.last() {
                    Some(last) if is_full => *last,
                    Some(_) | None => Position(below.0 - 1),
                };
                let (unknown, rest): (Vec<Position>, Vec<Position>) =
                    found.into_iter().partition(|position| *position < self.fence);
                let doomed = rest
                    .into_iter()
                    .filter(|it| *it != self.fence || mutant::is(Mutant::FenceTrimmed))
                    .collect();
                self.inspect(now, unknown, doomed, upto, desk);
            }
            EntryList::Transient { retry_after_ms } => {
                desk.again(now, ask, KeeperTask::Trimming, *retry_after_ms);
            }
            EntryList::Permanent => desk.denied(now, ask, KeeperTask::Trimming),
        }
    }

    fn inspect(
        &mut self,
        now: Instant,
        unknown: Vec<Position>,
        doomed: Vec<Position>,
        upto: Position,
        desk: &mut Desk,
    ) {
        if unknown.is_empty() {
            self.delete(now, doomed, upto, desk);
        } else {
            self.step = Some(Step::Inspecting { ask: short_ask(now), unknown, doomed, upto });
        }
    }

    pub(super) fn inspected(
        &mut self,
        now: Instant,
        request: RequestId,
        kinds: &[(Position, EntryKind)],
        is_complete: bool,
        desk: &mut Desk,
    ) {
        let Some(Step::Inspecting { ask, unknown, doomed, upto }) = &mut self.step else {
            return;
        };
        if !ask.awaits(request) {
            return;
        }
        for &(position, kind) in kinds {
            let Some(index) = unknown.iter().position(|&asked| asked == position) else {
                continue;
            };
            unknown.swap_remove(index);
            match kind {
                EntryKind::Changes => doomed.push(position),
                EntryKind::Fence if mutant::is(Mutant::FenceTrimmed) => doomed.push(position),
                EntryKind::Fence | EntryKind::Unreadable => {}
            }
        }
        if is_complete {
            let (mut doomed, upto) = (core::mem::take(doomed), *upto);
            doomed.sort_unstable();
            self.delete(now, doomed, upto, desk);
        } else {
            unknown.sort_unstable();
            desk.again(now, ask, KeeperTask::Trimming, None);
        }
    }

    fn delete(&mut self, now: Instant, doomed: Vec<Position>, upto: Position, desk: &mut Desk) {
        if doomed.is_empty() {
            self.page_done(now, upto, desk);
        } else {
            assert!(doomed.iter().all(|position| *position < self.allowed), "only what the lease allows");
            self.step = Some(Step::Deleting { ask: short_ask(now), doomed, upto });
        }
    }

    pub(super) fn deleted(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: DeleteOutcome,
        desk: &mut Desk,
    ) {
        let Some(Step::Deleting { ask, doomed, upto }) = &mut self.step else {
            return;
        };
        if !ask.awaits(request) {
            return;
        }
        match outcome {
            DeleteOutcome::Done => {
                self.deleted += u64::try_from(doomed.len()).expect("at most a thousand");
                let upto = *upto;
                self.page_done(now, upto, desk);
            }
            DeleteOutcome::Transient { retry_after_ms } => {
                desk.again(now, ask, KeeperTask::Trimming, retry_after_ms);
            }
            DeleteOutcome::Permanent => desk.denied(now, ask, KeeperTask::Trimming),
        }
    }

    fn page_done(&mut self, now: Instant, upto: Position, desk: &mut Desk) {
        self.done = self.done.max(upto);
        self.step = None;
        self.go_on(now);
        if self.step.is_none() && self.deleted > 0 {
            desk.tell(KeeperEvent::Trimmed { entries: self.deleted, below: self.allowed });
            self.deleted = 0;
        }
    }
}
