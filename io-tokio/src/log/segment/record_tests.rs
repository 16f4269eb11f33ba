use proptest::prelude::*;

use super::*;

const SALT: u32 = 7;
const FIRST: Position = Position(5);

/// A file of records for these entries, followed by zeros.
fn file_of(entries: &[Vec<u8>], zeros: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        encode(&mut file, SALT, Position(FIRST.0 + index as u64), entry);
    }
    let end = file.len() + zeros;
    file.resize(end, 0);
    file
}

fn entries_of(file: &[u8], scan: &Scan) -> Vec<Vec<u8>> {
    let range = |record: &Record| record.entry_at..record.entry_at + record.entry_bytes;
    scan.records.iter().map(|record| file[range(record)].to_vec()).collect()
}

#[test]
fn ha_014_review_10_9_a_record_of_another_segment_is_no_record() {
    let mut file = Vec::new();
    encode(&mut file, SALT + 1, FIRST, b"entry");
    assert_eq!(scan(&file, 0, SALT, FIRST), Scan { records: vec![], end_at: 0, tail: Tail::Torn });
}

#[test]
fn ha_014_a_record_of_an_unexpected_position_is_damage() {
    let file = file_of(&[b"entry".to_vec()], 100);
    let found = scan(&file, 0, SALT, Position(FIRST.0 - 1));
    assert_eq!(found, Scan { records: vec![], end_at: 0, tail: Tail::Damaged });
}

#[test]
fn ha_014_an_overwritten_length_does_not_hide_the_records_behind() {
    let mut file = file_of(&[vec![1; 100], vec![2; 100], vec![3; 100]], 64);
    for length in [0_u32, 1, 99, 101, u32::MAX] {
        file[record_bytes(100)..record_bytes(100) + 4].copy_from_slice(&length.to_le_bytes());
        let found = scan(&file, 0, SALT, FIRST);
        assert_eq!((found.records.len(), found.tail), (1, Tail::Damaged), "{length}");
    }
}

fn any_entries() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..60), 1..8)
}

proptest! {
    #[test]
    fn ha_014_records_are_found_again(entries in any_entries(), zeros in 0..50_usize) {
        let file = file_of(&entries, zeros);
        let found = scan(&file, 0, SALT, FIRST);
        prop_assert_eq!(entries_of(&file, &found), entries);
        prop_assert_eq!((found.end_at, found.tail), (file.len() - zeros, Tail::Clean));
    }

    /// A crash tears the last record anywhere: what was before it is found, and nothing is called damaged.
    #[test]
    fn ha_008_a_torn_last_record_is_the_end(
        entries in any_entries(),
        at in any::<prop::sample::Index>(),
        filled_with_zeros in any::<bool>(),
    ) {
        let (_, before) = entries.split_last().expect("there is one");
        let whole = file_of(&entries, 0);
        let last_at = file_of(before, 0).len();
        // A record whose missing part is zero anyway is whole.
        let torn_at = last_at + at.index(whole.len() - last_at);
        prop_assume!(whole[torn_at..].iter().any(|byte| *byte != 0));
        let mut file = whole[..torn_at].to_vec();
        if filled_with_zeros {
            file.resize(whole.len() + 64, 0);
        }
        let found = scan(&file, 0, SALT, FIRST);
        prop_assert_eq!(entries_of(&file, &found), before);
        prop_assert_ne!(found.tail, Tail::Damaged);
    }

    /// A changed byte in any record but the last is damage, for a record follows it.
    #[test]
    fn ha_014_damage_in_the_middle_is_told_from_the_end(
        entries in any_entries(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        prop_assume!(entries.len() > 1);
        let (_, before) = entries.split_last().expect("there is one");
        let mut file = file_of(&entries, 64);
        let at = at.index(file_of(before, 0).len());
        file[at] ^= flip;
        let found = scan(&file, 0, SALT, FIRST);
        if found.records.len() == entries.len() {
            // Padding between records says nothing.
            prop_assert_eq!(found.tail, Tail::Clean);
            prop_assert_eq!(entries_of(&file, &found), entries);
        } else {
            prop_assert_eq!(found.tail, Tail::Damaged);
        }
    }

    #[test]
    fn ha_014_arbitrary_bytes_are_no_records(file in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(scan(&file, 0, SALT, FIRST).records, vec![]);
    }
}
