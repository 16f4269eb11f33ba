//! Credentials in files: where they are looked for, and what is said when they are not there.
//!
//! The library knows environments, web identities and metadata services. It does not know the shared credentials file,
//! and it does not read mounted secrets; both are read here. A file that changes makes a new client, so a rotated
//! secret needs no restart.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::build::Environment;
use super::config::S3Credentials;

/// Credentials are short; what is longer is another file.
const LONGEST_FILE_BYTES: u64 = 64 * 1024;

/// A text that never shows.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(secret)")
    }
}

/// A file that gives no credentials.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credential file {} {rule}", path.display())]
pub(super) struct CredentialError {
    path: PathBuf,
    rule: String,
}

impl CredentialError {
    fn new(path: &Path, rule: impl Into<String>) -> Self {
        Self { path: path.to_owned(), rule: rule.into() }
    }
}

/// Keys of one identity at S3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct S3Keys {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: Secret,
    pub(super) session_token: Option<Secret>,
}

/// Where the credentials for S3 were found.
#[derive(Debug)]
pub(super) struct S3Found {
    /// None: the library takes them from where `from` says.
    pub(super) keys: Option<S3Keys>,
    pub(super) watched: Vec<PathBuf>,
    pub(super) from: String,
}

/// Follows the configuration, or the provider's usual chain.
pub(super) fn s3(configured: &S3Credentials, environment: &Environment) -> Result<S3Found, CredentialError> {
    match configured {
        S3Credentials::Chain => s3_chain(environment),
        S3Credentials::SharedFile { file, profile } => shared_file(file, profile)?
            .ok_or_else(|| CredentialError::new(file, format!("has no profile [{profile}] with keys"))),
        S3Credentials::Files { access_key_id, secret_access_key, session_token } => Ok(S3Found {
            keys: Some(S3Keys {
                access_key_id: line(access_key_id)?.0,
                secret_access_key: line(secret_access_key)?,
                session_token: session_token.as_deref().map(line).transpose()?,
            }),
            watched: [Some(access_key_id), Some(secret_access_key), session_token.as_ref()]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            from: format!("{} and {}", access_key_id.display(), secret_access_key.display()),
        }),
    }
}

/// The order of the provider's own tools: environment, web identity, shared file, container, machine.
fn s3_chain(environment: &Environment) -> Result<S3Found, CredentialError> {
    let of_library = |from: &str| Ok(S3Found { keys: None, watched: vec![], from: from.to_owned() });
    if environment.value("AWS_ACCESS_KEY_ID").is_some() {
        return of_library("the environment (AWS_ACCESS_KEY_ID)");
    }
    if environment.value("AWS_WEB_IDENTITY_TOKEN_FILE").is_some()
        && environment.value("AWS_ROLE_ARN").is_some()
    {
        return of_library("a web identity (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN)");
    }
    let file = match environment.value("AWS_SHARED_CREDENTIALS_FILE") {
        Some(file) => Some(PathBuf::from(file)),
        None => environment.value("HOME").map(|home| Path::new(home).join(".aws/credentials")),
    };
    let profile = environment.value("AWS_PROFILE");
    if let Some(file) = file.filter(|file| file.exists()) {
        match (shared_file(&file, profile.unwrap_or("default"))?, profile) {
            (Some(found), _) => return Ok(found),
            (None, Some(profile)) => {
                let rule = format!("has no profile [{profile}] with keys, which AWS_PROFILE asks for");
                return Err(CredentialError::new(&file, rule));
            }
            (None, None) => {}
        }
    }
    if environment.value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").is_some()
        || environment.value("AWS_CONTAINER_CREDENTIALS_FULL_URI").is_some()
    {
        return of_library("the container's role (AWS_CONTAINER_CREDENTIALS_…)");
    }
    of_library(
        "the machine's role, since there is no AWS_ACCESS_KEY_ID, no web identity and no shared credentials file",
    )
}

/// The keys of one profile; None if the file has none for it.
fn shared_file(file: &Path, profile: &str) -> Result<Option<S3Found>, CredentialError> {
    let text = read(file)?;
    let mut values = [None, None, None];
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let name = name.trim();
            inside = name == profile || name.strip_prefix("profile ").map(str::trim) == Some(profile);
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| inside && !line.starts_with(['#', ';']))
        else {
            continue;
        };
        let known = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
        if let Some(place) = known.iter().position(|known| *known == key.trim()) {
            values[place] = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    let [Some(access_key_id), Some(secret), token] = values else {
        return Ok(None);
    };
    Ok(Some(S3Found {
        keys: Some(S3Keys {
            access_key_id,
            secret_access_key: Secret(secret),
            session_token: token.map(Secret),
        }),
        watched: vec![file.to_owned()],
        from: format!("profile [{profile}] of {}", file.display()),
    }))
}

/// A file that holds one value and perhaps a line break.
pub(super) fn line(file: &Path) -> Result<Secret, CredentialError> {
    let text = read(file)?;
    let text = text.trim();
    if text.contains(['\n', '\r']) {
        return Err(CredentialError::new(file, "must hold one line, the value itself"));
    }
    Ok(Secret(text.to_owned()))
}

/// What kind of file Google's tools wrote.
#[derive(Debug)]
pub(super) enum GcsFile {
    ServiceAccount(Secret),
    /// The library reads it from its path.
    Application,
}

/// Looks into the file before the library does, whose errors may quote it.
pub(super) fn gcs_file(file: &Path) -> Result<GcsFile, CredentialError> {
    let text = read(file)?;
    let document: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
        CredentialError::new(file, format!("is not JSON (line {}, column {})", error.line(), error.column()))
    })?;
    let text_of = |name: &str| document.get(name).and_then(serde_json::Value::as_str);
    if text_of("private_key").is_some() && text_of("client_email").is_some() {
        return Ok(GcsFile::ServiceAccount(Secret(text)));
    }
    if text_of("type") == Some("authorized_user") {
        return Ok(GcsFile::Application);
    }
    Err(CredentialError::new(
        file,
        "must be the key of a service account (private_key and client_email) or of type authorized_user",
    ))
}

/// For people: which of Azure's usual sources the library will use.
pub(super) fn azure_chain(environment: &Environment) -> String {
    let has = |name: &str| environment.value(name).is_some();
    let from = if has("AZURE_STORAGE_TOKEN") {
        "the environment (AZURE_STORAGE_TOKEN)"
    } else if has("AZURE_STORAGE_ACCOUNT_KEY") || has("AZURE_STORAGE_ACCESS_KEY") {
        "the environment (AZURE_STORAGE_ACCOUNT_KEY)"
    } else if has("AZURE_CLIENT_SECRET") || has("AZURE_STORAGE_CLIENT_SECRET") {
        "the environment (AZURE_CLIENT_SECRET)"
    } else if has("AZURE_FEDERATED_TOKEN_FILE") {
        "a workload identity (AZURE_FEDERATED_TOKEN_FILE)"
    } else if has("AZURE_STORAGE_SAS_KEY") || has("AZURE_STORAGE_SAS_TOKEN") {
        "the environment (AZURE_STORAGE_SAS_KEY)"
    } else {
        "the machine's managed identity, since no AZURE_ variable gives any"
    };
    from.to_owned()
}

/// For people: which of Google's usual sources the library will use.
pub(super) fn gcs_chain(environment: &Environment) -> String {
    for name in ["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"] {
        if environment.value(name).is_some() {
            return format!("the environment ({name})");
        }
    }
    "the application default credentials or the machine's service account".to_owned()
}

fn read(file: &Path) -> Result<String, CredentialError> {
    let unreadable = |error: std::io::Error| CredentialError::new(file, format!("cannot be read: {error}"));
    if fs::metadata(file).map_err(unreadable)?.len() > LONGEST_FILE_BYTES {
        return Err(CredentialError::new(file, "is far too long for credentials"));
    }
    // Not the error of the conversion: it would name bytes of the content.
    let text = String::from_utf8(fs::read(file).map_err(unreadable)?)
        .map_err(|_| CredentialError::new(file, "is not text"))?;
    if text.trim().is_empty() {
        return Err(CredentialError::new(file, "is empty"));
    }
    Ok(text)
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
