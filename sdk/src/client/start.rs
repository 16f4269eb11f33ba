//! Options of a start.

use std::time::Duration;

use dexzd_proto as proto;
use serde::Serialize;

use crate::options::{Durability, StepOptions, milliseconds};
use crate::schema::Attribute;
use crate::value::{self, ValueError};

/// What becomes of a Flow ID that was used before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdReusePolicy {
    /// A Flow ID is used once. The default.
    #[default]
    Disallow,
    /// Again, if the previous run failed, was canceled or terminated.
    AllowIfPreviousAbnormal,
    /// Again, if no run is open.
    AllowIfNotRunning,
    /// Again; an open run is terminated.
    TerminateIfRunning,
}

/// What happens when a Flow's timeout is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeoutPolicy {
    /// The Flow fails. The default for Flows without a timeout handler.
    Fail,
    /// The Flow is canceled.
    Cancel,
    /// The timeout handler runs once. The default for Flows that have one.
    Handler,
}

/// Which active Steps a search can see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActiveStepSearch {
    /// All.
    All,
    /// Those that have waited for something.
    WaitForOnly,
    /// None.
    None,
}

/// Options of a start. Everything not set is left to the server's default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StartOptions {
    pub(crate) request_id: Option<String>,
    timeout: Option<Duration>,
    timeout_policy: Option<TimeoutPolicy>,
    id_reuse_policy: Option<IdReusePolicy>,
    ignore_already_started: bool,
    start_delay: Option<Duration>,
    retention: Option<Duration>,
    step_durability: Option<Durability>,
    active_step_search: Option<ActiveStepSearch>,
    timeout_handler: Option<StepOptions>,
    attributes: Vec<Result<proto::AttributeEntry, ValueError>>,
}

impl StartOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Idempotency key of this start: repeating it with the same one never starts a second run. Default: a
    /// new UUID for each call.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// A durable timer for the whole Flow.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What happens when the timeout is reached.
    pub fn timeout_policy(mut self, policy: TimeoutPolicy) -> Self {
        self.timeout_policy = Some(policy);
        self
    }

    /// Options of the timeout handler, as of a Step: what concerns WaitFor is left out. They need a timeout and
    /// the policy HANDLER.
    pub fn timeout_handler(mut self, options: StepOptions) -> Self {
        self.timeout_handler = Some(options);
        self
    }

    /// Whether the Flow ID may be used again.
    pub fn id_reuse_policy(mut self, policy: IdReusePolicy) -> Self {
        self.id_reuse_policy = Some(policy);
        self
    }

    /// If the reuse policy says no and the existing run was started with this request ID, returns that run
    /// instead of an error.
    pub fn ignore_already_started(mut self) -> Self {
        self.ignore_already_started = true;
        self
    }

    /// Accepts the Flow now and holds its first Step back for so long.
    pub fn start_delay(mut self, delay: Duration) -> Self {
        self.start_delay = Some(delay);
        self
    }

    /// How long the Flow can be looked at after it has closed. Default 7 days.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// SYNC or ASYNC for Steps that do not say themselves.
    pub fn step_durability(mut self, durability: Durability) -> Self {
        self.step_durability = Some(durability);
        self
    }

    /// Which of the Flow's active Steps a search can see. Default: all.
    pub fn active_step_search(mut self, search: ActiveStepSearch) -> Self {
        self.active_step_search = Some(search);
        self
    }

    /// An Attribute that the first Step sees.
    pub fn attribute<T: Serialize>(mut self, attribute: &Attribute<T>, value: &T) -> Self {
        let entry = value::encode_attribute(value)
            .map(|value| proto::AttributeEntry { key: Some(attribute.key().to_proto()), value: Some(value) });
        self.attributes.push(entry);
        self
    }

    pub(crate) fn fill(self, request: &mut proto::StartFlowRequest) -> Result<(), ValueError> {
        request.timeout_ms = self.timeout.map(milliseconds);
        request.timeout_policy = self.timeout_policy.map_or(0, |policy| policy.to_proto().into());
        request.id_reuse_policy = self.id_reuse_policy.map_or(0, |policy| policy.to_proto().into());
        request.ignore_already_started = self.ignore_already_started;
        request.start_delay_ms = self.start_delay.map(milliseconds);
        request.retention_ms = self.retention.map(milliseconds);
        if self.step_durability.is_some() || self.active_step_search.is_some() {
            request.config = Some(proto::FlowConfig {
                active_step_search: self.active_step_search.map_or(0, |search| search.to_proto().into()),
                step_durability: self.step_durability.map_or(0, |durability| durability.to_proto().into()),
            });
        }
        request.timeout_handler = self.timeout_handler.map(|options| options.to_timeout_handler());
        request.attributes = self.attributes.into_iter().collect::<Result<_, _>>()?;
        Ok(())
    }
}

impl IdReusePolicy {
    fn to_proto(self) -> proto::IdReusePolicy {
        match self {
            Self::Disallow => proto::IdReusePolicy::Disallow,
            Self::AllowIfPreviousAbnormal => proto::IdReusePolicy::AllowIfPreviousAbnormal,
            Self::AllowIfNotRunning => proto::IdReusePolicy::AllowIfNotRunning,
            Self::TerminateIfRunning => proto::IdReusePolicy::TerminateIfRunning,
        }
    }
}

impl ActiveStepSearch {
    fn to_proto(self) -> proto::ActiveStepSearch {
        match self {
            Self::All => proto::ActiveStepSearch::All,
            Self::WaitForOnly => proto::ActiveStepSearch::WaitForOnly,
            Self::None => proto::ActiveStepSearch::None,
        }
    }
}

impl TimeoutPolicy {
    fn to_proto(self) -> proto::TimeoutPolicy {
        match self {
            Self::Fail => proto::TimeoutPolicy::Fail,
            Self::Cancel => proto::TimeoutPolicy::Cancel,
            Self::Handler => proto::TimeoutPolicy::Handler,
        }
    }
}
