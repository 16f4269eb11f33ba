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

const PAGE: &str = include_str!("../../../docs/node-roles.md");

#[test]
fn ha_016_the_table_of_roles_as_a_diagram() {
    insta::assert_snapshot!(diagram());
    let shown = PAGE.split("```mermaid\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(shown, Some(diagram().as_str()), "docs/node-roles.md shows the table as it is");
}

#[test]
fn ha_064_the_page_names_every_role_and_what_its_health_names_say() {
    for role in Role::ALL {
        let word = if role.is_serving() { "SERVING" } else { "NOT_SERVING" };
        let row = std::format!("| `{}` | {word} | ", role.label());
        assert!(PAGE.contains(&row), "{row}");
    }
}

/// Review 7: what SIGTERM does in each role. `hold_off` has nothing to give back; where the table says
/// nothing the process is on its way already.
#[test]
fn d_029_every_role_answers_a_signal_or_is_on_its_way() {
    let table: Vec<(Role, Option<Role>)> =
        Role::ALL.into_iter().map(|role| (role, role.after(Trigger::Terminate))).collect();
    assert_eq!(
        table,
        [
            (Role::Waiting, Some(Role::Withdrawing)),
            (Role::Withdrawing, None),
            (Role::Opening, Some(Role::Abandoning)),
            (Role::Outwaiting, Some(Role::Abandoning)),
            (Role::Raising, Some(Role::Abandoning)),
            (Role::Confirming, Some(Role::Abandoning)),
            (Role::Recovering, Some(Role::Abandoning)),
            (Role::Active, Some(Role::Draining)),
            (Role::Draining, None),
            (Role::Interrupting, None),
            (Role::Committing, None),
            (Role::Closing, None),
            (Role::Abandoning, None),
            (Role::Releasing, None),
            (Role::HoldOff, Some(Role::Withdrawing)),
            (Role::Stopped, None),
        ]
    );
}

/// Only an active process can be asked to step down, and only a released one holds off.
#[test]
fn ha_088_ha_093_a_step_down_has_one_way_in_and_one_way_out() {
    let by = |trigger| -> Vec<(Role, Role)> {
        TRANSITIONS.iter().filter(|(_, by, _)| *by == trigger).map(|(from, _, to)| (*from, *to)).collect()
    };
    assert_eq!(by(Trigger::StepDown), [(Role::Active, Role::Draining)]);
    assert_eq!(by(Trigger::SteppedDown), [(Role::Releasing, Role::HoldOff)]);
    assert_eq!(by(Trigger::HeldOff), [(Role::HoldOff, Role::Waiting)]);
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
