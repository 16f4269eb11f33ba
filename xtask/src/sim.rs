//! `cargo xtask sim …`: builds the program `sim` and runs it with everything that was typed behind `sim`.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::processes::build;
use crate::shell::{Failure, repository};
use crate::test::{SIMULATED, packages};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What `sim` is to do: see `cargo xtask sim --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The exit code is that of `sim`; a failure means that it could not be run.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let status = command(&[])?
        .args(&arguments.arguments)
        .status()
        .map_err(|error| Failure::new(format!("cannot run sim: {error}")))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    // Ended by a signal: nobody's verdict.
    code.map(ExitCode::from).ok_or_else(|| Failure::new(format!("sim ended with {status}")))
}

/// The program, built with the packages and the profile of `cargo xtask test`, so that neither compiles for
/// the other anew. It runs where the task was started: its arguments name files.
pub(crate) fn command(flags: &[&'static str]) -> Result<Command, Failure> {
    let mut all = packages(&SIMULATED);
    all.extend(["--profile", "sim", "--bins"]);
    all.extend(flags);
    let mut command = Command::new(build(&all)?.find("sim")?);
    command.env("CARGO_MANIFEST_DIR", repository().join("sim-tests"));
    Ok(command)
}
