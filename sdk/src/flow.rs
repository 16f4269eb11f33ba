//! Flow definitions: which Steps, Attributes and Channels a Flow type has.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use dexzd_proto as proto;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::options::{RECOVERY_DEPTH, StepOptions};
use crate::schema::{Attribute, AttributeMap, Channel, ChannelMap, Declared, Schema};
use crate::step::{Handler, Step, StepHandler, TimeoutHandler, TimeoutStepHandler};

/// The Step type under which the server runs a timeout handler.
pub(crate) const TIMEOUT_HANDLER_STEP: &str = "$timeoutHandler";

/// A Flow type: its name, its start Step, and everything its Steps use. It lives in Workers; the server
/// knows names only.
///
/// ```
/// use dexzd_sdk::prelude::*;
///
/// const STATUS: Attribute<String> = Attribute::new("status");
///
/// struct Greet;
///
/// impl Step for Greet {
///     const TYPE: &'static str = "Greet";
///     type Input = String;
///
///     async fn execute(&self, ctx: &Context, name: String) -> StepResult {
///         ctx.set(&STATUS, "greeted")?;
///         Ok(Decision::complete(&format!("Hello, {name}!")))
///     }
/// }
///
/// struct Greeting;
///
/// impl Flow for Greeting {
///     const TYPE: &'static str = "Greeting";
///     type Start = Greet;
///     type Output = String;
///
///     fn define(&self) -> Definition<Self> {
///         Definition::starting_with(Greet).attribute(&STATUS)
///     }
/// }
/// ```
pub trait Flow: Send + Sync + Sized + 'static {
    /// The Flow type: its name on the server.
    const TYPE: &'static str;
    /// The start Step; its input is the Flow's input. [`NoStart`](crate::NoStart) if there is none.
    type Start: Step;
    /// What a completed Flow returns, for [`Client::result`](crate::Client::result).
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// Whether the definition has a timeout handler. Clients tell the server so when they start a Flow.
    const HAS_TIMEOUT_HANDLER: bool = false;

    /// Lists the Steps and the schema.
    fn define(&self) -> Definition<Self>;
}

/// The input type of a Flow.
pub type Input<F> = <<F as Flow>::Start as Step>::Input;

/// What [`Flow::define`] returns.
pub struct Definition<F: Flow> {
    flow: FlowDefinition,
    flow_type: std::marker::PhantomData<fn() -> F>,
}

impl<F: Flow> Definition<F> {
    /// A definition with its start Step.
    pub fn starting_with(step: F::Start) -> Self {
        Self::empty().step(step)
    }

    /// A definition without a start Step.
    pub fn idle() -> Self {
        Self::empty()
    }

    /// Adds a Step.
    pub fn step<S: Step>(mut self, step: S) -> Self {
        let is_new = self.flow.steps.insert(S::TYPE, StepEntry::new(step)).is_none();
        if !is_new {
            self.flow.problem(Problem::Twice { what: "Step", name: S::TYPE });
        }
        if S::TYPE.is_empty() || S::TYPE.starts_with('$') {
            self.flow.problem(Problem::BadStepName { name: S::TYPE });
        }
        self
    }

    /// Declares an Attribute.
    pub fn attribute<T>(self, attribute: &Attribute<T>) -> Self {
        self.declare(attribute.key().name, Declared::Attribute)
    }

    /// Declares an AttributeMap.
    pub fn attribute_map<T>(self, map: &AttributeMap<T>) -> Self {
        self.declare(map.name(), Declared::AttributeMap)
    }

    /// Declares a Channel.
    pub fn channel<T>(self, channel: &Channel<T>) -> Self {
        self.declare(channel.key().name, Declared::Channel)
    }

    /// Declares a ChannelMap.
    pub fn channel_map<T>(self, map: &ChannelMap<T>) -> Self {
        self.declare(map.name(), Declared::ChannelMap)
    }

    /// Sets the timeout handler. [`Flow::HAS_TIMEOUT_HANDLER`] has to say so, too.
    pub fn timeout_handler<H: TimeoutHandler>(mut self, handler: H) -> Self {
        let handler: Arc<dyn Handler> = Arc::new(TimeoutStepHandler(handler));
        self.flow.timeout_handler =
            Some(StepEntry { handler, input: TypeId::of::<()>(), options: StepOptions::new() });
        self
    }

    fn empty() -> Self {
        Self {
            flow: FlowDefinition {
                flow_type: F::TYPE,
                schema: Schema::default(),
                steps: HashMap::new(),
                timeout_handler: None,
                problems: Vec::new(),
            },
            flow_type: std::marker::PhantomData,
        }
    }

    fn declare(mut self, name: &'static str, declared: Declared) -> Self {
        if !self.flow.schema.declare(name, declared) {
            let what = match declared {
                Declared::Attribute | Declared::AttributeMap => "Attribute",
                Declared::Channel | Declared::ChannelMap => "Channel",
            };
            self.flow.problem(Problem::Twice { what, name });
        }
        self
    }

    /// Checks what can be checked before anything runs.
    pub(crate) fn finish(mut self) -> Result<FlowDefinition, DefinitionError> {
        let start = F::Start::TYPE;
        if !start.is_empty() && !self.flow.steps.contains_key(start) {
            self.flow.problem(Problem::NoStartStep { name: start });
        }
        if F::HAS_TIMEOUT_HANDLER != self.flow.timeout_handler.is_some() {
            self.flow.problem(Problem::TimeoutHandler { declared: F::HAS_TIMEOUT_HANDLER });
        }
        self.flow.check_recoveries();
        match self.flow.problems.first() {
            None => Ok(self.flow),
            Some(problem) => Err(DefinitionError { flow_type: F::TYPE, problem: problem.clone() }),
        }
    }
}

/// A Flow type as the Worker uses it.
pub(crate) struct FlowDefinition {
    pub(crate) flow_type: &'static str,
    pub(crate) schema: Schema,
    pub(crate) steps: HashMap<&'static str, StepEntry>,
    pub(crate) timeout_handler: Option<StepEntry>,
    problems: Vec<Problem>,
}

pub(crate) struct StepEntry {
    pub(crate) handler: Arc<dyn Handler>,
    input: TypeId,
    pub(crate) options: StepOptions,
}

impl StepEntry {
    fn new<S: Step>(step: S) -> Self {
        Self { handler: Arc::new(StepHandler(step)), input: TypeId::of::<S::Input>(), options: S::options() }
    }
}

impl FlowDefinition {
    pub(crate) fn step(&self, step_type: &str) -> Option<&StepEntry> {
        if step_type == TIMEOUT_HANDLER_STEP {
            return self.timeout_handler.as_ref();
        }
        self.steps.get(step_type)
    }

    pub(crate) fn to_proto(&self) -> proto::FlowTypeDefinition {
        let mut step_types: Vec<String> = self.steps.keys().map(|name| (*name).to_owned()).collect();
        step_types.sort_unstable();
        proto::FlowTypeDefinition {
            name: self.flow_type.to_owned(),
            step_types,
            timeout_handler: self.timeout_handler.is_some(),
        }
    }

    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn check_recoveries(&mut self) {
        let mut problems = Vec::new();
        for (step_type, entry) in &self.steps {
            let Some(recovery) = entry.options.recovery else {
                continue;
            };
            match self.steps.get(recovery.step_type) {
                None => {
                    problems.push(Problem::NoRecoveryStep { step: step_type, recovery: recovery.step_type })
                }
                Some(target) if target.input != recovery.input || target.input != entry.input => {
                    problems.push(Problem::RecoveryInput { step: step_type, recovery: recovery.step_type });
                }
                Some(_) => {}
            }
            let mut next = Some(recovery);
            for _ in 0..RECOVERY_DEPTH {
                next = next.and_then(|recovery| (recovery.options)().recovery);
            }
            if next.is_some() {
                problems.push(Problem::RecoveryCycle { step: step_type });
            }
        }
        self.problems.extend(problems);
    }
}

impl fmt::Debug for FlowDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowDefinition").field("flow_type", &self.flow_type).finish_non_exhaustive()
    }
}

/// A Flow's definition contradicts itself: found when a Worker is built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the definition of the Flow type {flow_type:?} cannot work: {problem}")]
pub struct DefinitionError {
    /// The Flow type.
    pub flow_type: &'static str,
    problem: Problem,
}

impl DefinitionError {
    pub(crate) fn flow_twice(flow_type: &'static str) -> Self {
        Self { flow_type, problem: Problem::Twice { what: "Flow type", name: flow_type } }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("the {what} {name:?} is declared twice")]
    Twice { what: &'static str, name: &'static str },
    #[error("the Step type {name:?} is empty or begins with '$', which belongs to the server")]
    BadStepName { name: &'static str },
    #[error("its start Step {name:?} is not among its Steps: use Definition::starting_with")]
    NoStartStep { name: &'static str },
    #[error(
        "HAS_TIMEOUT_HANDLER is {declared}, and the definition says otherwise: set the constant and call \
         timeout_handler, or neither"
    )]
    TimeoutHandler { declared: bool },
    #[error("the Step {step:?} recovers with {recovery:?}, which is not among the Steps")]
    NoRecoveryStep { step: &'static str, recovery: &'static str },
    #[error("the Step {step:?} recovers with {recovery:?}, whose input has another type")]
    RecoveryInput { step: &'static str, recovery: &'static str },
    #[error("the recovery Steps of {step:?} lead to more than 8 others, or in a circle")]
    RecoveryCycle { step: &'static str },
}
