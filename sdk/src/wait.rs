//! What a Step waits for, and what came of it.

use std::time::Duration;

use dexzd_proto as proto;
use proto::condition_result::Kind as ResultKind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::StepError;
use crate::options::milliseconds;
use crate::schema::{Channel, Key};
use crate::value::{self, ValueError};

/// When Execute may run: returned by WaitFor, stored and watched by the server.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a Wait takes effect when the handler returns it"]
pub struct Wait {
    kind: proto::wait::Kind,
    conditions: Vec<Condition>,
    groups: Vec<Vec<String>>,
}

/// One condition of a [`Wait`].
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a condition takes effect as part of a Wait"]
pub struct Condition {
    id: Option<String>,
    kind: ConditionKind,
}

#[derive(Debug, Clone, PartialEq)]
enum ConditionKind {
    Timer(Duration),
    Channel { key: Key, at_least: Option<u32>, at_most: Option<u32> },
}

impl Wait {
    /// No wait: Execute runs at once.
    pub fn skip() -> Self {
        Self::of(proto::wait::Kind::Skip, Vec::new())
    }

    /// Until this one condition is ready.
    pub fn until(condition: Condition) -> Self {
        Self::of(proto::wait::Kind::UntilOne, vec![condition])
    }

    /// Until all are ready together; all Channel conditions consume.
    pub fn all_of(conditions: impl IntoIterator<Item = Condition>) -> Self {
        Self::of(proto::wait::Kind::AllOf, conditions.into_iter().collect())
    }

    /// Until one is ready. If several are, timers come before Channels, each in the order given; only the
    /// picked one consumes.
    pub fn any_of(conditions: impl IntoIterator<Item = Condition>) -> Self {
        Self::of(proto::wait::Kind::AnyOf, conditions.into_iter().collect())
    }

    /// Until all conditions of one group are ready. Groups name conditions by their [`Condition::id`],
    /// which all of them need.
    ///
    /// ```
    /// # use dexzd_sdk::prelude::*;
    /// # use std::time::Duration;
    /// # const PAID: Channel<()> = Channel::new("paid");
    /// # const PACKED: Channel<()> = Channel::new("packed");
    /// Wait::any_combination_of(
    ///     [
    ///         Condition::message(&PAID).id("paid"),
    ///         Condition::message(&PACKED).id("packed"),
    ///         Condition::timer(Duration::from_secs(3600)).id("late"),
    ///     ],
    ///     [vec!["paid", "packed"], vec!["late"]],
    /// )
    /// # ;
    /// ```
    pub fn any_combination_of<G, I>(
        conditions: impl IntoIterator<Item = Condition>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self
    where
        G: IntoIterator<Item = I>,
        I: Into<String>,
    {
        let mut wait = Self::of(proto::wait::Kind::AnyCombinationOf, conditions.into_iter().collect());
        wait.groups = groups.into_iter().map(|group| group.into_iter().map(Into::into).collect()).collect();
        wait
    }

    fn of(kind: proto::wait::Kind, conditions: Vec<Condition>) -> Self {
        Self { kind, conditions, groups: Vec::new() }
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = &Key> {
        self.conditions.iter().filter_map(|condition| match &condition.kind {
            ConditionKind::Timer(_) => None,
            ConditionKind::Channel { key, .. } => Some(key),
        })
    }

    /// The names under which Execute finds the results again: results travel without them. A single
    /// condition needs none.
    pub(crate) fn names(&self) -> Option<Result<proto::NamedValue, ValueError>> {
        if self.conditions.len() < 2 {
            return None;
        }
        let names: Vec<ConditionName> = self
            .conditions
            .iter()
            .map(|condition| ConditionName {
                id: condition.id.clone(),
                channel: match &condition.kind {
                    ConditionKind::Timer(_) => None,
                    ConditionKind::Channel { key, .. } => Some(key.to_string()),
                },
            })
            .collect();
        Some(
            value::encode(&names)
                .map(|value| proto::NamedValue { name: NAMES_LOCAL.to_owned(), value: Some(value) }),
        )
    }

    pub(crate) fn into_proto(self) -> proto::Wait {
        proto::Wait {
            kind: self.kind.into(),
            conditions: self.conditions.into_iter().map(Condition::into_proto).collect(),
            groups: self
                .groups
                .into_iter()
                .map(|condition_ids| proto::wait::Group { condition_ids })
                .collect(),
        }
    }
}

impl Condition {
    /// Ready after this time, counted from the moment the Wait is accepted.
    pub fn timer(duration: Duration) -> Self {
        Self { id: None, kind: ConditionKind::Timer(duration) }
    }

    /// Ready with one message; consumes exactly one.
    pub fn message<T>(channel: &Channel<T>) -> Self {
        Self::channel(channel, None, None)
    }

    /// Ready with `n` messages; consumes exactly `n`.
    pub fn messages<T>(channel: &Channel<T>, n: u32) -> Self {
        Self::channel(channel, Some(n), Some(n))
    }

    /// Ready with `n` messages; consumes all that are queued.
    pub fn at_least<T>(channel: &Channel<T>, n: u32) -> Self {
        Self::channel(channel, Some(n), None)
    }

    /// Always ready; consumes at most `n`.
    pub fn at_most<T>(channel: &Channel<T>, n: u32) -> Self {
        Self::channel(channel, None, Some(n))
    }

    /// Ready with `at_least` messages; consumes at most `at_most`.
    pub fn between<T>(channel: &Channel<T>, at_least: u32, at_most: u32) -> Self {
        Self::channel(channel, Some(at_least), Some(at_most))
    }

    /// Names the condition: unique within its Wait.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    fn channel<T>(channel: &Channel<T>, at_least: Option<u32>, at_most: Option<u32>) -> Self {
        Self { id: None, kind: ConditionKind::Channel { key: channel.key().clone(), at_least, at_most } }
    }

    fn into_proto(self) -> proto::Condition {
        use proto::condition::{Channel, Kind, Timer};
        let kind = match self.kind {
            ConditionKind::Timer(duration) => Kind::Timer(Timer { duration_ms: milliseconds(duration) }),
            ConditionKind::Channel { key, at_least, at_most } => {
                Kind::Channel(Channel { channel: Some(key.to_proto()), at_least, at_most })
            }
        };
        proto::Condition { condition_id: self.id, kind: Some(kind) }
    }
}

/// The local that carries the names of a Wait's conditions from WaitFor to Execute. Names that begin
/// with `$` belong to the library.
pub(crate) const NAMES_LOCAL: &str = "$conditions";

#[derive(Serialize, Deserialize, Clone, Debug)]
struct ConditionName {
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
}

/// What became of the conditions of the Wait that Execute follows.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    results: Vec<proto::ConditionResult>,
    names: Vec<ConditionName>,
}

impl Conditions {
    pub(crate) fn new(results: Vec<proto::ConditionResult>, names: Option<&proto::Value>) -> Self {
        let names = names.and_then(|names| value::decode(Some(names)).ok()).unwrap_or_default();
        Self { results, names }
    }

    /// How many conditions the Wait had.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether the Wait had no condition.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Whether any timer of the Wait fired; a skipped one counts as fired.
    pub fn timer_fired(&self) -> bool {
        (0..self.len()).any(|index| self.fired_at(index))
    }

    /// Whether the timer with this ID fired.
    pub fn fired(&self, condition_id: &str) -> bool {
        self.names
            .iter()
            .position(|name| name.id.as_deref() == Some(condition_id))
            .is_some_and(|index| self.fired_at(index))
    }

    /// Whether the condition at this place, counted from zero in the order of the Wait, is a timer that
    /// fired.
    pub fn fired_at(&self, index: usize) -> bool {
        matches!(
            self.results.get(index).and_then(|result| result.kind.as_ref()),
            Some(ResultKind::Timer(timer)) if timer.fired
        )
    }

    /// The first message that was consumed from this Channel.
    pub fn message<T: DeserializeOwned>(&self, channel: &Channel<T>) -> Result<Option<T>, StepError> {
        let mut values = self.values_of(channel.key())?;
        values.next().map(|value| value::decode(Some(value))).transpose().map_err(StepError::from)
    }

    /// All messages that were consumed from this Channel, in FIFO order.
    pub fn messages<T: DeserializeOwned>(&self, channel: &Channel<T>) -> Result<Vec<T>, StepError> {
        self.values_of(channel.key())?
            .map(|value| value::decode(Some(value)).map_err(StepError::from))
            .collect()
    }

    /// The messages that the condition at this place consumed, counted from zero in the order of the Wait.
    pub fn messages_at<T: DeserializeOwned>(&self, index: usize) -> Result<Vec<T>, StepError> {
        channel_values(self.results.get(index))
            .iter()
            .map(|value| value::decode(Some(value)).map_err(StepError::from))
            .collect()
    }

    fn values_of(&self, key: &Key) -> Result<impl Iterator<Item = &proto::Value>, StepError> {
        let is_named = self.names.len() == self.results.len();
        if !is_named && self.results.len() > 1 {
            return Err(StepError::new(
                "UnnamedConditions",
                format_args!(
                    "cannot tell which of {} conditions waited for the Channel {key}: their Wait was not written \
                     by this library; use messages_at",
                    self.results.len()
                ),
            ));
        }
        let wanted = key.to_string();
        Ok(self
            .results
            .iter()
            .enumerate()
            .filter(move |(index, _)| {
                !is_named || self.names[*index].channel.as_deref() == Some(wanted.as_str())
            })
            .flat_map(|(_, result)| channel_values(Some(result))))
    }
}

fn channel_values(result: Option<&proto::ConditionResult>) -> &[proto::Value] {
    match result.and_then(|result| result.kind.as_ref()) {
        Some(ResultKind::Channel(channel)) => &channel.values,
        Some(ResultKind::Timer(_)) | None => &[],
    }
}
