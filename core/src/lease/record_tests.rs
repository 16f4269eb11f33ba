use super::driver::{ME, held_by, node};
use super::record::{FORMAT_VERSION, LeaseRecord, LeaseState, Nonce, Unreadable};
use super::{HIGHEST_EPOCH, LONGEST_RECORD_BYTES, LeaseDuration};
use crate::ids::{Blob, Epoch, Name, Position, ProcessId};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn decode(bytes: &[u8]) -> Result<LeaseRecord, Unreadable> {
    LeaseRecord::decode(bytes, &node())
}

#[test]
fn ha_001_a_record_reads_back_as_written() {
    let record = held_by(ME, 7, 3);
    assert_eq!(decode(&record.encode()), Ok(record));
}

#[test]
fn d_049_bytes_that_are_no_lease_are_unreadable() {
    let whole = held_by(ME, 7, 3).encode();
    assert_eq!(decode(b""), Err(Unreadable::Damaged));
    assert_eq!(decode(b"not a lease"), Err(Unreadable::Damaged));
    assert_eq!(decode(&whole[..whole.len() - 1]), Err(Unreadable::Damaged));
    let mut tail = whole.to_vec();
    tail.push(0);
    assert_eq!(decode(&tail), Err(Unreadable::Damaged));
    assert_eq!(decode(&vec![0; LONGEST_RECORD_BYTES + 1]), Err(Unreadable::Damaged));
}

#[test]
fn d_049_every_flipped_bit_is_noticed() {
    let record = held_by(ME, 7, 3);
    let whole = record.encode();
    for index in 0..whole.len() * 8 {
        let mut bytes = whole.to_vec();
        bytes[index / 8] ^= 1 << (index % 8);
        assert!(decode(&bytes).is_err(), "bit {index} changed the lease unnoticed");
    }
}

#[test]
fn d_049_a_newer_format_is_named_whatever_follows_it() {
    let mut bytes = Vec::new();
    let mut encoder = minicbor::Encoder::new(&mut bytes);
    encoder.array(2).unwrap().u32(FORMAT_VERSION + 1).unwrap().str("anything").unwrap();
    assert_eq!(decode(&bytes), Err(Unreadable::NewerFormat { found: FORMAT_VERSION + 1 }));
}

#[test]
fn d_049_a_foreign_node_is_named() {
    let record = LeaseRecord { node_id: Name::new("node-b"), ..held_by(ME, 7, 3) };
    assert_eq!(decode(&record.encode()), Err(Unreadable::ForeignNode { found: Name::new("node-b") }));
}

#[test]
fn ha_013_an_epoch_of_zero_or_beyond_the_highest_is_damage() {
    for epoch in [Epoch(0), Epoch(HIGHEST_EPOCH.0 + 1), Epoch(u64::MAX)] {
        let record = LeaseRecord { epoch, ..held_by(ME, 7, 3) };
        assert_eq!(decode(&record.encode()), Err(Unreadable::Damaged));
    }
}

#[test]
fn d_003_a_duration_outside_3_s_to_1_h_cannot_be_read() {
    for millis in [0, 2_999, 3_600_001, u64::MAX] {
        assert_eq!(LeaseDuration::from_millis(millis), None);
        let mut bytes = Vec::new();
        minicbor::Encoder::new(&mut bytes).u64(millis).unwrap();
        assert!(minicbor::decode::<LeaseDuration>(&bytes).is_err());
    }
    for millis in [3_000, 3_600_000] {
        assert_eq!(LeaseDuration::from_millis(millis).map(LeaseDuration::as_millis), Some(millis));
    }
}

proptest! {
    #[test]
    fn ha_001_every_record_reads_back_as_written(
        epoch in 1..=HIGHEST_EPOCH.0, holder: u128, held: bool, duration in 3_000..=3_600_000_u64,
        counter: u64, entropy: u64, trimmed: u64, end: u64,
    ) {
        let record = LeaseRecord {
            node_id: node(),
            epoch: Epoch(epoch),
            holder: ProcessId(holder),
            state: if held { LeaseState::Held } else { LeaseState::Free },
            duration: LeaseDuration::from_millis(duration).unwrap(),
            nonce: Nonce { process_id: ProcessId(holder), counter, entropy },
            trimmed_below: Position(trimmed),
            log_end: Position(end),
        };
        prop_assert_eq!(decode(&record.encode()), Ok(record));
    }

    #[test]
    fn d_049_no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&Blob::from(bytes));
    }
}
