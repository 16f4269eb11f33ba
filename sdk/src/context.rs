//! What a handler sees and what it may do besides deciding.

use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use dexzd_proto as proto;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cancel::{CancelReason, Cancellation};
use crate::error::StepError;
use crate::flow::FlowDefinition;
use crate::options::Load;
use crate::schema::{Attribute, Channel, Key};
use crate::value;
use crate::wait::{Conditions, NAMES_LOCAL};
use crate::worker::{FrameSender, HeartbeatSlot};

/// One call of a handler.
///
/// - **Who am I**: [`flow_id`](Self::flow_id), [`run_id`](Self::run_id),
///   [`step_execution_id`](Self::step_execution_id), [`attempt`](Self::attempt),
///   [`deadline`](Self::deadline), [`idempotency_key`](Self::idempotency_key).
/// - **What happened before**: [`recovery`](Self::recovery), [`last_checkpoint`](Self::last_checkpoint),
///   [`local`](Self::local).
/// - **State, as the first attempt found it, plus what this call has staged**: [`get`](Self::get),
///   [`channel_size`](Self::channel_size), [`messages`](Self::messages).
/// - **Effects, which count when the result is accepted and not at all if the attempt fails**:
///   [`set`](Self::set), [`clear`](Self::clear), [`publish`](Self::publish),
///   [`delete_message`](Self::delete_message), [`set_local`](Self::set_local), [`record`](Self::record).
/// - **While running**: [`checkpoint`](Self::checkpoint), [`heartbeat`](Self::heartbeat),
///   [`cancelled`](Self::cancelled).
pub struct Context {
    task: Box<proto::Task>,
    flow: Arc<FlowDefinition>,
    cancellation: Arc<Cancellation>,
    frames: FrameSender,
    effects: Mutex<proto::Effects>,
    checkpoint: Mutex<Option<proto::Value>>,
    heartbeat: Arc<HeartbeatSlot>,
}

/// One execution of a Step: its type, and a number counted per type from 1 within the run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StepExecutionId {
    /// The Step type.
    pub step_type: String,
    /// From 1.
    pub number: u32,
}

/// Why a recovery Step runs, or what a failed WaitFor said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveryInfo {
    /// The type of the error that ended the last attempt.
    pub error_type: String,
    /// Its detail.
    pub detail: String,
    /// How far the failed Step is known to have come.
    pub progress: AttemptProgress,
}

/// How far the attempts of a failed Step are known to have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptProgress {
    /// A handler reported the failure.
    Reported,
    /// No attempt ever reached a Worker: nothing was done.
    NotStarted,
    /// An attempt reached a Worker and its outcome is unknown: its external effects may have happened.
    NotCompleted,
}

/// A pending Channel message.
#[derive(Clone, PartialEq, Debug)]
pub struct Message<T> {
    /// Assigned by the server; for [`Context::delete_message`].
    pub id: String,
    /// As published.
    pub value: T,
}

impl Context {
    pub(crate) fn new(
        task: Box<proto::Task>,
        flow: Arc<FlowDefinition>,
        cancellation: Arc<Cancellation>,
        frames: FrameSender,
    ) -> Self {
        Self {
            checkpoint: Mutex::new(task.checkpoint.clone()),
            heartbeat: Arc::new(HeartbeatSlot::new(task.handout)),
            task,
            flow,
            cancellation,
            frames,
            effects: Mutex::default(),
        }
    }

    /// The Flow's ID, chosen by the application.
    pub fn flow_id(&self) -> &str {
        &self.task.flow_id
    }

    /// The run's ID, assigned by the server.
    pub fn run_id(&self) -> &str {
        &self.task.run_id
    }

    /// The Flow type.
    pub fn flow_type(&self) -> &str {
        &self.task.flow_type
    }

    /// This execution of the Step.
    pub fn step_execution_id(&self) -> StepExecutionId {
        self.task.step.as_ref().map_or_else(
            || StepExecutionId { step_type: String::new(), number: 0 },
            |step| StepExecutionId { step_type: step.step_type.clone(), number: step.number },
        )
    }

    /// The attempt's number, from 1. External calls must not depend on it.
    pub fn attempt(&self) -> u32 {
        self.task.attempt
    }

    /// When the server gives the attempt up.
    pub fn deadline(&self) -> SystemTime {
        unix_time(self.task.deadline_unix_ms)
    }

    /// When the Flow was started.
    pub fn flow_start(&self) -> SystemTime {
        unix_time(self.task.flow_start_unix_ms)
    }

    /// A key that is equal for all attempts of this Step execution and differs from all others: Flow ID,
    /// run ID and Step execution ID. Pass it to every external call (FD-32).
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}/{}", self.task.flow_id, self.task.run_id, self.step_execution_id())
    }

    /// The idempotency key of one of several external calls of this Step execution.
    pub fn idempotency_key_for(&self, call: &str) -> String {
        format!("{}/{call}", self.idempotency_key())
    }

    /// In a recovery Step, or in Execute after a failed WaitFor: what went wrong.
    pub fn recovery(&self) -> Option<RecoveryInfo> {
        self.task.recovery.as_ref().map(|recovery| RecoveryInfo {
            error_type: recovery.error_type.clone(),
            detail: recovery.detail.clone(),
            progress: match recovery.progress() {
                proto::AttemptProgress::Unspecified => AttemptProgress::Reported,
                proto::AttemptProgress::NotStarted => AttemptProgress::NotStarted,
                proto::AttemptProgress::NotCompleted => AttemptProgress::NotCompleted,
            },
        })
    }

    /// In Execute: whether WaitFor failed for good, under
    /// [`proceed_after_wait_for_failure`](crate::StepOptions::proceed_after_wait_for_failure).
    pub fn wait_for_failed(&self) -> bool {
        self.task.wait_for_failed
    }

    /// An Attribute; None if it has no value. Instances of a map have to be loaded by the Step's options.
    pub fn get<T: DeserializeOwned>(&self, attribute: &Attribute<T>) -> Result<Option<T>, StepError> {
        let key = attribute.key();
        self.flow.schema.check_attribute(self.flow.flow_type, key)?;
        let staged =
            self.effects().attributes.iter().rev().find(|write| key.matches(write.key.as_ref())).cloned();
        let entries = self.task.snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.attributes);
        let found = staged.as_ref().or_else(|| entries.iter().find(|entry| key.matches(entry.key.as_ref())));
        match found.and_then(|entry| entry.value.as_ref()) {
            Some(value) => Ok(value::decode_attribute(value)?),
            None if staged.is_some() => Ok(None),
            None => {
                self.check_loaded(key, "load or load_map", |load| match load {
                    Load::AttributeInstance(instance) => instance == key,
                    Load::AttributeMap(name) => *name == key.name,
                    Load::Channel(_) | Load::ChannelMap(_) => false,
                })?;
                Ok(None)
            }
        }
    }

    /// Writes an Attribute. `null` (for example `None`) deletes it.
    pub fn set<T, V>(&self, attribute: &Attribute<T>, value: &V) -> Result<(), StepError>
    where
        T: Borrow<V>,
        V: Serialize + ?Sized,
    {
        let value = value::encode_attribute(value)?;
        self.write(attribute.key(), value)
    }

    /// Deletes an Attribute.
    pub fn clear<T>(&self, attribute: &Attribute<T>) -> Result<(), StepError> {
        self.write(attribute.key(), proto::AttributeValue { kind: None })
    }

    /// How many messages waited in a Channel when the first attempt began.
    pub fn channel_size<T>(&self, channel: &Channel<T>) -> Result<usize, StepError> {
        let key = channel.key();
        self.flow.schema.check_channel(self.flow.flow_type, key)?;
        let sizes = self.task.snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.channel_sizes);
        let size = sizes.iter().find(|size| key.matches(size.channel.as_ref()));
        Ok(size.map_or(0, |size| size.size as usize))
    }

    /// The pending messages of a Channel, oldest first. They have to be loaded by the Step's options.
    pub fn messages<T: DeserializeOwned>(&self, channel: &Channel<T>) -> Result<Vec<Message<T>>, StepError> {
        let key = channel.key();
        self.flow.schema.check_channel(self.flow.flow_type, key)?;
        let channels = self.task.snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.messages);
        let Some(found) = channels.iter().find(|found| key.matches(found.channel.as_ref())) else {
            self.check_loaded(key, "load_messages or load_all_messages", |load| match load {
                Load::Channel(channel) => channel == key,
                Load::ChannelMap(name) => key.instance.is_some() && *name == key.name,
                Load::AttributeInstance(_) | Load::AttributeMap(_) => false,
            })?;
            return Ok(Vec::new());
        };
        let messages = found.messages.iter().map(|message| {
            Ok(Message { id: message.message_id.clone(), value: value::decode(message.value.as_ref())? })
        });
        messages.collect()
    }

    /// Publishes a message to a Channel of this Flow.
    pub fn publish<T, V>(&self, channel: &Channel<T>, value: &V) -> Result<(), StepError>
    where
        T: Borrow<V>,
        V: Serialize + ?Sized,
    {
        let key = channel.key();
        self.flow.schema.check_channel(self.flow.flow_type, key)?;
        let value = value::encode(value)?;
        self.effects()
            .publications
            .push(proto::Publication { channel: Some(key.to_proto()), value: Some(value) });
        Ok(())
    }

    /// Deletes a pending message. Best effort: one that is gone is ignored.
    pub fn delete_message<T>(&self, channel: &Channel<T>, message_id: &str) -> Result<(), StepError> {
        let key = channel.key();
        self.flow.schema.check_channel(self.flow.flow_type, key)?;
        if message_id.len() != 32 || !message_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(StepError::new(
                "InvalidMessageId",
                format_args!(
                    "{message_id:?} is no message ID: take one from Context::messages, 32 hexadecimal digits"
                ),
            ));
        }
        self.effects().deletions.push(proto::MessageDeletion {
            channel: Some(key.to_proto()),
            message_id: message_id.to_owned(),
        });
        Ok(())
    }

    /// In WaitFor: keeps a value for Execute of the same Step execution.
    pub fn set_local<V: Serialize + ?Sized>(&self, name: &str, value: &V) -> Result<(), StepError> {
        if self.task.method() != proto::Method::WaitFor {
            return Err(StepError::new(
                "LocalOutsideWaitFor",
                format_args!(
                    "the local {name:?} is set outside WaitFor, and nothing could read it: use an Attribute"
                ),
            ));
        }
        if name.starts_with('$') {
            return Err(StepError::new(
                "ReservedName",
                format_args!("the local {name:?} begins with '$', which belongs to the library"),
            ));
        }
        let value = Some(value::encode(value)?);
        self.effects().locals.push(proto::NamedValue { name: name.to_owned(), value });
        Ok(())
    }

    /// In Execute: a value that WaitFor kept.
    pub fn local<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StepError> {
        let local = self.task.locals.iter().find(|local| local.name == name);
        local.map(|local| value::decode(local.value.as_ref())).transpose().map_err(StepError::from)
    }

    /// Writes a named value to the Flow's history.
    pub fn record<V: Serialize + ?Sized>(&self, name: &str, value: &V) -> Result<(), StepError> {
        let value = Some(value::encode(value)?);
        self.effects().events.push(proto::NamedValue { name: name.to_owned(), value });
        Ok(())
    }

    /// The newest checkpoint that an earlier attempt of this method left, or this one has sent.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, StepError> {
        let checkpoint = lock(&self.checkpoint);
        checkpoint
            .as_ref()
            .map(|checkpoint| value::decode(Some(checkpoint)))
            .transpose()
            .map_err(StepError::from)
    }

    /// Heartbeat with a checkpoint: the next attempt gets the latest one that was stored. One may be
    /// lost, so work after it must be repeatable (FD-14). It leaves at once; if the connection is slow, a
    /// newer one takes the place of one that still waits.
    pub fn checkpoint<V: Serialize + ?Sized>(&self, value: &V) -> Result<(), StepError> {
        let value = value::encode(value)?;
        self.send_heartbeat(Some(value));
        Ok(())
    }

    /// Heartbeat that repeats the latest checkpoint.
    pub fn keep_alive(&self) {
        let checkpoint = lock(&self.checkpoint).clone();
        self.send_heartbeat(checkpoint);
    }

    /// Heartbeat without a checkpoint: shows that the handler is alive **and clears the stored
    /// checkpoint**. See [`keep_alive`](Self::keep_alive).
    pub fn heartbeat(&self) {
        self.send_heartbeat(None);
    }

    /// The heartbeat timeout, if the Step has one: send something at least that often.
    pub fn heartbeat_timeout(&self) -> Option<Duration> {
        let timeout = self.task.heartbeat_timeout_ms?;
        Some(Duration::from_millis(u64::try_from(timeout).unwrap_or(0)))
    }

    /// Ends when nobody wants the result any more, or the Worker stops and asks to be quick. Handlers that
    /// take long should watch it; others may ignore it.
    pub async fn cancelled(&self) -> CancelReason {
        self.cancellation.cancelled().await
    }

    /// Whether [`cancelled`](Self::cancelled) has come, and why.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.cancellation.reason()
    }

    pub(crate) fn input(&self) -> Option<&proto::Value> {
        self.task.input.as_ref()
    }

    pub(crate) fn conditions(&self) -> Conditions {
        let names = self.task.locals.iter().find(|local| local.name == NAMES_LOCAL);
        Conditions::new(self.task.conditions.clone(), names.and_then(|names| names.value.as_ref()))
    }

    pub(crate) fn flow(&self) -> &FlowDefinition {
        &self.flow
    }

    pub(crate) fn task(&self) -> &proto::Task {
        &self.task
    }

    pub(crate) fn take_effects(&self) -> proto::Effects {
        std::mem::take(&mut *self.effects())
    }

    fn write(&self, key: &Key, value: proto::AttributeValue) -> Result<(), StepError> {
        self.flow.schema.check_attribute(self.flow.flow_type, key)?;
        self.effects()
            .attributes
            .push(proto::AttributeEntry { key: Some(key.to_proto()), value: Some(value) });
        Ok(())
    }

    /// What is absent from the snapshot is empty only if the snapshot was told to hold it. Plain Attributes
    /// always are in it.
    fn check_loaded(
        &self,
        key: &Key,
        method: &str,
        is_loaded: impl Fn(&Load) -> bool,
    ) -> Result<(), StepError> {
        let is_plain_attribute = key.instance.is_none() && method.starts_with("load or");
        let step_type = self.task.step.as_ref().map_or("", |step| step.step_type.as_str());
        let loads = self.flow.step(step_type).map_or(&[][..], |entry| match self.task.method() {
            proto::Method::WaitFor => entry.options.wait_for.loads(),
            proto::Method::Execute | proto::Method::Unspecified => entry.options.execute.loads(),
        });
        if is_plain_attribute || loads.iter().any(is_loaded) {
            return Ok(());
        }
        Err(StepError::new(
            "NotLoaded",
            format_args!(
                "{key} is not loaded for this method: add it to the MethodOptions in {step_type}::options() with {method}"
            ),
        ))
    }

    fn send_heartbeat(&self, checkpoint: Option<proto::Value>) {
        lock(&self.checkpoint).clone_from(&checkpoint);
        if self.cancellation.accepts_result() {
            self.frames.send_heartbeat(&self.heartbeat, checkpoint);
        }
    }

    fn effects(&self) -> MutexGuard<'_, proto::Effects> {
        lock(&self.effects)
    }
}

/// A handler that panicked while it held the lock has failed; nothing of it is used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_time(unix_ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(unix_ms).unwrap_or(0))
}

impl fmt::Display for StepExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.step_type, self.number)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("flow_id", &self.task.flow_id)
            .field("run_id", &self.task.run_id)
            .field("step", &self.step_execution_id())
            .field("attempt", &self.task.attempt)
            .finish_non_exhaustive()
    }
}
