//! What the local store keeps of a run. Fields are numbered; a new one is optional and gets a new number.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::call::{Answer, TimeoutHandlerOptions};
use super::keys::WorkId;
use super::model::{
    ConditionResult, Durability, Failure, FlowConfig, FlowError, FlowOutput, FlowStatus, Lineage, Method,
    NamedValue, RecoveryInfo, StepOptions, StopKind, TimeoutPolicy, Value, Wait,
};
use super::wait::{TimerSelector, WaitProgress};
use crate::ids::{Epoch, HandoutId, Name, RunId, StepExecutionId};
use crate::time::Timestamp;

/// The latest run of a Flow ID.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(super) struct CurrentRun {
    #[n(0)]
    pub(super) run_id: RunId,
}

/// What never changes about a run.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(super) struct RunBase {
    #[n(0)]
    pub(super) flow_id: Name,
    #[n(1)]
    pub(super) flow_type: Name,
    #[n(2)]
    pub(super) request_id: Name,
    #[n(3)]
    pub(super) start_time: Timestamp,
    #[n(4)]
    pub(super) first_run_id: RunId,
    #[n(5)]
    pub(super) previous_run: Option<RunId>,
    #[n(6)]
    pub(super) timeout: Option<FlowTimeout>,
    #[n(7)]
    pub(super) retention_ms: Option<u64>,
    #[n(8)]
    pub(super) start_at: Option<Timestamp>,
}

/// The Flow's timeout, normalised to an absolute time.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(super) struct FlowTimeout {
    #[n(0)]
    pub(super) due: Timestamp,
    #[n(1)]
    pub(super) policy: TimeoutPolicy,
    #[n(2)]
    pub(super) handler: TimeoutHandlerOptions,
}

/// What changes about a run, beside its parts.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub(super) struct RunHead {
    #[n(0)]
    pub(super) status: FlowStatus,
    #[n(1)]
    pub(super) close_time: Option<Timestamp>,
    #[n(2)]
    pub(super) config: FlowConfig,
    /// How many executions each Step type has had.
    #[n(3)]
    pub(super) step_counts: BTreeMap<Name, u32>,
    #[n(4)]
    pub(super) event_count: u64,
    #[n(5)]
    pub(super) outputs: Vec<FlowOutput>,
    #[n(6)]
    pub(super) error: Option<FlowError>,
    /// Some branch completed gracefully: the run completes once no Step is active.
    #[n(7)]
    pub(super) graceful: bool,
    #[n(8)]
    pub(super) closing: Option<Closing>,
    #[n(9)]
    pub(super) next_message: u64,
    #[n(10)]
    pub(super) timeout_pending: bool,
    /// Skips of timers of Steps that do not wait yet.
    #[n(11)]
    pub(super) skips: Vec<RememberedSkip>,
    #[n(12)]
    pub(super) message_bytes: u64,
    #[n(13)]
    pub(super) attribute_bytes: u64,
}

/// A cooperative stop under way.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(super) struct Closing {
    #[n(0)]
    pub(super) kind: StopKind,
    #[n(1)]
    pub(super) reason: Name,
    /// Closes then at the latest.
    #[n(2)]
    pub(super) until: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub(super) struct RememberedSkip {
    #[n(0)]
    pub(super) step: StepExecutionId,
    #[n(1)]
    pub(super) timer: TimerSelector,
}

/// An active Step execution.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(super) struct StepRecord {
    #[n(0)]
    pub(super) lineage: Lineage,
    #[n(1)]
    /// A small one. A large one stands beside the Step, so that it is written once: see [`Run::input`](super::run::Run::input).
    pub(super) input: Option<Value>,
    #[n(2)]
    pub(super) options: StepOptions,
    #[n(3)]
    pub(super) phase: StepPhase,
    #[n(4)]
    pub(super) since: Timestamp,
    #[n(5)]
    pub(super) call: MethodCall,
    #[n(6)]
    pub(super) locals: Vec<NamedValue>,
    #[n(7)]
    pub(super) wait: Option<Wait>,
    /// Filled when the Wait is over.
    #[n(8)]
    pub(super) conditions: Vec<ConditionResult>,
    #[n(9)]
    pub(super) recovery_info: Option<RecoveryInfo>,
    #[n(10)]
    pub(super) wait_for_failed: bool,
    /// In which order Steps of this run began to wait: that is the order in which they are served.
    #[n(11)]
    pub(super) waiting_order: u64,
}

/// The method call that a Step execution is in, with its attempts.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(super) struct MethodCall {
    #[n(0)]
    pub(super) method: Method,
    /// Fixed when the call is scheduled.
    #[n(1)]
    pub(super) durability: Durability,
    /// The attempt that is next, or runs. From 1.
    #[n(2)]
    pub(super) attempt: u32,
    /// When the retry budget began.
    #[n(3)]
    pub(super) first_handout: Option<Timestamp>,
    #[n(4)]
    pub(super) checkpoint: Option<Value>,
    #[n(5)]
    pub(super) last_failure: Option<Failure>,
    /// The epoch that took the first attempt's snapshot. The snapshot itself stands beside the Step,
    /// unless it is empty.
    #[n(6)]
    pub(super) snapshot_epoch: Option<Epoch>,
}

/// What a Step execution is doing.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(super) enum StepPhase {
    #[n(0)]
    Delayed(#[n(0)] Timestamp),
    #[n(1)]
    Queued(#[n(0)] WorkId),
    #[n(2)]
    Running {
        #[n(0)]
        work: WorkId,
        #[n(1)]
        handout: HandoutId,
        #[n(2)]
        worker: Name,
    },
    #[n(3)]
    BackingOff(#[n(0)] Timestamp),
    #[n(4)]
    Waiting(#[n(0)] WaitProgress),
}

/// A queued or running method call, for recovery.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(super) struct WorkItem {
    #[n(0)]
    pub(super) run_id: RunId,
    #[n(1)]
    pub(super) flow_type: Name,
    #[n(2)]
    pub(super) step: StepExecutionId,
}

/// The answer of a mutating call, kept for its repetition (D-35).
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(super) struct StoredAnswer {
    /// Which kind of call it was.
    #[n(0)]
    pub(super) call: u8,
    #[n(1)]
    pub(super) answer: Answer,
}

/// What a search looks at first.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub(super) struct Listing {
    #[n(0)]
    pub(super) flow_id: Name,
    #[n(1)]
    pub(super) flow_type: Name,
    #[n(2)]
    pub(super) status: FlowStatus,
    #[n(3)]
    pub(super) close_time: Option<Timestamp>,
}
