//! What is shipped for production (the manifests, the chart, the alerts and the dashboard beside this file), read and
//! checked: this crate holds the rules that they must keep, and is used by nothing but its tests.
//!
//! What another program can judge better is left to it: helm renders the chart, promtool runs the alerts' own tests,
//! kubernetes-validate knows the schemas of Kubernetes. [`tools`] finds them.

pub mod deployment;
pub mod pages;
pub mod promql;
pub mod rules;
pub mod tools;

pub use dexzd_rig::tools::repository;

/// The text of a file of the repository.
///
/// # Panics
///
/// If there is none: its name is in the message.
#[must_use]
pub fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
