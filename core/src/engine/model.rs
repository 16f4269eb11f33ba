//! The vocabulary of Flows: what clients and Workers say, and what records keep (concepts.md 1).
//!
//! Every type here is a plain value with numbered fields: a field is added with a new number and is
//! optional, a number is never used again.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::ids::{Blob, Name, StepExecutionId};

/// Bytes that only the application understands, and the name of their encoding.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Value {
    /// For example `json`.
    #[n(0)]
    pub encoding: Name,
    /// At most [`limits::VALUE_BYTES`](super::limits::VALUE_BYTES).
    #[n(1)]
    pub data: Blob,
}

/// A typed Attribute value (concepts.md 1.9). Null is the absence of the Attribute.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum AttributeValue {
    /// Text.
    #[n(0)]
    String(#[n(0)] Name),
    /// A 64-bit integer.
    #[n(1)]
    Int(#[n(0)] i64),
    /// A double.
    #[n(2)]
    Double(#[n(0)] f64),
    /// A truth value.
    #[n(3)]
    Bool(#[n(0)] bool),
    /// Bytes with an encoding.
    #[n(4)]
    Object(#[n(0)] Value),
}

/// The name of an Attribute or Channel and, for a map, the key of one instance.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
pub struct Key {
    /// As declared in the schema.
    #[n(0)]
    pub name: Name,
    /// The instance key of an AttributeMap or ChannelMap: non-empty, without a slash. None otherwise.
    #[n(1)]
    pub instance: Option<Name>,
}

/// Sets an Attribute, or deletes it (None).
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct AttributeWrite {
    /// Which Attribute.
    #[n(0)]
    pub key: Key,
    /// None deletes: writing null deletes.
    #[n(1)]
    pub value: Option<AttributeValue>,
}

/// One value for a Channel.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Publication {
    /// Which Channel.
    #[n(0)]
    pub channel: Key,
    /// What waits there until somebody consumes it.
    #[n(1)]
    pub value: Value,
}

/// A named value: a Step-execution local or a recorded event.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct NamedValue {
    /// Its name.
    #[n(0)]
    pub name: Name,
    /// Its value.
    #[n(1)]
    pub value: Value,
}

/// SYNC or ASYNC (concepts.md 1.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Durability {
    /// Start durable before hand-out, result durable before its acknowledgement.
    #[n(0)]
    #[default]
    Sync,
    /// Start and result may be persisted afterwards.
    #[n(1)]
    Async,
}

/// The two methods of a Step. A timeout handler is the Execute of a Step of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum Method {
    /// Returns a Wait.
    #[n(0)]
    WaitFor,
    /// Returns a Decision.
    #[n(1)]
    Execute,
}

/// Retry policy as given: zero means "the default" (concepts.md 1.3). Whole seconds, `i32` range.
#[derive(Clone, Copy, PartialEq, Debug, Default, Encode, Decode)]
pub struct RetryPolicy {
    /// Delay before the first retry, in seconds. Default 1.
    #[n(0)]
    pub initial_interval_seconds: i32,
    /// Factor from one delay to the next. Default 2; at least 1.
    #[n(1)]
    pub backoff_coefficient: f64,
    /// Largest delay, in seconds. Default 100.
    #[n(2)]
    pub maximum_interval_seconds: i32,
    /// Counts the first attempt; 1 disables retries. Default: unlimited.
    #[n(3)]
    pub maximum_attempts: i32,
    /// From the first hand-out, in seconds; judged when an attempt has failed. Default 4 h.
    #[n(4)]
    pub total_duration_seconds: i32,
}

/// Options of one of a Step's two methods. None, empty: the default.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub struct MethodOptions {
    /// One attempt may take this long, in milliseconds. Default 2 h.
    #[n(0)]
    pub timeout_ms: Option<u64>,
    /// See [`RetryPolicy`].
    #[n(1)]
    pub retry: Option<RetryPolicy>,
    /// None inherits from the FlowConfig.
    #[n(2)]
    pub durability: Option<Durability>,
    /// What the call gets to see beside ordinary Attributes.
    #[n(3)]
    pub loads: Vec<Load>,
}

/// Something a method call wants to see in its snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Load {
    /// One instance of an AttributeMap.
    #[n(0)]
    AttributeInstance(#[n(0)] Key),
    /// All instances of an AttributeMap.
    #[n(1)]
    AttributeMap(#[n(0)] Name),
    /// The pending messages of one Channel or ChannelMap instance.
    #[n(2)]
    Channel(#[n(0)] Key),
    /// The pending messages of all instances of a ChannelMap.
    #[n(3)]
    ChannelMap(#[n(0)] Name),
}

/// What follows when WaitFor has failed for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum WaitForFailurePolicy {
    /// The Flow fails.
    #[n(0)]
    #[default]
    FailFlow,
    /// Execute runs with the same input and sees the error.
    #[n(1)]
    Proceed,
}

/// The Step that takes over when Execute has failed for good; it gets the same input.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Recovery {
    /// Its type.
    #[n(0)]
    pub step_type: Name,
    /// Its options.
    #[n(1)]
    pub options: StepOptions,
}

/// Step options (concepts.md 1.2). They travel with the movement.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub struct StepOptions {
    /// Options of WaitFor.
    #[n(0)]
    pub wait_for: MethodOptions,
    /// Options of Execute.
    #[n(1)]
    pub execute: MethodOptions,
    /// An attempt fails if no heartbeat arrives in time, in milliseconds. Off unless set (D-21).
    #[n(2)]
    pub heartbeat_timeout_ms: Option<u64>,
    /// After WaitFor failed for good.
    #[n(3)]
    pub wait_for_failure: WaitForFailurePolicy,
    /// After Execute failed for good: None fails the Flow.
    #[n(4)]
    pub recovery: Option<alloc::boxed::Box<Recovery>>,
    /// Set by the library when the Step has no WaitFor.
    #[n(5)]
    pub skip_wait_for: bool,
}

/// One Step execution to schedule.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Movement {
    /// The Step type.
    #[n(0)]
    pub step_type: Name,
    /// Given unchanged to both methods, every retry and the recovery Step.
    #[n(1)]
    pub input: Option<Value>,
    /// All of the Step's options.
    #[n(2)]
    pub options: StepOptions,
}

/// What Execute (or a timeout handler) wants to happen next (concepts.md 1.5).
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Decision {
    /// The decision itself.
    #[n(0)]
    pub kind: DecisionKind,
    /// Cancel active executions of these types.
    #[n(1)]
    pub cancel_steps: Vec<Name>,
    /// Cancel active executions of these types that the same parent execution scheduled.
    #[n(2)]
    pub cancel_sibling_steps: Vec<Name>,
}

/// The kinds of decision (concepts.md 1.5).
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum DecisionKind {
    /// Schedule these; at least one.
    #[n(0)]
    GoTo(#[n(0)] Vec<Movement>),
    /// End this branch; the Flow completes once no Step is active.
    #[n(1)]
    GracefulComplete(#[n(0)] Option<Value>),
    /// End this branch only.
    #[n(2)]
    DeadEnd,
    /// Complete the Flow now, cancelling the rest.
    #[n(3)]
    ForceComplete(#[n(0)] Option<Value>),
    /// Fail the Flow now, with this reason.
    #[n(4)]
    ForceFail(#[n(0)] Name),
    /// Complete now if every Channel listed is empty, else schedule the fallback movements.
    #[n(5)]
    ForceCompleteIfChannelsEmpty {
        /// The output, if it completes.
        #[n(0)]
        output: Option<Value>,
        /// All must be empty.
        #[n(1)]
        channels: Vec<Key>,
        /// Scheduled if one is not.
        #[n(2)]
        fallback: Vec<Movement>,
    },
}

/// What WaitFor returned (concepts.md 1.6).
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Wait {
    /// When Execute may run.
    #[n(0)]
    pub kind: WaitKind,
    /// In declaration order.
    #[n(1)]
    pub conditions: Vec<Condition>,
}

/// When a Wait is over.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum WaitKind {
    /// At once; no conditions.
    #[n(0)]
    Skip,
    /// The one condition.
    #[n(1)]
    UntilOne,
    /// All conditions together.
    #[n(2)]
    AllOf,
    /// One condition.
    #[n(3)]
    AnyOf,
    /// All conditions of one of these groups, named by condition ID.
    #[n(4)]
    AnyCombinationOf(#[n(0)] Vec<Vec<Name>>),
}

/// One condition of a Wait.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Condition {
    /// Unique within the Wait where given; mandatory in combinations.
    #[n(0)]
    pub id: Option<Name>,
    /// What it waits for.
    #[n(1)]
    pub kind: ConditionKind,
}

/// What a condition waits for.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum ConditionKind {
    /// Time to pass, in milliseconds from the acceptance of the Wait.
    #[n(0)]
    Timer {
        /// Relative, as given.
        #[n(0)]
        duration_ms: u64,
    },
    /// Messages. Neither bound given: exactly one.
    #[n(1)]
    Channel {
        /// Which Channel.
        #[n(0)]
        channel: Key,
        /// Ready when at least so many are queued.
        #[n(1)]
        at_least: Option<u32>,
        /// Consumes at most so many.
        #[n(2)]
        at_most: Option<u32>,
    },
}

/// What Execute is told of one condition, in declaration order.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum ConditionResult {
    /// Whether the timer fired (a skipped one counts as fired).
    #[n(0)]
    Timer {
        /// False while still waiting.
        #[n(0)]
        fired: bool,
    },
    /// The values this condition consumed.
    #[n(1)]
    Channel {
        /// In FIFO order.
        #[n(0)]
        values: Vec<Value>,
    },
}

/// A pending Channel message.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Message {
    /// Assigned by the server.
    #[n(0)]
    pub id: crate::ids::MessageId,
    /// As published.
    #[n(1)]
    pub value: Value,
}

/// Everything a method stages; it becomes visible at once when the result is accepted.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub struct Effects {
    /// In order; the last write of a key wins.
    #[n(0)]
    pub attributes: Vec<AttributeWrite>,
    /// In order.
    #[n(1)]
    pub publications: Vec<Publication>,
    /// Best effort: a message that is gone is ignored.
    #[n(2)]
    pub deletions: Vec<MessageDeletion>,
    /// Set in WaitFor only.
    #[n(3)]
    pub locals: Vec<NamedValue>,
    /// Written to history.
    #[n(4)]
    pub events: Vec<NamedValue>,
}

/// Deletes one pending message.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct MessageDeletion {
    /// The Channel it waits in.
    #[n(0)]
    pub channel: Key,
    /// Its server-assigned ID.
    #[n(1)]
    pub message: crate::ids::MessageId,
}

/// Why a method call failed, as its handler or the server says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Failure {
    /// A short type, for programs. The server's own are in [`failure_type`].
    #[n(0)]
    pub error_type: Name,
    /// For people.
    #[n(1)]
    pub detail: Name,
    /// The Worker's stack, if it sent one. Not given to recovery code.
    #[n(2)]
    pub stack: Option<Name>,
}

/// Error types that the server itself gives to failed attempts.
pub mod failure_type {
    /// An attempt reached a Worker and its outcome is unknown (HA-20).
    pub const NOT_COMPLETED: &str = "NOT_COMPLETED";
    /// The method timeout ran out.
    pub const METHOD_TIMEOUT: &str = "METHOD_TIMEOUT";
    /// No heartbeat arrived in time.
    pub const HEARTBEAT_TIMEOUT: &str = "HEARTBEAT_TIMEOUT";
    /// A Worker returned something that the server must refuse.
    pub const INVALID_RESULT: &str = "INVALID_RESULT";
    /// A Worker-side library found that the definition itself is wrong.
    pub const INVALID_DEFINITION: &str = "INVALID_DEFINITION";
    /// The timeout of the whole Flow ran out.
    pub const FLOW_TIMEOUT: &str = "FLOW_TIMEOUT";
}

/// How far the last attempt got, for recovery code (concepts.md 1.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum AttemptProgress {
    /// The outcome is known: it failed.
    #[n(0)]
    #[default]
    Unspecified,
    /// No attempt of this Step ever reached a Worker.
    #[n(1)]
    NotStarted,
    /// An attempt reached a Worker, its outcome is unknown.
    #[n(2)]
    NotCompleted,
}

/// What a recovery Step, or Execute after a failed WaitFor, is told.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct RecoveryInfo {
    /// The error type.
    #[n(0)]
    pub error_type: Name,
    /// The detail.
    #[n(1)]
    pub detail: Name,
    /// How far the last attempt got.
    #[n(2)]
    pub progress: AttemptProgress,
}

/// Where a Step execution came from.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Lineage {
    /// The start of the Flow.
    #[n(0)]
    FlowStart,
    /// The decision of another Step execution.
    #[n(1)]
    Step(#[n(0)] StepExecutionId),
    /// The failure of another Step execution, whose recovery this is.
    #[n(2)]
    Recovery(#[n(0)] StepExecutionId),
    /// The timeout of the Flow.
    #[n(3)]
    FlowTimeout,
}

/// What a Flow's timeout does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum TimeoutPolicy {
    /// Fail with a flow-timeout error.
    #[n(0)]
    Fail,
    /// Close as canceled.
    #[n(1)]
    Cancel,
    /// Run the timeout handler once.
    #[n(2)]
    Handler,
}

/// Whether a Flow ID may be used again (concepts.md 1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum IdReusePolicy {
    /// Never.
    #[n(0)]
    #[default]
    Disallow,
    /// If the latest run closed failed, canceled or terminated.
    #[n(1)]
    AllowIfPreviousAbnormal,
    /// If no run is active.
    #[n(2)]
    AllowIfNotRunning,
    /// Always: an active run is terminated first.
    #[n(3)]
    TerminateIfRunning,
}

/// Which active Steps search shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum ActiveStepSearch {
    /// All active Steps.
    #[n(0)]
    #[default]
    All,
    /// Only those that ran WaitFor.
    #[n(1)]
    WaitForOnly,
    /// None.
    #[n(2)]
    None,
}

/// Settings of one run, mutable while it is active; an update merges only what it gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct FlowConfig {
    /// Default: all.
    #[n(0)]
    pub active_step_search: Option<ActiveStepSearch>,
    /// Default: SYNC (D-34).
    #[n(1)]
    pub step_durability: Option<Durability>,
}

/// What a run is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum FlowStatus {
    /// Not closed.
    #[n(0)]
    #[default]
    Running,
    /// Closed well.
    #[n(1)]
    Completed,
    /// Closed by a failure.
    #[n(2)]
    Failed,
    /// Closed by a cooperative cancel.
    #[n(3)]
    Canceled,
    /// Closed at once.
    #[n(4)]
    Terminated,
}

impl FlowStatus {
    /// The word that users see.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Terminated => "terminated",
        }
    }
}

/// Why a run failed (concepts.md 1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum ErrorCategory {
    /// A Step's decision failed the Flow.
    #[n(0)]
    StepDecision,
    /// A client failed the Flow.
    #[n(1)]
    ClientApi,
    /// A method failed with no recovery.
    #[n(2)]
    WorkerFailure,
    /// For example an unknown recovery Step.
    #[n(3)]
    InvalidDefinition,
    /// The Flow's timeout ran out.
    #[n(4)]
    FlowTimeout,
    /// A fault of the server.
    #[n(5)]
    Internal,
}

/// How and why a run that did not complete ended.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct FlowError {
    /// The kind.
    #[n(0)]
    pub category: ErrorCategory,
    /// For programs: the failing method's error type, or one of [`failure_type`].
    #[n(1)]
    pub error_type: Name,
    /// For people.
    #[n(2)]
    pub text: Name,
}

/// One output of a run.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct FlowOutput {
    /// The Step execution that gave it.
    #[n(0)]
    pub step: StepExecutionId,
    /// The value; None if it completed without one.
    #[n(1)]
    pub value: Option<Value>,
}

/// The three kinds of stop (concepts.md 1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum StopKind {
    /// Cooperative: running attempts are asked to cancel; closes canceled.
    #[n(0)]
    #[default]
    Cancel,
    /// Immediate.
    #[n(1)]
    Terminate,
    /// Cooperative; closes failed.
    #[n(2)]
    Fail,
}
