//! `dex-server-zd`.

use std::process::ExitCode;

use clap::Parser as _;
use dexzd_server::cli::CommandLine;

fn main() -> ExitCode {
    ExitCode::from(dexzd_server::life::run(CommandLine::parse()))
}
