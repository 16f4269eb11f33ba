//! What opens a server, and how its connections are kept secret.

use std::path::PathBuf;

use clap::Args;

/// The heading of options that every command has.
const HEADING: &str = "Options of every command";

#[derive(Debug, Args)]
pub(crate) struct SecurityArguments {
    /// A file with the token that opens the server, on a line of its own; admin commands need an admin token
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "FILE",
        env = "DEX_CREDENTIAL_FILE",
        hide_env_values = true
    )]
    pub(crate) credential_file: Option<PathBuf>,

    /// Speak TLS, and trust what this machine trusts; the other --tls flags imply it, and so does https://HOST:PORT
    #[arg(long, global = true, help_heading = HEADING, env = "DEX_TLS", hide_env_values = true)]
    pub(crate) tls: bool,

    /// Trust only the authorities in this PEM file
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "FILE",
        env = "DEX_TLS_CA_FILE",
        hide_env_values = true
    )]
    pub(crate) tls_ca_file: Option<PathBuf>,

    /// Show this certificate to a server that asks for one: a PEM file
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "FILE",
        env = "DEX_TLS_CERT_FILE",
        hide_env_values = true,
        requires = "tls_key_file"
    )]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The key of that certificate: a PEM file
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "FILE",
        env = "DEX_TLS_KEY_FILE",
        hide_env_values = true,
        requires = "tls_cert_file"
    )]
    pub(crate) tls_key_file: Option<PathBuf>,

    /// The name that the server's certificate must be for. Default: the host of --server
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "NAME",
        env = "DEX_TLS_SERVER_NAME",
        hide_env_values = true
    )]
    pub(crate) tls_server_name: Option<String>,
}
