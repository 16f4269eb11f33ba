//! A file of tokens that is read again when it changes.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use dexzd_connection::Fingerprint;
use dexzd_connection::token::{Token, TokenFileError, read_tokens};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What is kept of a token: nothing that could open anything, and of one length for all.
type Hash = [u8; 32];

/// The tokens of one file; none while the file cannot be used.
pub(super) struct TokenFile {
    /// The key of the configuration that names it.
    key: &'static str,
    path: PathBuf,
    state: RwLock<State>,
}

struct State {
    fingerprint: Option<Fingerprint>,
    hashes: Result<Vec<Hash>, TokenFileError>,
}

impl TokenFile {
    /// Reads the file.
    pub(super) fn load(key: &'static str, path: PathBuf) -> Result<Self, TokenFileError> {
        let fingerprint = Fingerprint::of(&path).ok();
        let hashes = Ok(hashes(read_tokens(&path)?));
        Ok(Self { key, path, state: RwLock::new(State { fingerprint, hashes }) })
    }

    /// Reads the file again, if it has changed. The log tells the operator what the clients are not told.
    pub(super) fn look(&self) {
        // Before the contents: a change in between is seen at the next look.
        let fingerprint = Fingerprint::of(&self.path).ok();
        if fingerprint.is_some() && fingerprint == self.read().fingerprint {
            return;
        }
        let hashes = read_tokens(&self.path).map(hashes);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match (&hashes, &state.hashes) {
            (Ok(new), Ok(old)) if new == old => {}
            (Ok(new), _) => {
                tracing::info!(key = self.key, tokens = new.len(), "the token file was read again")
            }
            (Err(new), Err(old)) if new == old => {}
            (Err(error), _) => tracing::error!(
                key = self.key,
                %error,
                "the token file cannot be used: every call that needs one of its tokens is refused until it is mended"
            ),
        }
        *state = State { fingerprint, hashes };
    }

    /// Whether this is one of the tokens. How long that takes depends on how many there are, and on nothing else.
    pub(super) fn contains(&self, token: &[u8]) -> bool {
        let hash: Hash = Sha256::digest(token).into();
        let state = self.read();
        let Ok(hashes) = &state.hashes else {
            return false;
        };
        hashes.iter().fold(subtle::Choice::from(0), |found, known| found | known.ct_eq(&hash)).into()
    }

    pub(super) fn shares_with(&self, other: &Self) -> bool {
        match (&self.read().hashes, &other.read().hashes) {
            (Ok(ours), Ok(theirs)) => ours.iter().any(|hash| theirs.contains(hash)),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hashes(tokens: Vec<Token>) -> Vec<Hash> {
    tokens.iter().map(|token| Sha256::digest(token.secret()).into()).collect()
}
