//! `cargo xtask fix`: repairs what a program can repair.

use crate::setup::{self, Need};
use crate::shell::{self, Failure, cargo};

pub(crate) fn run() -> Result<(), Failure> {
    setup::run(Need::Checks)?;
    // The light build: the same sources but for the RocksDB store, without RocksDB's compile time.
    shell::run(&mut cargo(&[
        "clippy",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
        "--workspace",
        "--no-default-features",
        "--all-targets",
    ]))?;
    shell::run(&mut cargo(&["fmt", "--all"]))
}
