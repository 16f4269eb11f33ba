//! What a start refuses, and in which words.

use std::net::TcpListener;

use super::harness::{Home, Start, connect};

/// HA-5, lesson H1: two processes on one directory.
#[test]
fn ha_005_ha_048_lesson_h1_a_second_process_on_a_directory_is_refused_with_the_path() {
    let home = Home::new();
    let first = Start::dev(&home.data()).ready();
    for (profile, config) in [("dev", "lease: {failIfHeld: false}"), ("local", "lease: {failIfHeld: true}")] {
        let second = Start::profile(profile, &home.data()).config(config).refused();
        assert_eq!(second.code, Some(1));
        let line = second.last_line();
        assert!(line.starts_with("dex-server-zd refused to start: data_dir_in_use: "), "{line}");
        assert!(line.contains(home.data().to_str().expect("a plain path")), "{line}");
        assert!(line.ends_with("; see docs/errors/data_dir_in_use.md"), "{line}");
    }
    assert_eq!(first.metric("dexzd_role{role=\"active\"}"), 1);
    assert_eq!(first.terminate().code, Some(0));
}

/// HA-6, HA-13, lesson H1: SIGKILL and start at once.
#[test]
fn ha_006_ha_013_lesson_h1_after_a_kill_the_lease_is_taken_at_once_with_a_higher_epoch() {
    let home = Home::new();
    let first = Start::dev(&home.data()).ready();
    let epoch = first.metric("dexzd_epoch");
    first.kill();
    // Were it to wait for the expiry of 31 s, the log would say so.
    let mut second = Start::dev(&home.data()).ready();
    assert!(second.metric("dexzd_epoch") > epoch);
    second.signal(rustix::process::Signal::TERM);
    let ended = second.wait();
    assert!(!ended.stderr.contains("waiting for its release"), "{}", ended.stderr);
}

/// HA-10, lesson H5: relaxed mode after an abrupt end.
#[test]
fn ha_010_ha_012_lesson_h5_after_an_abrupt_end_of_relaxed_mode_every_mode_is_refused() {
    for profile in ["dev", "local"] {
        let home = Home::new();
        let relaxed = || Start::profile(profile, &home.data()).with(&["--durability", "relaxed"]);
        // An end in order leaves the directory usable.
        assert_eq!(relaxed().ready().terminate().code, Some(0));
        relaxed().ready().kill();
        for mode in ["relaxed", "strict", "process-crash-safe"] {
            let refused = Start::profile(profile, &home.data()).with(&["--durability", mode]).refused();
            assert_eq!(refused.code, Some(1));
            let line = refused.last_line();
            assert!(line.starts_with("dex-server-zd refused to start: data_dir_unclean: "), "{line}");
            assert!(line.contains(&format!("delete {}", home.data().display())), "{line}");
        }
        std::fs::remove_dir_all(home.data()).expect("ours");
        assert_eq!(relaxed().ready().terminate().code, Some(0));
    }
}

/// Lesson F7 at the binary: key, value, rule, and an exit status of its own.
#[test]
fn lesson_f7_ha_048_ha_050_a_bad_configuration_ends_with_status_2_and_touches_nothing() {
    for (yaml, expected) in [
        ("lease: {duration: 10}", "lease.duration: `10` is refused"),
        ("lease: {duration: 4hrs}", "lease.duration: `4hrs` is refused"),
        ("lease: {duration: 2s}", "lease.duration: `2s` is refused"),
        ("standby: {mode: hot}", "standby.mode: `hot` is refused"),
        ("stanby: {mode: hot}", "stanby: unknown section"),
        ("api: {listen: 8801}", "api.listen: `8801` is refused"),
    ] {
        let home = Home::new();
        let refused = Start::dev(&home.data()).config(yaml).refused();
        assert_eq!(refused.code, Some(2), "{yaml}");
        let line = refused.last_line();
        let begin = format!("dex-server-zd refused to start: config_refused: {expected}");
        assert!(line.starts_with(&begin), "{line}");
        assert!(line.ends_with("; see docs/errors/config_refused.md"), "{line}");
        assert!(!home.data().exists(), "nothing was created");
    }
}

#[test]
fn an_address_that_is_taken_is_named_with_its_key() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let refused = Start::dev(&home.data()).with(&["--listen", &address]).refused();
    assert_eq!(refused.code, Some(1));
    let expected = format!(
        "dex-server-zd refused to start: address_unavailable: api.listen: cannot listen on {address}: "
    );
    assert!(refused.last_line().starts_with(&expected), "{}", refused.last_line());
    let refused = Start::dev(&home.data()).config(&format!("metrics: {{listen: '{address}'}}")).refused();
    assert_eq!(refused.code, Some(1));
    assert!(refused.last_line().contains("metrics.listen: cannot listen on"), "{}", refused.last_line());
}

/// Two development servers run side by side although both want the same default address for metrics.
#[test]
fn the_default_address_of_metrics_gives_way_in_dev() {
    let (one, other) = (Home::new(), Home::new());
    let first = Start::dev(&one.data()).ready();
    let second = Start::dev(&other.data()).ready();
    assert_eq!(first.metric("dexzd_role{role=\"active\"}"), 1);
    assert_eq!(second.metric("dexzd_role{role=\"active\"}"), 1);
}

/// A configuration alone is a production node; nothing at all gets a list of what there is.
#[test]
fn a_line_without_a_command_says_what_to_run() {
    for (arguments, expected) in [
        (
            &["--config", "there-is-no-such.yaml"][..],
            "config_refused: the configuration file there-is-no-such.yaml cannot be read",
        ),
        (&[][..], "usage: say what to run: `dex-server-zd dev` for development"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_dex-server-zd"))
            .args(arguments)
            .output()
            .expect("the binary was built");
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert!(stderr.starts_with(&format!("dex-server-zd refused to start: {expected}")), "{stderr}");
    }
}

/// HA-64, HA-66, HA-70 at the process: the names, before and while it drains, and the role beside them.
#[tokio::test]
async fn ha_064_ha_066_the_health_names_of_a_real_process() {
    use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let home = Home::new();
    let server = Start::dev(&home.data()).ready();
    let mut health = HealthClient::new(connect(&server.api).await);
    for (service, expected) in [
        ("", Serving),
        ("dex.FlowService", Serving),
        ("dex.WorkerTaskService", Serving),
        ("dex.HotStandby", NotServing),
    ] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(request).await.expect("health answers").into_inner();
        assert_eq!(answer.status, i32::from(expected), "{service}");
    }
    assert_eq!(server.metric("dexzd_role{role=\"active\"}"), 1);
    assert_eq!(server.metric("dexzd_hot_standby_state{state=\"following\"}"), 0);
    let page = server.metrics();
    assert!(page.contains("content-type: application/openmetrics-text"), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
}
