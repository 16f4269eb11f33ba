//! `dexcli`: the command line of dex-server-zd.
//!
//! stdout carries the result and nothing else; stderr one JSON error object; the exit code is 0 (done),
//! 1 (the request failed) or 2 (it was not a valid request). The JSON is stable: fields are added, never
//! renamed. On a terminal, results are tables and errors are sentences.

mod args;
mod commands;
mod connection;
mod duration;
mod failure;
mod output;
mod render;
mod value;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::args::Arguments;
use crate::failure::{Failure, Kind};
use crate::output::Output;

/// Everything that can be typed.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the command line of this process asks for.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse_arguments(&error),
    };
    let output = Output::new(arguments.output);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::new(Kind::Io, "start", format!("no event loop: {error}"));
            return output.fail(&failure);
        }
    };
    match runtime.block_on(commands::run(&arguments, &output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output.fail(&failure),
    }
}

/// Help and version go to stdout with exit code 0; everything else is a usage error.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is no reason to complain.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let output = Output::new(None);
    if output.explains_to_a_person() {
        let _ = error.print();
        return ExitCode::from(2);
    }
    let text = error.render().to_string();
    let message = text.trim_start_matches("error: ").trim_end();
    output.fail(&Failure::new(Kind::Usage, "arguments", message.to_owned()))
}
