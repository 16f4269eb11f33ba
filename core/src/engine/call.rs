//! What clients ask, what they get, and the errors in between (concepts.md 1.16).

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::frame::AttributeEntry;
use super::history::HistoryEvent;
use super::model::{
    ActiveStepSearch, AttributeWrite, Condition, ConditionResult, Durability, Failure, FlowConfig, FlowError,
    FlowOutput, FlowStatus, IdReusePolicy, Key, Lineage, Method, MethodOptions, Movement, NamedValue,
    Publication, Recovery, StopKind, TimeoutPolicy, Value, Wait,
};
use crate::ids::{MessageId, Name, RunId, StepExecutionId};
use crate::time::Timestamp;

/// Addresses a run: the latest one of a Flow ID, or a named one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Target {
    /// The Flow ID.
    #[n(0)]
    pub flow_id: Name,
    /// None: the latest run.
    #[n(1)]
    pub run_id: Option<RunId>,
}

/// A client's call.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Call {
    /// Start a run.
    #[n(0)]
    Start(#[n(0)] alloc::boxed::Box<StartFlow>),
    /// Stop a run.
    #[n(1)]
    Stop {
        /// Idempotency key.
        #[n(0)]
        request_id: Name,
        /// Which run.
        #[n(1)]
        target: Target,
        /// How.
        #[n(2)]
        kind: StopKind,
        /// Why, for people.
        #[n(3)]
        reason: Name,
    },
    /// Publish a batch, in its order.
    #[n(2)]
    Publish {
        /// Idempotency key.
        #[n(0)]
        request_id: Name,
        /// Which run; it must be active.
        #[n(1)]
        target: Target,
        /// At least one.
        #[n(2)]
        publications: Vec<Publication>,
    },
    /// Write Attributes, atomically.
    #[n(3)]
    WriteAttributes {
        /// Idempotency key.
        #[n(0)]
        request_id: Name,
        /// Which run; it must be active.
        #[n(1)]
        target: Target,
        /// At least one.
        #[n(2)]
        writes: Vec<AttributeWrite>,
    },
    /// Delete pending Channel messages; one that is gone fails the whole call.
    #[n(4)]
    DeleteMessages {
        /// Idempotency key.
        #[n(0)]
        request_id: Name,
        /// Which run; it must be active.
        #[n(1)]
        target: Target,
        /// The Channel.
        #[n(2)]
        channel: Key,
        /// At least one.
        #[n(3)]
        messages: Vec<MessageId>,
    },
    /// Let a timer count as fired.
    #[n(5)]
    SkipTimer {
        /// Idempotency key.
        #[n(0)]
        request_id: Name,
        /// Which run; it must be active.
        #[n(1)]
        target: Target,
        /// Which timer.
        #[n(2)]
        timer: TimerTarget,
    },
    /// Merge the given fields into the run's configuration.
    #[n(6)]
    UpdateConfig {
        /// Idempotency key.
        #[n(0)]
        request_id: Name,
        /// Which run; it must be active.
        #[n(1)]
        target: Target,
        /// None: unchanged.
        #[n(2)]
        config: FlowConfig,
    },
    /// IDs, status, times.
    #[n(7)]
    Describe(#[n(0)] Target),
    /// Everything a run is made of now.
    #[n(8)]
    State(#[n(0)] Target),
    /// A page of semantic events.
    #[n(9)]
    History {
        /// Which run.
        #[n(0)]
        target: Target,
        /// The first event wanted, from 1.
        #[n(1)]
        start_event: u64,
        /// 1 to [`limits::PAGE_SIZE`](super::limits::PAGE_SIZE).
        #[n(2)]
        page_size: u32,
    },
    /// Wait for an event; at once if it exists, "none" once the run is closed without it.
    #[n(10)]
    WaitForEvent {
        /// Which run.
        #[n(0)]
        target: Target,
        /// From 1.
        #[n(1)]
        event: u64,
        /// In milliseconds; None waits as long as the call is open.
        #[n(2)]
        wait_ms: Option<u64>,
    },
    /// Wait until a run is closed.
    #[n(11)]
    WaitForFlow {
        /// Which run.
        #[n(0)]
        target: Target,
        /// In milliseconds; None waits as long as the call is open.
        #[n(1)]
        wait_ms: Option<u64>,
    },
    /// Wait until a Step execution has completed.
    #[n(12)]
    WaitForStep {
        /// Which run.
        #[n(0)]
        target: Target,
        /// Which execution; it need not exist yet.
        #[n(1)]
        step: StepExecutionId,
        /// In milliseconds; None waits as long as the call is open.
        #[n(2)]
        wait_ms: Option<u64>,
    },
    /// A page of runs, newest first.
    #[n(13)]
    Search {
        /// All given parts must match.
        #[n(0)]
        filter: SearchFilter,
        /// 1 to [`limits::PAGE_SIZE`](super::limits::PAGE_SIZE).
        #[n(1)]
        page_size: u32,
        /// From the page before; None for the first.
        #[n(2)]
        page_token: Option<PageToken>,
    },
}

/// Which timer to skip.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum TimerTarget {
    /// A timer condition, by ID.
    #[n(0)]
    Condition {
        /// The waiting Step execution.
        #[n(0)]
        step: StepExecutionId,
        /// The condition's ID.
        #[n(1)]
        id: Name,
    },
    /// A timer condition, by its place among the Wait's timers, from 0.
    #[n(1)]
    Index {
        /// The waiting Step execution.
        #[n(0)]
        step: StepExecutionId,
        /// From 0.
        #[n(1)]
        index: u32,
    },
    /// The Flow's timeout.
    #[n(2)]
    FlowTimeout,
}

/// A start request (concepts.md 1.1).
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub struct StartFlow {
    /// Idempotency key, non-empty.
    #[n(0)]
    pub request_id: Name,
    /// Chosen by the application.
    #[n(1)]
    pub flow_id: Name,
    /// The Flow type.
    #[n(2)]
    pub flow_type: Name,
    /// None: idles until somebody starts a Step.
    #[n(3)]
    pub start: Option<Movement>,
    /// In milliseconds; None or 0 disables it.
    #[n(4)]
    pub timeout_ms: Option<u64>,
    /// Only with a positive timeout. None: HANDLER if there is one, else FAIL.
    #[n(5)]
    pub timeout_policy: Option<TimeoutPolicy>,
    /// Whether the Flow type has a timeout handler.
    #[n(6)]
    pub has_timeout_handler: bool,
    /// Needs a positive timeout and HANDLER.
    #[n(7)]
    pub timeout_handler: Option<TimeoutHandlerOptions>,
    /// Whether the Flow ID may be used again.
    #[n(8)]
    pub id_reuse: IdReusePolicy,
    /// On rejection: the existing run iff its request ID equals this one.
    #[n(9)]
    pub ignore_already_started: bool,
    /// Hold the first Step back for so long, in milliseconds.
    #[n(10)]
    pub start_delay_ms: Option<u64>,
    /// Written with the creation.
    #[n(11)]
    pub attributes: Vec<AttributeWrite>,
    /// Only what is given differs from the default.
    #[n(12)]
    pub config: FlowConfig,
    /// How long the closed run is kept, in milliseconds. None: the server's default.
    #[n(13)]
    pub retention_ms: Option<u64>,
}

/// Options of the timeout handler.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub struct TimeoutHandlerOptions {
    /// Timeout, retry, durability, loads.
    #[n(0)]
    pub method: MethodOptions,
    /// In milliseconds.
    #[n(1)]
    pub heartbeat_timeout_ms: Option<u64>,
    /// Takes over if the handler failed for good; None fails the Flow.
    #[n(2)]
    pub recovery: Option<alloc::boxed::Box<Recovery>>,
}

/// What a search asks for. Empty parts match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct SearchFilter {
    /// Flow types.
    #[n(0)]
    pub flow_types: Vec<Name>,
    /// Statuses.
    #[n(1)]
    pub statuses: Vec<FlowStatus>,
    /// Exact Flow IDs.
    #[n(2)]
    pub flow_ids: Vec<Name>,
    /// A beginning of the Flow ID.
    #[n(3)]
    pub flow_id_prefix: Option<Name>,
    /// Started at or after.
    #[n(4)]
    pub started_from: Option<Timestamp>,
    /// Started before.
    #[n(5)]
    pub started_before: Option<Timestamp>,
    /// An active Step of this type.
    #[n(6)]
    pub active_step_types: Vec<Name>,
}

/// Where the next page of a search begins: behind this run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct PageToken {
    /// Start time of the last run shown.
    #[n(0)]
    pub start_time: Timestamp,
    /// Its ID.
    #[n(1)]
    pub run_id: RunId,
}

/// What a call gets.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Answer {
    /// Of a start.
    #[n(0)]
    Started {
        /// The run.
        #[n(0)]
        run_id: RunId,
        /// False: an earlier request with the same ID had started it.
        #[n(1)]
        newly: bool,
    },
    /// Of stop, Attribute writes, deletions, configuration.
    #[n(1)]
    Done,
    /// Of a publication: the IDs of its messages, in order.
    #[n(2)]
    Published(#[n(0)] Vec<MessageId>),
    /// Of a timer skip.
    #[n(3)]
    Skipped {
        /// True: the Step does not wait yet; the skip is remembered.
        #[n(0)]
        remembered: bool,
    },
    /// Of describe.
    #[n(4)]
    Summary(#[n(0)] alloc::boxed::Box<Summary>),
    /// Of state.
    #[n(5)]
    State(#[n(0)] alloc::boxed::Box<RunState>),
    /// Of history.
    #[n(6)]
    History {
        /// In order.
        #[n(0)]
        events: Vec<HistoryEvent>,
        /// The first event of the next page; None at the end (so far).
        #[n(1)]
        next_event: Option<u64>,
        /// Whether the run is closed: then the end is the end.
        #[n(2)]
        closed: bool,
    },
    /// Of a wait for an event; None: the run closed without it.
    #[n(7)]
    Event(#[n(0)] Option<alloc::boxed::Box<HistoryEvent>>),
    /// Of a wait for a Flow.
    #[n(8)]
    FlowResult(#[n(0)] alloc::boxed::Box<FlowResult>),
    /// Of a wait for a Step.
    #[n(9)]
    StepCompleted,
    /// Of a search.
    #[n(10)]
    Page {
        /// Newest start first.
        #[n(0)]
        runs: Vec<Summary>,
        /// None: no more.
        #[n(1)]
        next: Option<PageToken>,
    },
}

/// The result of a closed run.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct FlowResult {
    /// The run.
    #[n(0)]
    pub run_id: RunId,
    /// Not Running.
    #[n(1)]
    pub status: FlowStatus,
    /// In the order in which they were given.
    #[n(2)]
    pub outputs: Vec<FlowOutput>,
    /// Of a run that did not complete.
    #[n(3)]
    pub error: Option<FlowError>,
}

/// A run at a glance.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Summary {
    /// The Flow ID.
    #[n(0)]
    pub flow_id: Name,
    /// The run.
    #[n(1)]
    pub run_id: RunId,
    /// The run before it under the same Flow ID, if there was one: the first run.
    #[n(2)]
    pub first_run_id: RunId,
    /// The request that started it.
    #[n(3)]
    pub request_id: Name,
    /// The Flow type.
    #[n(4)]
    pub flow_type: Name,
    /// The status.
    #[n(5)]
    pub status: FlowStatus,
    /// When the start was accepted.
    #[n(6)]
    pub start_time: Timestamp,
    /// When it closed.
    #[n(7)]
    pub close_time: Option<Timestamp>,
    /// Of a run that did not complete.
    #[n(8)]
    pub error: Option<FlowError>,
    /// Whether a cooperative stop is under way.
    #[n(9)]
    pub closing: bool,
    /// Active Step types, as the configuration lets search see them.
    #[n(10)]
    pub active_step_types: Vec<Name>,
    /// How many history events it has.
    #[n(11)]
    pub event_count: u64,
}

/// A run in full, now.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct RunState {
    /// At a glance.
    #[n(0)]
    pub summary: Summary,
    /// Its configuration, defaults filled in.
    #[n(1)]
    pub active_step_search: ActiveStepSearch,
    /// Its configuration, defaults filled in.
    #[n(2)]
    pub step_durability: Durability,
    /// All Attributes.
    #[n(3)]
    pub attributes: Vec<AttributeEntry>,
    /// All active Step executions: queued, running, backing off, waiting.
    #[n(4)]
    pub steps: Vec<StepState>,
    /// Pending Channel messages.
    #[n(5)]
    pub channels: Vec<super::frame::ChannelMessages>,
    /// Outputs so far.
    #[n(6)]
    pub outputs: Vec<FlowOutput>,
    /// When the Flow's timeout fires.
    #[n(7)]
    pub timeout_at: Option<Timestamp>,
    /// Until when the first Step is held back.
    #[n(8)]
    pub start_at: Option<Timestamp>,
}

/// The phase of an active Step execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum Phase {
    /// In the task queue.
    #[n(0)]
    Queued,
    /// With a Worker.
    #[n(1)]
    Running,
    /// Between two attempts.
    #[n(2)]
    BackingOff,
    /// On its stored conditions.
    #[n(3)]
    Waiting,
    /// Held back by the start delay.
    #[n(4)]
    Delayed,
}

/// An active Step execution.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct StepState {
    /// Which.
    #[n(0)]
    pub step: StepExecutionId,
    /// What it is doing.
    #[n(1)]
    pub phase: Phase,
    /// The method that is next, or runs.
    #[n(2)]
    pub method: Method,
    /// The attempt that is next, or runs.
    #[n(3)]
    pub attempt: u32,
    /// Since when it is in this phase.
    #[n(4)]
    pub since: Timestamp,
    /// Why it is still queued, for people.
    #[n(5)]
    pub pending_reason: Option<Name>,
    /// When a backing-off Step is queued again.
    #[n(6)]
    pub next_attempt_at: Option<Timestamp>,
    /// The stored Wait.
    #[n(7)]
    pub wait: Option<Wait>,
    /// Due times of the Wait's timers, in their order.
    #[n(8)]
    pub timers: Vec<TimerState>,
    /// Results known so far.
    #[n(9)]
    pub conditions: Vec<ConditionResult>,
    /// Set in WaitFor.
    #[n(10)]
    pub locals: Vec<NamedValue>,
    /// The last failed attempt while retries remain.
    #[n(11)]
    pub last_failure: Option<Failure>,
    /// Where it came from.
    #[n(12)]
    pub lineage: Lineage,
    /// The Worker that runs it.
    #[n(13)]
    pub worker: Option<Name>,
    /// The Step's input.
    #[n(14)]
    pub input: Option<Value>,
}

/// One timer of a stored Wait.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct TimerState {
    /// The condition's ID.
    #[n(0)]
    pub id: Option<Name>,
    /// When it fires.
    #[n(1)]
    pub due: Timestamp,
    /// Whether it has fired.
    #[n(2)]
    pub fired: bool,
    /// Whether it was skipped.
    #[n(3)]
    pub skipped: bool,
}

/// Why a call failed. One variant per fact; the text is made where it is shown.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum CallError {
    /// The request itself is wrong.
    #[n(0)]
    InvalidArgument {
        /// The field, as in the protocol: `start.options.retry`.
        #[n(0)]
        field: Name,
        /// What is wrong and what is allowed.
        #[n(1)]
        rule: Name,
    },
    /// The reuse policy refuses the start.
    #[n(1)]
    AlreadyStarted {
        /// The run that exists.
        #[n(0)]
        run_id: RunId,
        /// Its status.
        #[n(1)]
        status: FlowStatus,
    },
    /// No such Flow ID or run.
    #[n(2)]
    NotFound,
    /// The run is closed.
    #[n(3)]
    NotActive {
        /// Its status.
        #[n(0)]
        status: FlowStatus,
    },
    /// A cooperative stop is under way.
    #[n(4)]
    Closing,
    /// A bounded wait ended; the Flow is untouched.
    #[n(5)]
    LongPollTimeout,
    /// The message was consumed or deleted.
    #[n(6)]
    MessageNotFound {
        /// Which.
        #[n(0)]
        message: MessageId,
    },
    /// The Step waits and has no such timer.
    #[n(7)]
    TimerNotFound,
    /// The Step execution ended, or can no longer begin, without completing.
    #[n(8)]
    StepNotCompleted,
    /// Something grew beyond its limit.
    #[n(9)]
    LimitExceeded {
        /// Which limit.
        #[n(0)]
        limit: Name,
    },
    /// This process does not serve (any more): try again, elsewhere or later.
    #[n(10)]
    Unavailable,
    /// The same request ID was used for a different kind of call.
    #[n(11)]
    RequestIdReused,
    /// The server's own fault.
    #[n(12)]
    Internal {
        /// For people.
        #[n(0)]
        detail: Name,
    },
}

/// A timer condition as a Wait keeps it: normalised to an absolute time (concepts.md 1.7).
#[must_use]
pub fn timer_conditions(wait: &Wait) -> Vec<&Condition> {
    wait.conditions
        .iter()
        .filter(|condition| matches!(condition.kind, super::model::ConditionKind::Timer { .. }))
        .collect()
}

impl core::fmt::Display for CallError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::InvalidArgument { field, rule } => write!(formatter, "{field}: {rule}"),
            Self::AlreadyStarted { run_id, status } => {
                write!(formatter, "the Flow ID is in use: run {run_id} is {}", status.label())
            }
            Self::NotFound => formatter.write_str("there is no such Flow or run"),
            Self::NotActive { status } => write!(formatter, "the run is closed: {}", status.label()),
            Self::Closing => formatter.write_str("the Flow is closing: a stop is under way"),
            Self::LongPollTimeout => formatter.write_str("the wait ended; the Flow is untouched"),
            Self::MessageNotFound { message } => {
                write!(formatter, "Channel message {message} was consumed or deleted, or never existed")
            }
            Self::TimerNotFound => formatter.write_str("there is no such timer, or it can no longer fire"),
            Self::StepNotCompleted => {
                formatter.write_str("the Step execution ended without completing, or can no longer begin")
            }
            Self::LimitExceeded { limit } => write!(formatter, "a limit is reached: {limit}"),
            Self::Unavailable => formatter.write_str("this process does not serve: try again"),
            Self::RequestIdReused => {
                formatter.write_str("the request ID was used for another kind of call: use a new one")
            }
            Self::Internal { detail } => write!(formatter, "internal error: {detail}"),
        }
    }
}
