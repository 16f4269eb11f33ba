//! Why a configuration is refused: always the key, the value and the rule.

use std::path::PathBuf;

/// A configuration that the server does not start with.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: String,
    },
    /// The file is not YAML.
    #[error("the configuration is not valid YAML: {error}")]
    NotYaml {
        /// What the parser says, with the place.
        error: String,
    },
    /// No such key or section in this release (HA-50).
    #[error("{key}: unknown {kind} (value {value}); {hint}", kind = if *section { "section" } else { "key" })]
    Unknown {
        /// The full key.
        key: String,
        /// What stands there.
        value: String,
        /// Whether it has keys below it.
        section: bool,
        /// What would be known here.
        hint: String,
    },
    /// A known key with a value that it must not have.
    #[error("{key}: {value} is refused: {rule}")]
    Refused {
        /// The full key, or the flag.
        key: String,
        /// The value, as written.
        value: String,
        /// What is allowed, and why.
        rule: String,
    },
}

impl ConfigError {
    /// A refusal of one value.
    pub(crate) fn refused(key: impl Into<String>, value: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Refused { key: key.into(), value: value.into(), rule: rule.into() }
    }
}
