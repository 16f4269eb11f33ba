//! Crashes, recovery, drains and what is durable when (HA-19 to HA-21, FD-7 to FD-33, D-22 to D-26, D-48).

use std::vec;
use std::vec::Vec;

use super::build::*;
use super::driver::{Given, World};
use crate::engine::*;
use crate::ids::{Name, StreamId};

/// Flow `f` with one running attempt of `Pay`.
fn running(movement: Movement) -> (World, StreamId, Given) {
    let mut world = World::new();
    let worker = world.worker(&["Pay", "Next", "Last"]);
    world.start("f", movement);
    let task = world.task(worker);
    (world, worker, task)
}

/// The attempt that follows a failover, on a new Worker.
fn after_failover(world: &mut World) -> Given {
    let worker = world.worker(&["Pay", "Next", "Last"]);
    world.advance_ms(1_000);
    world.task(worker)
}

#[test]
fn ha_020_fd_008_a_received_attempt_fails_with_not_completed_and_consumes_a_retry() {
    let (mut world, _, task) = running(step_with("Pay", |execute| execute.retry = attempts(2)));
    world.crash();
    let state = world.step_state("f", "Pay", 1);
    assert_eq!((state.phase, state.attempt), (Phase::BackingOff, 2));
    let failure = state.last_failure.expect("it failed");
    assert_eq!(&*failure.error_type, failure_type::NOT_COMPLETED);
    world.sweep();
    let second = after_failover(&mut world);
    assert_eq!((second.attempt, &second.step), (2, &task.step));
    world.crash();
    // Both attempts are used up.
    let error = world.result("f").error.expect("it failed");
    assert_eq!(
        (error.category, &*error.error_type),
        (ErrorCategory::WorkerFailure, failure_type::NOT_COMPLETED)
    );
    world.sweep();
}

#[test]
fn d_022_not_completed_follows_the_ordinary_back_off() {
    let policy = RetryPolicy { initial_interval_seconds: 30, ..RetryPolicy::default() };
    let (mut world, _, _) = running(step_with("Pay", |execute| execute.retry = Some(policy)));
    world.crash();
    let worker = world.worker(&["Pay"]);
    world.advance_ms(29_999);
    assert!(world.try_task(worker).is_none());
    world.advance_ms(1);
    assert_eq!(world.task_names(worker), ["Pay-1 execute #2"]);
}

#[test]
fn ha_020_recovery_is_durable_before_it_is_reported() {
    let (mut world, _, _) = running(step("Pay"));
    world.crash_without_serving();
    // A crash right after the report finds the work done, and does it once.
    world.crash_without_serving();
    world.serve();
    let state = world.step_state("f", "Pay", 1);
    assert_eq!(state.attempt, 2);
    let recovered: Vec<_> =
        world.events.iter().filter(|event| matches!(event, EngineEvent::Recovered { .. })).collect();
    assert_eq!(
        recovered,
        [
            &EngineEvent::Recovered { failed_attempts: 0, queued_steps: 0 },
            &EngineEvent::Recovered { failed_attempts: 1, queued_steps: 0 },
            &EngineEvent::Recovered { failed_attempts: 0, queued_steps: 0 },
        ]
    );
}

#[test]
fn ha_020_recovery_of_more_than_one_batch_fails_every_attempt_once() {
    let mut world = World::new();
    let worker = world.worker_with(10_000, &["Pay"], false);
    let flows = limits::BATCH + 10;
    for flow in 0..flows {
        world.start(&std::format!("f{flow}"), step("Pay"));
    }
    assert_eq!(world.task_names(worker).len(), flows);
    world.crash();
    world.sweep();
    let worker = world.worker_with(10_000, &["Pay"], false);
    world.advance_ms(1_000);
    let names = world.task_names(worker);
    assert_eq!(names.len(), flows);
    assert!(names.iter().all(|name| name == "Pay-1 execute #2"));
}

#[test]
fn ha_019_a_sync_task_does_not_leave_before_its_start_is_durable() {
    let mut world = World::new();
    world.start("f", step("Pay"));
    world.hold_log();
    let worker = world.worker(&["Pay"]);
    assert!(world.try_task(worker).is_none());
    world.release_log();
    assert_eq!(world.task_names(worker), ["Pay-1 execute #1"]);
}

#[test]
fn lesson_g2_an_attempt_whose_start_is_not_durable_did_not_happen() {
    let mut world = World::new();
    world.start("f", step_with("Pay", |execute| execute.retry = attempts(1)));
    world.hold_log();
    let worker = world.worker(&["Pay"]);
    assert!(world.try_task(worker).is_none());
    world.crash();
    let worker = world.worker(&["Pay"]);
    assert_eq!(world.task_names(worker), ["Pay-1 execute #1"]);
}

#[test]
fn lesson_g2_a_stream_cut_before_the_start_is_durable_costs_no_retry() {
    let mut world = World::new();
    world.start("f", step_with("Pay", |execute| execute.retry = attempts(1)));
    world.hold_log();
    let worker = world.worker(&["Pay"]);
    world.disconnect(worker);
    world.release_log();
    assert_eq!(world.phases("f"), ["Pay-1 Queued"]);
    world.sweep();
    let worker = world.worker(&["Pay"]);
    assert_eq!(world.task_names(worker), ["Pay-1 execute #1"]);
}

#[test]
fn d_023_durable_start_counts_as_received_even_if_the_frame_never_left() {
    let mut world = World::new();
    world.start("f", step_with("Pay", |execute| execute.retry = attempts(1)));
    world.hold_log();
    let worker = world.worker(&["Pay"]);
    assert!(world.try_task(worker).is_none());
    world.crash_after_landing();
    assert_eq!(world.status("f"), FlowStatus::Failed);
}

#[test]
fn d_023_the_active_takes_back_what_never_left_before_it_releases() {
    let mut world = World::new();
    world.start("f", step_with("Pay", |execute| execute.retry = attempts(1)));
    world.hold_log();
    world.worker(&["Pay"]);
    for order in [NodeOrder::Drain, NodeOrder::Interrupt, NodeOrder::Commit] {
        world.step(Input::Node(order));
    }
    world.release_log();
    assert!(world.reports.contains(&NodeReport::Committed));
    world.step(Input::Node(NodeOrder::Close));
    world.crash();
    assert_eq!(world.phases("f"), ["Pay-1 Queued"]);
    world.sweep();
}

#[test]
fn ha_021_fd_010_fd_018_a_lost_async_start_repeats_the_attempt_on_a_new_snapshot_for_free() {
    let mut world = World::new();
    let movement = step_with("Pay", |execute| {
        execute.durability = Some(Durability::Async);
        execute.retry = attempts(1);
    });
    let start = StartFlow { attributes: vec![set("a", "1")], ..world.start_of("f", Some(movement)) };
    world.start_flow(start);
    world.hold_log();
    let worker = world.worker(&["Pay"]);
    let lost = world.task(worker);
    assert_eq!(seen(&lost), ["a=1"]);
    world.crash();
    let request_id = world.request_id();
    let call = Call::WriteAttributes { request_id, target: target("f"), writes: vec![set("a", "2")] };
    assert_eq!(world.ask(call), Ok(Answer::Done));
    let worker = world.worker(&["Pay"]);
    let again = world.task(worker);
    assert_eq!((again.attempt, &again.step), (1, &lost.step));
    assert_eq!(seen(&again), ["a=2"]);
    // Both can be alive together; only the current hand-out counts.
    assert_ne!(again.handout, lost.handout);
    let late = Given { stream: worker, task: lost.task };
    world.execute_with(&late, complete("lost"), writing("x", "lost"));
    world.execute_done(&again, complete("again"));
    assert_eq!(world.outputs("f"), ["again"]);
    assert_eq!(world.attribute("f", "x"), None);
}

#[test]
fn concepts_1_4_an_async_task_leaves_before_its_start_is_durable() {
    let mut world = World::new();
    world.start("f", async_step("Pay"));
    world.hold_log();
    let worker = world.worker(&["Pay"]);
    let task = world.task(worker);
    assert_eq!(task.durability, Durability::Async);
    // Its result is acknowledged early as well, and its effects are visible to later work at once.
    let movements = vec![async_step("Pay")];
    world.execute_with(&task, DecisionKind::GoTo(movements), writing("a", "1"));
    assert_eq!(world.others(worker), [ServerFrame::Settled { handout: task.handout, accepted: true }]);
    assert_eq!(seen(&world.task(worker)), ["a=1"]);
}

#[test]
fn fd_019_a_lost_async_result_repeats_the_step_and_consumes_a_retry_iff_its_start_was_durable() {
    for start_is_durable in [true, false] {
        let mut world = World::new();
        let start =
            StartFlow { attributes: vec![set("a", "1")], ..world.start_of("f", Some(async_step("Pay"))) };
        world.start_flow(start);
        if !start_is_durable {
            world.hold_log();
        }
        let worker = world.worker(&["Pay", "Next"]);
        let task = world.task(worker);
        world.hold_log();
        world.execute_with(&task, DecisionKind::GoTo(vec![async_step("Next")]), writing("a", "2"));
        let next = world.task(worker);
        assert_eq!(seen(&next), ["a=2"]);
        world.crash();
        // Both are gone: the result and what followed from it.
        assert_eq!(world.attribute("f", "a").as_deref(), Some("1"));
        let again = after_failover(&mut world);
        assert_eq!(again.step, task.step);
        assert_eq!(again.attempt, if start_is_durable { 2 } else { 1 });
        assert_eq!(seen(&again), ["a=1"]);
        world.sweep();
    }
}

#[test]
fn fd_020_the_repetition_ends_at_the_first_sync_step() {
    let (mut world, worker, a) = running(async_step("Pay"));
    world.hold_log();
    world.execute_done(&a, DecisionKind::GoTo(vec![async_step("Next")]));
    let b = world.task(worker);
    world.execute_done(&b, go_to(&["Last"]));
    // The SYNC Step is not handed out before everything it depends on is durable.
    assert!(world.try_task(worker).is_none());
    world.release_log();
    let c = world.task(worker);
    assert_eq!((&c.step, c.durability), (&step_id("Last", 1), Durability::Sync));
    world.crash();
    let again = after_failover(&mut world);
    assert_eq!((&again.step, again.attempt), (&c.step, 2));
    world.execute_done(&again, complete("done"));
    assert_eq!(world.outputs("f"), ["done"]);
    assert_eq!(world.history("f").len(), 5);
}

#[test]
fn d_024_after_a_node_failure_an_async_call_runs_on_a_new_snapshot_whatever_its_number() {
    for (durability, expected) in [(Durability::Async, "a=2"), (Durability::Sync, "a=1")] {
        let mut world = World::new();
        let movement = step_with("Pay", |execute| execute.durability = Some(durability));
        let start = StartFlow { attributes: vec![set("a", "1")], ..world.start_of("f", Some(movement)) };
        world.start_flow(start);
        let worker = world.worker(&["Pay"]);
        let first = world.task(worker);
        let request_id = world.request_id();
        let call = Call::WriteAttributes { request_id, target: target("f"), writes: vec![set("a", "2")] };
        assert_eq!(world.ask(call), Ok(Answer::Done));
        // An ordinary retry keeps the snapshot, ASYNC or not.
        world.fail(&first, "Oops");
        world.advance_ms(1_000);
        let second = world.task(worker);
        assert_eq!((second.attempt, seen(&second)), (2, vec!["a=1".into()]));
        world.crash();
        let worker = world.worker(&["Pay"]);
        world.advance_ms(2_000);
        let third = world.task(worker);
        assert_eq!((third.attempt, seen(&third)), (3, vec![expected.into()]), "{durability:?}");
    }
}

#[test]
fn d_034_the_default_durability_is_sync_and_a_method_s_own_setting_wins() {
    use Durability::{Async, Sync};
    // FlowConfig, the method's own setting, whether it has a recovery route, and what follows.
    let table = [
        (None, None, false, Sync),
        (Some(Async), None, false, Async),
        (Some(Async), Some(Sync), false, Sync),
        (Some(Sync), Some(Async), false, Async),
        (Some(Async), None, true, Sync),
        (Some(Async), Some(Async), true, Async),
    ];
    for (config, own, has_route, expected) in table {
        let mut world = World::new();
        let worker = world.worker(&["Pay"]);
        let movement = with_options("Pay", |options| {
            options.skip_wait_for = true;
            options.execute.durability = own;
            options.recovery = if has_route { recovery("Undo") } else { None };
        });
        let config = FlowConfig { active_step_search: None, step_durability: config };
        let start = StartFlow { config, ..world.start_of("f", Some(movement)) };
        world.start_flow(start);
        assert_eq!(world.task(worker).durability, expected, "{config:?} {own:?} {has_route}");
    }
}

#[test]
fn d_034_wait_for_with_a_failure_route_defaults_to_sync() {
    for (policy, expected) in [
        (WaitForFailurePolicy::FailFlow, Durability::Async),
        (WaitForFailurePolicy::Proceed, Durability::Sync),
    ] {
        let mut world = World::new();
        let worker = world.worker(&["Ask"]);
        let movement = with_options("Ask", |options| options.wait_for_failure = policy);
        let config = FlowConfig { active_step_search: None, step_durability: Some(Durability::Async) };
        let start = StartFlow { config, ..world.start_of("f", Some(movement)) };
        world.start_flow(start);
        let wait_for = world.task(worker);
        assert_eq!(wait_for.durability, expected);
        world.wait_for_done(&wait_for, until(timer(0)));
        assert_eq!(world.task(worker).durability, Durability::Async);
    }
}

#[test]
fn lesson_f5_lesson_g1_fd_009_fd_011_the_surviving_worker_s_late_result_is_ignored() {
    let (mut world, _, first) = running(step("Pay"));
    world.crash();
    let worker = world.worker(&["Pay"]);
    world.advance_ms(1_000);
    let second = world.task(worker);
    // The same Flow, run and Step execution, hence the same idempotency key; the number differs.
    assert_eq!((&second.flow_id, second.run_id, &second.step), (&first.flow_id, first.run_id, &first.step));
    assert_eq!((first.attempt, second.attempt), (1, 2));
    let before = world.disk.contents();
    // The Worker kept running and sends what it has to the new node.
    let late = Given { stream: worker, task: first.task };
    world.execute_with(&late, complete("late"), writing("x", "late"));
    assert_eq!(world.others(worker), [ServerFrame::Settled { handout: late.handout, accepted: false }]);
    assert_eq!(world.disk.contents(), before);
    world.execute_done(&second, complete("second"));
    assert_eq!(world.outputs("f"), ["second"]);
}

#[test]
fn fd_013_attempt_2_starts_without_a_checkpoint_and_with_a_fresh_deadline() {
    let (mut world, _, first) = running(step("Pay"));
    world.advance_ms(3_600_000);
    world.crash();
    let second = after_failover(&mut world);
    assert_eq!(second.checkpoint, None);
    let later = second.deadline.saturating_since(first.deadline);
    assert_eq!(later, core::time::Duration::from_millis(3_601_000));
}

#[test]
fn fd_014_fd_015_the_next_attempt_gets_the_newest_durable_checkpoint() {
    let (mut world, _, first) = running(step("Pay"));
    world.heartbeat(&first, Some(value("durable")));
    world.hold_log();
    world.heartbeat(&first, Some(value("lost")));
    world.crash();
    let second = after_failover(&mut world);
    assert_eq!(second.checkpoint, Some(value("durable")));
    world.heartbeat(&second, Some(value("newer")));
    world.crash();
    let worker = world.worker(&["Pay"]);
    world.advance_ms(2_000);
    assert_eq!(world.task(worker).checkpoint, Some(value("newer")));
}

#[test]
fn fd_017_a_single_attempt_step_is_exhausted_by_a_failover_and_its_recovery_runs() {
    let movement = with_options("Pay", |options| {
        options.skip_wait_for = true;
        options.execute.retry = attempts(1);
        options.recovery = recovery("Next");
    });
    let (mut world, _, _) = running(movement);
    world.crash();
    let worker = world.worker(&["Next"]);
    let recovery = world.task(worker);
    let info = recovery.recovery.clone().expect("it recovers");
    assert_eq!(&*info.error_type, failure_type::NOT_COMPLETED);
    assert_eq!(info.progress, AttemptProgress::NotCompleted);
    assert_eq!(recovery.lineage, Lineage::Recovery(step_id("Pay", 1)));
    world.sweep();
}

#[test]
fn lesson_g7_retry_accounting_over_failovers() {
    // Received: one retry each, exactly.
    let movement = step_with("Pay", |execute| execute.retry = attempts(3));
    let (mut world, _, first) = running(movement);
    assert_eq!(first.attempt, 1);
    for number in [2, 3] {
        world.crash();
        let worker = world.worker(&["Pay"]);
        world.advance_ms(10_000);
        assert_eq!(world.task(worker).attempt, number);
    }
    world.crash();
    assert_eq!(world.status("f"), FlowStatus::Failed);
    // Queued but not handed out: none.
    let mut world = World::new();
    world.start("f", step_with("Pay", |execute| execute.retry = attempts(1)));
    for _ in 0..3 {
        world.crash();
        assert_eq!(world.step_state("f", "Pay", 1).attempt, 1);
    }
    // ASYNC start not durable: none.
    for _ in 0..3 {
        let start = step_with("Pay", |execute| {
            execute.retry = attempts(1);
            execute.durability = Some(Durability::Async);
        });
        let mut world = World::new();
        world.start("g", start);
        for _ in 0..3 {
            world.hold_log();
            let worker = world.worker(&["Pay"]);
            assert_eq!(world.task(worker).attempt, 1);
            world.crash();
        }
        world.sweep();
    }
}

#[test]
fn lesson_g8_nothing_is_served_before_recovery_has_finished() {
    let (mut world, _, _) = running(step("Pay"));
    world.crash_without_serving();
    let start = world.start_of("f", Some(step("Pay")));
    let request = start.request_id.clone();
    assert_eq!(world.try_start(start.clone()), Err(CallError::Unavailable));
    // A stream that speaks too early is closed: its hello would be lost. The Worker opens another one.
    let stream = world.worker(&["Pay"]);
    assert!(!world.is_open(stream));
    world.serve();
    let first = world.summary("f");
    assert_ne!(first.request_id, request);
    let status = FlowStatus::Running;
    assert_eq!(world.try_start(start), Err(CallError::AlreadyStarted { run_id: first.run_id, status }));
    // Both of two starts in the first millisecond mean one run.
    let start = world.start_of("g", Some(step("Pay")));
    let run_id = world.start_flow(start.clone());
    assert_eq!(world.try_start(start), Ok(Answer::Started { run_id, newly: false }));
}

#[test]
fn fd_033_no_stream_is_carried_over_to_the_next_epoch() {
    let (mut world, worker, task) = running(step("Pay"));
    world.step(Input::Node(NodeOrder::Drain));
    world.step(Input::Node(NodeOrder::Commit));
    world.step(Input::Node(NodeOrder::Close));
    assert_eq!(world.closed_streams, [worker]);
    assert!(world.reports.contains(&NodeReport::Closed));
    world.crash();
    // Whoever speaks on it must say hello first.
    let revived = world.open_stream();
    world.execute_done(&Given { stream: revived, task: task.task }, complete("late"));
    assert_eq!(world.closed_streams, [worker, revived]);
    assert_eq!(world.status("f"), FlowStatus::Running);
}

#[test]
fn fd_033_a_stream_that_opens_after_the_drain_is_closed_and_not_left_hanging() {
    let (mut world, worker, _) = running(step("Pay"));
    for order in [NodeOrder::Drain, NodeOrder::Interrupt, NodeOrder::Commit] {
        world.step(Input::Node(order));
    }
    let late = world.worker(&["Pay"]);
    assert_eq!(world.closed_streams, [late]);
    world.step(Input::Node(NodeOrder::Close));
    assert_eq!(world.closed_streams, [late, worker]);
    let later = world.worker(&["Pay"]);
    assert_eq!(world.closed_streams, [late, worker, later]);
}

#[test]
fn fd_016_ha_016_a_drain_lets_running_attempts_finish_and_hands_out_nothing_new() {
    let (mut world, worker, task) = running(step("Pay"));
    world.step(Input::Node(NodeOrder::Drain));
    assert!(!world.reports.contains(&NodeReport::Drained));
    // Calls are still served, timers fire, and what they queue stays in the queue (D-26).
    world.start("g", step("Pay"));
    assert!(world.try_task(worker).is_none());
    world.execute_done(&task, go_to(&["Next"]));
    assert!(world.try_task(worker).is_none());
    assert_eq!(world.phases("f"), ["Next-1 Queued"]);
    assert!(world.reports.contains(&NodeReport::Drained));
    world.step(Input::Node(NodeOrder::Commit));
    assert!(world.reports.contains(&NodeReport::Committed));
    assert_eq!(world.ask(Call::Describe(target("f"))), Err(CallError::Unavailable));
    world.step(Input::Node(NodeOrder::Close));
    world.crash();
    let worker = world.worker(&["Pay", "Next"]);
    assert_eq!(world.task_names(worker), ["Pay-1 execute #1", "Next-1 execute #1"]);
}

#[test]
fn d_026_during_the_drain_timers_fire_and_queue_steps_that_are_not_handed_out() {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    let task = world.task(worker);
    world.wait_for_done(&task, until(timer(10_000)));
    world.step(Input::Node(NodeOrder::Drain));
    world.advance_ms(10_000);
    assert_eq!(world.phases("f"), ["Ask-1 Queued"]);
    assert!(world.try_task(worker).is_none());
}

#[test]
fn ha_096_d_021_after_the_cancel_request_of_a_drain_a_result_is_still_accepted() {
    let (mut world, worker, task) = running(step("Pay"));
    world.step(Input::Node(NodeOrder::Drain));
    world.advance_ms(30_000);
    world.step(Input::Node(NodeOrder::Interrupt));
    let cancel = ServerFrame::Cancel { handout: task.handout, reason: CancelReason::DrainOver };
    assert_eq!(world.others(worker), [cancel]);
    world.advance_ms(limits::DRAIN_GRACE_MS - 1);
    world.execute_done(&task, complete("just in time"));
    assert_eq!(world.status("f"), FlowStatus::Completed);
    assert!(world.reports.contains(&NodeReport::Drained));
}

#[test]
fn review_7_6_d_025_at_drain_expiry_the_old_active_records_nothing_and_the_next_one_fails_the_attempt_once() {
    let (mut world, _, _) = running(step_with("Pay", |execute| execute.retry = attempts(2)));
    let before = world.disk.contents();
    for order in [NodeOrder::Drain, NodeOrder::Interrupt, NodeOrder::Commit, NodeOrder::Close] {
        world.step(Input::Node(order));
    }
    assert_eq!(world.disk.contents(), before);
    world.crash();
    let state = world.step_state("f", "Pay", 1);
    assert_eq!((state.attempt, state.phase), (2, Phase::BackingOff));
    let failures = world
        .history("f")
        .iter()
        .filter(|event| matches!(event.kind, EventKind::MethodFailed { .. }))
        .count();
    assert_eq!(failures, 0);
}

#[test]
fn review_7_5_d_018_the_commit_makes_durable_what_was_gathered() {
    let mut world = World::new();
    world.hold_log();
    let start = world.start_of("f", Some(step("Pay")));
    let call = world.call(Call::Start(start.into()));
    world.step(Input::Node(NodeOrder::Drain));
    world.step(Input::Node(NodeOrder::Commit));
    assert!(!world.reports.contains(&NodeReport::Committed));
    world.release_log();
    assert!(world.reports.contains(&NodeReport::Committed));
    assert!(matches!(world.answer(call), Some(Ok(Answer::Started { newly: true, .. }))));
}

#[test]
fn review_6_5_ha_071_close_answers_open_calls_with_unavailable() {
    let (mut world, _, _) = running(step("Pay"));
    let waiting = world.call(Call::WaitForFlow { target: target("f"), wait_ms: None });
    world.step(Input::Node(NodeOrder::Close));
    assert_eq!(world.answer(waiting), Some(Err(CallError::Unavailable)));
    // Nothing leaves after it.
    assert_eq!(world.ask(Call::Describe(target("f"))), Err(CallError::Unavailable));
}

#[test]
fn review_6_4_d_048_an_answer_waits_for_what_its_decision_wrote_or_read() {
    let mut world = World::new();
    world.start("f", step("Pay"));
    world.hold_log();
    let start = world.start_of("g", None);
    let write = world.call(Call::Start(start.into()));
    let reads = [
        Call::Describe(target("g")),
        Call::State(target("g")),
        Call::History { target: target("g"), start_event: 1, page_size: 10 },
        Call::WaitForEvent { target: target("g"), event: 1, wait_ms: None },
        Call::Describe(target("nobody")),
    ];
    let reads: Vec<_> = reads.into_iter().map(|read| world.call(read)).collect();
    let other = world.start_of("g", None);
    let already_started = world.call(Call::Start(other.into()));
    // What does not depend on it is answered at once.
    assert!(world.ask(Call::Describe(target("f"))).is_ok());
    let waiting: Vec<_> = [write, already_started].into_iter().chain(reads).collect();
    for call in &waiting {
        assert_eq!(world.answer(*call), None);
    }
    world.release_log();
    for call in waiting {
        assert!(world.answer(call).is_some());
    }
}

#[test]
fn d_048_effects_of_an_async_method_reach_a_client_only_when_they_are_durable() {
    let (mut world, _, task) = running(async_step("Pay"));
    let waiting = world.call(Call::WaitForFlow { target: target("f"), wait_ms: None });
    world.hold_log();
    world.execute_done(&task, complete("done"));
    assert_eq!(world.answer(waiting), None);
    world.release_log();
    assert!(matches!(world.answer(waiting), Some(Ok(Answer::FlowResult(_)))));
}

#[test]
fn d_048_search_sees_durable_state_only() {
    let mut world = World::new();
    world.hold_log();
    let start = world.start_of("f", None);
    let call = world.call(Call::Start(start.into()));
    let search = Call::Search { filter: SearchFilter::default(), page_size: 10, page_token: None };
    assert_eq!(world.ask(search.clone()), Ok(Answer::Page { runs: vec![], next: None }));
    world.release_log();
    assert!(world.answer(call).is_some());
    let Ok(Answer::Page { runs, next: None }) = world.ask(search) else {
        panic!("a page");
    };
    assert_eq!(runs.len(), 1);
}

#[test]
fn d_048_an_acknowledged_effect_survives_a_crash_and_an_unacknowledged_one_may_not() {
    let mut world = World::new();
    let start = world.start_of("f", None);
    world.start_flow(start);
    world.publish("f", "ch", &["acknowledged"]);
    world.hold_log();
    let request_id = world.request_id();
    let publish = Call::Publish {
        request_id,
        target: target("f"),
        publications: vec![message("ch", "not acknowledged")],
    };
    let call = world.call(publish.clone());
    assert_eq!(world.answer(call), None);
    world.crash();
    assert_eq!(world.pending("f", "ch"), ["acknowledged"]);
    // The client repeats it.
    assert!(world.ask(publish).is_ok());
    assert_eq!(world.pending("f", "ch"), ["acknowledged", "not acknowledged"]);
}

#[test]
fn review_12_16_d_035_a_repeated_request_gets_the_stored_answer_on_any_later_epoch() {
    let mut world = World::new();
    let start = world.start_of("f", Some(step("Pay")));
    world.start_flow(start);
    let target = target("f");
    let calls = [
        Call::Publish {
            request_id: Name::new("publish"),
            target: target.clone(),
            publications: vec![message("ch", "1"), message("ch", "2")],
        },
        Call::WriteAttributes {
            request_id: Name::new("write"),
            target: target.clone(),
            writes: vec![set("a", "1")],
        },
        Call::SkipTimer {
            request_id: Name::new("skip"),
            target: target.clone(),
            timer: TimerTarget::Index { step: step_id("Ask", 1), index: 0 },
        },
        Call::UpdateConfig {
            request_id: Name::new("config"),
            target: target.clone(),
            config: FlowConfig { active_step_search: None, step_durability: Some(Durability::Async) },
        },
        Call::Stop { request_id: Name::new("stop"), target, kind: StopKind::Cancel, reason: Name::default() },
    ];
    let answers: Vec<_> = calls.iter().map(|call| world.ask(call.clone())).collect();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let history = world.history("f");
    for _ in 0..2 {
        for (call, answer) in calls.iter().zip(&answers) {
            assert_eq!(world.ask(call.clone()), *answer);
        }
        assert_eq!(world.history("f"), history);
        world.crash();
    }
}

#[test]
fn d_035_a_duplicate_is_joined_with_the_one_on_its_way_and_survives_a_landed_crash() {
    let mut world = World::new();
    let start = world.start_of("f", None);
    world.start_flow(start);
    world.hold_log();
    let publish = Call::Publish {
        request_id: Name::new("r"),
        target: target("f"),
        publications: vec![message("ch", "once")],
    };
    let (first, second) = (world.call(publish.clone()), world.call(publish.clone()));
    assert_eq!((world.answer(first), world.answer(second)), (None, None));
    // The entry lands, the answers are lost with the node: the repeat gets the stored answer.
    world.crash_after_landing();
    let Ok(Answer::Published(ids)) = world.ask(publish) else {
        panic!("the stored answer");
    };
    assert_eq!(world.pending("f", "ch"), ["once"]);
    assert_eq!(world.state("f").channels[0].messages[0].id, ids[0]);
}

#[test]
fn d_035_a_request_id_used_for_another_kind_of_call_is_refused() {
    let mut world = World::new();
    let start = world.start_of("f", None);
    world.start_flow(start);
    let request_id = Name::new("r");
    let publish = Call::Publish {
        request_id: request_id.clone(),
        target: target("f"),
        publications: vec![message("ch", "1")],
    };
    assert!(world.ask(publish).is_ok());
    let write = Call::WriteAttributes { request_id, target: target("f"), writes: vec![set("a", "1")] };
    assert_eq!(world.ask(write), Err(CallError::RequestIdReused));
    assert_eq!(world.attribute("f", "a"), None);
}

#[test]
fn fd_031_what_repeats_table() {
    // A Worker crash repeats its running attempts; a failover all delivered ones, each at a retry; nothing
    // finished and nothing waiting.
    for failover in [false, true] {
        let mut world = World::new();
        let worker = world.worker(&["Split", "Done", "Runs", "Waits"]);
        let bystander = world.worker(&["Elsewhere"]);
        world.start("f", step("Split"));
        let split = world.task(worker);
        let movements = vec![step("Done"), step("Runs"), waiting_step("Waits"), step("Elsewhere")];
        world.execute_done(&split, DecisionKind::GoTo(movements));
        let (done, _runs, waits) = (world.task(worker), world.task(worker), world.task(worker));
        world.task(bystander);
        world.execute_done(&done, DecisionKind::DeadEnd);
        world.wait_for_done(&waits, until(one("ch")));
        if failover {
            world.crash();
        } else {
            world.disconnect(worker);
        }
        world.advance_ms(60_000);
        let worker = world.worker(&["Split", "Done", "Runs", "Waits", "Elsewhere"]);
        let names = world.task_names(worker);
        let expected: &[&str] =
            if failover { &["Elsewhere-1 execute #2", "Runs-1 execute #2"] } else { &["Runs-1 execute #2"] };
        let mut sorted = names.clone();
        sorted.sort();
        assert_eq!(sorted, expected);
        world.sweep();
    }
}
