//! The section `objectStorage`: which store the processes of a production node share (D-31, D-45).
//!
//! Paths and names only. Credentials come from the environment, from files or from the provider's usual chain, and are
//! never part of a configuration.

use std::path::PathBuf;

use dexzd_io_tokio::store::{AzureCredentials, CloudConfig, GcsCredentials, Provider, S3Credentials};

use super::ConfigError;
use super::document::{Section, path};

/// What several processes share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectStorage {
    /// `kind: folder`: for several processes on one host.
    Folder(PathBuf),
    /// `kind: s3`, `azure` or `gcs`.
    Cloud(CloudConfig),
}

impl ObjectStorage {
    /// For people: which store.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Folder(path) => format!("folder {}", path.display()),
            Self::Cloud(config) => config.name(),
        }
    }

    /// The section of a production node.
    pub(super) fn parse(section: Option<Section>) -> Result<Self, ConfigError> {
        let Some(mut section) = section else {
            return Err(ConfigError::refused(
                "objectStorage",
                "nothing",
                "a node needs the object store that its processes share; `dex-server-zd local` runs one without",
            ));
        };
        let storage = match section.text("kind")?.as_deref() {
            Some("folder") => Self::Folder(folder(&mut section)?),
            Some("s3") => Self::Cloud(cloud(&mut section, s3)?),
            Some("azure") => Self::Cloud(cloud(&mut section, azure)?),
            Some("gcs") => Self::Cloud(cloud(&mut section, gcs)?),
            other => {
                let value = other.map_or_else(|| "nothing".to_owned(), |kind| format!("`{kind}`"));
                return Err(section.refused("kind", value, "it must be s3, azure, gcs or folder"));
            }
        };
        section.finish()?;
        Ok(storage)
    }
}

fn folder(section: &mut Section) -> Result<PathBuf, ConfigError> {
    let folder = required(section, "path", "the folder that the processes share", path)?;
    if folder.is_absolute() {
        return Ok(folder);
    }
    Err(section.refused(
        "path",
        format!("`{}`", folder.display()),
        "it must begin with /, so that all processes mean the same folder wherever they are started",
    ))
}

fn cloud(
    section: &mut Section,
    provider: fn(&mut Section) -> Result<Provider, ConfigError>,
) -> Result<CloudConfig, ConfigError> {
    let provider = provider(section)?;
    let prefix = section.text("prefix")?.unwrap_or_default();
    if !prefix.is_empty() && prefix.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(section.refused(
            "prefix",
            format!("`{prefix}`"),
            "it is put before every key as it is: names with one / between two of them, as in dex/production",
        ));
    }
    let allow_http = section.truth("allowHttp")?.unwrap_or(false);
    let endpoint = section.text("endpoint")?;
    if let Some(endpoint) = &endpoint
        && let Err(rule) = check_endpoint(endpoint, allow_http)
    {
        return Err(section.refused("endpoint", format!("`{endpoint}`"), rule));
    }
    let ca_file = path(section, "caFile")?;
    Ok(CloudConfig { provider, prefix, endpoint, allow_http, ca_file })
}

fn check_endpoint(endpoint: &str, allow_http: bool) -> Result<(), &'static str> {
    let host = match endpoint.split_once("://") {
        Some(("https", host)) => host,
        Some(("http", host)) if allow_http => host,
        Some(("http", _)) => {
            return Err(
                "everybody in between can read and change what goes over http: use https://, or set \
                        objectStorage.allowHttp to true where that is meant",
            );
        }
        Some(_) | None => return Err("it must be a URL, as in https://store.example:9000"),
    };
    // What follows a host's @ would be a password.
    let is_host = !host.is_empty() && !host.contains(['@', '?', '#']) && !host.contains(char::is_whitespace);
    if is_host {
        Ok(())
    } else {
        Err("it must name a host and nothing secret, as in https://store.example:9000")
    }
}

fn s3(section: &mut Section) -> Result<Provider, ConfigError> {
    let bucket = bucket(section, "bucket", "the bucket")?;
    let region = name(section, "region")?;
    let mut credentials = section.section("credentials")?;
    let file = path(&mut credentials, "file")?;
    let profile = name(&mut credentials, "profile")?;
    let access_key_id = path(&mut credentials, "accessKeyIdFile")?;
    let secret_access_key = path(&mut credentials, "secretAccessKeyFile")?;
    let session_token = path(&mut credentials, "sessionTokenFile")?;
    let found = match (file, profile, access_key_id, secret_access_key, session_token) {
        (None, None, None, None, None) => S3Credentials::Chain,
        (Some(file), profile, None, None, None) => {
            S3Credentials::SharedFile { file, profile: profile.unwrap_or_else(|| "default".to_owned()) }
        }
        (None, None, Some(access_key_id), Some(secret_access_key), session_token) => {
            S3Credentials::Files { access_key_id, secret_access_key, session_token }
        }
        (_, _, _, _, _) => {
            return Err(ConfigError::refused(
                "objectStorage.credentials",
                "this mixture",
                "give `file` (and `profile`), or `accessKeyIdFile` and `secretAccessKeyFile` (and `sessionTokenFile`), or \
                 leave the section out for the usual chain: environment, web identity, ~/.aws/credentials, role",
            ));
        }
    };
    credentials.finish()?;
    Ok(Provider::S3 { bucket, region, credentials: found })
}

fn azure(section: &mut Section) -> Result<Provider, ConfigError> {
    let container = bucket(section, "container", "the container")?;
    let account = name(section, "account")?;
    let mut credentials = section.section("credentials")?;
    let key = path(&mut credentials, "accountKeyFile")?;
    let sas = path(&mut credentials, "sasTokenFile")?;
    let found = match (key, sas) {
        (None, None) => AzureCredentials::Chain,
        (Some(file), None) => AzureCredentials::AccountKeyFile(file),
        (None, Some(file)) => AzureCredentials::SasTokenFile(file),
        (Some(_), Some(_)) => {
            return Err(ConfigError::refused(
                "objectStorage.credentials",
                "this mixture",
                "give `accountKeyFile` or `sasTokenFile`, or leave the section out for the usual chain: AZURE_* variables, \
                 workload identity, managed identity",
            ));
        }
    };
    credentials.finish()?;
    Ok(Provider::Azure { account, container, credentials: found })
}

fn gcs(section: &mut Section) -> Result<Provider, ConfigError> {
    let bucket = bucket(section, "bucket", "the bucket")?;
    let mut credentials = section.section("credentials")?;
    let found = path(&mut credentials, "file")?.map_or(GcsCredentials::Chain, GcsCredentials::File);
    credentials.finish()?;
    Ok(Provider::Gcs { bucket, credentials: found })
}

fn bucket(section: &mut Section, key: &'static str, what: &str) -> Result<String, ConfigError> {
    let bucket = required(section, key, what, name)?;
    if bucket.contains('/') {
        return Err(section.refused(
            key,
            format!("`{bucket}`"),
            "it is a name alone; what comes after a / belongs to objectStorage.prefix, a host to objectStorage.endpoint",
        ));
    }
    Ok(bucket)
}

fn required<T>(
    section: &mut Section,
    key: &'static str,
    what: &str,
    read: fn(&mut Section, &'static str) -> Result<Option<T>, ConfigError>,
) -> Result<T, ConfigError> {
    match read(section, key)? {
        Some(value) => Ok(value),
        None => Err(section.refused(key, "nothing".to_owned(), &format!("name {what}"))),
    }
}

/// A text without blanks.
fn name(section: &mut Section, key: &'static str) -> Result<Option<String>, ConfigError> {
    match section.text(key)? {
        Some(text) if text.is_empty() || text.contains(char::is_whitespace) => {
            Err(section.refused(key, format!("`{text}`"), "it must be a name without blanks"))
        }
        text => Ok(text),
    }
}
