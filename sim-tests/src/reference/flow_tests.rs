//! Made-up histories: what the model accepts, and one for each fault that it must see.

use super::Flow;
use dexzd_core::engine::{
    AfterFailure, Condition, ConditionKind, ConditionResult, Decision, DecisionKind, Durability, EventKind,
    Failure, FlowOutput, FlowStatus, HistoryEvent, Key, Lineage, Method, Movement, Publication, Recovery,
    RetryPolicy, StartFlow, StepContext, StepOptions, StopKind, Value, Wait, WaitKind,
};
use dexzd_core::ids::{MessageId, Name, StepExecutionId};
use dexzd_core::time::Timestamp;

fn step(name: &str, number: u32) -> StepExecutionId {
    StepExecutionId { step_type: Name::from(name), number }
}

fn movement(name: &str, skip_wait_for: bool) -> Movement {
    let options = StepOptions { skip_wait_for, ..StepOptions::default() };
    Movement { step_type: Name::from(name), input: None, options }
}

fn context(name: &str, number: u32, method: Method, lineage: Lineage) -> StepContext {
    StepContext {
        step: step(name, number),
        method,
        lineage,
        durability: Durability::Sync,
        attempt: 1,
        started: Some(Timestamp::ZERO),
        input: None,
        last_failure: None,
        worker: None,
    }
}

fn executed(context: StepContext, kind: DecisionKind) -> EventKind {
    EventKind::ExecuteCompleted {
        context,
        decision: Decision { kind, cancel_steps: Vec::new(), cancel_sibling_steps: Vec::new() },
        attributes: Vec::new(),
        publications: Vec::new(),
        recorded: Vec::new(),
    }
}

fn first(name: &str, kind: DecisionKind) -> EventKind {
    executed(context(name, 1, Method::Execute, Lineage::FlowStart), kind)
}

fn closed(status: FlowStatus, outputs: &[&str]) -> EventKind {
    let outputs = outputs.iter().map(|name| FlowOutput { step: step(name, 1), value: None }).collect();
    EventKind::FlowClosed { status, outputs, error: None }
}

fn channel() -> Key {
    Key { name: Name::from("c"), instance: None }
}

fn value(text: &str) -> Value {
    Value { encoding: Name::from("text"), data: text.as_bytes().into() }
}

fn published(id: u128, text: &str) -> EventKind {
    let publications = vec![Publication { channel: channel(), value: value(text) }];
    EventKind::Published { request_id: Name::from(text), publications, messages: vec![MessageId(id)] }
}

fn waits(name: &str, number: u32, lineage: Lineage, conditions: Vec<Condition>) -> EventKind {
    EventKind::WaitForCompleted {
        context: context(name, number, Method::WaitFor, lineage),
        wait: Wait { kind: WaitKind::AnyOf, conditions },
        attributes: Vec::new(),
        publications: Vec::new(),
        recorded: Vec::new(),
    }
}

fn message() -> Condition {
    Condition { id: None, kind: ConditionKind::Channel { channel: channel(), at_least: None, at_most: None } }
}

fn timer(duration_ms: u64) -> Condition {
    Condition { id: None, kind: ConditionKind::Timer { duration_ms } }
}

/// Tells a run that began with this Step; event k happens at second k.
fn tell(
    start: Movement,
    told: &[(StepExecutionId, Vec<ConditionResult>)],
    events: &[EventKind],
) -> Result<Flow, String> {
    let mut flow = Flow::new(&StartFlow { start: Some(start), ..StartFlow::default() });
    let told =
        |id: &StepExecutionId| told.iter().find(|(step, _)| step == id).map(|(_, results)| results.clone());
    for (number, kind) in (2..).zip(events) {
        let time = Timestamp::from_micros(number * 1_000_000);
        flow.apply(&HistoryEvent { number, time, kind: kind.clone() }, &told)?;
    }
    Ok(flow)
}

#[test]
fn a_chain_completes_with_its_output() {
    let next = executed(
        context("b", 1, Method::Execute, Lineage::Step(step("a", 1))),
        DecisionKind::GracefulComplete(None),
    );
    let go = first("a", DecisionKind::GoTo(vec![movement("b", true)]));
    let flow = tell(movement("a", true), &[], &[go, next, closed(FlowStatus::Completed, &["b"])]).unwrap();
    assert_eq!((flow.status, flow.steps.len()), (FlowStatus::Completed, 0));
}

#[test]
fn a_step_that_nobody_scheduled_and_one_that_ends_twice_are_seen() {
    let stranger = first("x", DecisionKind::DeadEnd);
    assert_eq!(tell(movement("a", true), &[], &[stranger]).unwrap_err(), "x-1 does not exist");
    let again = || first("a", DecisionKind::DeadEnd);
    assert_eq!(tell(movement("a", true), &[], &[again(), again()]).unwrap_err(), "a-1 does not exist");
}

#[test]
fn a_dead_end_never_completes_and_a_graceful_end_must() {
    let dead = [first("a", DecisionKind::DeadEnd), closed(FlowStatus::Completed, &[])];
    let sentence = "it closed completed, and should be open";
    assert_eq!(tell(movement("a", true), &[], &dead).unwrap_err(), sentence);
    let graceful = [first("a", DecisionKind::GracefulComplete(None)), published(1, "m")];
    assert!(tell(movement("a", true), &[], &graceful).unwrap_err().starts_with("it should have closed"));
}

#[test]
fn outputs_are_those_of_the_decisions() {
    let story = [first("a", DecisionKind::ForceComplete(None)), closed(FlowStatus::Completed, &[])];
    assert!(tell(movement("a", true), &[], &story).unwrap_err().starts_with("it closed with []"));
}

#[test]
fn the_first_to_wait_takes_the_first_message() {
    let go = first("a", DecisionKind::GoTo(vec![movement("b", false), movement("b", false)]));
    let lineage = || Lineage::Step(step("a", 1));
    let begin = [go, waits("b", 2, lineage(), vec![message()]), waits("b", 1, lineage(), vec![message()])];
    let told = |one: &str, two: &str| {
        let results = |text| vec![ConditionResult::Channel { values: vec![value(text)] }];
        [(step("b", 1), results(one)), (step("b", 2), results(two))]
    };
    let ends = |number| executed(context("b", number, Method::Execute, lineage()), DecisionKind::DeadEnd);
    let mut story = begin.to_vec();
    story.extend([published(1, "m"), published(2, "n"), ends(1), ends(2)]);
    assert!(tell(movement("a", true), &told("n", "m"), &story).is_ok());
    let sentence = tell(movement("a", true), &told("m", "n"), &story).unwrap_err();
    assert!(sentence.starts_with("Execute of b-1 was told"), "{sentence}");
}

#[test]
fn execute_does_not_run_before_its_wait_is_over() {
    let story = [waits("a", 1, Lineage::FlowStart, vec![message()]), first("a", DecisionKind::DeadEnd)];
    assert!(tell(movement("a", false), &[], &story).unwrap_err().starts_with("Execute of a-1 has ended"));
}

#[test]
fn a_timer_fires_when_it_is_due_or_skipped_and_not_before() {
    let fired = [(step("a", 1), vec![ConditionResult::Timer { fired: true }])];
    let ends = |second: u64| {
        let started = Some(Timestamp::from_micros(second * 1_000_000));
        let context = StepContext { started, ..context("a", 1, Method::Execute, Lineage::FlowStart) };
        executed(context, DecisionKind::DeadEnd)
    };
    // The Wait is accepted at second 2.
    let wait = || waits("a", 1, Lineage::FlowStart, vec![timer(5_000)]);
    assert!(tell(movement("a", false), &fired, &[wait(), ends(7)]).is_ok());
    assert!(tell(movement("a", false), &fired, &[wait(), ends(6)]).is_err());
    let skip = || EventKind::TimerSkipped {
        request_id: Name::from("s"),
        step: Some(step("a", 1)),
        timer: Name::from("#0"),
    };
    assert!(tell(movement("a", false), &fired, &[wait(), skip(), ends(4)]).is_ok());
    assert!(tell(movement("a", false), &fired, &[skip(), wait(), ends(4)]).is_ok(), "it is remembered");
}

#[test]
fn a_message_before_the_timer_is_taken_and_one_after_it_may_be_late() {
    let condition = || vec![timer(5_000), message()];
    let wait = || waits("a", 1, Lineage::FlowStart, condition());
    let told = |fired, values| {
        [(step("a", 1), vec![ConditionResult::Timer { fired }, ConditionResult::Channel { values }])]
    };
    let late = StepContext {
        started: Some(Timestamp::from_micros(20_000_000)),
        ..context("a", 1, Method::Execute, Lineage::FlowStart)
    };
    let end = executed(late, DecisionKind::DeadEnd);
    let early = [wait(), published(1, "m"), end.clone()];
    assert!(tell(movement("a", false), &told(false, vec![value("m")]), &early).is_ok());
    assert!(tell(movement("a", false), &told(true, Vec::new()), &early).is_err());
    let after = [wait(), end];
    assert!(tell(movement("a", false), &told(true, Vec::new()), &after).is_ok());
}

#[test]
fn a_method_fails_for_good_only_when_its_attempts_are_used_up() {
    let mut start = movement("a", true);
    start.options.execute.retry = Some(RetryPolicy { maximum_attempts: 2, ..RetryPolicy::default() });
    start.options.recovery = Some(Box::new(Recovery {
        step_type: Name::from("r"),
        options: StepOptions { skip_wait_for: true, ..StepOptions::default() },
    }));
    let failed = |attempt, then| EventKind::MethodFailed {
        context: StepContext { attempt, ..context("a", 1, Method::Execute, Lineage::FlowStart) },
        failure: Failure::default(),
        then,
    };
    let recovers = || AfterFailure::Recovery(step("r", 1));
    let flow = tell(start.clone(), &[], &[failed(2, recovers())]).unwrap();
    assert_eq!(flow.steps.keys().cloned().collect::<Vec<_>>(), [step("r", 1)]);
    assert!(tell(start.clone(), &[], &[failed(1, recovers())]).unwrap_err().contains("attempt 1 of 2"));
    assert!(tell(start.clone(), &[], &[failed(3, recovers())]).unwrap_err().contains("attempt 3 of 2"));
    assert!(tell(start, &[], &[failed(2, AfterFailure::FlowFails)]).unwrap_err().contains("not Recovery"));
}

#[test]
fn a_stop_decides_how_the_run_ends_and_nothing_counts_meanwhile() {
    let stop = |kind| EventKind::StopRequested { request_id: Name::from("x"), kind, reason: Name::default() };
    let ends = |kind, status| tell(movement("a", true), &[], &[stop(kind), closed(status, &[])]);
    assert!(ends(StopKind::Cancel, FlowStatus::Canceled).is_ok());
    assert!(ends(StopKind::Fail, FlowStatus::Failed).is_ok());
    assert!(ends(StopKind::Terminate, FlowStatus::Terminated).is_ok());
    assert!(ends(StopKind::Fail, FlowStatus::Canceled).is_err());
    let result = first("a", DecisionKind::DeadEnd);
    let sentence = tell(movement("a", true), &[], &[stop(StopKind::Cancel), result]).unwrap_err();
    assert_eq!(sentence, "a result of a-1 counted while the Flow was closing");
}

#[test]
fn after_its_end_nothing_happens() {
    let story = [
        first("a", DecisionKind::ForceComplete(None)),
        closed(FlowStatus::Completed, &["a"]),
        published(1, "m"),
    ];
    assert!(tell(movement("a", true), &[], &story).unwrap_err().starts_with("after its end came"));
}

#[test]
fn cancels_are_those_that_the_decision_names() {
    let go = first("a", DecisionKind::GoTo(vec![movement("b", true), movement("c", true)]));
    let lineage = Lineage::Step(step("a", 1));
    let cancel = EventKind::ExecuteCompleted {
        context: context("b", 1, Method::Execute, lineage),
        decision: Decision {
            kind: DecisionKind::DeadEnd,
            cancel_steps: Vec::new(),
            cancel_sibling_steps: vec![Name::from("c")],
        },
        attributes: Vec::new(),
        publications: Vec::new(),
        recorded: Vec::new(),
    };
    let cancelled = |name| EventKind::StepCancelled { step: step(name, 1), by: step("b", 1) };
    let story = [go.clone(), cancel.clone(), cancelled("c")];
    assert!(tell(movement("a", true), &[], &story).unwrap().steps.is_empty());
    let silent = [go.clone(), cancel.clone(), published(1, "m")];
    assert!(tell(movement("a", true), &[], &silent).unwrap_err().starts_with("the cancel of c-1 is missing"));
    let other = [go, cancelled("c")];
    assert_eq!(tell(movement("a", true), &[], &other).unwrap_err(), "nobody cancelled c-1");
}
