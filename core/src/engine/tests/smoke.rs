use alloc::vec;
use core::time::Duration;

use super::driver::*;
use crate::engine::*;
use crate::ids::StepExecutionId;

fn wait_for_flow(flow_id: &str) -> Call {
    Call::WaitForFlow { target: target(flow_id), wait_ms: None }
}

#[test]
fn fd_001_a_flow_of_two_steps_runs_to_its_end() {
    let mut driver = Driver::new();
    let worker = driver.worker(4, &["A", "B"]);
    let started = driver.answer(Call::Start(start("f", "r", movement("A", "in")).into())).unwrap();
    assert!(matches!(started, Answer::Started { newly: true, .. }));
    let waiting = driver.call(wait_for_flow("f"));
    let first = driver.task(worker);
    assert_eq!((first.step.step_type.clone(), first.attempt), ("A".into(), 1));
    driver.decide(worker, first.handout, DecisionKind::GoTo(vec![movement("B", "next")]));
    assert_eq!(
        driver.next_frame(worker),
        Some(ServerFrame::Settled { handout: first.handout, accepted: true })
    );
    let second = driver.task(worker);
    assert_eq!(second.input, Some(value("next")));
    assert_eq!(second.lineage, Lineage::Step(first.step));
    driver.decide(worker, second.handout, DecisionKind::GracefulComplete(Some(value("out"))));
    let Some(Ok(Answer::FlowResult(result))) = driver.replies.remove(&waiting) else {
        panic!("the wait is answered");
    };
    assert_eq!(result.status, FlowStatus::Completed);
    assert_eq!(result.outputs, [FlowOutput { step: second.step, value: Some(value("out")) }]);
}

#[test]
fn ha_020_a_crash_fails_a_received_attempt_with_not_completed_and_consumes_a_retry() {
    let mut driver = Driver::new();
    let worker = driver.worker(4, &["A"]);
    driver.answer(Call::Start(start("f", "r", movement("A", "in")).into())).unwrap();
    let first = driver.task(worker);
    let mut driver = driver.crash();
    let worker = driver.worker(4, &["A"]);
    assert_eq!(driver.next_frame(worker), None);
    driver.pass(Duration::from_secs(1));
    let second = driver.task(worker);
    assert_eq!((second.attempt, second.step), (2, first.step));
    driver.decide(worker, first.handout, DecisionKind::DeadEnd);
    assert_eq!(
        driver.next_frame(worker),
        Some(ServerFrame::Settled { handout: first.handout, accepted: false })
    );
}

#[test]
fn fd_019_a_lost_async_result_repeats_its_step_at_the_cost_of_a_retry() {
    let mut driver = Driver::new();
    let worker = driver.worker(4, &["A"]);
    let mut first = movement("A", "in");
    first.options.execute.durability = Some(Durability::Async);
    driver.answer(Call::Start(start("f", "r", first).into())).unwrap();
    let task = driver.task(worker);
    // Its start is durable by now; the next one's is not.
    driver.hold_log = true;
    let mut next = movement("A", "again");
    next.options.execute.durability = Some(Durability::Async);
    driver.decide(worker, task.handout, DecisionKind::GoTo(vec![next]));
    driver.next_frame(worker);
    let lost = driver.task(worker);
    assert_eq!(lost.step, StepExecutionId { step_type: "A".into(), number: 2 });
    let mut driver = driver.crash();
    let worker = driver.worker(4, &["A"]);
    driver.pass(Duration::from_secs(1));
    let again = driver.task(worker);
    assert_eq!((again.step, again.attempt), (task.step, 2));
}
