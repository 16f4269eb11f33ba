use dexzd_core::admin::Code as CoreCode;
use dexzd_core::node::Role;
use dexzd_proto::ActiveProcess as ProtoActive;

use super::ending::code_out;
use super::progress::words;
use super::*;

#[test]
fn codes_keep_their_meaning_in_both_directions() {
    for code in CoreCode::ALL {
        assert_eq!(code_in(code_out(code)), code);
        // The same word in both.
        let (ours, theirs) = (format!("{code:?}"), format!("{:?}", code_out(code)));
        assert_eq!(ours, theirs);
    }
    assert_eq!(code_in(Code::Ok), CoreCode::Unknown);
}

#[test]
fn a_process_id_is_32_hexadecimal_digits() {
    let text = format!("{}", ProcessId(0xabc));
    assert_eq!(process_id(&text), Ok(ProcessId(0xabc)));
    for wrong in ["", "abc", "+0000000000000000000000000000abc", &"g".repeat(32), &"0".repeat(33)] {
        assert!(process_id(wrong).is_err(), "{wrong}");
    }
}

/// A step down that happened is never reported as one that failed, whatever a later server says beside it.
#[test]
fn ha_125_an_answer_of_a_later_server_is_an_unknown_holder() {
    let answer = StepDownResponse {
        node_id: "n1".to_owned(),
        released_node_epoch: 7,
        lease_reacquisition_hold_off_ms: 5_000,
        lease_holder_after_step_down: 99,
        active: Some(ProtoActive { node_epoch: 8, holder_process_id: "of another form".to_owned() }),
        lease_holder_unknown_detail: String::new(),
    };
    let report = stepped_down(&answer).expect("it happened");
    let detail = Name::new("the server names a kind of holder that this dexcli does not know");
    assert_eq!(report.holder, LeaseHolder::Unknown { detail });
    let answer = StepDownResponse {
        lease_holder_after_step_down: ProtoHolder::TakenBackByThisProcess.into(),
        ..answer
    };
    assert_eq!(stepped_down(&answer).expect("it happened").holder, LeaseHolder::TakenBack { active: None });
}

/// The server sends the core's own labels: each role on the way of a step down has its words.
#[test]
fn whoever_waits_for_a_step_down_sees_where_it_is() {
    let on_the_way = [
        Role::Draining,
        Role::Interrupting,
        Role::Committing,
        Role::Closing,
        Role::Releasing,
        Role::HoldOff,
        Role::Waiting,
    ];
    for role in Role::ALL {
        assert_eq!(words(role.label()).is_some(), on_the_way.contains(&role), "{role:?}");
    }
}
