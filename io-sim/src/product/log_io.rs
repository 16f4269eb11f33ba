//! Requests to the log, on their way.

use dexzd_core::ids::{Blob, Name, Position, RequestId};
use dexzd_core::log::{EntryKind, ListOutcome, ReadEnd};
use dexzd_core::store::{ReadOutcome, WriteOutcome};

use super::event::Event;
use super::process::{Asker, DataAnswer, DiskWrite, ToData};
use super::storms::Prefix;
use super::{NODE, Place, ProductWorld};
use crate::dice::Stream;
use crate::log_store::DiskLog;
use crate::store::{Operation, StoreAnswer};
use crate::watch::{ProcessNumber, Seen};
use crate::weather::Heard;
use crate::{MILLISECOND, SECOND, TrueTime};

/// A request to the log in the store, on its way.
#[derive(Clone, Debug)]
pub(super) struct LogRequest {
    process: ProcessNumber,
    life: u32,
    asker: Asker,
    kind: LogKind,
    request: RequestId,
    heard: Heard,
    sent_at: TrueTime,
    sent_when_end_was: Position,
}

/// What somebody's hand deleted from the log.
#[derive(Clone, Debug)]
pub(super) struct LostEntry {
    position: Position,
    entry: Blob,
}

/// Hardly anything that was under way when an entry became durable still lands in its place after so long.
const SETTLED: TrueTime = 5 * SECOND;
/// A hand strikes one of so many entries.
const WITHIN_REACH: usize = 20;

#[derive(Clone, Debug)]
pub(super) enum LogKind {
    Write { position: Position, entry: Blob },
    Read { from: Position, at_most: u32 },
    List { after: Position },
}

/// The keys of the log begin with this.
const LOG_PREFIX: &str = "node/log/";

impl ProductWorld {
    /// Where an entry stands in the store.
    pub(super) fn log_key(position: Position) -> Name {
        Name::new(&format!("{LOG_PREFIX}{:020}", position.0))
    }

    /// The first position of the log in the store that is not below this one.
    pub(super) fn first_entry_from(&self, from: Position) -> Option<Position> {
        let (key, _) = self.store.objects_from(LOG_PREFIX, Self::log_key(from)).next()?;
        Some(Self::position_of(key).expect("only entries stand there"))
    }

    /// The position of the entry with this key, if it is one.
    pub(super) fn position_of(key: &Name) -> Option<Position> {
        key.strip_prefix(LOG_PREFIX).map(|number| Position(number.parse().expect("entries have numbers")))
    }

    /// What the store has of the log, in order.
    pub(super) fn log_in_store(&self) -> impl Iterator<Item = &Blob> {
        self.store.objects_from(LOG_PREFIX, Name::new(LOG_PREFIX)).map(|(_, body)| body)
    }

    /// Shows entries that have become durable, in their order.
    pub(super) fn show_durable(&mut self, at: TrueTime, position: Position, entry: &Blob) {
        if position.0 > self.shown {
            if position.0 != self.shown + 1 {
                let sentence = format!("position {position} became durable before {}", self.shown + 1);
                self.watchers.complain(at, "invariant 1 (log)", sentence);
            }
            self.shown = position.0;
            self.durable_at.push(at);
            self.watchers.show(at, &Seen::EntryDurable { position, entry });
        }
    }

    /// After a crash of the process alone, what the operating system had is there.
    pub(super) fn show_disk(&mut self, at: TrueTime, number: ProcessNumber) {
        let entries = DiskLog::durable_entries(&self.processes[usize::from(number)].disk);
        if (entries.len() as u64) < self.shown {
            let sentence = format!("the log has {} entries after {} were durable", entries.len(), self.shown);
            self.watchers.complain(at, "invariant 2 (durability)", sentence);
        }
        for (position, entry) in (1..).zip(&entries) {
            self.show_durable(at, Position(position), entry);
        }
    }

    pub(super) fn write_log(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        request: RequestId,
        position: Position,
        entry: Blob,
    ) {
        if self.config.place == Place::Store {
            self.ask_log(at, number, request, LogKind::Write { position, entry });
            return;
        }
        let fails = self.dice.chance(Stream::Store, "sync_fails", self.strikes.failing_syncs);
        let takes = self.dice.between(Stream::Store, "sync", 100, 2 * MILLISECOND);
        let stalls = self.dice.chance(Stream::Store, "sync_stalls", self.strikes.failing_syncs);
        let process = &mut self.processes[usize::from(number)];
        if fails {
            process.disk.failing_syncs = 1;
        }
        let asker = process.asker;
        let log = process.log.as_mut().expect("a running process has its log open");
        match log.begin(&mut process.disk, position, &entry) {
            Ok(()) => {
                process.disk_writes.push_back(DiskWrite { request, position, entry, asker });
                let life = process.life;
                let takes = if stalls { SECOND } else { takes };
                self.heap.push(at + takes, Event::DiskSynced(number, life));
            }
            Err(outcome) => {
                let answer = DataAnswer::Written { request, outcome };
                self.tell_data(at + takes, number, ToData::Answer(asker, answer));
            }
        }
    }

    pub(super) fn disk_synced(&mut self, at: TrueTime, number: ProcessNumber) {
        let process = &mut self.processes[usize::from(number)];
        let Some(write) = process.disk_writes.pop_front() else {
            return;
        };
        let log = process.log.as_mut().expect("a running process has its log open");
        let outcome = log.finish(&mut process.disk);
        if matches!(outcome, WriteOutcome::Done { .. }) {
            self.show_durable(at, write.position, &write.entry);
        }
        let answer = DataAnswer::Written { request: write.request, outcome };
        self.tell_data(at, number, ToData::Answer(write.asker, answer));
    }

    pub(super) fn ask_log(&mut self, at: TrueTime, number: ProcessNumber, request: RequestId, kind: LogKind) {
        let fate = self.fate(at, number, Prefix::Log);
        let told = || {
            let what = match &kind {
                LogKind::Write { position, .. } => format!("writes entry {position}"),
                LogKind::Read { from, .. } => format!("reads from {from}"),
                LogKind::List { after } => format!("lists behind {after}"),
            };
            format!("p{number} {what} {fate:?}")
        };
        self.trace.line(at, told);
        self.trace.message(at, number, fate, told);
        let process = &self.processes[usize::from(number)];
        let (life, asker) = (process.life, process.asker);
        if let Some((after, answer)) = heard_early(request, &kind, fate.heard) {
            let message = ToData::Answer(asker, answer);
            self.heap.push(at + after, Event::ToData(number, life, Box::new(message)));
        }
        let sent = LogRequest {
            process: number,
            life,
            asker,
            kind,
            request,
            heard: fate.heard,
            sent_at: at,
            sent_when_end_was: Position(self.shown),
        };
        for (after, heard) in fate.landings() {
            let landing = LogRequest { heard, ..sent.clone() };
            self.heap.push(at + after, Event::LogLands(Box::new(landing)));
        }
    }

    pub(super) fn log_lands(&mut self, at: TrueTime, landing: LogRequest) {
        // One thread serves a log on a disk: a read waits behind the write that is not synced yet.
        let writes = &self.processes[usize::from(landing.process)].disk_writes;
        if self.config.place == Place::Disk && !writes.is_empty() {
            self.heap.push(at + 10 * MILLISECOND, Event::LogLands(Box::new(landing)));
            return;
        }
        let LogRequest { process: number, life, asker, kind, request, heard, sent_at, sent_when_end_was } =
            landing;
        self.trace.event(at, 600 + u64::from(number));
        let answer = match kind {
            LogKind::Write { position, entry } => {
                let outcome = self.land_entry(at, number, sent_at, position, &entry);
                DataAnswer::Written { request, outcome }
            }
            LogKind::Read { from, at_most } => {
                let (entries, then) = self.read_range(number, from, at_most, sent_when_end_was);
                DataAnswer::Range { request, entries, then }
            }
            LogKind::List { after } => {
                let first = match self.config.place {
                    Place::Store => self.first_entry_from(after.next()),
                    Place::Disk => self.entry(number, after.next()).map(|_| after.next()),
                };
                DataAnswer::Listed { request, outcome: ListOutcome::First(first) }
            }
        };
        if let Heard::Answer { after } = heard {
            let message = ToData::Answer(asker, answer);
            self.heap.push(at + after, Event::ToData(number, life, Box::new(message)));
        }
    }

    fn land_entry(
        &mut self,
        at: TrueTime,
        number: ProcessNumber,
        sent_at: TrueTime,
        position: Position,
        entry: &Blob,
    ) -> WriteOutcome {
        let answer = self.store.apply(at, &Self::log_key(position), Operation::Create(entry.clone()));
        let StoreAnswer::Write(outcome) = answer else { unreachable!("a create is answered as a write") };
        if matches!(outcome, WriteOutcome::Done { .. }) {
            self.trace.line(at, || format!("store: entry {position} of p{number}"));
            if self.lost_entry.as_ref().is_some_and(|lost| lost.position == position) {
                self.watchers.show(at, &Seen::HoleFilled { process: number, position, entry, sent_at });
            }
            self.show_durable(at, position, entry);
        }
        outcome
    }

    /// Somebody deletes an entry, of the newest that are settled and in no snapshot. No fence: a frozen writer may
    /// count on it (D-30).
    pub(super) fn lose_some_entry(&mut self, at: TrueTime) {
        let settled = self.durable_at.partition_point(|durable_at| durable_at + SETTLED <= at);
        let first = self.newest_manifest().map_or(1, |name| name.position.0 + 1);
        let positions: Vec<Position> = (first..=settled as u64)
            .rev()
            .map(Position)
            .filter(|position| {
                let entry = self.store.peek(&Self::log_key(*position));
                // Without anything behind it, it is no hole but a shorter log (D-53).
                let is_followed = self.store.peek(&Self::log_key(position.next())).is_some();
                is_followed && entry.is_some_and(|entry| EntryKind::of(entry, NODE) == EntryKind::Changes)
            })
            .take(WITHIN_REACH)
            .collect();
        if positions.is_empty() {
            return;
        }
        let which = self.dice.below(Stream::Crash, "lost_entry", positions.len() as u64);
        let position = positions[usize::try_from(which).expect("few")];
        self.lose_entry(at, position);
    }

    pub(super) fn lose_entry(&mut self, at: TrueTime, position: Position) {
        let key = Self::log_key(position);
        if let Some(entry) = self.store.peek(&key).cloned() {
            self.trace.line(at, || format!("somebody's hand deletes entry {position}"));
            self.watchers.show(at, &Seen::EntryLost { position, entry: &entry });
            self.store.lose(&key);
            self.lost_entry = Some(LostEntry { position, entry });
        }
    }

    /// Somebody puts back what was deleted, whatever stands there now.
    pub(super) fn mend_entry(&mut self, at: TrueTime) {
        if let Some(LostEntry { position, entry }) = self.lost_entry.take() {
            self.store.put_by_hand(at, &Self::log_key(position), entry);
        }
    }

    /// The reads of a range run beside one another and count up to the first that missed its entry: one that
    /// was written meanwhile may be missed although a later one was found.
    fn read_range(
        &mut self,
        number: ProcessNumber,
        from: Position,
        at_most: u32,
        sent_when_end_was: Position,
    ) -> (Vec<Blob>, ReadEnd) {
        let mut entries: Vec<Blob> = (from.0..from.0 + u64::from(at_most))
            .map_while(|position| self.entry(number, Position(position)))
            .collect();
        let settled = sent_when_end_was.0.saturating_sub(from.0 - 1).min(entries.len() as u64);
        let fresh = entries.len() as u64 - settled;
        if self.config.place == Place::Store && fresh > 1 && at_most > 1 {
            let missed = self.dice.below(Stream::Store, "missed_by_parallel_reads", fresh + 1);
            entries.truncate(entries.len() - usize::try_from(missed).expect("few entries"));
        }
        if let Some(last) = entries.pop() {
            entries.push(self.perhaps_damaged(last));
        }
        let full = entries.len() as u64 == u64::from(at_most);
        (entries, if full { ReadEnd::Full } else { ReadEnd::Missing })
    }

    fn entry(&self, number: ProcessNumber, position: Position) -> Option<Blob> {
        match self.config.place {
            Place::Store => self.store.peek(&Self::log_key(position)).cloned(),
            Place::Disk => {
                let log = self.processes[usize::from(number)].log.as_ref()?;
                match log.read(position) {
                    ReadOutcome::Found { body, .. } => Some(body),
                    ReadOutcome::Missing
                    | ReadOutcome::Transient { .. }
                    | ReadOutcome::Permanent
                    | ReadOutcome::LocalFailure => None,
                }
            }
        }
    }
}

/// What the caller hears without the store having carried its request out.
fn heard_early(request: RequestId, kind: &LogKind, heard: Heard) -> Option<(TrueTime, DataAnswer)> {
    let (after, write, read, list) = match heard {
        Heard::Answer { .. } | Heard::Nothing => return None,
        Heard::Transient { after, retry_after_ms } => (
            after,
            WriteOutcome::Transient { retry_after_ms },
            ReadEnd::Transient { retry_after_ms },
            ListOutcome::Transient { retry_after_ms },
        ),
        // Reads have no condition: such an answer to one is a fault of the store.
        Heard::Refused { after } => (
            after,
            WriteOutcome::Refused,
            ReadEnd::Transient { retry_after_ms: None },
            ListOutcome::Transient { retry_after_ms: None },
        ),
        Heard::Permanent { after } => {
            (after, WriteOutcome::Permanent, ReadEnd::Permanent, ListOutcome::Permanent)
        }
    };
    let answer = match kind {
        LogKind::Write { .. } => DataAnswer::Written { request, outcome: write },
        LogKind::Read { .. } => DataAnswer::Range { request, entries: Vec::new(), then: read },
        LogKind::List { .. } => DataAnswer::Listed { request, outcome: list },
    };
    Some((after, answer))
}
