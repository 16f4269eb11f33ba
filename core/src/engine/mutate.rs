//! Calls that change a run: each carries a request ID that is stored with its effect (D-35).

use alloc::vec::Vec;

use super::call::{Answer, CallError, Target, TimerTarget};
use super::history::EventKind;
use super::keys;
use super::limits;
use super::model::{AttributeWrite, Effects, FlowConfig, Key, MessageDeletion, Publication, StopKind};
use super::record::{RememberedSkip, StepPhase, StoredAnswer};
use super::run::{decode, encode};
use super::turn::Turn;
use super::wait::{SkipOutcome, TimerSelector};
use super::{Engine, state::StateRead};
use crate::ids::{CallId, MessageId, Name};
use crate::mutant::{self, Mutant};

/// Which kind of call a stored answer belongs to. Numbers are never used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MutationKind {
    Stop = 0,
    Publish = 1,
    WriteAttributes = 2,
    DeleteMessages = 3,
    SkipTimer = 4,
    UpdateConfig = 5,
}

impl<S: StateRead> Engine<S> {
    /// Answers a repeated request from what is stored; else applies it to an active run and stores the answer.
    pub(super) fn mutate(
        &mut self,
        call: CallId,
        kind: MutationKind,
        request_id: &Name,
        target: &Target,
        apply: impl FnOnce(&mut Turn<'_>) -> Result<Answer, CallError>,
    ) {
        let run_id = match self.target(target) {
            Ok(run_id) => run_id,
            Err(error) => return self.cx.reply(call, None, Err(error)),
        };
        let answer_key = keys::answer(run_id, request_id);
        let stored = self.view().get(&answer_key).filter(|_| !mutant::is(Mutant::RequestForgotten));
        if let Some(stored) = stored {
            let answer = match decode::<StoredAnswer>(&answer_key, &stored) {
                Ok(stored) if stored.call == kind as u8 => Ok(stored.answer),
                Ok(_) => Err(CallError::RequestIdReused),
                Err(error) => Err(self.damaged(error)),
            };
            return self.cx.reply(call, Some(run_id), answer);
        }
        let answer = match self.turn(run_id) {
            Err(error) => Err(error),
            Ok(mut turn) => {
                let status = turn.run.head().status;
                if !turn.run.is_active() {
                    Err(CallError::NotActive { status })
                } else if turn.run.head().closing.is_some() && kind != MutationKind::Stop {
                    Err(CallError::Closing)
                } else {
                    let answer = apply(&mut turn);
                    if let Ok(answer) = &answer {
                        let stored = StoredAnswer { call: kind as u8, answer: answer.clone() };
                        turn.run.change_index(answer_key, Some(encode(&stored)));
                    }
                    answer
                }
            }
        };
        self.cx.reply(call, Some(run_id), answer);
    }
}

impl Turn<'_> {
    pub(super) fn stop_by_client(
        &mut self,
        request_id: &Name,
        kind: StopKind,
        reason: &Name,
    ) -> Result<Answer, CallError> {
        if self.run.head().closing.is_some() && kind != StopKind::Terminate {
            return Err(CallError::Closing);
        }
        let (request_id, reason_text) = (request_id.clone(), reason.clone());
        self.record_event(EventKind::StopRequested { request_id, kind, reason: reason_text });
        self.stop(kind, reason)?;
        Ok(Answer::Done)
    }

    pub(super) fn publish_by_client(
        &mut self,
        request_id: &Name,
        publications: Vec<Publication>,
    ) -> Result<Answer, CallError> {
        let effects = Effects { publications, ..Effects::default() };
        self.check_effects(&effects).map_err(|limit| CallError::LimitExceeded { limit })?;
        let publications = effects.publications;
        let messages: Vec<MessageId> = publications
            .iter()
            .map(|publication| {
                let id = self.cx.new_message_id();
                self.run.publish(publication, id);
                id
            })
            .collect();
        let request_id = request_id.clone();
        self.record_event(EventKind::Published { request_id, publications, messages: messages.clone() });
        Ok(Answer::Published(messages))
    }

    pub(super) fn write_attributes_by_client(
        &mut self,
        request_id: &Name,
        writes: Vec<AttributeWrite>,
    ) -> Result<Answer, CallError> {
        let effects = Effects { attributes: writes, ..Effects::default() };
        self.check_effects(&effects).map_err(|limit| CallError::LimitExceeded { limit })?;
        self.run.write_attributes(&effects.attributes);
        let request_id = request_id.clone();
        self.record_event(EventKind::AttributesWritten { request_id, writes: effects.attributes });
        Ok(Answer::Done)
    }

    /// All or nothing: one message that is gone fails the call.
    pub(super) fn delete_messages_by_client(
        &mut self,
        request_id: &Name,
        channel: &Key,
        messages: &[MessageId],
    ) -> Result<Answer, CallError> {
        let deletions: Vec<MessageDeletion> = messages
            .iter()
            .map(|message| MessageDeletion { channel: channel.clone(), message: *message })
            .collect();
        if let Some(missing) = deletions.iter().find(|deletion| !self.run.has_message(deletion)) {
            return Err(CallError::MessageNotFound { message: missing.message });
        }
        for deletion in &deletions {
            self.run.delete_message(deletion);
        }
        let request_id = request_id.clone();
        self.record_event(EventKind::MessagesDeleted { request_id, deletions });
        Ok(Answer::Done)
    }

    pub(super) fn update_config(&mut self, update: FlowConfig) -> Answer {
        let config = &mut self.run.head_mut().config;
        config.active_step_search = update.active_step_search.or(config.active_step_search);
        config.step_durability = update.step_durability.or(config.step_durability);
        Answer::Done
    }

    pub(super) fn skip_timer_by_client(
        &mut self,
        request_id: &Name,
        target: &TimerTarget,
    ) -> Result<Answer, CallError> {
        let Some((step, timer)) = TimerSelector::of_target(target) else {
            return self.skip_flow_timeout(request_id);
        };
        let remembered = match self.run.steps.get(step).map(|step| &step.phase) {
            Some(StepPhase::Waiting(_)) => match self.skip_timer(step, &timer) {
                SkipOutcome::Skipped | SkipOutcome::AlreadyFired => false,
                SkipOutcome::NotFound => return Err(CallError::TimerNotFound),
            },
            Some(_) if self.may_still_wait(step) => self.remember_skip(step, &timer)?,
            None if self.is_to_come(step) => self.remember_skip(step, &timer)?,
            Some(_) | None => return Err(CallError::TimerNotFound),
        };
        self.record_event(EventKind::TimerSkipped {
            request_id: request_id.clone(),
            step: Some(step.clone()),
            timer: match timer {
                TimerSelector::Id(id) => id,
                TimerSelector::Index(index) => alloc::format!("#{index}").into(),
            },
        });
        Ok(Answer::Skipped { remembered })
    }

    /// Whether this active Step execution has its WaitFor still before it.
    fn may_still_wait(&self, step: &crate::ids::StepExecutionId) -> bool {
        self.run.steps.get(step).is_some_and(|step| step.call.method == super::model::Method::WaitFor)
    }

    /// Whether this Step execution has not been scheduled yet.
    fn is_to_come(&self, step: &crate::ids::StepExecutionId) -> bool {
        step.number > self.run.head().step_counts.get(&step.step_type).copied().unwrap_or(0)
    }

    fn remember_skip(
        &mut self,
        step: &crate::ids::StepExecutionId,
        timer: &TimerSelector,
    ) -> Result<bool, CallError> {
        let skip = RememberedSkip { step: step.clone(), timer: timer.clone() };
        if self.run.head().skips.contains(&skip) {
            return Ok(true);
        }
        if self.run.head().skips.len() >= limits::REMEMBERED_SKIPS {
            let limit = "one run may remember 1,000 skips of timers that do not run yet".into();
            return Err(CallError::LimitExceeded { limit });
        }
        self.run.head_mut().skips.push(skip);
        Ok(true)
    }

    fn skip_flow_timeout(&mut self, request_id: &Name) -> Result<Answer, CallError> {
        if !self.run.head().timeout_pending {
            return Err(CallError::TimerNotFound);
        }
        self.record_event(EventKind::TimerSkipped {
            request_id: request_id.clone(),
            step: None,
            timer: "flowTimeout".into(),
        });
        if let Some(due) = self.run.base.timeout.as_ref().map(|timeout| timeout.due) {
            let timer = self.run.timer(due, keys::TimerKind::FlowTimeout);
            self.cx.clear_timer(self.run, &timer);
        }
        self.flow_timeout(true);
        Ok(Answer::Skipped { remembered: false })
    }
}
