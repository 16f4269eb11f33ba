//! Worker streams: slots, pings, late results, protocol faults (concepts.md 2, D-21, D-44, bad input).

use std::vec;

use super::build::*;
use super::driver::{FLOW_TYPE, Given, World};
use crate::engine::*;
use crate::ids::{Epoch, HandoutId, Name};

fn started(flows: u32) -> World {
    let mut world = World::new();
    for flow in 0..flows {
        world.start(&std::format!("f{flow}"), step("Pay"));
    }
    world
}

#[test]
fn concepts_2_a_stream_carries_as_many_tasks_as_it_has_slots() {
    let mut world = started(3);
    let worker = world.worker_with(2, &["Pay"], false);
    let (first, second) = (world.task(worker), world.task(worker));
    assert_eq!((&*first.flow_id, &*second.flow_id), ("f0", "f1"));
    assert!(world.try_task(worker).is_none());
    let state = world.step_state("f2", "Pay", 1);
    assert_eq!(state.pending_reason.as_deref(), Some("every Worker that has this Step type is busy"));
    world.execute_done(&second, complete("done"));
    assert_eq!(&*world.task(worker).flow_id, "f2");
}

#[test]
fn concepts_1_4_a_step_without_a_worker_stays_queued_and_never_fails_for_that() {
    let mut world = started(1);
    let other = world.worker(&["Ship"]);
    world.advance_ms(24 * 3_600_000);
    let state = world.step_state("f0", "Pay", 1);
    assert_eq!((state.phase, state.attempt), (Phase::Queued, 1));
    assert_eq!(state.pending_reason.as_deref(), Some("no connected Worker has this Step type"));
    assert!(world.try_task(other).is_none());
    let worker = world.worker(&["Pay"]);
    assert_eq!(world.task_names(worker), ["Pay-1 execute #1"]);
}

#[test]
fn fd_022_calls_made_while_no_worker_runs_wait_in_the_queue_in_their_order() {
    let mut world = started(3);
    world.crash();
    world.start("f3", step("Pay"));
    let worker = world.worker_with(1, &["Pay"], false);
    for expected in ["f0", "f1", "f2", "f3"] {
        let task = world.task(worker);
        assert_eq!(&*task.flow_id, expected);
        world.execute_done(&task, complete("done"));
    }
}

#[test]
fn concepts_2_a_worker_gets_only_tasks_of_its_flow_types() {
    let mut world = started(1);
    let stream = world.open_stream();
    let definition = FlowTypeDefinition {
        name: Name::new("Refund"),
        step_types: vec![Name::new("Pay")],
        timeout_handler: false,
    };
    let hello = Hello { worker: Name::new("w"), slots: 10, flow_types: vec![definition] };
    world.frame(stream, WorkerFrame::Hello(hello));
    assert!(world.try_task(stream).is_none());
}

#[test]
fn concepts_2_the_next_method_of_a_flow_is_offered_to_the_same_worker_first() {
    let mut world = World::new();
    let first = world.worker(&["A", "B"]);
    let second = world.worker(&["A", "B"]);
    world.start("f", step("A"));
    let mut task = world.task(first);
    for _ in 0..5 {
        world.execute_done(&task, go_to(&["A"]));
        task = world.task(first);
    }
    assert!(world.try_task(second).is_none());
}

#[test]
fn concepts_2_a_stopping_worker_takes_no_new_task_and_delivers_what_it_has() {
    let mut world = started(2);
    let worker = world.worker_with(1, &["Pay"], false);
    let task = world.task(worker);
    world.frame(worker, WorkerFrame::StopTaking);
    world.execute_done(&task, complete("done"));
    assert_eq!(world.others(worker), [ServerFrame::Settled { handout: task.handout, accepted: true }]);
    assert!(world.try_task(worker).is_none());
    world.disconnect(worker);
    assert_eq!(world.status("f0"), FlowStatus::Completed);
    assert_eq!(world.phases("f1"), ["Pay-1 Queued"]);
}

#[test]
fn d_021_pings_every_five_seconds_of_silence_and_dead_after_fifteen() {
    let mut world = started(1);
    let worker = world.worker(&["Pay"]);
    world.task(worker);
    world.fall_silent(worker);
    world.advance_ms(4_999);
    assert_eq!(world.others(worker), []);
    world.advance_ms(1);
    assert_eq!(world.others(worker), [ServerFrame::Ping]);
    world.advance_ms(9_999);
    assert!(world.is_open(worker));
    world.advance_ms(1);
    assert_eq!(world.closed_streams, [worker]);
    let state = world.step_state("f0", "Pay", 1);
    assert_eq!(&*state.last_failure.expect("it failed").error_type, failure_type::NOT_COMPLETED);
}

#[test]
fn d_021_any_frame_proves_life() {
    let mut world = started(1);
    let worker = world.worker(&["Pay"]);
    let task = world.task(worker);
    world.fall_silent(worker);
    for _ in 0..10 {
        world.advance_ms(14_999);
        world.heartbeat(&task, None);
    }
    assert!(world.is_open(worker));
}

#[test]
fn d_021_an_idle_worker_that_answers_pings_lives_for_ever() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.advance_ms(3_600_000);
    assert!(world.is_open(worker));
}

/// All ways to speak of a task, from any stream and of any hand-out.
fn all_frames(handout: HandoutId) -> vec::Vec<WorkerFrame> {
    vec![
        WorkerFrame::Heartbeat { handout, checkpoint: Some(value("mine")) },
        WorkerFrame::WaitForDone { handout, wait: until(timer(1)), effects: writing("x", "late") },
        WorkerFrame::ExecuteDone {
            handout,
            decision: Decision { kind: complete("late"), cancel_steps: vec![], cancel_sibling_steps: vec![] },
            effects: writing("x", "late"),
        },
        WorkerFrame::Failed {
            handout,
            failure: Failure::default(),
            non_retryable: true,
            retry_after_ms: None,
        },
        WorkerFrame::Decline { handout },
        WorkerFrame::Return { handout },
    ]
}

#[test]
fn review_5_d_044_a_frame_counts_only_from_the_current_hand_out_on_the_stream_that_carried_it() {
    let mut world = started(1);
    let (worker, stranger) = (world.worker(&["Pay"]), world.worker(&["Ship"]));
    let first = world.task(worker);
    world.give_back(&first);
    let current = world.task(worker);
    let before = world.disk.contents();
    let invented = HandoutId { epoch: Epoch(1), counter: 999 };
    let earlier_epoch = HandoutId { epoch: Epoch(0), counter: current.handout.counter };
    for (stream, handout) in [
        (worker, first.handout),
        (worker, invented),
        (worker, earlier_epoch),
        (stranger, current.handout),
        (stranger, first.handout),
    ] {
        for frame in all_frames(handout) {
            world.frame(stream, frame);
            assert_eq!(world.disk.contents(), before);
            assert!(world.is_open(stream));
        }
    }
    world.execute_done(&current, complete("done"));
    assert_eq!(world.outputs("f0"), ["done"]);
}

#[test]
fn fd_011_a_late_result_is_dropped_whole_and_the_stream_goes_on() {
    let mut world = started(1);
    let worker = world.worker(&["Pay"]);
    let late = world.task(worker);
    world.advance_ms(limits::METHOD_TIMEOUT_MS);
    world.advance_ms(1_000);
    let current = world.task(worker);
    assert_eq!(current.attempt, 2);
    world.others(worker);
    let before = world.disk.contents();
    world.execute_with(&late, complete("late"), writing("x", "late"));
    assert_eq!(world.others(worker), [ServerFrame::Settled { handout: late.handout, accepted: false }]);
    assert_eq!(world.disk.contents(), before);
    world.execute_done(&current, complete("current"));
    assert_eq!(world.outputs("f0"), ["current"]);
}

#[test]
fn fd_011_a_result_sent_twice_counts_once() {
    let mut world = started(1);
    let worker = world.worker(&["Pay"]);
    let task = world.task(worker);
    world.execute_with(&task, DecisionKind::DeadEnd, writing("x", "1"));
    let before = world.disk.contents();
    world.execute_with(&task, DecisionKind::DeadEnd, writing("x", "1"));
    let settled = |accepted| ServerFrame::Settled { handout: task.handout, accepted };
    assert_eq!(world.others(worker), [settled(true), settled(false)]);
    assert_eq!(world.disk.contents(), before);
}

#[test]
fn concepts_1_4_a_sync_result_is_acknowledged_when_it_is_durable() {
    let mut world = started(1);
    let worker = world.worker(&["Pay"]);
    let task = world.task(worker);
    world.hold_log();
    world.execute_done(&task, complete("done"));
    assert_eq!(world.others(worker), []);
    world.release_log();
    assert_eq!(world.others(worker), [ServerFrame::Settled { handout: task.handout, accepted: true }]);
}

#[test]
fn bad_input_the_first_frame_must_be_a_hello() {
    let mut world = started(1);
    let good = world.worker_with(1, &["Pay"], false);
    let task = world.task(good);
    let stream = world.open_stream();
    // Whatever it is, and even about a task that somebody holds.
    for frame in all_frames(task.handout).into_iter().chain([WorkerFrame::StopTaking, WorkerFrame::Pong]) {
        let stream = world.open_stream();
        world.frame(stream, frame);
        assert_eq!(world.closed_streams.last(), Some(&stream));
    }
    assert!(world.is_open(stream));
    world.execute_done(&task, complete("done"));
    assert_eq!(world.status("f0"), FlowStatus::Completed);
}

#[test]
fn bad_input_a_second_hello_ends_the_stream_and_fails_its_tasks() {
    let mut world = started(1);
    let worker = world.worker(&["Pay"]);
    world.task(worker);
    let hello = Hello { worker: Name::new("w"), slots: 1, flow_types: vec![] };
    world.frame(worker, WorkerFrame::Hello(hello));
    assert_eq!(world.closed_streams, [worker]);
    let state = world.step_state("f0", "Pay", 1);
    assert_eq!((state.phase, state.attempt), (Phase::BackingOff, 2));
    world.sweep();
}

#[test]
fn bad_input_a_refused_hello_says_which_field_and_why() {
    let mut world = World::new();
    let stream = world.open_stream();
    let definition =
        FlowTypeDefinition { name: Name::new(FLOW_TYPE), step_types: vec![], timeout_handler: false };
    let hello = Hello { worker: Name::new("w"), slots: 0, flow_types: vec![definition] };
    // The frame that says so leaves before the stream is closed.
    world.engine.handle(world.now, Input::Frame { stream, frame: WorkerFrame::Hello(hello) });
    let outputs: vec::Vec<_> = core::iter::from_fn(|| world.engine.poll_output()).collect();
    let message = Name::new("hello.slots: 0 is out of range: offer 1 to 10000 slots");
    assert_eq!(
        outputs,
        [
            Output::Send { stream, after: crate::ids::Position(0), frame: ServerFrame::Refused { message } },
            Output::CloseStream { stream },
        ]
    );
}

#[test]
fn bad_input_a_result_of_the_wrong_method_fails_the_attempt_only() {
    let mut world = World::new();
    let worker = world.worker(&["Ask", "Pay"]);
    world.start("f", waiting_step("Ask"));
    world.start("g", step("Pay"));
    let (wait_for, execute): (Given, Given) = (world.task(worker), world.task(worker));
    world.execute_done(&wait_for, complete("no"));
    world.wait_for_done(&execute, until(timer(1)));
    for (flow_id, step_type, detail) in
        [("f", "Ask", "WaitFor returned a decision"), ("g", "Pay", "Execute returned a Wait")]
    {
        let state = world.step_state(flow_id, step_type, 1);
        assert_eq!((state.phase, state.attempt), (Phase::BackingOff, 2));
        let failure = state.last_failure.expect("it failed");
        assert_eq!((&*failure.error_type, &*failure.detail), (failure_type::INVALID_RESULT, detail));
    }
    assert!(world.is_open(worker));
}

#[test]
fn bad_input_an_oversized_checkpoint_fails_the_attempt_only() {
    let mut world = started(1);
    let worker = world.worker(&["Pay"]);
    let task = world.task(worker);
    world.heartbeat(&task, Some(value(&"x".repeat(limits::VALUE_BYTES + 1))));
    let state = world.step_state("f0", "Pay", 1);
    assert_eq!(&*state.last_failure.expect("it failed").error_type, failure_type::INVALID_RESULT);
    assert!(world.is_open(worker));
}

#[test]
fn bad_input_a_result_that_breaks_a_limit_of_the_run_fails_the_attempt_only() {
    let mut world = started(1);
    let worker = world.worker(&["Pay"]);
    let big = Name::from("x".repeat(limits::VALUE_BYTES));
    for number in 0..4 {
        let writes = vec![AttributeWrite {
            key: key(&std::format!("a{number}")),
            value: Some(AttributeValue::String(big.clone())),
        }];
        let request_id = world.request_id();
        let call = Call::WriteAttributes { request_id, target: target("f0"), writes };
        let answer = world.ask(call);
        if number < 3 {
            assert_eq!(answer, Ok(Answer::Done));
        } else {
            assert!(matches!(answer, Err(CallError::LimitExceeded { .. })), "{answer:?}");
        }
    }
    let task = world.task(worker);
    let effects = Effects {
        attributes: vec![AttributeWrite { key: key("b"), value: Some(AttributeValue::String(big)) }],
        ..Effects::default()
    };
    world.execute_with(&task, complete("done"), effects);
    let state = world.step_state("f0", "Pay", 1);
    let failure = state.last_failure.expect("it failed");
    assert_eq!(&*failure.detail, "the Attributes of one run may take 4 MiB");
}

#[test]
fn bad_input_a_call_with_a_bad_field_writes_nothing_and_is_answered_at_once() {
    let mut world = World::new();
    let start = StartFlow { request_id: Name::default(), ..world.start_of("f", Some(step("Pay"))) };
    let before = world.disk.contents();
    world.hold_log();
    let answer = world.try_start(start);
    let rule = Name::new("is empty: it must have at least one character");
    assert_eq!(answer, Err(CallError::InvalidArgument { field: Name::new("request_id"), rule }));
    world.release_log();
    assert_eq!(world.disk.contents(), before);
}

#[test]
fn bad_input_refused_streams_tell_the_worker_why() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.fall_silent(worker);
    assert_eq!(world.others(worker), []);
    let stream = world.open_stream();
    world.engine.handle(world.now, Input::Frame { stream, frame: WorkerFrame::Pong });
    let first = world.engine.poll_output().expect("it is refused");
    let Output::Send { frame: ServerFrame::Refused { message }, .. } = first else {
        panic!("{first:?}");
    };
    assert_eq!(&*message, "the first frame of a stream must be a hello");
}

#[test]
fn what_is_in_hand_is_counted_by_what_it_waits_for() {
    let mut world = started(3);
    let counts = |world: &World| {
        let load = world.engine.workload();
        (load.queued_calls, load.queued_without_worker, load.running_attempts)
    };
    assert_eq!(counts(&world), (3, 3, 0));
    let worker = world.worker_with(1, &["Pay"], false);
    let task = world.task(worker);
    assert_eq!(counts(&world), (2, 0, 1));
    world.disconnect(worker);
    assert_eq!(counts(&world).1, counts(&world).0, "nobody is there");
    let worker = world.worker(&["Pay"]);
    for _ in 0..2 {
        let task = world.task(worker);
        world.execute_done(&task, complete("done"));
    }
    let wait = world.call(Call::WaitForFlow { target: target(&task.flow_id), wait_ms: None });
    assert_eq!(world.engine.workload().waiting_calls, 1);
    world.advance_ms(60_000);
    let task = world.task(worker);
    world.execute_done(&task, complete("done"));
    assert!(world.answer(wait).is_some());
    let load = world.engine.workload();
    assert_eq!(
        (load.queued_calls, load.running_attempts, load.waiting_calls, load.gathered_bytes),
        (0, 0, 0, 0)
    );
}
