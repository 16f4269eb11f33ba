//! Which handler answers which call.

use super::call::{Call, CallError};
use super::mutate::MutationKind;
use super::polls::Awaited;
use super::validate;
use super::{Engine, state::StateRead};
use crate::ids::CallId;

impl<S: StateRead> Engine<S> {
    /// A client asks.
    pub(super) fn call(&mut self, id: CallId, call: Call) {
        if !self.serves() {
            return self.cx.reply(id, None, Err(CallError::Unavailable));
        }
        if let Err(error) = validate::validate_call(&call) {
            return self.cx.reply(id, None, Err(error));
        }
        match call {
            Call::Start(start) => self.start_flow(id, *start),
            Call::Stop { request_id, target, kind, reason } => {
                self.mutate(id, MutationKind::Stop, &request_id, &target, |turn| {
                    turn.stop_by_client(&request_id, kind, &reason)
                });
            }
            Call::Publish { request_id, target, publications } => {
                self.mutate(id, MutationKind::Publish, &request_id, &target, |turn| {
                    turn.publish_by_client(&request_id, publications)
                });
            }
            Call::WriteAttributes { request_id, target, writes } => {
                self.mutate(id, MutationKind::WriteAttributes, &request_id, &target, |turn| {
                    turn.write_attributes_by_client(&request_id, writes)
                });
            }
            Call::DeleteMessages { request_id, target, channel, messages } => {
                self.mutate(id, MutationKind::DeleteMessages, &request_id, &target, |turn| {
                    turn.delete_messages_by_client(&request_id, &channel, &messages)
                });
            }
            Call::SkipTimer { request_id, target, timer } => {
                self.mutate(id, MutationKind::SkipTimer, &request_id, &target, |turn| {
                    turn.skip_timer_by_client(&request_id, &timer)
                });
            }
            Call::UpdateConfig { request_id, target, config } => {
                self.mutate(id, MutationKind::UpdateConfig, &request_id, &target, |turn| {
                    Ok(turn.update_config(config))
                });
            }
            Call::Describe(target) => self.describe(id, &target),
            Call::State(target) => self.state(id, &target),
            Call::History { target, start_event, page_size } => {
                self.history(id, &target, start_event, page_size);
            }
            Call::WaitForEvent { target, event, wait_ms } => {
                self.wait_for(id, &target, Awaited::Event(event), wait_ms);
            }
            Call::WaitForFlow { target, wait_ms } => self.wait_for(id, &target, Awaited::Closed, wait_ms),
            Call::WaitForStep { target, step, wait_ms } => {
                self.wait_for(id, &target, Awaited::Step(step), wait_ms);
            }
            Call::Search { filter, page_size, page_token } => self.search(id, &filter, page_size, page_token),
        }
    }
}
