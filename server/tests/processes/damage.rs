//! Damage, gaps, foreign ids and newer formats on the disk: refused by name, nothing overwritten.

use std::fs;
use std::path::{Path, PathBuf};

use dexzd_sdk::prelude::*;

use super::flows::{Relay, WORD, relay_worker};
use super::harness::{Ended, Home, Start, content};

/// A data directory with three epochs in its log, and a few Flows.
fn used(home: &Home) {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    for epoch in 0..3 {
        let server = Start::dev(&home.data()).ready();
        runtime.block_on(async {
            let worker = relay_worker(&server.api);
            let client = Client::connect(&server.api).await.expect("it serves");
            let flow_id = format!("relay-{epoch}");
            client.start::<Relay>(&*flow_id, &"text".to_owned()).await.expect("started");
            client.publish(&*flow_id, &WORD, &"word".to_owned()).await.expect("published");
            client.result::<Relay>(&*flow_id).await.expect("completed");
            worker.abort();
        });
        // An abrupt end: the local store may be behind the log, which is then what counts.
        server.kill();
    }
}

fn segments(home: &Home) -> Vec<PathBuf> {
    let mut segments: Vec<_> = fs::read_dir(home.data().join("log"))
        .expect("a log")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "segment"))
        .collect();
    segments.sort();
    segments
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("readable");
    change(&mut bytes);
    fs::write(path, bytes).expect("writable");
}

/// Starts, and looks that the log is as it was.
fn refused_untouched(home: &Home, start: Start) -> Ended {
    let before = content(&home.data().join("log"));
    let refused = start.refused();
    assert_eq!(refused.code, Some(1));
    let after = content(&home.data().join("log"));
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<PathBuf> {
        files.iter().map(|(path, _)| path.clone()).filter(|path| path.extension().is_some()).collect()
    };
    assert_eq!(names(&before), names(&after));
    for (old, new) in before
        .iter()
        .filter(|(path, _)| path.extension().is_some())
        .zip(after.iter().filter(|(path, _)| path.extension().is_some()))
    {
        assert!(old.1 == new.1, "{} was changed", old.0.display());
    }
    refused
}

#[test]
fn d_041_a_damaged_entry_is_refused_by_name_and_left_as_it_is() {
    let home = Home::new();
    used(&home);
    let segments = segments(&home);
    assert!(segments.len() >= 3, "one per epoch at least");
    // The first record lies behind the header of 64 bytes; this is within its entry.
    change(&segments[1], |bytes| bytes[64 + 20] ^= 1);
    let refused = refused_untouched(&home, Start::dev(&home.data()));
    let line = refused.last_line();
    let first = segments[1].file_stem().expect("a name").to_str().expect("digits").trim_start_matches('0');
    assert!(line.contains("log_unreadable: ") && line.contains("the entry is damaged"), "{line}");
    assert!(line.contains(&format!("position {first}")), "{line}");
}

#[test]
fn d_041_a_gap_in_the_log_is_refused_and_left_as_it_is() {
    let home = Home::new();
    used(&home);
    let segments = segments(&home);
    fs::remove_file(&segments[1]).expect("ours");
    let refused = refused_untouched(&home, Start::dev(&home.data()));
    let line = refused.last_line();
    assert!(line.contains("log_damaged: ") || line.contains("log_hole: "), "{line}");
}

#[test]
fn a_newer_format_of_the_log_is_refused_and_left_as_it_is() {
    let home = Home::new();
    used(&home);
    let segments = segments(&home);
    let last = segments.last().expect("three");
    change(last, |bytes| {
        bytes[4..8].copy_from_slice(&9_u32.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    });
    let refused = refused_untouched(&home, Start::dev(&home.data()));
    let line = refused.last_line();
    assert!(line.starts_with("dex-server-zd refused to start: newer_format: "), "{line}");
    assert!(line.contains("has format 9"), "{line}");
}

#[test]
fn a_newer_format_of_the_local_store_is_refused_and_left_as_it_is() {
    let home = Home::new();
    used(&home);
    let identity = home.data().join("local/IDENTITY");
    let text = fs::read_to_string(&identity).expect("readable");
    fs::write(&identity, text.replace("format 1", "format 9")).expect("writable");
    let refused = refused_untouched(&home, Start::dev(&home.data()));
    assert!(refused.last_line().contains("newer_format: "), "{}", refused.last_line());
    fs::write(&identity, text).expect("writable");
    assert_eq!(Start::dev(&home.data()).ready().terminate().code, Some(0));
}

#[test]
fn a_foreign_node_id_is_refused_with_and_without_the_local_store() {
    let home = Home::new();
    used(&home);
    let other = || Start::dev(&home.data()).config("nodeId: other");
    let refused = refused_untouched(&home, other());
    let line = refused.last_line();
    assert!(line.starts_with("dex-server-zd refused to start: foreign_node: "), "{line}");
    assert!(line.contains("`dev`") && line.contains("`other`"), "{line}");

    // The local store is only a cache; the log names its node too.
    fs::remove_dir_all(home.data().join("local")).expect("ours");
    let refused = refused_untouched(&home, other());
    let line = refused.last_line();
    assert!(line.contains("log_unreadable: ") && line.contains("belongs to node \"dev\""), "{line}");
    assert!(line.ends_with("; see docs/errors/log_unreadable.md"), "{line}");

    // The node itself goes on, on a local store rebuilt from the log.
    fs::remove_dir_all(home.data().join("local")).expect("ours");
    let server = Start::dev(&home.data()).ready();
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let result = runtime.block_on(async {
        let client = Client::connect(&server.api).await.expect("it serves");
        client.result::<Relay>("relay-0").await.expect("completed")
    });
    assert_eq!(result, "text word");
}
