//! The reference model of a Flow: what the product says of a run is what concepts.md makes of the results
//! that Workers returned and the calls that clients made (see [`crate::reference`]). Handlers of the
//! simulated Workers are functions of their task, so what each returned is known too, by the hand-out that
//! its result names.
//!
//! It also sees to it that retries keep their distance: attempt k + 1 is handed out no earlier than the
//! back-off of retry k after attempt k.
//!
//! Not checked: total durations, which no simulated run is long enough for; runs that nobody audits.

use std::collections::BTreeMap;

use dexzd_core::engine::{
    AttributeValue, AttributeWrite, Call, ConditionResult, EventKind, FlowStatus, Key, Method, StartFlow,
    StepContext, StepOptions, Task, Value,
};
use dexzd_core::ids::{Name, RunId, StepExecutionId};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::product::flows;
use dexzd_io_sim::watch::{Audit, Seen, Watcher};

use crate::reference::{Flow, delay_before};

type MethodCall = (RunId, StepExecutionId, Method);

/// See the module.
#[derive(Default, Debug)]
pub struct AsTheConceptsSay {
    starts: BTreeMap<Name, StartFlow>,
    tasks: BTreeMap<Name, Task>,
    attempts: BTreeMap<MethodCall, Vec<Name>>,
}

impl Watcher for AsTheConceptsSay {
    fn rule(&self) -> &'static str {
        "concepts.md (reference model)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Called { request: Call::Start(start), .. } => {
                self.starts.entry(start.request_id.clone()).or_insert_with(|| (**start).clone());
            }
            Seen::TaskMade { task, .. } => {
                let name = Name::from(flows::handout_text(task.handout));
                let call = (task.run_id, task.step.clone(), task.method);
                self.attempts.entry(call).or_default().push(name.clone());
                self.tasks.insert(name, (*task).clone());
            }
            Seen::Audit(audit) => {
                return self.audit(audit).map_err(|sentence| format!("{}: {sentence}", audit.flow_id));
            }
            _ => {}
        }
        Ok(())
    }
}

impl AsTheConceptsSay {
    fn audit(&self, audit: &Audit) -> Result<(), String> {
        let Some(state) = &audit.state else {
            return Ok(());
        };
        let start = self
            .starts
            .get(&state.summary.request_id)
            .ok_or_else(|| format!("nobody asked for {}", state.summary.request_id))?;
        let run_id = state.summary.run_id;
        let told = |step: &StepExecutionId| self.told(audit, run_id, step);
        let mut flow = Flow::new(start);
        for event in &audit.history {
            self.was_returned(&event.kind)
                .map_err(|sentence| format!("event {}: {sentence}", event.number))?;
            flow.apply(event, &told).map_err(|sentence| format!("event {}: {sentence}", event.number))?;
        }
        if state.summary.event_count != audit.history.len() as u64 {
            return Err(format!(
                "it has {} events, and counts {}",
                audit.history.len(),
                state.summary.event_count
            ));
        }
        compare("status", &flow.status, &state.summary.status)?;
        compare("outputs", &flow.outputs, &state.outputs)?;
        let attributes: BTreeMap<Key, AttributeValue> = state
            .attributes
            .iter()
            .map(|attribute| (attribute.key.clone(), attribute.value.clone()))
            .collect();
        compare("Attributes", &flow.attributes, &attributes)?;
        if flow.status == FlowStatus::Running && flow.closing.is_none() {
            let steps: Vec<StepExecutionId> = state.steps.iter().map(|step| step.step.clone()).collect();
            compare("open Steps", &flow.steps.keys().cloned().collect::<Vec<_>>(), &steps)?;
        }
        let pending: BTreeMap<Key, Vec<Value>> = state
            .channels
            .iter()
            .map(|channel| {
                (
                    channel.channel.clone(),
                    channel.messages.iter().map(|message| message.value.clone()).collect(),
                )
            })
            .collect();
        compare("pending messages", &flow.channels.pending(), &pending)?;
        self.keeps_its_distance(run_id, &flow.scheduled)
    }

    /// What Execute was told: by the hand-out whose result counted, else by the last one.
    fn told(&self, audit: &Audit, run_id: RunId, step: &StepExecutionId) -> Option<Vec<ConditionResult>> {
        let counted = audit.history.iter().find_map(|event| match &event.kind {
            EventKind::ExecuteCompleted { context, attributes, .. } if context.step == *step => {
                handout_of(attributes)
            }
            _ => None,
        });
        let last = self.attempts.get(&(run_id, step.clone(), Method::Execute)).and_then(|names| names.last());
        let task = self.tasks.get(counted.as_ref().or(last)?)?;
        Some(task.conditions.clone())
    }

    /// Whether a result in the history is the one that the handler returned.
    fn was_returned(&self, kind: &EventKind) -> Result<(), String> {
        match kind {
            EventKind::WaitForCompleted { context, wait, attributes, publications, .. } => {
                let task = self.task_of(context, attributes)?;
                let expected = flows::Returned::Wait(wait.clone());
                compare("Wait", &flows::run(task), &expected)?;
                compare("publications", &Vec::new(), publications)
            }
            EventKind::ExecuteCompleted { context, decision, attributes, publications, .. } => {
                let task = self.task_of(context, attributes)?;
                let expected = flows::Returned::Decision(decision.clone(), publications.clone());
                compare("decision", &flows::run(task), &expected)
            }
            _ => Ok(()),
        }
    }

    fn task_of(&self, context: &StepContext, attributes: &[AttributeWrite]) -> Result<&Task, String> {
        let (step, method) = (&context.step, context.method);
        let task = handout_of(attributes)
            .and_then(|name| self.tasks.get(&name))
            .filter(|task| task.step == *step && task.method == method)
            .ok_or_else(|| format!("the result of {step} names no hand-out of it"))?;
        compare("the attempt", &task.attempt, &context.attempt)?;
        Ok(task)
    }

    fn keeps_its_distance(
        &self,
        run_id: RunId,
        scheduled: &BTreeMap<StepExecutionId, StepOptions>,
    ) -> Result<(), String> {
        for (step, options) in scheduled {
            for (method, options) in
                [(Method::WaitFor, &options.wait_for), (Method::Execute, &options.execute)]
            {
                let timeout_us = options.timeout_ms.unwrap_or(2 * 3_600 * 1_000) * 1_000;
                let mut first: BTreeMap<u32, u64> = BTreeMap::new();
                for name in self.attempts.get(&(run_id, step.clone(), method)).into_iter().flatten() {
                    let task = &self.tasks[name];
                    let handed_out = task.deadline.as_micros() - timeout_us;
                    let earliest = first.entry(task.attempt).or_insert(handed_out);
                    *earliest = handed_out.min(*earliest);
                }
                for (attempt, handed_out) in &first {
                    let policy = options.retry.unwrap_or_default();
                    let due =
                        first.get(&(attempt - 1)).map(|before| before + delay_before(&policy, attempt - 1));
                    if due.is_some_and(|due| *handed_out < due) {
                        return Err(format!(
                            "attempt {attempt} of {method:?} of {step} came before its back-off"
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The hand-out that a result names.
fn handout_of(attributes: &[AttributeWrite]) -> Option<Name> {
    attributes.iter().find_map(|write| match &write.value {
        Some(AttributeValue::String(name)) if &*write.key.name == flows::MARK => Some(name.clone()),
        _ => None,
    })
}

fn compare<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found {
        Ok(())
    } else {
        Err(format!("{what}: it has {found:?}, and should have {expected:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::AsTheConceptsSay;
    use crate::invariants::made_up::tell;
    use dexzd_core::engine::{Call, EventKind, FlowStatus, HistoryEvent, RunState, StartFlow, Summary};
    use dexzd_core::ids::{CallId, Name, RunId};
    use dexzd_core::time::Timestamp;
    use dexzd_io_sim::watch::{Audit, Seen};

    fn audit(status: FlowStatus, event_count: u64) -> Audit {
        let kind = EventKind::FlowStarted {
            flow_type: Name::from("t"),
            request_id: Name::from("s"),
            input: None,
            start_step: None,
            previous_run: None,
        };
        let summary = Summary {
            flow_id: Name::from("f"),
            run_id: RunId(1),
            first_run_id: RunId(1),
            request_id: Name::from("s"),
            flow_type: Name::from("t"),
            status,
            start_time: Timestamp::ZERO,
            close_time: None,
            error: None,
            closing: false,
            active_step_types: Vec::new(),
            event_count,
        };
        let state = RunState {
            summary,
            active_step_search: Default::default(),
            step_durability: Default::default(),
            attributes: Vec::new(),
            steps: Vec::new(),
            channels: Vec::new(),
            outputs: Vec::new(),
            timeout_at: None,
            start_at: None,
        };
        Audit {
            flow_id: "f".to_owned(),
            history: vec![HistoryEvent { number: 1, time: Timestamp::ZERO, kind }],
            state: Some(Box::new(state)),
        }
    }

    fn told(audit: &Audit) -> Result<(), String> {
        let start =
            StartFlow { request_id: Name::from("s"), flow_id: Name::from("f"), ..StartFlow::default() };
        let request = Call::Start(Box::new(start));
        let called = Seen::Called { process: 0, call: CallId(1), request: &request };
        tell(AsTheConceptsSay::default(), &[(0, called), (1, Seen::Audit(audit))])
    }

    #[test]
    fn an_idle_flow_is_accepted() {
        assert_eq!(told(&audit(FlowStatus::Running, 1)), Ok(()));
    }

    #[test]
    fn a_status_that_no_event_explains_is_seen() {
        let sentence = "f: status: it has Completed, and should have Running".to_owned();
        assert_eq!(told(&audit(FlowStatus::Completed, 1)), Err(sentence));
    }

    #[test]
    fn a_missing_event_is_seen() {
        let sentence = "f: it has 1 events, and counts 2".to_owned();
        assert_eq!(told(&audit(FlowStatus::Running, 2)), Err(sentence));
    }
}
