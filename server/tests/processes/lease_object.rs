//! A lease object that no process wrote: never overwritten, by whoever meets it (D-9, D-49).

use std::path::Path;

use dexzd_core::lease::LeaseRecord;
use dexzd_core::store::{ReadOutcome, Version};
use dexzd_io_tokio::store::{DeleteOutcome, FolderStore, ObjectStore as _};

use crate::harness::{Home, Server, content};
use crate::pair::Member;

const KEY: &str = "pair/lease";

fn read(store: &Path) -> (Version, Vec<u8>) {
    let lease = FolderStore::open(store, true).expect("a folder").read(KEY);
    let ReadOutcome::Found { version, body, .. } = lease else { panic!("no lease: {lease:?}") };
    (version, body.to_vec())
}

/// Replaces it, whatever its holder writes meanwhile.
fn put(store: &Path, body: &[u8]) {
    use dexzd_core::store::WriteOutcome;
    let folder = FolderStore::open(store, true).expect("a folder");
    while !matches!(folder.replace(KEY, body, &read(store).0), WriteOutcome::Done { .. }) {}
}

/// A name, what the object is replaced by, and the word that tells why it cannot be read.
type Case = (&'static str, fn(&[u8]) -> Vec<u8>, &'static str);

const CASES: [Case; 4] = [
    ("random bytes", |_| std::iter::repeat_with(|| fastrand::u8(..)).take(150).collect(), "Damaged"),
    ("empty", |_| Vec::new(), "Damaged"),
    ("a newer version's", newer, "NewerFormat { found: 2 }"),
    ("another node's", foreign, "ForeignNode { found: \"other\" }"),
];

/// An array whose first item is the format.
fn newer(lease: &[u8]) -> Vec<u8> {
    let mut newer = lease.to_vec();
    assert_eq!(newer[1], 1);
    newer[1] = 2;
    newer
}

fn foreign(lease: &[u8]) -> Vec<u8> {
    let mut record = LeaseRecord::decode(lease, &"pair".into()).expect("its own");
    record.node_id = "other".into();
    record.encode().to_vec()
}

/// What lies in the store. The start-up probe leaves an empty folder.
fn stored(home: &Home) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    content(&home.folder("store"))
}

/// A store with a free lease and a log.
fn used() -> (Home, Member) {
    let home = Home::new();
    let (member, _, _) = Member::pair(&home);
    let ended = member.start().ready_at(&member.api).terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    (home, member)
}

/// D-49: it waits and says why; once somebody has mended the object, it goes on.
#[test]
fn d_049_a_candidate_waits_behind_a_lease_that_it_cannot_read_and_changes_nothing() {
    let (home, member) = used();
    let (_, lease) = read(&member.store);
    for (name, spoil, why) in CASES {
        put(&member.store, &spoil(&lease));
        let before = stored(&home);
        let waits = member.start().standing_by_at(&member.api);
        assert_eq!(waits.metric("dexzd_role{role=\"waiting\"}"), 1);
        let ended = waits.terminate();
        assert_eq!(ended.code, Some(0), "D-29: {}", ended.stderr);
        let line = ended.stderr.lines().find(|line| line.contains("the lease object cannot be read"));
        let line = line.unwrap_or_else(|| panic!("{name}: {}", ended.stderr));
        assert!(line.contains(why) && line.contains("docs/errors/lease_unreadable.md"), "{name}: {line}");
        assert!(stored(&home) == before, "{name}: the store was changed");

        // HA-39, D-36: or it does not wait.
        let refused = member.start().replacing("duration: 3s", "duration: 3s, failIfHeld: true");
        let refused = refused.replacing("mode: hot", "mode: cold").refused();
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        let line = refused.last_line();
        assert!(line.starts_with("dex-server-zd stopped: lease_unreadable: "), "{name}: {line}");
        assert!(stored(&home) == before, "{name}: the store was changed");
    }

    let waits = member.start().standing_by_at(&member.api);
    put(&member.store, &lease);
    assert_eq!(waits.next_word(), "ready");
    assert_eq!(waits.terminate().code, Some(0));
}

fn assert_holder_stops(mut server: Server, name: &str, reason: &str) {
    let ended = server.wait();
    assert_eq!(ended.code, Some(1), "HA-34: {}", ended.stderr);
    let line = ended.last_line();
    assert!(line.starts_with(&format!("dex-server-zd stopped: {reason}: ")), "{name}: {line}");
    assert!(line.ends_with(&format!("; see docs/errors/{reason}.md")), "{name}: {line}");
}

/// D-49: a holder meets it at its next renewal, stops with a reason of its own, and does not release.
#[test]
fn d_049_ha_034_a_holder_stops_at_a_lease_that_it_cannot_read_and_leaves_it() {
    let (_home, member) = used();
    let (_, lease) = read(&member.store);
    for ((name, spoil, _), round) in CASES.into_iter().zip(0..) {
        let server = member.start().ready_at(&member.api);
        let spoilt = spoil(&read(&member.store).1);
        put(&member.store, &spoilt);
        assert_holder_stops(server, name, "lease_unreadable");
        assert!(read(&member.store).1 == spoilt, "{name}: it was overwritten");
        let mut free = LeaseRecord::decode(&lease, &"pair".into()).expect("its own");
        // Mended, above every epoch that was in use.
        free.epoch.0 += 100 * (round + 1);
        put(&member.store, &free.encode());
    }
}

/// D-9, lesson D2: a holder whose lease object is deleted stops with a reason of its own; the next process waits as
/// long as that holder could have lived, and begins above every epoch in the log.
#[test]
fn d_009_d_049_lesson_d2_a_deleted_lease_ends_its_holder_and_epochs_go_on_rising() {
    let (_home, member) = used();
    let server = member.start().ready_at(&member.api);
    let epoch = server.metric("dexzd_epoch");
    assert_eq!(FolderStore::open(&member.store, true).expect("a folder").delete(KEY), DeleteOutcome::Done);
    assert_holder_stops(server, "deleted", "lease_gone");
    let next = member.start().standing_by_at(&member.api);
    assert_eq!(next.next_word(), "ready");
    assert!(next.metric("dexzd_epoch") > epoch + 999, "D-49");
    let ended = next.terminate();
    assert!(ended.stderr.contains("the lease object is missing beside a log"), "{}", ended.stderr);
}
