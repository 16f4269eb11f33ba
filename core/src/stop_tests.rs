use super::StopReason;
use std::collections::BTreeSet;
use std::string::{String, ToString};

#[test]
fn ha_034_every_stop_but_a_shutdown_exits_with_1() {
    for reason in StopReason::ALL {
        assert_eq!(reason.exit_code(), u8::from(reason != StopReason::Shutdown), "{reason:?}");
    }
}

#[test]
fn d_032_every_stop_has_a_label_and_a_sentence_of_its_own() {
    let labels: BTreeSet<&str> = StopReason::ALL.into_iter().map(StopReason::label).collect();
    let sentences: BTreeSet<String> = StopReason::ALL.into_iter().map(|reason| reason.to_string()).collect();
    assert_eq!((labels.len(), sentences.len()), (StopReason::ALL.len(), StopReason::ALL.len()));
}

#[test]
fn d_051_a_stop_whose_release_has_one_second_is_one_that_releases() {
    for reason in StopReason::ALL {
        assert!(!reason.has_shut_gate() || reason.leaves_lease_to_release(), "{reason:?}");
    }
}

#[test]
fn d_032_the_list_of_reasons_is_complete() {
    // The number after the last one names no reason: a reason that is added must join the list.
    for (number, reason) in StopReason::ALL.into_iter().enumerate() {
        let encoded = minicbor::to_vec(reason).expect("writing to a vector cannot fail");
        assert_eq!(minicbor::decode::<u64>(&encoded).expect("reasons are numbers"), number as u64);
    }
    let next = minicbor::to_vec(StopReason::ALL.len()).expect("writing to a vector cannot fail");
    assert!(minicbor::decode::<StopReason>(&next).is_err());
}
