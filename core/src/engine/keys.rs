//! Where everything stands in the local store.
//!
//! | key | value | read when |
//! | --- | --- | --- |
//! | `c` flow id | [`CurrentRun`](super::record::CurrentRun) | a call names a Flow ID |
//! | `r` run, `b` | `RunBase`: what never changes | the run is loaded |
//! | `r` run, `h` | `RunHead`: what changes | the run is loaded |
//! | `r` run, `a` key | an Attribute | the run is loaded |
//! | `r` run, `m` key, number | a pending message | the run is loaded |
//! | `r` run, `i` step | a large input of an active Step execution | the run is loaded |
//! | `r` run, `p` step | the first attempt's snapshot | the run is loaded |
//! | `r` run, `s` step | `StepRecord` of an active Step execution | the run is loaded |
//! | `d` run, request id | the stored answer of a mutating call (D-35) | the request is repeated |
//! | `e` run, number | a history event | history is asked for |
//! | `t` due, run, kind | nothing: a durable timer | its time comes near |
//! | `v` start (newest first), run | `Listing` | somebody searches |
//! | `w` work id | `WorkItem`: a queued or running method call | recovery |
//!
//! Numbers are big-endian, so that key order is number order; names are prefixed by their length.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::model::Key;
use crate::ids::{Epoch, Name, RunId, StepExecutionId};
use crate::time::Timestamp;

/// The place of a method call in the task queue: older epochs first, then older calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub(super) struct WorkId {
    #[n(0)]
    pub(super) epoch: Epoch,
    #[n(1)]
    pub(super) counter: u64,
}

/// One durable timer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Timer {
    pub(super) due: Timestamp,
    pub(super) run_id: RunId,
    pub(super) kind: TimerKind,
}

/// What a durable timer is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub(super) enum TimerKind {
    /// The Flow's timeout.
    #[n(0)]
    FlowTimeout,
    /// The first Step may run.
    #[n(1)]
    StartDelay(#[n(0)] StepExecutionId),
    /// A failed method call is queued again.
    #[n(2)]
    Backoff(#[n(0)] StepExecutionId),
    /// The earliest timer of a stored Wait.
    #[n(3)]
    Condition(#[n(0)] StepExecutionId),
    /// A cooperative stop has waited long enough.
    #[n(4)]
    Closing,
    /// A closed run is deleted.
    #[n(5)]
    Retention,
    /// Waits of the run are to be judged: set if a decision had to be cut before that was done.
    #[n(6)]
    Waits,
}

fn with_name(key: &mut Vec<u8>, name: &str) {
    let length = u16::try_from(name.len()).expect("validation keeps every name below 256 bytes");
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(name.as_bytes());
}

fn with_key(bytes: &mut Vec<u8>, key: &Key) {
    with_name(bytes, &key.name);
    if let Some(instance) = &key.instance {
        with_name(bytes, instance);
    }
}

fn with_step(bytes: &mut Vec<u8>, step: &StepExecutionId) {
    with_name(bytes, &step.step_type);
    bytes.extend_from_slice(&step.number.to_be_bytes());
}

fn of_run(kind: u8, run_id: RunId) -> Vec<u8> {
    let mut key = Vec::with_capacity(48);
    key.push(kind);
    key.extend_from_slice(&run_id.0.to_be_bytes());
    key
}

pub(super) fn current_run(flow_id: &Name) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + flow_id.len());
    key.push(b'c');
    key.extend_from_slice(flow_id.as_bytes());
    key
}

/// Everything that is loaded with a run.
pub(super) fn run_range(run_id: RunId) -> (Vec<u8>, Vec<u8>) {
    prefix_range(of_run(b'r', run_id))
}

fn part(run_id: RunId, part: u8) -> Vec<u8> {
    let mut key = of_run(b'r', run_id);
    key.push(part);
    key
}

pub(super) fn base(run_id: RunId) -> Vec<u8> {
    part(run_id, b'b')
}

pub(super) fn head(run_id: RunId) -> Vec<u8> {
    part(run_id, b'h')
}

pub(super) fn attribute(run_id: RunId, attribute: &Key) -> Vec<u8> {
    let mut key = part(run_id, b'a');
    with_key(&mut key, attribute);
    key
}

pub(super) fn message(run_id: RunId, channel: &Key, number: u64) -> Vec<u8> {
    let mut key = part(run_id, b'm');
    with_key(&mut key, channel);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(super) fn input(run_id: RunId, step: &StepExecutionId) -> Vec<u8> {
    let mut key = part(run_id, b'i');
    with_step(&mut key, step);
    key
}

pub(super) fn snapshot(run_id: RunId, step: &StepExecutionId) -> Vec<u8> {
    let mut key = part(run_id, b'p');
    with_step(&mut key, step);
    key
}

pub(super) fn step(run_id: RunId, step: &StepExecutionId) -> Vec<u8> {
    let mut key = part(run_id, b's');
    with_step(&mut key, step);
    key
}

/// The part letter of a key in [`run_range`].
pub(super) fn part_of(key: &[u8]) -> Option<u8> {
    key.get(17).copied()
}

pub(super) fn answer(run_id: RunId, request_id: &Name) -> Vec<u8> {
    let mut key = of_run(b'd', run_id);
    key.extend_from_slice(request_id.as_bytes());
    key
}

pub(super) fn answer_range(run_id: RunId) -> (Vec<u8>, Vec<u8>) {
    prefix_range(of_run(b'd', run_id))
}

pub(super) fn event(run_id: RunId, number: u64) -> Vec<u8> {
    let mut key = of_run(b'e', run_id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(super) fn event_range(run_id: RunId) -> (Vec<u8>, Vec<u8>) {
    prefix_range(of_run(b'e', run_id))
}

pub(super) fn timer(timer: &Timer) -> Vec<u8> {
    let mut key = timers_from(timer.due);
    key.extend_from_slice(&timer.run_id.0.to_be_bytes());
    minicbor::encode(&timer.kind, &mut key).expect("writing to a vector cannot fail");
    key
}

/// Before every timer that is due at `due` or later.
pub(super) fn timers_from(due: Timestamp) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.push(b't');
    key.extend_from_slice(&due.as_micros().to_be_bytes());
    key
}

pub(super) fn timers_end() -> Vec<u8> {
    alloc::vec![b't' + 1]
}

pub(super) fn parse_timer(key: &[u8]) -> Option<Timer> {
    let due = u64::from_be_bytes(key.get(1..9)?.try_into().ok()?);
    let run_id = u128::from_be_bytes(key.get(9..25)?.try_into().ok()?);
    let kind = minicbor::decode(key.get(25..)?).ok()?;
    Some(Timer { due: Timestamp::from_micros(due), run_id: RunId(run_id), kind })
}

pub(super) fn listing(start_time: Timestamp, run_id: RunId) -> Vec<u8> {
    let mut key = Vec::with_capacity(25);
    key.push(b'v');
    key.extend_from_slice(&(u64::MAX - start_time.as_micros()).to_be_bytes());
    key.extend_from_slice(&run_id.0.to_be_bytes());
    key
}

/// All listings, newest start first.
pub(super) fn listing_range() -> (Vec<u8>, Vec<u8>) {
    prefix_range(alloc::vec![b'v'])
}

pub(super) fn parse_listing(key: &[u8]) -> Option<(Timestamp, RunId)> {
    let inverted = u64::from_be_bytes(key.get(1..9)?.try_into().ok()?);
    let run_id = u128::from_be_bytes(key.get(9..25)?.try_into().ok()?);
    Some((Timestamp::from_micros(u64::MAX - inverted), RunId(run_id)))
}

pub(super) fn work(work: WorkId) -> Vec<u8> {
    let mut key = Vec::with_capacity(17);
    key.push(b'w');
    key.extend_from_slice(&work.epoch.0.to_be_bytes());
    key.extend_from_slice(&work.counter.to_be_bytes());
    key
}

pub(super) fn work_end() -> Vec<u8> {
    alloc::vec![b'w' + 1]
}

pub(super) fn parse_work(key: &[u8]) -> Option<WorkId> {
    let epoch = u64::from_be_bytes(key.get(1..9)?.try_into().ok()?);
    let counter = u64::from_be_bytes(key.get(9..17)?.try_into().ok()?);
    Some(WorkId { epoch: Epoch(epoch), counter })
}

/// The smallest key behind `key`.
pub(super) fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// All keys that begin with `prefix`. No prefix in use ends in 0xff bytes alone.
fn prefix_range(prefix: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    (prefix, end)
}
