use super::StopReason;
use std::collections::BTreeSet;
use std::string::{String, ToString};
use std::vec::Vec;

/// Every reason.
fn all() -> Vec<StopReason> {
    let all = [
        StopReason::Shutdown,
        StopReason::LeaseExpired,
        StopReason::LeaseTaken,
        StopReason::LeaseGone,
        StopReason::LeaseUnreadable,
        StopReason::StoragePermanent,
        StopReason::LogWriteTimeout,
        StopReason::LogHole,
        StopReason::LogShort,
        StopReason::LogUnreadable,
        StopReason::LocalStoreFailed,
        StopReason::TakeoverFailed,
        StopReason::EngineStalled,
        StopReason::StoreNotClosed,
        StopReason::UnknownOwnWrite,
        StopReason::DevLockReplaced,
        StopReason::LeaseHeld,
    ];
    Vec::from(all)
}

#[test]
fn ha_034_every_stop_but_a_shutdown_exits_with_1() {
    for reason in all() {
        assert_eq!(reason.exit_code(), u8::from(reason != StopReason::Shutdown), "{reason:?}");
    }
}

#[test]
fn d_032_every_stop_has_a_label_and_a_sentence_of_its_own() {
    let labels: BTreeSet<&str> = all().into_iter().map(StopReason::label).collect();
    let sentences: BTreeSet<String> = all().into_iter().map(|reason| reason.to_string()).collect();
    assert_eq!((labels.len(), sentences.len()), (all().len(), all().len()));
}

#[test]
fn d_051_a_stop_whose_release_has_one_second_is_one_that_releases() {
    for reason in all() {
        assert!(!reason.has_shut_gate() || reason.leaves_lease_to_release(), "{reason:?}");
    }
}
