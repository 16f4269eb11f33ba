//! What a world shows to those who check it, in true time.

use std::fmt;

use dexzd_core::engine::{Answer, Call, CallError, Change, Input, Output, Task};
use dexzd_core::ids::{Blob, CallId, Epoch, HandoutId, Position, ProcessId, RequestId, StreamId};
use dexzd_core::lease::{LeaseRecord, Nonce};
use dexzd_core::log::LogEnd;
use dexzd_core::node::{AdminAnswer, AdminError, AdminRequest, Health, NodeTimer, Role, StandbyGauges};
use dexzd_core::standby::FollowerState;
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use crate::TrueTime;
use crate::local_store::Records;

/// A simulated process, from 0. It keeps its number when it starts again.
pub type ProcessNumber = u8;

/// One thing that happened.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A process started, with its disk.
    Started {
        /// Which.
        process: ProcessNumber,
        /// Who it is in this life.
        process_id: ProcessId,
    },
    /// A process died, by a crash or a stop.
    Died {
        /// Which.
        process: ProcessNumber,
        /// None: it was killed.
        reason: Option<StopReason>,
    },
    /// A write of the lease took effect in the store.
    LeaseLanded {
        /// Who had sent it.
        process: ProcessNumber,
        /// What stands there now.
        record: &'a LeaseRecord,
    },
    /// Somebody's hand deleted the lease object, or changed it.
    LeaseLost,
    /// The fence of an epoch landed in the log.
    Fenced {
        /// Whose.
        process: ProcessNumber,
        /// The epoch.
        epoch: Epoch,
    },
    /// A renewal left.
    RenewalSent {
        /// Who.
        process: ProcessNumber,
        /// Under which epoch.
        epoch: Epoch,
        /// Which write of this process it is.
        nonce: u64,
        /// The sender's holder clock when it decided to send, in microseconds.
        instant_us: u64,
    },
    /// A holder knows that a write of its own stands in the lease.
    RenewalKnown {
        /// Who.
        process: ProcessNumber,
        /// Which write.
        nonce: u64,
    },
    /// A release left for the first time: its epoch never serves again.
    ReleaseSent {
        /// Who.
        process: ProcessNumber,
        /// Which epoch.
        epoch: Epoch,
    },
    /// A holder counts on its lease until then, by its own clock.
    Prolonged {
        /// Whose.
        process: ProcessNumber,
        /// Of which epoch.
        epoch: Epoch,
        /// Which write of this process it knows to stand in the lease.
        nonce: u64,
        /// Its holder clock when it came to know that, in microseconds.
        instant_us: u64,
        /// What that clock shows at the end of the period, in microseconds.
        until_us: u64,
    },
    /// A gate was opened or its deadline moved.
    GateOpen {
        /// Whose.
        process: ProcessNumber,
        /// Of which epoch.
        epoch: Epoch,
        /// When its own clock reaches the deadline.
        until: TrueTime,
    },
    /// A gate was shut for good.
    GateShut {
        /// Whose.
        process: ProcessNumber,
        /// Of which epoch.
        epoch: Epoch,
    },
    /// An entry became durable in the log.
    EntryDurable {
        /// Where.
        position: Position,
        /// As encoded.
        entry: &'a Blob,
    },
    /// The local store applied an entry.
    Applied {
        /// Whose.
        process: ProcessNumber,
        /// Up to here.
        end: LogEnd,
        /// What it changed.
        changes: &'a [Change],
        /// Of everything that is applied now, see [`LocalStore::digest`](crate::local_store::LocalStore::digest).
        digest: u64,
    },
    /// A process looks how far its local store is, and goes on from there.
    LocalEnd {
        /// Whose.
        process: ProcessNumber,
        /// How far.
        end: LogEnd,
    },
    /// A local store was deleted: the next one begins empty or with a snapshot.
    Discarded {
        /// Whose.
        process: ProcessNumber,
    },
    /// An entry of the log was deleted by a process.
    EntryDeleted {
        /// By whose order.
        process: ProcessNumber,
        /// Where it stood.
        position: Position,
        /// As encoded.
        entry: &'a Blob,
    },
    /// Somebody's hand deleted an entry of the log.
    EntryLost {
        /// Where it stood.
        position: Position,
        /// As encoded.
        entry: &'a Blob,
    },
    /// A write landed where an entry had stood that somebody's hand deleted.
    HoleFilled {
        /// By whose write.
        process: ProcessNumber,
        /// Where.
        position: Position,
        /// What stands there now, as encoded.
        entry: &'a Blob,
        /// When that write was sent.
        sent_at: TrueTime,
    },
    /// A write of the lease left.
    LeaseSent {
        /// Whose.
        process: ProcessNumber,
        /// What names it.
        nonce: Nonce,
    },
    /// A keeper asked for a list of the snapshots.
    SnapshotsAsked {
        /// Whose.
        process: ProcessNumber,
    },
    /// A keeper orders the deletion of objects of snapshots.
    SnapshotDeletion {
        /// Whose.
        process: ProcessNumber,
        /// How many objects.
        objects: usize,
    },
    /// A process accepted to step down.
    SteppingDown {
        /// Which.
        process: ProcessNumber,
        /// From which epoch.
        epoch: Epoch,
    },
    /// What `AdminService` answered to an operator.
    AdminAnswered {
        /// Which process.
        process: ProcessNumber,
        /// Who that process is.
        process_id: ProcessId,
        /// What was asked.
        request: &'a AdminRequest,
        /// The answer.
        answer: &'a Result<AdminAnswer, AdminError>,
    },
    /// What probes and alerts see of a process after something happened to it.
    Probed {
        /// Which.
        process: ProcessNumber,
        /// What it is.
        role: Role,
        /// Whether it is configured to be hot.
        is_hot_mode: bool,
        /// Health names.
        health: Health,
        /// Gauges.
        gauges: StandbyGauges,
    },
    /// The whole local store of a process, at a moment of rest.
    LocalState {
        /// Whose.
        process: ProcessNumber,
        /// Up to where.
        end: LogEnd,
        /// Everything.
        records: &'a Records,
    },
    /// An engine is told something.
    EngineTold {
        /// Whose.
        process: ProcessNumber,
        /// What.
        input: &'a Input,
    },
    /// An engine wants something.
    EngineSaid {
        /// Whose.
        process: ProcessNumber,
        /// What.
        output: &'a Output,
    },
    /// The engine said that a task goes out. It may still be held back, and lost.
    TaskMade {
        /// Whose engine.
        process: ProcessNumber,
        /// To which stream.
        stream: StreamId,
        /// The position it waits for.
        after: Position,
        /// The task.
        task: &'a Task,
    },
    /// A task was handed to the transport.
    TaskLeft {
        /// By whom.
        process: ProcessNumber,
        /// Of which epoch.
        epoch: Epoch,
        /// The log is durable up to here.
        durable: Position,
        /// The position it waited for.
        after: Position,
        /// The task.
        task: &'a Task,
    },
    /// A Worker gave the task back unused, and the server heard it.
    HandedBack {
        /// Which task.
        handout: HandoutId,
    },
    /// A Worker learned what became of its result.
    Settled {
        /// Which task.
        handout: HandoutId,
        /// Whether it counted.
        accepted: bool,
        /// Whether the Worker heard it on the stream that had carried the task.
        on_its_stream: bool,
    },
    /// A client's call reached a process.
    Called {
        /// Who serves it.
        process: ProcessNumber,
        /// Its number there.
        call: CallId,
        /// What it asks.
        request: &'a Call,
    },
    /// An answer was handed to the transport.
    AnswerLeft {
        /// By whom.
        process: ProcessNumber,
        /// The number of the call there, as in [`Seen::Called`].
        call: CallId,
        /// Of which epoch.
        epoch: Epoch,
        /// The log is durable up to here.
        durable: Position,
        /// The position it waited for.
        after: Position,
        /// What was asked.
        request: &'a Call,
        /// The answer.
        answer: &'a Result<Answer, CallError>,
    },
    /// A process refuses the store: it failed the start-up probe (D-31).
    StoreRefused {
        /// Who.
        process: ProcessNumber,
        /// What the store does wrong.
        fault: &'static str,
    },
    /// SIGTERM.
    Terminated {
        /// Who is to end.
        process: ProcessNumber,
    },
    /// A process says what it is from now on.
    RoleChanged {
        /// Who.
        process: ProcessNumber,
        /// What it is.
        role: Role,
        /// The tenure, where one is held or was.
        epoch: Option<Epoch>,
        /// Its holder clock when that was decided, in microseconds.
        instant_us: u64,
    },
    /// A holder noticed a jump of the wall clock: its lease is in doubt (D-1), or no longer.
    Doubt {
        /// Who.
        process: ProcessNumber,
        /// Whether it begins.
        began: bool,
    },
    /// A write that takes the lease left.
    TakeoverSent {
        /// Who takes it.
        process: ProcessNumber,
        /// Under which epoch.
        epoch: Epoch,
        /// Which request.
        request: RequestId,
        /// The version that it is conditional on; none: there is no lease.
        base: Option<&'a Version>,
        /// Whether it is configured to be hot.
        is_hot_mode: bool,
        /// Whether it is hot, by its own account when that was decided.
        is_hot: bool,
        /// Its holder clock when that was decided, in microseconds.
        instant_us: u64,
    },
    /// A process says that its takeover failed, which is not the same as a lost race (HA-62).
    TakeoverFailed {
        /// Who.
        process: ProcessNumber,
    },
    /// A read of the lease left.
    LeaseAsked {
        /// Who asks.
        process: ProcessNumber,
        /// Which request.
        request: RequestId,
        /// Its holder clock when that was decided, in microseconds.
        instant_us: u64,
    },
    /// A process learns what stands in the lease.
    LeaseShown {
        /// Who.
        process: ProcessNumber,
        /// Which request.
        request: RequestId,
        /// The answer.
        outcome: &'a ReadOutcome,
        /// Its holder clock then, in microseconds.
        instant_us: u64,
    },
    /// A process learns how a write of the lease ended.
    LeaseAnswered {
        /// Who.
        process: ProcessNumber,
        /// Which request.
        request: RequestId,
        /// The answer.
        outcome: &'a WriteOutcome,
    },
    /// What a process means to do next, once it has heard what stands in the lease.
    Planned {
        /// Who.
        process: ProcessNumber,
        /// Whether it is configured to be hot.
        is_hot_mode: bool,
        /// Whether it is hot, by its own account.
        is_hot: bool,
        /// Why it wants to be called.
        timer: NodeTimer,
        /// By when.
        due_us: u64,
        /// Its holder clock now, in microseconds.
        instant_us: u64,
    },
    /// A follower reports.
    FollowerSaid {
        /// Whose.
        process: ProcessNumber,
        /// Its state.
        state: FollowerState,
    },
    /// The local store of an ended tenure is closed.
    StoreClosed {
        /// Whose.
        process: ProcessNumber,
    },
    /// A call of `AdminService` reached `node`.
    CallAsked {
        /// Whom it asks.
        process: ProcessNumber,
        /// Its number there.
        call: CallId,
        /// What it asks.
        request: &'a AdminRequest,
        /// Whether it came over a connection of an earlier role period.
        on_old_connection: bool,
    },
    /// Such a call was answered.
    CallAnswered {
        /// By whom.
        process: ProcessNumber,
        /// Its number there.
        call: CallId,
        /// The answer.
        answer: &'a Result<AdminAnswer, AdminError>,
    },
    /// Somebody asked for health names and gauges.
    HealthLook {
        /// Whose.
        process: ProcessNumber,
        /// Whether it is configured as a hot standby.
        is_hot_mode: bool,
        /// What the health service said.
        health: Health,
        /// What the gauges showed.
        gauges: StandbyGauges,
        /// Its holder clock then, in microseconds.
        instant_us: u64,
    },
    /// From now on no faults strike.
    Healed,
    /// At the end of a run: what the server says about one Flow.
    Audit(&'a Audit),
}

/// What the server says about one Flow at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Its ID.
    pub flow_id: String,
    /// The whole history.
    pub history: Vec<dexzd_core::engine::HistoryEvent>,
    /// The state, if the Flow exists.
    pub state: Option<Box<dexzd_core::engine::RunState>>,
}

/// A rule was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When.
    pub at: TrueTime,
    /// Which rule: `invariant 3`, or a name.
    pub rule: String,
    /// One sentence for people.
    pub sentence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} was broken at {}.{:06} s: {}",
            self.rule,
            self.at / 1_000_000,
            self.at % 1_000_000,
            self.sentence
        )
    }
}

impl std::error::Error for Violation {}

/// Checks one rule.
pub trait Watcher {
    /// The rule's name.
    fn rule(&self) -> &'static str;

    /// Something happened.
    ///
    /// # Errors
    /// A sentence that says how the rule was broken.
    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String>;

    /// The run is over.
    ///
    /// # Errors
    /// A sentence that says what is missing.
    fn finish(&mut self, _at: TrueTime) -> Result<(), String> {
        Ok(())
    }
}

/// All that watch a run. The first broken rule stays.
#[derive(Default)]
pub struct Watchers {
    watchers: Vec<Box<dyn Watcher>>,
    broken: Option<Violation>,
}

impl fmt::Debug for Watchers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Watchers")
            .field("count", &self.watchers.len())
            .field("broken", &self.broken)
            .finish()
    }
}

impl Watchers {
    /// Those.
    #[must_use]
    pub fn new(watchers: Vec<Box<dyn Watcher>>) -> Self {
        Self { watchers, broken: None }
    }

    /// One more.
    pub fn add(&mut self, watcher: Box<dyn Watcher>) {
        self.watchers.push(watcher);
    }

    /// One more, who sees everything before the others: also the event that breaks a rule.
    pub fn add_first(&mut self, watcher: Box<dyn Watcher>) {
        self.watchers.insert(0, watcher);
    }

    /// Shows them something.
    pub fn show(&mut self, at: TrueTime, seen: &Seen<'_>) {
        if self.broken.is_some() {
            return;
        }
        for watcher in &mut self.watchers {
            if let Err(sentence) = watcher.observe(at, seen) {
                self.broken = Some(Violation { at, rule: watcher.rule().to_owned(), sentence });
                return;
            }
        }
    }

    /// A rule of the world itself is broken.
    pub fn complain(&mut self, at: TrueTime, rule: &str, sentence: String) {
        self.broken.get_or_insert_with(|| Violation { at, rule: rule.to_owned(), sentence });
    }

    /// Whether a rule is broken: the run need not go on.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The run is over.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn finish(&mut self, at: TrueTime) -> Result<(), Violation> {
        for watcher in &mut self.watchers {
            if self.broken.is_none()
                && let Err(sentence) = watcher.finish(at)
            {
                self.broken = Some(Violation { at, rule: watcher.rule().to_owned(), sentence });
            }
        }
        self.broken.clone().map_or(Ok(()), Err)
    }
}
