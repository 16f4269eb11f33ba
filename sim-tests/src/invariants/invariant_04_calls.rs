//! Calls and answers, reduced to what the sequential specification of a Flow ID knows about.

use std::collections::BTreeMap;
use std::fmt;

use dexzd_core::engine::{
    Answer, AttributeValue, Call, CallError, EventKind, FlowStatus, IdReusePolicy, Key, RunState, StopKind,
    Summary, Target, TimeoutPolicy,
};
use dexzd_core::ids::{MessageId, Name, RunId, StepExecutionId};
use dexzd_io_sim::product::flows;

/// A set of statuses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Statuses(u8);

impl Statuses {
    pub(super) const NONE: Self = Self(0);
    pub(super) const RUNNING: Self = Self(1);
    pub(super) const CLOSED: Self = Self(0b1_1110);
    pub(super) const ANY: Self = Self(0b1_1111);

    pub(super) const fn only(status: FlowStatus) -> Self {
        Self(match status {
            FlowStatus::Running => 1,
            FlowStatus::Completed => 2,
            FlowStatus::Failed => 4,
            FlowStatus::Canceled => 8,
            FlowStatus::Terminated => 16,
        })
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the run may still be open.
    pub(super) const fn may_run(self) -> bool {
        self.0 & 1 != 0
    }
}

/// One call and what is known of its answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Operation {
    Start { request: Name, policy: IdReusePolicy, may_cancel: bool, outcome: Option<Started> },
    Change { request: Name, run: Option<RunId>, change: Change, outcome: Option<Outcome> },
    Look { what: &'static str, run: Option<RunId>, sight: Option<View> },
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Started {
    Run { run_id: RunId, newly: bool },
    Refused { run_id: RunId, status: FlowStatus },
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Change {
    Stop(StopKind),
    Publish(Vec<Key>),
    Note(Option<Name>),
    Delete { channel: Key, messages: Vec<MessageId> },
    Skip,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Outcome {
    Done,
    Published(Vec<MessageId>),
    NotFound,
    NotActive(FlowStatus),
    Closing,
    MessageNotFound(MessageId),
    /// It failed, and says no more than that the run is open and not closing.
    Failed,
}

/// What one answer says about a run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct View {
    pub(super) run_id: Option<RunId>,
    pub(super) request: Option<Name>,
    pub(super) statuses: Statuses,
    pub(super) closing: Option<bool>,
    /// How many history events it has, at least and at most.
    pub(super) events: (u64, u64),
    pub(super) inside: Option<Inside>,
    pub(super) step: Option<(StepExecutionId, StepSight)>,
}

/// What only the state shows.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Inside {
    pub(super) note: Option<Name>,
    /// Whose results counted.
    pub(super) marks: BTreeMap<Key, Name>,
    pub(super) pending: BTreeMap<Key, Vec<MessageId>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepSight {
    Completed,
    NeverCompletes,
    Open,
}

impl Default for View {
    fn default() -> Self {
        Self {
            run_id: None,
            request: None,
            statuses: Statuses::ANY,
            closing: None,
            events: (1, u64::MAX),
            inside: None,
            step: None,
        }
    }
}

impl Operation {
    /// The Flow ID that a call is about; None if it is not about one.
    pub(super) fn flow_of(call: &Call) -> Option<&Name> {
        match call {
            Call::Start(start) => Some(&start.flow_id),
            Call::Stop { target, .. }
            | Call::Publish { target, .. }
            | Call::WriteAttributes { target, .. }
            | Call::DeleteMessages { target, .. }
            | Call::SkipTimer { target, .. }
            | Call::UpdateConfig { target, .. }
            | Call::Describe(target)
            | Call::State(target)
            | Call::History { target, .. }
            | Call::WaitForEvent { target, .. }
            | Call::WaitForFlow { target, .. }
            | Call::WaitForStep { target, .. } => Some(&target.flow_id),
            Call::Search { .. } => None,
        }
    }

    /// Whether the answer says that the call changed something.
    pub(super) fn took_effect(&self) -> bool {
        match self {
            Self::Start { outcome, .. } => matches!(outcome, Some(Started::Run { newly: true, .. })),
            Self::Change { outcome, .. } => {
                matches!(outcome, Some(Outcome::Done | Outcome::Published(_)))
            }
            Self::Look { .. } => false,
        }
    }

    /// What a call and its answer say; None if that is nothing. Without an answer: what may have happened.
    pub(super) fn of(call: &Call, answer: Option<&Result<Answer, CallError>>) -> Option<Self> {
        let change = |request: &Name, target: &Target, change: Change| {
            let outcome = match answer {
                None => None,
                Some(answer) => Some(outcome_of(answer)?),
            };
            Some(Self::Change { request: request.clone(), run: target.run_id, change, outcome })
        };
        match call {
            Call::Start(start) => {
                let outcome = match answer {
                    None => None,
                    Some(Ok(Answer::Started { run_id, newly })) => {
                        Some(Started::Run { run_id: *run_id, newly: *newly })
                    }
                    Some(Err(CallError::AlreadyStarted { run_id, status })) => {
                        Some(Started::Refused { run_id: *run_id, status: *status })
                    }
                    Some(_) => return None,
                };
                let (request, policy) = (start.request_id.clone(), start.id_reuse);
                let may_cancel = start.timeout_policy == Some(TimeoutPolicy::Cancel);
                Some(Self::Start { request, policy, may_cancel, outcome })
            }
            Call::Stop { request_id, target, kind, .. } => change(request_id, target, Change::Stop(*kind)),
            Call::Publish { request_id, target, publications } => {
                let channels = publications.iter().map(|publication| publication.channel.clone()).collect();
                change(request_id, target, Change::Publish(channels))
            }
            Call::WriteAttributes { request_id, target, writes } => {
                let note = writes.iter().rfind(|write| &*write.key.name == flows::NOTE)?;
                change(request_id, target, Change::Note(note.value.as_ref().map(text_of)))
            }
            Call::DeleteMessages { request_id, target, channel, messages } => {
                let (channel, messages) = (channel.clone(), messages.clone());
                change(request_id, target, Change::Delete { channel, messages })
            }
            Call::SkipTimer { request_id, target, .. } => change(request_id, target, Change::Skip),
            Call::UpdateConfig { .. } | Call::Search { .. } => None,
            Call::Describe(target) => look("describe", target, call, answer?),
            Call::State(target) => look("state", target, call, answer?),
            Call::History { target, .. } => look("history", target, call, answer?),
            Call::WaitForEvent { target, .. } => look("wait for event", target, call, answer?),
            Call::WaitForFlow { target, .. } => look("wait for flow", target, call, answer?),
            Call::WaitForStep { target, .. } => look("wait for step", target, call, answer?),
        }
    }
}

fn outcome_of(answer: &Result<Answer, CallError>) -> Option<Outcome> {
    match answer {
        Ok(Answer::Done | Answer::Skipped { .. }) => Some(Outcome::Done),
        Ok(Answer::Published(ids)) => Some(Outcome::Published(ids.clone())),
        Err(CallError::NotFound) => Some(Outcome::NotFound),
        Err(CallError::NotActive { status }) => Some(Outcome::NotActive(*status)),
        Err(CallError::Closing) => Some(Outcome::Closing),
        Err(CallError::MessageNotFound { message }) => Some(Outcome::MessageNotFound(*message)),
        Err(CallError::TimerNotFound | CallError::LimitExceeded { .. }) => Some(Outcome::Failed),
        Ok(_) | Err(_) => None,
    }
}

fn look(
    what: &'static str,
    target: &Target,
    call: &Call,
    answer: &Result<Answer, CallError>,
) -> Option<Operation> {
    let sight = match answer {
        Err(CallError::NotFound) => None,
        answer => Some(view_of(call, answer)?),
    };
    Some(Operation::Look { what, run: target.run_id, sight })
}

fn view_of(call: &Call, answer: &Result<Answer, CallError>) -> Option<View> {
    let view = match answer {
        Ok(Answer::Summary(summary)) => view_of_summary(summary),
        Ok(Answer::State(state)) => View { inside: Some(inside(state)), ..view_of_summary(&state.summary) },
        Ok(Answer::History { events, next_event, closed }) => {
            let last = events.last().map_or(1, |event| event.number);
            let most = if next_event.is_none() && !events.is_empty() { last } else { u64::MAX };
            let statuses = if *closed { Statuses::CLOSED } else { Statuses::RUNNING };
            View { statuses, events: (last, most), ..View::default() }
        }
        Ok(Answer::Event(Some(event))) => match &event.kind {
            EventKind::FlowClosed { status, .. } => View {
                statuses: Statuses::only(*status),
                events: (event.number, event.number),
                ..View::default()
            },
            _ => View { events: (event.number, u64::MAX), ..View::default() },
        },
        Ok(Answer::Event(None)) => {
            let Call::WaitForEvent { event, .. } = call else {
                return None;
            };
            View { statuses: Statuses::CLOSED, events: (1, event.saturating_sub(1)), ..View::default() }
        }
        Ok(Answer::FlowResult(result)) => View {
            run_id: Some(result.run_id),
            statuses: Statuses::only(result.status),
            closing: Some(false),
            ..View::default()
        },
        Ok(Answer::StepCompleted) => step_view(call, StepSight::Completed, Statuses::ANY)?,
        Err(CallError::StepNotCompleted) => step_view(call, StepSight::NeverCompletes, Statuses::ANY)?,
        // The wait began while what it waited for had not come.
        Err(CallError::LongPollTimeout) => match call {
            Call::WaitForStep { .. } => step_view(call, StepSight::Open, Statuses::RUNNING)?,
            Call::WaitForEvent { event, .. } => {
                View { statuses: Statuses::RUNNING, events: (1, event.saturating_sub(1)), ..View::default() }
            }
            _ => View { statuses: Statuses::RUNNING, ..View::default() },
        },
        Ok(_) | Err(_) => return None,
    };
    Some(view)
}

fn step_view(call: &Call, sight: StepSight, statuses: Statuses) -> Option<View> {
    let Call::WaitForStep { step, .. } = call else {
        return None;
    };
    Some(View { step: Some((step.clone(), sight)), statuses, ..View::default() })
}

fn view_of_summary(summary: &Summary) -> View {
    View {
        run_id: Some(summary.run_id),
        request: Some(summary.request_id.clone()),
        statuses: Statuses::only(summary.status),
        closing: Some(summary.closing),
        events: (summary.event_count, summary.event_count),
        ..View::default()
    }
}

fn inside(state: &RunState) -> Inside {
    let mut inside = Inside { note: None, marks: BTreeMap::new(), pending: BTreeMap::new() };
    for attribute in &state.attributes {
        match &*attribute.key.name {
            flows::NOTE => inside.note = Some(text_of(&attribute.value)),
            flows::MARK => {
                inside.marks.insert(attribute.key.clone(), text_of(&attribute.value));
            }
            _ => {}
        }
    }
    for channel in &state.channels {
        // What Steps publish has no client whose call could explain it.
        if !flows::STEP_CHANNELS.contains(&&*channel.channel.name) {
            let ids = channel.messages.iter().map(|message| message.id).collect();
            inside.pending.insert(channel.channel.clone(), ids);
        }
    }
    inside
}

fn text_of(value: &AttributeValue) -> Name {
    match value {
        AttributeValue::String(text) => text.clone(),
        other => Name::from(format!("{other:?}")),
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { request, policy, outcome, .. } => {
                write!(formatter, "start {request} ({policy:?})")?;
                match outcome {
                    None => write!(formatter, " got no answer"),
                    Some(Started::Run { run_id, newly }) => {
                        write!(formatter, " got run {run_id}{}", if *newly { ", newly started" } else { "" })
                    }
                    Some(Started::Refused { run_id, status }) => {
                        write!(formatter, " heard that run {run_id} is {}", status.label())
                    }
                }
            }
            Self::Change { request, change, outcome, .. } => {
                write!(formatter, "{change:?} {request} got {outcome:?}")
            }
            Self::Look { what, sight, .. } => match sight {
                None => write!(formatter, "{what} found nothing"),
                Some(view) => write!(formatter, "{what} saw {view}"),
            },
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let statuses = [
            FlowStatus::Running,
            FlowStatus::Completed,
            FlowStatus::Failed,
            FlowStatus::Canceled,
            FlowStatus::Terminated,
        ];
        if self.statuses == Statuses::CLOSED {
            words.push("closed".to_owned());
        } else if let Some(status) =
            statuses.into_iter().find(|status| Statuses::only(*status) == self.statuses)
        {
            words.push(status.label().to_owned());
        }
        if self.closing == Some(true) {
            words.push("closing".to_owned());
        }
        match self.events {
            (least, most) if least == most => words.push(format!("{least} events")),
            (least, u64::MAX) if least > 1 => words.push(format!("at least {least} events")),
            (_, u64::MAX) => {}
            (_, most) => words.push(format!("at most {most} events")),
        }
        if let Some((step, sight)) = &self.step {
            words.push(format!("{step} {sight:?}"));
        }
        if let Some(inside) = &self.inside {
            words.push(format!("note {:?}", inside.note));
            words.push(format!("{} results", inside.marks.len()));
            for (channel, messages) in &inside.pending {
                words.push(format!("{} messages in {}", messages.len(), channel.name));
            }
        }
        formatter.write_str(&words.join(", "))
    }
}
