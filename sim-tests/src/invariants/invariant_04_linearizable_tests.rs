//! Made-up runs: what the whole check accepts, and one for each fault that it must see.

use super::Linearizable;
use crate::invariants::made_up::tell;
use dexzd_core::engine::{
    Answer, AttributeEntry, AttributeValue, AttributeWrite, Call, CallError, ChannelMessages, EventKind,
    FlowResult, FlowStatus, HistoryEvent, IdReusePolicy, Key, Message, Publication, RunState, StartFlow,
    StopKind, Summary, Target, Value,
};
use dexzd_core::ids::{CallId, Epoch, MessageId, Name, Position, RunId, StepExecutionId};
use dexzd_core::time::Timestamp;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::Seen;

type Answered = Result<Answer, CallError>;

/// Calls with their times and answers; without a time of the answer there is none.
struct Story(Vec<(TrueTime, Option<TrueTime>, Call, Answered)>);

impl Story {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn answered(mut self, from: TrueTime, to: TrueTime, call: Call, answer: Answered) -> Self {
        self.0.push((from, Some(to), call, answer));
        self
    }

    fn unanswered(mut self, from: TrueTime, call: Call) -> Self {
        self.0.push((from, None, call, Err(CallError::Unavailable)));
        self
    }

    fn told(&self) -> Result<(), String> {
        self.told_to(Linearizable::default())
    }

    fn told_to(&self, check: Linearizable) -> Result<(), String> {
        let mut seen = Vec::new();
        for (number, (from, to, request, answer)) in (1..).zip(&self.0) {
            let call = CallId(number);
            seen.push((*from, Seen::Called { process: 0, call, request }));
            if let Some(to) = to {
                let (epoch, durable, after) = (Epoch(1), Position(1), Position(1));
                seen.push((
                    *to,
                    Seen::AnswerLeft { process: 0, call, epoch, durable, after, request, answer },
                ));
            }
        }
        seen.sort_by_key(|(at, _)| *at);
        tell(check, &seen)
    }

    fn refused(&self) -> String {
        self.told().expect_err("this has no order")
    }
}

fn target() -> Target {
    Target { flow_id: Name::from("f"), run_id: None }
}

fn start(request: &str, id_reuse: IdReusePolicy) -> Call {
    Call::Start(Box::new(StartFlow {
        request_id: Name::from(request),
        flow_id: Name::from("f"),
        id_reuse,
        ..StartFlow::default()
    }))
}

fn started(run: u128, newly: bool) -> Answered {
    Ok(Answer::Started { run_id: RunId(run), newly })
}

/// A run that began at 0 with the request "s".
fn running() -> Story {
    Story::new().answered(0, 1, start("s", IdReusePolicy::Disallow), started(1, true))
}

fn publish(request: &str) -> Call {
    let publications = vec![Publication { channel: channel(), value: Value::default() }];
    Call::Publish { request_id: Name::from(request), target: target(), publications }
}

fn channel() -> Key {
    Key { name: Name::from("paid"), instance: None }
}

fn published(id: u128) -> Answered {
    Ok(Answer::Published(vec![MessageId(id)]))
}

fn note(request: &str) -> Call {
    let value = Some(AttributeValue::String(Name::from(request)));
    let key = Key { name: Name::from("note"), instance: None };
    let writes = vec![AttributeWrite { key, value }];
    Call::WriteAttributes { request_id: Name::from(request), target: target(), writes }
}

fn stop(request: &str, kind: StopKind) -> Call {
    Call::Stop { request_id: Name::from(request), target: target(), kind, reason: Name::default() }
}

fn summary(status: FlowStatus, event_count: u64) -> Summary {
    Summary {
        flow_id: Name::from("f"),
        run_id: RunId(1),
        first_run_id: RunId(1),
        request_id: Name::from("s"),
        flow_type: Name::from("t"),
        status,
        start_time: Timestamp::ZERO,
        close_time: None,
        error: None,
        closing: false,
        active_step_types: Vec::new(),
        event_count,
    }
}

fn saw(status: FlowStatus, event_count: u64) -> Answered {
    Ok(Answer::Summary(Box::new(summary(status, event_count))))
}

fn saw_closing(event_count: u64) -> Answered {
    Ok(Answer::Summary(Box::new(Summary { closing: true, ..summary(FlowStatus::Running, event_count) })))
}

fn describe() -> Call {
    Call::Describe(target())
}

/// A state with this note and these pending messages.
fn state(event_count: u64, note: Option<&str>, pending: &[u128]) -> Answered {
    let attributes = note.map(|text| AttributeEntry {
        key: Key { name: Name::from("note"), instance: None },
        value: AttributeValue::String(Name::from(text)),
    });
    let messages = pending.iter().map(|id| Message { id: MessageId(*id), value: Value::default() }).collect();
    Ok(Answer::State(Box::new(RunState {
        summary: summary(FlowStatus::Running, event_count),
        active_step_search: Default::default(),
        step_durability: Default::default(),
        attributes: attributes.into_iter().collect(),
        steps: Vec::new(),
        channels: if pending.is_empty() {
            Vec::new()
        } else {
            vec![ChannelMessages { channel: channel(), messages }]
        },
        outputs: Vec::new(),
        timeout_at: None,
        start_at: None,
    })))
}

fn look() -> Call {
    Call::State(target())
}

fn closed(status: FlowStatus) -> Answered {
    Ok(Answer::FlowResult(Box::new(FlowResult {
        run_id: RunId(1),
        status,
        outputs: Vec::new(),
        error: None,
    })))
}

fn wait() -> Call {
    Call::WaitForFlow { target: target(), wait_ms: None }
}

use FlowStatus::{Canceled, Completed, Running, Terminated};
use IdReusePolicy::{AllowIfNotRunning, Disallow, TerminateIfRunning};

#[test]
fn a_run_from_its_start_to_its_end_is_accepted() {
    let story = running()
        .answered(2, 3, start("s", Disallow), started(1, false))
        .answered(4, 5, publish("p"), published(7))
        .answered(5, 6, publish("p"), published(7))
        .answered(6, 7, look(), state(2, None, &[7]))
        .answered(8, 9, look(), state(3, None, &[]))
        .answered(8, 20, wait(), closed(Completed))
        .answered(21, 22, describe(), saw(Completed, 5))
        .answered(23, 24, publish("q"), Err(CallError::NotActive { status: Completed }));
    assert_eq!(story.told(), Ok(()));
}

#[test]
fn a_read_after_an_acknowledged_start_sees_the_run() {
    let story = running().answered(2, 3, describe(), Err(CallError::NotFound));
    assert_eq!(
        story.refused(),
        "no order explains these answers about f: start s (Disallow) got run \
         00000000000000000000000000000001, newly started at p0 (0.000000 s to 0.000001 s); \
         describe found nothing at p0 (0.000002 s to 0.000003 s)"
    );
    let beside = running().answered(0, 3, describe(), Err(CallError::NotFound));
    assert_eq!(beside.told(), Ok(()));
}

#[test]
fn a_run_never_opens_again() {
    let story =
        running().answered(2, 3, wait(), closed(Completed)).answered(4, 5, describe(), saw(Running, 1));
    assert!(story.refused().contains("wait for flow saw completed"), "{}", story.refused());
}

#[test]
fn one_request_starts_one_run() {
    let story = running().answered(2, 3, start("s", TerminateIfRunning), started(2, true));
    assert!(story.told().is_err());
    let late = Story::new()
        .unanswered(0, start("s", TerminateIfRunning))
        .answered(2, 3, start("s", TerminateIfRunning), started(1, false))
        .answered(4, 5, describe(), saw(Running, 1));
    assert_eq!(late.told(), Ok(()));
}

#[test]
fn a_policy_is_kept() {
    let refused = |status| Err(CallError::AlreadyStarted { run_id: RunId(1), status });
    let right = running().answered(2, 3, start("r", Disallow), refused(Running));
    assert_eq!(right.told(), Ok(()));
    let too_kind = running().answered(2, 3, start("r", Disallow), started(2, true));
    assert!(too_kind.told().is_err());
    let too_strict = running().answered(2, 3, start("r", AllowIfNotRunning), refused(Completed));
    assert!(too_strict.told().is_err());
    let while_it_runs = running().answered(2, 3, start("r", AllowIfNotRunning), started(2, true)).answered(
        4,
        5,
        Call::Describe(Target { run_id: Some(RunId(1)), ..target() }),
        saw(Running, 1),
    );
    assert!(while_it_runs.told().is_err());
}

#[test]
fn a_new_run_takes_the_place_of_the_old_one() {
    let other = Summary { run_id: RunId(2), request_id: Name::from("r"), ..summary(Running, 1) };
    let of_old = Call::Describe(Target { run_id: Some(RunId(1)), ..target() });
    let story = running()
        .answered(2, 3, start("r", TerminateIfRunning), started(2, true))
        .answered(4, 5, describe(), Ok(Answer::Summary(Box::new(other))))
        .answered(6, 7, of_old.clone(), saw(Terminated, 2));
    assert_eq!(story.told(), Ok(()));
    let stale = running().answered(2, 3, start("r", TerminateIfRunning), started(2, true)).answered(
        4,
        5,
        describe(),
        saw(Running, 1),
    );
    assert!(stale.told().is_err());
}

#[test]
fn after_a_stop_nothing_shows_an_open_run() {
    let terminated = running().answered(2, 3, stop("x", StopKind::Terminate), Ok(Answer::Done)).answered(
        4,
        5,
        describe(),
        saw(Running, 2),
    );
    assert!(terminated.told().is_err());
    let closing = running()
        .answered(2, 3, stop("x", StopKind::Cancel), Ok(Answer::Done))
        .answered(4, 5, describe(), saw_closing(2))
        .answered(5, 6, publish("p"), Err(CallError::Closing))
        .answered(7, 8, describe(), saw(Canceled, 3));
    assert_eq!(closing.told(), Ok(()));
    let as_if_nothing = running().answered(2, 3, stop("x", StopKind::Cancel), Ok(Answer::Done)).answered(
        4,
        5,
        describe(),
        saw(Running, 2),
    );
    assert!(as_if_nothing.told().is_err());
    let wrong_end = running().answered(2, 3, stop("x", StopKind::Cancel), Ok(Answer::Done)).answered(
        4,
        5,
        wait(),
        closed(Completed),
    );
    assert!(wrong_end.told().is_err());
}

#[test]
fn nobody_is_told_of_a_stop_that_nobody_asked_for() {
    assert!(running().answered(2, 3, publish("p"), Err(CallError::Closing)).told().is_err());
    assert!(running().answered(2, 3, wait(), closed(Terminated)).told().is_err());
    let unheard = running().unanswered(2, stop("x", StopKind::Cancel)).answered(
        3,
        4,
        publish("p"),
        Err(CallError::Closing),
    );
    assert_eq!(unheard.told(), Ok(()));
}

#[test]
fn a_stop_without_an_answer_may_come_late_but_not_go_away() {
    let late = running()
        .unanswered(2, stop("x", StopKind::Terminate))
        .answered(3, 4, describe(), saw(Running, 1))
        .answered(5, 6, describe(), saw(Terminated, 3));
    assert_eq!(late.told(), Ok(()));
    let gone = running()
        .unanswered(2, stop("x", StopKind::Terminate))
        .answered(5, 6, describe(), saw(Terminated, 3))
        .answered(7, 8, describe(), saw(Running, 1));
    assert!(gone.told().is_err());
}

#[test]
fn a_message_is_published_once_and_stays_until_it_is_consumed() {
    let twice =
        running().answered(2, 3, publish("p"), published(7)).answered(4, 5, publish("p"), published(8));
    assert!(twice.told().is_err());
    let doubled =
        running().answered(2, 3, publish("p"), published(7)).answered(4, 5, look(), state(3, None, &[7, 8]));
    assert!(doubled.told().is_err());
    let back = running()
        .answered(2, 3, publish("p"), published(7))
        .answered(4, 5, look(), state(3, None, &[]))
        .answered(6, 7, look(), state(3, None, &[7]));
    assert!(back.told().is_err());
    let out_of_order = running()
        .answered(2, 3, publish("p"), published(7))
        .answered(4, 5, publish("q"), published(8))
        .answered(6, 7, look(), state(4, None, &[7]));
    assert!(out_of_order.told().is_err());
    let in_order = running()
        .answered(2, 5, publish("p"), published(7))
        .answered(4, 6, publish("q"), published(8))
        .answered(7, 8, look(), state(4, None, &[8, 7]))
        .answered(9, 10, look(), state(4, None, &[7]));
    assert_eq!(in_order.told(), Ok(()));
    let unheard = running()
        .unanswered(2, publish("p"))
        .answered(4, 5, look(), state(2, None, &[7]))
        .answered(6, 7, publish("p"), published(7));
    assert_eq!(unheard.told(), Ok(()));
    let other_id = running()
        .unanswered(2, publish("p"))
        .answered(4, 5, look(), state(2, None, &[7]))
        .answered(6, 7, publish("p"), published(8));
    assert!(other_id.told().is_err());
}

#[test]
fn the_last_note_counts() {
    let done = || Ok(Answer::Done);
    let lost = running().answered(2, 3, note("a"), done()).answered(4, 5, note("b"), done()).answered(
        6,
        7,
        look(),
        state(3, Some("a"), &[]),
    );
    assert!(lost.told().is_err());
    let beside = running().answered(2, 5, note("a"), done()).answered(4, 6, note("b"), done()).answered(
        7,
        8,
        look(),
        state(3, Some("a"), &[]),
    );
    assert_eq!(beside.told(), Ok(()));
    let repeated = running()
        .answered(2, 3, note("a"), done())
        .answered(4, 5, note("b"), done())
        .answered(6, 7, note("a"), done())
        .answered(8, 9, look(), state(3, Some("a"), &[]));
    assert!(repeated.told().is_err(), "a repeated request has no second effect (D-35)");
}

#[test]
fn events_never_become_fewer() {
    let story =
        running().answered(2, 3, describe(), saw(Running, 4)).answered(4, 5, describe(), saw(Running, 3));
    assert!(story.told().is_err());
    let after_the_end =
        running().answered(2, 3, describe(), saw(Completed, 4)).answered(4, 5, describe(), saw(Completed, 5));
    assert!(after_the_end.told().is_err());
    let end_is_an_event =
        running().answered(2, 3, describe(), saw(Running, 4)).answered(4, 5, describe(), saw(Completed, 4));
    assert!(end_is_an_event.told().is_err());
}

#[test]
fn a_wait_is_answered_only_by_what_it_waits_for() {
    let step = StepExecutionId { step_type: Name::from("a"), number: 1 };
    let wait_for_step = || Call::WaitForStep { target: target(), step: step.clone(), wait_ms: Some(1) };
    let open_again = running().answered(2, 3, wait_for_step(), Ok(Answer::StepCompleted)).answered(
        4,
        5,
        wait_for_step(),
        Err(CallError::LongPollTimeout),
    );
    assert!(open_again.told().is_err());
    let two_ends = running().answered(2, 3, wait_for_step(), Ok(Answer::StepCompleted)).answered(
        4,
        5,
        wait_for_step(),
        Err(CallError::StepNotCompleted),
    );
    assert!(two_ends.told().is_err());
    let timeout_after_the_end = running().answered(2, 3, wait(), closed(Completed)).answered(
        4,
        5,
        wait(),
        Err(CallError::LongPollTimeout),
    );
    assert!(timeout_after_the_end.told().is_err());
}

#[test]
fn a_history_only_grows() {
    let event = |number, kind| HistoryEvent { number, time: Timestamp::ZERO, kind };
    let first = event(
        1,
        EventKind::FlowStarted {
            flow_type: Name::from("t"),
            request_id: Name::from("s"),
            input: None,
            start_step: None,
            previous_run: None,
        },
    );
    let page = |events| Ok(Answer::History { events, next_event: None, closed: false });
    let history = || Call::History { target: target(), start_event: 1, page_size: 10 };
    let timed_out = |skipped| event(2, EventKind::FlowTimedOut { skipped });
    let grows = running().answered(2, 3, history(), page(vec![first.clone()])).answered(
        4,
        5,
        history(),
        page(vec![first.clone(), timed_out(true)]),
    );
    assert_eq!(grows.told(), Ok(()));
    let changes = running().answered(2, 3, history(), page(vec![first.clone(), timed_out(true)])).answered(
        4,
        5,
        history(),
        page(vec![first.clone(), timed_out(false)]),
    );
    assert_eq!(
        changes.refused(),
        "event 2 of f was first FlowTimedOut { skipped: true } and then FlowTimedOut { skipped: false }"
    );
    let shrinks = running().answered(2, 3, history(), page(vec![first.clone(), timed_out(true)])).answered(
        4,
        5,
        history(),
        page(vec![first]),
    );
    assert!(shrinks.told().is_err());
}

#[test]
fn a_closed_run_keeps_its_result() {
    let story = running().answered(2, 3, wait(), closed(Completed)).answered(2, 3, wait(), closed(Running));
    assert!(story.refused().starts_with("run 00000000000000000000000000000001 of f was said to have closed"));
}

#[test]
fn a_deleted_message_is_gone_and_an_unknown_one_was_never_there() {
    let delete = |request: &str| Call::DeleteMessages {
        request_id: Name::from(request),
        target: target(),
        channel: channel(),
        messages: vec![MessageId(7)],
    };
    let gone = Err(CallError::MessageNotFound { message: MessageId(7) });
    let deleted = running()
        .answered(2, 3, publish("p"), published(7))
        .answered(4, 5, delete("d"), Ok(Answer::Done))
        .answered(6, 7, delete("e"), gone.clone());
    assert_eq!(deleted.told(), Ok(()));
    let consumed_and_back = running()
        .answered(2, 3, publish("p"), published(7))
        .answered(4, 5, delete("e"), gone)
        .answered(6, 7, look(), state(2, None, &[7]));
    assert!(consumed_and_back.told().is_err());
    let never_there = running().answered(4, 5, delete("d"), Ok(Answer::Done));
    assert!(never_there.told().is_err());
}

#[test]
fn where_clocks_lie_only_writes_are_put_in_order() {
    let stale = running().answered(2, 3, stop("x", StopKind::Terminate), Ok(Answer::Done)).answered(
        4,
        5,
        describe(),
        saw(Running, 1),
    );
    assert_eq!(stale.told_to(Linearizable::of_writes()), Ok(()));
    let lost = running().answered(2, 3, stop("x", StopKind::Terminate), Ok(Answer::Done)).answered(
        4,
        5,
        publish("p"),
        published(7),
    );
    assert!(lost.told_to(Linearizable::of_writes()).is_err());
}
