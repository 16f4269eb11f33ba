//! `dexcli admin` as a person types it, against a server that answers as the test says.

mod scripted;

use std::process::{Child, Command, Output, Stdio};

use dexzd_proto as proto;
use proto::LeaseHolder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tonic::{Code, Status};

use scripted::{Asked, Reply, Server};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dexcli"));
    command.args(arguments).env_remove("DEX_FLOW_SERVICE_ADDRESS");
    command
}

fn dexcli(server: &Server, arguments: &[&str]) -> Output {
    let address = server.address();
    let all = [&["--server", &*address], arguments].concat();
    command(&all).output().expect("dexcli was built for this test")
}

fn started(server: &Server, arguments: &[&str]) -> Child {
    let address = server.address();
    let all = [&["--server", &*address], arguments].concat();
    let mut command = command(&all);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("dexcli was built for this test")
}

/// The result on stdout of a command that succeeded.
fn result(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    serde_json::from_slice(&output.stdout).expect("stdout is one JSON object")
}

/// The error on stderr of a command that failed with this exit code.
fn error(output: &Output, exit_code: i32) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit_code), "{stderr}");
    assert!(output.stdout.is_empty(), "stdout carries results only");
    serde_json::from_slice(&output.stderr).expect("stderr is one JSON object")
}

fn described(epoch: u64) -> Reply {
    Reply::Described(Ok(proto::NodeDescription {
        node_id: "n1".to_owned(),
        node_epoch: epoch,
        holder_process_id: format!("{:032x}", 0xab),
    }))
}

fn answer(holder: LeaseHolder) -> proto::StepDownResponse {
    proto::StepDownResponse {
        node_id: "n1".to_owned(),
        released_node_epoch: 7,
        lease_reacquisition_hold_off_ms: 5_000,
        lease_holder_after_step_down: holder.into(),
        active: Some(proto::ActiveProcess { node_epoch: 8, holder_process_id: format!("{:032x}", 0xcd) }),
        lease_holder_unknown_detail: String::new(),
    }
}

fn taken_over() -> Reply {
    Reply::SteppedDown(Ok(answer(LeaseHolder::TakenOverByAnotherProcess)))
}

fn step_down(node_id: &str, epoch: u64) -> Asked {
    Asked::StepDown { node_id: node_id.to_owned(), epoch }
}

const STEP_DOWN: [&str; 3] = ["admin", "step-down", "--yes"];
const WITH_BOTH: [&str; 7] =
    ["admin", "step-down", "--yes", "--expected-node-id", "n1", "--expected-node-epoch", "7"];

#[test]
fn ha_112_ha_126_describe_prints_three_texts() {
    let server = Server::start([described(u64::MAX)]);
    let output = dexcli(&server, &["admin", "describe"]);
    assert_eq!(
        result(&output),
        json!({
            "nodeId": "n1",
            "nodeEpoch": "18446744073709551615",
            "holderProcessId": "000000000000000000000000000000ab",
        })
    );
    assert_eq!(server.asked(), [Asked::Describe]);
}

#[test]
fn ha_112_describe_as_a_table() {
    let server = Server::start([described(7)]);
    let output = dexcli(&server, &["--output", "table", "admin", "describe"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines,
        [
            vec!["node", "id", "n1"],
            vec!["node", "epoch", "7"],
            vec!["holder", "process", "id", "000000000000000000000000000000ab"]
        ]
    );
}

#[test]
fn ha_113_describe_of_a_process_that_steps_down() {
    let status = Status::failed_precondition("this process is stepping down or in its hold-off");
    let server = Server::start([Reply::Described(Err(status))]);
    let error = error(&dexcli(&server, &["admin", "describe"]), 1);
    assert_eq!(error["kind"], "request");
    assert_eq!(error["operation"], "admin describe");
    assert_eq!(error["message"], "this process is stepping down or in its hold-off");
    assert_eq!((&error["grpcCode"], &error["grpcCodeName"]), (&json!(9), &json!("FAILED_PRECONDITION")));
    assert!(error["hint"].as_str().expect("a hint").contains("let the hold-off pass"), "{error}");
    assert_eq!(error.get("outcome"), None);
}

#[test]
fn ha_114_describe_without_a_server_is_unavailable() {
    let address = Server::start([]).address();
    let output = command(&["--server", &address, "admin", "describe"]).output().expect("built");
    let error = error(&output, 1);
    assert_eq!(error["kind"], "connection");
    assert_eq!(error["grpcCodeName"], "UNAVAILABLE");
    assert!(error["message"].as_str().expect("a text").starts_with("no server answers at "), "{error}");
}

#[test]
fn ha_110_a_server_without_the_service_is_named_as_such() {
    let server = Server::without_admin_service();
    for arguments in [&["admin", "describe"][..], &STEP_DOWN, &WITH_BOTH] {
        let error = error(&dexcli(&server, arguments), 1);
        assert_eq!(error["grpcCodeName"], "UNIMPLEMENTED");
        assert!(error["hint"].as_str().expect("a hint").contains("has no AdminService"), "{error}");
        assert_eq!(error.get("outcome"), None, "nothing was stepped down");
    }
}

#[test]
fn ha_116_ha_120_d_020_usage_errors_exit_2_and_send_nothing() {
    let server = Server::start([]);
    let id = ["--expected-node-id", "n1"];
    for (arguments, message) in [
        (vec!["admin", "step-down"], "confirm it with --yes"),
        ([&["admin", "step-down"], &id[..]].concat(), "confirm it with --yes"),
        (
            [&STEP_DOWN[..], &["--expected-node-epoch", "7"]].concat(),
            "--expected-node-epoch needs --expected-node-id",
        ),
        ([&STEP_DOWN[..], &id, &["--expected-node-epoch", "0"]].concat(), "a node epoch is at least 1"),
        ([&STEP_DOWN[..], &id, &["--expected-node-epoch", "-1"]].concat(), "the digits 0 to 9 only"),
        ([&STEP_DOWN[..], &id, &["--expected-node-epoch", "0x7"]].concat(), "the digits 0 to 9 only"),
        (
            [&STEP_DOWN[..], &id, &["--expected-node-epoch", "18446744073709551616"]].concat(),
            "a node epoch fits into 64 bits",
        ),
        ([&STEP_DOWN[..], &["--expected-node-id", ""]].concat(), "--expected-node-id"),
        ([&STEP_DOWN[..], &["--timeout", "120"]].concat(), "the unit is missing"),
    ] {
        let error = error(&dexcli(&server, &arguments), 2);
        assert_eq!(error["kind"], "usage", "{arguments:?}");
        assert!(error["message"].as_str().expect("a text").contains(message), "{arguments:?}: {error}");
    }
    assert_eq!((server.asked(), server.connections()), (Vec::new(), 0));
}

#[test]
fn ha_117_ha_124_ha_125_without_flags_it_expects_what_it_describes() {
    let server = Server::start([described(7), taken_over()]);
    let output = dexcli(&server, &STEP_DOWN);
    assert_eq!(
        result(&output),
        json!({
            "expectedNodeId": "n1",
            "expectedNodeEpoch": "7",
            "nodeId": "n1",
            "releasedNodeEpoch": "7",
            "leaseReacquisitionHoldOff": "5s",
            "leaseHolderAfterStepDown": "takenOverByAnotherProcess",
            "activeNodeEpoch": "8",
            "activeHolderProcessId": "000000000000000000000000000000cd",
        })
    );
    assert_eq!(server.asked(), [Asked::Describe, step_down("n1", 7)]);
    assert_eq!(server.connections(), 1, "both calls reach the same process");
}

#[test]
fn ha_124_ha_125_the_other_outcomes() {
    let mut back = answer(LeaseHolder::TakenBackByThisProcess);
    back.active = None;
    let mut unknown = answer(LeaseHolder::Unknown);
    unknown.lease_holder_unknown_detail = "the lease object is missing".to_owned();
    for (answer, word, detail) in [
        (back, "takenBackByThisProcess", Value::Null),
        (unknown, "unknown", json!("the lease object is missing")),
    ] {
        let server = Server::start([Reply::SteppedDown(Ok(answer))]);
        let result = result(&dexcli(&server, &WITH_BOTH));
        assert_eq!(result["leaseHolderAfterStepDown"], word);
        assert_eq!(result["leaseHolderUnknownDetail"], detail);
        assert_eq!(result.get("activeNodeEpoch"), None);
        assert_eq!(result.get("activeHolderProcessId"), None);
    }
}

#[test]
fn ha_118_ha_133_the_node_id_alone_describes_and_compares() {
    let arguments = [&STEP_DOWN[..], &["--expected-node-id", "n2"]].concat();
    let server = Server::start([described(7)]);
    let error = error(&dexcli(&server, &arguments), 1);
    assert_eq!(error["kind"], "nodeMismatch");
    let message = "nothing was stepped down: this server is of node `n1`, not of `n2`";
    assert_eq!(error["message"], message);
    assert_eq!(error.get("outcome"), None);
    assert_eq!(server.asked(), [Asked::Describe]);

    let arguments = [&STEP_DOWN[..], &["--expected-node-id", "n1"]].concat();
    let server = Server::start([described(7), taken_over()]);
    assert_eq!(result(&dexcli(&server, &arguments))["expectedNodeEpoch"], "7");
    assert_eq!(server.asked(), [Asked::Describe, step_down("n1", 7)]);
}

#[test]
fn ha_119_d_020_both_flags_are_sent_as_they_are() {
    let server = Server::start([taken_over()]);
    let arguments = [&STEP_DOWN[..], &["--expected-node-id", "n1", "--expected-node-epoch", "007"]].concat();
    assert_eq!(result(&dexcli(&server, &arguments))["expectedNodeEpoch"], "7");
    assert_eq!(server.asked(), [step_down("n1", 7)]);
}

#[test]
fn ha_121_a_describe_that_fails_steps_nothing_down() {
    let status = Status::unavailable("this process is a standby");
    let server = Server::start([Reply::Described(Err(status))]);
    let failed = error(&dexcli(&server, &STEP_DOWN), 1);
    assert_eq!(failed["message"], "nothing was stepped down: describe failed: this process is a standby");
    assert_eq!((&failed["grpcCodeName"], failed.get("outcome")), (&json!("UNAVAILABLE"), None));
    assert_eq!(server.asked(), [Asked::Describe]);

    let address = Server::start([]).address();
    let output = command(&[&["--server", &*address], &STEP_DOWN[..]].concat()).output().expect("built");
    let unreachable = error(&output, 1);
    let message = unreachable["message"].as_str().expect("a text");
    assert!(message.starts_with("nothing was stepped down: describe failed: no server answers"), "{message}");
    assert_eq!(unreachable.get("outcome"), None);
}

/// The help says what no program can check.
#[test]
fn ha_115_ha_129_ha_130_ha_133_the_help_tells_operators_what_to_do() {
    let help = |arguments: &[&str]| {
        let output = command(&[arguments, &["--help"]].concat()).output().expect("built");
        String::from_utf8(output.stdout).expect("UTF-8").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let describe = help(&["admin", "describe"]);
    assert!(
        describe
            .contains("shows that a switch has taken place, this one or a different one: then do not repeat")
    );
    let step_down = help(&["admin", "step-down"]);
    assert!(step_down.contains("Never repeat it without the two, or with a newer epoch"), "{step_down}");
    assert!(step_down.contains("Give it on a first run: it guards against a wrong --server"), "{step_down}");
}

/// What every end without an outcome has in common.
fn assert_unknown(error: &Value, kind: &str, code: &str) {
    assert_eq!((&error["kind"], &error["grpcCodeName"]), (&json!(kind), &json!(code)), "{error}");
    assert_eq!(error["outcome"], "unknown");
    assert_eq!((&error["expectedNodeId"], &error["expectedNodeEpoch"]), (&json!("n1"), &json!("7")));
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("--expected-node-id n1 --expected-node-epoch 7 is safe"), "{hint}");
}

#[test]
fn ha_127_a_call_that_ends_so_leaves_the_outcome_unknown() {
    for (status, code) in [
        (Status::deadline_exceeded("too late"), "DEADLINE_EXCEEDED"),
        (Status::cancelled("given up"), "CANCELLED"),
        (Status::unavailable("gone"), "UNAVAILABLE"),
    ] {
        let server = Server::start([Reply::SteppedDown(Err(status.clone()))]);
        let failed = error(&dexcli(&server, &WITH_BOTH), 1);
        assert_unknown(&failed, "request", code);
        let message = format!("the outcome of the step down is unknown: {}", status.message());
        assert_eq!(failed["message"], message);
        // Also after a describe: the epoch of the call, not one to be looked up.
        let server = Server::start([described(7), Reply::SteppedDown(Err(status))]);
        assert_unknown(&error(&dexcli(&server, &STEP_DOWN), 1), "request", code);
    }
    for code in [Code::FailedPrecondition, Code::Internal, Code::InvalidArgument, Code::Unauthenticated] {
        let server = Server::start([Reply::SteppedDown(Err(Status::new(code, "no")))]);
        let failed = error(&dexcli(&server, &WITH_BOTH), 1);
        assert_eq!((&failed["message"], failed.get("outcome")), (&json!("no"), None));
        assert_eq!(failed["expectedNodeEpoch"], "7");
    }
}

#[test]
fn ha_127_an_unreachable_server_leaves_it_unknown_too() {
    let address = Server::start([]).address();
    let output = command(&[&["--server", &*address], &WITH_BOTH[..]].concat()).output().expect("built");
    assert_unknown(&error(&output, 1), "connection", "UNAVAILABLE");
}

#[test]
fn ha_122_ha_127_the_commands_own_time_is_over() {
    let server = Server::start([Reply::Never]);
    let arguments = [&["--timeout", "300ms"], &WITH_BOTH[..]].concat();
    let failed = error(&dexcli(&server, &arguments), 1);
    assert_unknown(&failed, "timeout", "DEADLINE_EXCEEDED");

    let server = Server::start([Reply::Never]);
    let arguments = [&["--timeout", "300ms"], &STEP_DOWN[..]].concat();
    let failed = error(&dexcli(&server, &arguments), 1);
    assert_eq!(failed["message"], "nothing was stepped down: the time is over");
    assert_eq!(failed.get("outcome"), None);
}

/// HA-127 with the same output: Ctrl+C, and the SIGTERM of a supervisor.
#[test]
fn ha_127_ctrl_c_is_cancelled_and_the_outcome_unknown() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = Server::start([Reply::Never]);
        // Without a limit: nothing else ends it.
        let arguments = [&["--timeout", "0"], &WITH_BOTH[..]].concat();
        let child = started(&server, &arguments);
        assert_eq!(server.next_asked(), step_down("n1", 7));
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("it runs");
        let failed = error(&child.wait_with_output().expect("it ends"), 1);
        assert_unknown(&failed, "interrupted", "CANCELLED");
    }
}

#[test]
fn ha_121_ctrl_c_before_the_call_steps_nothing_down() {
    let server = Server::start([Reply::Never]);
    let child = started(&server, &STEP_DOWN);
    assert_eq!(server.next_asked(), Asked::Describe);
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::INT).expect("it runs");
    let failed = error(&child.wait_with_output().expect("it ends"), 1);
    assert_eq!(failed["message"], "nothing was stepped down: interrupted");
    assert_eq!(failed.get("outcome"), None);
}

/// The answer is lost with its connection; what was printed is all that a safe retry needs.
#[test]
fn lesson_e4_ha_128_a_retry_with_what_was_printed_changes_nothing() {
    let server = Server::start([described(7), Reply::Never]);
    let child = started(&server, &STEP_DOWN);
    assert_eq!([server.next_asked(), server.next_asked()], [Asked::Describe, step_down("n1", 7)]);
    server.cut();
    let failed = error(&child.wait_with_output().expect("it ends"), 1);
    assert_eq!(failed["outcome"], "unknown");
    let printed = |name: &str| failed[name].as_str().expect("a text").to_owned();

    // The successor serves epoch 8.
    let over =
        Status::failed_precondition("nothing was changed: the tenure of epoch 7 is over, this is epoch 8");
    let successor = Server::start([Reply::SteppedDown(Err(over))]);
    let (id, epoch) = (printed("expectedNodeId"), printed("expectedNodeEpoch"));
    let retry = [&STEP_DOWN[..], &["--expected-node-id", &id, "--expected-node-epoch", &epoch]].concat();
    let failed = error(&dexcli(&successor, &retry), 1);
    assert_eq!(failed["grpcCodeName"], "FAILED_PRECONDITION");
    assert_eq!(failed.get("outcome"), None, "now it is known: the switch has happened");
    assert_eq!(successor.asked(), [step_down("n1", 7)]);
}

#[test]
fn ha_123_server_and_credential_file_select_target_and_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("admin-token");
    std::fs::write(&path, "  admin-token-89abc\n").expect("writable");
    let path = path.to_str().expect("a plain path");
    let server = Server::start([
        described(7),
        described(7),
        Reply::SteppedDown(Ok(answer(LeaseHolder::TakenOverByAnotherProcess))),
    ]);
    // Before the command, behind it, and by the variable.
    result(&dexcli(&server, &["--credential-file", path, "admin", "describe"]));
    result(&dexcli(&server, &["admin", "step-down", "--yes", "--credential-file", path]));
    assert_eq!(server.credentials(), ["Bearer admin-token-89abc"; 3]);

    let server =
        Server::start([Reply::Described(Err(Status::unauthenticated("the credential is not valid here")))]);
    let address = server.address();
    let mut with_variable = command(&["--server", &*address, "admin", "describe"]);
    let output =
        with_variable.env("DEX_CREDENTIAL_FILE", path).output().expect("dexcli was built for this test");
    let refused = error(&output, 1);
    assert_eq!(refused["grpcCodeName"], "UNAUTHENTICATED");
    assert_eq!(server.credentials(), ["Bearer admin-token-89abc"]);
}

#[test]
fn a_credential_file_that_cannot_be_used_sends_nothing() {
    let server = Server::start([]);
    let unreadable = error(&dexcli(&server, &["--credential-file", "/nothing/here", "admin", "describe"]), 1);
    assert_eq!(unreadable["kind"], "io");
    assert_eq!(
        unreadable["message"],
        "--credential-file: the credential file cannot be used: /nothing/here: No such file or directory (os error \
         2); nothing was sent"
    );
    assert_eq!(server.asked(), []);
}

#[test]
fn tls_that_does_not_fit_is_said() {
    let server = Server::start([]);
    let file = error(&dexcli(&server, &["--tls-ca-file", "/nothing/here", "admin", "describe"]), 1);
    assert_eq!(file["kind"], "io");
    assert_eq!(
        file["message"],
        "TLS: /nothing/here: it cannot be read: No such file or directory (os error 2)"
    );
    let alone = error(&dexcli(&server, &["--tls-cert-file", "/nothing/here", "admin", "describe"]), 2);
    assert_eq!(alone["kind"], "usage");
    let plain = error(&dexcli(&server, &["--tls", "health"]), 1);
    assert_eq!(plain["kind"], "connection");
    assert!(plain["message"].as_str().expect("a text").contains("perhaps"), "{plain}");
    assert_eq!(server.asked(), []);
}
