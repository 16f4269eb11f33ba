//! Processes, the log's objects, the newest snapshot, and the lease record.

use std::hash::{Hash, Hasher};

use dexzd_core::engine::Change;
use dexzd_core::ids::{Blob, Epoch, Name, Position, ProcessId, RequestId};
use dexzd_core::log::{
    Appender, AppenderInput, AppenderOutput, Entry, EntryBody, ListOutcome, LogEnd, Origin, ReadEnd, Startup,
    StartupInput, StartupOptions, StartupOutput,
};
use dexzd_core::names::Named;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use dexzd_core::time::{Now, SlowInstant, Timestamp};

use super::LogModel;
use super::names::{NOW, Timeless};

const NODE: &str = "n";

/// One thing that may happen. Numbers are indices of processes, positions, and late writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A standby applies the next entry, or replaces its local store by the snapshot.
    Follow(usize),
    /// It takes the lease.
    Take(usize),
    /// What the process asked for takes effect and is answered; a lease is confirmed, or not.
    Serve(usize),
    /// Its write lands, and the answer is lost: it is sent again.
    Unanswered(usize),
    /// It ends while its write is under way.
    GiveUp(usize),
    /// It writes an entry.
    Write(usize),
    /// It makes a snapshot.
    Snapshot(usize),
    /// It has trimming below its snapshot authorised.
    Trim(usize),
    /// It comes back; true: with an empty disk.
    Restart(usize, bool),
    /// A late write lands.
    Late(usize),
    /// The entry at this index of the log is deleted.
    Delete(usize),
}

/// The state of everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    lease: Lease,
    log: Vec<Object>,
    late: Vec<Object>,
    snapshot: (Epoch, LogEnd),
    /// Below it, entries may be deleted.
    deletable: Position,
    /// Whatever was first at its position, from position 1 on.
    truth: Vec<LogEnd>,
    /// The highest position acknowledged.
    acknowledged: Position,
    processes: Vec<Process>,
    pub(super) wrong: Option<String>,
    pub(super) story: Option<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Lease {
    epoch: Epoch,
    holder: usize,
    trimmed_below: Position,
    log_end: Position,
}

/// An entry and what is known of it; its checksum says it all.
#[derive(Clone, Debug)]
struct Object {
    end: LogEnd,
    epoch: Epoch,
    is_fence: bool,
    previous: LogEnd,
    bytes: Blob,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Process {
    role: Role,
    epoch: Epoch,
    local: LogEnd,
    asked: Option<Asked>,
    /// The position of its own newest snapshot.
    own_snapshot: Position,
    bound: Position,
    writes: u8,
    restarts: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::large_enum_variant, reason = "most processes are what is large")]
enum Role {
    Standby,
    Starting(Startup),
    Active(Appender),
    Stopped,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Asked {
    Read(RequestId, Position),
    List(RequestId, Position),
    Write(RequestId, Object),
    Confirm,
}

impl World {
    pub(super) fn new(model: &LogModel) -> Self {
        let process = Process {
            role: Role::Standby,
            epoch: Epoch(0),
            local: LogEnd::default(),
            asked: None,
            own_snapshot: Position(0),
            bound: Position(0),
            writes: 0,
            restarts: 0,
        };
        Self {
            lease: Lease {
                epoch: Epoch(0),
                holder: usize::MAX,
                trimmed_below: Position(0),
                log_end: Position(0),
            },
            log: Vec::new(),
            late: Vec::new(),
            snapshot: (Epoch(0), LogEnd::default()),
            deletable: Position(0),
            truth: Vec::new(),
            acknowledged: Position(0),
            processes: vec![process; model.processes],
            wrong: None,
            story: None,
        }
    }

    // --- what may happen ---

    pub(super) fn events(&self, model: &LogModel, events: &mut Vec<Event>) {
        for index in 0..self.late.len() {
            events.push(Event::Late(index));
        }
        for (index, object) in self.log.iter().enumerate() {
            if object.end.position < self.deletable && !(model.keeps_fences && object.is_fence) {
                events.push(Event::Delete(index));
            }
        }
        for (index, process) in self.processes.iter().enumerate() {
            match &process.role {
                Role::Standby => {
                    if self.followed(process).is_some() {
                        events.push(Event::Follow(index));
                    }
                    if self.lease.epoch.0 < model.epochs {
                        events.push(Event::Take(index));
                    }
                }
                Role::Starting(_) | Role::Active(_) => {
                    if let Some(asked) = &process.asked {
                        events.push(Event::Serve(index));
                        if let Asked::Write(_, object) = asked {
                            if !self.is_taken(object.end.position) {
                                events.push(Event::Unanswered(index));
                            }
                            if self.late.len() < model.late_writes {
                                events.push(Event::GiveUp(index));
                            }
                        }
                    }
                    if matches!(process.role, Role::Active(_)) && process.asked.is_none() {
                        if process.writes < model.writes {
                            events.push(Event::Write(index));
                        }
                        if process.local.position > process.own_snapshot {
                            events.push(Event::Snapshot(index));
                        }
                        if self.bound_of(model, process) > process.bound
                            && (!model.bound_in_lease || self.is_holder(index))
                        {
                            events.push(Event::Trim(index));
                        }
                    }
                }
                Role::Stopped => {
                    if process.restarts < model.restarts {
                        events.push(Event::Restart(index, false));
                        if model.wipes && process.local.position > Position(0) {
                            events.push(Event::Restart(index, true));
                        }
                    }
                }
            }
        }
    }

    pub(super) fn happen(&mut self, model: &LogModel, event: Event) {
        match event {
            Event::Follow(index) => {
                if let Some(local) = self.followed(&self.processes[index]) {
                    self.note(|| format!("P{index} follows to {}", local.position));
                    self.processes[index].local = local;
                }
            }
            Event::Take(index) => self.take(model, index),
            Event::Serve(index) => self.serve(model, index),
            Event::Unanswered(index) => {
                let Some(Asked::Write(request, object)) = self.processes[index].asked.take() else { return };
                self.note(|| format!("P{index}'s {} lands, its answer is lost", object.name()));
                self.land(&object);
                self.written(model, index, request, WriteOutcome::Transient { retry_after_ms: None });
            }
            Event::GiveUp(index) => {
                let Some(Asked::Write(_, object)) = self.processes[index].asked.take() else { return };
                self.note(|| format!("P{index} ends while its {} is under way", object.name()));
                self.late.push(object);
                self.stop(index);
            }
            Event::Write(index) => {
                let process = &mut self.processes[index];
                process.writes += 1;
                let key = vec![u8::try_from(process.epoch.0).expect("few"), process.writes];
                if let Role::Active(appender) = &mut process.role {
                    let change = Change { key, value: Some(Vec::new()) };
                    appender.gather(Timestamp::ZERO, vec![change]).expect("it is small");
                }
                self.drain(model, index);
            }
            Event::Snapshot(index) => {
                let process = &mut self.processes[index];
                process.own_snapshot = process.local.position;
                let snapshot = (process.epoch, process.local);
                if (snapshot.0, snapshot.1.position) > (self.snapshot.0, self.snapshot.1.position) {
                    self.snapshot = snapshot;
                }
                self.note(|| format!("P{index} makes a snapshot at {}", snapshot.1.position));
            }
            Event::Trim(index) => {
                let bound = self.bound_of(model, &self.processes[index]);
                self.processes[index].bound = bound;
                self.deletable = self.deletable.max(bound);
                if model.bound_in_lease {
                    self.lease.trimmed_below = bound;
                    self.lease.log_end = self.processes[index].local.position;
                    self.note(|| format!("P{index}'s lease write authorises trimming below {bound}"));
                } else {
                    self.note(|| format!("P{index} trims below {bound}"));
                }
            }
            Event::Restart(index, wiped) => {
                let process = &mut self.processes[index];
                process.restarts += 1;
                process.role = Role::Standby;
                if wiped {
                    process.local = LogEnd::default();
                }
                let position = process.local.position;
                self.note(|| format!("P{index} comes back with its local store at {position}"));
            }
            Event::Late(index) => {
                let object = self.late.remove(index);
                let lands = self.land(&object);
                let how = if lands { "lands" } else { "is refused" };
                self.note(|| format!("the late {} {how}", object.name()));
            }
            Event::Delete(index) => {
                let object = self.log.remove(index);
                self.note(|| format!("{} is deleted", object.name()));
            }
        }
        self.check();
    }

    // --- lease, log, snapshot ---

    fn is_holder(&self, index: usize) -> bool {
        self.lease.holder == index && self.lease.epoch == self.processes[index].epoch
    }

    fn bound_of(&self, model: &LogModel, process: &Process) -> Position {
        let position = process.own_snapshot;
        if model.keeps_entry_at_bound || position == Position(0) { position } else { position.next() }
    }

    fn at(&self, position: Position) -> Option<&Object> {
        self.log.iter().find(|object| object.end.position == position)
    }

    fn is_taken(&self, position: Position) -> bool {
        self.at(position).is_some()
    }

    /// Creates it if nothing is there.
    fn land(&mut self, object: &Object) -> bool {
        let position = object.end.position;
        if self.is_taken(position) {
            return false;
        }
        let place = self.log.partition_point(|it| it.end.position < position);
        self.log.insert(place, object.clone());
        if position.0 == self.truth.len() as u64 + 1 {
            self.truth.push(object.end);
        }
        true
    }

    /// Where a standby gets with one step.
    fn followed(&self, process: &Process) -> Option<LogEnd> {
        let next = process.local.position.next();
        let snapshot = (self.snapshot.1 != process.local).then_some(self.snapshot.1);
        match self.at(next) {
            Some(object) if object.previous == process.local => Some(object.end),
            Some(_) => snapshot,
            None if self.deletable > next => snapshot,
            None => None,
        }
    }

    fn take(&mut self, model: &LogModel, index: usize) {
        let before = self.lease;
        self.lease.epoch = Epoch(before.epoch.0 + 1);
        self.lease.holder = index;
        let (epoch, local) = (self.lease.epoch, self.processes[index].local);
        self.note(|| {
            format!("P{index} takes the lease, epoch {epoch}, with its local store at {}", local.position)
        });
        let options = StartupOptions {
            origin: origin(index, epoch),
            lease_duration_ms: 10_000,
            trimmed_below: if model.bound_in_lease { before.trimmed_below } else { Position(0) },
            log_end: if model.bound_in_lease { before.log_end } else { Position(0) },
            synced: true,
            local,
            seed: 0,
        };
        let process = &mut self.processes[index];
        process.epoch = epoch;
        process.writes = 0;
        process.own_snapshot = Position(0);
        process.bound = before.trimmed_below;
        process.role = Role::Starting(Startup::new(now(), options));
        self.drain(model, index);
    }

    // --- the machines ---

    fn serve(&mut self, model: &LogModel, index: usize) {
        match self.processes[index].asked.take() {
            None => {}
            Some(Asked::Confirm) => {
                if model.confirms && !self.is_holder(index) {
                    self.note(|| format!("P{index} finds its lease lost"));
                    self.stop(index);
                } else {
                    self.start(model, index, StartupInput::LeaseConfirmed);
                }
            }
            Some(Asked::List(request, after)) => {
                let first = self.log.iter().map(|it| it.end.position).find(|position| *position > after);
                self.start(
                    model,
                    index,
                    StartupInput::Listed { request, outcome: ListOutcome::First(first) },
                );
            }
            Some(Asked::Read(request, position)) => {
                let found = self.at(position).map(|object| object.bytes.clone());
                self.note(|| {
                    format!("P{index} reads {position}: {}", if found.is_some() { "there" } else { "404" })
                });
                match &self.processes[index].role {
                    Role::Starting(_) => {
                        let then = if found.is_some() { ReadEnd::Full } else { ReadEnd::Missing };
                        let entries = found.into_iter().collect();
                        self.start(model, index, StartupInput::Read { request, entries, then });
                    }
                    Role::Active(_) => {
                        let outcome = match found {
                            Some(body) => ReadOutcome::Found { version: version(), body, stamp_ms: None },
                            None => ReadOutcome::Missing,
                        };
                        self.append(model, index, AppenderInput::Read { request, outcome });
                    }
                    Role::Standby | Role::Stopped => {}
                }
            }
            Some(Asked::Write(request, object)) => {
                let lands = self.land(&object);
                let how = if lands { "lands" } else { "is refused" };
                self.note(|| format!("P{index}'s {} {how}", object.name()));
                let done = WriteOutcome::Done { version: version() };
                self.written(model, index, request, if lands { done } else { WriteOutcome::Refused });
            }
        }
    }

    fn written(&mut self, model: &LogModel, index: usize, request: RequestId, outcome: WriteOutcome) {
        match &self.processes[index].role {
            Role::Starting(_) => self.start(model, index, StartupInput::Written { request, outcome }),
            Role::Active(_) => self.append(model, index, AppenderInput::Written { request, outcome }),
            Role::Standby | Role::Stopped => {}
        }
    }

    fn start(&mut self, model: &LogModel, index: usize, input: StartupInput) {
        if let Role::Starting(startup) = &mut self.processes[index].role {
            startup.handle(now(), input);
        }
        self.drain(model, index);
    }

    fn append(&mut self, model: &LogModel, index: usize, input: AppenderInput) {
        if let Role::Active(appender) = &mut self.processes[index].role {
            appender.handle(NOW, input);
        }
        self.drain(model, index);
    }

    fn drain(&mut self, model: &LogModel, index: usize) {
        loop {
            // Every wait is over at once.
            let awaited = self.processes[index].asked.as_ref().and_then(Asked::request);
            match &mut self.processes[index].role {
                Role::Starting(startup) => match startup.poll_output() {
                    Some(output) => self.on_startup(model, index, output),
                    None if awaited.is_none() && startup.poll_timeout().is_some_and(|at| at > NOW) => {
                        startup.name(&mut Timeless { awaited });
                    }
                    None => return,
                },
                Role::Active(appender) => match appender.poll_output(NOW) {
                    Some(output) => self.on_appender(index, output),
                    None if awaited.is_none() && appender.poll_timeout().is_some_and(|at| at > NOW) => {
                        appender.name(&mut Timeless { awaited });
                    }
                    None => return,
                },
                Role::Standby | Role::Stopped => return,
            }
        }
    }

    fn on_startup(&mut self, model: &LogModel, index: usize, output: StartupOutput) {
        match output {
            StartupOutput::Read { request, from, .. } => {
                self.processes[index].asked = Some(Asked::Read(request, from));
            }
            StartupOutput::List { request, after } => {
                self.processes[index].asked = Some(Asked::List(request, after));
            }
            StartupOutput::Write { request, entry, .. } => self.ask_write(index, request, entry),
            StartupOutput::Apply { end, .. } => {
                let local = self.processes[index].local.position;
                if end.position != local.next() {
                    self.wrong = Some(format!("P{index} applies {} on {local}", end.position));
                }
                self.processes[index].local = end;
                self.start(model, index, StartupInput::Applied { position: end.position });
            }
            StartupOutput::DiscardLocalStore(reason) => {
                let end = self.snapshot.1;
                self.note(|| {
                    format!(
                        "P{index} replaces its local store ({reason:?}) by the snapshot at {}",
                        end.position
                    )
                });
                self.processes[index].local = end;
                self.start(model, index, StartupInput::LocalStore { end });
            }
            StartupOutput::FenceAccepted { end } => {
                self.note(|| format!("P{index}'s fence at {} is accepted", end.position));
                self.processes[index].asked = Some(Asked::Confirm);
            }
            StartupOutput::LogShorter { .. } => {}
            StartupOutput::EpochBehind { .. } => self.stop(index),
            StartupOutput::Ready { end, .. } => {
                let process = &mut self.processes[index];
                let epoch = process.epoch;
                process.role = Role::Active(Appender::new(origin(index, epoch), end, 0));
                self.note(|| format!("P{index} serves, epoch {epoch}"));
            }
            StartupOutput::Failed { reason, .. } => {
                self.note(|| format!("P{index} stops: {reason}"));
                self.stop(index);
            }
        }
    }

    fn on_appender(&mut self, index: usize, output: AppenderOutput) {
        match output {
            AppenderOutput::Write { request, entry, .. } => self.ask_write(index, request, entry),
            AppenderOutput::Read { request, position } => {
                self.processes[index].asked = Some(Asked::Read(request, position));
            }
            AppenderOutput::Apply { end, .. } => {
                self.processes[index].local = end;
                self.note(|| format!("P{index} acknowledges {}", end.position));
                self.acknowledged = self.acknowledged.max(end.position);
                if self.truth_at(end.position) != Some(end) {
                    self.wrong =
                        Some(format!("P{index} acknowledges an entry at {} that is lost", end.position));
                }
            }
            AppenderOutput::Failed(reason) => {
                self.note(|| format!("P{index} stops: {reason}"));
                self.stop(index);
            }
        }
    }

    fn ask_write(&mut self, index: usize, request: RequestId, bytes: Blob) {
        let object = Object::of(bytes);
        self.note(|| format!("P{index} sends {}", object.name()));
        self.processes[index].asked = Some(Asked::Write(request, object));
    }

    fn stop(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.role = Role::Stopped;
        process.epoch = Epoch(0);
        process.asked = None;
        process.own_snapshot = Position(0);
        process.bound = Position(0);
        process.writes = 0;
    }

    // --- what must be ---

    fn truth_at(&self, position: Position) -> Option<LogEnd> {
        let index = usize::try_from(position.0).expect("few").checked_sub(1)?;
        self.truth.get(index).copied()
    }

    fn check(&mut self) {
        for (index, process) in self.processes.iter().enumerate() {
            if !matches!(process.role, Role::Active(_)) || !self.is_holder(index) || self.wrong.is_some() {
                continue;
            }
            let position = process.local.position;
            if self.truth_at(position) != Some(process.local) {
                self.wrong = Some(format!(
                    "P{index}, true holder, serves a state at {position} that is not the log's"
                ));
            } else if position < self.acknowledged {
                self.wrong = Some(format!(
                    "P{index}, true holder, serves {position} without the acknowledged {}",
                    self.acknowledged
                ));
            }
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(line());
        }
    }

    // --- equal states become equal ---

    pub(super) fn settle(&mut self) {
        self.late.sort_by_key(|object| (object.end.position, object.end.chain.0));
        for process in &mut self.processes {
            let mut names = Timeless { awaited: process.asked.as_ref().and_then(Asked::request) };
            match &mut process.role {
                Role::Starting(startup) => startup.name(&mut names),
                Role::Active(appender) => appender.name(&mut names),
                Role::Standby | Role::Stopped => {}
            }
            if let Some(request) = process.asked.as_mut().and_then(Asked::request_mut) {
                use dexzd_core::names::Names;
                names.request(request);
            }
        }
    }
}

impl Object {
    fn of(bytes: Blob) -> Self {
        let (entry, chain) = Entry::decode(&bytes, NODE).expect("machines write entries");
        let position = entry.position;
        Self {
            end: LogEnd { position, chain },
            epoch: entry.origin.epoch,
            is_fence: matches!(entry.body, EntryBody::Fence { .. }),
            previous: LogEnd { position: Position(position.0 - 1), chain: entry.previous },
            bytes,
        }
    }

    fn name(&self) -> String {
        let kind = if self.is_fence { "fence" } else { "entry" };
        format!("{kind} of epoch {} at {}", self.epoch, self.end.position)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.end == other.end
    }
}

impl Eq for Object {}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.end.hash(state);
    }
}

impl Asked {
    const fn request(&self) -> Option<RequestId> {
        match self {
            Self::Read(request, _) | Self::List(request, _) | Self::Write(request, _) => Some(*request),
            Self::Confirm => None,
        }
    }

    const fn request_mut(&mut self) -> Option<&mut RequestId> {
        match self {
            Self::Read(request, _) | Self::List(request, _) | Self::Write(request, _) => Some(request),
            Self::Confirm => None,
        }
    }
}

fn now() -> Now {
    Now { instant: NOW, slow: SlowInstant::from_micros(NOW.as_micros()), wall: Timestamp::ZERO }
}

fn version() -> Version {
    Version(Blob::default())
}

fn origin(index: usize, epoch: Epoch) -> Origin {
    Origin { node_id: Name::new(NODE), process_id: ProcessId(index as u128 + 1), epoch }
}
