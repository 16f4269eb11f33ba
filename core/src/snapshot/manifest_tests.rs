use std::vec;

use proptest::prelude::*;

use super::*;

fn file(local_name: &str, epoch: u64, counter: u64) -> SnapshotFile {
    SnapshotFile {
        local_name: Name::new(local_name),
        stored_as: FileName { epoch: Epoch(epoch), counter },
        size_bytes: 7,
        checksum: Checksum::of(local_name.as_bytes()),
    }
}

fn manifest() -> Manifest {
    Manifest {
        node_id: Name::new("orders"),
        process_id: ProcessId(7),
        epoch: Epoch(3),
        end: LogEnd { position: Position(40), chain: crate::log::Chain([5; 32]) },
        newest_time: Timestamp::from_millis(9),
        files: vec![file("000012.sst", 2, 4), file("CURRENT", 3, 1)],
    }
}

fn decode(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    Manifest::decode(bytes, &Name::new("orders"), manifest().name())
}

#[test]
fn d_046_a_manifest_is_read_as_it_was_written() {
    let bytes = manifest().encode();
    assert_eq!(decode(&bytes), Ok(manifest()));
    assert_eq!(manifest().encode(), bytes, "equal manifests have equal bytes: the read-back is exact");
    assert_eq!(manifest().size_bytes(), 14);
}

#[test]
fn d_046_every_flipped_bit_of_a_manifest_is_found() {
    let bytes = manifest().encode();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        match decode(&damaged) {
            Err(ManifestError::Damaged | ManifestError::NewerFormat { .. }) => {}
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length]), Err(ManifestError::Damaged), "cut to {length} bytes");
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert_eq!(decode(&longer), Err(ManifestError::Damaged));
}

#[test]
fn d_046_a_manifest_that_is_not_this_nodes_or_not_of_its_name_is_told_by_name() {
    let bytes = manifest().encode();
    let found = Name::new("orders");
    assert_eq!(
        Manifest::decode(&bytes, &Name::new("payments"), manifest().name()),
        Err(ManifestError::ForeignNode { found })
    );
    let other = ManifestName { position: Position(41), epoch: Epoch(3) };
    assert_eq!(
        Manifest::decode(&bytes, &Name::new("orders"), other),
        Err(ManifestError::OtherName { found: manifest().name() })
    );
    let newer = to_bytes(&Envelope { format: 2, manifest: b"?", checksum: ByteArray::from([0; 32]) });
    assert_eq!(decode(&newer), Err(ManifestError::NewerFormat { found: 2 }));
}

#[test]
fn d_046_a_manifest_with_a_field_out_of_its_range_is_damaged() {
    let changes: [fn(&mut Manifest); 9] = [
        |manifest| manifest.end.position = Position(0),
        |manifest| manifest.epoch = Epoch(0),
        |manifest| manifest.epoch = Epoch(HIGHEST_EPOCH.0 + 1),
        |manifest| manifest.files.reverse(),
        |manifest| manifest.files[1] = manifest.files[0].clone(),
        |manifest| manifest.files[0].local_name = Name::new(".."),
        |manifest| manifest.files[0].local_name = Name::new("../secrets"),
        |manifest| manifest.files[0].local_name = Name::new(""),
        |manifest| manifest.files[0].stored_as.epoch = Epoch(4),
    ];
    for change in changes {
        let mut wrong = manifest();
        change(&mut wrong);
        let read = Manifest::decode(&wrong.encode(), &Name::new("orders"), wrong.name());
        assert_eq!(read, Err(ManifestError::Damaged), "{wrong:?}");
    }
}

#[test]
fn d_046_keys_name_their_objects_and_sort_like_them() {
    let manifest = SnapshotObject::Manifest(ManifestName { position: Position(40), epoch: Epoch(3) });
    assert_eq!(manifest.key(), "00000000000000000040/00000000000000000003.manifest");
    let file = SnapshotObject::File(FileName { epoch: Epoch(3), counter: 17 });
    assert_eq!(file.key(), "files/00000000000000000003-00000000000000000017");
    for other in ["", "files/", "files/3-17", "40/3.manifest", "files/x-y", "+0000000000000000040/3.manifest"]
    {
        assert_eq!(SnapshotObject::parse(other), None, "{other:?} was not written by this program");
    }
}

proptest! {
    #[test]
    fn d_046_every_key_is_read_back(one in any::<(u64, u64)>(), other in any::<(u64, u64)>()) {
        let names = [one, other].map(|(position, epoch)| ManifestName {
            position: Position(position),
            epoch: Epoch(epoch),
        });
        let keys = names.map(|name| SnapshotObject::Manifest(name).key());
        prop_assert_eq!(keys[0].cmp(&keys[1]), names[0].cmp(&names[1]));
        prop_assert_eq!(SnapshotObject::parse(&keys[0]), Some(SnapshotObject::Manifest(names[0])));
        let file = SnapshotObject::File(FileName { epoch: Epoch(one.1), counter: one.0 });
        prop_assert_eq!(SnapshotObject::parse(&file.key()), Some(file));
    }

    #[test]
    fn d_046_no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&bytes).is_err());
    }
}
