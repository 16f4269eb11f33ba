//! Attempts, retries and what counts as one (concepts.md 1.2, 1.3, 2; FD-1 to FD-5, FD-25).

use std::vec;

use super::build::*;
use super::driver::{Given, START_MS, World};
use crate::engine::*;
use crate::ids::{Name, StreamId};
use crate::time::Timestamp;

/// A started Flow `f` with one running attempt of `Pay`, whose method may be tried three times.
fn running(durability: Durability) -> (World, StreamId, Given) {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let movement = step_with("Pay", |execute| {
        execute.durability = Some(durability);
        execute.retry = attempts(3);
        execute.timeout_ms = Some(60_000);
    });
    world.start("f", movement);
    let task = world.task(worker);
    (world, worker, task)
}

/// The attempt that follows, after any back-off.
fn next_attempt(world: &mut World) -> Given {
    let worker = match world.open_streams().last() {
        Some(stream) => *stream,
        None => world.worker(&["Pay"]),
    };
    if let Some(task) = world.try_task(worker) {
        return task;
    }
    world.advance_ms(1_000);
    world.task(worker)
}

#[test]
fn concepts_2_retry_accounting_table() {
    type Event = fn(&mut World, &Given);
    // What happens to attempt 1, the number of the next one, and whether a retry is consumed.
    let table: [(&str, Durability, Event, u32, bool); 10] = [
        ("handler failure", Durability::Sync, |world, task| world.fail(task, "Oops"), 2, true),
        ("method timeout", Durability::Sync, |world, _| world.advance_ms(60_000), 2, true),
        (
            "Worker crash",
            Durability::Sync,
            |world, task| {
                world.disconnect(task.stream);
                world.worker(&["Pay"]);
            },
            2,
            true,
        ),
        (
            "silent Worker",
            Durability::Sync,
            |world, task| {
                world.fall_silent(task.stream);
                world.advance_ms(limits::PING_TIMEOUT_MS);
                world.worker(&["Pay"]);
            },
            2,
            true,
        ),
        ("node crash, SYNC", Durability::Sync, |world, _| world.crash(), 2, true),
        ("node crash, ASYNC start durable", Durability::Async, |world, _| world.crash(), 2, true),
        (
            "drain expiry",
            Durability::Sync,
            |world, _| {
                for order in [NodeOrder::Drain, NodeOrder::Interrupt, NodeOrder::Commit, NodeOrder::Close] {
                    world.step(Input::Node(order));
                }
                world.crash();
            },
            2,
            true,
        ),
        (
            "decline",
            Durability::Sync,
            |world, task| {
                world.worker(&["Pay"]);
                world.decline(task);
            },
            1,
            false,
        ),
        ("graceful return before it ran", Durability::Sync, |world, task| world.give_back(task), 1, false),
        (
            "invalid result",
            Durability::Sync,
            |world, task| world.execute_done(task, DecisionKind::GoTo(vec![])),
            2,
            true,
        ),
    ];
    for (name, durability, event, number, consumed) in table {
        let (mut world, _, task) = running(durability);
        event(&mut world, &task);
        let mut next = next_attempt(&mut world);
        assert_eq!(next.attempt, number, "{name}");
        assert_ne!(next.handout, task.handout, "{name}");
        // Three attempts in all: a retry that was consumed is missing now.
        let left = if consumed { 1 } else { 2 };
        for _ in 0..left {
            world.fail(&next, "Oops");
            assert_eq!(world.status("f"), FlowStatus::Running, "{name}");
            world.advance_ms(5_000);
            let worker = next.stream;
            next = world.task(worker);
        }
        world.fail(&next, "Last");
        assert_eq!(world.status("f"), FlowStatus::Failed, "{name}");
        world.sweep();
    }
}

#[test]
fn concepts_2_retry_accounting_of_a_crash_before_the_async_start_is_durable() {
    let mut world = World::new();
    let start = world.start_of(
        "f",
        Some(step_with("Pay", |execute| {
            execute.durability = Some(Durability::Async);
            execute.retry = attempts(1);
        })),
    );
    world.start_flow(start);
    world.hold_log();
    let worker = world.worker(&["Pay"]);
    let lost = world.task(worker);
    world.crash();
    let worker = world.worker(&["Pay"]);
    let task = world.task(worker);
    assert_eq!((lost.attempt, task.attempt), (1, 1));
    world.execute_done(&task, complete("done"));
    assert_eq!(world.status("f"), FlowStatus::Completed);
}

#[test]
fn concepts_2_retry_accounting_of_a_step_still_queued_at_a_failover() {
    let mut world = World::new();
    world.start("f", step_with("Pay", |execute| execute.retry = attempts(1)));
    for _ in 0..3 {
        world.crash();
    }
    let worker = world.worker(&["Pay"]);
    assert_eq!(world.task(worker).attempt, 1);
    world.sweep();
}

#[test]
fn concepts_1_3_back_off_follows_the_policy() {
    let (mut world, worker, task) = running(Durability::Sync);
    world.fail(&task, "Oops");
    let state = world.step_state("f", "Pay", 1);
    assert_eq!((state.phase, state.attempt), (Phase::BackingOff, 2));
    assert_eq!(state.next_attempt_at, Some(Timestamp::from_millis(START_MS + 1_000)));
    assert_eq!(&*state.last_failure.expect("an attempt failed").error_type, "Oops");
    world.sweep();
    world.advance_ms(999);
    assert!(world.try_task(worker).is_none());
    world.advance_ms(1);
    let second = world.task(worker);
    world.fail(&second, "Oops");
    world.advance_ms(1_999);
    assert!(world.try_task(worker).is_none());
    world.advance_ms(1);
    assert_eq!(world.task(worker).attempt, 3);
}

#[test]
fn concepts_1_3_a_handler_asks_for_the_next_delay_once() {
    let (mut world, worker, task) = running(Durability::Sync);
    world.fail_with(&task, "Oops", false, Some(500_000));
    world.advance_ms(499_999);
    assert!(world.try_task(worker).is_none());
    world.advance_ms(1);
    let second = world.task(worker);
    assert_eq!(second.attempt, 2);
    world.fail(&second, "Oops");
    world.advance_ms(2_000);
    assert_eq!(world.task(worker).attempt, 3);
}

#[test]
fn concepts_1_3_a_non_retryable_failure_ends_the_method() {
    let (mut world, _, task) = running(Durability::Sync);
    world.fail_with(&task, "Broken", true, None);
    let result = world.result("f");
    assert_eq!(result.status, FlowStatus::Failed);
    let error = result.error.expect("a failed run has an error");
    assert_eq!(error.category, ErrorCategory::WorkerFailure);
    assert_eq!((&*error.error_type, &*error.text), ("Broken", "Pay-1: it failed"));
}

#[test]
fn concepts_1_3_the_total_duration_starts_at_the_first_hand_out() {
    let mut world = World::new();
    let policy = RetryPolicy { total_duration_seconds: 10, ..RetryPolicy::default() };
    world.start("f", step_with("Pay", |execute| execute.retry = Some(policy)));
    // An hour in the queue does not count.
    world.advance_ms(3_600_000);
    let worker = world.worker(&["Pay"]);
    let task = world.task(worker);
    world.advance_ms(9_999);
    world.fail(&task, "Oops");
    world.advance_ms(1_000);
    // The retry was scheduled in time; it may start after the budget ran out.
    let task = world.task(worker);
    world.fail(&task, "Oops");
    assert_eq!(world.status("f"), FlowStatus::Failed);
}

#[test]
fn concepts_1_3_a_first_attempt_handed_back_starts_the_budget_anew() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let policy = RetryPolicy { total_duration_seconds: 10, ..RetryPolicy::default() };
    world.start("f", step_with("Pay", |execute| execute.retry = Some(policy)));
    let task = world.task(worker);
    world.advance_ms(9_000);
    world.give_back(&task);
    let task = world.task(worker);
    world.advance_ms(9_000);
    world.fail(&task, "Oops");
    assert_eq!(world.phases("f"), ["Pay-1 BackingOff"]);
    world.advance_ms(1_000);
    // Attempt 2 handed back does not.
    let task = world.task(worker);
    assert_eq!(task.attempt, 2);
    world.give_back(&task);
    let task = world.task(worker);
    assert_eq!(task.attempt, 2);
    world.fail(&task, "Oops");
    assert_eq!(world.status("f"), FlowStatus::Failed);
}

#[test]
fn concepts_1_2_the_method_timeout_is_an_absolute_deadline() {
    let (mut world, worker, task) = running(Durability::Sync);
    assert_eq!(task.deadline, Timestamp::from_millis(START_MS + 60_000));
    world.advance_ms(59_999);
    assert_eq!(world.phases("f"), ["Pay-1 Running"]);
    world.advance_ms(1);
    let cancel = ServerFrame::Cancel { handout: task.handout, reason: CancelReason::TimedOut };
    assert!(world.others(worker).contains(&cancel));
    let state = world.step_state("f", "Pay", 1);
    assert_eq!(state.phase, Phase::BackingOff);
    assert_eq!(&*state.last_failure.expect("it failed").error_type, failure_type::METHOD_TIMEOUT);
}

#[test]
fn concepts_1_2_the_default_method_timeout_is_two_hours() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(worker);
    assert_eq!(task.deadline, Timestamp::from_millis(START_MS + 7_200_000));
    assert_eq!(task.heartbeat_timeout_ms, None);
}

#[test]
fn concepts_1_2_a_missing_heartbeat_fails_the_attempt() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let movement = with_options("Pay", |options| {
        options.skip_wait_for = true;
        options.heartbeat_timeout_ms = Some(1_000);
    });
    world.start("f", movement);
    let task = world.task(worker);
    assert_eq!(task.heartbeat_timeout_ms, Some(1_000));
    for _ in 0..5 {
        world.advance_ms(999);
        world.heartbeat(&task, None);
    }
    world.advance_ms(999);
    assert_eq!(world.phases("f"), ["Pay-1 Running"]);
    world.advance_ms(1);
    let cancel = ServerFrame::Cancel { handout: task.handout, reason: CancelReason::TimedOut };
    assert!(world.others(worker).contains(&cancel));
    let state = world.step_state("f", "Pay", 1);
    assert_eq!(&*state.last_failure.expect("it failed").error_type, failure_type::HEARTBEAT_TIMEOUT);
}

#[test]
fn d_021_a_heartbeat_timeout_is_off_unless_set() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    world.task(worker);
    world.advance_ms(7_199_999);
    assert_eq!(world.phases("f"), ["Pay-1 Running"]);
}

#[test]
fn d_057_a_result_received_before_the_timeout_was_judged_is_accepted() {
    let (mut world, _, task) = running(Durability::Sync);
    world.freeze_ms(120_000);
    world.execute_done(&task, complete("just in time"));
    assert_eq!(world.status("f"), FlowStatus::Completed);
}

#[test]
fn fd_003_a_retry_sees_the_snapshot_of_the_first_attempt() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let movement = step_with("Pay", |execute| execute.loads = vec![Load::Channel(key("ch"))]);
    let start = StartFlow { attributes: vec![set("a", "1")], ..world.start_of("f", Some(movement)) };
    world.start_flow(start);
    let first = world.task(worker);
    let request_id = world.request_id();
    let call = Call::WriteAttributes { request_id, target: target("f"), writes: vec![set("a", "2")] };
    assert_eq!(world.ask(call), Ok(Answer::Done));
    world.publish("f", "ch", &["m"]);
    // After a failure, a hand-back and a failover alike.
    world.fail(&first, "Oops");
    world.advance_ms(1_000);
    let second = world.task(worker);
    world.give_back(&second);
    let again = world.task(worker);
    world.crash();
    let worker = world.worker(&["Pay"]);
    world.advance_ms(10_000);
    let third = world.task(worker);
    for task in [&first, &second, &again, &third] {
        assert_eq!(seen(task), ["a=1"]);
        assert_eq!(task.snapshot, first.snapshot);
    }
    assert_eq!(world.attribute("f", "a").as_deref(), Some("2"));
}

#[test]
fn concepts_1_2_wait_for_and_execute_load_independent_snapshots() {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    let movement = with_options("Ask", |options| options.execute.loads = vec![Load::Channel(key("ch"))]);
    let start = StartFlow { attributes: vec![set("a", "1")], ..world.start_of("f", Some(movement)) };
    world.start_flow(start);
    let wait_for = world.task(worker);
    assert_eq!(wait_for.snapshot.messages, []);
    let request_id = world.request_id();
    let call = Call::WriteAttributes { request_id, target: target("f"), writes: vec![set("a", "2")] };
    assert_eq!(world.ask(call), Ok(Answer::Done));
    world.wait_for_done(&wait_for, until(one("ch")));
    world.publish("f", "ch", &["consumed", "left"]);
    let execute = world.task(worker);
    assert_eq!(seen(&execute), ["a=2"]);
    // Execute loads after its Wait consumed messages.
    assert_eq!(execute.snapshot.channel_sizes, [ChannelSize { channel: key("ch"), size: 1 }]);
    let loaded: vec::Vec<_> =
        execute.snapshot.messages[0].messages.iter().map(|m| text_of(&m.value)).collect();
    assert_eq!(loaded, ["left"]);
    assert_eq!(told(&execute), ["consumed"]);
}

#[test]
fn concepts_1_2_loads_select_map_instances_and_messages() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let map = |instance_key: &str| AttributeWrite {
        key: instance("m", instance_key),
        value: Some(AttributeValue::String(Name::new(instance_key))),
    };
    let other =
        AttributeWrite { key: instance("n", "z"), value: Some(AttributeValue::String(Name::new("z"))) };
    let movement = |loads| step_with("Pay", |execute| execute.loads = loads);
    let table = [
        (vec![], vec!["a=1"]),
        (vec![Load::AttributeInstance(instance("m", "x"))], vec!["a=1", "m/x=x"]),
        (vec![Load::AttributeMap(Name::new("m"))], vec!["a=1", "m/x=x", "m/y=y"]),
    ];
    for (place, (loads, expected)) in table.into_iter().enumerate() {
        let start = StartFlow {
            attributes: vec![set("a", "1"), map("x"), map("y"), other.clone()],
            ..world.start_of(&std::format!("f{place}"), Some(movement(loads)))
        };
        world.start_flow(start);
        assert_eq!(seen(&world.task(worker)), expected);
    }
}

#[test]
fn concepts_1_2_channel_maps_load_one_instance_or_all() {
    let mut world = World::new();
    let table = [
        (Load::Channel(instance("m", "x")), vec![instance("m", "x")]),
        (Load::ChannelMap(Name::new("m")), vec![instance("m", "x"), instance("m", "y")]),
        (Load::Channel(key("ch")), vec![key("ch")]),
    ];
    for (place, (load, expected)) in table.into_iter().enumerate() {
        let flow_id = std::format!("f{place}");
        world.start(&flow_id, step_with("Pay", |execute| execute.loads = vec![load]));
        let publications = [instance("m", "x"), instance("m", "y"), key("ch")]
            .map(|channel| Publication { channel, value: value("v") });
        let request_id = world.request_id();
        let call = Call::Publish { request_id, target: target(&flow_id), publications: publications.into() };
        assert!(world.ask(call).is_ok());
        let worker = world.worker(&["Pay"]);
        let task = world.task(worker);
        let loaded: vec::Vec<_> = task.snapshot.messages.iter().map(|found| found.channel.clone()).collect();
        assert_eq!(loaded, expected);
        assert_eq!(task.snapshot.channel_sizes.len(), 3);
        world.disconnect(worker);
        assert!(world.stop(&flow_id, StopKind::Terminate).is_ok());
    }
}

#[test]
fn concepts_1_2_a_failed_wait_for_fails_the_flow_unless_told_to_proceed() {
    for policy in [WaitForFailurePolicy::FailFlow, WaitForFailurePolicy::Proceed] {
        let mut world = World::new();
        let worker = world.worker(&["Ask"]);
        let movement = with_options("Ask", |options| {
            options.wait_for_failure = policy;
            options.wait_for.retry = attempts(1);
        });
        world.start("f", movement);
        let wait_for = world.task(worker);
        world.fail(&wait_for, "NoAnswer");
        if policy == WaitForFailurePolicy::FailFlow {
            assert_eq!(world.status("f"), FlowStatus::Failed);
            continue;
        }
        let execute = world.task(worker);
        assert_eq!((execute.method, execute.attempt), (Method::Execute, 1));
        assert!(execute.wait_for_failed);
        assert_eq!(execute.input, Some(value("input")));
        let info = execute.recovery.clone().expect("it is told why");
        assert_eq!((&*info.error_type, &*info.detail), ("NoAnswer", "it failed"));
        assert_eq!(info.progress, AttemptProgress::Unspecified);
        assert_eq!(execute.conditions, []);
        world.execute_done(&execute, complete("done"));
        assert_eq!(world.status("f"), FlowStatus::Completed);
    }
}

#[test]
fn concepts_1_2_the_recovery_step_gets_the_input_and_the_error() {
    let mut world = World::new();
    let worker = world.worker(&["Pay", "Undo"]);
    let movement = with_options("Pay", |options| {
        options.skip_wait_for = true;
        options.execute.retry = attempts(2);
        options.recovery =
            Some(Recovery { step_type: Name::new("Undo"), options: StepOptions::default() }.into());
    });
    world.start("f", movement);
    let first = world.task(worker);
    world.fail(&first, "Oops");
    world.advance_ms(1_000);
    let second = world.task(worker);
    world.fail(&second, "Broken");
    let wait_for = world.task(worker);
    assert_eq!((&wait_for.step, wait_for.method), (&step_id("Undo", 1), Method::WaitFor));
    assert_eq!(wait_for.lineage, Lineage::Recovery(step_id("Pay", 1)));
    assert_eq!(wait_for.input, Some(value("input")));
    let info = RecoveryInfo {
        error_type: Name::new("Broken"),
        detail: Name::new("it failed"),
        progress: AttemptProgress::Unspecified,
    };
    assert_eq!(wait_for.recovery.as_ref(), Some(&info));
    world.wait_for_done(&wait_for, Wait { kind: WaitKind::Skip, conditions: vec![] });
    // Both its methods are told.
    let execute = world.task(worker);
    assert_eq!(execute.recovery.as_ref(), Some(&info));
    world.execute_done(&execute, complete("undone"));
    assert_eq!(world.outputs("f"), ["undone"]);
    world.sweep();
}

#[test]
fn concepts_1_2_a_later_wait_for_failure_replaces_an_earlier_execute_failure() {
    let mut world = World::new();
    let worker = world.worker(&["Pay", "Undo"]);
    let movement = with_options("Pay", |options| {
        options.skip_wait_for = true;
        options.execute.retry = attempts(1);
        let undo = StepOptions {
            wait_for: MethodOptions { retry: attempts(1), ..MethodOptions::default() },
            wait_for_failure: WaitForFailurePolicy::Proceed,
            ..StepOptions::default()
        };
        options.recovery = Some(Recovery { step_type: Name::new("Undo"), options: undo }.into());
    });
    world.start("f", movement);
    let pay = world.task(worker);
    world.fail(&pay, "First");
    let wait_for = world.task(worker);
    assert_eq!(&*wait_for.recovery.as_ref().expect("it recovers").error_type, "First");
    world.fail(&wait_for, "Second");
    let execute = world.task(worker);
    assert!(execute.wait_for_failed);
    assert_eq!(&*execute.recovery.as_ref().expect("it recovers").error_type, "Second");
}

#[test]
fn concepts_1_2_an_unknown_recovery_step_stays_queued_like_any_step_without_a_worker() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let movement = with_options("Pay", |options| {
        options.skip_wait_for = true;
        options.execute.retry = attempts(1);
        options.recovery = recovery("Nowhere");
    });
    world.start("f", movement);
    let pay = world.task(worker);
    world.fail(&pay, "Oops");
    let state = world.step_state("f", "Nowhere", 1);
    assert_eq!(state.phase, Phase::Queued);
    assert_eq!(state.pending_reason.as_deref(), Some("no connected Worker has this Step type"));
}

#[test]
fn concepts_1_2_effects_of_a_failed_attempt_are_not_visible_at_all() {
    let (mut world, worker, task) = running(Durability::Sync);
    // The result is invalid as a whole, so nothing of it counts.
    world.execute_with(&task, DecisionKind::GoTo(vec![]), writing("x", "1"));
    assert_eq!(world.attribute("f", "x"), None);
    assert!(world.pending("f", "x").is_empty());
    let state = world.step_state("f", "Pay", 1);
    let failure = state.last_failure.expect("the attempt failed");
    assert_eq!(&*failure.error_type, failure_type::INVALID_RESULT);
    assert_eq!(&*failure.detail, "decision.go_to.movements: is empty: give at least one");
    assert!(world.is_open(worker));
}

#[test]
fn concepts_1_13_a_checkpoint_reaches_the_next_attempt_and_a_heartbeat_without_one_clears_it() {
    let (mut world, worker, first) = running(Durability::Sync);
    assert_eq!(first.checkpoint, None);
    world.heartbeat(&first, Some(value("10 %")));
    world.heartbeat(&first, Some(value("20 %")));
    world.fail(&first, "Oops");
    world.advance_ms(1_000);
    let second = world.task(worker);
    assert_eq!(second.checkpoint, Some(value("20 %")));
    world.heartbeat(&second, None);
    world.fail(&second, "Oops");
    world.advance_ms(2_000);
    assert_eq!(world.task(worker).checkpoint, None);
}

#[test]
fn concepts_1_13_execute_begins_without_the_checkpoint_of_wait_for() {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    let wait_for = world.task(worker);
    world.heartbeat(&wait_for, Some(value("half")));
    world.wait_for_done(&wait_for, until(timer(0)));
    assert_eq!(world.task(worker).checkpoint, None);
}

#[test]
fn concepts_1_13_locals_of_wait_for_reach_execute_and_die_with_the_step() {
    let mut world = World::new();
    let worker = world.worker(&["Ask", "Next"]);
    world.start("f", waiting_step("Ask"));
    let wait_for = world.task(worker);
    let local = NamedValue { name: Name::new("l"), value: value("1") };
    let effects = Effects { locals: vec![local.clone()], ..Effects::default() };
    world.wait_for_with(&wait_for, until(timer(0)), effects);
    let execute = world.task(worker);
    assert_eq!(execute.locals, [local]);
    world.execute_done(&execute, go_to(&["Next"]));
    assert_eq!(world.task(worker).locals, []);
}

#[test]
fn concepts_1_13_recorded_events_are_written_to_history() {
    let (mut world, _, task) = running(Durability::Sync);
    let recorded = NamedValue { name: Name::new("chosen"), value: value("red") };
    let effects = Effects { events: vec![recorded.clone()], ..Effects::default() };
    world.execute_with(&task, complete("done"), effects);
    let history = world.history("f");
    let EventKind::ExecuteCompleted { recorded: found, .. } = &history[1].kind else {
        panic!("{:?}", history[1]);
    };
    assert_eq!(found, &[recorded]);
}

#[test]
fn fd_001_fd_004_finished_steps_never_run_again() {
    let mut world = World::new();
    let worker = world.worker(&["A", "B"]);
    world.start("f", step("A"));
    let a = world.task(worker);
    world.execute_done(&a, go_to(&["B"]));
    world.task(worker);
    world.disconnect(worker);
    world.crash();
    let worker = world.worker(&["A", "B"]);
    world.advance_ms(10_000);
    assert_eq!(world.task_names(worker), ["B-1 execute #2"]);
}

#[test]
fn fd_002_a_worker_crash_fails_its_attempts_which_any_worker_retries() {
    let mut world = World::new();
    let worker = world.worker(&["A"]);
    world.start("f", step("A"));
    world.start("g", step("A"));
    assert_eq!(world.task_names(worker), ["A-1 execute #1", "A-1 execute #1"]);
    let other = world.worker(&["A"]);
    world.disconnect(worker);
    let state = world.step_state("f", "A", 1);
    assert_eq!(state.phase, Phase::BackingOff);
    assert_eq!(&*state.last_failure.expect("it failed").error_type, failure_type::NOT_COMPLETED);
    world.advance_ms(1_000);
    assert_eq!(world.task_names(other), ["A-1 execute #2", "A-1 execute #2"]);
}

#[test]
fn fd_005_a_waiting_step_holds_no_worker_and_a_crash_repeats_nothing() {
    let mut world = World::new();
    let worker = world.worker_with(1, &["Ask"], false);
    world.start("f", waiting_step("Ask"));
    let wait_for = world.task(worker);
    world.wait_for_done(&wait_for, until(one("ch")));
    // The only slot is free.
    world.start("g", waiting_step("Ask"));
    let other = world.task(worker);
    assert_eq!(&*other.flow_id, "g");
    world.wait_for_done(&other, until(one("ch")));
    world.disconnect(worker);
    world.crash();
    assert_eq!(world.phases("f"), ["Ask-1 Waiting"]);
    let worker = world.worker(&["Ask"]);
    assert!(world.try_task(worker).is_none());
    world.publish("f", "ch", &["m"]);
    assert_eq!(world.task_names(worker), ["Ask-1 execute #1"]);
    world.sweep();
}

#[test]
fn fd_025_a_declined_call_goes_to_another_worker_and_costs_nothing() {
    let mut world = World::new();
    let declining = world.worker(&["Pay"]);
    world.start("f", step_with("Pay", |execute| execute.retry = attempts(1)));
    let task = world.task(declining);
    world.decline(&task);
    // It is not asked again until it reconnects: the server must not spin.
    assert!(world.try_task(declining).is_none());
    assert_eq!(world.phases("f"), ["Pay-1 Queued"]);
    world.sweep();
    let other = world.worker(&["Pay"]);
    let task = world.task(other);
    assert_eq!(task.attempt, 1);
    world.decline(&task);
    assert_eq!(world.phases("f"), ["Pay-1 Queued"]);
    world.disconnect(declining);
    let back = world.worker(&["Pay"]);
    assert_eq!(world.task_names(back), ["Pay-1 execute #1"]);
}

#[test]
fn concepts_2_a_decline_is_in_the_log_before_the_next_offer() {
    let mut world = World::new();
    let declining = world.worker(&["Pay"]);
    let other = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(declining);
    world.hold_log();
    world.decline(&task);
    assert!(world.try_task(other).is_none());
    world.release_log();
    assert_eq!(world.task_names(other), ["Pay-1 execute #1"]);
}

#[test]
fn concepts_1_4_attempts_of_single_attempt_steps_end_as_not_completed() {
    let mut world = World::new();
    let worker = world.worker(&["Tool", "Unknown"]);
    let movement = with_options("Tool", |options| {
        options.skip_wait_for = true;
        options.execute.retry = attempts(1);
        options.recovery = recovery("Unknown");
    });
    world.start("f", movement);
    world.task(worker);
    world.disconnect(worker);
    let worker = world.worker(&["Tool", "Unknown"]);
    let recovery = world.task(worker);
    let info = recovery.recovery.clone().expect("it recovers");
    assert_eq!(&*info.error_type, failure_type::NOT_COMPLETED);
    assert_eq!(info.progress, AttemptProgress::NotCompleted);
}

#[test]
fn concepts_1_4_attempt_progress_says_whether_the_outcome_is_known() {
    type Event = fn(&mut World, &Given);
    use AttemptProgress::{NotCompleted, Unspecified};
    let table: [(&str, Event, AttemptProgress); 5] = [
        ("handler failure", |world, task| world.fail(task, "Broken"), Unspecified),
        ("invalid result", |world, task| world.execute_done(task, DecisionKind::GoTo(vec![])), Unspecified),
        ("stream loss", |world, task| world.disconnect(task.stream), NotCompleted),
        ("method timeout", |world, _| world.advance_ms(10_000), NotCompleted),
        ("heartbeat timeout", |world, _| world.advance_ms(5_000), NotCompleted),
    ];
    for (name, event, expected) in table {
        let mut world = World::new();
        let worker = world.worker(&["Tool"]);
        let movement = with_options("Tool", |options| {
            options.skip_wait_for = true;
            options.execute.retry = attempts(1);
            options.execute.timeout_ms = Some(10_000);
            options.heartbeat_timeout_ms = (name == "heartbeat timeout").then_some(5_000);
            options.recovery = recovery("Undo");
        });
        world.start("f", movement);
        let task = world.task(worker);
        event(&mut world, &task);
        let undo = world.worker(&["Undo"]);
        let info = world.task(undo).task.recovery.expect("it recovers");
        assert_eq!(info.progress, expected, "{name}");
    }
}

#[test]
fn d_021_silence_counts_from_when_the_task_left_not_from_the_hand_out() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.hold_log();
    let mut movement = step_with("Pay", |execute| execute.retry = attempts(1));
    movement.options.heartbeat_timeout_ms = Some(1_000);
    let start = world.start_of("f", Some(movement));
    world.call(Call::Start(start.into()));
    // The log takes longer than the Worker may be silent.
    world.advance_ms(2_500);
    world.release_log();
    let task = world.task(worker);
    assert_eq!(task.attempt, 1);
    world.advance_ms(500);
    world.execute_done(&task, complete("done"));
    assert_eq!(world.status("f"), FlowStatus::Completed);
}
