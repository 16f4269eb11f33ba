//! A set of Kubernetes objects, as manifests or as a rendered chart give them.

use serde_json::Value;

use crate::read;

/// The files of `deploy/kubernetes` that together are a deployment, in the order of its kustomization.
const MANIFESTS: [&str; 5] =
    ["serviceaccount", "configmap", "services", "statefulset", "poddisruptionbudget"];

/// The objects of one deployment.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// In the order in which they were read.
    pub objects: Vec<Value>,
}

impl Deployment {
    /// `deploy/kubernetes`, without its examples.
    #[must_use]
    pub fn of_manifests() -> Self {
        let files = MANIFESTS.map(|name| read(&format!("deploy/kubernetes/{name}.yaml")));
        Self { objects: files.iter().flat_map(|text| documents(text)).collect() }
    }

    /// What helm printed.
    #[must_use]
    pub fn parse(yaml: &str) -> Self {
        Self { objects: documents(yaml) }
    }

    /// The objects of one kind.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }

    /// The one object of a kind.
    ///
    /// # Panics
    ///
    /// If there are none or several.
    #[must_use]
    pub fn only(&self, kind: &str) -> &Value {
        let mut objects = self.of_kind(kind);
        let object = objects.next().unwrap_or_else(|| panic!("no {kind}"));
        assert!(objects.next().is_none(), "more than one {kind}");
        object
    }

    /// The same, to change it.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn only_mut(&mut self, kind: &str) -> &mut Value {
        self.objects.iter_mut().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
    }

    /// The text that the server is given as its configuration.
    ///
    /// # Panics
    ///
    /// If the `ConfigMap` that the pods mount has none.
    #[must_use]
    pub fn server_config(&self) -> &str {
        let volumes = &self.only("StatefulSet")["spec"]["template"]["spec"]["volumes"];
        let mounted = items(volumes).find_map(|volume| volume["configMap"]["name"].as_str());
        let map = self.of_kind("ConfigMap").find(|map| map["metadata"]["name"].as_str() == mounted);
        map.and_then(|map| map["data"]["config.yaml"].as_str())
            .expect("the pods mount a ConfigMap with a config.yaml")
    }
}

/// Every document of a YAML stream, as JSON, without the empty ones.
///
/// # Panics
///
/// If it is no YAML.
#[must_use]
pub fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("no YAML: {error}"))
}

/// The items of a list; none if it is missing.
pub fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
