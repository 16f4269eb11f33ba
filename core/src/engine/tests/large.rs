//! Inputs that decide more than one entry holds (D-56), and runs that do not fit in memory.

use std::vec;
use std::vec::Vec;

use super::build::*;
use super::driver::World;
use crate::engine::*;
use crate::ids::Name;

/// One MiB of text.
fn large(letter: &str) -> std::string::String {
    letter.repeat(limits::VALUE_BYTES)
}

fn large_movement(step_type: &str) -> Movement {
    Movement { input: Some(value(&large("i"))), ..step(step_type) }
}

#[test]
fn d_056_a_hello_that_takes_many_large_tasks_at_once() {
    let mut world = World::new();
    for flow in 0..11 {
        let attributes = (0..3).map(|number| set(&std::format!("a{number}"), &large("a"))).collect();
        let start =
            StartFlow { attributes, ..world.start_of(&std::format!("f{flow}"), Some(large_movement("Pay"))) };
        world.start_flow(start);
    }
    let worker = world.worker_with(100, &["Pay"], false);
    let mut tasks = 0;
    while let Some(task) = world.try_task(worker) {
        assert_eq!(task.snapshot.attributes.len(), 3);
        assert_eq!(task.input.as_ref().map(|input| input.data.len()), Some(limits::VALUE_BYTES));
        tasks += 1;
    }
    assert_eq!(tasks, 11);
    world.sweep();
    // Recovery decides as much.
    world.crash();
    world.sweep();
    let worker = world.worker_with(100, &["Pay"], false);
    world.advance_ms(1_000);
    assert_eq!(world.task_names(worker), vec!["Pay-1 execute #2"; 11]);
}

/// Flow `f` with so many Steps that wait for one message each.
fn waiting(steps: usize) -> World {
    let mut world = World::new();
    let worker = world.worker(&["Split", "Ask"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    world.execute_done(&split, DecisionKind::GoTo(vec![waiting_step("Ask"); steps]));
    for _ in 0..steps {
        let task = world.task(worker);
        world.wait_for_done(&task, all_of(vec![one("ch"), timer(1_000)]));
    }
    world.disconnect(worker);
    world
}

#[test]
fn lesson_g10_a_crash_between_the_decisions_of_one_large_publication_strands_no_waiter() {
    let steps = 7;
    let mut cuts = 0;
    for write in 0..4 {
        let mut world = waiting(steps);
        world.advance_ms(1_000);
        let text = large("m");
        let publications = vec![message("ch", &text); steps];
        let request_id = Name::new("publish");
        let publish = Call::Publish { request_id, target: target("f"), publications };
        world.hold_log_after(write);
        let sent = world.call(publish.clone());
        let was_stuck = world.is_stuck();
        cuts += usize::from(was_stuck && write > 0);
        world.crash_without_serving();
        world.sweep();
        world.serve();
        world.advance_ms(10);
        world.sweep();
        if world.answer(sent).is_none() {
            assert!(world.ask(publish).is_ok());
        }
        let worker = world.worker(&["Ask"]);
        let told: Vec<usize> = core::iter::from_fn(|| world.try_task(worker))
            .map(|task| match &task.conditions[0] {
                ConditionResult::Channel { values } => values.iter().map(|value| value.data.len()).sum(),
                ConditionResult::Timer { .. } => 0,
            })
            .collect();
        assert_eq!(told, vec![limits::VALUE_BYTES; steps], "crash at write {write}");
    }
    assert!(cuts > 0, "the publication is one decision: this test shows nothing");
}

#[test]
fn concepts_1_4_runs_that_do_not_fit_in_memory_are_read_again() {
    let mut world = World::new();
    let worker = world.worker_with(10_000, &["Ask"], false);
    let flows = limits::LOADED_RUNS + 100;
    for flow in 0..flows {
        world.start(&std::format!("f{flow}"), waiting_step("Ask"));
        let task = world.task(worker);
        world.wait_for_with(&task, until(one("ch")), writing("a", &std::format!("{flow}")));
    }
    for flow in [0, 1, flows - 1] {
        let flow_id = std::format!("f{flow}");
        world.publish(&flow_id, "ch", &["m"]);
        let task = world.task(worker);
        assert_eq!((&*task.flow_id, seen(&task)), (&*flow_id, vec![std::format!("a={flow}")]));
        world.execute_done(&task, complete("done"));
        assert_eq!(world.status(&flow_id), FlowStatus::Completed);
    }
}

#[test]
fn d_020_an_engine_that_does_not_serve_yet_has_nothing_to_drain() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    world.task(worker);
    world.crash_without_serving();
    world.step(Input::Node(NodeOrder::Drain));
    assert!(world.reports.contains(&NodeReport::Drained));
    assert_eq!(world.ask(Call::Describe(target("f"))), Err(CallError::Unavailable));
    world.step(Input::Node(NodeOrder::Close));
    assert!(world.reports.contains(&NodeReport::Closed));
}

#[test]
fn d_023_a_task_taken_back_at_the_commit_never_reaches_the_worker() {
    let mut world = World::new();
    world.start("f", step_with("Pay", |execute| execute.retry = attempts(1)));
    world.hold_log();
    let worker = world.worker(&["Pay"]);
    world.step(Input::Node(NodeOrder::Drain));
    world.step(Input::Node(NodeOrder::Commit));
    world.release_log();
    assert!(world.try_task(worker).is_none());
    world.step(Input::Node(NodeOrder::Close));
    world.crash();
    let worker = world.worker(&["Pay"]);
    assert_eq!(world.task_names(worker), ["Pay-1 execute #1"]);
}

#[test]
fn bad_input_an_over_long_reason_of_a_worker_is_cut() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(worker);
    world.execute_done(&task, DecisionKind::ForceFail(Name::from("x".repeat(limits::TEXT_BYTES + 1))));
    let error = world.result("f").error.expect("it failed");
    assert_eq!(error.text.len(), limits::TEXT_BYTES);
}
