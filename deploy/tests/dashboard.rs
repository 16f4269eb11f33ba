//! The dashboard: it loads, its expressions are PromQL, and it shows what an operator asks for first.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use dexzd_deploy::deployment::items;
use dexzd_deploy::promql::{family_of, metrics_of};
use dexzd_deploy::read;
use dexzd_deploy::tools::{printed, run, tool};
use serde_json::Value;

fn dashboard() -> Value {
    serde_json::from_str(&read("deploy/grafana/dashboard.json")).expect("JSON")
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    items(&dashboard["panels"]).collect()
}

/// Every expression with the title of its panel.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let of_panels = panels(dashboard).into_iter().flat_map(|panel| {
        items(&panel["targets"]).map(|target| (panel["title"].clone(), target["expr"].clone()))
    });
    let of_annotations =
        items(&dashboard["annotations"]["list"]).map(|list| (list["name"].clone(), list["expr"].clone()));
    let text = |value: Value| value.as_str().expect("a text").to_owned();
    of_panels.chain(of_annotations).map(|(title, expression)| (text(title), text(expression))).collect()
}

#[test]
fn every_panel_has_a_place_of_its_own() {
    let dashboard = dashboard();
    let panels = panels(&dashboard);
    let identities: BTreeSet<u64> =
        panels.iter().map(|panel| panel["id"].as_u64().expect("a number")).collect();
    assert_eq!(identities.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let place = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
        assert!(place("x") + place("w") <= 24, "{}", panel["title"]);
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{} covers another panel", panel["title"]);
            }
        }
    }
}

#[test]
fn every_panel_asks_the_chosen_data_source_for_the_chosen_nodes() {
    let dashboard = dashboard();
    for panel in panels(&dashboard).into_iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        assert!(items(&panel["targets"]).count() > 0, "{}", panel["title"]);
    }
    for (title, expression) in expressions(&dashboard) {
        assert!(expression.contains(r#"namespace=~"$namespace", job=~"$job""#), "{title}");
    }
    let variables: Vec<&Value> = items(&dashboard["templating"]["list"]).map(|list| &list["name"]).collect();
    assert_eq!(variables, ["datasource", "namespace", "job"]);
}

#[test]
fn every_expression_is_promql() {
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    let expressions = expressions(&dashboard());
    for (index, (_, expression)) in expressions.iter().enumerate() {
        let expression = expression.replace("$__rate_interval", "1m");
        let quoted = serde_json::to_string(&expression).expect("a text");
        let _ = write!(rules, "      - record: panel:{index}\n        expr: {quoted}\n");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules.yaml");
    std::fs::write(&path, rules).expect("a file");
    let mut promtool = tool("promtool");
    promtool.args(["check", "rules"]).arg(&path);
    let output = run(promtool);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains(&format!("{} rules found", expressions.len())), "{}", printed(&output));
}

#[test]
fn it_shows_what_an_operator_asks_first() {
    let shown: BTreeSet<String> = expressions(&dashboard())
        .iter()
        .flat_map(|(_, expression)| metrics_of(expression))
        .map(|series| family_of(&series).to_owned())
        .collect();
    for metric in [
        "dexzd_role",
        "dexzd_epoch",
        "dexzd_hot_standby_state",
        "dexzd_hot_standby_lag_seconds",
        "dexzd_lease_renewal_seconds",
        "dexzd_lease_renewal_failures",
        "dexzd_log_commit_seconds",
        "dexzd_attempts_ended_by_outcome",
        "dexzd_queued_calls",
        "dexzd_calls",
        "dexzd_stop_reason",
        "dexzd_workers_connected",
    ] {
        assert!(shown.contains(metric), "{metric}");
    }
}
