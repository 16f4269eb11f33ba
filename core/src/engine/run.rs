//! One run in memory: typed state that knows what of it changed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::frame::{AttributeEntry, ChannelMessages, ChannelSize, Snapshot};
use super::history::{EventKind, HistoryEvent};
use super::io::Change;
use super::keys::{self, Timer, TimerKind};
use super::limits;
use super::model::{
    AttributeValue, AttributeWrite, Durability, FlowStatus, Key, Load, Message, MessageDeletion, Method,
    Publication, StepOptions, Value,
};
use super::record::{Listing, RunBase, RunHead, StepRecord};
use super::state::StateRead;
use super::tracked::Tracked;
use crate::ids::{MessageId, Name, Position, RunId, StepExecutionId, StreamId};
use crate::mutant::{self, Mutant};
use crate::time::Timestamp;

/// A run, loaded. All changes to its durable state go through it, and [`save`](Self::save) collects them.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) base: RunBase,
    head: RunHead,
    head_changed: bool,
    listing_changed: bool,
    is_new: bool,
    pub(super) steps: Tracked<StepExecutionId, StepRecord>,
    pub(super) snapshots: Tracked<StepExecutionId, Snapshot>,
    inputs: Tracked<StepExecutionId, Value>,
    attributes: Tracked<Key, AttributeValue>,
    messages: Tracked<(Key, u64), Message>,
    channel_sizes: BTreeMap<Key, usize>,
    new_events: Vec<HistoryEvent>,
    /// Changes of indexes that other keys of the store keep of this run.
    index_changes: Vec<Change>,
    /// Everything that was decided about this run is durable once this position is (D-48).
    pub(super) position: Position,
    /// Raised by every change of what a Wait can depend on: messages, and Steps that begin to wait.
    pub(super) waits_stale: bool,
    /// Stands in for `waits_stale` in the store while one input's changes are cut into several decisions:
    /// if the node dies between two of them, the next one judges the Waits.
    pub(super) waits_timer: Option<Timer>,
    /// The Worker stream that ran the last method: the next one is offered there first.
    pub(super) last_stream: Option<StreamId>,
}

/// Encodes a record. Writing to a vector cannot fail.
pub(super) fn encode<T: Encode<()>>(record: &T) -> Vec<u8> {
    minicbor::to_vec(record).expect("writing to a vector cannot fail")
}

/// Why a run cannot be loaded.
#[derive(Debug)]
pub(super) enum LoadError {
    /// There is no such run.
    Missing,
    /// A record of it cannot be read.
    Damaged { key: Vec<u8>, detail: alloc::string::String },
}

/// Decodes a record.
pub(super) fn decode<T: for<'b> Decode<'b, ()>>(key: &[u8], value: &[u8]) -> Result<T, LoadError> {
    minicbor::decode(value)
        .map_err(|error| LoadError::Damaged { key: key.to_vec(), detail: alloc::format!("{error}") })
}

impl Run {
    pub(super) fn new(id: RunId, base: RunBase, head: RunHead) -> Self {
        Self {
            id,
            base,
            head,
            head_changed: true,
            listing_changed: true,
            is_new: true,
            steps: Tracked::default(),
            snapshots: Tracked::default(),
            inputs: Tracked::default(),
            attributes: Tracked::default(),
            messages: Tracked::default(),
            channel_sizes: BTreeMap::new(),
            new_events: Vec::new(),
            index_changes: Vec::new(),
            position: Position(0),
            waits_stale: false,
            waits_timer: None,
            last_stream: None,
        }
    }

    /// Reads a run. `position`: what its state may depend on at most.
    pub(super) fn load(id: RunId, state: &impl StateRead, position: Position) -> Result<Self, LoadError> {
        let base_key = keys::base(id);
        let base: RunBase = decode(&base_key, &state.get(&base_key).ok_or(LoadError::Missing)?)?;
        let mut run = Self::new(id, base, RunHead::default());
        run.is_new = false;
        run.head_changed = false;
        run.listing_changed = false;
        run.position = position;
        let (from, to) = keys::run_range(id);
        let mut failed = None;
        state.scan(&from, &to, &mut |key, value| match run.load_part(key, value) {
            Ok(()) => true,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(run),
        }
    }

    fn load_part(&mut self, key: &[u8], value: &[u8]) -> Result<(), LoadError> {
        match keys::part_of(key) {
            Some(b'b') => {}
            Some(b'h') => self.head = decode(key, value)?,
            Some(b'a') => {
                let entry: AttributeEntry = decode(key, value)?;
                self.attributes.load(entry.key, entry.value);
            }
            Some(b'm') => {
                let (channel, number, message): (Key, u64, Message) = decode(key, value)?;
                *self.channel_sizes.entry(channel.clone()).or_default() += 1;
                self.messages.load((channel, number), message);
            }
            Some(b'i') => {
                let (step, input): (StepExecutionId, Value) = decode(key, value)?;
                self.inputs.load(step, input);
            }
            Some(b'p') => {
                let (step, snapshot): (StepExecutionId, Snapshot) = decode(key, value)?;
                self.snapshots.load(step, snapshot);
            }
            Some(b's') => {
                let (step, record): (StepExecutionId, StepRecord) = decode(key, value)?;
                self.steps.load(step, record);
            }
            Some(_) | None => {
                let detail = "no such part of a run".into();
                return Err(LoadError::Damaged { key: key.to_vec(), detail });
            }
        }
        Ok(())
    }

    pub(super) fn head(&self) -> &RunHead {
        &self.head
    }

    pub(super) fn head_mut(&mut self) -> &mut RunHead {
        self.head_changed = true;
        &mut self.head
    }

    pub(super) fn is_active(&self) -> bool {
        self.head.status == FlowStatus::Running
    }

    /// Closes the books: from here on the run has this status.
    pub(super) fn set_closed(&mut self, status: FlowStatus, time: Timestamp) {
        let head = self.head_mut();
        head.status = status;
        head.close_time = Some(time);
        head.closing = None;
        self.listing_changed = true;
    }

    /// Writes an event to the history.
    pub(super) fn record_event(&mut self, time: Timestamp, kind: EventKind) {
        let head = self.head_mut();
        head.event_count += 1;
        let number = head.event_count;
        self.new_events.push(HistoryEvent { number, time, kind });
    }

    /// Changes an index key that belongs to this run.
    pub(super) fn change_index(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.index_changes.push(Change { key, value });
    }

    /// Events that the store does not have yet.
    pub(super) fn unsaved_events(&self) -> impl Iterator<Item = &HistoryEvent> {
        self.new_events.iter()
    }

    pub(super) fn timer(&self, due: Timestamp, kind: TimerKind) -> Timer {
        Timer { due, run_id: self.id, kind }
    }

    /// Collects everything that changed since the last call, as changes of the local store.
    pub(super) fn save(&mut self, changes: &mut Vec<Change>) {
        let id = self.id;
        let mut set = |key, value| changes.push(Change { key, value });
        if self.is_new {
            set(keys::base(id), Some(encode(&self.base)));
        }
        if self.head_changed {
            set(keys::head(id), Some(encode(&self.head)));
        }
        if self.listing_changed {
            let listing = Listing {
                flow_id: self.base.flow_id.clone(),
                flow_type: self.base.flow_type.clone(),
                status: self.head.status,
                close_time: self.head.close_time,
            };
            set(keys::listing(self.base.start_time, id), Some(encode(&listing)));
        }
        self.is_new = false;
        self.head_changed = false;
        self.listing_changed = false;
        self.attributes.drain_changes(|key, value| {
            let entry = value.map(|value| AttributeEntry { key: key.clone(), value: value.clone() });
            set(keys::attribute(id, key), entry.as_ref().map(encode));
        });
        self.messages.drain_changes(|(channel, number), message| {
            let value = message.map(|message| encode(&(channel, number, message)));
            set(keys::message(id, channel, *number), value);
        });
        self.inputs.drain_changes(|step, input| {
            set(keys::input(id, step), input.map(|input| encode(&(step, input))));
        });
        self.snapshots.drain_changes(|step, snapshot| {
            set(keys::snapshot(id, step), snapshot.map(|snapshot| encode(&(step, snapshot))));
        });
        self.steps.drain_changes(|step, record| {
            set(keys::step(id, step), record.map(|record| encode(&(step, record))));
        });
        for event in self.new_events.drain(..) {
            set(keys::event(id, event.number), Some(encode(&event)));
        }
        changes.append(&mut self.index_changes);
    }

    // Attributes.

    pub(super) fn write_attributes(&mut self, writes: &[AttributeWrite]) {
        for write in writes {
            let old = match &write.value {
                Some(value) => self.attributes.insert(write.key.clone(), value.clone()),
                None => self.attributes.remove(&write.key),
            };
            let removed = old.as_ref().map_or(0, |old| attribute_bytes(&write.key, old));
            let added = write.value.as_ref().map_or(0, |new| attribute_bytes(&write.key, new));
            let head = self.head_mut();
            head.attribute_bytes = (head.attribute_bytes + added).saturating_sub(removed);
        }
    }

    pub(super) fn attributes(&self) -> impl Iterator<Item = (&Key, &AttributeValue)> {
        self.attributes.iter()
    }

    // Channels.

    pub(super) fn publish(&mut self, publication: &Publication, id: MessageId) {
        let head = self.head_mut();
        let number = head.next_message;
        head.next_message += 1;
        head.message_bytes += message_bytes(&publication.channel, &publication.value);
        let message = Message { id, value: publication.value.clone() };
        *self.channel_sizes.entry(publication.channel.clone()).or_default() += 1;
        self.messages.insert((publication.channel.clone(), number), message);
        self.waits_stale = true;
    }

    pub(super) fn channel_size(&self, channel: &Key) -> usize {
        self.channel_sizes.get(channel).copied().unwrap_or(0)
    }

    pub(super) fn channel_sizes(&self) -> impl Iterator<Item = (&Key, usize)> {
        self.channel_sizes.iter().map(|(channel, size)| (channel, *size))
    }

    fn channel_keys(&self, channel: &Key) -> impl Iterator<Item = &(Key, u64)> {
        self.messages.range_keys((channel.clone(), 0)..=(channel.clone(), u64::MAX))
    }

    fn remove_message(&mut self, key: &(Key, u64)) -> Option<Message> {
        let message = self.messages.remove(key)?;
        let size = self.channel_sizes.get_mut(&key.0).expect("a message counts in its Channel's size");
        *size -= 1;
        if *size == 0 {
            self.channel_sizes.remove(&key.0);
        }
        let head = self.head_mut();
        head.message_bytes = head.message_bytes.saturating_sub(message_bytes(&key.0, &message.value));
        self.waits_stale = true;
        Some(message)
    }

    /// Takes messages from the front of a Channel.
    pub(super) fn consume(&mut self, channel: &Key, count: usize) -> Vec<Message> {
        let keys: Vec<_> = self.channel_keys(channel).take(count).cloned().collect();
        if mutant::is(Mutant::MessageStays) {
            return keys.iter().filter_map(|key| self.messages.get(key).cloned()).collect();
        }
        keys.iter().filter_map(|key| self.remove_message(key)).collect()
    }

    /// Deletes a pending message; false if it is not there (any more).
    pub(super) fn delete_message(&mut self, deletion: &MessageDeletion) -> bool {
        let key = self.find_message(deletion).cloned();
        key.is_some_and(|key| self.remove_message(&key).is_some())
    }

    pub(super) fn has_message(&self, deletion: &MessageDeletion) -> bool {
        self.find_message(deletion).is_some()
    }

    fn find_message(&self, deletion: &MessageDeletion) -> Option<&(Key, u64)> {
        self.channel_keys(&deletion.channel)
            .find(|key| self.messages.get(key).is_some_and(|message| message.id == deletion.message))
    }

    pub(super) fn drop_messages(&mut self) {
        let keys: Vec<_> = self.messages.keys().cloned().collect();
        for key in keys {
            self.remove_message(&key);
        }
    }

    /// The pending messages of the Channels that `wanted` names.
    pub(super) fn pending_messages(&self, wanted: impl Fn(&Key) -> bool) -> Vec<ChannelMessages> {
        let mut found: Vec<ChannelMessages> = Vec::new();
        for ((channel, _), message) in self.messages.iter().filter(|((channel, _), _)| wanted(channel)) {
            match found.last_mut().filter(|last| last.channel == *channel) {
                Some(last) => last.messages.push(message.clone()),
                None => found.push(ChannelMessages {
                    channel: channel.clone(),
                    messages: alloc::vec![message.clone()],
                }),
            }
        }
        found
    }

    // Steps.

    /// Adds a Step execution, with its input.
    pub(super) fn add_step(&mut self, id: StepExecutionId, mut record: StepRecord, input: Option<Value>) {
        match input {
            Some(input) if input.data.len() > limits::INLINE_INPUT_BYTES => {
                self.inputs.insert(id.clone(), input);
            }
            Some(_) | None => record.input = input,
        }
        self.steps.insert(id, record);
    }

    /// The input of an active Step execution.
    pub(super) fn input(&self, id: &StepExecutionId) -> Option<Value> {
        self.inputs.get(id).or_else(|| self.steps.get(id)?.input.as_ref()).cloned()
    }

    /// Forgets a Step execution and everything that stands beside it.
    pub(super) fn remove_step(&mut self, id: &StepExecutionId) -> Option<StepRecord> {
        self.inputs.remove(id);
        self.snapshots.remove(id);
        self.steps.remove(id)
    }

    /// The number of the next execution of a Step type.
    pub(super) fn next_step_id(&mut self, step_type: &Name) -> StepExecutionId {
        let count = self.head_mut().step_counts.entry(step_type.clone()).or_default();
        *count += 1;
        StepExecutionId { step_type: step_type.clone(), number: *count }
    }

    /// Durability of a method that is scheduled now (concepts.md 1.4): its own setting wins; with a
    /// recovery route it is SYNC; else the FlowConfig says.
    pub(super) fn durability(&self, options: &StepOptions, method: Method) -> Durability {
        let (own, has_route) = match method {
            Method::WaitFor => (
                options.wait_for.durability,
                options.wait_for_failure == super::model::WaitForFailurePolicy::Proceed,
            ),
            Method::Execute => (options.execute.durability, options.recovery.is_some()),
        };
        match own {
            Some(own) => own,
            None if has_route => Durability::Sync,
            None => self.head.config.step_durability.unwrap_or_default(),
        }
    }

    /// What a method call sees now.
    pub(super) fn snapshot(&self, loads: &[Load]) -> Snapshot {
        let sees_attribute = |key: &Key| {
            key.instance.is_none()
                || loads.iter().any(|load| match load {
                    Load::AttributeInstance(wanted) => wanted == key,
                    Load::AttributeMap(name) => *name == key.name,
                    Load::Channel(_) | Load::ChannelMap(_) => false,
                })
        };
        let sees_channel = |channel: &Key| {
            loads.iter().any(|load| match load {
                Load::Channel(wanted) => wanted == channel,
                Load::ChannelMap(name) => *name == channel.name && channel.instance.is_some(),
                Load::AttributeInstance(_) | Load::AttributeMap(_) => false,
            })
        };
        let wants_messages = loads.iter().any(|load| matches!(load, Load::Channel(_) | Load::ChannelMap(_)));
        Snapshot {
            attributes: self
                .attributes
                .iter()
                .filter(|(key, _)| sees_attribute(key))
                .map(|(key, value)| AttributeEntry { key: key.clone(), value: value.clone() })
                .collect(),
            channel_sizes: self
                .channel_sizes()
                .map(|(channel, size)| ChannelSize {
                    channel: channel.clone(),
                    size: u32::try_from(size).unwrap_or(u32::MAX),
                })
                .collect(),
            messages: if wants_messages { self.pending_messages(sees_channel) } else { Vec::new() },
        }
    }
}

/// What an Attribute value counts against the limit of its run, in bytes.
pub(super) fn attribute_bytes(key: &Key, value: &AttributeValue) -> u64 {
    let bytes = match value {
        AttributeValue::String(text) => text.len(),
        AttributeValue::Int(_) | AttributeValue::Double(_) | AttributeValue::Bool(_) => 8,
        AttributeValue::Object(object) => object.data.len(),
    };
    (key_bytes(key) + bytes) as u64 + RECORD_OVERHEAD_BYTES
}

/// What a message counts against the limit of its run, in bytes.
pub(super) fn message_bytes(channel: &Key, value: &Value) -> u64 {
    (key_bytes(channel) + value.data.len()) as u64 + RECORD_OVERHEAD_BYTES
}

fn key_bytes(key: &Key) -> usize {
    key.name.len() + key.instance.as_ref().map_or(0, |instance| instance.len())
}

/// Keys and framing of one record, roughly: small values are not free, and dropping all of them at once
/// must fit into an entry too.
const RECORD_OVERHEAD_BYTES: u64 = 64;
