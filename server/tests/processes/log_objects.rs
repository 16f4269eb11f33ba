//! Entries of the log in a shared store that are gone, damaged or another node's: refused by name, and left.

use std::fs;
use std::path::PathBuf;

use dexzd_core::store::{ReadOutcome, WriteOutcome};
use dexzd_io_tokio::store::{FolderStore, ObjectStore as _};
use dexzd_sdk::prelude::*;

use crate::flows::{Relay, relay_worker};
use crate::harness::{Ended, Home, content};
use crate::pair::Member;

/// A store with a log of at least five entries, and a process whose volume is empty.
fn used() -> (Home, Member) {
    let home = Home::new();
    let (member, _, _) = Member::pair(&home);
    let server = member.start().ready_at(&member.api);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let worker = relay_worker(&server.api);
        let client = Client::connect(&server.api).await.expect("it serves");
        for number in 0..5 {
            client.start::<Relay>(format!("flow-{number}"), &"text".to_owned()).await.expect("started");
        }
        worker.abort();
    });
    assert_eq!(server.terminate().code, Some(0));
    fs::remove_dir_all(&member.data).expect("ours");
    (home, member)
}

fn entry(position: u64) -> String {
    format!("pair/log/{position:020}")
}

/// Starts, and looks that the log is as it was and the lease free for whoever comes once it is mended.
fn stopped_untouched(home: &Home, member: &Member, reason: &str) -> Ended {
    let log = home.folder("store").join("pair/log");
    let before = content(&log);
    let ended = member.start().refused();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = ended.last_line();
    assert!(line.starts_with(&format!("dex-server-zd stopped: {reason}: ")), "{line}");
    assert!(line.ends_with(&format!("; see docs/errors/{reason}.md")), "{line}");
    assert!(content(&log) == before, "the log was changed");
    assert!(ended.stderr.contains("the lease is released"), "D-41: {}", ended.stderr);
    ended
}

/// D-41, and a bad input of issue 4: it stops with that reason, and the node goes on once the entry is back.
#[test]
fn d_041_a_missing_entry_in_the_middle_is_named_and_nothing_is_written() {
    let (home, member) = used();
    let folder = member.store.join(entry(3));
    let aside = home.folder("aside").join("entry");
    fs::rename(&folder, &aside).expect("ours");
    let ended = stopped_untouched(&home, &member, "log_hole");
    assert!(ended.last_line().contains("position 3"), "it names the position: {}", ended.last_line());
    assert!(!folder.exists(), "nothing took its place");

    fs::rename(&aside, &folder).expect("ours");
    let server = member.start().ready_at(&member.api);
    assert_eq!(server.terminate().code, Some(0));
}

/// What the store gives back whole, and is no entry.
#[test]
fn d_042_an_entry_that_is_none_is_named_and_left() {
    type Spoil = fn(&[u8]) -> Vec<u8>;
    let cases: [(&str, Spoil); 3] = [
        ("random bytes", |_| std::iter::repeat_with(|| fastrand::u8(..)).take(200).collect()),
        ("empty", |_| Vec::new()),
        ("one bit", |entry| {
            let mut entry = entry.to_vec();
            let middle = entry.len() / 2;
            entry[middle] ^= 1;
            entry
        }),
    ];
    let (home, member) = used();
    let store = FolderStore::open(&member.store, true).expect("a folder");
    let ReadOutcome::Found { body, mut version, .. } = store.read(&entry(3)) else { panic!("no entry") };
    for (name, spoil) in cases {
        let WriteOutcome::Done { version: newer } = store.replace(&entry(3), &spoil(&body), &version) else {
            panic!("{name}: not written");
        };
        version = newer;
        let ended = stopped_untouched(&home, &member, "log_unreadable");
        assert!(ended.last_line().contains("position 3"), "{name}: {}", ended.last_line());
    }
}

/// The folder store's own checksum: bytes that changed on the disk below it.
#[test]
fn d_041_a_file_of_the_store_that_was_damaged_on_the_disk_is_left() {
    let (home, member) = used();
    let file: PathBuf = fs::read_dir(member.store.join(entry(3)))
        .expect("an entry")
        .next()
        .expect("one")
        .expect("read")
        .path();
    let mut bytes = fs::read(&file).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("writable");
    let log = home.folder("store").join("pair/log");
    let before = content(&log);
    let ended = member.start().refused();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = ended.last_line();
    assert!(line.starts_with("dex-server-zd stopped: local_store_failed: "), "{line}");
    assert!(content(&log) == before, "the log was changed");
}
