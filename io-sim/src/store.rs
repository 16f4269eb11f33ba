//! A simulated object store: linearizable per object, with versions and conditional writes.
//!
//! What happens to a request before it lands here, and to the answer afterwards, is `weather`'s.

use std::collections::BTreeMap;

use dexzd_core::ids::{Blob, Name};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use crate::TrueTime;
use crate::clock::WALL_ORIGIN;

/// What a request asks of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Body, version and stamp.
    Read,
    /// Only if it is absent.
    Create(Blob),
    /// Only if it has this version.
    Update {
        /// The condition.
        expected: Version,
        /// The new content.
        body: Blob,
    },
    /// Whatever it is.
    Delete,
    /// The keys that begin with this one, in order.
    List,
}

/// What the store answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreAnswer {
    /// To a create, an update or a deletion.
    Write(WriteOutcome),
    /// To a read.
    Read(ReadOutcome),
    /// To a listing.
    Listing(Vec<Name>),
}

#[derive(Clone, Debug)]
struct Object {
    version: u64,
    body: Blob,
    stamp_ms: u64,
}

/// The objects of one bucket.
#[derive(Clone, Debug, Default)]
pub struct Store {
    objects: BTreeMap<Name, Object>,
    versions: u64,
    /// A store that takes every write, whatever its condition (lesson C4).
    pub ignores_conditions: bool,
    /// How far the store's own clock is off, in milliseconds.
    pub skew_ms: i64,
}

impl Store {
    /// An empty one whose clock is off by so many milliseconds.
    #[must_use]
    pub fn with_skew(skew_ms: i64) -> Self {
        Self { skew_ms, ..Self::default() }
    }

    /// One operation takes effect, now.
    pub fn apply(&mut self, at: TrueTime, key: &Name, operation: Operation) -> StoreAnswer {
        match operation {
            Operation::Read => StoreAnswer::Read(self.read(key)),
            Operation::Create(body) => {
                let free = self.ignores_conditions || !self.objects.contains_key(key);
                StoreAnswer::Write(self.write_if(free, at, key, body))
            }
            Operation::Update { expected, body } => {
                let found = self.objects.get(key).map(|object| version(object.version));
                let fits = self.ignores_conditions || found.as_ref() == Some(&expected);
                StoreAnswer::Write(self.write_if(fits, at, key, body))
            }
            Operation::Delete => {
                self.objects.remove(key);
                StoreAnswer::Write(WriteOutcome::Done { version: version(0) })
            }
            Operation::List => StoreAnswer::Listing(
                self.objects
                    .range(key.clone()..)
                    .map(|(found, _)| found)
                    .take_while(|found| found.starts_with(&**key))
                    .cloned()
                    .collect(),
            ),
        }
    }

    /// What stands under a key, for checks: no request, no effect.
    #[must_use]
    pub fn peek(&self, key: &Name) -> Option<&Blob> {
        self.objects.get(key).map(|object| &object.body)
    }

    /// An object lost by somebody's hand.
    pub fn lose(&mut self, key: &Name) {
        self.objects.remove(key);
    }

    fn read(&self, key: &Name) -> ReadOutcome {
        match self.objects.get(key) {
            Some(object) => ReadOutcome::Found {
                version: version(object.version),
                body: object.body.clone(),
                stamp_ms: Some(object.stamp_ms),
            },
            None => ReadOutcome::Missing,
        }
    }

    fn write_if(&mut self, fits: bool, at: TrueTime, key: &Name, body: Blob) -> WriteOutcome {
        if !fits {
            return WriteOutcome::Refused;
        }
        self.versions += 1;
        let wall_ms = (WALL_ORIGIN + at) / 1_000;
        let object = Object {
            version: self.versions,
            body,
            // Whole seconds, as S3 and Azure have them.
            stamp_ms: wall_ms.saturating_add_signed(self.skew_ms) / 1_000 * 1_000,
        };
        self.objects.insert(key.clone(), object);
        WriteOutcome::Done { version: version(self.versions) }
    }
}

fn version(number: u64) -> Version {
    Version(Blob::from(number.to_be_bytes().as_slice()))
}

#[cfg(test)]
mod tests {
    use super::{Operation, Store, StoreAnswer, version};
    use dexzd_core::ids::{Blob, Name};
    use dexzd_core::store::{ReadOutcome, WriteOutcome};

    fn body(text: &str) -> Blob {
        Blob::from(text.as_bytes())
    }

    fn done(number: u64) -> StoreAnswer {
        StoreAnswer::Write(WriteOutcome::Done { version: version(number) })
    }

    const REFUSED: StoreAnswer = StoreAnswer::Write(WriteOutcome::Refused);

    #[test]
    fn conditions_hold() {
        let mut store = Store::default();
        let key = Name::from("n/lease");
        let update = |number, text| Operation::Update { expected: version(number), body: body(text) };
        assert_eq!(store.apply(0, &key, update(1, "early")), REFUSED);
        assert_eq!(store.apply(0, &key, Operation::Create(body("a"))), done(1));
        assert_eq!(store.apply(0, &key, Operation::Create(body("b"))), REFUSED);
        assert_eq!(store.apply(0, &key, update(1, "b")), done(2));
        assert_eq!(store.apply(0, &key, update(1, "c")), REFUSED);
        let StoreAnswer::Read(ReadOutcome::Found { body: found, .. }) = store.apply(0, &key, Operation::Read)
        else {
            panic!("the object is there");
        };
        assert_eq!(found, body("b"));
    }

    #[test]
    fn a_store_that_ignores_conditions_takes_everything() {
        let mut store = Store { ignores_conditions: true, ..Store::default() };
        let key = Name::from("k");
        assert_eq!(store.apply(0, &key, Operation::Create(body("a"))), done(1));
        assert_eq!(store.apply(0, &key, Operation::Create(body("b"))), done(2));
    }

    #[test]
    fn a_listing_is_ordered_and_bounded_by_its_prefix() {
        let mut store = Store::default();
        for key in ["n/log/2", "n/log/1", "n/snapshots/1", "n/lease"] {
            store.apply(0, &Name::from(key), Operation::Create(body("x")));
        }
        assert_eq!(
            store.apply(0, &Name::from("n/log/"), Operation::List),
            StoreAnswer::Listing(vec![Name::from("n/log/1"), Name::from("n/log/2")])
        );
    }

    #[test]
    fn stamps_are_whole_seconds() {
        let mut store = Store::default();
        let key = Name::from("k");
        store.apply(2_700_000, &key, Operation::Create(body("a")));
        let StoreAnswer::Read(ReadOutcome::Found { stamp_ms, .. }) =
            store.apply(3_000_000, &key, Operation::Read)
        else {
            panic!("the object is there");
        };
        assert_eq!(stamp_ms, Some(1_767_225_602_000));
    }
}
