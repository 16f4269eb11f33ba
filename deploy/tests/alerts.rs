//! The alert rules: the three of the requirements exactly, all of them by Prometheus' own tool.

use std::collections::BTreeSet;

use dexzd_deploy::deployment::{documents, items};
use dexzd_deploy::pages::Page;
use dexzd_deploy::read;
use dexzd_deploy::tools::{printed, run, tool};
use serde_json::Value;

const ALERTS: &str = "deploy/prometheus/alerts.yaml";
const TESTS: &str = "deploy/prometheus/alerts.test.yaml";

fn alerts() -> Vec<Value> {
    let file = documents(&read(ALERTS)).remove(0);
    items(&file["groups"]).flat_map(|group| items(&group["rules"])).cloned().collect()
}

fn expression(name: &str) -> String {
    let alerts = alerts();
    let alert = alerts.iter().find(|alert| alert["alert"] == name).expect("there is such an alert");
    alert["expr"].as_str().expect("an expression").to_owned()
}

/// Per node, so that the follower of one does not comfort another.
#[test]
fn ha_084_nobody_follows() {
    assert_eq!(
        expression("DexNobodyFollows"),
        r#"sum by (namespace, job) (dexzd_hot_standby_state{state="following"}) == 0"#
    );
}

#[test]
fn ha_085_failed_or_restarting_within_five_minutes() {
    assert_eq!(
        expression("DexStandbyFails"),
        "max by (namespace, job, pod, instance, state) \
         (max_over_time(dexzd_hot_standby_state{state=~\"failed|restarting\"}[5m])) == 1"
    );
}

#[test]
fn ha_086_lag_above_five_seconds() {
    assert_eq!(expression("DexStandbyLags"), "dexzd_hot_standby_lag_seconds > 5");
}

#[test]
fn prometheus_accepts_the_rules() {
    let mut promtool = tool("promtool");
    promtool.args(["check", "rules", ALERTS]);
    let output = run(promtool);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains(&format!("{} rules found", alerts().len())), "{}", printed(&output));
}

#[test]
fn the_rules_fire_when_they_should_and_only_then() {
    let mut promtool = tool("promtool");
    promtool.args(["test", "rules", TESTS]);
    let output = run(promtool);
    assert!(output.status.success(), "{}", printed(&output));
}

/// A rule whose test was forgotten has none that could fail.
#[test]
fn every_alert_is_tested_silent_and_firing() {
    let file = documents(&read(TESTS)).remove(0);
    let cases: Vec<&Value> = items(&file["tests"]).flat_map(|test| items(&test["alert_rule_test"])).collect();
    let named = |fires: bool| -> BTreeSet<&str> {
        let matching = cases.iter().filter(|case| (items(&case["exp_alerts"]).count() > 0) == fires);
        matching.filter_map(|case| case["alertname"].as_str()).collect()
    };
    let alerts = alerts();
    let all: BTreeSet<&str> = alerts.iter().filter_map(|alert| alert["alert"].as_str()).collect();
    assert_eq!(all.len(), alerts.len());
    assert_eq!(named(true), all);
    assert_eq!(named(false), all);
}

#[test]
fn every_alert_says_how_urgent_it_is_and_what_to_do() {
    let mut pages = std::collections::BTreeMap::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().expect("a name").to_owned();
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        assert!(["critical", "warning"].contains(&severity), "{name}");
        for annotation in ["summary", "description", "runbook_url"] {
            assert!(alert["annotations"][annotation].is_string(), "{name} has no {annotation}");
        }
        let runbook = alert["annotations"]["runbook_url"].as_str().expect("a link");
        let (path, anchor) = runbook.split_once('#').expect("it names a paragraph");
        let anchors = pages.entry(path.to_owned()).or_insert_with(|| Page::read(path).anchors());
        assert!(anchors.contains(anchor), "{name}: {path} has no paragraph {anchor}");
    }
}
