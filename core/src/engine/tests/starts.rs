//! Starting, timing out and stopping runs (concepts.md 1.1, D-35).

use std::vec;

use super::build::*;
use super::driver::{START_MS, World};
use crate::engine::*;
use crate::ids::Name;
use crate::time::Timestamp;

/// Brings the run of Flow ID `f` to this status.
fn run_that_is(world: &mut World, status: FlowStatus) -> crate::ids::RunId {
    let worker = world.worker(&["Pay"]);
    let run_id = world.start("f", step("Pay"));
    let task = world.task(worker);
    match status {
        FlowStatus::Running => {}
        FlowStatus::Completed => world.execute_done(&task, complete("done")),
        FlowStatus::Failed => world.execute_done(&task, DecisionKind::ForceFail(Name::new("no"))),
        FlowStatus::Canceled => {
            assert_eq!(world.stop("f", StopKind::Cancel), Ok(Answer::Done));
            world.fail(&task, "Cancelled");
        }
        FlowStatus::Terminated => assert_eq!(world.stop("f", StopKind::Terminate), Ok(Answer::Done)),
    }
    assert_eq!(world.status("f"), status);
    run_id
}

#[test]
fn concepts_1_1_id_reuse_policies_table() {
    use FlowStatus::{Canceled, Completed, Failed, Running, Terminated};
    use IdReusePolicy::{AllowIfNotRunning, AllowIfPreviousAbnormal, Disallow, TerminateIfRunning};
    let accepted = [
        (Disallow, vec![]),
        (AllowIfPreviousAbnormal, vec![Failed, Canceled, Terminated]),
        (AllowIfNotRunning, vec![Completed, Failed, Canceled, Terminated]),
        (TerminateIfRunning, vec![Running, Completed, Failed, Canceled, Terminated]),
    ];
    for (policy, accepting) in accepted {
        for status in [Running, Completed, Failed, Canceled, Terminated] {
            let mut world = World::new();
            let first = run_that_is(&mut world, status);
            let start = world.start_of("f", Some(step("Pay")));
            let answer = world.try_start(StartFlow { id_reuse: policy, ..start });
            if !accepting.contains(&status) {
                assert_eq!(answer, Err(CallError::AlreadyStarted { run_id: first, status }));
                assert_eq!(world.summary("f").run_id, first);
                world.sweep();
                continue;
            }
            let Ok(Answer::Started { run_id, newly: true }) = answer else {
                panic!("{policy:?} over {status:?}: {answer:?}");
            };
            let summary = world.summary("f");
            assert_eq!((summary.run_id, summary.first_run_id), (run_id, first));
            let old = Target { flow_id: Name::new("f"), run_id: Some(first) };
            let Ok(Answer::Summary(old)) = world.ask(Call::Describe(old)) else {
                panic!("the old run is kept");
            };
            let expected = if status == Running { Terminated } else { status };
            assert_eq!(old.status, expected);
            world.sweep();
        }
    }
}

#[test]
fn concepts_1_1_the_default_reuse_policy_disallows() {
    assert_eq!(StartFlow::default().id_reuse, IdReusePolicy::Disallow);
}

#[test]
fn d_035_an_equal_request_id_returns_the_latest_run_before_any_policy_is_looked_at() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let start =
        StartFlow { id_reuse: IdReusePolicy::TerminateIfRunning, ..world.start_of("f", Some(step("Pay"))) };
    let run_id = world.start_flow(start.clone());
    let again = Ok(Answer::Started { run_id, newly: false });
    assert_eq!(world.try_start(start.clone()), again);
    let task = world.task(worker);
    world.execute_done(&task, complete("done"));
    assert_eq!(world.try_start(start.clone()), again);
    // On any later epoch, and whatever else the request says.
    world.crash();
    let different = StartFlow { flow_type: Name::new("Refund"), start: None, ..start };
    assert_eq!(world.try_start(different), again);
    assert_eq!(world.history("f").len(), 3);
}

#[test]
fn concepts_1_1_ignore_already_started_returns_the_run_only_for_the_same_request() {
    let mut world = World::new();
    let first = StartFlow { ignore_already_started: true, ..world.start_of("f", Some(step("Pay"))) };
    let run_id = world.start_flow(first.clone());
    assert_eq!(world.try_start(first), Ok(Answer::Started { run_id, newly: false }));
    let second = StartFlow { ignore_already_started: true, ..world.start_of("f", Some(step("Pay"))) };
    let status = FlowStatus::Running;
    assert_eq!(world.try_start(second), Err(CallError::AlreadyStarted { run_id, status }));
}

#[test]
fn concepts_1_1_a_flow_without_a_start_step_idles() {
    let mut world = World::new();
    let start = world.start_of("f", None);
    world.start_flow(start);
    world.advance_ms(3_600_000);
    assert_eq!(world.status("f"), FlowStatus::Running);
    assert!(world.phases("f").is_empty());
    world.sweep();
}

#[test]
fn concepts_1_1_a_start_delay_holds_the_first_step_back() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let start = StartFlow { start_delay_ms: Some(5_000), ..world.start_of("f", Some(step("Pay"))) };
    world.start_flow(start);
    assert_eq!(world.phases("f"), ["Pay-1 Delayed"]);
    world.sweep();
    world.advance_ms(4_999);
    assert!(world.try_task(worker).is_none());
    // A failover does not stretch it.
    world.crash();
    let worker = world.worker(&["Pay"]);
    world.advance_ms(1);
    assert_eq!(world.task_names(worker), ["Pay-1 execute #1"]);
}

#[test]
fn concepts_1_1_initial_attributes_are_visible_to_the_first_step() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let attributes = vec![set("a", "1"), set("b", "2"), AttributeWrite { key: key("c"), value: None }];
    let start = StartFlow { attributes, ..world.start_of("f", Some(step("Pay"))) };
    world.start_flow(start);
    assert_eq!(seen(&world.task(worker)), ["a=1", "b=2"]);
}

#[test]
fn concepts_1_1_the_input_of_the_start_step_is_the_flow_s() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let run_id = world.start("f", step("Pay"));
    let task = world.task(worker);
    assert_eq!(task.input, Some(value("input")));
    assert_eq!((&*task.flow_id, &*task.flow_type, task.run_id), ("f", "Order", run_id));
    assert_eq!(task.lineage, Lineage::FlowStart);
    assert_eq!(task.flow_start_time, Timestamp::from_millis(START_MS));
}

#[test]
fn concepts_1_1_flow_timeout_policies() {
    let table = [
        (None, false, FlowStatus::Failed),
        (Some(TimeoutPolicy::Fail), true, FlowStatus::Failed),
        (Some(TimeoutPolicy::Cancel), false, FlowStatus::Canceled),
    ];
    for (timeout_policy, has_timeout_handler, expected) in table {
        let mut world = World::new();
        let worker = world.worker(&["Pay"]);
        let start = StartFlow {
            timeout_ms: Some(10_000),
            timeout_policy,
            has_timeout_handler,
            ..world.start_of("f", Some(step("Pay")))
        };
        world.start_flow(start);
        let task = world.task(worker);
        world.advance_ms(9_999);
        assert_eq!(world.status("f"), FlowStatus::Running);
        world.sweep();
        world.advance_ms(1);
        let result = world.result("f");
        assert_eq!(result.status, expected);
        let error = result.error.expect("it did not complete");
        assert_eq!(error.category, ErrorCategory::FlowTimeout);
        assert_eq!(&*error.error_type, failure_type::FLOW_TIMEOUT);
        let cancel = ServerFrame::Cancel { handout: task.handout, reason: CancelReason::FlowClosed };
        assert_eq!(world.others(worker), [cancel]);
        world.sweep();
    }
}

#[test]
fn concepts_1_1_the_timeout_handler_runs_once_and_its_outcome_decides() {
    let mut world = World::new();
    let worker = world.worker_with(10, &["Pay"], true);
    let start = StartFlow {
        timeout_ms: Some(10_000),
        has_timeout_handler: true,
        timeout_handler: Some(TimeoutHandlerOptions {
            method: MethodOptions { retry: attempts(2), ..MethodOptions::default() },
            heartbeat_timeout_ms: Some(1_000),
            recovery: None,
        }),
        ..world.start_of("f", Some(step("Pay")))
    };
    world.start_flow(start);
    let pay = world.task(worker);
    world.advance_ms(10_000);
    let handler = world.task(worker);
    assert_eq!(handler.step, step_id(limits::TIMEOUT_HANDLER_STEP, 1));
    assert_eq!((handler.method, &handler.lineage), (Method::Execute, &Lineage::FlowTimeout));
    assert_eq!(handler.heartbeat_timeout_ms, Some(1_000));
    // The Flow goes on until the handler says otherwise; the handler retries by its own options.
    assert_eq!(world.phases("f"), ["$timeoutHandler-1 Running", "Pay-1 Running"]);
    world.fail(&handler, "Oops");
    world.advance_ms(1_000);
    let handler = world.task(worker);
    assert_eq!(handler.attempt, 2);
    world.execute_done(&handler, DecisionKind::ForceComplete(Some(value("late, but done"))));
    assert_eq!(world.status("f"), FlowStatus::Completed);
    assert_eq!(world.outputs("f"), ["late, but done"]);
    assert!(
        world
            .others(worker)
            .contains(&ServerFrame::Cancel { handout: pay.handout, reason: CancelReason::FlowClosed })
    );
    world.advance_ms(60_000);
    assert!(world.try_task(worker).is_none());
    world.sweep();
}

#[test]
fn concepts_1_1_handler_is_the_default_policy_of_a_flow_that_has_one() {
    let mut world = World::new();
    let worker = world.worker_with(10, &[], true);
    let start = StartFlow { timeout_ms: Some(1), has_timeout_handler: true, ..world.start_of("f", None) };
    world.start_flow(start);
    world.advance_ms(1);
    assert_eq!(world.task_names(worker), ["$timeoutHandler-1 execute #1"]);
}

#[test]
fn concepts_1_1_a_failed_timeout_handler_has_its_failure_target() {
    let mut world = World::new();
    let worker = world.worker_with(10, &["Rescue"], true);
    let start = StartFlow {
        timeout_ms: Some(1),
        has_timeout_handler: true,
        timeout_handler: Some(TimeoutHandlerOptions { recovery: recovery("Rescue"), ..Default::default() }),
        ..world.start_of("f", None)
    };
    world.start_flow(start);
    world.advance_ms(1);
    let handler = world.task(worker);
    assert_eq!(handler.durability, Durability::Sync);
    world.fail_with(&handler, "Broken", true, None);
    let rescue = world.task(worker);
    assert_eq!(rescue.lineage, Lineage::Recovery(step_id(limits::TIMEOUT_HANDLER_STEP, 1)));
    assert_eq!(&*rescue.recovery.as_ref().expect("it recovers").error_type, "Broken");
}

#[test]
fn concepts_1_1_zero_disables_the_flow_timeout() {
    let mut world = World::new();
    let start = StartFlow { timeout_ms: Some(0), ..world.start_of("f", None) };
    world.start_flow(start);
    world.advance_ms(10_000_000);
    assert_eq!(world.status("f"), FlowStatus::Running);
    assert_eq!(world.state("f").timeout_at, None);
}

#[test]
fn concepts_1_1_a_closed_flow_no_longer_times_out() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let start = StartFlow { timeout_ms: Some(10_000), ..world.start_of("f", Some(step("Pay"))) };
    world.start_flow(start);
    let task = world.task(worker);
    world.execute_done(&task, complete("in time"));
    world.sweep();
    world.advance_ms(20_000);
    assert_eq!(world.status("f"), FlowStatus::Completed);
    assert_eq!(world.history("f").len(), 3);
}

#[test]
fn concepts_1_1_retention_deletes_a_closed_run_and_everything_of_it() {
    let mut world = World::new();
    let before = world.disk.contents();
    let worker = world.worker(&["Pay"]);
    let start = StartFlow { retention_ms: Some(60_000), ..world.start_of("f", Some(waiting_step("Pay"))) };
    let run_id = world.start_flow(start);
    let task = world.task(worker);
    world.publish("f", "ch", &["kept", "consumed"]);
    world.wait_for_with(&task, until(one("ch")), writing("a", "1"));
    let task = world.task(worker);
    world.execute_done(&task, complete("done"));
    world.advance_ms(59_999);
    assert_eq!(world.attribute("f", "a").as_deref(), Some("1"));
    world.sweep();
    world.advance_ms(1);
    assert_eq!(world.ask(Call::Describe(target("f"))), Err(CallError::NotFound));
    let by_run = Target { flow_id: Name::new("f"), run_id: Some(run_id) };
    assert_eq!(world.ask(Call::Describe(by_run)), Err(CallError::NotFound));
    assert_eq!(world.disk.contents(), before);
}

#[test]
fn concepts_1_1_retention_of_an_old_run_leaves_the_new_one_of_the_same_flow_id() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let start = StartFlow { retention_ms: Some(60_000), ..world.start_of("f", Some(step("Pay"))) };
    world.start_flow(start);
    let task = world.task(worker);
    world.execute_done(&task, complete("done"));
    let start =
        StartFlow { id_reuse: IdReusePolicy::AllowIfNotRunning, ..world.start_of("f", Some(step("Pay"))) };
    let second = world.start_flow(start);
    world.advance_ms(60_000);
    assert_eq!(world.summary("f").run_id, second);
    world.sweep();
}

#[test]
fn concepts_1_1_retention_of_a_run_larger_than_one_entry_takes_several() {
    let mut world = World::new();
    let start = StartFlow { retention_ms: Some(1_000), ..world.start_of("f", None) };
    world.start_flow(start);
    for _ in 0..limits::DELETED_KEYS + 1 {
        let request_id = world.request_id();
        let call = Call::WriteAttributes { request_id, target: target("f"), writes: vec![set("a", "1")] };
        assert_eq!(world.ask(call), Ok(Answer::Done));
    }
    assert_eq!(world.stop("f", StopKind::Terminate), Ok(Answer::Done));
    world.advance_ms(3_000);
    assert!(world.disk.contents().is_empty());
}

#[test]
fn concepts_1_1_stop_cancel_asks_running_attempts_and_waits_for_them() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A", "B", "C"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    let movements = vec![step("A"), waiting_step("B"), step("C"), step("Unknown")];
    world.execute_done(&split, DecisionKind::GoTo(movements));
    let (a, b, c) = (world.task(worker), world.task(worker), world.task(worker));
    world.wait_for_done(&b, until(timer(60_000)));
    world.others(worker);
    assert_eq!(world.stop("f", StopKind::Cancel), Ok(Answer::Done));
    let cancel = |handout| ServerFrame::Cancel { handout, reason: CancelReason::FlowClosed };
    assert_eq!(world.others(worker), [cancel(a.handout), cancel(c.handout)]);
    let summary = world.summary("f");
    assert_eq!((summary.status, summary.closing), (FlowStatus::Running, true));
    assert_eq!(world.phases("f"), ["A-1 Running", "C-1 Running"]);
    world.sweep();
    // A result that comes now is not wanted: the Flow is closing.
    world.execute_with(&a, go_to(&["A"]), writing("x", "1"));
    assert_eq!(world.attribute("f", "x"), None);
    world.fail(&c, "Cancelled");
    let result = world.result("f");
    assert_eq!(result.status, FlowStatus::Canceled);
    let error = result.error.expect("it did not complete");
    assert_eq!((error.category, &*error.text), (ErrorCategory::ClientApi, "enough"));
    assert!(world.try_task(worker).is_none());
    world.sweep();
}

#[test]
fn concepts_1_1_stop_without_running_attempts_closes_at_once() {
    for (kind, expected) in [
        (StopKind::Cancel, FlowStatus::Canceled),
        (StopKind::Fail, FlowStatus::Failed),
        (StopKind::Terminate, FlowStatus::Terminated),
    ] {
        let mut world = World::new();
        world.start("f", step("Pay"));
        world.publish("f", "ch", &["pending"]);
        assert_eq!(world.stop("f", kind), Ok(Answer::Done));
        let result = world.result("f");
        assert_eq!(result.status, expected);
        assert_eq!(&*result.error.expect("it did not complete").text, "enough");
        assert!(world.pending("f", "ch").is_empty());
        world.sweep();
    }
}

#[test]
fn concepts_1_1_terminate_is_immediate_also_while_closing() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    world.task(worker);
    assert_eq!(world.stop("f", StopKind::Cancel), Ok(Answer::Done));
    assert_eq!(world.status("f"), FlowStatus::Running);
    assert_eq!(world.stop("f", StopKind::Fail), Err(CallError::Closing));
    assert_eq!(world.stop("f", StopKind::Terminate), Ok(Answer::Done));
    assert_eq!(world.status("f"), FlowStatus::Terminated);
    world.sweep();
}

#[test]
fn concepts_1_1_a_worker_that_ignores_the_cancel_does_not_hold_the_stop_for_ever() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    world.task(worker);
    assert_eq!(world.stop("f", StopKind::Fail), Ok(Answer::Done));
    world.advance_ms(limits::CLOSING_MS - 1);
    assert_eq!(world.status("f"), FlowStatus::Running);
    world.advance_ms(1);
    assert_eq!(world.status("f"), FlowStatus::Failed);
    world.sweep();
}

#[test]
fn concepts_1_1_a_stop_under_way_survives_a_failover() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    world.task(worker);
    assert_eq!(world.stop("f", StopKind::Cancel), Ok(Answer::Done));
    world.crash();
    // The running attempt ended with its node, so nothing is left to wait for.
    assert_eq!(world.status("f"), FlowStatus::Canceled);
    world.sweep();
}

#[test]
fn concepts_1_1_update_class_requests_are_refused_while_closing() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    world.task(worker);
    assert_eq!(world.stop("f", StopKind::Cancel), Ok(Answer::Done));
    let target = target("f");
    let calls = [
        Call::Publish {
            request_id: Name::new("a"),
            target: target.clone(),
            publications: vec![message("ch", "m")],
        },
        Call::WriteAttributes {
            request_id: Name::new("b"),
            target: target.clone(),
            writes: vec![set("a", "1")],
        },
        Call::SkipTimer {
            request_id: Name::new("c"),
            target: target.clone(),
            timer: TimerTarget::FlowTimeout,
        },
        Call::UpdateConfig { request_id: Name::new("d"), target, config: FlowConfig::default() },
    ];
    for call in calls {
        assert_eq!(world.ask(call), Err(CallError::Closing));
    }
}

#[test]
fn concepts_1_1_mutations_of_a_closed_run_are_refused_with_its_status() {
    let mut world = World::new();
    run_that_is(&mut world, FlowStatus::Completed);
    let request_id = world.request_id();
    let call = Call::Publish { request_id, target: target("f"), publications: vec![message("ch", "m")] };
    let refused = Err(CallError::NotActive { status: FlowStatus::Completed });
    assert_eq!(world.ask(call), refused);
    assert_eq!(world.stop("f", StopKind::Cancel), refused);
}

#[test]
fn concepts_1_1_a_stop_can_name_an_older_run() {
    let mut world = World::new();
    let first = run_that_is(&mut world, FlowStatus::Completed);
    let start = StartFlow { id_reuse: IdReusePolicy::AllowIfNotRunning, ..world.start_of("f", None) };
    world.start_flow(start);
    let call = Call::Stop {
        request_id: Name::new("r"),
        target: Target { flow_id: Name::new("f"), run_id: Some(first) },
        kind: StopKind::Cancel,
        reason: Name::default(),
    };
    assert_eq!(world.ask(call), Err(CallError::NotActive { status: FlowStatus::Completed }));
    assert_eq!(world.status("f"), FlowStatus::Running);
    let foreign = Target { flow_id: Name::new("g"), run_id: Some(first) };
    assert_eq!(world.ask(Call::Describe(foreign)), Err(CallError::NotFound));
}

#[test]
fn concepts_1_1_an_update_of_the_configuration_merges_only_what_it_gives() {
    let mut world = World::new();
    let worker = world.worker(&["A", "B"]);
    let config = FlowConfig { active_step_search: Some(ActiveStepSearch::None), step_durability: None };
    let start = StartFlow { config, ..world.start_of("f", Some(step("A"))) };
    world.start_flow(start);
    assert_eq!(world.summary("f").active_step_types, []);
    let update = FlowConfig { active_step_search: None, step_durability: Some(Durability::Async) };
    let request_id = world.request_id();
    let call = Call::UpdateConfig { request_id, target: target("f"), config: update };
    assert_eq!(world.ask(call), Ok(Answer::Done));
    let state = world.state("f");
    assert_eq!(state.active_step_search, ActiveStepSearch::None);
    assert_eq!(state.step_durability, Durability::Async);
    // It affects only methods scheduled afterwards.
    let a = world.task(worker);
    assert_eq!(a.durability, Durability::Sync);
    world.execute_done(&a, go_to(&["B"]));
    assert_eq!(world.task(worker).durability, Durability::Async);
}

#[test]
fn concepts_1_1_active_steps_are_shown_as_the_configuration_says() {
    let table = [
        (ActiveStepSearch::All, vec![Name::new("A"), Name::new("B")]),
        (ActiveStepSearch::WaitForOnly, vec![Name::new("B")]),
        (ActiveStepSearch::None, vec![]),
    ];
    for (mode, expected) in table {
        let mut world = World::new();
        let worker = world.worker(&["Split", "A", "B"]);
        let config = FlowConfig { active_step_search: Some(mode), step_durability: None };
        let start = StartFlow { config, ..world.start_of("f", Some(step("Split"))) };
        world.start_flow(start);
        let split = world.task(worker);
        world.execute_done(&split, DecisionKind::GoTo(vec![step("A"), waiting_step("B")]));
        let (_a, b) = (world.task(worker), world.task(worker));
        world.wait_for_done(&b, until(timer(60_000)));
        assert_eq!(world.summary("f").active_step_types, expected);
    }
}
