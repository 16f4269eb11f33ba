//! Stored Waits, timers, Channels and Attributes (concepts.md 1.6 to 1.9).

use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use super::build::*;
use super::driver::{Given, START_MS, World};
use crate::engine::*;
use crate::ids::{MessageId, Name, StreamId};
use crate::time::Timestamp;

/// Flow `f`, whose Step `Ask` waits like this.
fn waiting(wait: Wait) -> (World, StreamId) {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    let task = world.task(worker);
    world.wait_for_done(&task, wait);
    (world, worker)
}

fn timer_of(step_type: &str, number: u32, index: u32) -> TimerTarget {
    TimerTarget::Index { step: step_id(step_type, number), index }
}

#[test]
fn concepts_1_6_a_skipped_wait_runs_execute_at_once() {
    let (mut world, worker) = waiting(Wait { kind: WaitKind::Skip, conditions: vec![] });
    assert_eq!(world.task_names(worker), ["Ask-1 execute #1"]);
}

#[test]
fn concepts_1_6_a_message_published_before_the_wait_counts() {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    let task = world.task(worker);
    world.publish("f", "ch", &["early", "later"]);
    world.wait_for_done(&task, until(one("ch")));
    assert_eq!(told(&world.task(worker)), ["early"]);
    assert_eq!(world.pending("f", "ch"), ["later"]);
}

#[test]
fn concepts_1_6_all_of_waits_for_everything_together() {
    let (mut world, worker) = waiting(all_of(vec![one("a"), timer(10_000), bounded("b", Some(2), None)]));
    world.publish("f", "a", &["a1", "a2"]);
    world.publish("f", "b", &["b1"]);
    world.advance_ms(10_000);
    assert!(world.try_task(worker).is_none());
    assert_eq!(world.pending("f", "a"), ["a1", "a2"]);
    world.sweep();
    world.publish("f", "b", &["b2", "b3"]);
    assert_eq!(told(&world.task(worker)), ["a1", "fired", "b1,b2,b3"]);
    assert_eq!(world.pending("f", "a"), ["a2"]);
    assert!(world.pending("f", "b").is_empty());
    world.sweep();
}

#[test]
fn concepts_1_6_any_of_takes_the_first_that_is_ready_and_nothing_else() {
    let (mut world, worker) = waiting(any_of(vec![bounded("a", Some(2), None), one("b"), timer(10_000)]));
    world.publish("f", "a", &["a1"]);
    assert!(world.try_task(worker).is_none());
    world.publish("f", "b", &["b1", "b2"]);
    assert_eq!(told(&world.task(worker)), ["", "b1", "waiting"]);
    assert_eq!(world.pending("f", "a"), ["a1"]);
    assert_eq!(world.pending("f", "b"), ["b2"]);
    // The timer of a Wait that is over does not fire.
    world.sweep();
    world.advance_ms(20_000);
    assert!(world.try_task(worker).is_none());
}

#[test]
fn concepts_1_6_a_combination_is_over_with_its_first_complete_group() {
    let wait = Wait {
        kind: WaitKind::AnyCombinationOf(vec![
            vec![Name::new("paid"), Name::new("packed")],
            vec![Name::new("late")],
        ]),
        conditions: vec![
            named("late", timer(10_000)),
            named("paid", one("paid")),
            named("packed", one("packed")),
        ],
    };
    let (mut world, worker) = waiting(wait.clone());
    world.publish("f", "paid", &["p"]);
    world.publish("f", "packed", &["q"]);
    assert_eq!(told(&world.task(worker)), ["waiting", "p", "q"]);
    let (mut world, worker) = waiting(wait);
    world.publish("f", "paid", &["p"]);
    world.advance_ms(10_000);
    assert_eq!(told(&world.task(worker)), ["fired", "", ""]);
    assert_eq!(world.pending("f", "paid"), ["p"]);
}

#[test]
fn concepts_1_6_waiters_are_served_in_the_order_in_which_they_began_to_wait() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A", "B"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    world.execute_done(
        &split,
        DecisionKind::GoTo(vec![waiting_step("A"), waiting_step("B"), waiting_step("A")]),
    );
    let (a1, b1, a2) = (world.task(worker), world.task(worker), world.task(worker));
    world.wait_for_done(&b1, until(one("ch")));
    world.wait_for_done(&a2, until(one("ch")));
    world.wait_for_done(&a1, until(one("ch")));
    for (text, expected) in [("first", "B-1"), ("second", "A-2"), ("third", "A-1")] {
        world.publish("f", "ch", &[text]);
        let task = world.task(worker);
        assert_eq!(std::format!("{}", task.step), expected);
        assert_eq!(told(&task), [text]);
    }
    // Also after a failover, which knows them only from the store.
}

#[test]
fn concepts_1_6_the_order_of_waiters_survives_a_failover() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A", "B"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    world.execute_done(&split, DecisionKind::GoTo(vec![waiting_step("A"), waiting_step("B")]));
    let (a, b) = (world.task(worker), world.task(worker));
    world.wait_for_done(&b, until(one("ch")));
    world.wait_for_done(&a, until(one("ch")));
    world.crash();
    let worker = world.worker(&["A", "B"]);
    world.publish("f", "ch", &["first", "second"]);
    let (first, second) = (world.task(worker), world.task(worker));
    assert_eq!((told(&first), told(&second)), (vec!["first".into()], vec!["second".into()]));
    assert_eq!((&first.step, &second.step), (&step_id("B", 1), &step_id("A", 1)));
}

#[test]
fn concepts_1_6_each_message_is_consumed_by_exactly_one_waiter() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "A"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    world.execute_done(&split, DecisionKind::GoTo(vec![waiting_step("A"), waiting_step("A")]));
    let tasks = [world.task(worker), world.task(worker)];
    for task in &tasks {
        world.wait_for_done(task, until(one("ch")));
    }
    world.publish("f", "ch", &["only"]);
    assert_eq!(told(&world.task(worker)), ["only"]);
    assert!(world.try_task(worker).is_none());
    assert_eq!(world.phases("f"), ["A-1 Running", "A-2 Waiting"]);
    world.sweep();
}

#[test]
fn concepts_1_6_a_step_s_own_publication_can_end_its_wait() {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    let task = world.task(worker);
    let effects = Effects { publications: vec![message("ch", "mine")], ..Effects::default() };
    world.wait_for_with(&task, until(one("ch")), effects);
    assert_eq!(told(&world.task(worker)), ["mine"]);
}

#[test]
fn concepts_1_6_an_optional_condition_is_ready_when_the_queue_is_empty() {
    let (mut world, worker) = waiting(until(bounded("ch", None, Some(3))));
    assert_eq!(told(&world.task(worker)), [""]);
}

#[test]
fn concepts_1_7_timers_are_relative_to_the_acceptance_of_the_wait() {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    let task = world.task(worker);
    world.advance_ms(5_000);
    world.wait_for_done(&task, all_of(vec![timer(20_000), named("t", timer(10_000))]));
    let state = world.step_state("f", "Ask", 1);
    let due: Vec<_> = state.timers.iter().map(|timer| timer.due).collect();
    let expected = [START_MS + 25_000, START_MS + 15_000].map(Timestamp::from_millis);
    assert_eq!(due, expected);
    world.advance_ms(10_000);
    let state = world.step_state("f", "Ask", 1);
    assert_eq!(
        state.conditions,
        [ConditionResult::Timer { fired: false }, ConditionResult::Timer { fired: true },]
    );
    world.sweep();
    world.advance_ms(9_999);
    assert!(world.try_task(worker).is_none());
    world.advance_ms(1);
    assert_eq!(told(&world.task(worker)), ["fired", "fired"]);
    world.sweep();
}

#[test]
fn concepts_1_7_a_failover_does_not_stretch_a_timer() {
    let (mut world, _) = waiting(until(timer(10_000)));
    world.advance_ms(4_000);
    world.crash();
    let worker = world.worker(&["Ask"]);
    world.advance_ms(5_999);
    assert!(world.try_task(worker).is_none());
    world.advance_ms(1);
    assert_eq!(world.task_names(worker), ["Ask-1 execute #1"]);
}

#[test]
fn concepts_1_7_skip_by_condition_id_and_by_index() {
    let wait = all_of(vec![named("long", timer(60_000)), one("ch"), timer(70_000)]);
    let (mut world, worker) = waiting(wait);
    let by_id = TimerTarget::Condition { step: step_id("Ask", 1), id: Name::new("long") };
    assert_eq!(world.skip("f", by_id), Ok(Answer::Skipped { remembered: false }));
    assert_eq!(world.skip("f", timer_of("Ask", 1, 1)), Ok(Answer::Skipped { remembered: false }));
    let state = world.step_state("f", "Ask", 1);
    assert!(state.timers.iter().all(|timer| timer.fired && timer.skipped));
    world.sweep();
    // A skipped timer counts as fired.
    world.publish("f", "ch", &["m"]);
    assert_eq!(told(&world.task(worker)), ["fired", "m", "fired"]);
    world.sweep();
}

#[test]
fn concepts_1_7_a_skip_of_a_timer_that_does_not_exist_is_refused() {
    let (mut world, _) = waiting(all_of(vec![named("a", one("ch")), named("t", timer(60_000))]));
    let by_id = |id: &str| TimerTarget::Condition { step: step_id("Ask", 1), id: Name::new(id) };
    for timer in [by_id("a"), by_id("x"), timer_of("Ask", 1, 1), TimerTarget::FlowTimeout] {
        assert_eq!(world.skip("f", timer), Err(CallError::TimerNotFound));
    }
    assert_eq!(world.phases("f"), ["Ask-1 Waiting"]);
}

#[test]
fn concepts_1_7_a_skip_before_the_step_waits_is_remembered() {
    let mut world = World::new();
    let worker = world.worker(&["First", "Ask"]);
    world.start("f", step("First"));
    let first = world.task(worker);
    // Before it is scheduled, and while its WaitFor runs.
    assert_eq!(world.skip("f", timer_of("Ask", 1, 0)), Ok(Answer::Skipped { remembered: true }));
    world.execute_done(&first, DecisionKind::GoTo(vec![waiting_step("Ask"), waiting_step("Ask")]));
    let (ask1, ask2) = (world.task(worker), world.task(worker));
    assert_eq!(world.skip("f", timer_of("Ask", 2, 0)), Ok(Answer::Skipped { remembered: true }));
    world.crash();
    let worker = world.worker(&["Ask"]);
    world.advance_ms(1_000);
    let (again1, again2) = (world.task(worker), world.task(worker));
    assert_eq!((&again1.step, &again2.step), (&ask1.step, &ask2.step));
    for task in [&again1, &again2] {
        world.wait_for_done(task, until(timer(60_000)));
    }
    assert_eq!(world.task_names(worker), ["Ask-1 execute #1", "Ask-2 execute #1"]);
    world.sweep();
}

#[test]
fn concepts_1_7_a_skip_of_a_step_that_is_past_its_wait_is_refused() {
    let mut world = World::new();
    let worker = world.worker(&["Pay", "Other"]);
    world.start("f", step("Pay"));
    // It has Execute only.
    assert_eq!(world.skip("f", timer_of("Pay", 1, 0)), Err(CallError::TimerNotFound));
    let task = world.task(worker);
    world.execute_done(&task, go_to(&["Other"]));
    assert_eq!(world.skip("f", timer_of("Pay", 1, 0)), Err(CallError::TimerNotFound));
}

#[test]
fn concepts_1_7_the_flow_timeout_is_a_timer_that_can_be_skipped() {
    let mut world = World::new();
    let start = StartFlow { timeout_ms: Some(60_000), ..world.start_of("f", None) };
    world.start_flow(start);
    assert_eq!(world.state("f").timeout_at, Some(Timestamp::from_millis(START_MS + 60_000)));
    assert_eq!(world.skip("f", TimerTarget::FlowTimeout), Ok(Answer::Skipped { remembered: false }));
    assert_eq!(world.status("f"), FlowStatus::Failed);
    let skipped =
        world.history("f").iter().any(|event| event.kind == EventKind::FlowTimedOut { skipped: true });
    assert!(skipped);
    world.sweep();
}

#[test]
fn concepts_1_7_skipping_is_reported_distinctly_in_history() {
    let (mut world, _) = waiting(until(named("t", timer(60_000))));
    let timer = TimerTarget::Condition { step: step_id("Ask", 1), id: Name::new("t") };
    let call = Call::SkipTimer { request_id: Name::new("mine"), target: target("f"), timer };
    assert!(world.ask(call).is_ok());
    let event = world.history("f").pop().expect("there is history");
    let expected = EventKind::TimerSkipped {
        request_id: Name::new("mine"),
        step: Some(step_id("Ask", 1)),
        timer: Name::new("t"),
    };
    assert_eq!(event.kind, expected);
}

#[test]
fn lesson_b8_the_wall_clock_jumps_and_each_timer_fires_once() {
    for jump_ms in [-3_600_000_i64, 3_600_000] {
        let mut world = World::new();
        let worker = world.worker_with(100, &["Ask"], false);
        for flow in 0..20 {
            world.start(&std::format!("f{flow}"), waiting_step("Ask"));
            let task = world.task(worker);
            world.wait_for_done(&task, until(timer(10_000)));
        }
        world.advance_ms(5_000);
        let jumped = world.wall_ms().checked_add_signed(jump_ms).expect("the clock does not go below zero");
        world.set_wall_ms(jumped);
        // Lateness is bounded by a look at the clock every second.
        world.advance_ms(if jump_ms > 0 { 1_000 } else { 5_000 + 1_000 });
        assert_eq!(world.task_names(worker).len(), 20, "jump of {jump_ms} ms");
        world.advance_ms(60_000);
        assert!(world.try_task(worker).is_none());
    }
}

#[test]
fn d_039_an_overdue_timer_fires_once_at_once_after_a_failover() {
    let (mut world, _) = waiting(until(timer(10_000)));
    world.freeze_ms(3_600_000);
    world.crash();
    let worker = world.worker(&["Ask"]);
    world.advance_ms(0);
    assert_eq!(world.task_names(worker), ["Ask-1 execute #1"]);
    world.advance_ms(60_000);
    assert!(world.try_task(worker).is_none());
}

#[test]
fn review_12_15_d_039_engine_time_is_never_behind_the_log() {
    let (mut world, _) = waiting(until(timer(10_000)));
    // The next node's clock is an hour behind; it still fires the timer 10 s after the log's newest time.
    world.set_wall_ms(START_MS - 3_600_000);
    world.crash();
    let worker = world.worker(&["Ask"]);
    world.advance_ms(9_000);
    assert!(world.try_task(worker).is_none());
    world.advance_ms(1_001);
    assert_eq!(world.task_names(worker), ["Ask-1 execute #1"]);
}

#[test]
fn lesson_g3_timers_due_around_a_failover_fire_exactly_once() {
    let mut world = World::new();
    let worker = world.worker_with(10_000, &["Ask"], false);
    let count = 1_000_u64;
    for flow in 0..count {
        world.start(&std::format!("f{flow}"), waiting_step("Ask"));
        let task = world.task(worker);
        // Due before, during and after a failover of 11 s that begins in 5 s.
        world.wait_for_done(&task, until(timer((flow + 1) * 17)));
    }
    world.advance_ms(5_000);
    let before = world.task_names(worker).len();
    world.freeze_ms(11_000);
    world.crash();
    let worker = world.worker_with(10_000, &["Ask"], false);
    // The overdue ones within 1 s of serving.
    world.advance_ms(1_000);
    let mut fired = BTreeSet::new();
    let mut attempts_of_old = 0;
    while let Some(task) = world.try_task(worker) {
        assert!(fired.insert(task.flow_id.clone()), "{} fired twice", task.flow_id);
        attempts_of_old += usize::from(task.attempt == 2);
    }
    // What had fired before was running, and is retried.
    assert_eq!(attempts_of_old, before);
    assert_eq!(fired.len(), usize::try_from(count).expect("it is small"));
    world.sweep();
}

#[test]
fn concepts_1_8_a_batch_keeps_its_order_and_its_ids() {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    let first = world.publish("f", "ch", &["1", "2"]);
    let second = world.publish("f", "ch", &["3"]);
    let ids: BTreeSet<MessageId> = first.iter().chain(&second).copied().collect();
    assert_eq!(ids.len(), 3);
    // Version 7 UUIDs: the time stands in front, the version in the 13th digit.
    for id in &ids {
        assert_eq!(id.0 >> 80, u128::from(START_MS));
        assert_eq!((id.0 >> 76) & 0xf, 7);
        assert_eq!((id.0 >> 62) & 0b11, 0b10);
    }
    assert_eq!(world.pending("f", "ch"), ["1", "2", "3"]);
    let task = world.task(worker);
    world.wait_for_done(&task, until(bounded("ch", Some(1), None)));
    assert_eq!(told(&world.task(worker)), ["1,2,3"]);
}

#[test]
fn concepts_1_8_instances_of_a_channel_map_are_separate_queues() {
    let on = |instance_key: &str| Condition {
        id: None,
        kind: ConditionKind::Channel { channel: instance("m", instance_key), at_least: None, at_most: None },
    };
    let (mut world, worker) = waiting(until(on("x")));
    let publish = |world: &mut World, instance_key: &str| {
        let publications = vec![Publication { channel: instance("m", instance_key), value: value("v") }];
        let request_id = world.request_id();
        assert!(world.ask(Call::Publish { request_id, target: target("f"), publications }).is_ok());
    };
    publish(&mut world, "y");
    publish(&mut world, "xx");
    assert!(world.try_task(worker).is_none());
    publish(&mut world, "x");
    assert_eq!(told(&world.task(worker)), ["v"]);
}

#[test]
fn concepts_1_8_a_pending_message_is_deleted_by_id_all_or_nothing() {
    let mut world = World::new();
    let worker = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    let ids = world.publish("f", "ch", &["1", "2", "3"]);
    let delete = |world: &mut World, channel: &str, messages: Vec<MessageId>| {
        let request_id = world.request_id();
        world.ask(Call::DeleteMessages { request_id, target: target("f"), channel: key(channel), messages })
    };
    assert_eq!(delete(&mut world, "ch", vec![ids[1]]), Ok(Answer::Done));
    assert_eq!(world.pending("f", "ch"), ["1", "3"]);
    let gone = Err(CallError::MessageNotFound { message: ids[1] });
    assert_eq!(delete(&mut world, "ch", vec![ids[0], ids[1]]), gone);
    assert_eq!(world.pending("f", "ch"), ["1", "3"]);
    let elsewhere = Err(CallError::MessageNotFound { message: ids[0] });
    assert_eq!(delete(&mut world, "other", vec![ids[0]]), elsewhere);
    // A consumed one is gone as well.
    let task = world.task(worker);
    world.wait_for_done(&task, until(one("ch")));
    assert_eq!(delete(&mut world, "ch", vec![ids[0]]), elsewhere);
    world.sweep();
}

#[test]
fn concepts_1_8_a_deletion_staged_by_a_step_is_best_effort() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(worker);
    let ids = world.publish("f", "ch", &["1", "2"]);
    let deletion = |message| MessageDeletion { channel: key("ch"), message };
    let effects = Effects {
        deletions: vec![deletion(MessageId(7)), deletion(ids[0]), deletion(ids[0])],
        ..Effects::default()
    };
    world.execute_with(&task, DecisionKind::DeadEnd, effects);
    assert_eq!(world.pending("f", "ch"), ["2"]);
    world.sweep();
}

#[test]
fn concepts_1_8_unconsumed_messages_vanish_when_the_flow_closes() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(worker);
    world.publish("f", "ch", &["1"]);
    world.execute_with(&task, complete("done"), writing("ch", "2"));
    assert_eq!(world.status("f"), FlowStatus::Completed);
    assert!(world.pending("f", "ch").is_empty());
    world.sweep();
}

#[test]
fn concepts_1_9_typed_attributes_and_null_deletes() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let start = StartFlow { attributes: vec![set("gone", "1")], ..world.start_of("f", Some(step("Pay"))) };
    world.start_flow(start);
    let values = [
        ("bool", AttributeValue::Bool(true)),
        ("double", AttributeValue::Double(1.5)),
        ("int", AttributeValue::Int(i64::MIN)),
        ("object", AttributeValue::Object(value("{}"))),
        ("string", AttributeValue::String(Name::new("ü"))),
    ];
    let mut writes: Vec<AttributeWrite> = values
        .iter()
        .map(|(name, value)| AttributeWrite { key: key(name), value: Some(value.clone()) })
        .collect();
    writes.push(AttributeWrite { key: key("gone"), value: None });
    // The last write of a key wins.
    writes.insert(0, set("int", "overwritten"));
    let request_id = world.request_id();
    assert_eq!(
        world.ask(Call::WriteAttributes { request_id, target: target("f"), writes }),
        Ok(Answer::Done)
    );
    world.crash();
    let found: Vec<_> = world.state("f").attributes;
    let expected: Vec<_> =
        values.into_iter().map(|(name, value)| AttributeEntry { key: key(name), value }).collect();
    assert_eq!(found, expected);
    let worker_after = world.worker(&["Pay"]);
    world.advance_ms(1_000);
    // The retry of an attempt that saw the old Attributes sees them again.
    assert_eq!(seen(&world.task(worker_after)), ["gone=1"]);
    assert!(!world.is_open(worker));
}

#[test]
fn concepts_1_9_attributes_of_a_closed_run_stay_readable_until_it_is_deleted() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let task = world.task(worker);
    world.execute_with(&task, complete("done"), writing("a", "1"));
    assert_eq!(world.attribute("f", "a").as_deref(), Some("1"));
}

#[test]
fn fd_024_fd_027_a_stored_wait_keeps_its_conditions_and_the_execute_deployed_then_runs() {
    let (mut world, old) = waiting(until(one("old")));
    world.disconnect(old);
    // The new code would wait for something else; the Step that waits already does not ask it.
    let new = world.worker(&["Ask"]);
    world.publish("f", "new", &["m"]);
    assert!(world.try_task(new).is_none());
    world.publish("f", "old", &["m"]);
    assert_eq!(world.task_names(new), ["Ask-1 execute #1"]);
}

#[test]
fn fd_028_a_wait_for_queued_before_the_deploy_runs_the_new_code() {
    let mut world = World::new();
    let old = world.worker(&["Ask"]);
    world.start("f", waiting_step("Ask"));
    world.task(old);
    world.disconnect(old);
    let new = world.worker(&["Ask"]);
    world.advance_ms(1_000);
    let task = world.task(new);
    assert_eq!((task.method, task.attempt), (Method::WaitFor, 2));
    world.wait_for_done(&task, until(one("new")));
    world.publish("f", "new", &["m"]);
    assert_eq!(world.task_names(new), ["Ask-1 execute #1"]);
}

#[test]
fn fd_029_an_old_waiter_is_released_by_a_message_or_a_skip() {
    let (mut world, worker) = waiting(any_of(vec![one("ch"), timer(limits::DURATION_MS)]));
    assert!(world.skip("f", timer_of("Ask", 1, 0)).is_ok());
    assert_eq!(told(&world.task(worker)), ["", "fired"]);
    let (mut world, worker) = waiting(any_of(vec![one("ch"), timer(limits::DURATION_MS)]));
    world.publish("f", "ch", &["go"]);
    let task: Given = world.task(worker);
    assert_eq!(told(&task), ["go", "waiting"]);
}

#[test]
fn d_039_a_timer_set_when_the_last_one_in_memory_fires_is_not_lost() {
    let mut world = World::new();
    let flows = 3 * limits::NEAR_TIMERS as u64 + 7;
    let worker = world.worker_with(10_000, &["Ask"], false);
    for flow in 0..flows {
        world.start(&std::format!("f{flow}"), waiting_step("Ask"));
        let task = world.task(worker);
        // The second timer is armed when the first one fires.
        world.wait_for_done(&task, all_of(vec![timer(1_000 + flow), timer(10_000 + flow)]));
    }
    // One look fires what several would have: whatever was read ahead is used up in the middle of it.
    world.freeze_ms(5_000);
    world.advance_ms(0);
    world.sweep();
    world.advance_ms(5_000 + flows);
    let fired: BTreeSet<_> =
        core::iter::from_fn(|| world.try_task(worker)).map(|task| task.task.flow_id).collect();
    assert_eq!(fired.len() as u64, flows);
}

#[test]
fn d_039_timers_of_different_ages_fire_in_time_whatever_fits_in_memory() {
    let mut world = World::new();
    let worker = world.worker_with(10_000, &["Ask"], false);
    // Later ones first, then earlier ones, many at the same instant.
    for flow in (0..400_u64).rev() {
        world.start(&std::format!("f{flow}"), waiting_step("Ask"));
        let task = world.task(worker);
        world.wait_for_done(&task, until(timer(1_000 + flow / 5 * 100)));
    }
    for second in 0..9 {
        world.advance_ms(1_000);
        let found = core::iter::from_fn(|| world.try_task(worker)).count();
        let expected = match second {
            0 => 5,
            1..=7 => 50,
            _ => 45,
        };
        assert_eq!(found, expected, "second {second}");
    }
}

#[test]
fn fd_023_the_worker_that_holds_the_attempt_decides_which_code_runs() {
    let mut world = World::new();
    let old = world.worker(&["A", "B"]);
    world.start("f", step("A"));
    let a = world.task(old);
    world.execute_done(&a, go_to(&["B"]));
    world.task(old);
    // A deploy: the new Worker runs B, and is never asked about A again.
    world.disconnect(old);
    let new = world.worker(&["A", "B"]);
    world.advance_ms(60_000);
    let b = world.task(new);
    assert_eq!((&b.step, b.attempt), (&step_id("B", 1), 2));
    world.execute_done(&b, complete("by new code"));
    assert_eq!(world.outputs("f"), ["by new code"]);
    assert!(world.try_task(new).is_none());
}

#[test]
fn fd_012_fd_032_every_attempt_has_the_same_idempotency_key() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let key_of = |task: &Given| (task.flow_id.clone(), task.run_id, task.step.clone());
    let first = world.task(worker);
    world.disconnect(worker);
    let worker = world.worker(&["Pay"]);
    world.advance_ms(1_000);
    let after_worker_crash = world.task(worker);
    world.crash();
    let worker = world.worker(&["Pay"]);
    world.advance_ms(2_000);
    let after_failover = world.task(worker);
    assert_eq!([first.attempt, after_worker_crash.attempt, after_failover.attempt], [1, 2, 3]);
    assert_eq!(key_of(&first), key_of(&after_worker_crash));
    assert_eq!(key_of(&first), key_of(&after_failover));
}
