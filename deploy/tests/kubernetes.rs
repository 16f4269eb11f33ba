//! The manifests and the rendered chart keep the rules of Kubernetes deployments (HA-54, HA-67, HA-75 to HA-80).

use dexzd_deploy::deployment::{Deployment, documents, items};
use dexzd_deploy::read;
use dexzd_deploy::rules::{Broken, broken, config};
use dexzd_deploy::tools::{printed, render_chart, run, tool};
use serde_json::{Value, json};

/// Every deployment that is shipped, with a name for messages.
fn all() -> Vec<(&'static str, Deployment)> {
    let chart = |values| Deployment::parse(&render_chart(values, &[]));
    vec![
        ("deploy/kubernetes", Deployment::of_manifests()),
        ("the chart with manifests-values.yaml", chart("manifests-values.yaml")),
        ("the chart with everything-values.yaml", chart("everything-values.yaml")),
        ("the chart with single-values.yaml", chart("single-values.yaml")),
    ]
}

#[test]
fn no_shipped_deployment_breaks_a_rule() {
    for (name, deployment) in all() {
        assert_eq!(broken(&deployment), Vec::new(), "{name}");
    }
}

/// The manifests after `change`, which broke what is given.
fn broken_by(change: impl FnOnce(&mut Deployment)) -> Vec<&'static str> {
    let mut deployment = Deployment::of_manifests();
    change(&mut deployment);
    broken(&deployment).iter().map(|Broken { rule, .. }| *rule).collect()
}

/// The manifests with another value at a path of the `StatefulSet`.
fn with(path: &'static str, value: Value) -> Vec<&'static str> {
    broken_by(|deployment| {
        let set = deployment.only_mut("StatefulSet");
        *set.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = value;
    })
}

const POD: &str = "/spec/template/spec";

/// With TLS the kubelet's own probe would never succeed, and no pod would ever be ready.
#[test]
fn ha_067_with_tls_the_readiness_probe_is_a_command_that_speaks_it() {
    let chart = || Deployment::parse(&render_chart("everything-values.yaml", &[]));
    let probe = "/spec/template/spec/containers/0/readinessProbe";
    let command: Vec<String> =
        items(&chart().only("StatefulSet").pointer(probe).expect("a probe")["exec"]["command"])
            .map(|word| word.as_str().expect("text").to_owned())
            .collect();
    assert_eq!(
        command.join(" "),
        "/usr/local/bin/dexcli --server=127.0.0.1:8801 --timeout=1s --tls \
         --tls-ca-file=/etc/dex-server-zd-tls/ca.crt --tls-server-name=billing.example.com health"
    );
    dexzd_cli::command().try_get_matches_from(&command).expect("dexcli takes it");
    let mut changed = chart();
    let grpc = json!({ "grpc": { "port": 8801, "service": "dex.FlowService" }, "periodSeconds": 1, "failureThreshold": 2 });
    *changed.only_mut("StatefulSet").pointer_mut(probe).expect("a probe") = grpc;
    let rules: Vec<&str> = broken(&changed).iter().map(|Broken { rule, .. }| *rule).collect();
    assert_eq!(rules, ["HA-67"]);
}

/// The settings that well-meaning people change back.
#[test]
fn lesson_f1_a_change_of_what_matters_is_found() {
    assert_eq!(with("/spec/updateStrategy/type", json!("RollingUpdate")), ["HA-77"]);
    assert_eq!(with("/spec/podManagementPolicy", json!("OrderedReady")), ["HA-75"]);
    let grpc = json!({ "grpc": { "port": 8801 } });
    assert_eq!(with("/spec/template/spec/containers/0/livenessProbe", grpc.clone()), ["HA-76"]);
    assert_eq!(with("/spec/template/spec/containers/0/startupProbe", grpc), ["HA-76"]);
    let tcp = json!({ "tcpSocket": { "port": 8801 }, "periodSeconds": 1, "failureThreshold": 2 });
    assert_eq!(with("/spec/template/spec/containers/0/readinessProbe", tcp), ["HA-67"]);
    let service = "/spec/template/spec/containers/0/readinessProbe/grpc/service";
    assert_eq!(with(service, json!("dex.HotStandby")), ["HA-67"]);
    let period = "/spec/template/spec/containers/0/readinessProbe/periodSeconds";
    assert_eq!(with(period, json!(10)), ["HA-68"]);
    assert_eq!(with("/spec/template/spec/terminationGracePeriodSeconds", json!(30)), ["HA-78"]);
    assert_eq!(with("/spec/template/spec/terminationGracePeriodSeconds", json!(59)), ["HA-78"]);
    assert_eq!(with("/spec/replicas", json!(1)), ["HA-75", "HA-37"]);
    assert_eq!(with("/spec/volumeClaimTemplates", json!([])), ["HA-54"]);
    assert_eq!(with("/spec/template/spec/affinity", json!({})), ["HA-75"]);
    assert_eq!(with("/spec/serviceName", json!("dex-server-zd")), ["services"]);
    let limits = "/spec/template/spec/containers/0/resources/limits";
    assert_eq!(with(limits, json!({ "cpu": "1" })), ["resources"]);
    assert_eq!(with("/spec/template/spec/securityContext", json!({})), ["hardening", "hardening"]);
    assert_eq!(with("/spec/template/metadata/labels", json!({ "app": "dex" })).len(), 4);
}

#[test]
fn lesson_f1_a_change_of_the_configuration_is_found() {
    let with_config = |from: &'static str, to: &'static str| {
        broken_by(|deployment| {
            let map = deployment.only_mut("ConfigMap");
            let text = map["data"]["config.yaml"].as_str().expect("it has one").to_owned();
            assert!(text.contains(from), "the configuration has {from}");
            map["data"]["config.yaml"] = json!(text.replace(from, to));
        })
    };
    assert_eq!(with_config("attemptDrainTimeout: 30s", "attemptDrainTimeout: 31s"), ["HA-78"]);
    assert_eq!(with_config("duration: 10s", "duration: 60s"), ["HA-80"]);
    assert_eq!(with_config("mode: hot", "mode: warm"), ["configuration"]);
    assert_eq!(with_config("mode: hot", "modus: hot"), ["configuration"]);
    assert_eq!(with_config("0.0.0.0:8801", "0.0.0.0:8800"), ["ports"]);
}

#[test]
fn ha_067_only_the_readiness_probe_asks_for_health_and_clients_reach_only_the_ready() {
    for (name, deployment) in all() {
        let pod = &deployment.only("StatefulSet")["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        if config(&deployment).expect("a configuration").tls.is_none() {
            assert_eq!(container["readinessProbe"]["grpc"]["service"], "dex.FlowService", "{name}");
        }
        let for_clients: Vec<&Value> = deployment
            .of_kind("Service")
            .filter(|service| service["spec"]["publishNotReadyAddresses"] != true)
            .collect();
        assert_eq!(for_clients.len(), 1, "{name}");
        assert_eq!(for_clients[0]["metadata"]["name"], "dex-server-zd", "{name}");
    }
}

#[test]
fn ha_054_and_ha_075_two_pods_each_with_a_volume_of_the_same_size() {
    let manifests = Deployment::of_manifests();
    let spec = &manifests.only("StatefulSet")["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["podManagementPolicy"], "Parallel");
    // One template, so all claims have one size.
    let claims = spec["volumeClaimTemplates"].as_array().expect("a list");
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["spec"]["resources"]["requests"]["storage"], "20Gi");
    assert_eq!(
        items(&spec["template"]["spec"]["volumes"]).filter(|it| it.get("emptyDir").is_some()).count(),
        0
    );
}

#[test]
fn ha_076_start_and_life_are_probed_by_tcp() {
    for (name, deployment) in all() {
        let container = &deployment.only("StatefulSet")["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["startupProbe"]["tcpSocket"]["port"], 8801, "{name}");
        assert_eq!(container["livenessProbe"]["tcpSocket"]["port"], 8801, "{name}");
    }
}

#[test]
fn ha_077_pods_are_replaced_only_by_hand() {
    for (name, deployment) in all() {
        let strategy = &deployment.only("StatefulSet")["spec"]["updateStrategy"];
        assert_eq!(*strategy, json!({ "type": "OnDelete" }), "{name}");
    }
}

#[test]
fn ha_078_review_7_13_the_grace_period_follows_the_drain() {
    let grace = |deployment: &Deployment| {
        deployment.only("StatefulSet").pointer(POD).expect("a pod")["terminationGracePeriodSeconds"].clone()
    };
    assert_eq!(grace(&Deployment::of_manifests()), 60);
    let chart = Deployment::parse(&render_chart("everything-values.yaml", &[]));
    assert_eq!(config(&chart).expect("a configuration").attempt_drain_timeout.as_secs(), 120);
    assert_eq!(grace(&chart), 150);
}

#[test]
fn ha_080_with_a_standby_the_lease_is_ten_seconds_and_without_one_a_minute() {
    let lease = |deployment: &Deployment| {
        config(deployment).expect("a configuration").lease_duration.period().as_secs()
    };
    assert_eq!(lease(&Deployment::of_manifests()), 10);
    assert_eq!(lease(&Deployment::parse(&render_chart("single-values.yaml", &[]))), 60);
}

#[test]
fn ha_111_the_network_policy_admits_only_who_is_named() {
    let manifest = documents(&read("deploy/kubernetes/examples/networkpolicy.yaml")).remove(0);
    let rendered = Deployment::parse(&render_chart("everything-values.yaml", &[]));
    for policy in [&manifest, rendered.only("NetworkPolicy")] {
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
        let rules: Vec<&Value> = items(&policy["spec"]["ingress"]).collect();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[0]["ports"], json!([{ "port": 8801 }]));
        assert_eq!(rules[1]["ports"], json!([{ "port": 9090 }]));
        for rule in rules {
            // An absent or empty `from` admits everybody.
            assert!(rule["from"].as_array().is_some_and(|peers| !peers.is_empty()));
        }
    }
    // Nobody named, nobody admitted.
    let nobody = ["--set-json", "networkPolicy.clients=[],networkPolicy.metrics=[]"];
    let rendered = Deployment::parse(&render_chart("everything-values.yaml", &nobody));
    assert_eq!(rendered.only("NetworkPolicy")["spec"].get("ingress"), None);
}

#[test]
fn kubernetes_knows_every_object() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files: Vec<String> =
        ["serviceaccount", "configmap", "services", "statefulset", "poddisruptionbudget"]
            .map(|name| format!("deploy/kubernetes/{name}.yaml"))
            .into();
    files.extend(["secret", "networkpolicy"].map(|name| format!("deploy/kubernetes/examples/{name}.yaml")));
    for values in ["manifests-values.yaml", "everything-values.yaml", "single-values.yaml"] {
        // The objects of the Prometheus operator are no part of Kubernetes.
        let known = Deployment::parse(&render_chart(values, &[]))
            .objects
            .into_iter()
            .filter(|object| object["apiVersion"] != "monitoring.coreos.com/v1");
        for (index, object) in known.enumerate() {
            let path = folder.path().join(format!("{values}-{index}.json"));
            std::fs::write(&path, object.to_string()).expect("a file");
            files.push(path.to_string_lossy().into_owned());
        }
    }
    // Oldest first: a field that a release does not know is dropped there without a word.
    for version in ["1.29.0", "1.37.0"] {
        let mut validate = tool("kubernetes-validate");
        validate.args(["--strict", "--no-warn", "--kubernetes-version", version]).args(&files);
        let output = run(validate);
        assert!(output.status.success(), "{}", printed(&output));
        let passed = printed(&output).lines().filter(|line| line.contains(" passed ")).count();
        assert!(passed >= files.len(), "{}", printed(&output));
    }
}

#[test]
fn the_kustomization_names_every_manifest() {
    let kustomization = documents(&read("deploy/kubernetes/kustomization.yaml")).remove(0);
    let named: Vec<&str> = items(&kustomization["resources"]).filter_map(Value::as_str).collect();
    let folder = dexzd_deploy::repository().join("deploy/kubernetes");
    let mut present: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".yaml") && name != "kustomization.yaml")
        .collect();
    present.sort();
    let mut sorted = named.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, present);
    let objects: usize =
        named.iter().map(|name| documents(&read(&format!("deploy/kubernetes/{name}"))).len()).sum();
    assert_eq!(Deployment::of_manifests().objects.len(), objects);
}
