//! Values, keys, Attributes, Channels: the smallest words of the protocol.

use dexzd_core::engine::{
    AttributeEntry, AttributeValue, AttributeWrite, Failure, Key, Lineage, MessageDeletion, Method,
    NamedValue, Publication, Value,
};
use dexzd_core::engine::{ChannelMessages, ChannelSize, Durability, Message};
use dexzd_core::ids::{Blob, Name, StepExecutionId};
use dexzd_proto as proto;

use super::field::{Checked, Field, known, message_id, required};

pub(super) fn value_in(value: proto::Value) -> Value {
    Value { encoding: Name::from(value.encoding), data: Blob::from(value.data) }
}

pub(super) fn value_out(value: &Value) -> proto::Value {
    proto::Value { encoding: value.encoding.to_string(), data: value.data.to_vec() }
}

pub(super) fn key_in(_: Field<'_>, key: proto::Key) -> Checked<Key> {
    Ok(Key { name: Name::from(key.name), instance: key.instance.map(Name::from) })
}

/// A key that must be there.
pub(super) fn key_required(field: Field<'_>, key: Option<proto::Key>) -> Checked<Key> {
    key_in(field, required(field, key)?)
}

pub(super) fn key_out(key: &Key) -> proto::Key {
    proto::Key { name: key.name.to_string(), instance: key.instance.as_deref().map(str::to_owned) }
}

/// An Attribute write; no value, or one without a kind, deletes.
pub(super) fn attribute_write_in(field: Field<'_>, entry: proto::AttributeEntry) -> Checked<AttributeWrite> {
    use proto::attribute_value::Kind;
    Ok(AttributeWrite {
        key: key_required(field.child("key"), entry.key)?,
        value: entry.value.and_then(|value| value.kind).map(|kind| match kind {
            Kind::StringValue(text) => AttributeValue::String(Name::from(text)),
            Kind::IntValue(number) => AttributeValue::Int(number),
            Kind::DoubleValue(number) => AttributeValue::Double(number),
            Kind::BoolValue(truth) => AttributeValue::Bool(truth),
            Kind::ObjectValue(object) => AttributeValue::Object(value_in(object)),
        }),
    })
}

fn attribute_value_out(value: &AttributeValue) -> proto::AttributeValue {
    use proto::attribute_value::Kind;
    proto::AttributeValue {
        kind: Some(match value {
            AttributeValue::String(text) => Kind::StringValue(text.to_string()),
            AttributeValue::Int(number) => Kind::IntValue(*number),
            AttributeValue::Double(number) => Kind::DoubleValue(*number),
            AttributeValue::Bool(truth) => Kind::BoolValue(*truth),
            AttributeValue::Object(object) => Kind::ObjectValue(value_out(object)),
        }),
    }
}

pub(super) fn attribute_write_out(write: &AttributeWrite) -> proto::AttributeEntry {
    proto::AttributeEntry {
        key: Some(key_out(&write.key)),
        value: Some(match &write.value {
            Some(value) => attribute_value_out(value),
            None => proto::AttributeValue { kind: None },
        }),
    }
}

pub(super) fn attribute_entry_out(entry: &AttributeEntry) -> proto::AttributeEntry {
    proto::AttributeEntry { key: Some(key_out(&entry.key)), value: Some(attribute_value_out(&entry.value)) }
}

pub(super) fn publication_in(field: Field<'_>, publication: proto::Publication) -> Checked<Publication> {
    Ok(Publication {
        channel: key_required(field.child("channel"), publication.channel)?,
        value: value_in(required(field.child("value"), publication.value)?),
    })
}

pub(super) fn publication_out(publication: &Publication) -> proto::Publication {
    proto::Publication {
        channel: Some(key_out(&publication.channel)),
        value: Some(value_out(&publication.value)),
    }
}

pub(super) fn named_value_in(field: Field<'_>, named: proto::NamedValue) -> Checked<NamedValue> {
    Ok(NamedValue {
        name: Name::from(named.name),
        value: value_in(required(field.child("value"), named.value)?),
    })
}

pub(super) fn named_value_out(named: &NamedValue) -> proto::NamedValue {
    proto::NamedValue { name: named.name.to_string(), value: Some(value_out(&named.value)) }
}

pub(super) fn deletion_in(field: Field<'_>, deletion: proto::MessageDeletion) -> Checked<MessageDeletion> {
    Ok(MessageDeletion {
        channel: key_required(field.child("channel"), deletion.channel)?,
        message: message_id(field.child("message_id"), &deletion.message_id)?,
    })
}

pub(super) fn deletion_out(deletion: &MessageDeletion) -> proto::MessageDeletion {
    proto::MessageDeletion {
        channel: Some(key_out(&deletion.channel)),
        message_id: deletion.message.to_string(),
    }
}

pub(super) fn messages_out(messages: &ChannelMessages) -> proto::ChannelMessages {
    let message_out = |message: &Message| proto::Message {
        message_id: message.id.to_string(),
        value: Some(value_out(&message.value)),
    };
    proto::ChannelMessages {
        channel: Some(key_out(&messages.channel)),
        messages: messages.messages.iter().map(message_out).collect(),
    }
}

pub(super) fn channel_size_out(size: &ChannelSize) -> proto::ChannelSize {
    proto::ChannelSize { channel: Some(key_out(&size.channel)), size: size.size }
}

pub(super) fn step_in(field: Field<'_>, step: Option<proto::StepExecutionId>) -> Checked<StepExecutionId> {
    let step = required(field, step)?;
    Ok(StepExecutionId { step_type: Name::from(step.step_type), number: step.number })
}

pub(super) fn step_out(step: &StepExecutionId) -> proto::StepExecutionId {
    proto::StepExecutionId { step_type: step.step_type.to_string(), number: step.number }
}

/// None where unspecified: inherit.
pub(super) fn durability_in(field: Field<'_>, value: i32) -> Checked<Option<Durability>> {
    Ok(match known(field, value)? {
        proto::Durability::Unspecified => None,
        proto::Durability::Sync => Some(Durability::Sync),
        proto::Durability::Async => Some(Durability::Async),
    })
}

pub(super) fn durability_out(durability: Durability) -> proto::Durability {
    match durability {
        Durability::Sync => proto::Durability::Sync,
        Durability::Async => proto::Durability::Async,
    }
}

pub(super) fn method_out(method: Method) -> proto::Method {
    match method {
        Method::WaitFor => proto::Method::WaitFor,
        Method::Execute => proto::Method::Execute,
    }
}

pub(super) fn failure_in(failure: proto::Failure) -> Failure {
    Failure {
        error_type: Name::from(failure.error_type),
        detail: Name::from(failure.detail),
        stack: failure.stack.map(Name::from),
    }
}

pub(super) fn failure_out(failure: &Failure) -> proto::Failure {
    proto::Failure {
        error_type: failure.error_type.to_string(),
        detail: failure.detail.to_string(),
        stack: failure.stack.as_deref().map(str::to_owned),
    }
}

pub(super) fn lineage_out(lineage: &Lineage) -> proto::Lineage {
    use proto::lineage::{FlowStart, FlowTimeout, Kind};
    proto::Lineage {
        kind: Some(match lineage {
            Lineage::FlowStart => Kind::FlowStart(FlowStart {}),
            Lineage::Step(step) => Kind::Step(step_out(step)),
            Lineage::Recovery(step) => Kind::RecoveryOf(step_out(step)),
            Lineage::FlowTimeout => Kind::FlowTimeout(FlowTimeout {}),
        }),
    }
}
