//! Alerts and dashboard read only metrics that docs/metrics.md lists, which the server's own test compares with what it
//! exports. A query of a metric that does not exist is no error: it is silence.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_deploy::promql::{family_of, metrics_of};
use dexzd_deploy::read;

/// The listed metrics with their types, by the name without the ending of a counter.
fn listed() -> BTreeMap<String, String> {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `dexzd_"));
    let listed: BTreeMap<String, String> = rows
        .map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let name = cells.next().unwrap_or_default().trim_end_matches('`');
            (format!("dexzd_{}", family_of(name)), cells.next().unwrap_or_default().to_owned())
        })
        .collect();
    assert!(listed.len() > 20, "docs/metrics.md has a table");
    listed
}

fn every_series_exists(path: &str) {
    let listed = listed();
    let series: BTreeSet<String> = metrics_of(&read(path));
    assert!(series.len() > 10, "{path}");
    for name in series {
        let family = family_of(&name);
        let kind = listed.get(family).unwrap_or_else(|| panic!("{path}: {name} is not in docs/metrics.md"));
        // A counter is read by its full name, a histogram by one of its parts.
        let fits = match kind.as_str() {
            "counter" => name == format!("{family}_total"),
            "gauge" => name == family,
            "histogram" => name != family && !name.ends_with("_total"),
            other => panic!("{path}: {name} is of type {other}"),
        };
        assert!(fits, "{path}: {name}, but {family} is a {kind}");
    }
}

#[test]
fn alerts_read_only_metrics_that_exist() {
    every_series_exists("deploy/prometheus/alerts.yaml");
}

#[test]
fn the_dashboard_reads_only_metrics_that_exist() {
    every_series_exists("deploy/grafana/dashboard.json");
}

/// The roles by which an alert tells whether somebody serves are those of the server.
#[test]
fn the_roles_of_the_alerts_are_the_roles_that_serve() {
    let serving: Vec<&str> = dexzd_core::node::Role::ALL
        .iter()
        .filter(|role| role.is_serving())
        .map(|role| role.label())
        .collect();
    let matcher = format!("dexzd_role{{role=~\"{}\"}}", serving.join("|"));
    assert!(read("deploy/prometheus/alerts.yaml").contains(&matcher), "{matcher}");
}
