//! Where a cloud store lies and where its credentials come from. No secret is ever part of it.

use std::path::PathBuf;

/// One bucket or container, and the part of it that is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloudConfig {
    /// Whose protocol, and which bucket.
    pub provider: Provider,
    /// Put before every key, with a `/` between; empty for none.
    pub prefix: String,
    /// The address to talk to, as a URL; the provider's own if None.
    pub endpoint: Option<String>,
    /// Whether an endpoint may be `http://`: only for tests and for stores on a trusted network.
    pub allow_http: bool,
    /// Certificates (PEM) of authorities to trust beside those of the machine.
    pub ca_file: Option<PathBuf>,
}

/// Whose protocol, and which bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Provider {
    /// Amazon S3, and whatever speaks its protocol with conditional writes.
    S3 {
        /// The bucket.
        bucket: String,
        /// Its region; AWS_REGION or us-east-1 if None.
        region: Option<String>,
        /// Where the credentials come from.
        credentials: S3Credentials,
    },
    /// Azure Blob Storage.
    Azure {
        /// The storage account; AZURE_STORAGE_ACCOUNT_NAME if None.
        account: Option<String>,
        /// The container.
        container: String,
        /// Where the credentials come from.
        credentials: AzureCredentials,
    },
    /// Google Cloud Storage.
    Gcs {
        /// The bucket.
        bucket: String,
        /// Where the credentials come from.
        credentials: GcsCredentials,
    },
}

/// Where the credentials for S3 come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum S3Credentials {
    /// AWS_* variables, then a web identity, then the shared credentials file, then the container's or
    /// the machine's role.
    Chain,
    /// A profile of a file in the form of `~/.aws/credentials`.
    SharedFile {
        /// The file.
        file: PathBuf,
        /// The profile, usually `default`.
        profile: String,
    },
    /// One value per file, as mounted secrets are.
    Files {
        /// The access key id.
        access_key_id: PathBuf,
        /// The secret access key.
        secret_access_key: PathBuf,
        /// The session token of temporary credentials.
        session_token: Option<PathBuf>,
    },
}

/// Where the credentials for Azure come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AzureCredentials {
    /// AZURE_* variables, a workload identity, or the machine's managed identity.
    Chain,
    /// A file with the account's key.
    AccountKeyFile(PathBuf),
    /// A file with a shared access signature.
    SasTokenFile(PathBuf),
}

/// Where the credentials for Google Cloud Storage come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GcsCredentials {
    /// GOOGLE_* variables, the application default credentials, or the machine's service account.
    Chain,
    /// A service account's or an application default credentials' file (JSON).
    File(PathBuf),
}

impl CloudConfig {
    /// For people: whose, which, where. Nothing of it is secret.
    #[must_use]
    pub fn name(&self) -> String {
        let prefix = if self.prefix.is_empty() { String::new() } else { format!("/{}", self.prefix) };
        let place = self.endpoint.as_ref().map_or(String::new(), |endpoint| format!(" at {endpoint}"));
        match &self.provider {
            Provider::S3 { bucket, region, .. } => {
                let region = region.as_ref().map_or(String::new(), |region| format!(" in {region}"));
                format!("s3 bucket {bucket}{prefix}{region}{place}")
            }
            Provider::Azure { account, container, .. } => {
                let account =
                    account.as_ref().map_or(String::new(), |account| format!(" of account {account}"));
                format!("azure container {container}{prefix}{account}{place}")
            }
            Provider::Gcs { bucket, .. } => format!("gcs bucket {bucket}{prefix}{place}"),
        }
    }

    /// The configuration key that names the bucket.
    pub(super) const fn bucket_key(&self) -> &'static str {
        match self.provider {
            Provider::S3 { .. } | Provider::Gcs { .. } => "objectStorage.bucket",
            Provider::Azure { .. } => "objectStorage.container",
        }
    }

    /// The bucket or container, in words.
    pub(super) fn bucket(&self) -> String {
        match &self.provider {
            Provider::S3 { bucket, .. } | Provider::Gcs { bucket, .. } => format!("bucket {bucket}"),
            Provider::Azure { container, .. } => format!("container {container}"),
        }
    }
}
