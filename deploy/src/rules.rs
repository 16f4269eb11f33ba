//! The rules that every deployment of ours keeps, each with the requirement that it comes from.

use std::time::Duration;

use dexzd_server::config::{Config, Overrides, Profile, Standby};
use serde_json::Value;

use crate::deployment::{Deployment, documents, items};

/// Where the server answers clients, Workers, admins and health.
const API_PORT: u64 = 8801;

/// D-18: how long the commit drain may last.
const COMMIT_DRAIN: Duration = Duration::from_secs(10);

/// HA-78: for the cancel request, the release and the end of the process.
const GRACE_BEYOND_DRAINS: Duration = Duration::from_secs(20);

/// HA-68: a standby closes a client's connection after this, and the client then asks the Service again. By that time the
/// Service must have forgotten the standby.
const STANDBY_CLOSES_AFTER_SECONDS: u64 = 3;

/// A rule that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The requirement, or a word where there is none.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
}

/// Everything that is wrong with a deployment.
#[must_use]
pub fn broken(deployment: &Deployment) -> Vec<Broken> {
    let mut findings = Findings(Vec::new());
    let set = deployment.only("StatefulSet");
    update_rules(&mut findings, &set["spec"]);
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    life_probes(&mut findings, container);
    volumes(&mut findings, &set["spec"], container);
    hardening(&mut findings, pod, container);
    services(&mut findings, deployment, &set["spec"]);
    references(&mut findings, deployment, set);
    match config(deployment) {
        Ok(config) => {
            readiness(&mut findings, &config, container);
            grace_and_lease(&mut findings, &config, set);
        }
        Err(error) => findings.add("configuration", error),
    }
    findings.0
}

/// The server's own reading of the configuration.
///
/// # Errors
///
/// Its own message.
pub fn config(deployment: &Deployment) -> Result<Config, String> {
    let document = documents(deployment.server_config()).remove(0);
    Config::parse(Profile::Node, &document.to_string(), Overrides::default())
        .map_err(|error| error.to_string())
}

struct Findings(Vec<Broken>);

impl Findings {
    fn add(&mut self, rule: &'static str, what: impl Into<String>) {
        self.0.push(Broken { rule, what: what.into() });
    }

    fn demand(&mut self, rule: &'static str, holds: bool, what: &str) {
        if !holds {
            self.add(rule, what);
        }
    }
}

fn update_rules(findings: &mut Findings, spec: &Value) {
    let parallel = spec["podManagementPolicy"] == "Parallel";
    findings.demand("HA-75", parallel, "podManagementPolicy must be Parallel: a standby is never ready");
    let on_delete = spec["updateStrategy"]["type"] == "OnDelete";
    findings.demand("HA-77", on_delete, "updateStrategy must be OnDelete: a standby is never ready");
}

fn life_probes(findings: &mut Findings, container: &Value) {
    for name in ["startupProbe", "livenessProbe"] {
        let probe = &container[name];
        let is_tcp = probe["tcpSocket"]["port"] == API_PORT && probe.get("grpc").is_none();
        findings.demand(
            "HA-76",
            is_tcp,
            &format!("{name} must be tcpSocket on {API_PORT}: no other reaches a standby"),
        );
    }
}

fn readiness(findings: &mut Findings, config: &Config, container: &Value) {
    let readiness = &container["readinessProbe"];
    if config.tls.is_some() {
        let command: Vec<&str> = items(&readiness["exec"]["command"]).filter_map(Value::as_str).collect();
        let asks_health = command.first().is_some_and(|program| program.ends_with("/dexcli"))
            && command.last() == Some(&"health")
            && command.contains(&"--tls")
            && readiness.get("grpc").is_none();
        findings.demand(
            "HA-67",
            asks_health,
            "readinessProbe must be `dexcli --tls health`: Kubernetes' own gRPC probe speaks no TLS",
        );
    } else {
        let asks_health = readiness["grpc"]["port"] == API_PORT
            && ["", "dex.FlowService", "dex.WorkerTaskService"]
                .contains(&readiness["grpc"]["service"].as_str().unwrap_or_default());
        findings.demand(
            "HA-67",
            asks_health,
            "readinessProbe must be gRPC health of the API: it finds the active",
        );
    }
    let period = readiness["periodSeconds"].as_u64().unwrap_or(10);
    let failures = readiness["failureThreshold"].as_u64().unwrap_or(3);
    findings.demand(
        "HA-68",
        period * failures < STANDBY_CLOSES_AFTER_SECONDS,
        "readinessProbe must notice an ended active before that closes its connections",
    );
}

fn volumes(findings: &mut Findings, spec: &Value, container: &Value) {
    let data_dir = items(&container["args"])
        .filter_map(Value::as_str)
        .find_map(|argument| argument.strip_prefix("--data-dir="))
        .unwrap_or_default();
    let mounted = items(&container["volumeMounts"]).find(|mount| mount["mountPath"] == data_dir);
    let claims = items(&spec["volumeClaimTemplates"]);
    let of_each_pod = mounted.is_some_and(|mount| {
        claims.into_iter().any(|claim| {
            claim["metadata"]["name"] == mount["name"]
                && claim["spec"]["resources"]["requests"]["storage"].is_string()
        })
    });
    findings.demand("HA-54", of_each_pod, "--data-dir must lie on a volume of the claim template");
}

fn hardening(findings: &mut Findings, pod: &Value, container: &Value) {
    let security = &pod["securityContext"];
    let not_root =
        security["runAsNonRoot"] == true && security["runAsUser"].as_u64().is_some_and(|id| id > 0);
    findings.demand("hardening", not_root, "the pod must not run as root");
    let owns_volume = security["fsGroup"].as_u64().is_some();
    findings.demand("hardening", owns_volume, "fsGroup must make the volume writable for the server");
    let own = &container["securityContext"];
    let closed = own["allowPrivilegeEscalation"] == false
        && own["readOnlyRootFilesystem"] == true
        && own["capabilities"]["drop"][0] == "ALL";
    findings.demand("hardening", closed, "the container must drop every privilege");
    let no_token = pod["automountServiceAccountToken"] == false;
    findings.demand("hardening", no_token, "the server never talks to Kubernetes: mount no token");
    let resources = &container["resources"];
    findings.demand(
        "resources",
        resources["limits"].get("cpu").is_none(),
        "no limit on CPU: a throttled process renews its lease late",
    );
    let asks = &resources["requests"];
    findings.demand(
        "resources",
        asks["cpu"].is_string() && asks["memory"].is_string(),
        "requests are missing",
    );
}

fn services(findings: &mut Findings, deployment: &Deployment, spec: &Value) {
    let labels = &spec["template"]["metadata"]["labels"];
    let mut for_clients = 0;
    for service in deployment.of_kind("Service") {
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        let selector = &service["spec"]["selector"];
        findings.demand(
            "services",
            is_part_of(selector, labels),
            &format!("{name} does not select the pods"),
        );
        let everybody = service["spec"]["publishNotReadyAddresses"] == true;
        if service["spec"]["clusterIP"] == "None" {
            let ours = spec["serviceName"] == name;
            findings.demand(
                "services",
                everybody && ours,
                &format!("{name} must name every pod, ready or not, for dexcli --server"),
            );
        } else {
            for_clients += 1;
            findings.demand("HA-67", !everybody, &format!("{name} must lead clients only to the active"));
        }
    }
    findings.demand("services", for_clients == 1, "one Service for clients");
}

/// Names that lead nowhere, which Kubernetes accepts.
fn references(findings: &mut Findings, deployment: &Deployment, set: &Value) {
    let spec = &set["spec"];
    let pod = &spec["template"]["spec"];
    let labels = &spec["template"]["metadata"]["labels"];
    findings.demand(
        "references",
        is_part_of(&spec["selector"]["matchLabels"], labels),
        "the StatefulSet does not select its own pods",
    );
    for budget in deployment.of_kind("PodDisruptionBudget") {
        let selects = is_part_of(&budget["spec"]["selector"]["matchLabels"], labels);
        findings.demand("references", selects, "the PodDisruptionBudget does not select the pods");
        let one = budget["spec"]["maxUnavailable"] == 1;
        findings.demand("budget", one, "one pod at a time, and a single replica stays evictable");
        // Another policy would evict whoever is about to take over.
        let policy = budget["spec"]["unhealthyPodEvictionPolicy"] == "IfHealthyBudget";
        findings.demand("budget", policy, "nobody is evicted while nobody serves");
    }
    let account = &pod["serviceAccountName"];
    let exists = deployment.of_kind("ServiceAccount").any(|it| it["metadata"]["name"] == *account);
    findings.demand("references", exists, "the ServiceAccount of the pods is missing");
    let ports: Vec<&Value> = items(&pod["containers"][0]["ports"]).map(|port| &port["name"]).collect();
    for service in deployment.of_kind("Service") {
        for port in items(&service["spec"]["ports"]) {
            let target = &port["targetPort"];
            findings.demand(
                "references",
                ports.contains(&target),
                &format!("no container port is named {target}"),
            );
        }
    }
}

fn grace_and_lease(findings: &mut Findings, config: &Config, set: &Value) {
    let least = config.attempt_drain_timeout + COMMIT_DRAIN + GRACE_BEYOND_DRAINS;
    let grace = set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
    findings.demand(
        "HA-78",
        Duration::from_secs(grace) >= least,
        &format!("terminationGracePeriodSeconds is {grace}, but a stop may take {} s", least.as_secs()),
    );
    let replicas = set["spec"]["replicas"].as_u64().unwrap_or(1);
    let is_hot = match &config.standby {
        Standby::Hot(_) => true,
        Standby::Cold { .. } => false,
    };
    findings.demand("HA-75", replicas >= 2 || !is_hot, "mode hot needs a second replica to take over");
    let affinity = &set["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"];
    findings.demand(
        "HA-75",
        replicas < 2 || affinity.is_object(),
        "two processes on one machine die together: podAntiAffinity",
    );
    let period = config.lease_duration.period();
    findings.demand(
        "HA-80",
        replicas < 2 || period <= Duration::from_secs(10),
        "with a standby the lease is what a crash costs: 10 s",
    );
    findings.demand(
        "HA-37",
        replicas > 1 || period >= Duration::from_secs(60),
        "with a single process a short lease buys nothing: 60 s",
    );
    let port = u64::from(config.api_listen.port());
    findings.demand("ports", port == API_PORT, "api.listen must be the port of probes and services");
}

/// Whether every label of `part` stands in `whole`; an empty selector selects everything, so it is no part.
fn is_part_of(part: &Value, whole: &Value) -> bool {
    part.as_object().is_some_and(|labels| {
        !labels.is_empty() && labels.iter().all(|(name, value)| whole[name.as_str()] == *value)
    })
}
