//! Snapshots of what programs and people read.

use dexzd_proto::history_event::{
    self, ExecuteCompleted, FlowClosed, FlowStarted, MethodFailed, method_failed,
};
use dexzd_proto::{
    AttributeEntry, AttributeValue, ChannelMessages, Condition, Decision, Durability, ErrorCategory, Failure,
    FlowError, FlowOutput, FlowState, FlowStatus, FlowSummary, HistoryEvent, Key, Lineage, Message, Method,
    Movement, StepContext, StepExecutionId, StepPhase, StepState, TimerState, Value, Wait, attribute_value,
    condition, decision, lineage, wait,
};
use serde_json::json;

use super::*;

/// 2026-03-04T05:06:07.089Z
const START_UNIX_MS: i64 = 1_772_600_767_089;

fn json_value(text: &str) -> Value {
    Value { encoding: "json".to_owned(), data: text.as_bytes().to_vec() }
}

fn step(step_type: &str, number: u32) -> Option<StepExecutionId> {
    Some(StepExecutionId { step_type: step_type.to_owned(), number })
}

fn key(name: &str, instance: Option<&str>) -> Option<Key> {
    Some(Key { name: name.to_owned(), instance: instance.map(str::to_owned) })
}

fn running() -> FlowSummary {
    FlowSummary {
        flow_id: "order-1".to_owned(),
        run_id: "3f2a".to_owned(),
        first_run_id: "3f2a".to_owned(),
        request_id: "request-1".to_owned(),
        flow_type: "Order".to_owned(),
        status: FlowStatus::Running.into(),
        start_unix_ms: START_UNIX_MS,
        active_step_types: vec!["AwaitShipment".to_owned(), "Remind".to_owned()],
        event_count: 4,
        ..FlowSummary::default()
    }
}

fn failed() -> FlowSummary {
    FlowSummary {
        flow_id: "order-2".to_owned(),
        run_id: "77bc".to_owned(),
        status: FlowStatus::Failed.into(),
        close_unix_ms: Some(START_UNIX_MS + 60_000),
        error: Some(FlowError {
            category: ErrorCategory::WorkerFailure.into(),
            error_type: "CardDeclined".to_owned(),
            text: "the bank said no".to_owned(),
        }),
        active_step_types: Vec::new(),
        ..running()
    }
}

fn waiting_state() -> FlowState {
    FlowState {
        summary: Some(running()),
        step_durability: Durability::Sync.into(),
        active_step_search: dexzd_proto::ActiveStepSearch::All.into(),
        attributes: vec![
            AttributeEntry {
                key: key("customer", None),
                value: Some(AttributeValue {
                    kind: Some(attribute_value::Kind::StringValue("Ada".to_owned())),
                }),
            },
            AttributeEntry {
                key: key("stock", Some("berlin")),
                value: Some(AttributeValue {
                    kind: Some(attribute_value::Kind::ObjectValue(json_value("{\"left\":3}"))),
                }),
            },
        ],
        steps: vec![StepState {
            step: step("AwaitShipment", 1),
            phase: StepPhase::Waiting.into(),
            method: Method::WaitFor.into(),
            attempt: 1,
            since_unix_ms: START_UNIX_MS + 1_500,
            wait: Some(Wait {
                kind: wait::Kind::AnyOf.into(),
                conditions: vec![
                    Condition {
                        condition_id: Some("patience".to_owned()),
                        kind: Some(condition::Kind::Timer(condition::Timer { duration_ms: 86_400_000 })),
                    },
                    Condition {
                        condition_id: None,
                        kind: Some(condition::Kind::Channel(condition::Channel {
                            channel: key("shipped", None),
                            at_least: Some(1),
                            at_most: None,
                        })),
                    },
                ],
                groups: Vec::new(),
            }),
            timers: vec![TimerState {
                condition_id: Some("patience".to_owned()),
                due_unix_ms: START_UNIX_MS + 86_401_500,
                fired: false,
                skipped: false,
            }],
            input: Some(json_value("{\"amount\":42}")),
            lineage: Some(Lineage { kind: Some(lineage::Kind::Step(step("Pay", 1).expect("given"))) }),
            ..StepState::default()
        }],
        channels: vec![ChannelMessages {
            channel: key("notes", None),
            messages: vec![Message {
                message_id: "m-1".to_owned(),
                value: Some(Value { encoding: "raw".to_owned(), data: vec![1, 2, 255, 0] }),
            }],
        }],
        outputs: vec![FlowOutput { step: step("Pay", 1), value: Some(json_value("\"paid\"")) }],
        ..FlowState::default()
    }
}

fn events() -> Vec<HistoryEvent> {
    let event = |number: u64, kind| HistoryEvent {
        number,
        unix_ms: START_UNIX_MS + i64::try_from(number).expect("small"),
        kind: Some(kind),
    };
    let context = |attempt| {
        Some(StepContext {
            step: step("Pay", 1),
            method: Method::Execute.into(),
            durability: Durability::Sync.into(),
            attempt,
            worker: Some("worker-a".to_owned()),
            ..StepContext::default()
        })
    };
    vec![
        event(
            1,
            history_event::Kind::FlowStarted(FlowStarted {
                flow_type: "Order".to_owned(),
                request_id: "request-1".to_owned(),
                input: Some(json_value("{\"amount\":42}")),
                start_step: Some("Pay".to_owned()),
                previous_run_id: None,
            }),
        ),
        event(
            2,
            history_event::Kind::MethodFailed(MethodFailed {
                context: context(1),
                failure: Some(Failure {
                    error_type: "Timeout".to_owned(),
                    detail: "the bank did not answer".to_owned(),
                    stack: None,
                }),
                then: Some(method_failed::Then::Recovery(step("Refund", 1).expect("given"))),
            }),
        ),
        event(
            3,
            history_event::Kind::ExecuteCompleted(ExecuteCompleted {
                context: context(2),
                decision: Some(Decision {
                    kind: Some(decision::Kind::GoTo(decision::GoTo {
                        movements: vec![Movement { step_type: "Ship".to_owned(), ..Movement::default() }],
                    })),
                    cancel_steps: vec!["Remind".to_owned()],
                    cancel_sibling_steps: Vec::new(),
                }),
                ..ExecuteCompleted::default()
            }),
        ),
        event(
            4,
            history_event::Kind::FlowClosed(FlowClosed {
                status: FlowStatus::Completed.into(),
                outputs: vec![FlowOutput { step: step("Ship", 1), value: Some(json_value("\"sent\"")) }],
                error: None,
            }),
        ),
    ]
}

fn pretty(json: &serde_json::Value) -> String {
    serde_json::to_string_pretty(json).expect("a value has a text")
}

#[test]
fn summaries_as_json() {
    insta::assert_snapshot!("summary_running", pretty(&summary(&running())));
    insta::assert_snapshot!("summary_failed", pretty(&summary(&failed())));
}

#[test]
fn a_search_as_a_table() {
    let json = json!({ "flows": [summary(&running()), summary(&failed())], "nextPageToken": "p2" });
    insta::assert_snapshot!(search_table(&json));
    assert_eq!(search_table(&json!({ "flows": [], "nextPageToken": "" })), "no Flows");
}

#[test]
fn a_summary_as_a_table() {
    insta::assert_snapshot!(summary_table(&summary(&failed())));
}

#[test]
fn a_state_as_json_and_as_tables() {
    let json = state(&waiting_state());
    insta::assert_snapshot!("state_json", pretty(&json));
    insta::assert_snapshot!("state_table", state_table(&json));
}

#[test]
fn a_history_as_json_and_as_a_table() {
    let events: Vec<_> = events().iter().map(event).collect();
    insta::assert_snapshot!(
        "history_lines",
        events.iter().map(|event| format!("{event}\n")).collect::<String>()
    );
    let json = json!({ "events": events, "nextPageToken": "", "closed": true });
    insta::assert_snapshot!("history_table", history_table(&json));
}

#[test]
fn a_result_as_json() {
    let result = dexzd_proto::FlowResult {
        run_id: "3f2a".to_owned(),
        status: FlowStatus::Completed.into(),
        outputs: vec![FlowOutput { step: step("Ship", 1), value: Some(json_value("{\"parcel\":9}")) }],
        error: None,
    };
    insta::assert_snapshot!(flow_result("order-1", &result));
}

#[test]
fn a_status_from_a_newer_server_keeps_its_number() {
    assert_eq!(status_name(99), "unknown status 99");
}
