use dexzd_core::engine::{AttemptOutcome, EngineEvent, FlowStatus};
use dexzd_core::ids::{Epoch, Name, Position};
use dexzd_core::node::{NodeEvent, Period, Role};
use dexzd_core::stop::StopReason;
use dexzd_io_tokio::runtime::ShellEvent;

use super::Metrics;
use super::labels::DISTINCT_NAMES;
use crate::cli::LogFormat;
use crate::logging::Log;

fn metrics() -> Metrics {
    Metrics::new(Log::start(LogFormat::Text).expect("a thread"))
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
