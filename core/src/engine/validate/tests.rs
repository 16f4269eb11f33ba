use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::engine::{
    AttributeValue, AttributeWrite, CallError, Condition, ConditionKind, Decision, DecisionKind, Effects,
    Failure, FlowTypeDefinition, Hello, Key, Load, Method, MethodOptions, Movement, NamedValue, Publication,
    Recovery, RetryPolicy, StepOptions, StopKind, TimeoutHandlerOptions, Value, Wait, WaitKind, WorkerFrame,
    limits,
};
use crate::ids::{Blob, HandoutId};

fn key(name: &str) -> Key {
    Key { name: Name::new(name), instance: None }
}

fn instance(name: &str, instance: &str) -> Key {
    Key { name: Name::new(name), instance: Some(Name::new(instance)) }
}

fn value(bytes: usize) -> Value {
    Value { encoding: Name::new("json"), data: Blob::from(vec![b' '; bytes]) }
}

fn long(bytes: usize) -> Name {
    Name::from("x".repeat(bytes))
}

fn movement(step_type: &str) -> Movement {
    Movement { step_type: Name::new(step_type), input: None, options: StepOptions::default() }
}

fn start() -> StartFlow {
    StartFlow {
        request_id: Name::new("r"),
        flow_id: Name::new("f"),
        flow_type: Name::new("Order"),
        start: Some(movement("Pay")),
        ..StartFlow::default()
    }
}

fn target() -> Target {
    Target { flow_id: Name::new("f"), run_id: None }
}

fn retried(policy: RetryPolicy) -> StepOptions {
    let execute = MethodOptions { retry: Some(policy), ..MethodOptions::default() };
    StepOptions { execute, ..StepOptions::default() }
}

/// What is refused, as a person reads it; "accepted" otherwise.
fn text(check: Result<(), CallError>) -> String {
    match check {
        Ok(()) => "accepted".to_string(),
        Err(CallError::InvalidArgument { field, rule }) => std::format!("{field} {rule}"),
        Err(CallError::LimitExceeded { limit }) => std::format!("limit: {limit}"),
        Err(other) => panic!("checks give two kinds of errors, not {other:?}"),
    }
}

fn start_text(change: impl FnOnce(&mut StartFlow)) -> String {
    let mut start = start();
    change(&mut start);
    text(validate_call(&Call::Start(alloc::boxed::Box::new(start))))
}

fn options_text(options: StepOptions) -> String {
    start_text(|start| start.start.as_mut().expect("it has a start Step").options = options)
}

#[test]
fn bad_input_a_good_start_is_accepted() {
    assert_eq!(start_text(|_| {}), "accepted");
    let idle = start_text(|start| start.start = None);
    assert_eq!(idle, "accepted");
}

#[test]
fn bad_input_empty_and_over_long_ids_are_named() {
    assert_eq!(
        start_text(|start| start.request_id = Name::default()),
        "request_id is empty: it must have at least one character"
    );
    assert_eq!(start_text(|start| start.flow_id = long(limits::NAME_BYTES)), "accepted");
    assert_eq!(
        start_text(|start| start.flow_id = long(limits::NAME_BYTES + 1)),
        "flow_id \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"… has 256 bytes, at most 255 are allowed: \
         choose a shorter one"
    );
    assert_eq!(
        start_text(|start| start.flow_type = Name::default()),
        "flow_type is empty: it must have at least one character"
    );
    assert_eq!(
        start_text(|start| start.start = Some(movement(""))),
        "start.step_type is empty: it must have at least one character"
    );
    assert_eq!(
        start_text(|start| start.start = Some(movement("$timeoutHandler"))),
        "start.step_type \"$timeoutHandler\" begins with $, which is reserved for the server: rename the Step"
    );
}

#[test]
fn concepts_1_1_a_timeout_policy_needs_a_positive_timeout() {
    let without = "timeout_policy is given without a timeout: set timeout_ms to a positive number, or leave the \
                   policy out";
    for policy in [TimeoutPolicy::Fail, TimeoutPolicy::Cancel, TimeoutPolicy::Handler] {
        assert_eq!(start_text(|start| start.timeout_policy = Some(policy)), without);
        let zero = start_text(|start| {
            start.timeout_ms = Some(0);
            start.timeout_policy = Some(policy);
        });
        assert_eq!(zero, without);
    }
    let positive = start_text(|start| {
        start.timeout_ms = Some(1);
        start.timeout_policy = Some(TimeoutPolicy::Cancel);
    });
    assert_eq!(positive, "accepted");
}

#[test]
fn concepts_1_1_handler_without_a_handler_is_rejected_before_the_start() {
    let missing = start_text(|start| {
        start.timeout_ms = Some(1);
        start.timeout_policy = Some(TimeoutPolicy::Handler);
    });
    assert_eq!(
        missing,
        "timeout_policy HANDLER needs a timeout handler and the Flow type \"Order\" has none: choose FAIL or \
         CANCEL, or define a handler"
    );
}

#[test]
fn concepts_1_1_handler_options_need_a_timeout_and_the_handler_policy() {
    let refused = "timeout_handler handler options need a positive timeout_ms and the timeout policy HANDLER: set \
                   both, or leave the options out";
    let with_options = |change: fn(&mut StartFlow)| {
        start_text(|start| {
            start.timeout_handler = Some(TimeoutHandlerOptions::default());
            change(start);
        })
    };
    assert_eq!(with_options(|_| {}), refused);
    assert_eq!(with_options(|start| start.has_timeout_handler = true), refused);
    assert_eq!(with_options(|start| start.timeout_ms = Some(5)), refused);
    assert_eq!(
        with_options(|start| {
            start.timeout_ms = Some(5);
            start.has_timeout_handler = true;
            start.timeout_policy = Some(TimeoutPolicy::Fail);
        }),
        refused
    );
    // Without a policy the handler is the default of a Flow that has one.
    assert_eq!(
        with_options(|start| {
            start.timeout_ms = Some(5);
            start.has_timeout_handler = true;
        }),
        "accepted"
    );
}

#[test]
fn bad_input_durations_are_bounded() {
    let most = limits::DURATION_MS;
    let rule = std::format!("{} ms is longer than the longest duration, {most} ms (100 years)", most + 1);
    assert_eq!(start_text(|start| start.timeout_ms = Some(most)), "accepted");
    assert_eq!(start_text(|start| start.timeout_ms = Some(most + 1)), std::format!("timeout_ms {rule}"));
    assert_eq!(
        start_text(|start| start.start_delay_ms = Some(most + 1)),
        std::format!("start_delay_ms {rule}")
    );
    assert_eq!(start_text(|start| start.retention_ms = Some(most + 1)), std::format!("retention_ms {rule}"));
    let method = |timeout_ms| MethodOptions { timeout_ms: Some(timeout_ms), ..MethodOptions::default() };
    assert_eq!(
        options_text(StepOptions { execute: method(most + 1), ..StepOptions::default() }),
        std::format!("start.options.execute.timeout_ms {rule}")
    );
    assert_eq!(
        options_text(StepOptions { wait_for: method(0), ..StepOptions::default() }),
        "start.options.wait_for.timeout_ms is 0: give at least 1 ms, or leave it out for the default"
    );
    assert_eq!(
        options_text(StepOptions { heartbeat_timeout_ms: Some(0), ..StepOptions::default() }),
        "start.options.heartbeat_timeout_ms is 0: give at least 1 ms, or leave it out for the default"
    );
}

#[test]
fn bad_input_retry_policies() {
    let good = RetryPolicy {
        initial_interval_seconds: i32::MAX,
        backoff_coefficient: 1.0,
        maximum_interval_seconds: i32::MAX,
        maximum_attempts: i32::MAX,
        total_duration_seconds: i32::MAX,
    };
    assert_eq!(options_text(retried(good)), "accepted");
    assert_eq!(options_text(retried(RetryPolicy::default())), "accepted");
    type Change = fn(&mut RetryPolicy);
    let negatives: [(&str, Change); 4] = [
        ("initial_interval_seconds", |policy| policy.initial_interval_seconds = -1),
        ("maximum_interval_seconds", |policy| policy.maximum_interval_seconds = -1),
        ("maximum_attempts", |policy| policy.maximum_attempts = -1),
        ("total_duration_seconds", |policy| policy.total_duration_seconds = -1),
    ];
    for (field, change) in negatives {
        let mut policy = good;
        change(&mut policy);
        assert_eq!(
            options_text(retried(policy)),
            std::format!(
                "start.options.execute.retry.{field} -1 is negative: give a positive number, or 0 for the default"
            )
        );
    }
    for coefficient in [0.5, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(
            options_text(retried(RetryPolicy { backoff_coefficient: coefficient, ..good })),
            std::format!(
                "start.options.execute.retry.backoff_coefficient {coefficient} is out of range: give a finite \
                 number of at least 1, or 0 for the default"
            )
        );
    }
}

#[test]
fn bad_input_recovery_steps() {
    let recovered = |step_type: &str, options| StepOptions {
        recovery: Some(alloc::boxed::Box::new(Recovery { step_type: Name::new(step_type), options })),
        ..StepOptions::default()
    };
    let nested = |depth| (0..depth).fold(StepOptions::default(), |options, _| recovered("Undo", options));
    assert_eq!(options_text(nested(8)), "accepted");
    let too_deep = options_text(nested(9));
    assert!(
        too_deep
            .ends_with(".recovery recovery Steps are nested deeper than 8: let one of them recover itself"),
        "{too_deep}"
    );
    assert_eq!(
        options_text(recovered("", StepOptions::default())),
        "start.options.recovery.step_type is empty: it must have at least one character"
    );
    let bad = retried(RetryPolicy { maximum_attempts: -3, ..RetryPolicy::default() });
    assert_eq!(
        options_text(recovered("Undo", bad)),
        "start.options.recovery.options.execute.retry.maximum_attempts -3 is negative: give a positive number, \
         or 0 for the default"
    );
}

#[test]
fn bad_input_loads() {
    let loading = |load| StepOptions {
        wait_for: MethodOptions { loads: vec![load], ..MethodOptions::default() },
        ..StepOptions::default()
    };
    assert_eq!(options_text(loading(Load::AttributeInstance(instance("m", "k")))), "accepted");
    assert_eq!(options_text(loading(Load::Channel(key("c")))), "accepted");
    assert_eq!(
        options_text(loading(Load::AttributeInstance(key("m")))),
        "start.options.wait_for.loads[0].attribute_instance.instance is missing: ordinary Attributes are always \
         loaded, only instances of a map are asked for"
    );
    assert_eq!(
        options_text(loading(Load::ChannelMap(Name::default()))),
        "start.options.wait_for.loads[0].channel_map is empty: it must have at least one character"
    );
}

#[test]
fn concepts_1_8_instance_keys_are_non_empty_and_without_a_slash() {
    let publish = |channel| {
        text(validate_call(&Call::Publish {
            request_id: Name::new("r"),
            target: target(),
            publications: vec![
                Publication { channel: key("c"), value: value(1) },
                Publication { channel, value: value(1) },
            ],
        }))
    };
    assert_eq!(publish(instance("m", "eu-1")), "accepted");
    assert_eq!(
        publish(instance("m", "")),
        "publications[1].channel.instance is empty: it must have at least one character"
    );
    assert_eq!(
        publish(instance("m", "eu/1")),
        "publications[1].channel.instance \"eu/1\" contains a slash: an instance key must not, use another \
         separator"
    );
    assert_eq!(
        publish(key("")),
        "publications[1].channel.name is empty: it must have at least one character"
    );
}

#[test]
fn bad_input_values_over_the_limit() {
    let write = |value| {
        let writes = vec![AttributeWrite { key: key("a"), value: Some(value) }];
        text(validate_call(&Call::WriteAttributes { request_id: Name::new("r"), target: target(), writes }))
    };
    let refused = "limit: writes[0].value has 1048577 bytes, at most 1048576 are allowed: keep it elsewhere and \
                   pass a reference";
    assert_eq!(write(AttributeValue::Object(value(limits::VALUE_BYTES))), "accepted");
    assert_eq!(write(AttributeValue::Object(value(limits::VALUE_BYTES + 1))), refused);
    assert_eq!(write(AttributeValue::String(long(limits::VALUE_BYTES + 1))), refused);
    let over_long_encoding = Value { encoding: long(256), data: Blob::default() };
    assert_eq!(
        write(AttributeValue::Object(over_long_encoding)),
        "writes[0].value.encoding \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"… has 256 bytes, at most 255 are \
         allowed: choose a shorter one"
    );
}

#[test]
fn bad_input_the_total_size_is_bounded() {
    let publish = |count| {
        let publication = Publication { channel: key("c"), value: value(limits::VALUE_BYTES) };
        text(validate_call(&Call::Publish {
            request_id: Name::new("r"),
            target: target(),
            publications: vec![publication; count],
        }))
    };
    assert_eq!(publish(7), "accepted");
    let refused = publish(8);
    assert!(refused.starts_with("limit: the request has 83887"), "{refused}");
    assert!(refused.contains("at most 8388608 are allowed"), "{refused}");
}

#[test]
fn bad_input_lists_are_bounded_and_not_empty_where_empty_means_nothing() {
    let publish = |count| {
        text(validate_call(&Call::Publish {
            request_id: Name::new("r"),
            target: target(),
            publications: vec![Publication { channel: key("c"), value: value(0) }; count],
        }))
    };
    assert_eq!(publish(0), "publications is empty: give at least one");
    assert_eq!(publish(limits::ITEMS), "accepted");
    assert_eq!(
        publish(limits::ITEMS + 1),
        "limit: publications has 10001 items, at most 10000 are allowed: split them over several requests or Steps"
    );
}

#[test]
fn bad_input_every_mutating_call_needs_a_request_id_and_a_flow_id() {
    let mutations = |request_id: &str, flow_id: &str| {
        let (request_id, target) =
            (Name::new(request_id), Target { flow_id: Name::new(flow_id), run_id: None });
        [
            Call::Stop {
                request_id: request_id.clone(),
                target: target.clone(),
                kind: StopKind::Cancel,
                reason: Name::default(),
            },
            Call::Publish {
                request_id: request_id.clone(),
                target: target.clone(),
                publications: vec![Publication { channel: key("c"), value: value(0) }],
            },
            Call::WriteAttributes {
                request_id: request_id.clone(),
                target: target.clone(),
                writes: vec![AttributeWrite { key: key("a"), value: None }],
            },
            Call::DeleteMessages {
                request_id: request_id.clone(),
                target: target.clone(),
                channel: key("c"),
                messages: vec![MessageId(1)],
            },
            Call::SkipTimer {
                request_id: request_id.clone(),
                target: target.clone(),
                timer: TimerTarget::FlowTimeout,
            },
            Call::UpdateConfig { request_id, target, config: crate::engine::FlowConfig::default() },
        ]
    };
    for call in mutations("r", "f") {
        assert_eq!(text(validate_call(&call)), "accepted");
    }
    for call in mutations("", "f") {
        assert_eq!(text(validate_call(&call)), "request_id is empty: it must have at least one character");
    }
    for call in mutations("r", "") {
        assert_eq!(
            text(validate_call(&call)),
            "target.flow_id is empty: it must have at least one character"
        );
    }
}

#[test]
fn bad_input_of_the_smaller_calls() {
    let step = |number| StepExecutionId { step_type: Name::new("Pay"), number };
    let skip = |timer| Call::SkipTimer { request_id: Name::new("r"), target: target(), timer };
    let delete = |messages| Call::DeleteMessages {
        request_id: Name::new("r"),
        target: target(),
        channel: key("c"),
        messages,
    };
    let history = |page_size| Call::History { target: target(), start_event: 1, page_size };
    let table: Vec<(Call, &str)> = vec![
        (
            Call::Stop {
                request_id: Name::new("r"),
                target: target(),
                kind: StopKind::Fail,
                reason: long(limits::TEXT_BYTES + 1),
            },
            "reason has 16385 bytes, at most 16384 are allowed: shorten the text",
        ),
        (delete(vec![]), "message_ids is empty: give at least one"),
        (
            delete(vec![MessageId(7), MessageId(7)]),
            "message_ids[1] 00000000000000000000000000000007 is named twice: a message can be deleted once",
        ),
        (
            skip(TimerTarget::Condition { step: step(1), id: Name::default() }),
            "condition.condition_id is empty: it must have at least one character",
        ),
        (
            skip(TimerTarget::Index { step: step(0), index: 0 }),
            "index.step.number 0 is no Step execution: they are numbered from 1",
        ),
        (history(0), "page_size 0 is out of range: ask for 1 to 1000"),
        (history(1_000), "accepted"),
        (history(1_001), "page_size 1001 is out of range: ask for 1 to 1000"),
        (
            Call::WaitForEvent { target: target(), event: 0, wait_ms: None },
            "event 0 is no event: they are numbered from 1",
        ),
        (
            Call::WaitForStep { target: target(), step: step(0), wait_ms: None },
            "step.number 0 is no Step execution: they are numbered from 1",
        ),
        (
            Call::WaitForFlow { target: target(), wait_ms: Some(u64::MAX) },
            "wait_ms 18446744073709551615 ms is longer than the longest duration, 3162240000000 ms (100 years)",
        ),
        (Call::Describe(Target::default()), "target.flow_id is empty: it must have at least one character"),
        (
            Call::Search { filter: SearchFilter::default(), page_size: 0, page_token: None },
            "page_size 0 is out of range: ask for 1 to 1000",
        ),
    ];
    for (call, expected) in table {
        assert_eq!(text(validate_call(&call)), expected);
    }
}

fn hello() -> Hello {
    let definition = |name: &str| FlowTypeDefinition {
        name: Name::new(name),
        step_types: vec![Name::new("Pay"), Name::new("Ship")],
        timeout_handler: false,
    };
    Hello {
        worker: Name::new("host-1-ABCDEFGH"),
        slots: 4,
        flow_types: vec![definition("Order"), definition("Refund")],
    }
}

#[test]
fn bad_input_hello() {
    let refused = |change: fn(&mut Hello)| {
        let mut hello = hello();
        change(&mut hello);
        text(validate_frame(&WorkerFrame::Hello(hello)))
    };
    assert_eq!(refused(|_| {}), "accepted");
    assert_eq!(refused(|hello| hello.slots = 10_000), "accepted");
    assert_eq!(
        refused(|hello| hello.worker = Name::default()),
        "hello.worker is empty: it must have at least one character"
    );
    assert_eq!(refused(|hello| hello.slots = 0), "hello.slots 0 is out of range: offer 1 to 10000 slots");
    assert_eq!(
        refused(|hello| hello.slots = 10_001),
        "hello.slots 10001 is out of range: offer 1 to 10000 slots"
    );
    assert_eq!(refused(|hello| hello.flow_types.clear()), "hello.flow_types is empty: give at least one");
    assert_eq!(
        refused(|hello| hello.flow_types[1].name = Name::new("Order")),
        "hello.flow_types[1].name \"Order\" is used twice: it must be unique here"
    );
    assert_eq!(
        refused(|hello| hello.flow_types[1].step_types[0] = Name::new("Ship")),
        "hello.flow_types[1].step_types[1] \"Ship\" is used twice: it must be unique here"
    );
    assert_eq!(
        refused(|hello| hello.flow_types[0].step_types[0] = Name::new("$x")),
        "hello.flow_types[0].step_types[0] \"$x\" begins with $, which is reserved for the server: rename the Step"
    );
}

fn timer(id: Option<&str>, duration_ms: u64) -> Condition {
    Condition { id: id.map(Name::new), kind: ConditionKind::Timer { duration_ms } }
}

fn channel(at_least: Option<u32>, at_most: Option<u32>) -> Condition {
    Condition { id: None, kind: ConditionKind::Channel { channel: key("c"), at_least, at_most } }
}

fn wait_text(kind: WaitKind, conditions: Vec<Condition>) -> String {
    text(validate_wait(&Wait { kind, conditions }))
}

#[test]
fn bad_input_number_of_conditions() {
    assert_eq!(wait_text(WaitKind::Skip, vec![]), "accepted");
    assert_eq!(
        wait_text(WaitKind::Skip, vec![timer(None, 1)]),
        "wait.conditions a Wait that is skipped has no conditions, this one has 1"
    );
    assert_eq!(wait_text(WaitKind::UntilOne, vec![timer(None, 0)]), "accepted");
    for conditions in [vec![], vec![timer(None, 1), timer(None, 2)]] {
        let expected = std::format!(
            "wait.conditions a Wait until one has exactly 1 condition, this one has {}",
            conditions.len()
        );
        assert_eq!(wait_text(WaitKind::UntilOne, conditions), expected);
    }
    assert_eq!(wait_text(WaitKind::AllOf, vec![]), "accepted");
    assert_eq!(
        wait_text(WaitKind::AnyOf, vec![]),
        "wait.conditions is empty: any of nothing would never be over, give at least one"
    );
    assert_eq!(
        wait_text(WaitKind::AllOf, vec![timer(None, 1); limits::ITEMS + 1]),
        "limit: wait.conditions has 10001 items, at most 10000 are allowed: split them over several requests or \
         Steps"
    );
}

#[test]
fn bad_input_duplicate_condition_ids() {
    assert_eq!(wait_text(WaitKind::AnyOf, vec![timer(None, 1), timer(None, 2)]), "accepted");
    assert_eq!(
        wait_text(WaitKind::AnyOf, vec![timer(Some("a"), 1), timer(Some("b"), 1), timer(Some("a"), 2)]),
        "wait.conditions[2].condition_id \"a\" is used twice: it must be unique here"
    );
    assert_eq!(
        wait_text(WaitKind::AnyOf, vec![timer(Some(""), 1)]),
        "wait.conditions[0].condition_id is empty: it must have at least one character"
    );
}

#[test]
fn bad_input_channel_bounds_and_timers() {
    for (at_least, at_most) in [(None, None), (Some(0), None), (None, Some(1)), (Some(2), Some(2))] {
        assert_eq!(wait_text(WaitKind::AllOf, vec![channel(at_least, at_most)]), "accepted");
    }
    assert_eq!(
        wait_text(WaitKind::AllOf, vec![channel(Some(3), Some(2))]),
        "wait.conditions[0].channel.at_least 3 is more than at_most, which is 2: no number of messages satisfies \
         both"
    );
    assert_eq!(
        wait_text(WaitKind::AllOf, vec![channel(None, Some(0))]),
        "wait.conditions[0].channel.at_most 0 would never consume anything: give at least 1, or leave it out"
    );
    assert_eq!(wait_text(WaitKind::AllOf, vec![timer(None, limits::DURATION_MS)]), "accepted");
    assert_eq!(
        wait_text(WaitKind::AllOf, vec![timer(None, limits::DURATION_MS + 1)]),
        "wait.conditions[0].timer.duration_ms 3162240000001 ms is longer than the longest duration, 3162240000000 \
         ms (100 years)"
    );
}

#[test]
fn bad_input_combinations() {
    let groups = |groups: &[&[&str]]| {
        WaitKind::AnyCombinationOf(
            groups.iter().map(|group| group.iter().map(|id| Name::new(id)).collect()).collect(),
        )
    };
    let named = || vec![timer(Some("a"), 1), timer(Some("b"), 2)];
    assert_eq!(wait_text(groups(&[&["a"], &["a", "b"]]), named()), "accepted");
    assert_eq!(wait_text(groups(&[]), named()), "wait.groups is empty: give at least one");
    assert_eq!(
        wait_text(groups(&[&["a"], &[]]), named()),
        "wait.groups[1].condition_ids is empty: give at least one"
    );
    assert_eq!(
        wait_text(groups(&[&["a", "c"]]), named()),
        "wait.groups[0].condition_ids[1] \"c\" is the ID of no condition of this Wait"
    );
    assert_eq!(
        wait_text(groups(&[&["a", "a"]]), named()),
        "wait.groups[0].condition_ids[1] \"a\" is used twice: it must be unique here"
    );
    assert_eq!(
        wait_text(groups(&[&["a"]]), vec![timer(Some("a"), 1), timer(None, 2)]),
        "wait.conditions[1].condition_id is missing: in combinations every condition needs an ID"
    );
}

fn decision_text(kind: DecisionKind) -> String {
    text(validate_decision(&Decision { kind, cancel_steps: vec![], cancel_sibling_steps: vec![] }))
}

#[test]
fn bad_input_a_decision_naming_no_step() {
    assert_eq!(decision_text(DecisionKind::GoTo(vec![movement("Ship")])), "accepted");
    assert_eq!(
        decision_text(DecisionKind::GoTo(vec![])),
        "decision.go_to.movements is empty: give at least one"
    );
    assert_eq!(
        decision_text(DecisionKind::GoTo(vec![movement("Ship"), movement("")])),
        "decision.go_to.movements[1].step_type is empty: it must have at least one character"
    );
}

#[test]
fn bad_input_decisions() {
    assert_eq!(decision_text(DecisionKind::DeadEnd), "accepted");
    assert_eq!(decision_text(DecisionKind::GracefulComplete(None)), "accepted");
    assert_eq!(
        decision_text(DecisionKind::ForceComplete(Some(value(limits::VALUE_BYTES + 1)))),
        "limit: decision.force_complete.output has 1048577 bytes, at most 1048576 are allowed: keep it elsewhere \
         and pass a reference"
    );
    // The reason of a Worker is cut, not refused.
    assert_eq!(decision_text(DecisionKind::ForceFail(long(limits::TEXT_BYTES + 1))), "accepted");
    let if_empty = |channels, fallback| {
        decision_text(DecisionKind::ForceCompleteIfChannelsEmpty { output: None, channels, fallback })
    };
    assert_eq!(if_empty(vec![key("c")], vec![movement("Again")]), "accepted");
    assert_eq!(
        if_empty(vec![], vec![movement("Again")]),
        "decision.force_complete_if_channels_empty.channels is empty: give at least one"
    );
    assert_eq!(
        if_empty(vec![key("c")], vec![]),
        "decision.force_complete_if_channels_empty.fallback is empty: give at least one"
    );
    let cancelling = Decision {
        kind: DecisionKind::DeadEnd,
        cancel_steps: vec![Name::new("Ship"), Name::default()],
        cancel_sibling_steps: vec![],
    };
    assert_eq!(
        text(validate_decision(&cancelling)),
        "decision.cancel_steps[1] is empty: it must have at least one character"
    );
}

#[test]
fn bad_input_effects() {
    let local = NamedValue { name: Name::new("l"), value: value(1) };
    let effects = Effects { locals: vec![local.clone()], ..Effects::default() };
    assert_eq!(text(validate_effects(&effects, Method::WaitFor)), "accepted");
    assert_eq!(
        text(validate_effects(&effects, Method::Execute)),
        "effects.locals only WaitFor sets locals: Execute is the last to read them, use an Attribute instead"
    );
    let effects = Effects {
        events: vec![local.clone(), NamedValue { name: Name::default(), ..local }],
        ..Effects::default()
    };
    assert_eq!(
        text(validate_effects(&effects, Method::Execute)),
        "effects.events[1].name is empty: it must have at least one character"
    );
}

#[test]
fn bad_input_frames() {
    let handout = HandoutId::default();
    let heartbeat = |bytes| WorkerFrame::Heartbeat { handout, checkpoint: Some(value(bytes)) };
    assert_eq!(text(validate_frame(&heartbeat(limits::VALUE_BYTES))), "accepted");
    assert_eq!(
        text(validate_frame(&heartbeat(limits::VALUE_BYTES + 1))),
        "limit: checkpoint has 1048577 bytes, at most 1048576 are allowed: keep it elsewhere and pass a reference"
    );
    let failed = |retry_after_ms| WorkerFrame::Failed {
        handout,
        failure: Failure::default(),
        non_retryable: false,
        retry_after_ms,
    };
    assert_eq!(text(validate_frame(&failed(Some(limits::DURATION_MS)))), "accepted");
    assert_eq!(
        text(validate_frame(&failed(Some(limits::DURATION_MS + 1)))),
        "retry_after_ms 3162240000001 ms is longer than the longest duration, 3162240000000 ms (100 years)"
    );
    let publication = Publication { channel: key("c"), value: value(limits::VALUE_BYTES) };
    let done = WorkerFrame::ExecuteDone {
        handout,
        decision: Decision {
            kind: DecisionKind::DeadEnd,
            cancel_steps: vec![],
            cancel_sibling_steps: vec![],
        },
        effects: Effects { publications: vec![publication; 8], ..Effects::default() },
    };
    let refused = text(validate_frame(&done));
    assert!(refused.starts_with("limit: the result has 83887"), "{refused}");
}

#[test]
fn bad_input_texts_of_a_worker_are_cut_between_characters() {
    let text = "ä".repeat(limits::TEXT_BYTES);
    let cut = cut_failure(Failure {
        error_type: Name::new("E"),
        detail: Name::from(std::format!("x{text}")),
        stack: Some(Name::from(text)),
    });
    assert_eq!(&*cut.error_type, "E");
    assert_eq!(cut.detail.len(), limits::TEXT_BYTES - 1);
    assert_eq!(cut.stack.map(|stack| stack.len()), Some(limits::TEXT_BYTES));
}
