//! The chart renders what the manifests say, and refuses wrong values with a message that names them.

use dexzd_deploy::deployment::Deployment;
use dexzd_deploy::read;
use dexzd_deploy::tools::{CHART, printed, render_chart, run, tool, try_render_chart};
use serde_json::Value;

#[test]
fn helm_finds_nothing_to_complain_about() {
    for values in ["manifests-values.yaml", "everything-values.yaml", "single-values.yaml"] {
        let mut helm = tool("helm");
        helm.args(["lint", "--strict", CHART, "--values"]).arg(format!("{CHART}/ci/{values}"));
        let output = run(helm);
        assert!(output.status.success(), "{values}: {}", printed(&output));
    }
}

#[test]
fn the_chart_renders_the_manifests() {
    let rendered = normal(Deployment::parse(&render_chart("manifests-values.yaml", &[])));
    let manifests = normal(Deployment::of_manifests());
    assert_eq!(rendered.len(), manifests.len());
    for (rendered, manifest) in rendered.iter().zip(&manifests) {
        assert_eq!(rendered, manifest);
    }
}

/// The objects in one order, without what only helm says about them, and with the configuration as what it means.
fn normal(deployment: Deployment) -> Vec<Value> {
    let mut objects = deployment.objects;
    for object in &mut objects {
        let labels = object["metadata"]["labels"].as_object_mut().expect("labels");
        for name in ["helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"] {
            labels.remove(name);
        }
        if let Some(annotations) =
            object.pointer_mut("/spec/template/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.remove("checksum/config");
        }
        if let Some(config) = object.pointer_mut("/data/config.yaml") {
            *config = serde_saphyr::from_str(config.as_str().expect("text")).expect("YAML");
        }
    }
    objects.sort_by_key(|object| format!("{} {}", object["kind"], object["metadata"]["name"]));
    objects
}

#[test]
fn extra_configuration_is_laid_over() {
    let chart = Deployment::parse(&render_chart("everything-values.yaml", &[]));
    let config: Value = serde_saphyr::from_str(chart.server_config()).expect("YAML");
    assert_eq!(config["standby"], serde_json::json!({ "mode": "hot", "behindLagThreshold": "20s" }));
}

#[test]
fn another_configuration_makes_another_revision() {
    let checksum = |more: &[&str]| {
        let chart = Deployment::parse(&render_chart("manifests-values.yaml", more));
        chart.only("StatefulSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"].clone()
    };
    assert_eq!(checksum(&[]), checksum(&["--set", "volume.size=30Gi"]));
    assert_ne!(checksum(&[]), checksum(&["--set", "lease.duration=6s"]));
}

/// A wrong value, and what helm must say about it.
const REFUSED: [(&str, &str); 11] = [
    ("replicas=0", "/replicas"),
    ("replica=2", "replica"),
    ("lease.duration=10", "/lease/duration"),
    ("standby.mode=warm", "/standby/mode"),
    ("antiAffinity=maybe", "/antiAffinity"),
    ("objectStorage.kind=nfs", "/objectStorage/kind"),
    ("nodeId=-orders", "/nodeId"),
    ("extraConfig.lifecycle.attemptDrainTimeout=60s", "attemptDrainTimeoutSeconds"),
    ("extraConfig.api.listen=:80", "extraConfig.api"),
    ("extraConfig.tls.keyFile=/k", "tls.secretName"),
    ("tls.secretName=s", "tls.serverName"),
];

#[test]
fn wrong_values_are_refused_by_name() {
    for (value, name) in REFUSED {
        let output = try_render_chart("manifests-values.yaml", &["--set", value]);
        assert!(!output.status.success(), "{value} is accepted");
        assert!(printed(&output).contains(name), "{value}: {}", printed(&output));
    }
}

#[test]
fn a_chart_without_values_says_what_it_needs() {
    let mut helm = tool("helm");
    helm.args(["template", "x", CHART]);
    let output = run(helm);
    assert!(!output.status.success());
    assert!(printed(&output).contains("/objectStorage"), "{}", printed(&output));
}

#[test]
fn the_chart_carries_the_alerts_and_the_dashboard() {
    for (copy, original) in [
        ("files/alerts.yaml", "deploy/prometheus/alerts.yaml"),
        ("files/dashboard.json", "deploy/grafana/dashboard.json"),
    ] {
        let copy = format!("{CHART}/{copy}");
        assert_eq!(read(&copy), read(original), "cp {original} {copy}");
    }
    let chart = Deployment::parse(&render_chart("everything-values.yaml", &[]));
    let dashboard = chart
        .of_kind("ConfigMap")
        .find_map(|map| map["data"]["dex-server-zd.json"].as_str())
        .expect("the dashboard is on");
    assert_eq!(
        serde_json::from_str::<Value>(dashboard).expect("JSON"),
        serde_json::from_str::<Value>(&read("deploy/grafana/dashboard.json")).expect("JSON")
    );
}

#[test]
fn ha_084_the_chart_leaves_the_standbys_alerts_to_deployments_with_one() {
    let groups = |more: &[&str]| -> Vec<String> {
        let chart = Deployment::parse(&render_chart("everything-values.yaml", more));
        let groups = &chart.only("PrometheusRule")["spec"]["groups"];
        dexzd_deploy::deployment::items(groups)
            .map(|group| group["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(groups(&[]), ["dex-server-zd", "dex-server-zd-hot-standby"]);
    assert_eq!(groups(&["--set", "replicas=1"]), ["dex-server-zd"]);
    assert_eq!(groups(&["--set", "standby.mode=cold"]), ["dex-server-zd"]);
}

#[test]
fn runbooks_lead_to_where_the_values_say() {
    let chart = Deployment::parse(&render_chart("everything-values.yaml", &[]));
    let text = chart.only("PrometheusRule").to_string();
    let links =
        text.matches("\"runbook_url\":\"https://example.com/dex-server-zd/docs/operator-guide.md#").count();
    assert_eq!(links, text.matches("runbook_url").count());
}
