//! Clients from a configuration: whose protocol, which credentials, nothing automatic.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use super::config::{AzureCredentials, CloudConfig, GcsCredentials, Provider, S3Credentials};
use super::credentials::{self, CredentialError};
use super::transport::Transport;

/// What the library offers for one provider.
pub(super) trait Backend: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Backend for T {}

/// A client, and what it was made from.
pub(super) struct Client {
    pub(super) backend: Arc<dyn Backend>,
    /// Files whose change calls for a new client.
    pub(super) watched: Vec<PathBuf>,
    /// For people: where the credentials come from.
    pub(super) from: String,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    #[error("{0}")]
    Library(String),
}

/// The environment of the process, as far as the providers' variables go. Its values are never printed.
#[derive(Clone, Default)]
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(super) fn of_process() -> Self {
        let known =
            ["AWS_", "AZURE_", "GOOGLE_", "HOME", "IDENTITY_ENDPOINT", "MSI_ENDPOINT", "SERVICE_ACCOUNT"];
        Self(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .filter(|(name, _)| known.iter().any(|begin| name.starts_with(begin)))
                .collect(),
        )
    }

    #[cfg(test)]
    pub(super) fn of(variables: &[(&str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn with_prefix(&self, prefix: &'static str) -> impl Iterator<Item = (String, &str)> {
        self.0
            .iter()
            .filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Makes the client of a configuration. Nothing is asked of the network yet.
pub(super) fn build(
    config: &CloudConfig,
    environment: &Environment,
    transport: &Transport,
) -> Result<Client, BuildError> {
    match &config.provider {
        Provider::S3 { bucket, region, credentials } => {
            s3(config, bucket, region.as_deref(), credentials, environment, transport)
        }
        Provider::Azure { account, container, credentials } => {
            azure(config, account.as_deref(), container, credentials, environment, transport)
        }
        Provider::Gcs { bucket, credentials } => gcs(config, bucket, credentials, environment, transport),
    }
}

fn s3(
    config: &CloudConfig,
    bucket: &str,
    region: Option<&str>,
    credentials: &S3Credentials,
    environment: &Environment,
    transport: &Transport,
) -> Result<Client, BuildError> {
    let found = credentials::s3(credentials, environment)?;
    let mut builder = AmazonS3Builder::new();
    for (name, value) in environment.with_prefix("AWS_") {
        // A token belongs to the keys it came with.
        let is_foreign_token = found.keys.is_some() && name.ends_with("token");
        if let (Ok(key), false) = (name.parse::<AmazonS3ConfigKey>(), is_foreign_token) {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(keys) = &found.keys {
        builder = builder
            .with_access_key_id(keys.access_key_id.as_str())
            .with_secret_access_key(keys.secret_access_key.reveal());
        if let Some(token) = &keys.session_token {
            builder = builder.with_token(token.reveal());
        }
    }
    if let Some(region) = region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &config.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let store = builder
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        // One request that every compatible store knows, and whose answer is about one object.
        .with_disable_bulk_delete(true)
        .with_retry(no_retries())
        .with_client_options(client_options(config))
        .with_http_connector(transport.clone())
        .build()
        .map_err(library)?;
    Ok(Client { backend: Arc::new(store), watched: found.watched, from: found.from })
}

fn azure(
    config: &CloudConfig,
    account: Option<&str>,
    container: &str,
    credentials: &AzureCredentials,
    environment: &Environment,
    transport: &Transport,
) -> Result<Client, BuildError> {
    let mut builder = MicrosoftAzureBuilder::new();
    let variables = environment.with_prefix("AZURE_");
    let (watched, from) = match credentials {
        AzureCredentials::Chain => {
            for (name, value) in variables {
                if let Ok(key) = name.parse::<AzureConfigKey>() {
                    builder = builder.with_config(key, value);
                }
            }
            if let Some(endpoint) = environment.value("IDENTITY_ENDPOINT") {
                builder = builder.with_msi_endpoint(endpoint);
            }
            (vec![], credentials::azure_chain(environment))
        }
        AzureCredentials::AccountKeyFile(file) => {
            builder = builder.with_access_key(credentials::line(file)?.reveal());
            (vec![file.clone()], format!("the account key in {}", file.display()))
        }
        AzureCredentials::SasTokenFile(file) => {
            let token = credentials::line(file)?;
            builder = builder.with_config(AzureConfigKey::SasKey, token.reveal().trim_start_matches('?'));
            (vec![file.clone()], format!("the shared access signature in {}", file.display()))
        }
    };
    let account = account
        .or_else(|| environment.value("AZURE_STORAGE_ACCOUNT_NAME"))
        .ok_or_else(|| BuildError::Library("objectStorage.account: name the storage account".to_owned()))?;
    builder = builder.with_account(account);
    if let Some(endpoint) = &config.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let store = builder
        .with_container_name(container)
        .with_use_emulator(false)
        .with_retry(no_retries())
        .with_client_options(client_options(config))
        .with_http_connector(transport.clone())
        .build()
        .map_err(library)?;
    Ok(Client { backend: Arc::new(store), watched, from })
}

fn gcs(
    config: &CloudConfig,
    bucket: &str,
    credentials: &GcsCredentials,
    environment: &Environment,
    transport: &Transport,
) -> Result<Client, BuildError> {
    let mut builder = GoogleCloudStorageBuilder::new();
    let (watched, from) = match credentials {
        GcsCredentials::Chain => {
            for (name, value) in environment.with_prefix("GOOGLE_") {
                if let Ok(key) = name.parse::<GoogleConfigKey>() {
                    builder = builder.with_config(key, value);
                }
            }
            (vec![], credentials::gcs_chain(environment))
        }
        GcsCredentials::File(file) => {
            builder = match credentials::gcs_file(file)? {
                credentials::GcsFile::ServiceAccount(key) => builder.with_service_account_key(key.reveal()),
                credentials::GcsFile::Application => {
                    builder.with_application_credentials(file.display().to_string())
                }
            };
            (vec![file.clone()], file.display().to_string())
        }
    };
    if let Some(endpoint) = &config.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    let store = builder
        .with_bucket_name(bucket)
        .with_retry(no_retries())
        .with_client_options(client_options(config))
        .with_http_connector(transport.clone())
        .build()
        .map_err(library)?;
    Ok(Client { backend: Arc::new(store), watched, from })
}

/// The core repeats what may be repeated (D-9).
fn no_retries() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::ZERO }
}

/// Limits of time are the transport's.
fn client_options(config: &CloudConfig) -> ClientOptions {
    ClientOptions::new().with_allow_http(config.allow_http)
}

#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
fn library(error: object_store::Error) -> BuildError {
    BuildError::Library(error.to_string())
}
