//! What can be typed: every command, flag and default.

mod admin;
mod dev;
mod flow;
mod security;

use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use self::admin::{AdminCommand, StepDownArguments};
pub(crate) use self::dev::DevArguments;
pub(crate) use self::flow::{
    ActiveStepSearch, FlowCommand, HistoryArguments, IdReusePolicy, InspectArguments, PublishArguments,
    RunArguments, SearchArguments, SkipArguments, StartArguments, StepDurability, StopArguments, StopType,
    TimeoutPolicy, WatchArguments,
};
pub(crate) use self::security::SecurityArguments;
use crate::duration::parse_duration;

/// Where `dexcli` looks for a server unless told otherwise.
pub(crate) const DEFAULT_SERVER: &str = "127.0.0.1:8801";

/// How long a bounded command may take unless told otherwise.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Talk to a dex-server-zd from the command line.
#[derive(Debug, Parser)]
#[command(name = "dexcli", version, max_term_width = 100, subcommand_required = true)]
pub(crate) struct Arguments {
    /// The server's address: host:port; several, separated by commas, are tried in turn
    #[arg(
        long,
        global = true,
        help_heading = "Options of every command",
        value_name = "HOST:PORT",
        env = "DEX_FLOW_SERVICE_ADDRESS",
        hide_env_values = true,
        default_value = DEFAULT_SERVER
    )]
    pub(crate) server: String,

    /// How to print the result: table is the default on a terminal, json everywhere else
    #[arg(long, global = true, help_heading = "Options of every command", value_name = "FORMAT")]
    pub(crate) output: Option<Format>,

    /// The longest a command may take, with its unit (500ms, 30s, 2m); 0 for no limit. Default: 30s,
    /// 2m for admin step-down, and no limit for commands that wait by nature (watch, start --wait, dev)
    #[arg(long, global = true, help_heading = "Options of every command", value_name = "DURATION", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) security: SecurityArguments,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show whether the server serves; exit code 1 if it does not
    Health,
    /// Show this program's version, or check that it can talk to the server
    Version {
        #[command(subcommand)]
        command: Option<VersionCommand>,
    },
    /// Start a development server on this machine; Ctrl+C stops it
    Dev(DevArguments),
    /// Start, find, watch and stop Flows
    #[command(subcommand, subcommand_required = true)]
    Flow(FlowCommand),
    /// Send messages to a Flow
    #[command(subcommand, subcommand_required = true)]
    Channel(ChannelCommand),
    /// Let time pass for a Flow
    #[command(subcommand, subcommand_required = true)]
    Timer(TimerCommand),
    /// See which process serves a node, and make it give way to another
    #[command(subcommand, subcommand_required = true)]
    Admin(AdminCommand),
    /// Print the completion script of a shell
    Completions {
        /// The shell: for bash, add `source <(dexcli completions bash)` to ~/.bashrc
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum VersionCommand {
    /// Ask the server for its version and compare the protocol intervals; exit code 1 if they do not meet
    Check,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChannelCommand {
    /// Publish messages to a Channel of a running Flow
    Publish(PublishArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TimerCommand {
    /// Make a timer fire now
    Skip(SkipArguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Table,
}

/// `0` means no limit here, and only here: every other duration needs a unit and a positive value.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    parse_duration(text)
}
