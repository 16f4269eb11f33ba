use std::string::String;
use std::vec;
use std::vec::Vec;

use minicbor::Encoder;
use proptest::prelude::*;

use super::*;

fn entry(body: EntryBody) -> Entry {
    Entry {
        origin: Origin { node_id: Name::new("orders"), process_id: ProcessId(7), epoch: Epoch(3) },
        position: Position(12),
        nonce: 99,
        time: Timestamp::from_millis(1_000),
        previous: Chain([5; 32]),
        body,
    }
}

/// The bytes with a checksum that fits them.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let chain = checksum(&bytes);
    bytes[CHECKSUM_AT..CONTENT_AT].copy_from_slice(&chain.0);
    bytes
}

fn with_format(format: u32) -> Vec<u8> {
    let (bytes, _) = entry(EntryBody::Changes(vec![])).encode();
    let mut bytes = bytes.to_vec();
    bytes[FORMAT_AT..CHECKSUM_AT].copy_from_slice(&format.to_be_bytes());
    bytes
}

#[test]
fn ha_014_an_entry_of_a_newer_format_is_refused_by_its_number() {
    let found = FORMAT_VERSION + 1;
    assert_eq!(
        Entry::decode(&resealed(with_format(found)), "orders"),
        Err(EntryError::NewerFormat { found })
    );
    assert_eq!(Entry::decode(&resealed(with_format(0)), "orders"), Err(EntryError::Damaged));
}

#[test]
fn ha_014_a_flipped_version_is_damage_and_not_a_newer_format() {
    assert_eq!(Entry::decode(&with_format(FORMAT_VERSION + 1), "orders"), Err(EntryError::Damaged));
}

#[test]
fn ha_014_an_entry_of_another_node_is_refused_by_its_name() {
    let (bytes, _) = entry(EntryBody::Changes(vec![])).encode();
    assert_eq!(
        Entry::decode(&bytes, "payments"),
        Err(EntryError::ForeignNode { found: Name::new("orders") })
    );
}

#[test]
fn ha_014_bytes_after_an_entry_are_damage() {
    let (bytes, _) = entry(EntryBody::Fence { lease_duration_ms: 30_000 }).encode();
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert_eq!(Entry::decode(&resealed(longer), "orders"), Err(EntryError::Damaged));
}

#[test]
fn d_042_a_fence_records_the_lease_duration() {
    let fence = entry(EntryBody::Fence { lease_duration_ms: 30_000 });
    let (bytes, chain) = fence.encode();
    assert_eq!(Entry::decode(&bytes, "orders"), Ok((fence, chain)));
}

#[test]
fn d_043_an_entry_follows_only_the_end_that_it_names() {
    let entry = entry(EntryBody::Changes(vec![]));
    let end = |position, byte| LogEnd { position: Position(position), chain: Chain([byte; 32]) };
    assert_eq!(entry.follows(&end(11, 5)), Ok(()));
    assert_eq!(entry.follows(&end(11, 6)), Err(EntryError::BrokenChain));
    assert_eq!(entry.follows(&end(10, 5)), Err(EntryError::BrokenChain));
    assert_eq!(entry.follows(&end(12, 5)), Err(EntryError::BrokenChain));
}

#[test]
fn ha_014_the_checksum_covers_the_previous_one() {
    let first = entry(EntryBody::Changes(vec![]));
    let mut second = first.clone();
    second.previous = Chain([6; 32]);
    assert_ne!(first.encode().1, second.encode().1);
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let change = (bytes(), proptest::option::of(bytes())).prop_map(|(key, value)| Change { key, value });
    let body = prop_oneof![
        any::<u64>().prop_map(|lease_duration_ms| EntryBody::Fence { lease_duration_ms }),
        proptest::collection::vec(change, 0..6).prop_map(EntryBody::Changes),
    ];
    let numbers = any::<(u64, u64, u64, u64, u128)>();
    ("[a-zé-]{0,20}", numbers, any::<[u8; 32]>(), body).prop_map(
        |(node_id, (epoch, position, nonce, micros, process), previous, body)| Entry {
            origin: Origin {
                node_id: Name::from(String::from(&*node_id)),
                process_id: ProcessId(process),
                epoch: Epoch(epoch),
            },
            position: Position(position),
            nonce,
            time: Timestamp::from_micros(micros),
            previous: Chain(previous),
            body,
        },
    )
}

proptest! {
    #[test]
    fn ha_014_what_is_encoded_decodes_to_itself(entry in any_entry()) {
        let (bytes, chain) = entry.encode();
        let node_id = entry.origin.node_id.clone();
        prop_assert_eq!(Entry::decode(&bytes, &node_id), Ok((entry, chain)));
    }

    #[test]
    fn ha_014_a_size_hint_is_never_too_small(entry in any_entry()) {
        prop_assert!(entry.encode().0.len() <= entry.size_hint_bytes());
    }

    #[test]
    fn ha_014_any_changed_byte_is_damage(
        entry in any_entry(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let mut bytes = entry.encode().0.to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert_eq!(
            Entry::decode(&bytes, &entry.origin.node_id),
            Err(EntryError::Damaged)
        );
    }

    #[test]
    fn ha_014_any_cut_is_damage(entry in any_entry(), at in any::<prop::sample::Index>()) {
        let bytes = entry.encode().0;
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert_eq!(
            Entry::decode(cut, &entry.origin.node_id),
            Err(EntryError::Damaged)
        );
    }

    #[test]
    fn ha_014_arbitrary_bytes_are_damage(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        prop_assert_eq!(Entry::decode(&bytes, "orders"), Err(EntryError::Damaged));
    }

    /// A fitting checksum over nonsense gets past the hash: the content must defend itself.
    #[test]
    fn ha_014_nonsense_with_a_fitting_checksum_never_panics(
        mut content in proptest::collection::vec(any::<u8>(), 0..200),
        announce in any::<bool>(),
    ) {
        let mut bytes = Vec::from(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 32]);
        if announce {
            Encoder::new(&mut bytes).array(CONTENT_ITEMS).expect("memory");
        }
        bytes.append(&mut content);
        let refused = Entry::decode(&resealed(bytes), "orders").is_err();
        prop_assert!(refused);
    }
}
