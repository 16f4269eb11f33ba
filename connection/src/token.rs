//! Bearer tokens: what one is, and files that hold them.

use std::fmt;
use std::path::{Path, PathBuf};

use http::HeaderValue;

/// Shorter ones can be guessed: 16 characters of base64 are 96 bits.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Longer ones do not fit into the headers of a call beside the rest.
pub const TOKEN_BYTES_MAX: usize = 4_096;
/// A file of tokens has at most so many: each call is compared with all of them.
pub const TOKENS_MAX: usize = 1_000;
/// No file of tokens is larger; something else lies there.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A secret that opens a server. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Trims the text and checks the form.
    ///
    /// # Errors
    /// The rule that it breaks; never the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() < TOKEN_BYTES_MIN || text.len() > TOKEN_BYTES_MAX {
            return Err(format!(
                "a token has {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} characters, and this one {}",
                text.len()
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token has only letters, digits and signs of ASCII, and no spaces".to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// The value of the header `authorization`.
    pub fn bearer(&self) -> HeaderValue {
        let mut value =
            HeaderValue::try_from(format!("Bearer {}", self.0)).expect("a token is visible ASCII");
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why a file of tokens cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct TokenFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it; never a token.
    pub why: String,
}

/// Reads a file with one token per line. Empty lines and lines that begin with `#` say nothing.
///
/// # Errors
/// The file cannot be read, has no token, too many, or a line that is none.
pub fn read_tokens(path: &Path) -> Result<Vec<Token>, TokenFileError> {
    let error = |why: String| TokenFileError { path: path.to_owned(), why };
    let text = read(path).map_err(error)?;
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let token = Token::parse(line).map_err(|rule| error(format!("line {}: {rule}", index + 1)))?;
        if tokens.len() == TOKENS_MAX {
            return Err(error(format!("it has more than {TOKENS_MAX} tokens")));
        }
        tokens.push(token);
    }
    if tokens.is_empty() {
        return Err(error("it has no token: write one on a line of its own".to_owned()));
    }
    Ok(tokens)
}

fn read(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!(
            "it has {} bytes, and a file of tokens at most {FILE_BYTES_MAX}",
            metadata.len()
        ));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
