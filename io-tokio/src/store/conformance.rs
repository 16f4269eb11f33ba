//! One body of tests for every object store.

// Whatever else an answer is, it fails the test.
#![allow(clippy::wildcard_enum_match_arm)]

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use dexzd_core::ids::ProcessId;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use dexzd_rig::Server;
use dexzd_rig::servers::{AZURITE_ACCOUNT, AZURITE_KEY};

use super::*;

fn created(store: &dyn ObjectStore, key: &str, body: &str) -> Version {
    done(store.create(key, body.as_bytes()))
}

fn done(outcome: WriteOutcome) -> Version {
    match outcome {
        WriteOutcome::Done { version } => version,
        other => panic!("{other:?}"),
    }
}

fn found(store: &dyn ObjectStore, key: &str) -> (Version, Vec<u8>) {
    match store.read(key) {
        ReadOutcome::Found { version, body, .. } => (version, body.to_vec()),
        other => panic!("{other:?}"),
    }
}

fn creates_only_what_is_absent(store: &dyn ObjectStore) {
    let version = created(store, "dev/lease", "one");
    assert_eq!(store.create("dev/lease", b"two"), WriteOutcome::Refused);
    assert_eq!(found(store, "dev/lease"), (version, b"one".to_vec()));
    assert_eq!(store.read("dev"), ReadOutcome::Missing);
    assert_eq!(store.read("dev/lease/more"), ReadOutcome::Missing);
}

fn replaces_only_the_version_named(store: &dyn ObjectStore) {
    let first = created(store, "a", "one");
    let second = done(store.replace("a", b"two", &first));
    assert_ne!(first, second);
    assert_eq!(store.replace("a", b"three", &first), WriteOutcome::Refused);
    assert_eq!(store.replace("b", b"three", &first), WriteOutcome::Refused);
    assert_eq!(store.read("b"), ReadOutcome::Missing);
    assert_eq!(found(store, "a"), (second.clone(), b"two".to_vec()));
    let mut version = second;
    for number in 0..20_u8 {
        let next = done(store.replace("a", &[number], &version));
        assert_ne!(next, version, "D-50");
        version = next;
    }
    assert_eq!(found(store, "a"), (version, vec![19]));
}

fn a_version_from_before_a_deletion_never_counts_again(store: &dyn ObjectStore) {
    // Bodies differ, as nonces see to (D-50): S3 names versions by content.
    let mut old = vec![created(store, "a", "one")];
    old.push(done(store.replace("a", b"two", &old[0])));
    assert_eq!(store.delete("a"), DeleteOutcome::Done);
    assert_eq!(store.delete("a"), DeleteOutcome::Done);
    assert_eq!(store.delete("never there"), DeleteOutcome::Done);
    assert_eq!(store.read("a"), ReadOutcome::Missing);
    for version in &old {
        assert_eq!(store.replace("a", b"x", version), WriteOutcome::Refused);
    }
    let new = created(store, "a", "three");
    for version in &old {
        assert_ne!(*version, new);
        assert_eq!(store.replace("a", b"x", version), WriteOutcome::Refused);
    }
    assert_eq!(found(store, "a"), (new, b"three".to_vec()));
}

fn lists_in_order_what_exists(store: &dyn ObjectStore) {
    for key in ["n/log/10", "n/log/2", "n/log/1", "n/logs", "n/log", "m/x", "n/log/2/x", "n/gone"] {
        created(store, key, "x");
    }
    store.delete("n/gone");
    let list = |prefix: &str, after: &str, limit: usize| match store.list_after(prefix, after, limit) {
        ListOutcome::Found(keys) => keys,
        other => panic!("{other:?}"),
    };
    assert_eq!(list("n/log/", "", 10), ["n/log/1", "n/log/10", "n/log/2", "n/log/2/x"]);
    assert_eq!(list("n/log/", "n/log/10", 10), ["n/log/2", "n/log/2/x"]);
    let all = ["n/log", "n/log/1", "n/log/10", "n/log/2", "n/log/2/x", "n/logs"];
    assert_eq!(list("n/lo", "", 10), all);
    // Which come first among keys with a / and without, only the store knows.
    let three = list("n/lo", "", 3);
    assert!(three.len() == 3 && three.is_sorted(), "{three:?}");
    assert!(three.iter().all(|key| all.contains(&key.as_str())), "{three:?}");
    assert_eq!(list("", "n/log/2/x", 10), ["n/logs"]);
    assert_eq!(list("z", "", 10), Vec::<String>::new());
    assert_eq!(list("n/log/1/", "", 10), Vec::<String>::new());
}

fn lists_with_sizes(store: &dyn ObjectStore) {
    for size in [0, 1, 70_000] {
        created(store, &format!("n/files/{size:05}"), &"x".repeat(size));
    }
    created(store, "n/gone", "x");
    store.forget("n/gone");
    let list = |prefix: &str, after: &str, limit: usize| match store.list_sized_after(prefix, after, limit) {
        SizedListOutcome::Found(objects) => {
            objects.into_iter().map(|object| (object.key, object.size_bytes)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let all = [
        ("n/files/00000".to_owned(), 0),
        ("n/files/00001".to_owned(), 1),
        ("n/files/70000".to_owned(), 70_000),
    ];
    assert_eq!(list("n/", "", 10), all);
    assert_eq!(list("n/files/", "n/files/00000", 1), all[1..2]);
    assert_eq!(list("n/files/", "n/files/70000", 1), []);
}

/// Bytes that differ from their neighbours, in more than one piece of any size.
fn large_body() -> Vec<u8> {
    (0..3_000_007_u32).map(|number| u8::try_from(number % 251).expect("below 251")).collect()
}

fn d_046_large_objects_pass_in_pieces(store: &dyn ObjectStore) {
    let body = large_body();
    let size = body.len() as u64;
    let outcome = store.create_from("n/files/1", size, &mut body.as_slice());
    assert!(matches!(outcome, WriteOutcome::Done { .. }), "{outcome:?}");
    assert_eq!(store.create_from("n/files/1", 1, &mut b"x".as_slice()), WriteOutcome::Refused);
    let mut read = Vec::new();
    assert_eq!(store.read_into("n/files/1", &mut read), FetchOutcome::Done { size_bytes: size });
    assert!(read == body, "what was written is read");
    assert_eq!(found(store, "n/files/1").1, body);
    created(store, "n/files/2", "small");
    let mut read = Vec::new();
    assert_eq!(store.read_into("n/files/2", &mut read), FetchOutcome::Done { size_bytes: 5 });
    assert_eq!(read, b"small");
    assert_eq!(store.read_into("n/files/3", &mut Vec::new()), FetchOutcome::Missing);
    let empty = store.create_from("n/files/4", 0, &mut [].as_slice());
    assert!(matches!(empty, WriteOutcome::Done { .. }), "{empty:?}");
    assert_eq!(store.read_into("n/files/4", &mut Vec::new()), FetchOutcome::Done { size_bytes: 0 });
}

/// A file that is cut short or cannot be read, a disk that is full.
fn a_content_that_fails_leaves_no_object_and_a_sink_that_fails_is_told(store: &dyn ObjectStore) {
    assert_eq!(store.create_from("n/1", 10, &mut b"short".as_slice()), WriteOutcome::LocalFailure);
    assert_eq!(store.create_from("n/2", 10, &mut Broken), WriteOutcome::LocalFailure);
    assert_eq!(store.list_after("n/", "", 10), ListOutcome::Found(vec![]));
    created(store, "n/3", "body");
    assert_eq!(store.read_into("n/3", &mut Broken), FetchOutcome::LocalFailure);
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the medium failed"))
    }
}

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is full"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn forgets_many_at_once(store: &dyn ObjectStore) {
    let keys: Vec<String> = (0..100).map(|number| format!("n/log/{number:03}")).collect();
    for key in &keys {
        created(store, key, "entry");
    }
    assert_eq!(store.forget_all(&keys[..99]), DeleteOutcome::Done);
    assert_eq!(store.list_after("n/", "", 100), ListOutcome::Found(vec!["n/log/099".to_owned()]));
    assert_eq!(store.forget_all(&keys), DeleteOutcome::Done, "what is gone counts");
    assert_eq!(store.forget_all(&[]), DeleteOutcome::Done);
    assert_eq!(store.list_after("", "", 100), ListOutcome::Found(vec![]));
}

fn keys_and_bodies_may_hold_anything(store: &dyn ObjectStore) {
    for key in ["a/../b", "ü/ß 1", "@00000000000000000001", "%41", "A", "a", ".tmp-1", "x//y"] {
        let body: Vec<u8> = key.bytes().chain(0..=255).collect();
        let version = done(store.create(key, &body));
        assert_eq!(found(store, key), (version, body));
    }
    match store.list_after("", "", 100) {
        ListOutcome::Found(keys) => {
            assert_eq!(keys.len(), 8);
            assert!(keys.is_sorted());
            assert!(keys.contains(&"a/../b".to_owned()) && keys.contains(&"x//y".to_owned()));
        }
        other => panic!("{other:?}"),
    }
}

fn passes_the_probe_and_is_left_clean(store: &dyn ObjectStore) {
    probe(store, "dev", ProcessId(1)).expect("fit");
    probe(store, "dev", ProcessId(1)).expect("fit again");
    assert_eq!(store.list_after("", "", 10), ListOutcome::Found(vec![]));
}

fn d_045_every_version_has_exactly_one_winner(store: Arc<dyn ObjectStore>) {
    const EACH: u64 = 40;
    Tally::create(&*store, "tally");
    let writers: Vec<_> = (0..SLOTS)
        .map(|slot| {
            let store = Arc::clone(&store);
            thread::spawn(move || count_up(&*store, "tally", slot, EACH))
        })
        .collect();
    for writer in writers {
        writer.join().expect("no writer failed");
    }
    assert_eq!(Tally::read(&*store, "tally").1, Tally([EACH; SLOTS]));
}

const SLOTS: usize = 8;

/// One count per writer, in one object. A write that overwrites another one's makes a count go back,
/// which that writer notices at its next look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tally(pub(super) [u64; SLOTS]);

impl Tally {
    pub(super) fn create(store: &dyn ObjectStore, key: &str) {
        done(store.create(key, &Self([0; SLOTS]).encode()));
    }

    pub(super) fn read(store: &dyn ObjectStore, key: &str) -> (Version, Self) {
        let (version, body) = found(store, key);
        let numbers: Vec<u64> = String::from_utf8(body)
            .expect("numbers")
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        (version, Self(numbers.try_into().expect("one per slot")))
    }

    fn encode(&self) -> Vec<u8> {
        self.0.map(|number| number.to_string()).join(" ").into_bytes()
    }
}

/// Raises one count step by step, in as many tries as it takes.
pub(super) fn count_up(store: &dyn ObjectStore, key: &str, slot: usize, steps: u64) {
    let mut landed = 0;
    while landed < steps {
        let (version, mut tally) = Tally::read(store, key);
        assert_eq!(tally.0[slot], landed, "a write of this writer was overwritten or counted twice");
        tally.0[slot] += 1;
        match store.replace(key, &tally.encode(), &version) {
            WriteOutcome::Done { .. } => landed += 1,
            WriteOutcome::Refused => {}
            // The outcome is open: only the object can tell (D-9).
            WriteOutcome::Transient { .. } => landed = Tally::read(store, key).1.0[slot],
            other => panic!("{other:?}"),
        }
    }
}

fn d_045_one_of_many_creators_wins(store: Arc<dyn ObjectStore>) {
    for round in 0..30 {
        let key = format!("round/{round}");
        let creators: Vec<_> = (0..6_u8)
            .map(|creator| {
                let (store, key) = (Arc::clone(&store), key.clone());
                thread::spawn(move || match store.create(&key, &[creator]) {
                    WriteOutcome::Done { version } => Some((version, vec![creator])),
                    WriteOutcome::Refused => None,
                    other => panic!("{other:?}"),
                })
            })
            .collect();
        let winners: Vec<_> =
            creators.into_iter().filter_map(|creator| creator.join().expect("no creator failed")).collect();
        assert_eq!(winners, [found(&*store, &key)]);
    }
}

macro_rules! conformance {
    ($module:ident, $with_store:path, [$($plain:ident),+], [$($shared:ident),+]) => {
        mod $module {
            $(
                #[test]
                fn $plain() {
                    $with_store(|store| super::$plain(&*store));
                }
            )+
            $(
                #[test]
                fn $shared() {
                    $with_store(super::$shared);
                }
            )+
        }
    };
}

macro_rules! conformance_of {
    ($module:ident, $with_store:path) => {
        conformance!(
            $module,
            $with_store,
            [
                creates_only_what_is_absent,
                replaces_only_the_version_named,
                a_version_from_before_a_deletion_never_counts_again,
                lists_in_order_what_exists,
                lists_with_sizes,
                d_046_large_objects_pass_in_pieces,
                a_content_that_fails_leaves_no_object_and_a_sink_that_fails_is_told,
                forgets_many_at_once,
                keys_and_bodies_may_hold_anything,
                passes_the_probe_and_is_left_clean
            ],
            [d_045_every_version_has_exactly_one_winner, d_045_one_of_many_creators_wins]
        );
    };
}

fn with_memory(test: impl FnOnce(Arc<dyn ObjectStore>)) {
    test(Arc::new(InMemoryObjectStore::new()));
}

fn with_folder(test: impl FnOnce(Arc<dyn ObjectStore>)) {
    let folder = tempfile::tempdir().expect("a folder");
    test(Arc::new(FolderStore::open(folder.path(), false).expect("opened")));
}

fn with_synced_folder(test: impl FnOnce(Arc<dyn ObjectStore>)) {
    let folder = tempfile::tempdir().expect("a folder");
    test(Arc::new(FolderStore::open(folder.path(), true).expect("opened")));
}

/// What benchmarks run on: S3's protocol on a loopback address. It must be a store like any other.
fn with_bucket(test: impl FnOnce(Arc<dyn ObjectStore>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let bucket = dexzd_rig::Bucket::open("b", dexzd_rig::bucket::Latency::NONE).expect("a port is free");
    test(s3(folder.path(), bucket.name(), bucket.address(), "some/prefix"));
}

/// S3's protocol as others read it.
fn with_moto(test: impl FnOnce(Arc<dyn ObjectStore>)) {
    static MOTO: LazyLock<Server> = LazyLock::new(|| Server::moto(&["conformance"]));
    let folder = tempfile::tempdir().expect("a folder");
    test(s3(folder.path(), "conformance", MOTO.address(), &own_prefix()));
}

/// The protocol of Azure Blob Storage as its own people's emulator reads it.
fn with_azurite(test: impl FnOnce(Arc<dyn ObjectStore>)) {
    static AZURITE: LazyLock<Server> = LazyLock::new(|| Server::azurite(&["conformance"]));
    let folder = tempfile::tempdir().expect("a folder");
    let config = CloudConfig {
        provider: Provider::Azure {
            account: Some(AZURITE_ACCOUNT.to_owned()),
            container: "conformance".to_owned(),
            credentials: AzureCredentials::AccountKeyFile(file(folder.path(), "key", AZURITE_KEY)),
        },
        prefix: own_prefix(),
        endpoint: Some(format!("http://{}/{AZURITE_ACCOUNT}", AZURITE.address())),
        allow_http: true,
        ca_file: None,
    };
    test(Arc::new(CloudStore::open(config).expect("opened")));
}

/// Tests share a server and not its objects.
fn own_prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test/{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn file(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("written");
    path
}

fn s3(folder: &Path, bucket: &str, address: SocketAddr, prefix: &str) -> Arc<dyn ObjectStore> {
    let config = CloudConfig {
        provider: Provider::S3 {
            bucket: bucket.to_owned(),
            region: None,
            credentials: S3Credentials::Files {
                access_key_id: file(folder, "id", "rig"),
                secret_access_key: file(folder, "secret", "rig"),
                session_token: None,
            },
        },
        prefix: prefix.to_owned(),
        endpoint: Some(format!("http://{address}")),
        allow_http: true,
        ca_file: None,
    };
    Arc::new(CloudStore::open(config).expect("opened"))
}

conformance_of!(moto, super::with_moto);
conformance_of!(azurite, super::with_azurite);
conformance_of!(bucket, super::with_bucket);
conformance_of!(memory, super::with_memory);
conformance_of!(folder, super::with_folder);
conformance_of!(synced_folder, super::with_synced_folder);
