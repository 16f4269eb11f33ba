use super::{Role, TRANSITIONS, Trigger};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::string::String;
use std::vec::Vec;

/// The table as a diagram in Mermaid's language; `docs/` shows it.
fn diagram() -> String {
    let mut text = String::from("stateDiagram-v2\n    [*] --> waiting\n");
    for (from, by, to) in TRANSITIONS {
        writeln!(text, "    {} --> {}: {by:?}", from.label(), to.label()).expect("a String takes everything");
    }
    text.push_str("    stopped --> [*]\n");
    text
}

#[test]
fn ha_016_the_table_of_roles_as_a_diagram() {
    insta::assert_snapshot!(diagram());
}

#[test]
fn ha_001_no_role_has_two_answers_to_one_trigger() {
    let pairs: BTreeSet<(Role, Trigger)> = TRANSITIONS.iter().map(|(from, by, _)| (*from, *by)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len());
}

#[test]
fn ha_034_every_role_can_reach_the_end_and_nothing_follows_it() {
    assert!(TRANSITIONS.iter().all(|(from, _, _)| *from != Role::Stopped));
    let mut ending: BTreeSet<Role> = BTreeSet::from([Role::Stopped]);
    for _ in Role::ALL {
        for (from, _, to) in TRANSITIONS {
            if ending.contains(to) {
                ending.insert(*from);
            }
        }
    }
    assert_eq!(ending, Role::ALL.into_iter().collect());
}

#[test]
fn ha_030_every_role_that_holds_the_lease_can_lose_it() {
    for role in Role::ALL {
        let holds = !matches!(
            role,
            Role::Waiting | Role::Withdrawing | Role::Releasing | Role::HoldOff | Role::Stopped
        );
        assert_eq!(role.after(Trigger::Broken).is_some(), holds, "{role:?}");
        if holds {
            assert_eq!(role.after(Trigger::Lost), Some(Role::Stopped), "{role:?}");
        }
    }
}

#[test]
fn ha_064_it_serves_from_the_end_of_recovery_until_the_release() {
    let serving: Vec<Role> = Role::ALL.into_iter().filter(|role| role.is_serving()).collect();
    assert_eq!(serving, [Role::Active, Role::Draining, Role::Interrupting, Role::Committing, Role::Closing]);
    // Only recovery leads in.
    for (from, by, to) in TRANSITIONS {
        if to.is_serving() && !from.is_serving() {
            assert_eq!((*from, *by, *to), (Role::Recovering, Trigger::Recovered, Role::Active));
        }
    }
}

#[test]
fn d_032_labels_are_all_different() {
    let labels: BTreeSet<&str> = Role::ALL.iter().map(|role| role.label()).collect();
    assert_eq!(labels.len(), Role::ALL.len());
}
