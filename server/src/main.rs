//! `dex-server-zd`.

use clap::Parser as _;
use dexzd_io_tokio::exit_at_once;
use dexzd_server::cli::CommandLine;

/// Everything that must be closed in order is closed by now, or would hang: threads of a node that was ended by force, or
/// that stopped because its disk failed, may still have their local store open.
fn main() {
    exit_at_once(dexzd_server::life::run(CommandLine::parse()))
}
