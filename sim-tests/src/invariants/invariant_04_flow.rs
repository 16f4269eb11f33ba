//! What clients can observe of one Flow ID, as an object that does one call after the other: its
//! sequential specification, from concepts.md and not from the engine.
//!
//! Workers and time change a Flow too, and no call tells when. So the state holds what is *known*: which
//! statuses the run may have, how many events it has at least, which messages may still be pending. An
//! answer must fit what is known, and makes it more exact. Everything in it only moves one way:
//!
//! - a run is open, then closed for good, with one status;
//! - its events grow, until it is closed; so does the set of results that counted;
//! - messages leave a Channel in the order in which they came, or by a delete;
//! - a Step execution ends once, and keeps its outcome.

use std::collections::BTreeMap;

use dexzd_core::engine::{FlowStatus, IdReusePolicy, Key, StopKind};
use dexzd_core::ids::{MessageId, Name, RunId, StepExecutionId};

use super::invariant_04_calls::{Change, Inside, Operation, Outcome, Started, Statuses, StepSight, View};
use super::invariant_04_search::Specification;

/// All runs of one Flow ID, the latest last.
pub(super) struct FlowId;

/// See [`FlowId`].
pub(super) type Runs = Vec<Run>;

/// What is known of one run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Run {
    run_id: Option<RunId>,
    request: Name,
    statuses: Statuses,
    closing: Option<u8>,
    events: u64,
    /// How many it had at least when it was seen open: its end is one more.
    events_open: u64,
    /// The run is closed, and `events` are all that it will ever have.
    sealed: bool,
    answers: BTreeMap<Name, Stored>,
    note: Option<Name>,
    marks: BTreeMap<Key, Name>,
    /// What may still be pending: the first ones may be consumed.
    channels: BTreeMap<Key, Vec<(Name, usize)>>,
    /// Whether a Step execution that has ended has completed.
    ended: BTreeMap<StepExecutionId, bool>,
}

/// The answer that a request keeps (D-35).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stored {
    Done(u8),
    /// The IDs, as far as they are known.
    Published(Vec<Option<MessageId>>),
}

impl Specification for FlowId {
    type State = Runs;
    type Call = Operation;

    fn apply(runs: &Runs, call: &Operation) -> Option<Runs> {
        let mut runs = runs.clone();
        let fits = match call {
            Operation::Start { request, policy, may_cancel, outcome } => {
                start(&mut runs, request, *policy, *may_cancel, outcome.as_ref())
            }
            Operation::Change { request, run, change, outcome } => match (find(&mut runs, *run), outcome) {
                (None, None | Some(Outcome::NotFound)) => true,
                (None, Some(_)) | (Some(_), Some(Outcome::NotFound)) => false,
                (Some(run), outcome) => run.change(request, change, outcome.as_ref()),
            },
            Operation::Look { run, sight, .. } => match (find(&mut runs, *run), sight) {
                (None, None) => true,
                (None, Some(_)) | (Some(_), None) => false,
                (Some(run), Some(view)) => run.see(view),
            },
        };
        fits.then_some(runs)
    }

    fn only_looks(call: &Operation) -> bool {
        matches!(call, Operation::Look { .. })
    }

    fn is_doomed(runs: &Runs, call: &Operation) -> bool {
        match call {
            Operation::Look { sight: Some(view), .. } => {
                let shown = |run: &&Run| {
                    view.request.as_ref() == Some(&run.request)
                        || (view.run_id.is_some() && view.run_id == run.run_id)
                };
                runs.iter().find(shown).is_some_and(|run| run.is_beyond(view))
            }
            // Nothing is taken back: a Flow ID that is known stays known.
            Operation::Look { run: None, sight: None, .. } => !runs.is_empty(),
            Operation::Look { .. } | Operation::Start { .. } | Operation::Change { .. } => false,
        }
    }

    fn rank(call: &Operation) -> u64 {
        match call {
            Operation::Look { sight: Some(view), .. } if view.statuses == Statuses::RUNNING => view.events.0,
            Operation::Look { sight: Some(view), .. } => view.events.0 + u64::from(!view.statuses.may_run()),
            Operation::Look { sight: None, .. } | Operation::Start { .. } | Operation::Change { .. } => 0,
        }
    }
}

/// The run that a call is about: the latest, or the one with this ID.
fn find(runs: &mut Runs, run_id: Option<RunId>) -> Option<&mut Run> {
    let Some(run_id) = run_id else {
        return runs.last_mut();
    };
    let named = runs.iter().position(|run| run.run_id == Some(run_id));
    let unnamed = || runs.iter().position(|run| run.run_id.is_none());
    let index = named.or_else(unnamed)?;
    runs[index].run_id = Some(run_id);
    runs.get_mut(index)
}

/// The order of checks of concepts.md 1.1: the request, then the policy.
fn start(
    runs: &mut Runs,
    request: &Name,
    policy: IdReusePolicy,
    may_cancel: bool,
    outcome: Option<&Started>,
) -> bool {
    if let Some(latest) = runs.last_mut() {
        if latest.request == *request {
            return match outcome {
                None => true,
                Some(Started::Run { run_id, newly: false }) => latest.is(*run_id),
                Some(Started::Run { newly: true, .. } | Started::Refused { .. }) => false,
            };
        }
        let abnormal = Statuses::only(FlowStatus::Failed)
            .or(Statuses::only(FlowStatus::Canceled))
            .or(Statuses::only(FlowStatus::Terminated));
        let makes_room = match policy {
            IdReusePolicy::Disallow => Statuses::NONE,
            IdReusePolicy::AllowIfPreviousAbnormal => abnormal,
            IdReusePolicy::AllowIfNotRunning => Statuses::CLOSED,
            IdReusePolicy::TerminateIfRunning => Statuses::ANY,
        };
        match outcome {
            Some(Started::Refused { run_id, status }) => {
                let view = View { statuses: Statuses::only(*status), ..View::default() };
                return makes_room.and(view.statuses).is_empty() && latest.is(*run_id) && latest.see(&view);
            }
            None | Some(Started::Run { newly: true, .. }) => {
                if policy == IdReusePolicy::TerminateIfRunning && latest.statuses.may_run() {
                    let terminated = Statuses::only(FlowStatus::Terminated);
                    latest.close(latest.statuses.and(Statuses::CLOSED).or(terminated));
                } else if !latest.see(&View { statuses: makes_room, ..View::default() }) {
                    return false;
                }
            }
            Some(Started::Run { newly: false, .. }) => return false,
        }
    }
    let run_id = match outcome {
        None => None,
        Some(Started::Run { run_id, newly: true }) => Some(*run_id),
        Some(Started::Run { .. } | Started::Refused { .. }) => return false,
    };
    if run_id.is_some() && runs.iter().any(|run| run.run_id == run_id) {
        return false;
    }
    runs.push(Run::new(request.clone(), run_id, may_cancel));
    true
}

impl Run {
    fn new(request: Name, run_id: Option<RunId>, may_cancel: bool) -> Self {
        let by_itself = Statuses::only(FlowStatus::Completed).or(Statuses::only(FlowStatus::Failed));
        let canceled = Statuses::only(FlowStatus::Canceled);
        Self {
            run_id,
            request,
            statuses: Statuses::RUNNING.or(if may_cancel { by_itself.or(canceled) } else { by_itself }),
            closing: None,
            events: 1,
            events_open: 1,
            sealed: false,
            answers: BTreeMap::new(),
            note: None,
            marks: BTreeMap::new(),
            channels: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    /// Whether what is known of the run contradicts this view for good: everything here only moves one way.
    fn is_beyond(&self, view: &View) -> bool {
        let inside = |inside: &Inside| {
            let overwritten = match &inside.note {
                None => self.note.is_some(),
                Some(note) => self.note.as_ref() != Some(note) && self.answers.contains_key(note),
            };
            overwritten || self.marks.iter().any(|(key, mark)| inside.marks.get(key) != Some(mark))
        };
        view.events.1 < self.events
            // A stop can still make other ends possible, unless it has ended.
            || (!self.statuses.may_run() && view.statuses.and(self.statuses).is_empty())
            || view.inside.as_ref().is_some_and(inside)
            || (view.closing == Some(false) && view.statuses == Statuses::RUNNING && self.closing.is_some())
    }

    fn is(&mut self, run_id: RunId) -> bool {
        *self.run_id.get_or_insert(run_id) == run_id
    }

    /// It is closed, in one of these ways. Its end is an event of its own; pending messages vanish.
    fn close(&mut self, statuses: Statuses) {
        if self.statuses.may_run() {
            self.events = self.events.max(self.events_open + 1);
            self.channels.clear();
            self.closing = None;
        }
        self.statuses = statuses;
    }

    /// Whether a view fits; what it tells is known from now on.
    fn see(&mut self, view: &View) -> bool {
        let statuses = self.statuses.and(view.statuses);
        let fits = view.run_id.is_none_or(|run_id| self.is(run_id))
            && view.request.as_ref().is_none_or(|request| *request == self.request)
            && !statuses.is_empty();
        if !fits {
            return false;
        }
        if !view.statuses.may_run() {
            self.close(statuses);
        }
        let closing = self.closing.is_some();
        let says_closing = view.closing.is_none_or(|says| says == closing);
        says_closing
            && self.see_events(view)
            && view.inside.as_ref().is_none_or(|inside| self.see_inside(inside))
            && view.step.as_ref().is_none_or(|(step, sight)| self.see_step(step, *sight))
    }

    fn see_events(&mut self, view: &View) -> bool {
        let (least, most) = view.events;
        if self.sealed {
            return (least..=most).contains(&self.events);
        }
        self.events = self.events.max(least);
        if view.statuses == Statuses::RUNNING {
            self.events_open = self.events;
        }
        self.sealed = least == most && !self.statuses.may_run();
        self.events <= most
    }

    fn see_inside(&mut self, inside: &Inside) -> bool {
        if inside.note != self.note
            || self.marks.iter().any(|(key, mark)| inside.marks.get(key) != Some(mark))
            || inside.pending.keys().any(|channel| !self.channels.contains_key(channel))
        {
            return false;
        }
        self.marks.clone_from(&inside.marks);
        let mut channels = std::mem::take(&mut self.channels);
        let fits = channels.iter_mut().all(|(channel, queue)| {
            let seen = inside.pending.get(channel).map_or(&[][..], Vec::as_slice);
            let Some(consumed) = queue.len().checked_sub(seen.len()) else {
                return false;
            };
            queue.drain(..consumed);
            queue.iter().zip(seen).all(|(slot, id)| self.slot_is(slot, *id))
        });
        self.channels = channels;
        fits
    }

    /// Whether a message has this ID; known from now on.
    fn slot_is(&mut self, (request, index): &(Name, usize), id: MessageId) -> bool {
        match self.answers.get_mut(request) {
            Some(Stored::Published(ids)) => *ids[*index].get_or_insert(id) == id,
            Some(Stored::Done(_)) | None => false,
        }
    }

    fn see_step(&mut self, step: &StepExecutionId, sight: StepSight) -> bool {
        match sight {
            StepSight::Completed => *self.ended.entry(step.clone()).or_insert(true),
            StepSight::NeverCompletes => !*self.ended.entry(step.clone()).or_insert(false),
            StepSight::Open => !self.ended.contains_key(step),
        }
    }

    fn change(&mut self, request: &Name, change: &Change, outcome: Option<&Outcome>) -> bool {
        let (run_id, running) = (None, Statuses::RUNNING);
        let open = View { run_id, statuses: running, closing: Some(false), ..View::default() };
        match outcome {
            Some(Outcome::NotFound) => false,
            Some(Outcome::NotActive(status)) => {
                self.see(&View { statuses: Statuses::only(*status), ..View::default() })
            }
            Some(Outcome::Closing) => {
                let may_still = matches!(change, Change::Stop(StopKind::Terminate));
                let repeated = self.answers.contains_key(request);
                !may_still && !repeated && self.see(&View { closing: Some(true), ..open })
            }
            Some(Outcome::Failed) => !self.answers.contains_key(request) && self.see(&open),
            Some(Outcome::MessageNotFound(id)) => {
                !self.answers.contains_key(request) && self.see(&open) && self.is_gone(change, *id)
            }
            None | Some(Outcome::Done | Outcome::Published(_)) => match self.answers.get_mut(request) {
                Some(stored) => stored.repeats(change, outcome),
                None => self.take_effect(request, change, outcome),
            },
        }
    }

    /// The call is the first of its request that counts.
    fn take_effect(&mut self, request: &Name, change: &Change, outcome: Option<&Outcome>) -> bool {
        let terminates = matches!(change, Change::Stop(StopKind::Terminate));
        if !self.statuses.may_run() || (self.closing.is_some() && !terminates) {
            return false;
        }
        let mut stored = Stored::Done(kind_of(change));
        match change {
            Change::Stop(kind) => self.stop(*kind),
            Change::Publish(channels) => {
                let ids = match outcome {
                    Some(Outcome::Published(ids)) if ids.len() == channels.len() => {
                        ids.iter().copied().map(Some).collect()
                    }
                    None => vec![None; channels.len()],
                    Some(_) => return false,
                };
                stored = Stored::Published(ids);
                self.events += 1;
                self.events_open = self.events;
                for (index, channel) in channels.iter().enumerate() {
                    self.channels.entry(channel.clone()).or_default().push((request.clone(), index));
                }
            }
            Change::Note(note) => self.note.clone_from(note),
            Change::Delete { channel, messages } => {
                for message in messages {
                    if !self.delete(channel, *message) {
                        return false;
                    }
                }
            }
            Change::Skip => {}
        }
        self.answers.insert(request.clone(), stored);
        true
    }

    fn stop(&mut self, kind: StopKind) {
        match kind {
            StopKind::Terminate => self.close(Statuses::only(FlowStatus::Terminated)),
            StopKind::Cancel => {
                self.statuses = Statuses::RUNNING.or(Statuses::only(FlowStatus::Canceled));
                self.closing = Some(kind as u8);
            }
            StopKind::Fail => {
                self.statuses = Statuses::RUNNING.or(Statuses::only(FlowStatus::Failed));
                self.closing = Some(kind as u8);
            }
        }
    }

    fn place(&self, channel: &Key, message: MessageId) -> Option<usize> {
        self.channels.get(channel)?.iter().position(|(request, index)| {
            matches!(self.answers.get(request), Some(Stored::Published(ids)) if ids[*index] == Some(message))
        })
    }

    fn delete(&mut self, channel: &Key, message: MessageId) -> bool {
        let Some(place) = self.place(channel, message) else {
            return false;
        };
        self.channels.get_mut(channel).is_some_and(|queue| {
            queue.remove(place);
            true
        })
    }

    /// A message is consumed or deleted: with it, all before it are consumed.
    fn is_gone(&mut self, change: &Change, message: MessageId) -> bool {
        let Change::Delete { channel, .. } = change else {
            return false;
        };
        if let Some(place) = self.place(channel, message)
            && let Some(queue) = self.channels.get_mut(channel)
        {
            queue.drain(..=place);
        }
        true
    }
}

impl Stored {
    /// Whether a repeated request gets what is stored.
    fn repeats(&mut self, change: &Change, outcome: Option<&Outcome>) -> bool {
        match (self, outcome) {
            (Self::Published(stored), Some(Outcome::Published(ids))) => {
                stored.len() == ids.len()
                    && stored.iter_mut().zip(ids).all(|(stored, id)| *stored.get_or_insert(*id) == *id)
            }
            (Self::Done(kind), Some(Outcome::Done)) => *kind == kind_of(change),
            (_, None) => true,
            (_, Some(_)) => false,
        }
    }
}

const fn kind_of(change: &Change) -> u8 {
    match change {
        Change::Stop(_) => 0,
        Change::Publish(_) => 1,
        Change::Note(_) => 2,
        Change::Delete { .. } => 3,
        Change::Skip => 4,
    }
}
