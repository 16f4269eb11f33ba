//! The program `sim` as a person uses it: determinism across processes, exit codes, files.

use std::path::PathBuf;
use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments).output().expect("it was just built")
}

fn code(arguments: &[&str]) -> Option<i32> {
    sim(arguments).status.code()
}

/// A path for this test only.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dexzd-sim-program-{}-{name}", std::process::id()))
}

#[test]
fn two_processes_write_the_same_trace_byte_for_byte() {
    for (world, seed) in [("lease", "7"), ("product", "7")] {
        let traces: Vec<Vec<u8>> = (0..2)
            .map(|number| {
                let path = file(&format!("{world}-{number}"));
                let text = path.to_str().expect("it is ASCII");
                let output = sim(&["replay", "--world", world, "--seed", seed, "--quiet", "--trace", text]);
                assert_eq!(output.status.code(), Some(0));
                let trace = std::fs::read(&path).expect("it was written");
                std::fs::remove_file(&path).expect("it is ours");
                trace
            })
            .collect();
        assert!(traces[0].len() > 10_000, "{world}");
        assert!(traces[0] == traces[1], "{world}: the traces of one seed differ");
    }
}

#[test]
fn every_kind_of_end_has_its_exit_code() {
    let write = |name: &str, text: &str| {
        let path = file(name);
        std::fs::write(&path, text).expect("the folder for temporary files can be written");
        path
    };
    let other = write("other", "# dexzd decisions 99 world=lease\n");
    let none = write("none", "store latency 9 1\n");
    let path = |path: &PathBuf| path.to_str().expect("it is ASCII").to_owned();
    assert_eq!(code(&["run", "--world", "lease", "--seeds", "1..20"]), Some(0));
    let broken = ["--mutant", "NoTakeoverMargin", "run", "--world", "lease", "--seeds", "1..200"];
    assert_eq!(code(&broken), Some(1));
    assert_eq!(code(&["run", "--seeds", "9..1"]), Some(2));
    assert_eq!(code(&["replay", "--seed", "1"]), Some(2));
    assert_eq!(code(&["replay", &path(&none), "--seed", "1", "--world", "lease"]), Some(2));
    assert_eq!(code(&["replay", "/no/such/file"]), Some(3));
    assert_eq!(code(&["replay", &path(&none)]), Some(3));
    assert_eq!(code(&["replay", &path(&other)]), Some(4));
    // One seed cannot kill it: a defect that lives is the simulator's fault.
    let lives = ["mutants", "NoTakeoverMargin", "--at-most", "1", "--repeat", "1"];
    assert_eq!(code(&lives), Some(5));
    std::fs::remove_file(&other).expect("it is ours");
    std::fs::remove_file(&none).expect("it is ours");
}

#[test]
fn a_refused_file_is_told_in_one_line() {
    let output = sim(&["explain", "/no/such/file"]);
    let told = String::from_utf8(output.stderr).expect("text");
    assert_eq!(told, "error: /no/such/file: No such file or directory (os error 2)\n");
    assert_eq!(output.stdout, b"");
}

#[test]
fn a_failing_run_leaves_a_small_decision_log_and_a_page() {
    let output = sim(&["--mutant", "NoTakeoverMargin", "run", "--world", "lease", "--seeds", "1..200"]);
    let told = String::from_utf8(output.stderr).expect("text");
    let named = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name));
        PathBuf::from(line.unwrap_or_else(|| panic!("no {name} in:\n{told}")))
    };
    let log = named("decision log: ");
    let page = std::fs::read_to_string(named("page: ")).expect("it was written");
    assert!(page.contains("<title>HA-13 and HA-17 (epochs) was broken at "), "{told}");
    let log = log.to_str().expect("it is ASCII");
    assert_eq!(code(&["--mutant", "NoTakeoverMargin", "replay", "--quiet", log]), Some(1));
    assert_eq!(code(&["replay", "--quiet", log]), Some(0));
    let first = told.lines().find(|line| !line.is_empty()).unwrap_or_default();
    assert!(first.starts_with("HA-13 and HA-17 (epochs) was broken at "), "{first}");
}
