//! The program as its users meet it: help, exit codes, and what goes to which stream.

use std::net::TcpListener;
use std::process::{Command, Output};

/// Runs `dexcli` without anything from the environment of whoever runs the tests.
fn dexcli(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dexcli"))
        .args(arguments)
        .env_remove("DEX_FLOW_SERVICE_ADDRESS")
        .output()
        .expect("dexcli was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("dexcli writes UTF-8")
}

/// The error object on stderr.
fn error(output: &Output) -> serde_json::Value {
    assert_eq!(text(&output.stdout), "", "stdout carries results only");
    serde_json::from_slice(&output.stderr).expect("stderr is one JSON object")
}

/// An address at which nobody listens.
fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

#[test]
fn help_texts() {
    let commands: [&[&str]; 22] = [
        &[],
        &["health"],
        &["version"],
        &["version", "check"],
        &["dev"],
        &["flow"],
        &["flow", "start"],
        &["flow", "search"],
        &["flow", "summary"],
        &["flow", "state"],
        &["flow", "history"],
        &["flow", "inspect"],
        &["flow", "watch"],
        &["flow", "stop"],
        &["channel"],
        &["channel", "publish"],
        &["timer"],
        &["timer", "skip"],
        &["admin"],
        &["admin", "describe"],
        &["admin", "step-down"],
        &["completions"],
    ];
    let mut pages = String::new();
    for command in commands {
        let output = dexcli(&[command, &["--help"]].concat());
        assert_eq!(output.status.code(), Some(0));
        pages.push_str(&format!("$ dexcli {} --help\n{}\n", command.join(" "), text(&output.stdout)));
    }
    insta::assert_snapshot!(pages);
}

#[test]
fn the_version_is_one_json_object_for_a_program() {
    let output = dexcli(&["version"]);
    assert_eq!(output.status.code(), Some(0));
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["protocolMin"], 1);
}

#[test]
fn a_usage_error_is_one_json_object_and_exit_code_2() {
    for arguments in [
        &["flow", "summary"][..],
        &["flow", "nonsense"],
        &["--timeout", "10", "health"],
        &["flow", "search", "--page-size", "0"],
        &["flow", "start", "--type", "Order", "--id", "1", "--input", "1"],
        &["flow", "stop", "order-1", "--yes"],
        &["timer", "skip", "order-1", "--step", "Pay-1"],
        &["--server", "nowhere", "health"],
        &["--server", "ftp://127.0.0.1:1", "health"],
    ] {
        let output = dexcli(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(error(&output)["kind"], "usage", "{arguments:?}");
    }
}

#[test]
fn stop_without_yes_sends_nothing() {
    // Nobody listens there: an attempt to send would be a connection error and exit code 1.
    let address = closed_address();
    let output = dexcli(&["--server", &address, "flow", "stop", "order-1", "--run-id", "run-1"]);
    assert_eq!(output.status.code(), Some(2));
    let error = error(&output);
    assert_eq!(error["kind"], "usage");
    assert_eq!(error["message"], "--yes is missing: this stops run run-1 of order-1");
}

#[test]
fn a_refused_connection_names_the_address_and_the_way_out() {
    let address = closed_address();
    for command in [&["health"][..], &["flow", "search"], &["flow", "watch", "order-1"]] {
        let output = dexcli(&[&["--server", &address], command].concat());
        assert_eq!(output.status.code(), Some(1));
        let error = error(&output);
        assert_eq!(error["kind"], "connection");
        assert_eq!(error["operation"], command[..command.len().min(2)].join(" "));
        let message = error["message"].as_str().expect("a text");
        assert!(message.starts_with(&format!("no server answers at {address}: ")), "{message}");
        let hint = error["hint"].as_str().expect("a text");
        assert!(hint.contains("dexcli dev"), "{hint}");
    }
}

#[test]
fn the_flag_wins_over_the_environment() {
    let from_environment = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_dexcli"))
            .args(arguments)
            .env("DEX_FLOW_SERVICE_ADDRESS", "not-an-address")
            .output()
            .expect("dexcli was built for this test");
        error(&output)["kind"].clone()
    };
    assert_eq!(from_environment(&["health"]), "usage");
    assert_eq!(from_environment(&["--server", &closed_address(), "health"]), "connection");
}

#[test]
fn a_server_that_never_answers_ends_with_a_timeout() {
    // It accepts the connection and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let output = dexcli(&["--server", &address, "--timeout", "300ms", "flow", "state", "order-1"]);
    assert_eq!(output.status.code(), Some(1));
    let error = error(&output);
    assert_eq!(error["kind"], "timeout");
    assert_eq!(error["message"], format!("no answer from {address} within 300ms"));
}

#[test]
fn completions_cover_the_shells_people_use() {
    for shell in ["bash", "zsh", "fish"] {
        let output = dexcli(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("dexcli"));
    }
}
