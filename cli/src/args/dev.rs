//! The flags of `dexcli dev`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct DevArguments {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind_address: String,

    /// The port for clients and Workers. Default: 8801, or the next free one
    #[arg(long, value_name = "PORT")]
    pub(crate) dex_port: Option<u16>,

    /// What an acknowledged write survives: power loss (strict), a killed process (process-crash-safe),
    /// an orderly exit only (relaxed). Default: strict
    #[arg(long, value_name = "MODE")]
    pub(crate) durability: Option<DurabilityMode>,

    /// A YAML file whose keys override the development defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) zd_config: Option<PathBuf>,

    /// The folder for the server's log file. Default: the state folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) server_log_folder: Option<PathBuf>,

    /// The folder that keeps all Flows. Default: $HOME/.dex/zd/PORT
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityMode {
    Strict,
    #[value(alias = "processCrashSafe")]
    ProcessCrashSafe,
    Relaxed,
}

impl DurabilityMode {
    /// The name that `dex-server-zd --durability` knows.
    pub(crate) fn server_flag(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::ProcessCrashSafe => "process-crash-safe",
            Self::Relaxed => "relaxed",
        }
    }
}
