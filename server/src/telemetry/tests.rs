use std::time::Duration;

use dexzd_core::engine::{AttemptOutcome, EngineEvent, FlowStatus};
use dexzd_core::ids::{Epoch, Name, Position};
use dexzd_core::node::{NodeEvent, Period, Role, StandbyGauges};
use dexzd_core::standby::FollowerState;
use dexzd_core::stop::StopReason;
use dexzd_io_tokio::runtime::ShellEvent;
use tonic::Code;

use super::Metrics;
use super::labels::DISTINCT_NAMES;

fn metrics() -> Metrics {
    Metrics::for_tests()
}

#[test]
fn ha_082_ha_083_ha_084_the_series_of_alerts_exist_from_the_start() {
    let text = metrics().text();
    for state in ["following", "failed", "restarting", "bootstrapping", "behind"] {
        assert!(text.contains(&format!("\ndexzd_hot_standby_state{{state=\"{state}\"}} 0\n")), "{text}");
    }
    assert!(text.contains("\ndexzd_hot_standby_lag_seconds 0.0\n"), "{text}");
}

#[test]
fn d_032_every_stop_reason_has_a_series() {
    let metrics = metrics();
    assert_eq!(metrics.text().matches("\ndexzd_stop_reason{").count(), StopReason::ALL.len());
    metrics.node(&NodeEvent::Stopping { reason: StopReason::LogWriteTimeout });
    let text = metrics.text();
    assert!(text.contains("\ndexzd_stop_reason{reason=\"log_write_timeout\"} 1\n"), "{text}");
    assert_eq!(text.matches("dexzd_stop_reason{").count(), StopReason::ALL.len());
}

#[test]
fn events_become_counters() {
    let metrics = metrics();
    let flow_type = || Name::new("Order");
    metrics.engine(&EngineEvent::FlowStarted { flow_type: flow_type() });
    metrics.engine(&EngineEvent::FlowStarted { flow_type: flow_type() });
    metrics.engine(&EngineEvent::FlowClosed { flow_type: flow_type(), status: FlowStatus::Completed });
    metrics
        .engine(&EngineEvent::AttemptEnded { step_type: Name::new("Pay"), outcome: AttemptOutcome::Retried });
    metrics.engine(&EngineEvent::WorkerConnected { worker: Name::new("w"), slots: 4 });
    metrics.shell(&ShellEvent::Committed {
        position: Position(9),
        bytes: 100,
        took: std::time::Duration::from_millis(1),
    });
    metrics.node(&NodeEvent::RoleChanged { role: Role::Active, epoch: Some(Epoch(4)), period: Period(1) });
    let text = metrics.text();
    for line in [
        "dexzd_flows_started_total{flow_type=\"Order\"} 2",
        "dexzd_flows_closed_total{flow_type=\"Order\",status=\"completed\"} 1",
        "dexzd_attempts_ended_total{step_type=\"Pay\",outcome=\"retried\"} 1",
        "dexzd_workers_connected 1",
        "dexzd_log_position 9",
        "dexzd_log_written_bytes_total 100",
        "dexzd_log_commit_seconds_count 1",
        "dexzd_epoch 4",
        "dexzd_role{role=\"active\"} 1",
        "dexzd_role{role=\"waiting\"} 0",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} is missing in\n{text}");
    }
}

#[test]
fn labels_are_bounded() {
    let metrics = metrics();
    for number in 0..DISTINCT_NAMES + 50 {
        metrics.engine(&EngineEvent::FlowStarted { flow_type: Name::from(format!("T{number}")) });
    }
    let text = metrics.text();
    assert_eq!(text.matches("\ndexzd_flows_started_total{").count(), DISTINCT_NAMES + 1);
    assert!(text.contains("\ndexzd_flows_started_total{flow_type=\"(other)\"} 50\n"), "{text}");
}

#[test]
fn a_label_cannot_break_the_page() {
    let metrics = metrics();
    metrics.engine(&EngineEvent::FlowStarted { flow_type: Name::new("a\"}\n{\\") });
    let text = metrics.text();
    assert!(text.contains("\ndexzd_flows_started_total{flow_type=\"a\\\"}\\n{\\\\\"} 1\n"), "{text}");
}

#[test]
fn ha_082_ha_083_the_gauges_of_a_standby_are_asked_for_when_somebody_looks() {
    use std::sync::Mutex;
    let metrics = metrics();
    let present = std::sync::Arc::new(Mutex::new(StandbyGauges { state: None, lag: Duration::ZERO }));
    let source = std::sync::Arc::clone(&present);
    metrics.set_standby_source(Box::new(move || *source.lock().expect("no test panics here")));
    for (state, lag_ms, lag) in [
        (Some(FollowerState::Bootstrapping), 1_250, "1.25"),
        (Some(FollowerState::Following), 100, "0.1"),
        (Some(FollowerState::Behind), 12_000, "12.0"),
        (Some(FollowerState::Restarting), 12_500, "12.5"),
        (Some(FollowerState::Failed), 99_000, "99.0"),
        // Taken over: it is no standby any more.
        (None, 0, "0.0"),
    ] {
        *present.lock().expect("no test panics here") =
            StandbyGauges { state, lag: Duration::from_millis(lag_ms) };
        let text = metrics.text();
        for other in FollowerState::ALL {
            let value = i32::from(state == Some(other));
            let line = format!("\ndexzd_hot_standby_state{{state=\"{}\"}} {value}\n", other.label());
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
        assert!(text.contains(&format!("\ndexzd_hot_standby_lag_seconds {lag}\n")), "{text}");
    }
}

#[test]
fn fd_033_an_engine_that_ends_leaves_no_workers_behind() {
    let metrics = metrics();
    let turn =
        |role| metrics.node(&NodeEvent::RoleChanged { role, epoch: Some(Epoch(4)), period: Period(1) });
    turn(Role::Active);
    for _ in 0..3 {
        metrics.engine(&EngineEvent::WorkerConnected { worker: Name::new("w"), slots: 4 });
    }
    turn(Role::Draining);
    assert!(metrics.text().contains("\ndexzd_workers_connected 3\n"));
    turn(Role::Releasing);
    turn(Role::HoldOff);
    assert!(metrics.text().contains("\ndexzd_workers_connected 0\n"));
    assert!(metrics.text().contains("\ndexzd_tenures_total 1\n"));
}

#[test]
fn calls_are_counted_by_method_and_code_and_strangers_together() {
    let metrics = metrics();
    let calls = metrics.calls();
    for (path, code) in [
        ("/dex.FlowService/StartFlow", Code::Ok),
        ("/dex.FlowService/StartFlow", Code::Unavailable),
        ("/dex.AdminService/StepDown", Code::FailedPrecondition),
        ("/grpc.health.v1.Health/Check", Code::Ok),
        ("/some/path", Code::Unimplemented),
        ("/another", Code::Unimplemented),
    ] {
        calls.answered(path, code, Duration::from_millis(2));
    }
    let text = metrics.text();
    for line in [
        "dexzd_calls_total{method=\"FlowService.StartFlow\",code=\"OK\"} 1",
        "dexzd_calls_total{method=\"FlowService.StartFlow\",code=\"UNAVAILABLE\"} 1",
        "dexzd_calls_total{method=\"AdminService.StepDown\",code=\"FAILED_PRECONDITION\"} 1",
        "dexzd_calls_total{method=\"Health.Check\",code=\"OK\"} 1",
        "dexzd_calls_total{method=\"(other)\",code=\"UNIMPLEMENTED\"} 2",
        "dexzd_call_seconds_count{method=\"FlowService.StartFlow\"} 2",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} is missing in\n{text}");
    }
}
