//! Frames of a Worker stream.

use dexzd_core::engine::{
    AttemptProgress, CancelReason, FlowTypeDefinition, Hello, RecoveryInfo, ServerFrame, Snapshot, Task,
    WorkerFrame,
};
use dexzd_core::ids::{Epoch, HandoutId, Name};
use dexzd_proto as proto;

use super::decision::{decision_in, effects_in};
use super::field::{Checked, Field, Invalid, optional_duration_ms, required, unix_ms};
use super::options::milliseconds_out;
use super::value::{
    attribute_entry_out, channel_size_out, durability_out, failure_in, lineage_out, messages_out, method_out,
    named_value_out, step_out, value_in, value_out,
};
use super::wait::{condition_result_out, wait_in};

/// One frame of a batch; `index` is its place there.
///
/// # Errors
///
/// The frame is malformed: the stream that sent it cannot go on.
pub(crate) fn worker_frame(index: usize, frame: proto::WorkerFrame) -> Result<WorkerFrame, Invalid> {
    use proto::worker_frame::Kind;
    let frames = Field::top("frames");
    let field = frames.index(index);
    let kind = frame.kind.ok_or_else(|| {
        field.child("kind").invalid("is missing, or of a kind that the server does not know")
    })?;
    Ok(match kind {
        Kind::Hello(hello) => WorkerFrame::Hello(hello_in(field.child("hello"), hello)?),
        Kind::Heartbeat(heartbeat) => WorkerFrame::Heartbeat {
            handout: handout_of(field.child("heartbeat"), heartbeat.handout)?,
            checkpoint: heartbeat.checkpoint.map(value_in),
        },
        Kind::WaitForDone(done) => {
            let field = field.child("wait_for_done");
            let wait = field.child("wait");
            WorkerFrame::WaitForDone {
                handout: handout_of(field, done.handout)?,
                wait: wait_in(wait, required(wait, done.wait)?)?,
                effects: effects_in(field.child("effects"), done.effects)?,
            }
        }
        Kind::ExecuteDone(done) => {
            let field = field.child("execute_done");
            let decision = field.child("decision");
            WorkerFrame::ExecuteDone {
                handout: handout_of(field, done.handout)?,
                decision: decision_in(decision, required(decision, done.decision)?)?,
                effects: effects_in(field.child("effects"), done.effects)?,
            }
        }
        Kind::Failed(failed) => {
            let field = field.child("failed");
            WorkerFrame::Failed {
                handout: handout_of(field, failed.handout)?,
                failure: failure_in(required(field.child("failure"), failed.failure)?),
                non_retryable: failed.non_retryable,
                retry_after_ms: optional_duration_ms(field.child("retry_after_ms"), failed.retry_after_ms)?,
            }
        }
        Kind::Decline(handout) => WorkerFrame::Decline { handout: handout_in(handout) },
        Kind::ReturnUnused(handout) => WorkerFrame::Return { handout: handout_in(handout) },
        Kind::StopTaking(_) => WorkerFrame::StopTaking,
        Kind::Pong(_) => WorkerFrame::Pong,
    })
}

fn hello_in(field: Field<'_>, hello: proto::Hello) -> Checked<Hello> {
    let (least, most) = proto::PROTOCOL_VERSIONS;
    if !(least..=most).contains(&hello.protocol_version) {
        return Err(field.child("protocol_version").invalid(format!(
            "{} is not spoken here: this server speaks {least} to {most}; read GetServerInfo first",
            hello.protocol_version
        )));
    }
    let definition = |definition: proto::FlowTypeDefinition| FlowTypeDefinition {
        name: Name::from(definition.name),
        step_types: definition.step_types.into_iter().map(Name::from).collect(),
        timeout_handler: definition.timeout_handler,
    };
    Ok(Hello {
        worker: Name::from(hello.worker),
        slots: hello.slots,
        flow_types: hello.flow_types.into_iter().map(definition).collect(),
    })
}

fn handout_of(field: Field<'_>, handout: Option<proto::HandoutId>) -> Checked<HandoutId> {
    required(field.child("handout"), handout).map(handout_in)
}

fn handout_in(handout: proto::HandoutId) -> HandoutId {
    HandoutId { epoch: Epoch(handout.epoch), counter: handout.counter }
}

fn handout_out(handout: HandoutId) -> proto::HandoutId {
    proto::HandoutId { epoch: handout.epoch.0, counter: handout.counter }
}

pub(crate) fn server_frame(frame: &ServerFrame) -> proto::ServerFrame {
    use proto::server_frame::{Cancel, Kind, Ping, Settled};
    proto::ServerFrame {
        kind: Some(match frame {
            ServerFrame::Task(task) => Kind::Task(Box::new(task_out(task))),
            ServerFrame::Cancel { handout, reason } => Kind::Cancel(Cancel {
                handout: Some(handout_out(*handout)),
                reason: cancel_reason_out(*reason).into(),
            }),
            ServerFrame::Settled { handout, accepted } => {
                Kind::Settled(Settled { handout: Some(handout_out(*handout)), accepted: *accepted })
            }
            ServerFrame::Ping => Kind::Ping(Ping {}),
            ServerFrame::Refused { message } => Kind::Refused(message.to_string()),
        }),
    }
}

fn cancel_reason_out(reason: CancelReason) -> proto::CancelReason {
    match reason {
        CancelReason::FlowClosed => proto::CancelReason::FlowClosed,
        CancelReason::StepCancelled => proto::CancelReason::StepCancelled,
        CancelReason::TimedOut => proto::CancelReason::TimedOut,
        CancelReason::DrainOver => proto::CancelReason::DrainOver,
    }
}

fn task_out(task: &Task) -> proto::Task {
    proto::Task {
        handout: Some(handout_out(task.handout)),
        flow_type: task.flow_type.to_string(),
        flow_id: task.flow_id.to_string(),
        run_id: task.run_id.to_string(),
        step: Some(step_out(&task.step)),
        method: method_out(task.method).into(),
        attempt: task.attempt,
        deadline_unix_ms: unix_ms(task.deadline),
        heartbeat_timeout_ms: task.heartbeat_timeout_ms.map(milliseconds_out),
        input: task.input.as_ref().map(value_out),
        snapshot: Some(snapshot_out(&task.snapshot)),
        locals: task.locals.iter().map(named_value_out).collect(),
        conditions: task.conditions.iter().map(condition_result_out).collect(),
        recovery: task.recovery.as_ref().map(recovery_info_out),
        checkpoint: task.checkpoint.as_ref().map(value_out),
        durability: durability_out(task.durability).into(),
        lineage: Some(lineage_out(&task.lineage)),
        wait_for_failed: task.wait_for_failed,
        flow_start_unix_ms: unix_ms(task.flow_start_time),
    }
}

fn snapshot_out(snapshot: &Snapshot) -> proto::Snapshot {
    proto::Snapshot {
        attributes: snapshot.attributes.iter().map(attribute_entry_out).collect(),
        channel_sizes: snapshot.channel_sizes.iter().map(channel_size_out).collect(),
        messages: snapshot.messages.iter().map(messages_out).collect(),
    }
}

fn recovery_info_out(info: &RecoveryInfo) -> proto::RecoveryInfo {
    proto::RecoveryInfo {
        error_type: info.error_type.to_string(),
        detail: info.detail.to_string(),
        progress: match info.progress {
            AttemptProgress::Unspecified => proto::AttemptProgress::Unspecified,
            AttemptProgress::NotStarted => proto::AttemptProgress::NotStarted,
            AttemptProgress::NotCompleted => proto::AttemptProgress::NotCompleted,
        }
        .into(),
    }
}
