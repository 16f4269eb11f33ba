//! A few Flow shapes that between them use every part of the engine: what a client starts, and what a
//! Worker's handlers return. Handlers are functions of their task alone.
//!
//! Each result writes an Attribute that names its hand-out, so that a check can see whose result won.

use dexzd_core::engine::{
    AttributeValue, AttributeWrite, Condition, ConditionKind, ConditionResult, Decision, DecisionKind,
    Durability, Effects, Failure, FlowTypeDefinition, Key, Method, MethodOptions, Movement, Publication,
    Recovery, RetryPolicy, StartFlow, StepOptions, Task, Value, Wait, WaitKind,
};
use dexzd_core::ids::{HandoutId, Name, StepExecutionId};

use crate::{SECOND, TrueTime};

/// The shapes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shape {
    /// Three SYNC Steps, one after the other.
    ChainSync,
    /// Three ASYNC Steps, one after the other.
    ChainAsync,
    /// ASYNC, ASYNC, SYNC (FD-20).
    ChainMixed,
    /// Eight leaves publish to a Channel that one Step waits for.
    Fan,
    /// A Timer of 20 s against a message.
    Order,
    /// A Timer of 3 s, four times.
    Reminder,
    /// Three Steps take one message each from one Channel.
    Takers,
    /// Fails twice, then succeeds; up to four attempts, then a recovery Step.
    Flaky,
    /// One attempt only, then a recovery Step.
    Single,
    /// Runs for 12 s with heartbeats and checkpoints.
    Long,
}

/// All shapes, in a fixed order.
pub const SHAPES: [Shape; 10] = [
    Shape::ChainSync,
    Shape::ChainAsync,
    Shape::ChainMixed,
    Shape::Fan,
    Shape::Order,
    Shape::Reminder,
    Shape::Takers,
    Shape::Flaky,
    Shape::Single,
    Shape::Long,
];

/// An attempt that hangs fails after this, so that a run comes to an end.
const METHOD_TIMEOUT_MS: u64 = 60_000;
/// So does a Flow that was unlucky many times.
const LONGEST_BACKOFF_SECONDS: i32 = 10;
/// Leaves of a fan.
pub const FAN_WIDTH: u32 = 8;
/// Steps that take messages.
pub const TAKERS: u32 = 3;
/// Rounds of a reminder.
pub const REMINDERS: u32 = 4;
/// The Attribute that says whose results counted: see [`mark_of`].
pub const MARK: &str = "by";
/// The Attribute that clients write: the request ID of the last write that counted.
pub const NOTE: &str = "note";
/// Channels that Steps publish to, and no client.
pub const STEP_CHANNELS: [&str; 1] = ["done"];

impl Shape {
    /// Its Flow type.
    #[must_use]
    pub const fn flow_type(self) -> &'static str {
        match self {
            Self::ChainSync => "chain-sync",
            Self::ChainAsync => "chain-async",
            Self::ChainMixed => "chain-mixed",
            Self::Fan => "fan",
            Self::Order => "order",
            Self::Reminder => "reminder",
            Self::Takers => "takers",
            Self::Flaky => "flaky",
            Self::Single => "single",
            Self::Long => "long",
        }
    }

    /// Its Step types.
    #[must_use]
    pub const fn step_types(self) -> &'static [&'static str] {
        match self {
            Self::ChainSync | Self::ChainAsync | Self::ChainMixed => &["first", "second", "third"],
            Self::Fan => &["split", "leaf", "gather"],
            Self::Order => &["order"],
            Self::Reminder => &["remind"],
            Self::Takers => &["open", "taker"],
            Self::Flaky => &["flaky", "repair"],
            Self::Single => &["single", "repair"],
            Self::Long => &["long"],
        }
    }

    /// The shape of a Flow type.
    #[must_use]
    pub fn of(flow_type: &str) -> Option<Self> {
        SHAPES.into_iter().find(|shape| shape.flow_type() == flow_type)
    }

    /// How many messages a client publishes to [`channel`](Self::channel).
    #[must_use]
    pub const fn messages(self) -> u32 {
        match self {
            Self::Order => 1,
            Self::Takers => TAKERS,
            Self::ChainSync
            | Self::ChainAsync
            | Self::ChainMixed
            | Self::Fan
            | Self::Reminder
            | Self::Flaky
            | Self::Single
            | Self::Long => 0,
        }
    }

    /// The Channel that a client publishes to.
    #[must_use]
    pub fn channel(self) -> Key {
        channel(match self {
            Self::Takers => "items",
            Self::Order
            | Self::ChainSync
            | Self::ChainAsync
            | Self::ChainMixed
            | Self::Fan
            | Self::Reminder
            | Self::Flaky
            | Self::Single
            | Self::Long => "paid",
        })
    }

    /// A start request.
    #[must_use]
    pub fn start(self, flow_id: &str, request_id: &str) -> StartFlow {
        let start = match self {
            Self::ChainSync | Self::ChainAsync | Self::ChainMixed => self.chain_step("first"),
            Self::Fan => plain("split"),
            Self::Order => waiting("order"),
            Self::Reminder => Movement { input: Some(number(0)), ..waiting("remind") },
            Self::Takers => plain("open"),
            Self::Flaky => with_recovery("flaky", 4),
            Self::Single => with_recovery("single", 1),
            Self::Long => {
                let mut movement = plain("long");
                movement.options.heartbeat_timeout_ms = Some(5_000);
                movement
            }
        };
        StartFlow {
            request_id: Name::new(request_id),
            flow_id: Name::new(flow_id),
            flow_type: Name::new(self.flow_type()),
            start: Some(start),
            ..StartFlow::default()
        }
    }

    fn chain_step(self, step_type: &str) -> Movement {
        let durability = match (self, step_type) {
            (Self::ChainAsync, _) | (Self::ChainMixed, "first" | "second") => Durability::Async,
            _ => Durability::Sync,
        };
        let mut movement = plain(step_type);
        movement.options.execute.durability = Some(durability);
        movement
    }
}

/// What every Worker has.
#[must_use]
pub fn definitions() -> Vec<FlowTypeDefinition> {
    SHAPES
        .into_iter()
        .map(|shape| FlowTypeDefinition {
            name: Name::new(shape.flow_type()),
            step_types: shape.step_types().iter().copied().map(Name::new).collect(),
            timeout_handler: false,
        })
        .collect()
}

/// What a handler returns when nothing disturbs it.
#[derive(Clone, PartialEq, Debug)]
pub enum Returned {
    /// From WaitFor.
    Wait(Wait),
    /// From Execute.
    Decision(Decision, Vec<Publication>),
    /// Either.
    Failed(Failure),
}

/// Runs the handler of a task.
#[must_use]
pub fn run(task: &Task) -> Returned {
    let shape = Shape::of(&task.flow_type).expect("Workers say which Flow types they have");
    match task.method {
        Method::WaitFor => Returned::Wait(wait_of(shape, task)),
        Method::Execute => execute(shape, task),
    }
}

/// How long an undisturbed handler takes, at least and at most, and how often it heartbeats.
#[must_use]
pub const fn pace(shape: Shape) -> (TrueTime, TrueTime, Option<TrueTime>) {
    match shape {
        Shape::Long => (10 * SECOND, 12 * SECOND, Some(2 * SECOND)),
        Shape::ChainSync
        | Shape::ChainAsync
        | Shape::ChainMixed
        | Shape::Fan
        | Shape::Order
        | Shape::Reminder
        | Shape::Takers
        | Shape::Flaky
        | Shape::Single => (1_000, 300_000, None),
    }
}

/// What every result stages beside its decision: the name of its hand-out.
#[must_use]
pub fn effects(task: &Task, publications: Vec<Publication>) -> Effects {
    Effects {
        attributes: vec![AttributeWrite {
            key: mark_of(&task.step, task.method),
            value: Some(AttributeValue::String(Name::new(&handout_text(task.handout)))),
        }],
        publications,
        ..Effects::default()
    }
}

/// The Attribute that the result of this method call writes.
#[must_use]
pub fn mark_of(step: &StepExecutionId, method: Method) -> Key {
    let method = match method {
        Method::WaitFor => "wait",
        Method::Execute => "execute",
    };
    Key { name: Name::new(MARK), instance: Some(Name::new(&format!("{step}.{method}"))) }
}

/// A hand-out as the value of a mark.
#[must_use]
pub fn handout_text(handout: HandoutId) -> String {
    format!("{}.{}", handout.epoch, handout.counter)
}

/// A number as a value.
#[must_use]
pub fn number(number: u32) -> Value {
    Value { encoding: Name::new("json"), data: number.to_string().into_bytes().into() }
}

/// The number in a value; 0 if it is none.
#[must_use]
pub fn number_in(value: Option<&Value>) -> u32 {
    value
        .and_then(|value| std::str::from_utf8(&value.data).ok())
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn wait_of(shape: Shape, _task: &Task) -> Wait {
    let timer = |seconds: u64| Condition {
        id: Some(Name::new("late")),
        kind: ConditionKind::Timer { duration_ms: seconds * 1_000 },
    };
    let messages = |name: &str, count: Option<u32>| Condition {
        id: Some(Name::new("messages")),
        kind: ConditionKind::Channel { channel: channel(name), at_least: count, at_most: count },
    };
    match shape {
        Shape::Order => Wait { kind: WaitKind::AnyOf, conditions: vec![timer(20), messages("paid", None)] },
        Shape::Reminder => Wait { kind: WaitKind::UntilOne, conditions: vec![timer(3)] },
        Shape::Fan => Wait { kind: WaitKind::AllOf, conditions: vec![messages("done", Some(FAN_WIDTH))] },
        Shape::Takers => Wait { kind: WaitKind::UntilOne, conditions: vec![messages("items", None)] },
        Shape::ChainSync
        | Shape::ChainAsync
        | Shape::ChainMixed
        | Shape::Flaky
        | Shape::Single
        | Shape::Long => Wait { kind: WaitKind::Skip, conditions: Vec::new() },
    }
}

fn execute(shape: Shape, task: &Task) -> Returned {
    let step = &*task.step.step_type;
    let mut publications = Vec::new();
    let kind = match (shape, step) {
        (Shape::ChainSync | Shape::ChainAsync | Shape::ChainMixed, "first") => {
            DecisionKind::GoTo(vec![shape.chain_step("second")])
        }
        (Shape::ChainSync | Shape::ChainAsync | Shape::ChainMixed, "second") => {
            DecisionKind::GoTo(vec![shape.chain_step("third")])
        }
        (Shape::Fan, "split") => {
            let mut movements = vec![waiting("gather")];
            movements
                .extend((1..=FAN_WIDTH).map(|leaf| Movement { input: Some(number(leaf)), ..plain("leaf") }));
            DecisionKind::GoTo(movements)
        }
        (Shape::Fan, "leaf") => {
            publications.push(Publication {
                channel: channel("done"),
                value: number(number_in(task.input.as_ref())),
            });
            DecisionKind::DeadEnd
        }
        (Shape::Takers, "open") => DecisionKind::GoTo((0..TAKERS).map(|_| waiting("taker")).collect()),
        (Shape::Reminder, _) if number_in(task.input.as_ref()) + 1 < REMINDERS => {
            DecisionKind::GoTo(vec![Movement {
                input: Some(number(number_in(task.input.as_ref()) + 1)),
                ..waiting("remind")
            }])
        }
        (Shape::Flaky, "flaky") if task.attempt < 3 => {
            return Returned::Failed(Failure {
                error_type: Name::new("Flaky"),
                detail: Name::new("twice in a row"),
                stack: None,
            });
        }
        (Shape::Order, _) => {
            DecisionKind::GracefulComplete(Some(number(u32::from(task.conditions.iter().any(
                |condition| matches!(condition, ConditionResult::Channel { values } if !values.is_empty()),
            )))))
        }
        (Shape::Fan | Shape::Takers, _) => {
            let sum = consumed(task).iter().map(|value| number_in(Some(value))).sum();
            DecisionKind::GracefulComplete(Some(number(sum)))
        }
        _ => DecisionKind::GracefulComplete(Some(number(task.attempt))),
    };
    let decision = Decision { kind, cancel_steps: Vec::new(), cancel_sibling_steps: Vec::new() };
    Returned::Decision(decision, publications)
}

/// The values that the conditions of a task consumed.
#[must_use]
pub fn consumed(task: &Task) -> Vec<Value> {
    task.conditions
        .iter()
        .flat_map(|condition| match condition {
            ConditionResult::Channel { values } => values.clone(),
            ConditionResult::Timer { .. } => Vec::new(),
        })
        .collect()
}

fn channel(name: &str) -> Key {
    Key { name: Name::new(name), instance: None }
}

fn plain(step_type: &str) -> Movement {
    Movement {
        options: StepOptions { skip_wait_for: true, ..waiting(step_type).options },
        ..waiting(step_type)
    }
}

fn waiting(step_type: &str) -> Movement {
    let method = MethodOptions {
        timeout_ms: Some(METHOD_TIMEOUT_MS),
        retry: Some(RetryPolicy {
            maximum_interval_seconds: LONGEST_BACKOFF_SECONDS,
            ..RetryPolicy::default()
        }),
        ..MethodOptions::default()
    };
    let options = StepOptions { wait_for: method.clone(), execute: method, ..StepOptions::default() };
    Movement { step_type: Name::new(step_type), input: None, options }
}

fn with_recovery(step_type: &str, maximum_attempts: i32) -> Movement {
    let mut movement = plain(step_type);
    if let Some(retry) = &mut movement.options.execute.retry {
        retry.maximum_attempts = maximum_attempts;
    }
    movement.options.recovery =
        Some(Box::new(Recovery { step_type: Name::new("repair"), options: plain("repair").options }));
    movement
}
