//! What a handler returns, and what the server gets of it.

use std::time::Duration;

use dexzd_proto as proto;
use proto::decision::Kind as DecisionKind;
use proto::worker_frame::{ExecuteDone, Failed, Heartbeat, Kind, WaitForDone};

use super::fixture::*;
use crate::CancelReason;
use crate::prelude::*;
use crate::testing::{FakeServer, send_task, task};

const MESSAGE_ID: &str = "01a22e99e2797c23833bc3db9de0948e";

fn json(text: &str) -> Option<proto::Value> {
    Some(proto::Value { encoding: "json".to_owned(), data: text.as_bytes().to_vec() })
}

fn key(name: &str, instance: Option<&str>) -> Option<proto::Key> {
    Some(proto::Key { name: name.to_owned(), instance: instance.map(str::to_owned) })
}

fn named(name: &str, value: &str) -> proto::NamedValue {
    proto::NamedValue { name: name.to_owned(), value: json(value) }
}

/// Runs one task and returns the frame that comes of it.
async fn frame_of(flow: Test, task: proto::Task) -> Kind {
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    send_task(&stream, task);
    stream.next().await
}

async fn failure_of(flow: Test, task: proto::Task) -> Failed {
    let frame = frame_of(flow, task).await;
    let Kind::Failed(failed) = frame else {
        panic!("expected a failure, got {frame:?}");
    };
    failed
}

fn failure_text(failed: &Failed) -> (&str, &str) {
    let failure = failed.failure.as_ref().expect("a failure has a text");
    (&failure.error_type, &failure.detail)
}

#[tokio::test(start_paused = true)]
async fn d_044_a_result_repeats_the_handout_and_carries_every_effect() {
    let flow = working(|ctx| {
        Box::pin(async move {
            ctx.set(&STATUS, "busy")?;
            ctx.set(&SCORES.at("ada"), &3)?;
            ctx.clear(&SCORES.at("bob"))?;
            ctx.publish(&INBOX, "hello")?;
            ctx.publish(&VOTES.at("ada"), &1)?;
            ctx.delete_message(&INBOX, MESSAGE_ID)?;
            ctx.record("seen", &true)?;
            Ok(Decision::go_to::<Work>(&Some("next".to_owned())).cancelling::<Pause>())
        })
    });
    let frame = frame_of(flow, task("Work", proto::Method::Execute, 5)).await;
    let attribute = |name, instance, kind| proto::AttributeEntry {
        key: key(name, instance),
        value: Some(proto::AttributeValue { kind }),
    };
    let publication =
        |name, instance, value| proto::Publication { channel: key(name, instance), value: json(value) };
    assert_eq!(
        frame,
        Kind::ExecuteDone(ExecuteDone {
            handout: Some(proto::HandoutId { epoch: 7, counter: 5 }),
            decision: Some(proto::Decision {
                kind: Some(DecisionKind::GoTo(proto::decision::GoTo {
                    movements: vec![proto::Movement {
                        step_type: "Work".to_owned(),
                        input: json("\"next\""),
                        options: Some(Work::options().to_proto(false)),
                    }],
                })),
                cancel_steps: vec!["Pause".to_owned()],
                cancel_sibling_steps: vec![],
            }),
            effects: Some(proto::Effects {
                attributes: vec![
                    attribute(
                        "status",
                        None,
                        Some(proto::attribute_value::Kind::StringValue("busy".to_owned()))
                    ),
                    attribute("scores", Some("ada"), Some(proto::attribute_value::Kind::IntValue(3))),
                    attribute("scores", Some("bob"), None),
                ],
                publications: vec![
                    publication("inbox", None, "\"hello\""),
                    publication("votes", Some("ada"), "1"),
                ],
                deletions: vec![proto::MessageDeletion {
                    channel: key("inbox", None),
                    message_id: MESSAGE_ID.to_owned(),
                }],
                locals: vec![],
                events: vec![named("seen", "true")],
            }),
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_that_waits_is_scheduled_with_its_wait_for_and_others_without() {
    assert!(!Movement::to::<Pause>(&()).into_proto().unwrap().options.unwrap().skip_wait_for);
    assert!(Movement::to::<Work>(&None).into_proto().unwrap().options.unwrap().skip_wait_for);
}

#[tokio::test(start_paused = true)]
async fn a_wait_travels_with_the_names_of_its_conditions_and_execute_finds_them_again() {
    let wait = |_: &Context| -> WaitResult {
        Ok(Wait::any_of([
            Condition::timer(Duration::from_millis(1_500)).id("late"),
            Condition::between(&INBOX, 2, 5),
            Condition::message(&VOTES.at("ada")),
        ]))
    };
    let pause = move || {
        pausing(move |ctx| {
            Box::pin(async move {
                ctx.set_local("kept", &9)?;
                wait(ctx)
            })
        })
    };
    let Kind::WaitForDone(WaitForDone { wait: Some(wait), effects: Some(effects), .. }) =
        frame_of(pause(), task("Pause", proto::Method::WaitFor, 1)).await
    else {
        panic!("expected a Wait");
    };
    use proto::condition::{Channel, Kind as ConditionKind, Timer};
    let channel = |key, at_least, at_most| proto::Condition {
        condition_id: None,
        kind: Some(ConditionKind::Channel(Channel { channel: key, at_least, at_most })),
    };
    assert_eq!(
        wait,
        proto::Wait {
            kind: proto::wait::Kind::AnyOf.into(),
            conditions: vec![
                proto::Condition {
                    condition_id: Some("late".to_owned()),
                    kind: Some(ConditionKind::Timer(Timer { duration_ms: 1_500 })),
                },
                channel(key("inbox", None), Some(2), Some(5)),
                channel(key("votes", Some("ada")), None, None),
            ],
            groups: vec![],
        }
    );

    let mut execute = task("Pause", proto::Method::Execute, 2);
    execute.locals = effects.locals;
    let timer = |fired| proto::ConditionResult {
        kind: Some(proto::condition_result::Kind::Timer(proto::condition_result::Timer { fired })),
    };
    let values = |values: &[&str]| proto::ConditionResult {
        kind: Some(proto::condition_result::Kind::Channel(proto::condition_result::Channel {
            values: values.iter().filter_map(|value| json(value)).collect(),
        })),
    };
    execute.conditions = vec![timer(false), values(&["\"a\"", "\"b\""]), values(&["4"])];
    let Kind::ExecuteDone(done) = frame_of(pause(), execute).await else {
        panic!("expected a decision");
    };
    assert_eq!(
        done.decision.unwrap().kind,
        Some(DecisionKind::GracefulComplete(proto::decision::Complete {
            output: json("[false,false,[\"a\",\"b\"],4,9]"),
        }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_new_code_does_not_wait_answers_an_old_wait_for_with_skip() {
    let flow = working(|_| Box::pin(async { Ok(Decision::dead_end()) }));
    let Kind::WaitForDone(done) = frame_of(flow, task("Work", proto::Method::WaitFor, 1)).await else {
        panic!("expected a Wait");
    };
    assert_eq!(done.wait.unwrap().kind(), proto::wait::Kind::Skip);
}

#[tokio::test(start_paused = true)]
async fn names_outside_the_schema_are_refused_by_name() {
    let attribute = working(|ctx| {
        Box::pin(async move {
            ctx.set(&UNDECLARED_ATTRIBUTE, "red")?;
            Ok(Decision::dead_end())
        })
    });
    let channel = working(|ctx| {
        Box::pin(async move {
            ctx.publish(&UNDECLARED_CHANNEL, "x")?;
            Ok(Decision::dead_end())
        })
    });
    let step = working(|_| Box::pin(async { Ok(Decision::go_to::<Stranger>(&())) }));
    let execute = || task("Work", proto::Method::Execute, 1);
    assert_eq!(
        failure_text(&failure_of(attribute, execute()).await),
        (
            "UndeclaredError",
            "the Flow type \"Test\" declares no Attribute \"colour\": add it to the Flow's definition with \
             `.attribute(…)`"
        )
    );
    assert_eq!(
        failure_text(&failure_of(channel, execute()).await),
        (
            "UndeclaredError",
            "the Flow type \"Test\" declares no Channel \"outbox\": add it to the Flow's definition with `.channel(…)`"
        )
    );
    assert_eq!(
        failure_text(&failure_of(step, execute()).await),
        (
            "UndeclaredStep",
            "the decision names the Step \"Stranger\", which the Flow type \"Test\" does not have: add it to the \
             Flow's definition with `.step(…)`"
        )
    );
    let wait = pausing(|_| Box::pin(async { Ok(Wait::until(Condition::message(&UNDECLARED_CHANNEL))) }));
    assert_eq!(
        failure_text(&failure_of(wait, task("Pause", proto::Method::WaitFor, 1)).await).0,
        "UndeclaredError"
    );
}

#[tokio::test(start_paused = true)]
async fn reads_see_the_snapshot_and_then_what_this_call_has_staged() {
    let flow = working(|ctx| {
        Box::pin(async move {
            let before = ctx.get(&STATUS)?;
            ctx.set(&STATUS, "new")?;
            let after = ctx.get(&STATUS)?;
            ctx.clear(&STATUS)?;
            let cleared = ctx.get(&STATUS)?;
            let messages = ctx.messages(&INBOX)?;
            let first = messages.first().map(|message| message.id.clone());
            let unloaded = ctx.messages(&VOTES.at("ada")).unwrap_err().error_type().to_owned();
            let seen = (
                before,
                after,
                cleared,
                ctx.get(&SCORES.at("ada"))?,
                ctx.channel_size(&INBOX)?,
                first,
                unloaded,
            );
            Ok(Decision::complete(&seen))
        })
    });
    let mut execute = task("Work", proto::Method::Execute, 1);
    execute.snapshot = Some(proto::Snapshot {
        attributes: vec![proto::AttributeEntry {
            key: key("status", None),
            value: Some(proto::AttributeValue {
                kind: Some(proto::attribute_value::Kind::StringValue("old".to_owned())),
            }),
        }],
        channel_sizes: vec![proto::ChannelSize { channel: key("inbox", None), size: 4 }],
        messages: vec![proto::ChannelMessages {
            channel: key("inbox", None),
            messages: vec![proto::Message { message_id: "m-1".to_owned(), value: json("\"hello\"") }],
        }],
    });
    let Kind::ExecuteDone(done) = frame_of(flow, execute).await else {
        panic!("expected a decision");
    };
    assert_eq!(
        done.decision.unwrap().kind,
        Some(DecisionKind::GracefulComplete(proto::decision::Complete {
            output: json("[\"old\",\"new\",null,null,4,\"m-1\",\"NotLoaded\"]"),
        }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_the_attempt_and_nothing_else() {
    let flow = working(|ctx| {
        Box::pin(async move {
            assert!(ctx.attempt() > 1, "no luck the first time");
            Ok(Decision::dead_end())
        })
    });
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    send_task(&stream, task("Work", proto::Method::Execute, 1));
    let Kind::Failed(failed) = stream.next().await else {
        panic!("expected a failure");
    };
    assert_eq!(failure_text(&failed), ("Panic", "the handler panicked: no luck the first time"));
    assert!(!failed.non_retryable);

    let mut second = task("Work", proto::Method::Execute, 2);
    second.attempt = 2;
    send_task(&stream, second);
    assert!(matches!(stream.next().await, Kind::ExecuteDone(_)));
}

#[tokio::test(start_paused = true)]
async fn an_error_says_whether_and_when_it_is_retried() {
    let flow = working(|ctx| {
        Box::pin(async move {
            Err(match ctx.attempt() {
                1 => StepError::new("Busy", "later").retry_after(Duration::from_secs(30)),
                2 => StepError::new("NoCard", "never").non_retryable(),
                _ => "x".parse::<u32>().unwrap_err().into(),
            })
        })
    });
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    let mut seen = Vec::new();
    for attempt in 1..=3 {
        let mut execute = task("Work", proto::Method::Execute, u64::from(attempt));
        execute.attempt = attempt;
        send_task(&stream, execute);
        let Kind::Failed(failed) = stream.next().await else {
            panic!("expected a failure");
        };
        seen.push((failure_text(&failed).0.to_owned(), failed.non_retryable, failed.retry_after_ms));
    }
    assert_eq!(
        seen,
        [
            ("Busy".to_owned(), false, Some(30_000)),
            ("NoCard".to_owned(), true, None),
            ("ParseIntError".to_owned(), false, None),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_result_that_would_break_the_stream_fails_its_own_attempt_only() {
    let bad_id = working(|ctx| {
        Box::pin(async move {
            ctx.delete_message(&INBOX, "m-1")?;
            Ok(Decision::dead_end())
        })
    });
    let too_large = working(|ctx| {
        Box::pin(async move {
            let text = "x".repeat(1_000_000);
            for _ in 0..9 {
                ctx.publish(&INBOX, &text)?;
            }
            Ok(Decision::dead_end())
        })
    });
    let execute = || task("Work", proto::Method::Execute, 1);
    assert_eq!(
        failure_text(&failure_of(bad_id, execute()).await),
        (
            "InvalidMessageId",
            "\"m-1\" is no message ID: take one from Context::messages, 32 hexadecimal digits"
        )
    );
    assert_eq!(failure_text(&failure_of(too_large, execute()).await).0, "ResultTooLarge");
    let Kind::WaitForDone(done) = frame_of(
        pausing(|_| Box::pin(async { Ok(Wait::until(Condition::timer(Duration::MAX))) })),
        task("Pause", proto::Method::WaitFor, 1),
    )
    .await
    else {
        panic!("expected a Wait");
    };
    let century = Some(proto::condition::Kind::Timer(proto::condition::Timer {
        duration_ms: 100 * 366 * 24 * 3_600 * 1_000,
    }));
    assert_eq!(done.wait.unwrap().conditions[0].kind, century);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_outlives_its_deadline_is_ended_and_reported() {
    let flow = working(|_| Box::pin(std::future::pending()));
    let mut execute = task("Work", proto::Method::Execute, 1);
    execute.deadline_unix_ms -= 7_190_000;
    let began = tokio::time::Instant::now();
    assert_eq!(failure_text(&failure_of(flow, execute).await).0, "DeadlineExceeded");
    assert!(began.elapsed() <= Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn fd_014_checkpoints_leave_at_once_and_the_next_attempt_gets_the_stored_one() {
    let flow = working(|ctx| {
        Box::pin(async move {
            let before: Option<u32> = ctx.last_checkpoint()?;
            match ctx.attempt() {
                1 => ctx.checkpoint(&(before.unwrap_or(0) + 1))?,
                2 => ctx.keep_alive(),
                _ => ctx.heartbeat(),
            }
            let after: Option<u32> = ctx.last_checkpoint()?;
            Ok(Decision::complete(&(before, after)))
        })
    });
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    let cases = [(json("42"), "[41,42]"), (json("41"), "[41,41]"), (None, "[41,null]")];
    for (attempt, (checkpoint, output)) in (1..).zip(cases) {
        let mut execute = task("Work", proto::Method::Execute, u64::from(attempt));
        execute.attempt = attempt;
        execute.checkpoint = json("41");
        let handout = execute.handout;
        send_task(&stream, execute);
        assert_eq!(stream.next().await, Kind::Heartbeat(Heartbeat { handout, checkpoint }));
        let Kind::ExecuteDone(done) = stream.next().await else {
            panic!("expected a decision");
        };
        assert_eq!(
            done.decision.unwrap().kind,
            Some(DecisionKind::GracefulComplete(proto::decision::Complete { output: json(output) }))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn fd_032_the_idempotency_key_is_equal_for_every_attempt() {
    let key_of = |attempt| async move {
        let flow = working(|ctx| Box::pin(async move { Ok(Decision::complete(&ctx.idempotency_key())) }));
        let mut execute = task("Work", proto::Method::Execute, u64::from(attempt));
        execute.attempt = attempt;
        let Kind::ExecuteDone(done) = frame_of(flow, execute).await else {
            panic!("expected a decision");
        };
        done.decision.unwrap().kind
    };
    let expected = Some(DecisionKind::GracefulComplete(proto::decision::Complete {
        output: json("\"flow-1/run-1/Work-1\""),
    }));
    assert_eq!(key_of(1).await, expected);
    assert_eq!(key_of(2).await, expected);
}

#[tokio::test(start_paused = true)]
async fn fd_025_a_task_of_an_unknown_step_or_flow_type_is_declined() {
    let flow = working(|_| Box::pin(async { Ok(Decision::dead_end()) }));
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    send_task(&stream, task("Renamed", proto::Method::Execute, 1));
    assert_eq!(stream.next().await, Kind::Decline(proto::HandoutId { epoch: 7, counter: 1 }));
    let mut other_flow = task("Work", proto::Method::Execute, 2);
    other_flow.flow_type = "Other".to_owned();
    send_task(&stream, other_flow);
    assert_eq!(stream.next().await, Kind::Decline(proto::HandoutId { epoch: 7, counter: 2 }));
    send_task(&stream, task("$timeoutHandler", proto::Method::Execute, 3));
    assert_eq!(stream.next().await, Kind::Decline(proto::HandoutId { epoch: 7, counter: 3 }));
}

/// A Flow type whose timeout handler says so.
struct Timed;

impl Flow for Timed {
    const TYPE: &'static str = "Test";
    type Start = Work;
    type Output = String;
    const HAS_TIMEOUT_HANDLER: bool = true;

    fn define(&self) -> Definition<Self> {
        let work = Work { body: std::sync::Arc::new(|_| Box::pin(async { Ok(Decision::dead_end()) })) };
        Definition::starting_with(work).attribute_map(&SCORES).channel(&INBOX).timeout_handler(Overdue)
    }
}

struct Overdue;

impl TimeoutHandler for Overdue {
    async fn handle(&self, ctx: &Context) -> StepResult {
        Ok(Decision::force_complete(&format!("{} is overdue", ctx.flow_id())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_handler_runs_and_decides_like_a_step() {
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker_at(server.link.clone(), Timed));
    let mut stream = server.stream().await;
    let Kind::Hello(hello) = stream.next().await else {
        panic!("expected a hello");
    };
    assert!(hello.flow_types[0].timeout_handler);
    send_task(&stream, task("$timeoutHandler", proto::Method::Execute, 1));
    let Kind::ExecuteDone(done) = stream.next().await else {
        panic!("expected a decision");
    };
    assert_eq!(
        done.decision.unwrap().kind,
        Some(DecisionKind::ForceComplete(proto::decision::Complete {
            output: json("\"flow-1 is overdue\""),
        }))
    );
}

#[tokio::test(start_paused = true)]
async fn fd_017_a_recovery_step_sees_what_failed_and_how_far_it_came() {
    let flow = working(|ctx| {
        Box::pin(async move {
            let recovery = ctx.recovery().ok_or_else(|| StepError::new("NoRecovery", "none given"))?;
            Ok(Decision::complete(&format!(
                "{} {} {:?} {}",
                recovery.error_type,
                recovery.detail,
                recovery.progress,
                ctx.wait_for_failed()
            )))
        })
    });
    let mut execute = task("Work", proto::Method::Execute, 1);
    execute.recovery = Some(proto::RecoveryInfo {
        error_type: "WorkerLost".to_owned(),
        detail: "the stream ended".to_owned(),
        progress: proto::AttemptProgress::NotCompleted.into(),
    });
    execute.wait_for_failed = true;
    let Kind::ExecuteDone(done) = frame_of(flow, execute).await else {
        panic!("expected a decision");
    };
    assert_eq!(
        done.decision.unwrap().kind,
        Some(DecisionKind::GracefulComplete(proto::decision::Complete {
            output: json("\"WorkerLost the stream ended NotCompleted true\""),
        }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_sends_nothing_more() {
    let (told, mut reasons) = tokio::sync::mpsc::unbounded_channel();
    let flow = working(move |ctx| {
        let told = told.clone();
        Box::pin(async move {
            let _ = told.send(ctx.cancelled().await);
            ctx.checkpoint(&1)?;
            Ok(Decision::dead_end())
        })
    });
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    let execute = task("Work", proto::Method::Execute, 1);
    let handout = execute.handout;
    send_task(&stream, execute);
    stream.cancel(handout, proto::CancelReason::FlowClosed);
    assert_eq!(reasons.recv().await, Some(CancelReason::FlowClosed));
    assert!(stream.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_handler_that_does_not_listen_is_dropped_after_5_s() {
    struct Dropped(tokio::sync::mpsc::UnboundedSender<Duration>, tokio::time::Instant);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(self.1.elapsed());
        }
    }
    let (dropped, mut drops) = tokio::sync::mpsc::unbounded_channel();
    let flow = working(move |_| {
        let guard = Dropped(dropped.clone(), tokio::time::Instant::now());
        Box::pin(async move {
            let _guard = guard;
            std::future::pending().await
        })
    });
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let stream = server.stream_after_hello().await;
    let execute = task("Work", proto::Method::Execute, 1);
    let handout = execute.handout;
    send_task(&stream, execute);
    stream.cancel(handout, proto::CancelReason::StepCancelled);
    let after = drops.recv().await.unwrap();
    assert_eq!(after.as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn d_021_a_result_after_the_servers_drain_request_is_still_sent() {
    let flow = working(|ctx| {
        Box::pin(async move {
            let reason = ctx.cancelled().await;
            Ok(Decision::complete(&format!("{reason:?}")))
        })
    });
    let mut server = FakeServer::start();
    let (_stop, _worker) = run(worker(&server, flow));
    let mut stream = server.stream_after_hello().await;
    let execute = task("Work", proto::Method::Execute, 1);
    let handout = execute.handout;
    send_task(&stream, execute);
    stream.cancel(handout, proto::CancelReason::DrainOver);
    let Kind::ExecuteDone(done) = stream.next().await else {
        panic!("expected a decision");
    };
    assert_eq!(
        done.decision.unwrap().kind,
        Some(DecisionKind::GracefulComplete(proto::decision::Complete {
            output: json("\"ServerStopping\""),
        }))
    );
}
