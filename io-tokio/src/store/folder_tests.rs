use std::env;
use std::process::Command;

use dexzd_core::ids::ProcessId;

use super::super::conformance::{Tally, count_up};
use super::super::probe;
use super::record::ANCESTORS;
use super::*;

fn open(folder: &Path) -> FolderStore {
    FolderStore::open(folder, true).expect("opened")
}

fn done(outcome: WriteOutcome) -> Version {
    let WriteOutcome::Done { version } = outcome else {
        panic!("{outcome:?}");
    };
    version
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("listed")
        .map(|entry| entry.expect("listed").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn d_050_versions_are_counters_and_old_ones_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let mut version = done(store.create("n/lease", b"1"));
    for _ in 0..4 {
        version = done(store.replace("n/lease", b"2", &version));
    }
    assert_eq!(names(&folder.path().join("n/lease")), ["@00000000000000000004", "@00000000000000000005"]);
}

/// Its writer may have died between the link and the sync: a reader that built on it would lose the ground
/// under its feet with the next power loss.
#[test]
fn ha_008_what_a_reader_is_told_is_durable_before_it_hears_it() {
    fn fails(_: &Path) -> io::Result<()> {
        Err(io::Error::other("the disk is gone"))
    }
    let folder = tempfile::tempdir().expect("a folder");
    done(open(folder.path()).create("n/lease", b"1"));
    let reader = FolderStore { sync_folder: fails, ..open(folder.path()) };
    assert_eq!(reader.read("n/lease"), ReadOutcome::LocalFailure);
    assert_eq!(reader.read("n/nothing"), ReadOutcome::Missing, "nothing was found, so nothing must stay");
    let careless =
        FolderStore { sync_folder: fails, ..FolderStore::open(folder.path(), false).expect("opened") };
    assert!(
        matches!(careless.read("n/lease"), ReadOutcome::Found { .. }),
        "without fsync nothing is promised"
    );
}

/// Sleeping writers: each stops between its read and its link, while others write.
#[test]
fn d_045_a_writer_that_slept_through_many_versions_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let first = done(store.create("k", b"1"));
    let object = folder.path().join("k");
    let slept = store.newest(&object).unwrap_or_else(|_| panic!("read")).expect("there");
    let mut version = first;
    for later in 2..=100_u8 {
        version = done(store.replace("k", &[later], &version));
        // Its link meets the name that is taken, or the history that has gone on.
        let outcome = outcome(store.append(&object, Some(slept.clone()), Some(b"late")));
        if usize::from(later) <= ANCESTORS + 2 {
            assert_eq!(outcome, WriteOutcome::Refused, "{later}");
        } else {
            // What stood there is forgotten: the store cannot tell, and says so.
            assert_eq!(outcome, WriteOutcome::Transient { retry_after_ms: None }, "{later}");
        }
        let ReadOutcome::Found { body, version: read, .. } = store.read("k") else {
            panic!("missing");
        };
        assert_eq!((&*body, &read), ([later].as_slice(), &version));
    }
}

#[test]
fn d_045_a_write_that_was_replaced_at_once_still_knows_that_it_landed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    done(store.create("k", b"1"));
    let object = folder.path().join("k");
    let before = store.newest(&object).unwrap_or_else(|_| panic!("read")).expect("there");
    let second = Record::after(Some(&before.1), 2, Some(b"2"));
    let third = Record::after(Some(&second), 3, Some(b"3"));
    let fourth = Record::after(Some(&third), 4, Some(b"4"));
    for (number, record) in [(2, &second), (3, &third), (4, &fourth)] {
        fs::write(object.join(version_file(number)), record.encode()).expect("written");
    }
    assert!(store.check_place(&object, 2, &second).is_ok());
    assert!(store.check_place(&object, 4, &fourth).is_ok());
    let stranger = Record { token: 5, ..second };
    assert!(matches!(store.check_place(&object, 2, &stranger), Err(Failure::Refused)));
}

#[test]
fn a_damaged_object_is_a_local_failure_and_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    done(store.create("k", b"body"));
    let file = folder.path().join("k").join(version_file(1));
    let mut bytes = fs::read(&file).expect("read");
    bytes[50] ^= 1;
    fs::write(&file, &bytes).expect("written");
    assert_eq!(store.read("k"), ReadOutcome::LocalFailure);
    assert_eq!(store.create("k", b"x"), WriteOutcome::LocalFailure);
    assert_eq!(store.delete("k"), DeleteOutcome::LocalFailure);
    // Whoever reads in pieces has checksums of its own, and something else to fall back to.
    let mut read = Vec::new();
    assert_eq!(store.read_into("k", &mut read), FetchOutcome::Damaged);
    assert_eq!(read.len(), 4);
    assert_eq!(fs::read(&file).expect("read"), bytes);
}

#[test]
fn unfinished_files_are_no_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    done(store.create("n/k", b"body"));
    fs::write(folder.path().join("n/k/.tmp-1"), "half").expect("written");
    fs::create_dir(folder.path().join("n/empty")).expect("created");
    assert_eq!(store.list_after("", "", 10), ListOutcome::Found(vec!["n/k".to_owned()]));
    assert_eq!(store.read("n/empty"), ReadOutcome::Missing);
}

#[test]
fn d_031_a_probe_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    for process in 1..=3 {
        probe(&store, "dev", ProcessId(process)).expect("fit");
    }
    assert_eq!(names(&folder.path().join("dev/probe")), Vec::<String>::new());
}

const CHILD_FOLDER: &str = "DEXZD_TEST_STORE_FOLDER";
const CHILD_SLOT: &str = "DEXZD_TEST_STORE_SLOT";
const CHILD_COUNTS: u64 = 50;

/// The other half of the next test, in a process of its own.
#[test]
#[ignore = "the next test starts it"]
fn child_process_of_the_next_test() {
    let folder = env::var_os(CHILD_FOLDER).expect("the next test names a folder");
    let slot = env::var(CHILD_SLOT).expect("the next test names a slot").parse().expect("a number");
    count_up(&open(Path::new(&folder)), "tally", slot, CHILD_COUNTS);
}

#[test]
fn d_045_review_10_7_every_version_has_exactly_one_winner_between_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    Tally::create(&store, "tally");
    let children: Vec<_> = (0..4)
        .map(|slot: usize| {
            Command::new(env::current_exe().expect("this program"))
                .args(["--ignored", "--exact"])
                .arg("store::folder::tests::child_process_of_the_next_test")
                .env(CHILD_FOLDER, folder.path())
                .env(CHILD_SLOT, slot.to_string())
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("started")
        })
        .collect();
    let count = children.len();
    for mut child in children {
        assert!(child.wait().expect("ended").success());
    }
    assert_eq!(Tally::read(&store, "tally").1.0[..count], [CHILD_COUNTS; 4]);
}
