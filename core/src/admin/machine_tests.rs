use std::format;
use std::string::String;
use std::vec::Vec;

use super::{
    AdminCommand, CallFailure, Code, Command, DESCRIBE_TIMEOUT, Described, Ending, EpochText, FailureKind,
    Input, LeaseHolder, Output, STEP_DOWN_TIMEOUT, StepDownFlags, StepDownReport, parse_epoch,
};
use crate::ids::{Epoch, Name, ProcessId};
use crate::node::{ActiveProcess, StepDownOutcome, UnknownHolder};
use crate::time::{Instant, Now};

fn at(ms: u64) -> Now {
    Now { instant: Instant::from_millis(ms), ..Now::default() }
}

fn flags(node_id: Option<&str>, epoch: Option<&str>) -> StepDownFlags {
    StepDownFlags {
        yes: true,
        expected_node_id: node_id.map(Name::new),
        expected_node_epoch: epoch.map(Name::new),
    }
}

fn step_down(flags: StepDownFlags) -> AdminCommand {
    AdminCommand::new(at(0), Command::StepDown(flags), Some(STEP_DOWN_TIMEOUT))
}

/// A step-down call for node-a in epoch 7 is under way.
fn under_way() -> AdminCommand {
    let mut command = step_down(flags(Some("node-a"), Some("7")));
    assert_eq!(outputs(&mut command), [called("node-a", 7)]);
    command
}

fn outputs(command: &mut AdminCommand) -> Vec<Output> {
    core::iter::from_fn(|| command.poll_output()).collect()
}

fn called(node_id: &str, epoch: u64) -> Output {
    Output::StepDown { node_id: Name::new(node_id), epoch: Epoch(epoch) }
}

fn ending(command: &mut AdminCommand) -> Ending {
    match outputs(command).as_slice() {
        [Output::Done(ending)] => ending.clone(),
        other => panic!("it ends: {other:?}"),
    }
}

fn described(node_id: &str, epoch: u64) -> Input {
    Input::Described(Ok(Described {
        node_id: Name::new(node_id),
        epoch: Epoch(epoch),
        holder: ProcessId(0xab),
    }))
}

fn failure(code: Code) -> CallFailure {
    CallFailure { code, message: Name::new("so it is") }
}

fn report(holder: LeaseHolder) -> Input {
    Input::SteppedDown(Ok(StepDownReport {
        node_id: Name::new("node-a"),
        released_epoch: Epoch(7),
        hold_off_ms: 5_000,
        holder,
    }))
}

fn lines(fields: &[(&str, String)]) -> Vec<String> {
    fields.iter().map(|(name, text)| format!("{name}: {text}")).collect()
}

// --- describe ---

#[test]
fn ha_112_describe_prints_three_fields_the_epoch_as_text() {
    let mut command = AdminCommand::new(at(0), Command::Describe, Some(DESCRIBE_TIMEOUT));
    assert_eq!(outputs(&mut command), [Output::Describe]);
    command.handle(at(5), described("node-a", u64::MAX));
    let ending = ending(&mut command);
    assert_eq!(
        lines(&ending.fields),
        [
            "nodeId: node-a",
            "nodeEpoch: 18446744073709551615",
            "holderProcessId: 000000000000000000000000000000ab"
        ]
    );
    assert_eq!((ending.exit_code(), command.poll_timeout()), (0, None));
}

#[test]
fn ha_113_ha_114_a_describe_that_fails_says_so_and_what_to_do() {
    for (code, hinted) in [
        (Code::FailedPrecondition, true),
        (Code::Unavailable, true),
        (Code::Unimplemented, true),
        (Code::Unauthenticated, false),
    ] {
        let mut command = AdminCommand::new(at(0), Command::Describe, Some(DESCRIBE_TIMEOUT));
        outputs(&mut command);
        command.handle(at(5), Input::Described(Err(failure(code))));
        let ending = ending(&mut command);
        assert_eq!(ending.exit_code(), 1);
        let failure = ending.failure.expect("it failed");
        assert_eq!(
            (failure.code, failure.hint.is_some(), failure.fields()),
            (Some(code), hinted, Vec::new())
        );
    }
}

// --- the flags ---

#[test]
fn ha_116_ha_120_d_020_usage_errors_exit_2_and_send_nothing() {
    let without_yes = StepDownFlags { yes: false, ..flags(Some("node-a"), Some("7")) };
    let wrong = [
        without_yes,
        StepDownFlags::default(),
        flags(None, Some("7")),
        flags(Some("node-a"), Some("0")),
        flags(Some("node-a"), Some("+7")),
        flags(Some("node-a"), Some("")),
    ];
    for flags in wrong {
        let mut command = step_down(flags.clone());
        let ending = ending(&mut command);
        assert_eq!(ending.exit_code(), 2, "{flags:?}");
        assert_eq!(ending.failure.expect("it failed").kind, FailureKind::Usage);
        assert_eq!((ending.fields, command.poll_timeout()), (Vec::new(), None));
    }
}

#[test]
fn review_7_19_the_text_of_an_epoch() {
    let table = [
        "7",
        "007",
        "18446744073709551615",
        "18446744073709551616",
        "0",
        "00",
        "",
        "-7",
        "+7",
        " 7",
        "7 ",
        "0x7",
        "7.0",
        "7e1",
        "٧",
    ]
    .map(|text| (text, parse_epoch(text)));
    let no = Err(EpochText::NotDecimal);
    assert_eq!(
        table,
        [
            ("7", Ok(Epoch(7))),
            ("007", Ok(Epoch(7))),
            ("18446744073709551615", Ok(Epoch(u64::MAX))),
            ("18446744073709551616", Err(EpochText::TooLarge)),
            ("0", Err(EpochText::Zero)),
            ("00", Err(EpochText::Zero)),
            ("", no),
            ("-7", no),
            ("+7", no),
            (" 7", no),
            ("7 ", no),
            ("0x7", no),
            ("7.0", no),
            ("7e1", no),
            ("٧", no),
        ]
    );
}

#[test]
fn ha_117_without_flags_it_describes_and_expects_exactly_that() {
    let mut command = step_down(flags(None, None));
    assert_eq!(outputs(&mut command), [Output::Describe]);
    command.handle(at(5), described("node-b", 9));
    assert_eq!(outputs(&mut command), [called("node-b", 9)]);
}

#[test]
fn ha_118_with_the_node_id_alone_it_describes_and_compares() {
    let mut command = step_down(flags(Some("node-a"), None));
    assert_eq!(outputs(&mut command), [Output::Describe]);
    command.handle(at(5), described("node-a", 9));
    assert_eq!(outputs(&mut command), [called("node-a", 9)]);

    let mut other = step_down(flags(Some("node-a"), None));
    outputs(&mut other);
    other.handle(at(5), described("node-b", 9));
    let ending = ending(&mut other);
    let failure = ending.failure.clone().expect("it is refused");
    assert_eq!((ending.exit_code(), failure.kind), (1, FailureKind::NodeMismatch));
    assert_eq!(failure.message, "nothing was stepped down: this server is of node `node-b`, not of `node-a`");
}

/// Review 7.20: what both flags say is sent, whichever cluster listens.
#[test]
fn ha_119_review_7_20_with_both_flags_it_sends_them_as_they_are() {
    let mut command = step_down(flags(Some("node-a"), Some("007")));
    assert_eq!(outputs(&mut command), [called("node-a", 7)]);
}

#[test]
fn ha_121_a_failed_describe_steps_nothing_down() {
    for code in Code::ALL {
        let mut command = step_down(flags(None, None));
        outputs(&mut command);
        command.handle(at(5), Input::Described(Err(failure(code))));
        let ending = ending(&mut command);
        let failure = ending.failure.clone().expect("it failed");
        assert_eq!(failure.message, "nothing was stepped down: describe failed: so it is");
        assert_eq!((ending.exit_code(), failure.is_outcome_unknown), (1, false));
        assert_eq!((failure.code, failure.fields()), (Some(code), Vec::new()));
    }
}

// --- the result ---

#[test]
fn ha_124_ha_125_ha_126_the_fields_of_each_outcome() {
    let active = Some(ActiveProcess { epoch: Epoch(8), holder: ProcessId(0xcd) });
    let expected = [
        "expectedNodeId: node-a",
        "expectedNodeEpoch: 7",
        "nodeId: node-a",
        "releasedNodeEpoch: 7",
        "leaseReacquisitionHoldOff: 5s",
    ];
    let known = ["activeNodeEpoch: 8", "activeHolderProcessId: 000000000000000000000000000000cd"];
    let table: [(LeaseHolder, &str, &[&str]); 5] = [
        (LeaseHolder::TakenOver { active }, "takenOverByAnotherProcess", &known),
        (LeaseHolder::TakenOver { active: None }, "takenOverByAnotherProcess", &[]),
        (LeaseHolder::TakenBack { active }, "takenBackByThisProcess", &known),
        (LeaseHolder::TakenBack { active: None }, "takenBackByThisProcess", &[]),
        (
            LeaseHolder::from(StepDownOutcome::Unknown { detail: UnknownHolder::TakeBackUnanswered }),
            "unknown",
            &["leaseHolderUnknownDetail: the store did not say whether the lease was taken back"],
        ),
    ];
    for (holder, word, rest) in table {
        let mut command = under_way();
        command.handle(at(9_000), report(holder));
        let ending = ending(&mut command);
        let mut lines = lines(&ending.fields);
        assert_eq!(lines.drain(..5).collect::<Vec<_>>(), expected);
        assert_eq!(lines.remove(0), format!("leaseHolderAfterStepDown: {word}"));
        assert_eq!(lines, rest);
        assert_eq!(ending.exit_code(), 0);
    }
}

#[test]
fn d_038_the_hold_off_is_printed_in_seconds_where_they_are_whole() {
    for (hold_off_ms, shown) in [(5_000, "5s"), (1_751, "1751ms"), (60_000, "60s")] {
        let mut command = under_way();
        let holder = LeaseHolder::TakenOver { active: None };
        let node_id = Name::new("node-a");
        let report = StepDownReport { node_id, released_epoch: Epoch(7), hold_off_ms, holder };
        command.handle(at(9_000), Input::SteppedDown(Ok(report)));
        assert_eq!(ending(&mut command).fields[4], ("leaseReacquisitionHoldOff", String::from(shown)));
    }
}

// --- failures of the call ---

#[test]
fn ha_127_ha_128_which_failures_leave_the_outcome_unknown() {
    for code in Code::ALL {
        let mut command = under_way();
        command.handle(at(9_000), Input::SteppedDown(Err(failure(code))));
        let ending = ending(&mut command);
        assert_eq!(ending.exit_code(), 1);
        let failure = ending.failure.expect("it failed");
        let unknown = [Code::Cancelled, Code::Unknown, Code::DeadlineExceeded, Code::Unavailable];
        assert_eq!(failure.is_outcome_unknown, unknown.contains(&code), "{code:?}");
        let mut expected = Vec::from(["expectedNodeId: node-a", "expectedNodeEpoch: 7"]);
        if failure.is_outcome_unknown {
            expected.insert(0, "outcome: unknown");
        }
        assert_eq!(lines(&failure.fields()), expected, "{code:?}");
        // A server without the service gets a hint of its own: nothing was stepped down.
        let has_hint = failure.is_outcome_unknown || code == Code::Unimplemented;
        assert_eq!(failure.hint.is_some(), has_hint, "{code:?}");
    }
}

#[test]
fn ha_127_ctrl_c_under_the_call_leaves_the_outcome_unknown() {
    let mut command = under_way();
    command.handle(at(9_000), Input::Interrupted);
    let failure = ending(&mut command).failure.expect("it failed");
    assert_eq!((failure.kind, failure.code), (FailureKind::Interrupted, Some(Code::Cancelled)));
    assert_eq!(
        lines(&failure.fields()),
        ["outcome: unknown", "expectedNodeId: node-a", "expectedNodeEpoch: 7"]
    );
}

#[test]
fn ha_127_ctrl_c_before_the_call_stepped_nothing_down() {
    let mut command = step_down(flags(None, None));
    outputs(&mut command);
    command.handle(at(100), Input::Interrupted);
    let failure = ending(&mut command).failure.expect("it failed");
    assert_eq!(failure.message, "nothing was stepped down: interrupted");
    assert_eq!((failure.is_outcome_unknown, failure.fields()), (false, Vec::new()));
    command.handle(at(200), described("node-a", 9));
    assert_eq!(outputs(&mut command), [], "a late answer steps nothing down either");
}

#[test]
fn ha_122_after_two_minutes_it_gives_up_the_describe_included() {
    let mut command = step_down(flags(None, None));
    outputs(&mut command);
    command.handle(at(20_000), described("node-a", 7));
    assert_eq!(outputs(&mut command), [called("node-a", 7)]);
    let due = command.poll_timeout().map(|(at, _)| at.as_millis());
    assert_eq!(due, Some(120_000));
    command.handle(at(119_999), Input::Tick);
    assert_eq!(outputs(&mut command), []);
    command.handle(at(120_000), Input::Tick);
    let failure = ending(&mut command).failure.expect("it failed");
    assert_eq!((failure.kind, failure.code), (FailureKind::Timeout, Some(Code::DeadlineExceeded)));
    assert!(failure.is_outcome_unknown);
}

#[test]
fn ha_122_a_time_that_is_over_in_the_describe_stepped_nothing_down() {
    let mut command = step_down(flags(None, None));
    outputs(&mut command);
    command.handle(at(120_000), Input::Tick);
    let failure = ending(&mut command).failure.expect("it failed");
    assert_eq!(failure.message, "nothing was stepped down: the time is over");
    assert!(!failure.is_outcome_unknown);
}

#[test]
fn d_057_an_answer_that_waits_counts_although_its_time_is_over() {
    let mut command = under_way();
    command.handle(at(500_000), report(LeaseHolder::TakenOver { active: None }));
    assert_eq!(ending(&mut command).exit_code(), 0);
}

#[test]
fn ha_122_a_describe_that_came_too_late_starts_no_call() {
    let mut command = step_down(flags(None, None));
    outputs(&mut command);
    command.handle(at(500_000), described("node-a", 7));
    let told = outputs(&mut command);
    assert!(matches!(told.as_slice(), [Output::Done(_)]), "{told:?}");
}

#[test]
fn ha_122_without_a_limit_it_waits() {
    let mut command = AdminCommand::new(at(0), Command::Describe, None);
    outputs(&mut command);
    command.handle(at(10_000_000), Input::Tick);
    assert_eq!((outputs(&mut command).len(), command.poll_timeout()), (0, None));
}

/// HA-129 and HA-130: the machine sends one step-down call at most, and no command line makes it another.
#[test]
fn ha_129_ha_130_a_failed_call_is_never_repeated() {
    for code in Code::ALL {
        let mut command = under_way();
        command.handle(at(1), Input::SteppedDown(Err(failure(code))));
        command.handle(at(2), described("node-a", 8));
        command.handle(at(3), Input::SteppedDown(Err(failure(code))));
        let told = outputs(&mut command);
        assert!(matches!(told.as_slice(), [Output::Done(_)]), "{told:?}");
    }
}
