//! Decisions (concepts.md 1.5).

use std::vec;

use super::build::*;
use super::driver::World;
use crate::engine::*;
use crate::ids::Name;

#[test]
fn concepts_1_5_a_branch_that_completes_gracefully_completes_the_flow_with_its_output() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(worker);
    world.execute_done(&task, complete("paid"));
    assert_eq!(world.status("f"), FlowStatus::Completed);
    assert_eq!(world.outputs("f"), ["paid"]);
    world.sweep();
}

#[test]
fn concepts_1_5_go_to_many_runs_them_in_parallel_and_collects_all_outputs() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A", "B"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    world.execute_done(&split, go_to(&["A", "B", "A"]));
    let (first, second, third) = (world.task(worker), world.task(worker), world.task(worker));
    assert_eq!(
        [&first.step, &second.step, &third.step],
        [&step_id("A", 1), &step_id("B", 1), &step_id("A", 2)]
    );
    assert_eq!(first.lineage, Lineage::Step(step_id("Split", 1)));
    world.execute_done(&second, complete("b1"));
    world.execute_done(&first, complete("a1"));
    assert_eq!(world.status("f"), FlowStatus::Running);
    world.execute_done(&third, complete("a2"));
    assert_eq!(world.status("f"), FlowStatus::Completed);
    let outputs = world.result("f").outputs;
    let expected = [("B", 1, "b1"), ("A", 1, "a1"), ("A", 2, "a2")];
    let expected = expected.map(|(step_type, number, text)| FlowOutput {
        step: step_id(step_type, number),
        value: Some(value(text)),
    });
    assert_eq!(outputs, expected);
    world.sweep();
}

#[test]
fn concepts_1_5_a_dead_end_never_completes_the_flow() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(worker);
    world.execute_done(&task, DecisionKind::DeadEnd);
    assert_eq!(world.status("f"), FlowStatus::Running);
    assert_eq!(world.phases("f").len(), 0);
    world.sweep();
}

#[test]
fn concepts_1_5_the_last_branch_may_be_a_dead_end_once_another_completed() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A", "B"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    world.execute_done(&split, go_to(&["A", "B"]));
    let (a, b) = (world.task(worker), world.task(worker));
    world.execute_done(&a, complete("a"));
    assert_eq!(world.status("f"), FlowStatus::Running);
    world.execute_done(&b, DecisionKind::DeadEnd);
    assert_eq!(world.status("f"), FlowStatus::Completed);
    assert_eq!(world.outputs("f"), ["a"]);
}

#[test]
fn concepts_1_5_waiting_and_backing_off_steps_count_as_active() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A", "B", "C"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    let movements = vec![step("A"), waiting_step("B"), step("C")];
    world.execute_done(&split, DecisionKind::GoTo(movements));
    let (a, b, c) = (world.task(worker), world.task(worker), world.task(worker));
    world.wait_for_done(&b, until(one("ch")));
    world.fail(&c, "Oops");
    world.execute_done(&a, complete("a"));
    assert_eq!(world.phases("f"), ["B-1 Waiting", "C-1 BackingOff"]);
    assert_eq!(world.status("f"), FlowStatus::Running);
    world.advance_ms(1_000);
    let c = world.task(worker);
    world.execute_done(&c, DecisionKind::DeadEnd);
    assert_eq!(world.status("f"), FlowStatus::Running);
    world.publish("f", "ch", &["m"]);
    let b = world.task(worker);
    world.execute_done(&b, DecisionKind::DeadEnd);
    assert_eq!(world.status("f"), FlowStatus::Completed);
    world.sweep();
}

#[test]
fn concepts_1_5_force_complete_cancels_the_rest() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A", "B", "C"]);
    let other = world.worker(&["Other"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    let movements = vec![step("A"), step("B"), waiting_step("C"), step("Unknown")];
    world.execute_done(&split, DecisionKind::GoTo(movements));
    let (a, b, c) = (world.task(worker), world.task(worker), world.task(worker));
    world.wait_for_done(&c, until(timer(60_000)));
    world.execute_done(&a, complete("a"));
    world.others(worker);
    world.execute_done(&b, DecisionKind::ForceComplete(Some(value("now"))));
    assert_eq!(world.status("f"), FlowStatus::Completed);
    assert_eq!(world.outputs("f"), ["a", "now"]);
    assert_eq!(world.others(other), []);
    world.sweep();
}

#[test]
fn concepts_1_5_closing_cancels_a_running_attempt_and_drops_its_result_whole() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A", "B"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    world.execute_done(&split, go_to(&["A", "B"]));
    let (a, b) = (world.task(worker), world.task(worker));
    world.others(worker);
    world.execute_done(&a, DecisionKind::ForceComplete(None));
    let cancel = ServerFrame::Cancel { handout: b.handout, reason: CancelReason::FlowClosed };
    let settled = ServerFrame::Settled { handout: a.handout, accepted: true };
    let mut frames = world.others(worker);
    frames.sort_by_key(|frame| matches!(frame, ServerFrame::Settled { .. }));
    assert_eq!(frames, [cancel, settled]);
    let before = world.disk.contents();
    world.execute_with(&b, complete("late"), writing("x", "late"));
    assert_eq!(world.others(worker), [ServerFrame::Settled { handout: b.handout, accepted: false }]);
    assert_eq!(world.disk.contents(), before);
}

#[test]
fn concepts_1_5_force_fail_fails_the_flow_with_the_step_decision_category() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(worker);
    world.execute_done(&task, DecisionKind::ForceFail(Name::new("no money")));
    let result = world.result("f");
    assert_eq!(result.status, FlowStatus::Failed);
    let error = result.error.expect("a failed run has an error");
    assert_eq!((error.category, &*error.text), (ErrorCategory::StepDecision, "no money"));
    world.sweep();
}

#[test]
fn concepts_1_5_force_complete_if_channels_empty_judges_atomically() {
    for (queued, expected) in [(0, FlowStatus::Completed), (1, FlowStatus::Running)] {
        let mut world = World::new();
        let worker = world.worker(&["Drain", "Again"]);
        world.start("f", step("Drain"));
        let task = world.task(worker);
        if queued > 0 {
            world.publish("f", "b", &["m"]);
        }
        world.execute_done(
            &task,
            DecisionKind::ForceCompleteIfChannelsEmpty {
                output: Some(value("empty")),
                channels: vec![key("a"), key("b")],
                fallback: vec![step("Again")],
            },
        );
        assert_eq!(world.status("f"), expected);
        let tasks = world.task_names(worker);
        if queued == 0 {
            assert_eq!(world.outputs("f"), ["empty"]);
            assert!(tasks.is_empty());
        } else {
            assert_eq!(tasks, ["Again-1 execute #1"]);
        }
        world.sweep();
    }
}

#[test]
fn concepts_1_5_what_the_decision_itself_publishes_counts_for_the_emptiness() {
    let mut world = World::new();
    let worker = world.worker(&["Drain", "Again"]);
    world.start("f", step("Drain"));
    let task = world.task(worker);
    let decision = DecisionKind::ForceCompleteIfChannelsEmpty {
        output: None,
        channels: vec![key("a")],
        fallback: vec![step("Again")],
    };
    world.execute_with(&task, decision, writing("a", "m"));
    assert_eq!(world.task_names(worker), ["Again-1 execute #1"]);
}

#[test]
fn concepts_1_5_cancel_steps_cancels_active_executions_of_these_types_whatever_they_do() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "Stop", "A", "B"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    let movements = vec![step("Stop"), step("A"), waiting_step("A"), step("A"), step("B")];
    world.execute_done(&split, DecisionKind::GoTo(movements));
    let stop = world.task(worker);
    let (running, waiting, failing) = (world.task(worker), world.task(worker), world.task(worker));
    world.wait_for_done(&waiting, until(timer(60_000)));
    world.fail(&failing, "Oops");
    world.others(worker);
    let decision = Decision {
        kind: DecisionKind::GoTo(vec![step("A")]),
        cancel_steps: vec![Name::new("A")],
        cancel_sibling_steps: vec![],
    };
    world.decide(&stop, decision, Effects::default());
    let cancel = ServerFrame::Cancel { handout: running.handout, reason: CancelReason::StepCancelled };
    assert!(world.others(worker).contains(&cancel));
    // The one that this very decision schedules is not meant.
    assert_eq!(world.phases("f"), ["A-4 Running", "B-1 Running"]);
    world.sweep();
}

#[test]
fn concepts_1_2_cancel_sibling_steps_cancels_only_what_the_same_parent_scheduled() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "Race", "A"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    world.execute_done(&split, go_to(&["Race", "Race"]));
    let (first, second) = (world.task(worker), world.task(worker));
    world.execute_done(&first, go_to(&["A", "A"]));
    world.execute_done(&second, go_to(&["A"]));
    let winner = world.task(worker);
    assert_eq!(winner.step, step_id("A", 1));
    let decision = Decision {
        kind: DecisionKind::DeadEnd,
        cancel_steps: vec![],
        cancel_sibling_steps: vec![Name::new("A")],
    };
    world.decide(&winner, decision, Effects::default());
    assert_eq!(world.phases("f"), ["A-3 Running"]);
    world.sweep();
}

#[test]
fn concepts_1_5_effects_and_decision_become_visible_together() {
    let mut world = World::new();
    let worker = world.worker(&["A", "B"]);
    world.start("f", step("A"));
    let a = world.task(worker);
    world.hold_log();
    world.execute_with(&a, go_to(&["B"]), writing("x", "1"));
    assert!(world.try_task(worker).is_none(), "the SYNC start of B is not durable yet");
    world.release_log();
    let b = world.task(worker);
    assert_eq!(seen(&b), ["x=1"]);
    assert_eq!(b.snapshot.channel_sizes, [ChannelSize { channel: key("x"), size: 1 }]);
}
