use dexzd_core::engine::*;
use dexzd_core::ids::{Blob, Epoch, HandoutId, MessageId, Name, RunId};
use dexzd_core::time::Timestamp;
use dexzd_proto as proto;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use super::{decision, field::Field, options, value};

fn name() -> impl Strategy<Value = Name> {
    "[a-zA-Z$ü/ ]{0,6}".prop_map(Name::from)
}

fn milliseconds() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(limits::DURATION_MS), 0..limits::DURATION_MS]
}

fn value() -> impl Strategy<Value = Value> {
    (name(), vec(any::<u8>(), 0..6)).prop_map(|(encoding, data)| Value { encoding, data: Blob::from(data) })
}

fn key() -> impl Strategy<Value = Key> {
    (name(), option::of(name())).prop_map(|(name, instance)| Key { name, instance })
}

fn attribute_value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        name().prop_map(AttributeValue::String),
        any::<i64>().prop_map(AttributeValue::Int),
        (-1e9..1e9).prop_map(AttributeValue::Double),
        any::<bool>().prop_map(AttributeValue::Bool),
        value().prop_map(AttributeValue::Object),
    ]
}

fn attribute_write() -> impl Strategy<Value = AttributeWrite> {
    (key(), option::of(attribute_value())).prop_map(|(key, value)| AttributeWrite { key, value })
}

fn publication() -> impl Strategy<Value = Publication> {
    (key(), value()).prop_map(|(channel, value)| Publication { channel, value })
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Sync), Just(Durability::Async)]
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    (any::<i32>(), 0.0..9.0, any::<i32>(), any::<i32>(), any::<i32>()).prop_map(|(a, b, c, d, e)| {
        RetryPolicy {
            initial_interval_seconds: a,
            backoff_coefficient: b,
            maximum_interval_seconds: c,
            maximum_attempts: d,
            total_duration_seconds: e,
        }
    })
}

fn load() -> impl Strategy<Value = Load> {
    prop_oneof![
        key().prop_map(Load::AttributeInstance),
        name().prop_map(Load::AttributeMap),
        key().prop_map(Load::Channel),
        name().prop_map(Load::ChannelMap),
    ]
}

fn method_options() -> impl Strategy<Value = MethodOptions> {
    (option::of(milliseconds()), option::of(retry()), option::of(durability()), vec(load(), 0..3)).prop_map(
        |(timeout_ms, retry, durability, loads)| MethodOptions { timeout_ms, retry, durability, loads },
    )
}

fn step_options() -> impl Strategy<Value = StepOptions> {
    let flat = (method_options(), method_options(), option::of(milliseconds()), any::<bool>(), any::<bool>())
        .prop_map(|(wait_for, execute, heartbeat_timeout_ms, proceed, skip_wait_for)| StepOptions {
            wait_for,
            execute,
            heartbeat_timeout_ms,
            wait_for_failure: if proceed {
                WaitForFailurePolicy::Proceed
            } else {
                WaitForFailurePolicy::FailFlow
            },
            recovery: None,
            skip_wait_for,
        });
    flat.prop_recursive(3, 4, 1, |inner| {
        (inner.clone(), name(), inner).prop_map(|(outer, step_type, options)| StepOptions {
            recovery: Some(Box::new(Recovery { step_type, options })),
            ..outer
        })
    })
}

fn movement() -> impl Strategy<Value = Movement> {
    (name(), option::of(value()), step_options()).prop_map(|(step_type, input, options)| Movement {
        step_type,
        input,
        options,
    })
}

fn decision() -> impl Strategy<Value = Decision> {
    let kind = prop_oneof![
        vec(movement(), 0..3).prop_map(DecisionKind::GoTo),
        option::of(value()).prop_map(DecisionKind::GracefulComplete),
        Just(DecisionKind::DeadEnd),
        option::of(value()).prop_map(DecisionKind::ForceComplete),
        name().prop_map(DecisionKind::ForceFail),
        (option::of(value()), vec(key(), 0..3), vec(movement(), 0..2)).prop_map(
            |(output, channels, fallback)| DecisionKind::ForceCompleteIfChannelsEmpty {
                output,
                channels,
                fallback
            }
        ),
    ];
    (kind, vec(name(), 0..3), vec(name(), 0..3)).prop_map(|(kind, cancel_steps, cancel_sibling_steps)| {
        Decision { kind, cancel_steps, cancel_sibling_steps }
    })
}

fn wait() -> impl Strategy<Value = Wait> {
    let condition_kind = prop_oneof![
        milliseconds().prop_map(|duration_ms| ConditionKind::Timer { duration_ms }),
        (key(), option::of(any::<u32>()), option::of(any::<u32>()))
            .prop_map(|(channel, at_least, at_most)| ConditionKind::Channel { channel, at_least, at_most }),
    ];
    let condition = (option::of(name()), condition_kind).prop_map(|(id, kind)| Condition { id, kind });
    let kind = prop_oneof![
        Just(WaitKind::Skip),
        Just(WaitKind::UntilOne),
        Just(WaitKind::AllOf),
        Just(WaitKind::AnyOf),
        vec(vec(name(), 0..3), 0..3).prop_map(WaitKind::AnyCombinationOf),
    ];
    (kind, vec(condition, 0..4)).prop_map(|(kind, conditions)| Wait { kind, conditions })
}

proptest! {
    #[test]
    fn a_movement_survives_the_round_trip(movement in movement()) {
        let message = options::movement_out(&movement);
        prop_assert_eq!(options::movement_in(Field::top("start"), message), Ok(movement));
    }

    #[test]
    fn a_decision_survives_the_round_trip(decision in decision()) {
        let message = decision::decision_out(&decision);
        prop_assert_eq!(decision::decision_in(Field::top("decision"), message), Ok(decision));
    }

    #[test]
    fn a_wait_survives_the_round_trip(wait in wait()) {
        let message = super::wait::wait_out(&wait);
        prop_assert_eq!(super::wait::wait_in(Field::top("wait"), message), Ok(wait));
    }

    #[test]
    fn writes_and_publications_survive_the_round_trip(
        write in attribute_write(),
        publication in publication(),
    ) {
        let field = Field::top("effects");
        prop_assert_eq!(value::attribute_write_in(field, value::attribute_write_out(&write)), Ok(write));
        prop_assert_eq!(value::publication_in(field, value::publication_out(&publication)), Ok(publication));
    }

    #[test]
    fn a_page_token_survives_the_round_trip(micros in any::<u64>(), run in any::<u128>()) {
        let token = PageToken { start_time: Timestamp::from_micros(micros), run_id: RunId(run) };
        let page = page(Answer::Page { runs: Vec::new(), next: Some(token) }).expect("a page");
        let call = search(SearchFilter::default(), 7, &page.next_page_token);
        prop_assert_eq!(
            call,
            Ok(Call::Search { filter: SearchFilter::default(), page_size: 7, page_token: Some(token) })
        );
    }

    /// Whatever a client sends as a token or an ID is an error or a value, never a panic.
    #[test]
    fn any_text_is_taken_as_an_argument(text in ".{0,40}") {
        let _ = search(SearchFilter::default(), 0, &text);
        let target = proto::Target { flow_id: text.clone(), run_id: Some(text) };
        let _ = describe(proto::DescribeFlowRequest { target: Some(target) });
    }
}

fn start() -> proto::StartFlowRequest {
    proto::StartFlowRequest {
        request_id: "r".into(),
        flow_id: "f".into(),
        flow_type: "F".into(),
        start: Some(proto::Movement { step_type: "S".into(), ..Default::default() }),
        ..Default::default()
    }
}

/// The Bad input table of the start request, by its form.
#[test]
fn bad_input_of_a_start_is_refused_with_its_field() {
    type Spoil = fn(&mut proto::StartFlowRequest);
    let unknown = "99 is no value of this enum that the server knows; use one of its .proto file, or upgrade the \
                   server before its clients";
    let negative = "-1 ms is no duration: it must be between 0 and 3162240000000 ms (100 years)";
    let overflow =
        "9223372036854775807 ms is no duration: it must be between 0 and 3162240000000 ms (100 years)";
    let missing = "is missing and must be given";
    let unknown_kind = "is missing, or of a kind that the server does not know";
    let table: [(Spoil, &str, &str); 17] = [
        (|r| r.timeout_ms = Some(-1), "timeout_ms", negative),
        (|r| r.timeout_ms = Some(i64::MAX), "timeout_ms", overflow),
        (|r| r.start_delay_ms = Some(-1), "start_delay_ms", negative),
        (|r| r.retention_ms = Some(-1), "retention_ms", negative),
        (|r| r.timeout_policy = 99, "timeout_policy", unknown),
        (|r| r.id_reuse_policy = 99, "id_reuse_policy", unknown),
        (
            |r| r.retry = Some(proto::RetryPolicy::default()),
            "retry",
            "a Flow has no retry policy: set one in the options of its Steps, and leave this field out",
        ),
        (|r| r.attributes.push(proto::AttributeEntry::default()), "attributes[0].key", missing),
        (
            |r| r.config = Some(proto::FlowConfig { active_step_search: 99, step_durability: 0 }),
            "config.active_step_search",
            unknown,
        ),
        (
            |r| r.config = Some(proto::FlowConfig { active_step_search: 0, step_durability: 99 }),
            "config.step_durability",
            unknown,
        ),
        (|r| options(r).wait_for_failure = 99, "start.options.wait_for_failure", unknown),
        (|r| options(r).heartbeat_timeout_ms = Some(-1), "start.options.heartbeat_timeout_ms", negative),
        (|r| execute(r).timeout_ms = Some(i64::MAX), "start.options.execute.timeout_ms", overflow),
        (|r| execute(r).durability = 99, "start.options.execute.durability", unknown),
        (
            |r| execute(r).loads = vec![proto::Load::default()],
            "start.options.execute.loads[0].kind",
            unknown_kind,
        ),
        (
            |r| {
                let options = proto::StepOptions { heartbeat_timeout_ms: Some(-1), ..Default::default() };
                let recovery = proto::Recovery { step_type: "R".into(), options: Some(Box::new(options)) };
                self::options(r).recovery = Some(Box::new(recovery));
            },
            "start.options.recovery.options.heartbeat_timeout_ms",
            negative,
        ),
        (
            |r| {
                let method = proto::MethodOptions { timeout_ms: Some(-1), ..Default::default() };
                r.timeout_handler =
                    Some(proto::TimeoutHandlerOptions { method: Some(method), ..Default::default() });
            },
            "timeout_handler.method.timeout_ms",
            negative,
        ),
    ];
    assert!(start_flow(start()).is_ok());
    for (spoil, field, rule) in table {
        let mut request = start();
        spoil(&mut request);
        assert_eq!(start_flow(request), Err(Invalid { field: field.into(), rule: rule.into() }));
    }
}

fn options(request: &mut proto::StartFlowRequest) -> &mut proto::StepOptions {
    request.start.as_mut().expect("set by `start`").options.get_or_insert_default()
}

fn execute(request: &mut proto::StartFlowRequest) -> &mut proto::MethodOptions {
    options(request).execute.get_or_insert_default()
}

#[test]
fn bad_input_of_other_calls_is_refused_with_its_field() {
    let target = || Some(proto::Target { flow_id: "f".into(), run_id: None });
    let field = |call: Result<Call, Invalid>| call.expect_err("malformed").field;
    assert_eq!(field(describe(proto::DescribeFlowRequest { target: None })), "target");
    let short = proto::Target { flow_id: "f".into(), run_id: Some("12".into()) };
    assert_eq!(field(state(proto::GetFlowStateRequest { target: Some(short) })), "target.run_id");
    let empty = proto::Target { flow_id: "f".into(), run_id: Some(String::new()) };
    assert_eq!(field(state(proto::GetFlowStateRequest { target: Some(empty) })), "target.run_id");
    assert_eq!(
        field(stop_flow(proto::StopFlowRequest { target: target(), kind: 9, ..Default::default() })),
        "kind"
    );
    let publications = vec![proto::Publication { channel: Some(proto::Key::default()), value: None }];
    assert_eq!(
        field(publish(proto::PublishToChannelRequest {
            target: target(),
            publications,
            ..Default::default()
        })),
        "publications[0].value"
    );
    assert_eq!(
        field(delete_messages(proto::DeleteChannelMessagesRequest {
            target: target(),
            channel: Some(proto::Key::default()),
            message_ids: vec!["f".repeat(32), "g".repeat(32)],
            ..Default::default()
        })),
        "message_ids[1]"
    );
    assert_eq!(
        field(skip_timer(proto::SkipTimerRequest { target: target(), timer: None, ..Default::default() })),
        "timer"
    );
    assert_eq!(
        field(update_config(proto::UpdateFlowConfigRequest { target: target(), ..Default::default() })),
        "config"
    );
    assert_eq!(
        field(wait_for_flow(proto::WaitForFlowRequest { target: target(), wait_ms: Some(-5) })),
        "wait_ms"
    );
    assert_eq!(
        field(wait_for_step(proto::WaitForStepRequest { target: target(), step: None, wait_ms: None })),
        "step"
    );
    for token in ["x", "12", "-", &format!("+1-{}", "0".repeat(32)), &format!("1-{}", "0".repeat(31))] {
        assert_eq!(field(search(SearchFilter::default(), 0, token)), "page_token", "{token}");
    }
}

#[test]
fn unspecified_enums_are_defaults() {
    let Ok(Call::Start(start)) = start_flow(start()) else { panic!("well-formed") };
    assert_eq!(start.id_reuse, IdReusePolicy::Disallow);
    assert_eq!(start.timeout_policy, None);
    assert_eq!(start.config, FlowConfig::default());
    let movement = start.start.expect("given");
    assert_eq!(movement.options, StepOptions::default());
    let target = Some(proto::Target { flow_id: "f".into(), run_id: None });
    let history = history(proto::GetFlowHistoryRequest { target, start_event: 0, page_size: 0 });
    let target = Target { flow_id: Name::new("f"), run_id: None };
    assert_eq!(history, Ok(Call::History { target, start_event: 1, page_size: 100 }));
}

#[test]
fn bad_frames_are_refused_with_their_field() {
    use proto::worker_frame::{ExecuteDone, Failed, Heartbeat, Kind, WaitForDone};
    let handout = || Some(proto::HandoutId { epoch: 3, counter: 4 });
    let refused = |kind: Option<Kind>| match worker_frame(2, proto::WorkerFrame { kind }) {
        Err(invalid) => invalid.field,
        Ok(frame) => panic!("accepted as {frame:?}"),
    };
    assert_eq!(refused(None), "frames[2].kind");
    assert_eq!(refused(Some(Kind::Heartbeat(Heartbeat::default()))), "frames[2].heartbeat.handout");
    assert_eq!(
        refused(Some(Kind::Hello(proto::Hello { protocol_version: 2, ..Default::default() }))),
        "frames[2].hello.protocol_version"
    );
    let wait_done = |wait| Some(Kind::WaitForDone(WaitForDone { handout: handout(), wait, effects: None }));
    assert_eq!(refused(wait_done(None)), "frames[2].wait_for_done.wait");
    assert_eq!(refused(wait_done(Some(proto::Wait::default()))), "frames[2].wait_for_done.wait.kind");
    let kind = proto::wait::Kind::AllOf.into();
    let conditions = vec![proto::Condition::default()];
    assert_eq!(
        refused(wait_done(Some(proto::Wait { kind, conditions, groups: Vec::new() }))),
        "frames[2].wait_for_done.wait.conditions[0].kind"
    );
    let timer = proto::condition::Kind::Timer(proto::condition::Timer { duration_ms: -1 });
    let conditions = vec![proto::Condition { condition_id: None, kind: Some(timer) }];
    assert_eq!(
        refused(wait_done(Some(proto::Wait { kind, conditions, groups: Vec::new() }))),
        "frames[2].wait_for_done.wait.conditions[0].timer.duration_ms"
    );
    let groups = vec![proto::wait::Group::default()];
    assert_eq!(
        refused(wait_done(Some(proto::Wait { kind, conditions: Vec::new(), groups }))),
        "frames[2].wait_for_done.wait.groups"
    );
    let done =
        |decision, effects| Some(Kind::ExecuteDone(ExecuteDone { handout: handout(), decision, effects }));
    assert_eq!(refused(done(None, None)), "frames[2].execute_done.decision");
    assert_eq!(refused(done(Some(proto::Decision::default()), None)), "frames[2].execute_done.decision.kind");
    let dead_end = proto::Decision {
        kind: Some(proto::decision::Kind::DeadEnd(proto::decision::DeadEnd {})),
        ..Default::default()
    };
    let deletions =
        vec![proto::MessageDeletion { channel: Some(proto::Key::default()), message_id: "no".into() }];
    assert_eq!(
        refused(done(Some(dead_end), Some(proto::Effects { deletions, ..Default::default() }))),
        "frames[2].execute_done.effects.deletions[0].message_id"
    );
    let failed = |failure, retry_after_ms| {
        Some(Kind::Failed(Failed { handout: handout(), failure, non_retryable: false, retry_after_ms }))
    };
    assert_eq!(refused(failed(None, None)), "frames[2].failed.failure");
    assert_eq!(refused(failed(Some(proto::Failure::default()), Some(-1))), "frames[2].failed.retry_after_ms");
}

#[test]
fn d_044_every_frame_keeps_its_hand_out_id() {
    use proto::worker_frame::Kind;
    let message = proto::HandoutId { epoch: 3, counter: 4 };
    let handout = HandoutId { epoch: Epoch(3), counter: 4 };
    assert_eq!(
        worker_frame(0, proto::WorkerFrame { kind: Some(Kind::Decline(message)) }),
        Ok(WorkerFrame::Decline { handout })
    );
    assert_eq!(
        worker_frame(0, proto::WorkerFrame { kind: Some(Kind::ReturnUnused(message)) }),
        Ok(WorkerFrame::Return { handout })
    );
    let settled = server_frame(&ServerFrame::Settled { handout, accepted: false });
    let expected = proto::server_frame::Settled { handout: Some(message), accepted: false };
    assert_eq!(settled.kind, Some(proto::server_frame::Kind::Settled(expected)));
}

#[test]
fn ids_are_shown_as_they_are_read() {
    let published = published(Answer::Published(vec![MessageId(0xab)])).expect("its own kind");
    assert_eq!(published.message_ids, ["000000000000000000000000000000ab"]);
    assert_eq!(MessageId::parse(&published.message_ids[0]), Some(MessageId(0xab)));
}

#[test]
fn an_answer_of_another_kind_is_a_fault_of_the_server() {
    assert_eq!(
        started(Answer::Done),
        Err(CallError::Internal { detail: Name::new("the engine gave StartFlow an answer of another kind") })
    );
    assert!(done(Answer::StepCompleted).is_err());
    assert!(page(Answer::Done).is_err());
}
