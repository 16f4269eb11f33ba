use std::fs;

use super::*;

fn held(folder: &Path) -> DevLock {
    match DevLock::acquire(folder).expect("not held by another") {
        LockOutcome::Held(lock) => lock,
        LockOutcome::NotSupported { reason } => panic!("tests need a local file system: {reason}"),
    }
}

#[test]
fn ha_005_lesson_h1_a_second_lock_is_refused_with_the_path_and_the_holder() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = held(folder.path());
    // An flock belongs to the open file, so a second opening in this process is refused like one in another.
    let error = DevLock::acquire(folder.path()).expect_err("held");
    assert_eq!(
        error.to_string(),
        format!(
            "another dex-server-zd process {} uses the data directory {} (it holds {}): stop it, or give this one a \
             directory of its own",
            process::id(),
            folder.path().display(),
            folder.path().join("dev.lock").display(),
        )
    );
    assert!(lock.still_locked());
}

#[test]
fn ha_006_the_lock_of_an_ended_process_is_free_and_its_file_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(held(folder.path()));
    assert!(folder.path().join(LOCK_FILE).exists());
    assert!(held(folder.path()).still_locked());
}

#[test]
fn ha_005_a_missing_data_directory_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = held(&folder.path().join("a/b"));
    assert_eq!(lock.path(), folder.path().join("a/b/dev.lock"));
}

#[test]
fn d_045_review_10_1_a_replaced_or_removed_lock_file_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = held(folder.path());
    fs::rename(lock.path(), folder.path().join("moved")).expect("renamed");
    assert!(!lock.still_locked());
    fs::write(lock.path(), "").expect("replaced");
    assert!(!lock.still_locked());
    let second = held(folder.path());
    assert!(second.still_locked());
    assert!(!lock.still_locked());
}

#[test]
fn d_045_only_known_local_file_systems_count() {
    assert!(is_known_local(0xef53_i64));
    assert!(is_known_local(i64::from(0x9123_683e_u32)));
    assert!(!is_known_local(0x6969_i64), "NFS");
    assert!(!is_known_local(0xff53_4d42_i64), "CIFS");
    assert!(!is_known_local(0x6573_5546_i64), "FUSE");
}
