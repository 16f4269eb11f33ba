//! Every record of the local store, for a checker that feeds it arbitrary bytes.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::frame::{AttributeEntry, Snapshot};
use super::history::HistoryEvent;
use super::keys::TimerKind;
use super::model::{Key, Message, Value};
use super::record::{CurrentRun, Listing, RunBase, RunHead, StepRecord, StoredAnswer, WorkItem};
use crate::ids::StepExecutionId;

/// How many types of record there are.
pub const STORED_RECORDS: u8 = 12;

/// Decodes `bytes` as the record of this type, encodes it and decodes it again. False: it is none.
///
/// # Panics
///
/// If what was read is not written the same.
#[must_use]
pub fn check_stored_record(record: u8, bytes: &[u8]) -> bool {
    match record % STORED_RECORDS {
        0 => is_read_as_written::<CurrentRun>(bytes),
        1 => is_read_as_written::<RunBase>(bytes),
        2 => is_read_as_written::<RunHead>(bytes),
        3 => is_read_as_written::<(StepExecutionId, StepRecord)>(bytes),
        4 => is_read_as_written::<WorkItem>(bytes),
        5 => is_read_as_written::<StoredAnswer>(bytes),
        6 => is_read_as_written::<Listing>(bytes),
        7 => is_read_as_written::<HistoryEvent>(bytes),
        8 => is_read_as_written::<AttributeEntry>(bytes),
        9 => is_read_as_written::<(Key, u64, Message)>(bytes),
        10 => is_read_as_written::<(StepExecutionId, Value)>(bytes) | is_read_as_written::<TimerKind>(bytes),
        _ => is_read_as_written::<(StepExecutionId, Snapshot)>(bytes),
    }
}

fn is_read_as_written<T: for<'b> Decode<'b, ()> + Encode<()>>(bytes: &[u8]) -> bool {
    let Ok(record) = minicbor::decode::<T>(bytes) else {
        return false;
    };
    // Bytes are compared, not records: a NaN in an Attribute equals nothing.
    let written = to_bytes(&record);
    let again: T = minicbor::decode(&written).expect("what was written is read");
    assert_eq!(to_bytes(&again), written, "what was read is written the same");
    true
}

fn to_bytes(record: &impl Encode<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    minicbor::encode(record, &mut bytes).expect("writing to memory does not fail");
    bytes
}
