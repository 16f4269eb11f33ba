//! Waiting and inspection (concepts.md 1.16).

use std::vec;
use std::vec::Vec;

use super::build::*;
use super::driver::{START_MS, World};
use crate::engine::search::parse_query;
use crate::engine::*;
use crate::ids::Name;
use crate::time::Timestamp;

fn page(
    world: &mut World,
    query: &str,
    page_size: u32,
    page_token: Option<PageToken>,
) -> (Vec<Name>, Option<PageToken>) {
    let filter = parse_query(query).expect("the query is right");
    match world.ask(Call::Search { filter, page_size, page_token }) {
        Ok(Answer::Page { runs, next }) => (runs.into_iter().map(|run| run.flow_id).collect(), next),
        other => panic!("no page: {other:?}"),
    }
}

#[test]
fn concepts_1_16_wait_for_flow_blocks_until_the_run_is_closed() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let waiting = world.call(Call::WaitForFlow { target: target("f"), wait_ms: None });
    let bounded = world.call(Call::WaitForFlow { target: target("f"), wait_ms: Some(1_000) });
    world.advance_ms(999);
    assert_eq!((world.answer(waiting), world.answer(bounded)), (None, None));
    world.advance_ms(1);
    assert_eq!(world.answer(bounded), Some(Err(CallError::LongPollTimeout)));
    let task = world.task(worker);
    world.execute_done(&task, complete("done"));
    let Some(Ok(Answer::FlowResult(result))) = world.answer(waiting) else {
        panic!("the wait is over");
    };
    assert_eq!((result.status, result.outputs.len()), (FlowStatus::Completed, 1));
    // On a closed run it answers at once.
    assert_eq!(world.result("f"), *result);
    let missing = Call::WaitForFlow { target: target("g"), wait_ms: None };
    assert_eq!(world.ask(missing), Err(CallError::NotFound));
}

#[test]
fn concepts_1_16_a_wait_that_its_client_gave_up_is_not_answered() {
    let mut world = World::new();
    world.start("f", step("Pay"));
    let id = world.call(Call::WaitForFlow { target: target("f"), wait_ms: Some(1_000) });
    world.step(Input::CallDropped { id });
    world.advance_ms(10_000);
    assert!(world.stop("f", StopKind::Terminate).is_ok());
    assert_eq!(world.answer(id), None);
}

#[test]
fn concepts_1_16_wait_for_step_confirms_completion() {
    let mut world = World::new();
    let worker = world.worker(&["A", "B"]);
    world.start("f", step("A"));
    let wait = |step_type: &str| Call::WaitForStep {
        target: target("f"),
        step: step_id(step_type, 1),
        wait_ms: None,
    };
    let (for_a, for_b, for_c) = (world.call(wait("A")), world.call(wait("B")), world.call(wait("C")));
    let a = world.task(worker);
    assert_eq!(world.answer(for_a), None);
    world.execute_done(&a, go_to(&["B"]));
    assert_eq!(world.answer(for_a), Some(Ok(Answer::StepCompleted)));
    let b = world.task(worker);
    world.execute_done(&b, complete("done"));
    assert_eq!(world.answer(for_b), Some(Ok(Answer::StepCompleted)));
    // The run closed without it.
    assert_eq!(world.answer(for_c), Some(Err(CallError::StepNotCompleted)));
    assert_eq!(world.ask(wait("A")), Ok(Answer::StepCompleted));
    assert_eq!(world.ask(wait("C")), Err(CallError::StepNotCompleted));
}

#[test]
fn concepts_1_16_wait_for_step_says_when_the_step_ended_without_completing() {
    let mut world = World::new();
    let worker = world.worker(&["Pay", "Undo"]);
    let movement = with_options("Pay", |options| {
        options.skip_wait_for = true;
        options.recovery = recovery("Undo");
    });
    world.start("f", movement);
    let wait = Call::WaitForStep { target: target("f"), step: step_id("Pay", 1), wait_ms: None };
    let waiting = world.call(wait);
    let task = world.task(worker);
    world.fail_with(&task, "Broken", true, None);
    assert_eq!(world.answer(waiting), Some(Err(CallError::StepNotCompleted)));
}

#[test]
fn concepts_1_16_wait_for_a_history_event() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    world.start("f", step("Pay"));
    let wait = |event| Call::WaitForEvent { target: target("f"), event, wait_ms: None };
    assert!(matches!(world.ask(wait(1)), Ok(Answer::Event(Some(event))) if event.number == 1));
    let (second, fourth) = (world.call(wait(2)), world.call(wait(4)));
    assert_eq!(world.answer(second), None);
    let task = world.task(worker);
    world.execute_done(&task, complete("done"));
    let Some(Ok(Answer::Event(Some(event)))) = world.answer(second) else {
        panic!("the event exists");
    };
    assert!(matches!(event.kind, EventKind::ExecuteCompleted { .. }));
    // There are three: started, completed, closed. A closed run says "none".
    assert_eq!(world.answer(fourth), Some(Ok(Answer::Event(None))));
    assert_eq!(world.ask(wait(4)), Ok(Answer::Event(None)));
}

#[test]
fn concepts_1_16_history_is_ordered_without_gaps_and_paged() {
    let mut world = World::new();
    let worker = world.worker(&["Ask", "Pay"]);
    world.start("f", waiting_step("Ask"));
    let wait_for = world.task(worker);
    world.wait_for_done(&wait_for, until(one("ch")));
    world.publish("f", "ch", &["m"]);
    let execute = world.task(worker);
    world.fail(&execute, "Oops");
    world.advance_ms(1_000);
    let execute = world.task(worker);
    world.execute_with(&execute, go_to(&["Pay"]), writing("a", "1"));
    let pay = world.task(worker);
    world.fail_with(&pay, "Broken", true, None);
    let history = world.history("f");
    let numbers: Vec<u64> = history.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    let kinds: Vec<_> = history
        .iter()
        .map(|event| match &event.kind {
            EventKind::FlowStarted { .. } => "started",
            EventKind::WaitForCompleted { .. } => "wait_for",
            EventKind::Published { .. } => "published",
            EventKind::ExecuteCompleted { context, attributes, .. } => {
                assert_eq!((context.attempt, attributes.len()), (2, 1));
                assert_eq!(&*context.last_failure.as_ref().expect("attempt 1 failed").error_type, "Oops");
                assert_eq!(context.started, Some(Timestamp::from_millis(START_MS)));
                "execute"
            }
            EventKind::MethodFailed { context, failure, then } => {
                assert_eq!((&context.step, &*failure.error_type), (&step_id("Pay", 1), "Broken"));
                assert_eq!(then, &AfterFailure::FlowFails);
                "failed"
            }
            EventKind::FlowClosed { status: FlowStatus::Failed, .. } => "closed",
            other => panic!("unexpected: {other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["started", "wait_for", "published", "execute", "failed", "closed"]);
    let mut paged = Vec::new();
    let mut start_event = 1;
    loop {
        let call = Call::History { target: target("f"), start_event, page_size: 4 };
        let Ok(Answer::History { events, next_event, closed: true }) = world.ask(call) else {
            panic!("a page");
        };
        paged.extend(events);
        match next_event {
            Some(next) => start_event = next,
            None => break,
        }
    }
    assert_eq!(paged, history);
}

#[test]
fn concepts_1_16_state_shows_what_a_run_is_made_of() {
    let mut world = World::new();
    let worker = world.worker(&["Split", "Runs", "Waits", "Fails"]);
    world.start("f", step("Split"));
    let split = world.task(worker);
    let movements = vec![step("Runs"), waiting_step("Waits"), step("Fails"), step("Unknown")];
    world.execute_with(&split, DecisionKind::GoTo(movements), writing("a", "1"));
    let (runs, waits, fails) = (world.task(worker), world.task(worker), world.task(worker));
    let local = NamedValue { name: Name::new("l"), value: value("v") };
    let effects = Effects { locals: vec![local.clone()], ..Effects::default() };
    world.wait_for_with(&waits, all_of(vec![timer(60_000), one("ch")]), effects);
    world.fail(&fails, "Oops");
    assert_eq!(
        world.phases("f"),
        ["Fails-1 BackingOff", "Runs-1 Running", "Unknown-1 Queued", "Waits-1 Waiting"]
    );
    let running = world.step_state("f", "Runs", 1);
    assert_eq!(running.worker.as_deref(), Some("worker-1"));
    assert_eq!((running.input, running.lineage), (Some(value("input")), runs.task.lineage));
    let waiting = world.step_state("f", "Waits", 1);
    assert_eq!((waiting.locals, waiting.timers.len()), (vec![local], 1));
    assert_eq!(waiting.wait.map(|wait| wait.conditions.len()), Some(2));
    let state = world.state("f");
    assert_eq!(state.attributes.len(), 1);
    assert_eq!(state.channels.len(), 1);
    assert_eq!(state.step_durability, Durability::Sync);
    world.crash();
    world.advance_ms(0);
    assert_eq!(world.step_state("f", "Waits", 1).phase, Phase::Waiting);
}

#[test]
fn concepts_1_16_search_shows_runs_newest_first_page_by_page() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    for flow in 0..5 {
        world.start(&std::format!("f{flow}"), step("Pay"));
        world.advance_ms(1_000);
    }
    let task = world.task(worker);
    world.execute_done(&task, complete("done"));
    let all = ["f4", "f3", "f2", "f1", "f0"].map(Name::new);
    assert_eq!(page(&mut world, "", 100, None), (all.to_vec(), None));
    let (first, token) = page(&mut world, "", 2, None);
    let (second, token) = page(&mut world, "", 2, token);
    let (third, end) = page(&mut world, "", 2, token);
    assert_eq!([first, second, third].concat(), all);
    assert_eq!(end, None);
    let found = |world: &mut World, query: &str| page(world, query, 100, None).0;
    assert_eq!(found(&mut world, "status = completed"), [Name::new("f0")]);
    assert_eq!(found(&mut world, "status = running AND flowId IN (f0, f1)"), [Name::new("f1")]);
    assert_eq!(found(&mut world, "activeStepType = Pay").len(), 4);
    assert_eq!(found(&mut world, "flowType = Refund"), []);
    assert_eq!(found(&mut world, "flowId startsWith 'f'").len(), 5);
    let query = std::format!("startTime >= {} AND startTime < {}", START_MS + 1_000, START_MS + 3_000);
    assert_eq!(found(&mut world, &query), [Name::new("f2"), Name::new("f1")]);
}

#[test]
fn concepts_1_16_a_page_that_is_exactly_full_has_no_token() {
    let mut world = World::new();
    for flow in 0..4 {
        world.start(&std::format!("f{flow}"), step("Pay"));
    }
    assert_eq!(page(&mut world, "", 4, None).1, None);
    assert!(page(&mut world, "", 3, None).1.is_some());
}

#[test]
fn concepts_1_16_a_summary_tells_how_a_run_ended() {
    let mut world = World::new();
    let worker = world.worker(&["Pay"]);
    let run_id = world.start("f", step("Pay"));
    world.advance_ms(5_000);
    let task = world.task(worker);
    world.execute_done(&task, DecisionKind::ForceFail(Name::new("no")));
    let summary = world.summary("f");
    assert_eq!((summary.run_id, summary.first_run_id), (run_id, run_id));
    assert_eq!(summary.start_time, Timestamp::from_millis(START_MS));
    assert_eq!(summary.close_time, Some(Timestamp::from_millis(START_MS + 5_000)));
    assert_eq!(summary.event_count, 3);
    assert_eq!(summary.active_step_types, []);
}
