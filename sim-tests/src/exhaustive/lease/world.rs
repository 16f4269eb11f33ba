//! Two processes, one object, requests under way, and the time.

mod settle;

use std::sync::OnceLock;
use std::time::Duration;

use dexzd_core::ids::{Epoch, Name, Position, ProcessId, RequestId};
use dexzd_core::lease::{
    Candidate, CandidateConfig, CandidateOutput, Holder, HolderEvent, HolderOutput, LeaseDuration,
    LeaseInput, LeaseOperation, LeaseRecord, LeaseState, Look, Nonce, Pen, Release, ReleaseOutput, SHORTEST,
    Survey, Tenure,
};
use dexzd_core::rng::Rng;
use dexzd_core::store::{ReadOutcome, WriteOutcome};
use dexzd_core::time::Instant;

use super::renaming::{LongestDraws, SHORTEST_DRAW, now_at, number_of, version_of};
use super::{Bounds, seconds};

/// Every canonical state is at this instant.
pub(super) const BEGIN: Instant = Instant::from_micros(1_000_000_000);
/// What node tries a release for after a failure, and at least (D-51).
const BROKEN_RELEASE_LIMIT: Duration = Duration::from_secs(1);
/// What it tries a release for in order (D-37).
const RELEASE_LIMIT: Duration = Duration::from_secs(10);
/// A process that has just been started; renamed at once.
const NEWBORN: ProcessId = ProcessId(999);

/// One thing that may happen. Numbers are indices of processes and of requests under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A due timer of this process.
    Tick(usize, Draw),
    /// This request takes effect and is answered.
    Serve(usize, Draw),
    /// It takes effect, and its answer is under way.
    Land(usize),
    /// Its answer arrives.
    Answer(usize, Draw),
    /// The process is told that it failed; it may land all the same.
    Fail(usize, Draw),
    /// The process is killed, and started again.
    Crash(usize),
    /// The operator steps the holder down.
    StepDown(usize, Draw),
    /// The gate opens again in the middle of a release (wrong).
    Reopen(usize),
    /// The hold-off after a step down is over.
    Compete(usize, Draw),
    /// Time passes until the next timer is due.
    Pass,
}

/// What the generators draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// The least.
    Shortest,
    /// The most.
    Longest,
}

/// The state of everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    pub(super) now: Instant,
    lease: Option<Stored>,
    requests: Vec<Request>,
    processes: Vec<Process>,
    /// The highest epoch that was ever acquired.
    acquired: Epoch,
    /// The highest epoch whose release was begun.
    released: Epoch,
    wrong: Option<String>,
    /// The story so far, where somebody wants it.
    pub(super) story: Option<Vec<String>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Stored {
    version: u64,
    record: LeaseRecord,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Request {
    process: usize,
    id: RequestId,
    what: What,
    /// Its answer, once it took effect.
    answer: Option<Answer>,
    /// Whether the process was told something already.
    told: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum What {
    Read,
    Write { expected: Option<u64>, record: LeaseRecord },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Answer {
    Done(u64),
    Found(Option<Stored>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Process {
    id: ProcessId,
    role: Role,
    /// The gate: open until then.
    open_until: Instant,
    /// It stepped down, and may not take the lease yet.
    holds_off: bool,
    /// What it held, where it may wrongly believe that it still does.
    before: Option<Holder>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Role {
    Candidate(Candidate),
    Holder(Holder),
    /// `returns`: it competes again after its hold-off, else it ends.
    Release {
        release: Release,
        returns: bool,
    },
    /// In the middle of a change of roles.
    None,
}

impl World {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let mut world = Self {
            now: BEGIN,
            lease: None,
            requests: Vec::new(),
            processes: (1..=bounds.processes).map(|id| Process::started(ProcessId(id as u128))).collect(),
            acquired: Epoch(0),
            released: Epoch(0),
            wrong: None,
            story: None,
        };
        let record = LeaseRecord {
            node_id: node(),
            epoch: Epoch(1),
            holder: ProcessId(1),
            state: LeaseState::Held,
            duration: duration(),
            nonce: Nonce { process_id: ProcessId(1), counter: 0, entropy: 0 },
            trimmed_below: Position(0),
            log_end: Position(0),
        };
        world.lease = Some(Stored { version: 1, record: record.clone() });
        let tenure = Tenure { record, version: version_of(1), since: BEGIN };
        world.acquired = Epoch(1);
        let pen = Pen::new(node(), ProcessId(1), duration());
        let holder = Holder::new(pen, tenure, Rng::new(SHORTEST_DRAW), world.look());
        world.processes[0].role = Role::Holder(holder);
        world.drain(0);
        world
    }

    // --- what may happen ---

    pub(super) fn events(&self, bounds: &Bounds, events: &mut Vec<Event>) {
        let draws: &[Draw] = if bounds.jitter { &[Draw::Shortest, Draw::Longest] } else { &[Draw::Shortest] };
        let mut any_due = false;
        for (index, process) in self.processes.iter().enumerate() {
            // Ticks of two processes change nothing for one another: one order is enough.
            let due = process.due().is_some_and(|at| at <= self.now);
            let ticks = due && !any_due;
            any_due |= due;
            for &draw in draws {
                if ticks {
                    events.push(Event::Tick(index, draw));
                }
                if process.holds_off {
                    events.push(Event::Compete(index, draw));
                }
                if bounds.step_downs && matches!(process.role, Role::Holder(_)) {
                    events.push(Event::StepDown(index, draw));
                }
            }
            let stands = |holder: &Holder| {
                self.lease
                    .as_ref()
                    .is_some_and(|lease| *holder.tenure().version.0 == *version_of(lease.version).0)
            };
            if matches!(process.role, Role::Release { .. }) && process.before.as_ref().is_some_and(stands) {
                events.push(Event::Reopen(index));
            }
            if bounds.crashes {
                events.push(Event::Crash(index));
            }
        }
        for (index, request) in self.requests.iter().enumerate() {
            for &draw in draws {
                match (&request.answer, request.told) {
                    (Some(_), _) => events.push(Event::Answer(index, draw)),
                    (None, false) => events.push(Event::Serve(index, draw)),
                    (None, true) => {}
                }
                if bounds.errors && !request.told {
                    events.push(Event::Fail(index, draw));
                }
            }
            let lands_late = match &request.what {
                What::Read => bounds.stale_reads && request.answer.is_none(),
                What::Write { .. } => {
                    (bounds.late_answers || request.told) && request.answer.is_none() && self.is_live(request)
                }
            };
            if lands_late {
                events.push(Event::Land(index));
            }
        }
        if !any_due || bounds.freezes {
            events.push(Event::Pass);
        }
    }

    pub(super) fn happen(&mut self, bounds: &Bounds, event: Event) {
        match event {
            Event::Tick(process, draw) => {
                self.draw(process, draw);
                self.tell(process, LeaseInput::Tick);
            }
            Event::Serve(index, draw) => {
                let mut request = self.requests.remove(index);
                self.draw(request.process, draw);
                self.land(&mut request);
                self.answer(request);
            }
            Event::Land(index) => {
                let mut request = self.requests[index].clone();
                self.land(&mut request);
                self.requests[index] = request;
            }
            Event::Answer(index, draw) => {
                let request = self.requests.remove(index);
                self.draw(request.process, draw);
                self.answer(request);
            }
            Event::Fail(index, draw) => {
                let Request { process, id, what, .. } = self.requests[index].clone();
                self.note(|_| format!("P{process} is told that its {} failed", what.name()));
                self.requests[index].told = true;
                self.draw(process, draw);
                self.tell(
                    process,
                    match what {
                        What::Read => LeaseInput::Read {
                            request: id,
                            outcome: ReadOutcome::Transient { retry_after_ms: None },
                        },
                        What::Write { .. } => LeaseInput::Written {
                            request: id,
                            outcome: WriteOutcome::Transient { retry_after_ms: None },
                        },
                    },
                );
            }
            Event::Crash(process) => {
                self.note(|_| format!("P{process} crashes and is started again"));
                self.start_again(process);
            }
            Event::StepDown(process, draw) => {
                self.note(|_| format!("P{process} is stepped down"));
                self.draw(process, draw);
                if let (true, Role::Holder(holder)) = (bounds.reopens, &self.processes[process].role) {
                    self.processes[process].before = Some(holder.clone());
                }
                self.release(process, true);
                self.drain(process);
            }
            Event::Reopen(process) => self.reopen(process),
            Event::Compete(process, draw) => {
                self.note(|_| format!("P{process}'s hold-off is over"));
                self.draw(process, draw);
                let look = self.look();
                self.processes[process].holds_off = false;
                if let Role::Candidate(candidate) = &mut self.processes[process].role {
                    candidate.compete(look);
                }
                self.drain(process);
            }
            Event::Pass => self.pass(bounds),
        }
    }

    /// What is wrong with this state, if anything is.
    pub(super) fn wrong(&self) -> Option<String> {
        if self.wrong.is_some() {
            return self.wrong.clone();
        }
        let holders: Vec<_> =
            self.processes.iter().enumerate().filter(|(_, it)| it.is_valid(self.now)).collect();
        (holders.len() > 1).then(|| {
            let names = holders.iter().map(|(index, process)| {
                let left = process.open_until.saturating_since(self.now).as_millis();
                format!("P{index} for {left} ms more")
            });
            format!("two valid holders: {}", names.collect::<Vec<_>>().join(", "))
        })
    }

    pub(super) fn is_beyond(&self, bounds: &Bounds) -> bool {
        (0..self.processes.len()).any(|process| {
            let live = self.requests.iter().filter(|it| {
                it.process == process && it.answer.is_none() && it.what != What::Read && self.is_live(it)
            });
            live.count() > bounds.live_writes
        })
    }

    // --- the store ---

    fn is_live(&self, request: &Request) -> bool {
        match &request.what {
            What::Read => true,
            What::Write { expected, .. } => *expected == self.lease.as_ref().map(|lease| lease.version),
        }
    }

    fn land(&mut self, request: &mut Request) {
        let process = request.process;
        match &request.what {
            What::Read => request.answer = Some(Answer::Found(self.lease.clone())),
            What::Write { record, .. } => {
                let name = request.what.name();
                if self.is_live(request) {
                    let version = self.lease.as_ref().map_or(0, |lease| lease.version) + 1;
                    self.lease = Some(Stored { version, record: record.clone() });
                    request.answer = Some(Answer::Done(version));
                    self.note(|_| format!("P{process}'s {name} lands: v{version}"));
                } else {
                    self.note(|_| format!("P{process}'s {name} is refused"));
                }
            }
        }
    }

    /// Tells the process how it ended; a write without an answer was refused.
    fn answer(&mut self, request: Request) {
        if request.told {
            return;
        }
        let input = match (request.what, request.answer) {
            (What::Read, Some(Answer::Found(Some(lease)))) => LeaseInput::Read {
                request: request.id,
                outcome: ReadOutcome::Found {
                    version: version_of(lease.version),
                    body: lease.record.encode(),
                    stamp_ms: None,
                },
            },
            (What::Read, _) => LeaseInput::Read { request: request.id, outcome: ReadOutcome::Missing },
            (What::Write { .. }, Some(Answer::Done(version))) => LeaseInput::Written {
                request: request.id,
                outcome: WriteOutcome::Done { version: version_of(version) },
            },
            (What::Write { .. }, _) => {
                LeaseInput::Written { request: request.id, outcome: WriteOutcome::Refused }
            }
        };
        self.tell(request.process, input);
    }

    // --- time ---

    fn pass(&mut self, bounds: &Bounds) {
        if !bounds.slow_reads {
            self.requests.retain(|it| it.what != What::Read);
        }
        let due = self.processes.iter().filter_map(Process::due).min();
        let ahead = due
            .map_or(0, |at| u64::try_from(at.saturating_since(self.now).as_micros()).expect("a short run"));
        let ticks = ahead.div_ceil(bounds.tick).max(1);
        self.now = Instant::from_micros(self.now.as_micros() + ticks * bounds.tick);
        self.note(|this| format!("--- {}", seconds(this.now)));
    }

    fn draw(&mut self, process: usize, draw: Draw) {
        if draw == Draw::Longest {
            self.processes[process].name(&mut LongestDraws(longest_draw()));
        }
    }

    // --- the processes ---

    fn look(&self) -> Look {
        Look { now: now_at(self.now), entropy: 0 }
    }

    fn tell(&mut self, index: usize, input: LeaseInput) {
        let look = self.look();
        match &mut self.processes[index].role {
            Role::Candidate(candidate) => candidate.handle(look, input),
            Role::Holder(holder) => holder.handle(look, input),
            Role::Release { release, .. } => release.handle(look, input),
            Role::None => {}
        }
        self.drain(index);
    }

    /// Does what node and shell do.
    fn drain(&mut self, index: usize) {
        loop {
            match &mut self.processes[index].role {
                Role::Candidate(candidate) => match candidate.poll_output() {
                    Some(output) => self.on_candidate(index, output),
                    None => return,
                },
                Role::Holder(holder) => match holder.poll_output() {
                    Some(output) => self.on_holder(index, output),
                    None => return,
                },
                Role::Release { release, .. } => match release.poll_output() {
                    Some(output) => self.on_release(index, output),
                    None => return,
                },
                Role::None => return,
            }
        }
    }

    fn on_candidate(&mut self, index: usize, output: CandidateOutput) {
        match output {
            CandidateOutput::Request { request, operation } => self.send(index, request, operation),
            CandidateOutput::Survey { request } => {
                // It is missing only while nothing was ever there.
                let survey = Some(Survey::default());
                self.tell(index, LeaseInput::Surveyed { request, survey });
            }
            CandidateOutput::Event(_) | CandidateOutput::Seen(_) | CandidateOutput::RetakeFailed(_) => {}
            CandidateOutput::Acquired(tenure) => {
                let epoch = tenure.record.epoch;
                let until = seconds(tenure.ends_at());
                self.note(|_| format!("P{index} holds the lease, epoch {epoch}, trusts to {until}"));
                if epoch <= self.acquired {
                    self.wrong = Some(format!("epoch {epoch} is acquired after epoch {}", self.acquired));
                }
                self.acquired = self.acquired.max(epoch);
                let look = self.look();
                let process = &mut self.processes[index];
                process.role = match std::mem::replace(&mut process.role, Role::None) {
                    Role::Candidate(candidate) => {
                        Role::Holder(Holder::new(candidate.into_pen(), tenure, Rng::new(SHORTEST_DRAW), look))
                    }
                    other => other,
                };
            }
            CandidateOutput::Stopped | CandidateOutput::Failed(_) => self.start_again(index),
        }
    }

    fn on_holder(&mut self, index: usize, output: HolderOutput) {
        match output {
            HolderOutput::Request { request, operation } => self.send(index, request, operation),
            HolderOutput::Valid { until, .. } => {
                let Role::Holder(holder) = &self.processes[index].role else { return };
                let epoch = holder.tenure().record.epoch;
                if epoch <= self.released {
                    self.wrong = Some(format!("epoch {epoch} is valid again after its release"));
                }
                let process = &mut self.processes[index];
                process.open_until = process.open_until.max(until);
            }
            HolderOutput::Event(HolderEvent::Adopted { .. }) => {
                let Role::Holder(holder) = &self.processes[index].role else { return };
                let until = seconds(holder.tenure().ends_at());
                self.note(|_| format!("P{index} finds a renewal of its own, adopts it, trusts to {until}"));
            }
            HolderOutput::Event(HolderEvent::Renewed { .. }) => {
                let Role::Holder(holder) = &self.processes[index].role else { return };
                let until = seconds(holder.tenure().ends_at());
                self.note(|_| format!("P{index} has renewed, trusts to {until}"));
            }
            HolderOutput::Doubt
            | HolderOutput::Confirmed
            | HolderOutput::TrimmedBelow(_)
            | HolderOutput::Event(_) => {}
            HolderOutput::Lost(reason) => {
                self.note(|_| format!("P{index} stops: {reason}"));
                if reason.leaves_lease_to_release() {
                    self.release(index, false);
                } else {
                    self.start_again(index);
                }
            }
        }
    }

    fn on_release(&mut self, index: usize, output: ReleaseOutput) {
        match output {
            ReleaseOutput::Request { request, operation } => self.send(index, request, operation),
            ReleaseOutput::Ended(outcome) => {
                self.note(|_| format!("P{index}'s release is over: {outcome:?}"));
                let process = &mut self.processes[index];
                match std::mem::replace(&mut process.role, Role::None) {
                    Role::Release { release, returns: true } => {
                        let (pen, own_ended) = release.into_pen_and_own();
                        let candidate =
                            Candidate::new(pen, CandidateConfig::default(), Rng::new(SHORTEST_DRAW));
                        process.role = Role::Candidate(candidate.holding_off(own_ended));
                        process.holds_off = true;
                        process.before = None;
                    }
                    _ => self.start_again(index),
                }
            }
        }
    }

    /// Wrong (D-37): a release that seems not to have landed may land all the same.
    fn reopen(&mut self, index: usize) {
        self.note(|_| format!("P{index} takes its release for failed and opens its gate again (WRONG)"));
        let process = &mut self.processes[index];
        if let Some(holder) = process.before.take() {
            process.open_until = holder.tenure().ends_at();
            process.role = Role::Holder(holder);
        }
    }

    /// As node does: the gate shuts for good, and the limit follows from the reason.
    fn release(&mut self, index: usize, returns: bool) {
        let look = self.look();
        let process = &mut self.processes[index];
        process.open_until = Instant::ZERO;
        if let Role::Holder(holder) = std::mem::replace(&mut process.role, Role::None) {
            self.released = self.released.max(holder.tenure().record.epoch);
            let left = holder.tenure().ends_at().saturating_since(self.now);
            let limit =
                if returns { left.clamp(BROKEN_RELEASE_LIMIT, RELEASE_LIMIT) } else { BROKEN_RELEASE_LIMIT };
            process.role = Role::Release { release: holder.release(look, limit), returns };
        }
    }

    fn start_again(&mut self, index: usize) {
        self.processes[index] = Process::started(NEWBORN);
        // Nobody hears the answers.
        self.requests.retain(|it| it.process != index || it.what != What::Read);
        for request in &mut self.requests {
            request.told |= request.process == index;
        }
    }

    fn send(&mut self, process: usize, id: RequestId, operation: LeaseOperation) {
        let (expected, body) = match operation {
            LeaseOperation::Read => {
                // The one before is given up, and its answer never comes.
                self.requests.retain(|it| it.process != process || it.what != What::Read);
                let what = What::Read;
                return self.requests.push(Request { process, id, what, answer: None, told: false });
            }
            LeaseOperation::Create { body } => (None, body),
            LeaseOperation::Update { expected, body } => (Some(number_of(&expected)), body),
        };
        let record = LeaseRecord::decode(&body, &node()).expect("machines write leases");
        let what = What::Write { expected, record };
        self.note(|_| match expected {
            Some(version) => format!("P{process} sends {} on v{version}", what.name()),
            None => format!("P{process} sends {} if there is none", what.name()),
        });
        self.requests.push(Request { process, id, what, answer: None, told: false });
    }

    fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.story.is_some() {
            let line = line(self);
            self.story.get_or_insert_default().push(line);
        }
    }
}

impl Process {
    fn started(id: ProcessId) -> Self {
        let pen = Pen::new(node(), id, duration());
        let candidate = Candidate::new(pen, CandidateConfig::default(), Rng::new(SHORTEST_DRAW));
        Self {
            id,
            role: Role::Candidate(candidate),
            open_until: Instant::ZERO,
            holds_off: false,
            before: None,
        }
    }

    fn is_valid(&self, now: Instant) -> bool {
        matches!(self.role, Role::Holder(_)) && now < self.open_until
    }

    fn due(&self) -> Option<Instant> {
        match &self.role {
            Role::Candidate(candidate) => candidate.poll_timeout().map(|(at, _)| at),
            Role::Holder(holder) => holder.poll_timeout().map(|(at, _)| at),
            Role::Release { release, .. } => release.poll_timeout().map(|(at, _)| at),
            Role::None => None,
        }
    }
}

impl What {
    fn name(&self) -> String {
        match self {
            Self::Read => String::from("read"),
            Self::Write { record, .. } => match record.state {
                LeaseState::Held => {
                    format!("write w{} (held, epoch {})", record.nonce.counter, record.epoch)
                }
                LeaseState::Free => format!("release w{}", record.nonce.counter),
            },
        }
    }
}

fn node() -> Name {
    static NODE: OnceLock<Name> = OnceLock::new();
    NODE.get_or_init(|| Name::new("n")).clone()
}

pub(super) fn duration() -> LeaseDuration {
    LeaseDuration::from_millis(u64::try_from(SHORTEST.as_millis()).expect("short"))
        .expect("the shortest is legal")
}

/// A seed whose first draw is the longest, within a millionth.
fn longest_draw() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        (0..).find(|&seed| Rng::new(seed).up_to(1_000_000) == 1_000_000).expect("one in a million does")
    })
}
