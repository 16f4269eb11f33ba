//! `dexcli admin` against real processes: what a person sees of a step down, and what has happened then.

mod node;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use node::{Line, Node};

const STEP_DOWN: [&str; 3] = ["admin", "step-down", "--yes"];

fn command(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dexcli"));
    command.args(["--server", address]).args(arguments);
    command.env_remove("DEX_FLOW_SERVICE_ADDRESS").env_remove("DEX_CREDENTIAL_FILE");
    command
}

fn dexcli(address: &str, arguments: &[&str]) -> Output {
    command(address, arguments).output().expect("dexcli was built for this test")
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

fn describe(address: &str) -> Value {
    result(&dexcli(address, &["admin", "describe"]))
}

fn assert_code(error: &Value, code: &str) {
    assert_eq!((&error["grpcCodeName"], error.get("outcome")), (&json!(code), None), "{error}");
}

/// The flags of a retry, from what was printed.
fn exactly(printed: &Value) -> Vec<String> {
    let text = |name: &str| printed[name].as_str().expect("a text, HA-126").to_owned();
    let (id, epoch) = (text("expectedNodeId"), text("expectedNodeEpoch"));
    ["admin", "step-down", "--yes", "--expected-node-id", &id, "--expected-node-epoch", &epoch]
        .map(str::to_owned)
        .to_vec()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// HA-112, HA-113, HA-117, HA-124, HA-125, HA-128: a switch between two processes, seen from both.
#[test]
fn ha_112_ha_113_ha_117_ha_124_ha_128_a_step_down_hands_a_pair_over_once() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = home.path().join("store");
    std::fs::create_dir(&store).expect("a folder");
    // Longer than the test: the old active stays in it.
    let config = format!(
        "nodeId: pair\nobjectStorage: {{kind: folder, path: {store:?}}}\nlease: {{duration: 3s}}\n\
         standby: {{mode: cold, stepDownHoldOff: 1h}}\n"
    );
    let first = Node::start(&home.path().join("a"), "serve", &config, "ready");
    let second = Node::start(&home.path().join("b"), "serve", &config, "standby");
    let before = describe(&first.api);
    assert_eq!(before["nodeId"], "pair");

    // A standby is asked by mistake: nothing happens (D-17).
    assert_code(&error(&dexcli(&second.api, &["admin", "describe"]), 1), "UNAVAILABLE");
    let exact = exactly(&json!({"expectedNodeId": "pair", "expectedNodeEpoch": before["nodeEpoch"]}));
    assert_code(&error(&dexcli(&second.api, &words(&exact)), 1), "FAILED_PRECONDITION");
    // HA-116, HA-118: nor without --yes, nor for another node.
    error(&dexcli(&first.api, &["admin", "step-down"]), 2);
    let other = [&STEP_DOWN[..], &["--expected-node-id", "other"]].concat();
    assert_eq!(error(&dexcli(&first.api, &other), 1)["kind"], "nodeMismatch");
    assert_eq!(describe(&first.api), before);

    let stepped_down = result(&dexcli(&first.api, &STEP_DOWN));
    second.says("ready");
    let after = describe(&second.api);
    assert_eq!(
        stepped_down,
        json!({
            "expectedNodeId": "pair",
            "expectedNodeEpoch": before["nodeEpoch"],
            "nodeId": "pair",
            "releasedNodeEpoch": before["nodeEpoch"],
            "leaseReacquisitionHoldOff": "3600s",
            "leaseHolderAfterStepDown": "takenOverByAnotherProcess",
            "activeNodeEpoch": after["nodeEpoch"],
            "activeHolderProcessId": after["holderProcessId"],
        })
    );
    assert_ne!(after["holderProcessId"], before["holderProcessId"]);

    // HA-128, HA-113: a repeat of the old epoch changes nothing, whomever it reaches.
    for address in [&first.api, &second.api] {
        assert_code(&error(&dexcli(address, &words(&exact)), 1), "FAILED_PRECONDITION");
    }
    assert_code(&error(&dexcli(&first.api, &["admin", "describe"]), 1), "FAILED_PRECONDITION");
    assert_eq!(describe(&second.api), after);
}

/// HA-127, HA-128, lesson E4: the answer is lost on the way. What was printed is all that a safe retry needs.
#[test]
fn ha_127_ha_128_lesson_e4_a_lost_answer_is_an_unknown_outcome_and_a_retry_is_safe() {
    let home = tempfile::tempdir().expect("a temporary folder");
    // Nobody takes over, so the call stays open for the hold-off, and the line is cut within it.
    let node = Node::start(home.path(), "dev", "standby: {stepDownHoldOff: 8s}\n", "ready");
    let before = describe(&node.api);
    let line = Line::to(&node.api);
    let mut cut_off = command(&line.address, &STEP_DOWN);
    let child = cut_off.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("built");
    node.says("standby");
    line.cut();
    let failed = error(&child.wait_with_output().expect("it ends"), 1);
    assert_eq!((&failed["outcome"], &failed["operation"]), (&json!("unknown"), &json!("admin step-down")));
    assert_eq!(failed["expectedNodeEpoch"], before["nodeEpoch"]);

    // It had happened: the process takes its lease back, and the retry finds that epoch over.
    let exact = exactly(&failed);
    assert_code(&error(&dexcli(&node.api, &words(&exact)), 1), "FAILED_PRECONDITION");
    node.says("ready");
    let after = describe(&node.api);
    assert_ne!(after["nodeEpoch"], before["nodeEpoch"], "HA-99, HA-115");
    assert_code(&error(&dexcli(&node.api, &words(&exact)), 1), "FAILED_PRECONDITION");
    assert_eq!(describe(&node.api), after);
}

fn file<'a>(path: &'a Path, content: &str) -> &'a str {
    std::fs::write(path, content).expect("writable");
    path.to_str().expect("a plain path")
}

/// HA-87, HA-123, HA-131, HA-134: the commands as the source writes them, and who may run them.
#[test]
fn ha_087_ha_123_ha_134_only_an_admin_credential_opens_admin_commands() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (admin, client) = (home.path().join("admin"), home.path().join("client"));
    let (admin, client) = (file(&admin, "admin-token-0123\n"), file(&client, "client-token-012\n"));
    let wrong = home.path().join("wrong");
    let wrong = file(&wrong, "wrong-token-01234\n");
    let config = format!(
        "standby: {{stepDownHoldOff: 1s}}\n\
         authentication: {{clientTokenFile: {client:?}, adminTokenFile: {admin:?}}}\n"
    );
    let node = Node::start(home.path(), "dev", &config, "ready");
    let with = |arguments: &[&str], file: &str| {
        dexcli(&node.api, &[arguments, &["--credential-file", file]].concat())
    };
    let before = result(&with(&["admin", "describe"], admin));

    let exact = exactly(&json!({"expectedNodeId": "dev", "expectedNodeEpoch": before["nodeEpoch"]}));
    for arguments in [&["admin", "describe"][..], &STEP_DOWN, &words(&exact)] {
        assert_code(&error(&with(arguments, client), 1), "PERMISSION_DENIED");
        assert_code(&error(&with(arguments, wrong), 1), "UNAUTHENTICATED");
        assert_code(&error(&dexcli(&node.api, arguments), 1), "UNAUTHENTICATED");
    }
    assert_eq!(result(&with(&["admin", "describe"], admin)), before, "nothing was stepped down");

    let stepped_down = result(&with(&words(&exact), admin));
    assert_eq!(stepped_down["leaseHolderAfterStepDown"], "takenBackByThisProcess");
    assert_eq!(stepped_down["leaseReacquisitionHoldOff"], "1s");
    node.says("standby");
    node.says("ready");
    let after = result(&with(&["admin", "describe"], admin));
    assert_eq!(stepped_down["activeNodeEpoch"], after["nodeEpoch"]);
    assert_eq!(after["holderProcessId"], before["holderProcessId"], "D-12");
}
