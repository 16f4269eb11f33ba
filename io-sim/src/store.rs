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
    /// A store that takes a conditional update of a missing object.
    pub updates_missing: bool,
    /// Versions are hashes of the content, as ETags of S3 are: equal bytes have equal versions.
    pub hashes_content: bool,
    /// A store without stamps, as a folder is.
    pub has_no_stamps: bool,
    /// How far the clocks of its two servers are off, in milliseconds.
    pub skews_ms: [i64; 2],
    /// Which of them takes the next request.
    pub server: usize,
}

impl Store {
    /// An empty one whose clock is off by so many milliseconds.
    #[must_use]
    pub fn with_skew(skew_ms: i64) -> Self {
        Self { skews_ms: [skew_ms; 2], ..Self::default() }
    }

    /// The clock of one of its servers jumps.
    pub fn step_clock(&mut self, server: usize, by_ms: i64) {
        self.skews_ms[server] += by_ms;
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
                let fits = self.ignores_conditions
                    || found.as_ref() == Some(&expected)
                    || (found.is_none() && self.updates_missing);
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

    /// The objects whose keys begin with this and are not below `from`, in order, for checks.
    pub fn objects_from<'a>(
        &'a self,
        prefix: &'a str,
        from: Name,
    ) -> impl Iterator<Item = (&'a Name, &'a Blob)> + use<'a> {
        self.objects
            .range(from..)
            .map(|(key, object)| (key, &object.body))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// An object lost by somebody's hand.
    pub fn lose(&mut self, key: &Name) {
        self.objects.remove(key);
    }

    /// An object written by somebody's hand: damaged, of another version of the program, or an old state
    /// brought back.
    pub fn put_by_hand(&mut self, at: TrueTime, key: &Name, body: Blob) {
        self.put(at, key, body);
    }

    fn read(&self, key: &Name) -> ReadOutcome {
        match self.objects.get(key) {
            Some(object) => ReadOutcome::Found {
                version: version(object.version),
                body: object.body.clone(),
                stamp_ms: (!self.has_no_stamps).then_some(object.stamp_ms),
            },
            None => ReadOutcome::Missing,
        }
    }

    fn write_if(&mut self, fits: bool, at: TrueTime, key: &Name, body: Blob) -> WriteOutcome {
        if !fits {
            return WriteOutcome::Refused;
        }
        WriteOutcome::Done { version: version(self.put(at, key, body)) }
    }

    fn put(&mut self, at: TrueTime, key: &Name, body: Blob) -> u64 {
        self.versions += 1;
        let number = if self.hashes_content { content_hash(&body) } else { self.versions };
        let wall_ms = (WALL_ORIGIN + at) / 1_000;
        let object = Object {
            version: number,
            body,
            // Whole seconds, as S3 and Azure have them.
            stamp_ms: wall_ms.saturating_add_signed(self.skews_ms[self.server]) / 1_000 * 1_000,
        };
        self.objects.insert(key.clone(), object);
        number
    }
}

fn content_hash(body: &Blob) -> u64 {
    body.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
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
    fn an_old_state_brought_back_has_its_old_version_where_versions_are_hashes() {
        for hashes_content in [false, true] {
            let mut store = Store { hashes_content, ..Store::default() };
            let key = Name::from("k");
            let StoreAnswer::Write(WriteOutcome::Done { version: first }) =
                store.apply(0, &key, Operation::Create(body("a")))
            else {
                panic!("a first create lands");
            };
            store.apply(1, &key, Operation::Update { expected: first.clone(), body: body("b") });
            store.put_by_hand(2, &key, body("a"));
            let late = store.apply(3, &key, Operation::Update { expected: first, body: body("c") });
            assert_eq!(late != REFUSED, hashes_content);
        }
    }

    #[test]
    fn an_old_store_updates_what_is_missing() {
        let mut store = Store { updates_missing: true, ..Store::default() };
        let update = Operation::Update { expected: version(9), body: body("a") };
        assert_eq!(store.apply(0, &Name::from("k"), update), done(1));
    }

    #[test]
    fn two_servers_stamp_by_their_own_clocks() {
        let mut store = Store { skews_ms: [-9_500, 0], ..Store::default() };
        let stamp = |store: &mut Store, server, key: &str| {
            store.server = server;
            let key = Name::from(key);
            store.apply(3_000_000, &key, Operation::Create(body("a")));
            let StoreAnswer::Read(ReadOutcome::Found { stamp_ms: Some(stamp_ms), .. }) =
                store.apply(3_000_000, &key, Operation::Read)
            else {
                panic!("the object is there");
            };
            stamp_ms
        };
        assert_eq!(stamp(&mut store, 0, "a"), 1_767_225_593_000);
        assert_eq!(stamp(&mut store, 1, "b"), 1_767_225_603_000);
        store.step_clock(1, 60_000);
        assert_eq!(stamp(&mut store, 1, "c"), 1_767_225_663_000);
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
