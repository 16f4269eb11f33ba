//! Other people's programs that judge what is shipped. `cargo xtask setup` installs them.

use std::process::{Command, Output, Stdio};

use crate::repository;

/// `helm`, `promtool` or `kubernetes-validate`.
#[must_use]
pub fn tool(name: &str) -> Command {
    Command::new(dexzd_rig::tools::program(&repository(), name))
}

/// Runs it in the repository, and gives what it said.
///
/// # Panics
///
/// If it cannot be run.
#[must_use]
pub fn run(mut command: Command) -> Output {
    let program = command.get_program().to_string_lossy().into_owned();
    command.current_dir(repository()).stdin(Stdio::null()).output().unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; `cargo xtask setup` installs helm, promtool and kubernetes-validate")
    })
}

/// What it printed; stdout first.
#[must_use]
pub fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The chart, rendered by helm.
///
/// # Panics
///
/// If helm refuses.
#[must_use]
pub fn render_chart(values_file: &str, more: &[&str]) -> String {
    let output = try_render_chart(values_file, more);
    assert!(output.status.success(), "helm template with {values_file}: {}", printed(&output));
    String::from_utf8(output.stdout).expect("helm prints UTF-8")
}

/// The same, with whatever helm says.
#[must_use]
pub fn try_render_chart(values_file: &str, more: &[&str]) -> Output {
    let mut helm = tool("helm");
    helm.args(["template", "dex-server-zd", CHART, "--namespace", "production", "--values"]);
    helm.arg(format!("{CHART}/ci/{values_file}")).args(more);
    run(helm)
}

/// The chart's folder.
pub const CHART: &str = "deploy/helm/dex-server-zd";
