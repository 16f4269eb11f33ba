//! `cargo xtask fuzz`: lets libFuzzer make up inputs for the core (fuzz/README.md).

use std::fs;

use crate::shell::{self, Failure, repository};

/// Every target with a folder under `fuzz/corpus`.
const TARGETS: [&str; 8] = [
    "decision_log",
    "engine_inputs",
    "lease_record",
    "log_entry",
    "manifest",
    "node_inputs",
    "stored_records",
    "wire_frames",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One target; all of them, one after another, if none is named
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    target: Option<String>,

    /// How long each one runs, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_tools()?;
    match &arguments.target {
        Some(target) => fuzz(target, arguments.seconds),
        None => TARGETS.iter().try_for_each(|target| fuzz(target, arguments.seconds)),
    }
}

fn check_tools() -> Result<(), Failure> {
    if !shell::succeeds("rustup", &["run", "nightly", "rustc", "--version"]) {
        return Err(Failure::new(
            "fuzzing needs the nightly toolchain: run `rustup toolchain install nightly`, then this again",
        ));
    }
    if !shell::succeeds("cargo-fuzz", &["--version"]) {
        return Err(Failure::new(
            "fuzzing needs cargo-fuzz: run `cargo install cargo-fuzz --locked`, then this again",
        ));
    }
    Ok(())
}

/// New inputs go into a folder of their own: the committed ones stay few.
fn fuzz(target: &str, seconds: u32) -> Result<(), Failure> {
    let found = repository().join("fuzz/target/corpus").join(target);
    fs::create_dir_all(&found)
        .map_err(|error| Failure::new(format!("cannot make {}: {error}", found.display())))?;
    let time = format!("-max_total_time={seconds}");
    // The core is safe Rust: an address sanitizer would only make it slower.
    let mut command = std::process::Command::new("rustup");
    command
        .args(["run", "nightly", "cargo", "fuzz", "run", "-s", "none", target])
        .arg(&found)
        .arg(repository().join("fuzz/corpus").join(target))
        .args(["--", time.as_str(), "-max_len=2048"])
        .current_dir(repository())
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN");
    shell::run(&mut command).map_err(|_| {
        Failure::new(format!("{target} found something, or could not run; fuzz/README.md says what to do"))
    })
}
