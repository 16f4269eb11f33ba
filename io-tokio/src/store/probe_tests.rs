use super::super::{InMemoryObjectStore, ListOutcome, SizedListOutcome};
use super::*;

/// A store that gets one thing wrong.
struct Faulty {
    inner: InMemoryObjectStore,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    IgnoresCreateCondition,
    IgnoresVersion,
    UpdatesMissingKeys,
    RefusesUpdates,
    RefusesCreates,
    ReadsOldVersions,
    ReadsMissingAsEmpty,
    ThrottlesUpdates,
    DeniesUpdates,
}

impl ObjectStore for Faulty {
    fn read(&self, key: &str) -> ReadOutcome {
        match (self.inner.read(key), self.fault) {
            (ReadOutcome::Found { version, .. }, Fault::ReadsOldVersions) => {
                ReadOutcome::Found { version, body: b"1".as_slice().into(), stamp_ms: None }
            }
            (ReadOutcome::Missing, Fault::ReadsMissingAsEmpty) => ReadOutcome::Found {
                version: Version(b"0".as_slice().into()),
                body: b"".as_slice().into(),
                stamp_ms: None,
            },
            (outcome, _) => outcome,
        }
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        if self.fault == Fault::RefusesCreates {
            return WriteOutcome::Refused;
        }
        if self.fault == Fault::IgnoresCreateCondition {
            self.inner.delete(key);
        }
        self.inner.create(key, body)
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        match (self.inner.read(key), self.fault) {
            (_, Fault::RefusesUpdates) => WriteOutcome::Refused,
            (_, Fault::ThrottlesUpdates) => WriteOutcome::Transient { retry_after_ms: Some(5) },
            (_, Fault::DeniesUpdates) => WriteOutcome::Permanent,
            (ReadOutcome::Found { version, .. }, Fault::IgnoresVersion) => {
                self.inner.replace(key, body, &version)
            }
            (ReadOutcome::Missing, Fault::UpdatesMissingKeys) => self.inner.create(key, body),
            (_, _) => self.inner.replace(key, body, version),
        }
    }

    fn delete(&self, key: &str) -> DeleteOutcome {
        self.inner.delete(key)
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome {
        self.inner.list_after(prefix, after, limit)
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome {
        self.inner.list_sized_after(prefix, after, limit)
    }

    fn name(&self) -> String {
        "faulty".to_owned()
    }
}

fn probe_with(fault: Fault) -> ProbeError {
    let store = Faulty { inner: InMemoryObjectStore::new(), fault };
    let error = probe(&store, "dev", ProcessId(7)).expect_err("the store is unfit");
    assert_eq!(
        store.inner.list_after("", "", 10),
        ListOutcome::Found(vec![]),
        "the probe cleans up after {fault:?}"
    );
    error
}

#[test]
fn d_031_lesson_c4_a_store_that_ignores_conditions_is_refused_by_name() {
    for (fault, step, answer) in [
        (Fault::IgnoresCreateCondition, ProbeStep::CreateAgain, "done"),
        (Fault::IgnoresVersion, ProbeStep::UpdateStale, "done"),
        (Fault::UpdatesMissingKeys, ProbeStep::UpdateMissing, "done"),
        (Fault::RefusesUpdates, ProbeStep::UpdateGood, "refused"),
        (Fault::RefusesCreates, ProbeStep::Create, "refused"),
        (Fault::ReadsOldVersions, ProbeStep::ReadLast, "another version"),
        (Fault::ReadsMissingAsEmpty, ProbeStep::ReadMissing, "found"),
    ] {
        assert_eq!(
            probe_with(fault),
            ProbeError::Unfit {
                store: "faulty".to_owned(),
                key: format!("dev/probe/{:032x}", 7),
                step,
                answer,
            }
        );
    }
    assert_eq!(
        probe_with(Fault::IgnoresVersion).to_string(),
        "the object store faulty does not refuse to update an object with an old version (it answered: done): it cannot \
         keep two servers apart and is not used; key dev/probe/00000000000000000000000000000007"
    );
}

#[test]
fn d_031_a_store_that_does_not_answer_is_not_called_unfit() {
    for (fault, expected) in [(Fault::ThrottlesUpdates, true), (Fault::DeniesUpdates, false)] {
        match probe_with(fault) {
            ProbeError::Unavailable { transient, step, .. } => {
                assert_eq!((transient, step), (expected, ProbeStep::UpdateGood));
            }
            other @ ProbeError::Unfit { .. } => panic!("{other}"),
        }
    }
}

#[test]
fn d_031_a_good_store_passes_and_is_left_clean() {
    let store = InMemoryObjectStore::new();
    assert_eq!(probe(&store, "dev", ProcessId(7)), Ok(None));
    assert_eq!(store.list_after("", "", 10), ListOutcome::Found(vec![]));
}
