//! The credential of a client: a token that was given, or the first one in a file that is read again when it
//! changes.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use crate::fingerprint::Fingerprint;
use crate::token::{Token, TokenFileError, read_tokens};

/// A file is looked at for change at most this often (operations.md 5).
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The credential file cannot be used, so that the call was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the credential file cannot be used: {0}; nothing was sent")]
pub struct CredentialError(#[from] pub TokenFileError);

/// Where the header `authorization` comes from.
pub(crate) enum Credential {
    None,
    Token(Token),
    File(CredentialFile),
}

/// What a call is sent with. The number changes when the credential does.
pub(crate) struct Current {
    pub(crate) version: u64,
    pub(crate) header: Option<HeaderValue>,
}

impl Credential {
    /// For a call that is sent now.
    pub(crate) fn current(&self) -> Result<Current, CredentialError> {
        match self {
            Self::None => Ok(Current { version: 0, header: None }),
            Self::Token(token) => Ok(Current { version: 0, header: Some(token.bearer()) }),
            Self::File(file) => file.current(LOOK_INTERVAL),
        }
    }

    /// The number of the credential after a look at the file, however short ago the last one was: the server has
    /// just refused a credential.
    pub(crate) fn version_after_look(&self) -> u64 {
        match self {
            Self::None | Self::Token(_) => 0,
            Self::File(file) => {
                file.current(Duration::ZERO).map_or_else(|_| file.lock().version, |current| current.version)
            }
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        match self {
            Self::None => true,
            Self::Token(_) | Self::File(_) => false,
        }
    }
}

/// A file whose first token is the credential.
pub(crate) struct CredentialFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    looked_at: Option<Instant>,
    fingerprint: Option<Fingerprint>,
    token: Result<Token, TokenFileError>,
    version: u64,
}

impl CredentialFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        let token = Err(TokenFileError { path: path.clone(), why: "it was not read yet".to_owned() });
        Self { path, state: Mutex::new(State { looked_at: None, fingerprint: None, token, version: 0 }) }
    }

    /// Looks at the file, unless that was done less than `interval` ago.
    fn current(&self, interval: Duration) -> Result<Current, CredentialError> {
        let mut state = self.lock();
        if state.looked_at.is_none_or(|looked_at| looked_at.elapsed() >= interval) {
            state.looked_at = Some(Instant::now());
            // Before the contents: a change in between is seen at the next look.
            let fingerprint = Fingerprint::of(&self.path).ok();
            if fingerprint.is_none() || fingerprint != state.fingerprint {
                let token = read_tokens(&self.path).map(|tokens| tokens[0].clone());
                if token != state.token {
                    state.version += 1;
                }
                state.fingerprint = fingerprint;
                state.token = token;
            }
        }
        let token = state.token.clone()?;
        Ok(Current { version: state.version, header: Some(token.bearer()) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "credential_tests.rs"]
mod tests;
