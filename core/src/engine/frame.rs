//! What passes between the engine and one Worker stream (concepts.md 2).

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::model::{
    AttributeValue, ConditionResult, Decision, Durability, Effects, Failure, Key, Lineage, Message, Method,
    NamedValue, RecoveryInfo, Value, Wait,
};
use crate::ids::{HandoutId, Name, RunId, StepExecutionId};
use crate::time::Timestamp;

/// The first frame of a stream: what the Worker has.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Hello {
    /// Process identity and 8 random characters.
    #[n(0)]
    pub worker: Name,
    /// How many tasks this stream may carry at once; at least 1.
    #[n(1)]
    pub slots: u32,
    /// The Flow types it has.
    #[n(2)]
    pub flow_types: Vec<FlowTypeDefinition>,
}

/// One Flow type of a Worker.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct FlowTypeDefinition {
    /// Its name.
    #[n(0)]
    pub name: Name,
    /// Its Step types.
    #[n(1)]
    pub step_types: Vec<Name>,
    /// Whether it has a timeout handler.
    #[n(2)]
    pub timeout_handler: bool,
}

/// From Worker to server.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum WorkerFrame {
    /// Once, first.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// The handler is alive. A heartbeat without a checkpoint clears the stored one.
    #[n(1)]
    Heartbeat {
        /// Which task.
        #[n(0)]
        handout: HandoutId,
        /// Given to the next attempt.
        #[n(1)]
        checkpoint: Option<Value>,
    },
    /// WaitFor returned.
    #[n(2)]
    WaitForDone {
        /// Which task.
        #[n(0)]
        handout: HandoutId,
        /// When Execute may run.
        #[n(1)]
        wait: Wait,
        /// What else it staged.
        #[n(2)]
        effects: Effects,
    },
    /// Execute returned.
    #[n(3)]
    ExecuteDone {
        /// Which task.
        #[n(0)]
        handout: HandoutId,
        /// What happens next.
        #[n(1)]
        decision: Decision,
        /// What else it staged.
        #[n(2)]
        effects: Effects,
    },
    /// The handler failed.
    #[n(4)]
    Failed {
        /// Which task.
        #[n(0)]
        handout: HandoutId,
        /// Why.
        #[n(1)]
        failure: Failure,
        /// True: no further attempt.
        #[n(2)]
        non_retryable: bool,
        /// Replaces the computed delay once, in milliseconds.
        #[n(3)]
        retry_after_ms: Option<u64>,
    },
    /// The Worker has no such Step type: offer the call to another one.
    #[n(5)]
    Decline {
        /// Which task.
        #[n(0)]
        handout: HandoutId,
    },
    /// The Worker stops and never ran this task.
    #[n(6)]
    Return {
        /// Which task.
        #[n(0)]
        handout: HandoutId,
    },
    /// The Worker takes no new task on this stream.
    #[n(7)]
    StopTaking,
    /// Answers a ping.
    #[n(8)]
    Pong,
}

/// From server to Worker.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum ServerFrame {
    /// Run this.
    #[n(0)]
    Task(#[n(0)] alloc::boxed::Box<Task>),
    /// Stop running this; its result is no longer wanted, or wanted within 5 s during a drain (D-21).
    #[n(1)]
    Cancel {
        /// Which task.
        #[n(0)]
        handout: HandoutId,
        /// Why.
        #[n(1)]
        reason: CancelReason,
    },
    /// The task is settled: its result committed, or was dropped. Frees a slot.
    #[n(2)]
    Settled {
        /// Which task.
        #[n(0)]
        handout: HandoutId,
        /// False: the result was late and dropped whole (FD-11).
        #[n(1)]
        accepted: bool,
    },
    /// Prove that you live.
    #[n(3)]
    Ping,
    /// The stream broke the protocol and ends after this. Its tasks fail under their retry policy.
    #[n(4)]
    Refused {
        /// What is wrong, naming the field.
        #[n(0)]
        message: Name,
    },
}

/// Why a task is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum CancelReason {
    /// The Flow closed, or is closing.
    #[n(0)]
    FlowClosed,
    /// A decision cancelled the Step.
    #[n(1)]
    StepCancelled,
    /// The attempt timed out.
    #[n(2)]
    TimedOut,
    /// The server's drain is over (HA-96).
    #[n(3)]
    DrainOver,
}

/// One hand-out of one method call.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Task {
    /// Repeated by every frame about this task (D-44).
    #[n(0)]
    pub handout: HandoutId,
    /// The Flow type.
    #[n(1)]
    pub flow_type: Name,
    /// The Flow ID.
    #[n(2)]
    pub flow_id: Name,
    /// The run.
    #[n(3)]
    pub run_id: RunId,
    /// The Step execution. A timeout handler has the type [`limits::TIMEOUT_HANDLER_STEP`](super::limits::TIMEOUT_HANDLER_STEP).
    #[n(4)]
    pub step: StepExecutionId,
    /// Which method.
    #[n(5)]
    pub method: Method,
    /// From 1.
    #[n(6)]
    pub attempt: u32,
    /// The attempt fails then.
    #[n(7)]
    pub deadline: Timestamp,
    /// Heartbeats must be closer together than this, in milliseconds.
    #[n(8)]
    pub heartbeat_timeout_ms: Option<u64>,
    /// The Step's input.
    #[n(9)]
    pub input: Option<Value>,
    /// What the call sees.
    #[n(10)]
    pub snapshot: Snapshot,
    /// What WaitFor recorded for Execute.
    #[n(11)]
    pub locals: Vec<NamedValue>,
    /// Execute only.
    #[n(12)]
    pub conditions: Vec<ConditionResult>,
    /// Set if WaitFor failed, or for a recovery Step.
    #[n(13)]
    pub recovery: Option<RecoveryInfo>,
    /// The latest stored one.
    #[n(14)]
    pub checkpoint: Option<Value>,
    /// SYNC or ASYNC.
    #[n(15)]
    pub durability: Durability,
    /// Where the Step execution came from.
    #[n(16)]
    pub lineage: Lineage,
    /// True if WaitFor failed for good and the policy was to proceed.
    #[n(17)]
    pub wait_for_failed: bool,
    /// When the run started.
    #[n(18)]
    pub flow_start_time: Timestamp,
}

/// What a method call sees of its Flow; kept for all retries of the call (concepts.md 1.2).
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub struct Snapshot {
    /// Ordinary Attributes, and the map instances that were asked for.
    #[n(0)]
    pub attributes: Vec<AttributeEntry>,
    /// The size of every non-empty Channel.
    #[n(1)]
    pub channel_sizes: Vec<ChannelSize>,
    /// The pending messages that were asked for.
    #[n(2)]
    pub messages: Vec<ChannelMessages>,
}

/// One Attribute and its value.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct AttributeEntry {
    /// Which.
    #[n(0)]
    pub key: Key,
    /// Its value.
    #[n(1)]
    pub value: AttributeValue,
}

/// How many messages a Channel holds.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct ChannelSize {
    /// Which.
    #[n(0)]
    pub channel: Key,
    /// Pending messages.
    #[n(1)]
    pub size: u32,
}

/// The pending messages of one Channel.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct ChannelMessages {
    /// Which.
    #[n(0)]
    pub channel: Key,
    /// In FIFO order.
    #[n(1)]
    pub messages: Vec<Message>,
}
