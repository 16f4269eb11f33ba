//! Options of Steps and their methods. Everything not set is left to the server's default.

use std::any::TypeId;
use std::time::Duration;

use dexzd_proto as proto;

use crate::schema::{Attribute, AttributeMap, Channel, ChannelMap, Key};
use crate::step::Step;

/// When a method's start and result are persisted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The start before the handler runs, the result before it counts. The server's default.
    Sync,
    /// Both may follow afterwards: lower latency, and a crash of the server may repeat the method, and
    /// what follows from it, up to the next SYNC method. Such methods must be safe to repeat.
    Async,
}

/// How failed attempts are repeated. Durations are whole seconds; zero means "the default".
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RetryPolicy {
    policy: proto::RetryPolicy,
}

impl RetryPolicy {
    /// All defaults: 1 s, doubling up to 100 s, without limit for 4 h.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first attempt is the only one.
    pub fn never() -> Self {
        Self::new().maximum_attempts(1)
    }

    /// Delay before the first retry. Default 1 s.
    pub fn initial_interval(mut self, interval: Duration) -> Self {
        self.policy.initial_interval_seconds = whole_seconds(interval);
        self
    }

    /// Factor from one delay to the next. Default 2.
    pub fn backoff_coefficient(mut self, coefficient: f64) -> Self {
        self.policy.backoff_coefficient = coefficient;
        self
    }

    /// The largest delay. Default 100 s.
    pub fn maximum_interval(mut self, interval: Duration) -> Self {
        self.policy.maximum_interval_seconds = whole_seconds(interval);
        self
    }

    /// Counts the first attempt; 1 disables retries. Default: unlimited.
    pub fn maximum_attempts(mut self, attempts: u32) -> Self {
        self.policy.maximum_attempts = i32::try_from(attempts).unwrap_or(i32::MAX);
        self
    }

    /// From the first hand-out to a Worker; judged when an attempt has failed. Default 4 h.
    pub fn total_duration(mut self, duration: Duration) -> Self {
        self.policy.total_duration_seconds = whole_seconds(duration);
        self
    }
}

/// Options of one of a Step's two methods.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MethodOptions {
    timeout: Option<Duration>,
    retry: Option<RetryPolicy>,
    durability: Option<Durability>,
    loads: Vec<Load>,
}

/// Something a method call gets to see beside ordinary Attributes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Load {
    AttributeInstance(Key),
    AttributeMap(&'static str),
    Channel(Key),
    ChannelMap(&'static str),
}

impl MethodOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long one attempt may take. Default 2 h.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How failed attempts are repeated.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// SYNC or ASYNC, whatever the Flow's configuration says.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Loads one instance of an AttributeMap.
    pub fn load<T>(mut self, instance: &Attribute<T>) -> Self {
        self.loads.push(Load::AttributeInstance(instance.key().clone()));
        self
    }

    /// Loads all instances of an AttributeMap.
    pub fn load_map<T>(mut self, map: &AttributeMap<T>) -> Self {
        self.loads.push(Load::AttributeMap(map.name()));
        self
    }

    /// Loads the pending messages of a Channel, or of one instance of a ChannelMap.
    pub fn load_messages<T>(mut self, channel: &Channel<T>) -> Self {
        self.loads.push(Load::Channel(channel.key().clone()));
        self
    }

    /// Loads the pending messages of all instances of a ChannelMap.
    pub fn load_all_messages<T>(mut self, map: &ChannelMap<T>) -> Self {
        self.loads.push(Load::ChannelMap(map.name()));
        self
    }

    /// These options, and those of `over` wherever it sets something.
    fn overridden_by(mut self, over: Self) -> Self {
        self.timeout = over.timeout.or(self.timeout);
        self.retry = over.retry.or(self.retry);
        self.durability = over.durability.or(self.durability);
        if !over.loads.is_empty() {
            self.loads = over.loads;
        }
        self
    }

    pub(crate) fn loads(&self) -> &[Load] {
        &self.loads
    }

    pub(crate) fn to_proto(&self) -> Option<proto::MethodOptions> {
        if *self == Self::default() {
            return None;
        }
        Some(proto::MethodOptions {
            timeout_ms: self.timeout.map(milliseconds),
            retry: self.retry.map(|retry| retry.policy),
            durability: self.durability.map_or(0, |durability| durability.to_proto().into()),
            loads: self.loads.iter().map(Load::to_proto).collect(),
        })
    }
}

/// Options of a Step. They travel with every movement to it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StepOptions {
    pub(crate) wait_for: MethodOptions,
    pub(crate) execute: MethodOptions,
    heartbeat_timeout: Option<Duration>,
    proceed_after_wait_for_failure: Option<bool>,
    pub(crate) recovery: Option<RecoveryStep>,
}

/// The Step named by [`StepOptions::recover_with`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoveryStep {
    pub(crate) step_type: &'static str,
    pub(crate) input: TypeId,
    pub(crate) waits: bool,
    pub(crate) options: fn() -> StepOptions,
}

impl PartialEq for RecoveryStep {
    fn eq(&self, other: &Self) -> bool {
        self.step_type == other.step_type
    }
}

/// Recovery Steps with recovery Steps of their own: so many deep. Deeper ones are refused when a
/// Worker is built, because a cycle has no end.
pub(crate) const RECOVERY_DEPTH: usize = 8;

impl StepOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Options of WaitFor.
    pub fn wait_for(mut self, options: MethodOptions) -> Self {
        self.wait_for = options;
        self
    }

    /// Options of Execute.
    pub fn execute(mut self, options: MethodOptions) -> Self {
        self.execute = options;
        self
    }

    /// How long one attempt of Execute may take. Default 2 h.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.execute.timeout = Some(timeout);
        self
    }

    /// How failed attempts of either method are repeated.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.wait_for.retry = Some(retry);
        self.execute.retry = Some(retry);
        self
    }

    /// SYNC or ASYNC for both methods, whatever the Flow's configuration says.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.wait_for.durability = Some(durability);
        self.execute.durability = Some(durability);
        self
    }

    /// An attempt fails if no heartbeat arrives for so long. Off unless set.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.heartbeat_timeout = Some(timeout);
        self
    }

    /// When WaitFor has failed for good, Execute runs with the same input and sees the error, instead of
    /// the Flow failing.
    pub fn proceed_after_wait_for_failure(mut self) -> Self {
        self.proceed_after_wait_for_failure = Some(true);
        self
    }

    /// When Execute has failed for good, this Step runs with the same input, instead of the Flow failing.
    /// The Step and its input type are checked when a Worker is built.
    pub fn recover_with<S: Step>(mut self) -> Self {
        self.recovery = Some(RecoveryStep {
            step_type: S::TYPE,
            input: TypeId::of::<S::Input>(),
            waits: S::WAITS,
            options: S::options,
        });
        self
    }

    /// These options, and those of `over` wherever it sets something.
    pub(crate) fn overridden_by(self, over: Self) -> Self {
        Self {
            wait_for: self.wait_for.overridden_by(over.wait_for),
            execute: self.execute.overridden_by(over.execute),
            heartbeat_timeout: over.heartbeat_timeout.or(self.heartbeat_timeout),
            proceed_after_wait_for_failure: over
                .proceed_after_wait_for_failure
                .or(self.proceed_after_wait_for_failure),
            recovery: over.recovery.or(self.recovery),
        }
    }

    /// As the wire wants it, for a Step that has a WaitFor or has none.
    pub(crate) fn to_proto(&self, waits: bool) -> proto::StepOptions {
        self.to_proto_within(waits, RECOVERY_DEPTH)
    }

    /// As the options of a timeout handler: an Execute that nothing precedes.
    pub(crate) fn to_timeout_handler(&self) -> proto::TimeoutHandlerOptions {
        let options = self.to_proto(false);
        proto::TimeoutHandlerOptions {
            method: options.execute,
            heartbeat_timeout_ms: options.heartbeat_timeout_ms,
            recovery: options.recovery.map(|recovery| *recovery),
        }
    }

    fn to_proto_within(&self, waits: bool, depth: usize) -> proto::StepOptions {
        let wait_for_failure = match self.proceed_after_wait_for_failure {
            None => proto::WaitForFailurePolicy::Unspecified,
            Some(true) => proto::WaitForFailurePolicy::Proceed,
            Some(false) => proto::WaitForFailurePolicy::FailFlow,
        };
        proto::StepOptions {
            wait_for: if waits { self.wait_for.to_proto() } else { None },
            execute: self.execute.to_proto(),
            heartbeat_timeout_ms: self.heartbeat_timeout.map(milliseconds),
            wait_for_failure: wait_for_failure.into(),
            recovery: self.recovery.filter(|_| depth > 0).map(|recovery| {
                let options = (recovery.options)().to_proto_within(recovery.waits, depth - 1);
                Box::new(proto::Recovery {
                    step_type: recovery.step_type.to_owned(),
                    options: Some(Box::new(options)),
                })
            }),
            skip_wait_for: !waits,
        }
    }
}

impl Durability {
    pub(crate) fn to_proto(self) -> proto::Durability {
        match self {
            Self::Sync => proto::Durability::Sync,
            Self::Async => proto::Durability::Async,
        }
    }
}

impl Load {
    fn to_proto(&self) -> proto::Load {
        use proto::load::Kind;
        let kind = match self {
            Self::AttributeInstance(key) => Kind::AttributeInstance(key.to_proto()),
            Self::AttributeMap(name) => Kind::AttributeMap((*name).to_owned()),
            Self::Channel(key) => Kind::Channel(key.to_proto()),
            Self::ChannelMap(name) => Kind::ChannelMap((*name).to_owned()),
        };
        proto::Load { kind: Some(kind) }
    }
}

/// The longest duration the server takes: 100 years, in milliseconds.
const LONGEST_DURATION_MS: i64 = 100 * 366 * 24 * 3_600 * 1_000;

/// Milliseconds of a duration, as the wire carries them. What is longer than 100 years becomes 100 years:
/// nobody will notice, and the server takes no more.
pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(LONGEST_DURATION_MS)
}

/// Rounded up, because zero means "the default".
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}
