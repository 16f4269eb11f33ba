//! Checkpoints of a local store, as files.
//!
//! One file says how far the store is; the records are spread over a few more. A part of the records that did
//! not change has the same file as before, as the table files of a real local store do.

use std::collections::BTreeMap;

use dexzd_core::ids::{Blob, Name};
use dexzd_core::log::LogEnd;
use dexzd_core::snapshot::{CheckpointFile, Checksum};

use crate::local_store::{LocalStore, Records, hash_of};

/// Files by their name.
pub(super) type Files = BTreeMap<Name, Blob>;

/// Records are spread over so many files.
const PARTS: u64 = 4;
/// The file that says how far a checkpoint is.
const END_FILE: &str = "END";

/// The files of a store as it is now.
pub(super) fn files_of(store: &LocalStore) -> Files {
    let mut parts: Vec<Vec<(&[u8], &[u8])>> = vec![Vec::new(); usize::try_from(PARTS).expect("few")];
    for (key, value) in store.records() {
        let part = usize::try_from(hash_of(key) % PARTS).expect("few");
        parts[part].push((key, value));
    }
    let mut files: Files = parts
        .iter()
        .enumerate()
        .filter(|(_, records)| !records.is_empty())
        .map(|(part, records)| {
            let body = encoded(records);
            (Name::new(&format!("{part}-{:016x}", hash_of(&body))), Blob::from(body))
        })
        .collect();
    let end = minicbor::to_vec(store.end()).expect("writing to a Vec cannot fail");
    files.insert(Name::new(END_FILE), Blob::from(end));
    files
}

/// As a checkpoint lists them.
pub(super) fn listed(files: &Files) -> Vec<CheckpointFile> {
    files
        .iter()
        .map(|(name, body)| CheckpointFile {
            local_name: name.clone(),
            size_bytes: body.len() as u64,
            checksum: Checksum::of(body),
        })
        .collect()
}

/// The store that such files make; None if they make none.
pub(super) fn store_of(files: &Files) -> Option<LocalStore> {
    let end: LogEnd = minicbor::decode(files.get(&Name::new(END_FILE))?).ok()?;
    let mut records = Records::new();
    for (_, body) in files.iter().filter(|(name, _)| &***name != END_FILE) {
        decode_into(body, &mut records)?;
    }
    Some(LocalStore::restored(records, end))
}

fn encoded(records: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in records {
        for part in [key, value] {
            bytes.extend_from_slice(&u32::try_from(part.len()).expect("small records").to_be_bytes());
            bytes.extend_from_slice(part);
        }
    }
    bytes
}

fn decode_into(mut bytes: &[u8], records: &mut Records) -> Option<()> {
    let mut next = || -> Option<Option<Vec<u8>>> {
        if bytes.is_empty() {
            return Some(None);
        }
        let (length, rest) = bytes.split_at_checked(4)?;
        let length = u32::from_be_bytes(length.try_into().expect("4 bytes"));
        let (part, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        bytes = rest;
        Some(Some(part.to_vec()))
    };
    while let Some(key) = next()? {
        records.insert(key, next()??);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{files_of, store_of};
    use crate::local_store::LocalStore;
    use dexzd_core::engine::Change;
    use dexzd_core::ids::Position;
    use dexzd_core::log::{Chain, LogEnd};

    fn end(position: u64) -> LogEnd {
        LogEnd { position: Position(position), chain: Chain([7; 32]) }
    }

    #[test]
    fn a_store_comes_back_from_its_files_and_unchanged_parts_keep_theirs() {
        let mut store = LocalStore::default();
        let set = |number: u8, value: u8| Change { key: vec![number], value: Some(vec![value]) };
        store.apply(end(1), (0..50).map(|number| set(number, 1)).collect());
        let before = files_of(&store);
        let back = store_of(&before).expect("whole files");
        assert_eq!(
            (back.records(), back.end(), back.digest()),
            (store.records(), store.end(), store.digest())
        );
        store.apply(end(2), vec![set(3, 2)]);
        let after = files_of(&store);
        let shared = before.keys().filter(|name| after.contains_key(*name)).count();
        assert_eq!((before.len(), after.len(), shared), (5, 5, 4), "END and three parts keep their names");
    }

    #[test]
    fn torn_files_make_no_store() {
        let mut store = LocalStore::default();
        store.apply(end(1), vec![Change { key: vec![1], value: Some(vec![1]) }]);
        let mut files = files_of(&store);
        for body in files.values_mut() {
            *body = body[..body.len() - 1].into();
        }
        assert!(store_of(&files).is_none());
    }
}
