//! Why the process did not start: a code with a page, an exit status, a message.

use std::fmt;

use dexzd_connection::material::MaterialError;
use dexzd_connection::token::TokenFileError;
use dexzd_io_tokio::LockError;
use dexzd_io_tokio::UncleanError;
use dexzd_io_tokio::local::LocalStoreError;
use dexzd_io_tokio::log::SegmentLogError;
use dexzd_io_tokio::runtime::StartError;
use dexzd_io_tokio::store::ProbeError;

use crate::config::{ConfigError, ListenAddress};
use crate::page::page_of;

/// The exit status of a wrong command line or configuration: starting again changes nothing.
const EXIT_USAGE: u8 = 2;
/// The exit status of everything else.
const EXIT_FAILURE: u8 = 1;

/// Every code of a refusal; each has a page.
#[cfg(test)]
const CODES: [&str; 17] = [
    "usage",
    "config_refused",
    "token_file_unusable",
    "tls_files_unusable",
    "address_unavailable",
    "io_failed",
    "object_storage_unusable",
    "data_dir_in_use",
    "data_dir_unclean",
    "store_unfit",
    "store_unavailable",
    "log_damaged",
    "newer_format",
    "foreign_node",
    "local_store_kind",
    "local_store_damaged",
    "local_store_failed",
];

/// A start that was refused. Nothing was changed that the message does not name.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: &'static str,
    pub(crate) exit: u8,
    message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, message, .. } = self;
        write!(formatter, "{code}: {message}; see {}", page_of(code))
    }
}

impl Refusal {
    pub(crate) fn usage(message: &str) -> Self {
        Self { code: "usage", exit: EXIT_USAGE, message: message.to_owned() }
    }

    /// A failure of the machine that has no code of its own.
    pub(crate) fn machine(action: &str, error: &std::io::Error) -> Self {
        Self { code: "io_failed", exit: EXIT_FAILURE, message: format!("{action}: {error}") }
    }

    pub(crate) fn address(key: &str, address: &ListenAddress, error: &std::io::Error) -> Self {
        Self {
            code: "address_unavailable",
            exit: EXIT_FAILURE,
            message: format!("{key}: cannot listen on {address}: {error}"),
        }
    }
}

impl Refusal {
    /// A file of tokens that opens nothing, by the key that names it.
    pub(crate) fn token_file((key, error): (&str, TokenFileError)) -> Self {
        Self { code: "token_file_unusable", exit: EXIT_USAGE, message: format!("{key}: {error}") }
    }

    /// A file of TLS material that does not fit, by the key that names it.
    pub(crate) fn tls_file((key, error): (&str, MaterialError)) -> Self {
        Self { code: "tls_files_unusable", exit: EXIT_USAGE, message: format!("{key}: {error}") }
    }
}

impl Refusal {
    /// An object store that cannot even be asked: its folder, its credentials or its certificates do not do.
    pub(crate) fn object_storage(message: String) -> Self {
        Self { code: "object_storage_unusable", exit: EXIT_USAGE, message }
    }
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Self { code: "config_refused", exit: EXIT_USAGE, message: error.to_string() }
    }
}

impl From<StartError> for Refusal {
    fn from(error: StartError) -> Self {
        Self { code: start_code(&error), exit: EXIT_FAILURE, message: error.to_string() }
    }
}

fn start_code(error: &StartError) -> &'static str {
    match error {
        StartError::Lock(LockError::HeldByAnother { .. }) => "data_dir_in_use",
        StartError::Unclean(UncleanError::Unclean { .. }) => "data_dir_unclean",
        StartError::Probe(ProbeError::Unfit { .. }) => "store_unfit",
        StartError::Probe(ProbeError::Unavailable { .. }) => "store_unavailable",
        StartError::LocalStore(error) => local_store_code(error),
        StartError::Log(SegmentLogError::Damaged { .. }) => "log_damaged",
        StartError::Log(SegmentLogError::NewerFormat { .. }) => "newer_format",
        StartError::Lock(LockError::Io { .. })
        | StartError::Unclean(UncleanError::Io { .. })
        | StartError::Log(SegmentLogError::Io { .. })
        | StartError::Io { .. } => "io_failed",
    }
}

fn local_store_code(error: &LocalStoreError) -> &'static str {
    match error {
        LocalStoreError::ForeignNode { .. } => "foreign_node",
        LocalStoreError::NewerFormat { .. } => "newer_format",
        LocalStoreError::OtherKind { .. } | LocalStoreError::NotCompiledIn { .. } => "local_store_kind",
        LocalStoreError::Damaged { .. } => "local_store_damaged",
        LocalStoreError::Io { .. }
        | LocalStoreError::Library { .. }
        | LocalStoreError::FailedBefore { .. } => "local_store_failed",
    }
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
