//! Applying what a method returned: effects first, then the decision, all in one change.

use alloc::vec::Vec;

use super::close::Close;
use super::frame::CancelReason;
use super::frames::Outcome;
use super::history::EventKind;
use super::limits;
use super::model::{
    Decision, DecisionKind, Effects, ErrorCategory, FlowError, FlowOutput, Lineage, Method, Movement, Wait,
};
use super::record::StepRecord;
use super::run::{attribute_bytes, message_bytes};
use super::turn::{Turn, step_context};
use super::validate::cut_text;
use crate::ids::{Name, StepExecutionId};

impl Turn<'_> {
    /// Whether an outcome fits the method that returned it, and keeps the run within its limits.
    pub(super) fn check_outcome(&self, outcome: &Outcome, method: Method) -> Result<(), Name> {
        match (outcome, method) {
            (Outcome::WaitFor(_, effects), Method::WaitFor) => self.check_effects(effects),
            (Outcome::Execute(decision, effects), Method::Execute) => {
                self.check_effects(effects)?;
                self.check_movements(decision)
            }
            (Outcome::WaitFor(..), Method::Execute) => Err("Execute returned a Wait".into()),
            (Outcome::Execute(..), Method::WaitFor) => Err("WaitFor returned a decision".into()),
        }
    }

    fn check_movements(&self, decision: &Decision) -> Result<(), Name> {
        let scheduled = match &decision.kind {
            DecisionKind::GoTo(movements) => movements.len(),
            DecisionKind::ForceCompleteIfChannelsEmpty { fallback, .. } => fallback.len(),
            DecisionKind::GracefulComplete(_)
            | DecisionKind::DeadEnd
            | DecisionKind::ForceComplete(_)
            | DecisionKind::ForceFail(_) => 0,
        };
        if self.run.steps.len() + scheduled > limits::ACTIVE_STEPS {
            return Err("one run may have 20,000 active Step executions".into());
        }
        Ok(())
    }

    /// Whether these effects keep the run within its limits; else which limit they break.
    pub(super) fn check_effects(&self, effects: &Effects) -> Result<(), Name> {
        let written: u64 = effects
            .attributes
            .iter()
            .filter_map(|write| write.value.as_ref().map(|value| attribute_bytes(&write.key, value)))
            .sum();
        if self.run.head().attribute_bytes + written > limits::ATTRIBUTES_BYTES {
            return Err("the Attributes of one run may take 4 MiB".into());
        }
        let published: u64 = effects
            .publications
            .iter()
            .map(|publication| message_bytes(&publication.channel, &publication.value))
            .sum();
        if self.run.head().message_bytes + published > limits::MESSAGES_BYTES {
            return Err("the pending Channel messages of one run may take 8 MiB".into());
        }
        Ok(())
    }

    fn apply_effects(&mut self, effects: &Effects) {
        self.run.write_attributes(&effects.attributes);
        for deletion in &effects.deletions {
            // Best effort: a message that is gone is ignored (concepts.md 1.8).
            self.run.delete_message(deletion);
        }
        for publication in &effects.publications {
            let id = self.cx.new_message_id();
            self.run.publish(publication, id);
        }
    }

    /// WaitFor returned: stores its Wait.
    pub(super) fn wait_for_done(&mut self, id: &StepExecutionId, wait: Wait, effects: Effects) {
        let Some(step) = self.run.steps.get(id) else {
            return;
        };
        let context = step_context(self.run, id, step);
        self.apply_effects(&effects);
        self.record_event(EventKind::WaitForCompleted {
            context,
            wait: wait.clone(),
            attributes: effects.attributes,
            publications: effects.publications,
            recorded: effects.events,
        });
        if let Some(step) = self.run.steps.get_mut(id) {
            step.locals = effects.locals;
        }
        self.accept_wait(id, wait);
    }

    /// Execute returned: ends the Step and applies its decision.
    pub(super) fn execute_done(&mut self, id: &StepExecutionId, mut decision: Decision, effects: Effects) {
        if let DecisionKind::ForceFail(reason) = &mut decision.kind {
            *reason = cut_text(core::mem::take(reason));
        }
        let Some(step) = self.run.steps.get(id) else {
            return;
        };
        let context = step_context(self.run, id, step);
        self.apply_effects(&effects);
        self.record_event(EventKind::ExecuteCompleted {
            context,
            decision: decision.clone(),
            attributes: effects.attributes,
            publications: effects.publications,
            recorded: effects.events,
        });
        let Some(step) = self.end_step(id, CancelReason::StepCancelled) else {
            return;
        };
        self.cancel_steps(id, &step, &decision);
        self.apply(id, decision.kind);
        self.complete_if_done();
    }

    fn apply(&mut self, id: &StepExecutionId, kind: DecisionKind) {
        match kind {
            DecisionKind::GoTo(movements) => self.go_to(id, movements),
            DecisionKind::GracefulComplete(value) => {
                let head = self.run.head_mut();
                head.graceful = true;
                head.outputs.push(FlowOutput { step: id.clone(), value });
            }
            DecisionKind::DeadEnd => {}
            DecisionKind::ForceComplete(value) => self.force_complete(id, value),
            DecisionKind::ForceFail(reason) => self.close(Close::Failed(FlowError {
                category: ErrorCategory::StepDecision,
                error_type: Name::default(),
                text: reason,
            })),
            DecisionKind::ForceCompleteIfChannelsEmpty { output, channels, fallback } => {
                if channels.iter().all(|channel| self.run.channel_size(channel) == 0) {
                    self.force_complete(id, output);
                } else {
                    self.go_to(id, fallback);
                }
            }
        }
    }

    fn force_complete(&mut self, id: &StepExecutionId, value: Option<super::model::Value>) {
        self.run.head_mut().outputs.push(FlowOutput { step: id.clone(), value });
        self.close(Close::Completed);
    }

    fn go_to(&mut self, id: &StepExecutionId, movements: Vec<Movement>) {
        for movement in movements {
            self.schedule(movement, Lineage::Step(id.clone()), None, None);
        }
    }

    /// The cancel modifiers: they speak of what was active before this decision.
    fn cancel_steps(&mut self, by: &StepExecutionId, step: &StepRecord, decision: &Decision) {
        if decision.cancel_steps.is_empty() && decision.cancel_sibling_steps.is_empty() {
            return;
        }
        let doomed: Vec<StepExecutionId> = self
            .run
            .steps
            .iter()
            .filter(|(id, other)| {
                let of_type = |types: &[Name]| types.contains(&id.step_type);
                of_type(&decision.cancel_steps)
                    || (of_type(&decision.cancel_sibling_steps) && other.lineage == step.lineage)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in doomed {
            self.end_step(&id, CancelReason::StepCancelled);
            self.record_event(EventKind::StepCancelled { step: id, by: by.clone() });
        }
    }

    /// Completes the run once no Step is active, if a branch completed gracefully (concepts.md 1.5).
    pub(super) fn complete_if_done(&mut self) {
        if !self.run.is_active() || !self.run.steps.is_empty() {
            return;
        }
        if self.run.head().closing.is_some() {
            self.finish_closing();
        } else if self.run.head().graceful {
            self.close(Close::Completed);
        }
    }
}
