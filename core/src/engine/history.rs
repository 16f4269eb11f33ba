//! Semantic events: what happened to a run, in order (concepts.md 1.16).

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::model::{
    AttributeWrite, Decision, Durability, Failure, FlowError, FlowOutput, FlowStatus, Lineage,
    MessageDeletion, Method, NamedValue, Publication, StopKind, Value, Wait,
};
use crate::ids::{MessageId, Name, RunId, StepExecutionId};
use crate::time::Timestamp;

/// One event. Numbers count from 1 within a run, without gaps.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct HistoryEvent {
    /// From 1.
    #[n(0)]
    pub number: u64,
    /// Engine time when it happened.
    #[n(1)]
    pub time: Timestamp,
    /// What happened.
    #[n(2)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum EventKind {
    /// The run was created.
    #[n(0)]
    FlowStarted {
        /// The Flow type.
        #[n(0)]
        flow_type: Name,
        /// The request.
        #[n(1)]
        request_id: Name,
        /// The start Step's input.
        #[n(2)]
        input: Option<Value>,
        /// The start Step.
        #[n(3)]
        start_step: Option<Name>,
        /// The run before it.
        #[n(4)]
        previous_run: Option<RunId>,
    },
    /// The run closed.
    #[n(1)]
    FlowClosed {
        /// How.
        #[n(0)]
        status: FlowStatus,
        /// Its outputs.
        #[n(1)]
        outputs: Vec<FlowOutput>,
        /// Why, if it did not complete.
        #[n(2)]
        error: Option<FlowError>,
    },
    /// WaitFor returned and its Wait is stored.
    #[n(2)]
    WaitForCompleted {
        /// Of what call.
        #[n(0)]
        context: StepContext,
        /// The Wait.
        #[n(1)]
        wait: Wait,
        /// Attribute writes.
        #[n(2)]
        attributes: Vec<AttributeWrite>,
        /// Publications.
        #[n(3)]
        publications: Vec<Publication>,
        /// Recorded events.
        #[n(4)]
        recorded: Vec<NamedValue>,
    },
    /// Execute returned and its decision is applied.
    #[n(3)]
    ExecuteCompleted {
        /// Of what call.
        #[n(0)]
        context: StepContext,
        /// The decision.
        #[n(1)]
        decision: Decision,
        /// Attribute writes.
        #[n(2)]
        attributes: Vec<AttributeWrite>,
        /// Publications.
        #[n(3)]
        publications: Vec<Publication>,
        /// Recorded events.
        #[n(4)]
        recorded: Vec<NamedValue>,
    },
    /// A method call failed for good.
    #[n(4)]
    MethodFailed {
        /// Of what call.
        #[n(0)]
        context: StepContext,
        /// The last failure.
        #[n(1)]
        failure: Failure,
        /// What follows.
        #[n(2)]
        then: AfterFailure,
    },
    /// A client published.
    #[n(5)]
    Published {
        /// The request.
        #[n(0)]
        request_id: Name,
        /// What.
        #[n(1)]
        publications: Vec<Publication>,
        /// The IDs given, in the same order.
        #[n(2)]
        messages: Vec<MessageId>,
    },
    /// A client wrote Attributes.
    #[n(6)]
    AttributesWritten {
        /// The request.
        #[n(0)]
        request_id: Name,
        /// What.
        #[n(1)]
        writes: Vec<AttributeWrite>,
    },
    /// A client deleted messages.
    #[n(7)]
    MessagesDeleted {
        /// The request.
        #[n(0)]
        request_id: Name,
        /// Which.
        #[n(1)]
        deletions: Vec<MessageDeletion>,
    },
    /// A client skipped a timer.
    #[n(8)]
    TimerSkipped {
        /// The request.
        #[n(0)]
        request_id: Name,
        /// None: the Flow's timeout.
        #[n(1)]
        step: Option<StepExecutionId>,
        /// The condition's ID or index, as text.
        #[n(2)]
        timer: Name,
    },
    /// A client asked for a stop.
    #[n(9)]
    StopRequested {
        /// The request.
        #[n(0)]
        request_id: Name,
        /// How.
        #[n(1)]
        kind: StopKind,
        /// Why.
        #[n(2)]
        reason: Name,
    },
    /// A Step execution was cancelled by a decision.
    #[n(10)]
    StepCancelled {
        /// Which.
        #[n(0)]
        step: StepExecutionId,
        /// By which.
        #[n(1)]
        by: StepExecutionId,
    },
    /// The Flow's timeout fired.
    #[n(11)]
    FlowTimedOut {
        /// True if a client skipped it.
        #[n(0)]
        skipped: bool,
    },
}

/// Which method call an event speaks of.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct StepContext {
    /// The Step execution.
    #[n(0)]
    pub step: StepExecutionId,
    /// The method.
    #[n(1)]
    pub method: Method,
    /// Where the Step execution came from.
    #[n(2)]
    pub lineage: Lineage,
    /// SYNC or ASYNC.
    #[n(3)]
    pub durability: Durability,
    /// The final attempt.
    #[n(4)]
    pub attempt: u32,
    /// First hand-out.
    #[n(5)]
    pub started: Option<Timestamp>,
    /// The Step's input.
    #[n(6)]
    pub input: Option<Value>,
    /// The last failed attempt before this one.
    #[n(7)]
    pub last_failure: Option<Failure>,
    /// The Worker of the final attempt.
    #[n(8)]
    pub worker: Option<Name>,
}

/// What follows a failure for good.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum AfterFailure {
    /// The Flow fails.
    #[n(0)]
    FlowFails,
    /// Execute runs all the same.
    #[n(1)]
    Execute,
    /// This recovery Step runs.
    #[n(2)]
    Recovery(#[n(0)] StepExecutionId),
}
