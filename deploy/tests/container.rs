//! The container file. No engine builds it here: what can be read from it is checked, the build itself is not.

use dexzd_deploy::deployment::{Deployment, items};
use dexzd_deploy::read;
use serde_json::Value;

/// The instructions, each as its keyword and the rest, with continued lines joined.
fn instructions() -> Vec<(String, String)> {
    let text = read("deploy/Containerfile").replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (keyword, rest) = line.split_once(' ').expect("an instruction has an argument");
            (keyword.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

fn all(keyword: &str) -> Vec<String> {
    instructions().into_iter().filter(|(own, _)| own == keyword).map(|(_, rest)| rest).collect()
}

/// Of the last stage, which is the image.
fn last(keyword: &str) -> String {
    let instructions = instructions();
    let stage = instructions.iter().rposition(|(own, _)| own == "FROM").expect("a stage");
    let found = instructions[stage..].iter().find(|(own, _)| own == keyword);
    found.unwrap_or_else(|| panic!("the last stage has no {keyword}")).1.clone()
}

#[test]
fn every_instruction_is_one() {
    let known = ["FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "ENTRYPOINT", "CMD"];
    for (keyword, rest) in instructions() {
        assert!(known.contains(&keyword.as_str()), "{keyword} {rest}");
    }
}

#[test]
fn it_builds_the_two_programs_with_a_compiler_that_is_new_enough() {
    let workspace = read("Cargo.toml");
    let needed = workspace.split("rust-version = \"1.").nth(1).and_then(|rest| rest.split('"').next());
    let needed: u32 = needed.and_then(|minor| minor.parse().ok()).expect("the workspace names a version");
    let stages = all("FROM");
    assert_eq!(stages.len(), 2);
    let minor = stages[0].split("/rust:1.").nth(1).and_then(|rest| rest.split('-').next());
    let minor: u32 = minor.and_then(|minor| minor.parse().ok()).expect("the first stage is an image of Rust");
    assert!(minor >= needed, "1.{minor} compiles nothing that needs 1.{needed}");
    // The base of both stages is one release of Debian, so that the programs find the libraries they were linked with.
    assert!(stages[0].contains("bookworm") && stages[1].contains("debian12"), "{stages:?}");

    let build = all("RUN").into_iter().find(|run| run.contains("cargo build")).expect("a build");
    for part in ["--locked", "--release", "-p dexzd-server", "-p dexzd-cli"] {
        assert!(build.contains(part), "{part}");
    }
    for (package, program) in [("server", "dex-server-zd"), ("cli", "dexcli")] {
        assert!(read(&format!("{package}/Cargo.toml")).contains(&format!("name = \"{program}\"")));
        assert!(build.contains(&format!("target/release/{program}")), "{program}");
        assert!(last("COPY").contains(&format!("/out/{program}")), "{program}");
    }
}

/// A health check of the engine would restart a standby (HA-67).
#[test]
fn it_runs_as_the_user_of_the_manifests_and_checks_no_health() {
    assert_eq!(all("HEALTHCHECK"), Vec::<String>::new());
    let deployment = Deployment::of_manifests();
    let pod = &deployment.only("StatefulSet")["spec"]["template"]["spec"];
    let security = &pod["securityContext"];
    assert_eq!(last("USER"), format!("{}:{}", security["runAsUser"], security["runAsGroup"]));
    assert_eq!(last("EXPOSE"), "8801 9090");

    // The manifests give the arguments, so the image must give the program, and not through a shell, which it lacks.
    let entry: Vec<String> = serde_json::from_str(&last("ENTRYPOINT")).expect("a JSON list");
    assert_eq!(entry, ["/usr/local/bin/dex-server-zd"]);
    let command: Vec<String> = serde_json::from_str(&last("CMD")).expect("a JSON list");
    let arguments: Vec<&str> = items(&pod["containers"][0]["args"]).filter_map(Value::as_str).collect();
    assert_eq!(command, arguments[..2]);
}

#[test]
fn what_is_compiled_here_stays_out_of_the_image() {
    let ignored = read(".dockerignore");
    assert!(ignored.lines().any(|line| line == "**/target"));
    // Compiled into programs or read by their build.
    for needed in ["docs", "proto", "Cargo.lock"] {
        assert!(ignored.lines().all(|line| line != needed), "{needed}");
    }
}
