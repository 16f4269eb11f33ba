//! One run, event by event.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::engine::{
    AfterFailure, AttributeValue, AttributeWrite, ConditionResult, Decision, DecisionKind, EventKind,
    FlowOutput, FlowStatus, HistoryEvent, Key, Lineage, Method, MethodOptions, Movement, Publication,
    StartFlow, StepContext, StepOptions, StopKind, TimeoutPolicy, WaitForFailurePolicy, WaitKind,
};
use dexzd_core::ids::{MessageId, Name, StepExecutionId};
use dexzd_core::time::Timestamp;

use super::channel::Channels;
use super::retry::is_exhausted;
use super::step::{Phase, Step};
use super::wait::{Timers, evaluate};

/// What Execute of a Step execution was told of its conditions. Only time decides between a timer and what
/// came about when it was due: there the model believes it, as far as clocks allow. None: it was never
/// handed out.
pub type Told<'a> = &'a dyn Fn(&StepExecutionId) -> Option<Vec<ConditionResult>>;

/// What a run must look like.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Running, until an event closes it.
    pub status: FlowStatus,
    /// In the order in which they were given.
    pub outputs: Vec<FlowOutput>,
    /// All Attributes.
    pub attributes: BTreeMap<Key, AttributeValue>,
    /// All queues.
    pub channels: Channels,
    /// All active Step executions.
    pub steps: BTreeMap<StepExecutionId, Step>,
    /// The options of every Step execution that there ever was.
    pub scheduled: BTreeMap<StepExecutionId, StepOptions>,
    /// Cooperative, and under way.
    pub closing: Option<StopKind>,
    timeout: Option<TimeoutPolicy>,
    counts: BTreeMap<Name, u32>,
    graceful: bool,
    /// What must come next: the end, in this way.
    ends: Option<FlowStatus>,
    cancelled: BTreeSet<StepExecutionId>,
    skips: Vec<(StepExecutionId, Name)>,
    begun_waiting: u64,
    closed: bool,
}

impl Flow {
    /// As its start request made it.
    #[must_use]
    pub fn new(start: &StartFlow) -> Self {
        let mut flow = Self {
            status: FlowStatus::Running,
            outputs: Vec::new(),
            attributes: BTreeMap::new(),
            channels: Channels::default(),
            steps: BTreeMap::new(),
            scheduled: BTreeMap::new(),
            closing: None,
            timeout: start.timeout_ms.filter(|timeout| *timeout > 0).map(|_| {
                let by_default =
                    if start.has_timeout_handler { TimeoutPolicy::Handler } else { TimeoutPolicy::Fail };
                start.timeout_policy.unwrap_or(by_default)
            }),
            counts: BTreeMap::new(),
            graceful: false,
            ends: None,
            cancelled: BTreeSet::new(),
            skips: Vec::new(),
            begun_waiting: 0,
            closed: false,
        };
        flow.write(&start.attributes);
        if let Some(movement) = &start.start {
            flow.schedule(movement, Lineage::FlowStart);
        }
        flow
    }

    /// What happened next.
    ///
    /// # Errors
    /// A sentence, if that cannot have happened now, or not in this way.
    pub fn apply(&mut self, event: &HistoryEvent, told: Told<'_>) -> Result<(), String> {
        let is_end = matches!(event.kind, EventKind::FlowClosed { .. });
        if self.closed {
            return Err(format!("after its end came {:?}", event.kind));
        }
        if let (Some(status), false) = (self.ends, is_end) {
            return Err(format!("it should have closed {}, and then came {:?}", status.label(), event.kind));
        }
        let announced =
            matches!(&event.kind, EventKind::StepCancelled { step, .. } if self.cancelled.contains(step));
        if let (Some(step), false) = (self.cancelled.first(), announced) {
            return Err(format!("the cancel of {step} is missing before {:?}", event.kind));
        }
        self.event(event, told)?;
        self.serve_waits(event.time, told);
        self.end_if_done();
        Ok(())
    }

    fn event(&mut self, event: &HistoryEvent, told: Told<'_>) -> Result<(), String> {
        match &event.kind {
            EventKind::FlowStarted { .. } if event.number == 1 => Ok(()),
            EventKind::FlowStarted { .. } => Err("it started a second time".to_owned()),
            EventKind::WaitForCompleted { context, wait, attributes, publications, .. } => {
                self.begins(context, event.time, told)?;
                self.write(attributes);
                self.publish(publications, &[]);
                let mut timers = Timers::accept(wait, event.time);
                let is_mine = |skip: &(StepExecutionId, Name)| skip.0 == context.step;
                for (_, name) in self.skips.iter().filter(|skip| is_mine(skip)) {
                    timers.skip(wait, name);
                }
                self.skips.retain(|skip| !is_mine(skip));
                self.begun_waiting += 1;
                let order = self.begun_waiting;
                self.move_on(&context.step, Phase::Waiting { wait: wait.clone(), timers, order })
            }
            EventKind::ExecuteCompleted { context, decision, attributes, publications, .. } => {
                self.begins(context, event.time, told)?;
                self.write(attributes);
                self.publish(publications, &[]);
                self.decide(&context.step, decision)
            }
            EventKind::MethodFailed { context, failure, then } => {
                self.begins(context, event.time, told)?;
                self.fails_for_good(context, &failure.error_type, then, event.time)
            }
            EventKind::Published { publications, messages, .. } => {
                self.must_be_open("a publication")?;
                self.publish(publications, messages);
                Ok(())
            }
            EventKind::AttributesWritten { writes, .. } => {
                self.must_be_open("an Attribute write")?;
                self.write(writes);
                Ok(())
            }
            EventKind::MessagesDeleted { deletions, .. } => {
                self.must_be_open("a delete")?;
                let gone = deletions
                    .iter()
                    .find(|deletion| !self.channels.delete(&deletion.channel, deletion.message));
                gone.map_or(Ok(()), |gone| {
                    Err(format!("message {} was deleted and is not there", gone.message))
                })
            }
            EventKind::TimerSkipped { step, timer, .. } => {
                self.must_be_open("a skip")?;
                self.skip(step.as_ref(), timer);
                Ok(())
            }
            EventKind::StopRequested { kind, .. } => self.stop(*kind),
            EventKind::StepCancelled { step, .. } => {
                if !self.cancelled.remove(step) {
                    return Err(format!("nobody cancelled {step}"));
                }
                Ok(())
            }
            EventKind::FlowTimedOut { .. } => {
                self.must_be_open("the Flow's timeout")?;
                match self.timeout.take() {
                    None => return Err("it timed out without a timeout, or twice".to_owned()),
                    Some(TimeoutPolicy::Fail) => self.ends = Some(FlowStatus::Failed),
                    Some(TimeoutPolicy::Cancel) => self.ends = Some(FlowStatus::Canceled),
                    Some(TimeoutPolicy::Handler) => {}
                }
                Ok(())
            }
            EventKind::FlowClosed { status, outputs, .. } => self.close(*status, outputs),
        }
    }

    fn must_be_open(&self, what: &str) -> Result<(), String> {
        if self.closing.is_some() { Err(format!("{what} was accepted while it was closing")) } else { Ok(()) }
    }

    fn schedule(&mut self, movement: &Movement, lineage: Lineage) -> StepExecutionId {
        let count = self.counts.entry(movement.step_type.clone()).or_default();
        *count += 1;
        let id = StepExecutionId { step_type: movement.step_type.clone(), number: *count };
        let phase = Phase::first(&movement.options);
        let (input, options) = (movement.input.clone(), movement.options.clone());
        self.scheduled.insert(id.clone(), options.clone());
        self.steps.insert(id.clone(), Step { input, options, lineage, phase });
        id
    }

    /// A method call of this Step has ended: it must have been able to begin, with what it was given.
    fn begins(&mut self, context: &StepContext, now: Timestamp, told: Told<'_>) -> Result<(), String> {
        let id = &context.step;
        if self.closing.is_some() {
            return Err(format!("a result of {id} counted while the Flow was closing"));
        }
        if context.method == Method::Execute {
            self.believe_timers(id, context.started.unwrap_or(now), told);
        }
        let Some(step) = self.steps.get(id) else {
            return Err(format!("{id} does not exist"));
        };
        if matches!(step.phase, Phase::Waiting { .. }) || step.phase.method() != context.method {
            return Err(format!("{:?} of {id} has ended, which is {:?}", context.method, step.phase));
        }
        if step.input != context.input || step.lineage != context.lineage {
            return Err(format!("{id} got {:?} from {:?}", context.input, context.lineage));
        }
        let most = options_of(step, context.method).retry.map_or(0, |retry| retry.maximum_attempts);
        if context.attempt == 0 || (most > 0 && context.attempt > u32::try_from(most).unwrap_or(u32::MAX)) {
            return Err(format!("{id} came to attempt {} of {most}", context.attempt));
        }
        if let (Phase::Execute(expected), Some(results)) = (&step.phase, told(id))
            && context.method == Method::Execute
            && *expected != results
        {
            return Err(format!("Execute of {id} was told {results:?} of its conditions, not {expected:?}"));
        }
        Ok(())
    }

    fn move_on(&mut self, id: &StepExecutionId, phase: Phase) -> Result<(), String> {
        let step = self.steps.get_mut(id).ok_or_else(|| format!("{id} does not exist"))?;
        step.phase = phase;
        Ok(())
    }

    // Effects.

    fn write(&mut self, writes: &[AttributeWrite]) {
        for write in writes {
            match &write.value {
                Some(value) => self.attributes.insert(write.key.clone(), value.clone()),
                None => self.attributes.remove(&write.key),
            };
        }
    }

    fn publish(&mut self, publications: &[Publication], ids: &[MessageId]) {
        for (nth, publication) in publications.iter().enumerate() {
            let id = ids.get(nth).copied();
            self.channels.publish(&publication.channel, id, publication.value.clone());
        }
    }

    // Decisions.

    fn decide(&mut self, id: &StepExecutionId, decision: &Decision) -> Result<(), String> {
        let Some(step) = self.steps.remove(id) else {
            return Err(format!("{id} does not exist"));
        };
        let doomed: Vec<StepExecutionId> = self
            .steps
            .iter()
            .filter(|(other, its)| {
                decision.cancel_steps.contains(&other.step_type)
                    || (decision.cancel_sibling_steps.contains(&other.step_type)
                        && its.lineage == step.lineage)
            })
            .map(|(other, _)| other.clone())
            .collect();
        for other in doomed {
            self.steps.remove(&other);
            self.cancelled.insert(other);
        }
        match &decision.kind {
            DecisionKind::GoTo(movements) => self.go_to(id, movements),
            DecisionKind::GracefulComplete(value) => {
                self.graceful = true;
                self.outputs.push(FlowOutput { step: id.clone(), value: value.clone() });
            }
            DecisionKind::DeadEnd => {}
            DecisionKind::ForceComplete(value) => {
                self.outputs.push(FlowOutput { step: id.clone(), value: value.clone() });
                self.ends = Some(FlowStatus::Completed);
            }
            DecisionKind::ForceFail(_) => self.ends = Some(FlowStatus::Failed),
            DecisionKind::ForceCompleteIfChannelsEmpty { output, channels, fallback } => {
                if channels.iter().all(|channel| self.channels.size(channel) == 0) {
                    self.outputs.push(FlowOutput { step: id.clone(), value: output.clone() });
                    self.ends = Some(FlowStatus::Completed);
                } else {
                    self.go_to(id, fallback);
                }
            }
        }
        Ok(())
    }

    fn go_to(&mut self, id: &StepExecutionId, movements: &[Movement]) {
        for movement in movements {
            self.schedule(movement, Lineage::Step(id.clone()));
        }
    }

    fn fails_for_good(
        &mut self,
        context: &StepContext,
        error_type: &str,
        then: &AfterFailure,
        now: Timestamp,
    ) -> Result<(), String> {
        let id = &context.step;
        let step = self.steps.get(id).ok_or_else(|| format!("{id} does not exist"))?.clone();
        let retry = options_of(&step, context.method).retry.unwrap_or_default();
        let since = context.started.map_or(0, |started| now.as_micros().saturating_sub(started.as_micros()));
        if !is_exhausted(&retry, context.attempt, since) {
            return Err(format!(
                "{:?} of {id} failed for good ({error_type}) with attempt {} of {}",
                context.method, context.attempt, retry.maximum_attempts
            ));
        }
        let proceeds = step.options.wait_for_failure == WaitForFailurePolicy::Proceed;
        let expected = match (context.method, &step.options.recovery) {
            (Method::WaitFor, _) if proceeds => {
                self.move_on(id, Phase::Execute(Vec::new()))?;
                AfterFailure::Execute
            }
            (Method::Execute, Some(recovery)) => {
                self.steps.remove(id);
                let movement = Movement {
                    step_type: recovery.step_type.clone(),
                    input: step.input.clone(),
                    options: recovery.options.clone(),
                };
                AfterFailure::Recovery(self.schedule(&movement, Lineage::Recovery(id.clone())))
            }
            (Method::WaitFor, _) | (Method::Execute, None) => {
                self.ends = Some(FlowStatus::Failed);
                AfterFailure::FlowFails
            }
        };
        if expected == *then {
            Ok(())
        } else {
            Err(format!("{then:?} followed the failure of {id}, not {expected:?}"))
        }
    }

    // Waits.

    fn skip(&mut self, step: Option<&StepExecutionId>, timer: &Name) {
        let Some(id) = step else {
            return;
        };
        match self.steps.get_mut(id).map(|step| &mut step.phase) {
            Some(Phase::Waiting { wait, timers, .. }) => timers.skip(wait, timer),
            Some(Phase::WaitFor) | None => self.skips.push((id.clone(), timer.clone())),
            Some(Phase::Execute(_)) => {}
        }
    }

    /// Whoever began to wait first takes first; time is only counted for timers where Execute says so.
    fn serve_waits(&mut self, now: Timestamp, told: Told<'_>) {
        let mut waiting: Vec<(u64, StepExecutionId)> = Vec::new();
        for (id, step) in &self.steps {
            if let Phase::Waiting { order, .. } = &step.phase {
                waiting.push((*order, id.clone()));
            }
        }
        waiting.sort_unstable();
        for (_, id) in waiting {
            let undecided = self.steps[&id].phase.may_have_timed_out(now);
            let says_fired =
                || told(&id).is_some_and(|results| results.contains(&ConditionResult::Timer { fired: true }));
            if undecided && (says_fired() || told(&id).is_none()) {
                continue;
            }
            self.serve(&id, Timestamp::ZERO);
        }
    }

    /// Execute was handed out at this time and says that timers fired: they could have.
    fn believe_timers(&mut self, id: &StepExecutionId, handed_out: Timestamp, told: Told<'_>) {
        let waits = self.steps.get(id).is_some_and(|step| matches!(step.phase, Phase::Waiting { .. }));
        if waits && told(id).is_some_and(|results| results.contains(&ConditionResult::Timer { fired: true }))
        {
            self.serve(id, handed_out);
        }
    }

    /// Ends a Wait if it is over, with the timers that are due by then.
    fn serve(&mut self, id: &StepExecutionId, by: Timestamp) {
        let Some(Phase::Waiting { wait, timers, .. }) = self.steps.get(id).map(|step| step.phase.clone())
        else {
            return;
        };
        let channels = &self.channels;
        let fired = |place: usize| timers.has_fired(place, by);
        let Some(outcome) = evaluate(&wait, &fired, &|channel| channels.size(channel)) else {
            return;
        };
        if wait.kind == WaitKind::Skip {
            return self
                .steps
                .get_mut(id)
                .into_iter()
                .for_each(|step| step.phase = Phase::Execute(Vec::new()));
        }
        let mut results = Vec::new();
        for (place, (condition, count)) in wait.conditions.iter().zip(outcome.takes).enumerate() {
            results.push(match &condition.kind {
                dexzd_core::engine::ConditionKind::Timer { .. } => {
                    ConditionResult::Timer { fired: fired(place) }
                }
                dexzd_core::engine::ConditionKind::Channel { channel, .. } => {
                    ConditionResult::Channel { values: self.channels.take(channel, count) }
                }
            });
        }
        if let Some(step) = self.steps.get_mut(id) {
            step.phase = Phase::Execute(results);
        }
    }

    // The end.

    fn stop(&mut self, kind: StopKind) -> Result<(), String> {
        match kind {
            StopKind::Terminate => self.ends = Some(FlowStatus::Terminated),
            StopKind::Cancel | StopKind::Fail => {
                self.must_be_open("a second stop")?;
                self.closing = Some(kind);
            }
        }
        Ok(())
    }

    fn end_if_done(&mut self) {
        if self.ends.is_none()
            && self.closing.is_none()
            && self.graceful
            && self.steps.is_empty()
            && !self.closed
        {
            self.ends = Some(FlowStatus::Completed);
        }
    }

    fn close(&mut self, status: FlowStatus, outputs: &[FlowOutput]) -> Result<(), String> {
        let expected = match (self.ends, self.closing) {
            (Some(status), _) => Some(status),
            // It waits for running attempts, however long they take.
            (None, Some(StopKind::Fail)) => Some(FlowStatus::Failed),
            (None, Some(StopKind::Cancel | StopKind::Terminate)) => Some(FlowStatus::Canceled),
            (None, None) => None,
        };
        if expected != Some(status) {
            let expected = expected.map_or("open", FlowStatus::label);
            return Err(format!("it closed {}, and should be {expected}", status.label()));
        }
        if *outputs != *self.outputs {
            return Err(format!("it closed with {outputs:?}, not {:?}", self.outputs));
        }
        self.status = status;
        self.closed = true;
        self.ends = None;
        self.closing = None;
        self.steps.clear();
        self.channels.clear();
        Ok(())
    }
}

fn options_of(step: &Step, method: Method) -> &MethodOptions {
    match method {
        Method::WaitFor => &step.options.wait_for,
        Method::Execute => &step.options.execute,
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
