//! The command line of `dex-server-zd`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{DurabilityMode, ListenAddress, Overrides, Profile};

/// A durable-execution server that needs nothing but an object store.
#[derive(Parser, Debug)]
#[command(
    name = "dex-server-zd",
    version,
    about,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
pub struct CommandLine {
    /// The same as `serve --config FILE`.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What to run.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What kind of process to run.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// One process of a production node, active or standing by, on an object store.
    ///
    /// Start two or more with the same nodeId and the same object store: one is active, the others are its standbys. Listens
    /// on 0.0.0.0:8801 unless the file or --listen says otherwise.
    Serve(ServeArguments),
    /// One development node; everything lies in its data directory.
    ///
    /// Listens on 127.0.0.1:8801. The data directory is $HOME/.dex/zd/PORT/data unless --data-dir is given.
    Dev(NodeArguments),
    /// One lasting node on a local disk, without an object store.
    ///
    /// Listens on 0.0.0.0:8801. The data directory is /var/lib/dex-server-zd unless --data-dir is given.
    Local(NodeArguments),
}

/// What `dev` and `local` take.
#[derive(Args, Debug)]
pub struct NodeArguments {
    /// Configuration file (YAML); flags win over it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where all state lies; created if it is missing.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// What an acknowledged write survives: strict (power loss), process-crash-safe, or relaxed (nothing).
    #[arg(long, value_name = "MODE")]
    pub durability: Option<DurabilityMode>,
    /// gRPC address of clients and Workers; port 0 lets the operating system choose.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<ListenAddress>,
    /// How log lines look on stderr.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// What `serve` takes.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// Configuration file (YAML), with at least `nodeId` and `objectStorage`; flags win over it.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The volume of this process alone, for what can be rebuilt from the object store; created if it is missing.
    /// /var/lib/dex-server-zd unless the file or this flag says otherwise.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// gRPC address of clients, Workers and admins; port 0 lets the operating system choose.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<ListenAddress>,
    /// How log lines look on stderr.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LogFormat {
    /// For people; coloured on a terminal.
    Text,
    /// One JSON object per line.
    Json,
}

impl CommandLine {
    /// What to run; None where the line says nothing.
    #[must_use]
    pub fn into_command(self) -> Option<Command> {
        let Self { config, command } = self;
        command.or_else(|| {
            config.map(|config| {
                Command::Serve(ServeArguments {
                    config,
                    data_dir: None,
                    listen: None,
                    log_format: LogFormat::Text,
                })
            })
        })
    }
}

impl Command {
    /// The profile, and its arguments.
    #[must_use]
    pub fn into_parts(self) -> (Profile, NodeArguments) {
        match self {
            Self::Serve(ServeArguments { config, data_dir, listen, log_format }) => (
                Profile::Node,
                NodeArguments { config: Some(config), data_dir, durability: None, listen, log_format },
            ),
            Self::Dev(arguments) => (Profile::Dev, arguments),
            Self::Local(arguments) => (Profile::Local, arguments),
        }
    }
}

impl NodeArguments {
    /// What wins over the file (HA-11).
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        Overrides {
            api_listen: self.listen.clone(),
            durability: self.durability,
            data_dir: self.data_dir.clone(),
        }
    }
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
