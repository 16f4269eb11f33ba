use dexzd_proto::{ErrorDetail, FlowStatus, SubStatus};
use prost::Message as _;

use super::*;

fn already_started() -> Status {
    let detail = ErrorDetail {
        sub_status: SubStatus::FlowAlreadyStarted.into(),
        field: "flow_id".to_owned(),
        run_id: "run-7".to_owned(),
        flow_status: FlowStatus::Running.into(),
    };
    let bytes = detail.encode_to_vec().into();
    Status::with_details(Code::AlreadyExists, "flow order-1 is running", bytes)
}

#[test]
fn a_servers_error_keeps_its_code_and_details() {
    let failure = Failure::from_status("flow start", "127.0.0.1:8801", &already_started());
    insta::assert_snapshot!(failure.json(), @r#"{"kind":"request","operation":"flow start","message":"flow order-1 is running","grpcCode":6,"grpcCodeName":"ALREADY_EXISTS","details":{"subStatus":"flowAlreadyStarted","field":"flow_id","runId":"run-7","flowStatus":"running"},"hint":"Choose another --id, or say with --id-reuse-policy when the ID may be used again."}"#);
    assert_eq!(failure.exit_code(), 1);
}

#[test]
fn a_person_reads_sentences_and_what_to_do() {
    let failure = Failure::from_status("flow start", "127.0.0.1:8801", &already_started());
    insta::assert_snapshot!(failure.sentence(), @r"
    dexcli flow start: flow order-1 is running (ALREADY_EXISTS)
      Choose another --id, or say with --id-reuse-policy when the ID may be used again.
    ");
}

#[test]
fn a_usage_error_ends_with_2_and_all_others_with_1() {
    let kinds = [
        Kind::Usage,
        Kind::Connection,
        Kind::Timeout,
        Kind::Request,
        Kind::NotServing,
        Kind::Incompatible,
        Kind::FlowNotCompleted,
        Kind::Io,
    ];
    let codes = kinds.map(|kind| Failure::new(kind, "test", String::new()).exit_code());
    assert_eq!(codes, [2, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn details_that_are_not_ours_are_left_out() {
    let status = Status::with_details(Code::Internal, "odd", vec![0xff, 0xff].into());
    let failure = Failure::from_status("flow state", "127.0.0.1:8801", &status);
    assert_eq!(
        failure.json().to_string(),
        r#"{"kind":"request","operation":"flow state","message":"odd","grpcCode":13,"grpcCodeName":"INTERNAL"}"#
    );
}
