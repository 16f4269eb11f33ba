//! Bytes that claim to be a record: they are one, or an error says why not; what was read is written the same.

use dexzd_core::engine::check_stored_record;
use dexzd_core::ids::{Epoch, Name, Position};
use dexzd_core::lease::LeaseRecord;
use dexzd_core::log::Entry;
use dexzd_core::snapshot::{Checksum, Manifest, ManifestName};
use dexzd_io_sim::dice::Script;
use sha2::{Digest, Sha256};

const NODE: &str = "n";

/// The object that everything hangs on: as it is, and inside an envelope with the right checksum, which hides
/// what is inside from anything that only guesses.
pub fn lease_record(bytes: &[u8]) {
    let node = Name::new(NODE);
    let checksum: [u8; 32] = Sha256::digest(bytes).into();
    for object in [bytes.to_vec(), envelope(bytes, &checksum)] {
        if let Ok(record) = LeaseRecord::decode(&object, &node) {
            let again = LeaseRecord::decode(&record.encode(), &node);
            assert_eq!(again, Ok(record), "a lease is read as it was written");
        }
    }
}

/// An entry of the log, likewise.
pub fn log_entry(bytes: &[u8]) {
    let mut head = b"dxzl".to_vec();
    head.extend_from_slice(&1_u32.to_be_bytes());
    let mut hash = Sha256::new();
    hash.update(&head);
    hash.update(bytes);
    let whole = [&head[..], &hash.finalize(), bytes].concat();
    for object in [bytes, &whole] {
        if let Ok((entry, _)) = Entry::decode(object, NODE) {
            let (written, chain) = entry.encode();
            assert_eq!(
                Entry::decode(&written, NODE),
                Ok((entry, chain)),
                "an entry is read as it was written"
            );
        }
    }
}

/// A manifest of a snapshot, likewise.
pub fn manifest(bytes: &[u8]) {
    let node = Name::new(NODE);
    let name = ManifestName { position: Position(7), epoch: Epoch(2) };
    for object in [bytes.to_vec(), envelope(bytes, &Checksum::of(bytes).0)] {
        if let Ok(manifest) = Manifest::decode(&object, &node, name) {
            assert!(manifest.files.iter().all(|file| !file.local_name.contains(['/', '\\'])));
            assert_eq!(Manifest::decode(&manifest.encode(), &node, name), Ok(manifest));
        }
    }
}

/// Format, content, checksum.
fn envelope(content: &[u8], checksum: &[u8; 32]) -> Vec<u8> {
    let mut encoder = minicbor::Encoder::new(Vec::new());
    let written = encoder.array(3).and_then(|it| it.u32(1)?.bytes(content)?.bytes(checksum)?.ok());
    written.expect("writing to memory does not fail");
    encoder.into_writer()
}

/// Any record of the local store: the first byte says of which type.
pub fn stored_records(bytes: &[u8]) {
    if let Some((&kind, record)) = bytes.split_first() {
        let _is_one = check_stored_record(kind, record);
    }
}

/// The simulator's own files.
pub fn decision_log(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Script::parse(&text) {
        Ok(script) => assert_eq!(Script::parse(&text), Ok(script), "reading has no memory"),
        Err(reason) => assert!(reason.contains("line"), "{reason}"),
    }
}
