//! What happens after a Step.

use dexzd_proto as proto;
use proto::decision::Kind;
use serde::Serialize;

use crate::options::StepOptions;
use crate::schema::{Channel, Key};
use crate::step::Step;
use crate::value::{self, ValueError};

/// What happens next: returned by Execute and by timeout handlers. It takes effect together with
/// everything else the method staged, or not at all.
#[derive(Debug, Clone)]
#[must_use = "a decision takes effect when the handler returns it"]
pub struct Decision {
    // A value that cannot be encoded fails the attempt when the handler returns.
    decision: Result<proto::Decision, ValueError>,
}

/// One Step execution to schedule.
#[derive(Debug, Clone)]
#[must_use = "a movement takes effect as part of a decision"]
pub struct Movement {
    step_type: &'static str,
    waits: bool,
    options: StepOptions,
    input: Result<proto::Value, ValueError>,
}

/// The Channels of a [`Decision::force_complete_if_channels_empty`].
#[derive(Debug, Clone, Default)]
pub struct ChannelList {
    keys: Vec<Key>,
}

impl Movement {
    /// To a Step, with its input and its own options.
    pub fn to<S: Step>(input: &S::Input) -> Self {
        Self { step_type: S::TYPE, waits: S::WAITS, options: S::options(), input: value::encode(input) }
    }

    /// Overrides the Step's options for this movement, field by field.
    pub fn with_options(mut self, options: StepOptions) -> Self {
        self.options = self.options.overridden_by(options);
        self
    }

    pub(crate) fn into_proto(self) -> Result<proto::Movement, ValueError> {
        Ok(proto::Movement {
            step_type: self.step_type.to_owned(),
            input: Some(self.input?),
            options: Some(self.options.to_proto(self.waits)),
        })
    }
}

impl ChannelList {
    /// No Channel yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// And this one.
    pub fn and<T>(mut self, channel: &Channel<T>) -> Self {
        self.keys.push(channel.key().clone());
        self
    }
}

impl Decision {
    /// Goes to one Step.
    pub fn go_to<S: Step>(input: &S::Input) -> Self {
        Self::go_to_many([Movement::to::<S>(input)])
    }

    /// Goes to many Steps, which run in parallel. At least one.
    pub fn go_to_many(movements: impl IntoIterator<Item = Movement>) -> Self {
        let movements: Result<Vec<_>, _> = movements.into_iter().map(Movement::into_proto).collect();
        Self::of(movements.map(|movements| Kind::GoTo(proto::decision::GoTo { movements })))
    }

    /// Ends this branch with an output; the Flow completes as soon as no Step is active.
    pub fn complete<T: Serialize + ?Sized>(output: &T) -> Self {
        Self::of(output_of(output).map(Kind::GracefulComplete))
    }

    /// Ends this branch only: it never completes the Flow by itself.
    pub fn dead_end() -> Self {
        Self::of(Ok(Kind::DeadEnd(proto::decision::DeadEnd {})))
    }

    /// Completes the Flow now and cancels what else is active.
    pub fn force_complete<T: Serialize + ?Sized>(output: &T) -> Self {
        Self::of(output_of(output).map(Kind::ForceComplete))
    }

    /// Fails the Flow now.
    pub fn force_fail(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::of(Ok(Kind::ForceFail(proto::decision::ForceFail { reason })))
    }

    /// Completes the Flow now if every Channel listed is empty, else schedules the fallback movements.
    /// Correct only if one Step alone consumes those Channels.
    pub fn force_complete_if_channels_empty<T: Serialize + ?Sized>(
        output: &T,
        channels: ChannelList,
        fallback: impl IntoIterator<Item = Movement>,
    ) -> Self {
        let kind = value::encode(output).and_then(|output| {
            Ok(Kind::ForceCompleteIfChannelsEmpty(proto::decision::CompleteIfChannelsEmpty {
                output: Some(output),
                channels: channels.keys.iter().map(Key::to_proto).collect(),
                fallback: fallback.into_iter().map(Movement::into_proto).collect::<Result<_, _>>()?,
            }))
        });
        Self::of(kind)
    }

    /// And cancels the active executions of this Step type.
    pub fn cancelling<S: Step>(mut self) -> Self {
        if let Ok(decision) = &mut self.decision {
            decision.cancel_steps.push(S::TYPE.to_owned());
        }
        self
    }

    /// And cancels the active executions of this Step type that the same parent execution scheduled.
    pub fn cancelling_siblings<S: Step>(mut self) -> Self {
        if let Ok(decision) = &mut self.decision {
            decision.cancel_sibling_steps.push(S::TYPE.to_owned());
        }
        self
    }

    pub(crate) fn into_proto(self) -> Result<proto::Decision, ValueError> {
        self.decision
    }

    fn of(kind: Result<Kind, ValueError>) -> Self {
        Self {
            decision: kind.map(|kind| proto::Decision {
                kind: Some(kind),
                cancel_steps: Vec::new(),
                cancel_sibling_steps: Vec::new(),
            }),
        }
    }
}

fn output_of<T: Serialize + ?Sized>(output: &T) -> Result<proto::decision::Complete, ValueError> {
    Ok(proto::decision::Complete { output: Some(value::encode(output)?) })
}

/// Every Step type a decision names: the definition must list them all.
pub(crate) fn step_types(decision: &proto::Decision) -> impl Iterator<Item = &str> {
    let movements = match &decision.kind {
        Some(Kind::GoTo(go_to)) => go_to.movements.as_slice(),
        Some(Kind::ForceCompleteIfChannelsEmpty(complete)) => complete.fallback.as_slice(),
        Some(Kind::GracefulComplete(_) | Kind::DeadEnd(_) | Kind::ForceComplete(_) | Kind::ForceFail(_))
        | None => &[],
    };
    movements
        .iter()
        .map(|movement| movement.step_type.as_str())
        .chain(decision.cancel_steps.iter().map(String::as_str))
        .chain(decision.cancel_sibling_steps.iter().map(String::as_str))
}

/// Every Channel a decision names.
pub(crate) fn channels(decision: &proto::Decision) -> &[proto::Key] {
    match &decision.kind {
        Some(Kind::ForceCompleteIfChannelsEmpty(complete)) => &complete.channels,
        Some(
            Kind::GoTo(_)
            | Kind::GracefulComplete(_)
            | Kind::DeadEnd(_)
            | Kind::ForceComplete(_)
            | Kind::ForceFail(_),
        )
        | None => &[],
    }
}
