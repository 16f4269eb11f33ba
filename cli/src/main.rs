//! `dexcli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    dexzd_cli::main()
}
