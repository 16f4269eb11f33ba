//! docs/metrics.md lists every metric, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use dexzd_core::engine::{AttemptOutcome, EngineEvent, FlowStatus};
use dexzd_core::ids::Name;
use tonic::Code;

use super::Metrics;

const PAGE: &str = include_str!("../../../docs/metrics.md");
const BEGIN: &str = "<!-- begin of the table that a test compares with the server's own -->\n";
const END: &str = "<!-- end of it -->";

/// One metric, as the exposition shows it.
#[derive(Default)]
struct Metric {
    kind: String,
    help: String,
    /// Names of labels, and their values from the start.
    labels: BTreeMap<String, BTreeSet<String>>,
}

fn read(text: &str) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            metrics.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            metrics.entry(name.to_owned()).or_default().help = help.trim_end_matches('.').to_owned();
        } else if let Some((series, labels)) = line.split_once('{') {
            let labels = labels.rsplit_once('}').expect("a closed brace").0;
            let name = ["_total", "_bucket", "_sum", "_count", "_info"]
                .iter()
                .find_map(|suffix| series.strip_suffix(suffix).filter(|name| metrics.contains_key(*name)))
                .unwrap_or(series);
            let metric = metrics.get_mut(name).unwrap_or_else(|| panic!("{series} has no type"));
            for label in labels.split(',') {
                let (name, value) = label.split_once('=').expect("a label");
                if name != "le" {
                    let value = value.trim_matches('"').to_owned();
                    metric.labels.entry(name.to_owned()).or_default().insert(value);
                }
            }
        }
    }
    metrics
}

/// What a process exports that has just started, and one to which everything has happened that makes new series.
fn pages() -> (BTreeMap<String, Metric>, BTreeMap<String, Metric>) {
    let metrics = Metrics::for_tests();
    let at_start = read(&metrics.text());
    let (flow_type, step_type) = (Name::new("F"), Name::new("S"));
    metrics.engine(&EngineEvent::FlowStarted { flow_type: flow_type.clone() });
    metrics.engine(&EngineEvent::FlowClosed { flow_type, status: FlowStatus::Completed });
    metrics.engine(&EngineEvent::AttemptStarted { step_type: step_type.clone() });
    metrics.engine(&EngineEvent::AttemptEnded { step_type, outcome: AttemptOutcome::Completed });
    metrics.calls().answered("/dex.FlowService/StartFlow", Code::Ok, Duration::ZERO);
    (at_start, read(&metrics.text()))
}

fn table() -> String {
    let (at_start, later) = pages();
    let mut table = String::from("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n");
    for (name, metric) in &later {
        let suffix = match &*metric.kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let mut labels = Vec::new();
        for label in metric.labels.keys() {
            let fixed = at_start
                .get(name)
                .and_then(|metric| metric.labels.get(label))
                .filter(|_| metric.kind != "info");
            labels.push(match fixed {
                Some(values) => {
                    let values: Vec<&str> = values.iter().map(String::as_str).collect();
                    format!("`{label}`: {}", values.join(", "))
                }
                None => format!("`{label}`"),
            });
        }
        let (kind, help) = (&metric.kind, &metric.help);
        writeln!(table, "| `{name}{suffix}` | {kind} | {} | {help} |", labels.join("; "))
            .expect("a String takes everything");
    }
    table
}

#[test]
fn docs_metrics_md_lists_every_metric_and_no_other() {
    let table = table();
    let shown = PAGE.split(BEGIN).nth(1).and_then(|rest| rest.split(END).next()).expect("both marks");
    assert!(shown == table, "docs/metrics.md must show this table:\n{table}");
}

/// Names that alerts, dashboards and tests elsewhere speak of stand on the page.
#[test]
fn every_metric_named_anywhere_in_the_documentation_exists() {
    let (_, known) = pages();
    let words = PAGE.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let mut named = 0;
    for word in words.filter(|word| word.starts_with("dexzd_")) {
        let name = ["_total", "_info", "_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| word.strip_suffix(suffix).filter(|name| known.contains_key(*name)))
            .unwrap_or(word);
        assert!(known.contains_key(name), "docs/metrics.md speaks of {word}, which nothing exports");
        named += 1;
    }
    assert!(named >= known.len());
}
