use super::*;

#[test]
fn d_028_both_spellings_are_accepted() {
    assert_eq!("strict".parse(), Ok(DurabilityMode::Strict));
    assert_eq!("processCrashSafe".parse(), Ok(DurabilityMode::ProcessCrashSafe));
    assert_eq!("process-crash-safe".parse(), Ok(DurabilityMode::ProcessCrashSafe));
    assert_eq!("relaxed".parse(), Ok(DurabilityMode::Relaxed));
    for wrong in ["", "Strict", "processcrashsafe", "none"] {
        let error = wrong.parse::<DurabilityMode>().expect_err("no mode");
        assert_eq!(
            error.to_string(),
            format!(
                "`{wrong}` is no durability mode: use strict, processCrashSafe (or process-crash-safe) or relaxed"
            )
        );
    }
}

#[test]
fn ha_008_strict_is_the_default_and_the_only_mode_that_syncs() {
    assert_eq!(DurabilityMode::default(), DurabilityMode::Strict);
    assert!(DurabilityMode::Strict.syncs());
    assert!(!DurabilityMode::ProcessCrashSafe.syncs());
    assert!(!DurabilityMode::Relaxed.syncs());
}

#[test]
fn ha_010_lesson_h5_an_abrupt_end_of_a_relaxed_run_refuses_every_mode() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(CleanRun::begin(folder.path(), DurabilityMode::Relaxed).expect("a fresh folder is clean"));
    for mode in [DurabilityMode::Strict, DurabilityMode::ProcessCrashSafe, DurabilityMode::Relaxed] {
        let error = CleanRun::begin(folder.path(), mode).expect_err("unclean");
        let text = error.to_string();
        assert!(text.contains(&format!("delete {}", folder.path().display())), "{text}");
    }
}

#[test]
fn ha_010_an_orderly_end_leaves_the_directory_usable() {
    let folder = tempfile::tempdir().expect("a folder");
    for mode in [DurabilityMode::Relaxed, DurabilityMode::Relaxed, DurabilityMode::Strict] {
        let run = CleanRun::begin(folder.path(), mode).expect("clean");
        run.finish().expect("removed");
    }
}

#[test]
fn ha_010_the_other_modes_leave_no_marker() {
    let folder = tempfile::tempdir().expect("a folder");
    for mode in [DurabilityMode::Strict, DurabilityMode::ProcessCrashSafe] {
        drop(CleanRun::begin(folder.path(), mode).expect("clean"));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0);
}
