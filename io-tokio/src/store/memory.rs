//! An object store in memory, for tests and for modes that keep nothing.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use dexzd_core::ids::Blob;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::{DeleteOutcome, ListOutcome, Listed, ObjectStore, SizedListOutcome};

/// Objects in a map. Versions are one counter for all of them.
#[derive(Default)]
pub struct InMemoryObjectStore {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counter: u64,
    objects: BTreeMap<String, (u64, Blob)>,
}

impl InMemoryObjectStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn listed(&self, prefix: &str, after: &str, limit: usize) -> Vec<Listed> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let after_both = (Bound::Excluded(after), Bound::Unbounded);
        state
            .objects
            .range::<str, _>(after_both)
            .filter(|(key, _)| key.starts_with(prefix))
            .take(limit)
            .map(|(key, (_, body))| Listed { key: key.clone(), size_bytes: body.len() as u64 })
            .collect()
    }

    fn write(&self, key: &str, body: &[u8], expected: Option<&Version>) -> WriteOutcome {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let found = state.objects.get(key).map(|(number, _)| version(*number));
        if found.as_ref() != expected {
            return WriteOutcome::Refused;
        }
        state.counter += 1;
        let number = state.counter;
        state.objects.insert(key.to_owned(), (number, Blob::from(body)));
        WriteOutcome::Done { version: version(number) }
    }
}

impl ObjectStore for InMemoryObjectStore {
    fn read(&self, key: &str) -> ReadOutcome {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.objects.get(key) {
            Some((number, body)) => {
                ReadOutcome::Found { version: version(*number), body: body.clone(), stamp_ms: None }
            }
            None => ReadOutcome::Missing,
        }
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        self.write(key, body, None)
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        self.write(key, body, Some(version))
    }

    fn delete(&self, key: &str) -> DeleteOutcome {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.objects.remove(key);
        DeleteOutcome::Done
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome {
        ListOutcome::Found(self.listed(prefix, after, limit).into_iter().map(|listed| listed.key).collect())
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome {
        SizedListOutcome::Found(self.listed(prefix, after, limit))
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }
}

fn version(number: u64) -> Version {
    Version(Blob::from(number.to_string().into_bytes()))
}
