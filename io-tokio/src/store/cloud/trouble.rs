//! What an operator is told about a store that does not do what it is asked.

use std::fmt;

use super::answer::{Answer, Exchange};
use super::class::{Operation, is_expired, is_place_missing};
use super::config::{CloudConfig, Provider};

/// The kinds that call for different deeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TroubleKind {
    /// Nothing came back.
    Unreachable,
    /// It is busy or broken for the moment.
    Busy,
    /// The bucket or container does not exist.
    NoSuchBucket,
    /// The bucket is in another region.
    WrongRegion,
    /// The credentials are not accepted, or there are none.
    Credentials,
    /// The credentials are accepted and do not suffice.
    Denied,
    /// What answers is no store of this kind.
    NotAStore,
    /// It does not know conditional writes.
    NotSupported,
    /// It does not accept the request.
    Refused,
}

/// Why a store did not do what it was asked: a sentence that names what was wrong and what to do. It never
/// holds a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// Which deed it calls for.
    pub kind: TroubleKind,
    /// For people.
    pub text: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl TroubleKind {
    /// Whether another try may help without anybody's help.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        match self {
            Self::Unreachable | Self::Busy => true,
            Self::NoSuchBucket
            | Self::WrongRegion
            | Self::Credentials
            | Self::Denied
            | Self::NotAStore
            | Self::NotSupported
            | Self::Refused => false,
        }
    }
}

/// Codes with which a store says that it does not know these credentials.
const CREDENTIAL_CODES: [&str; 9] = [
    "AuthenticationFailed",
    "AuthenticationRequired",
    "InvalidAccessKeyId",
    "InvalidAuthenticationInfo",
    "InvalidSecurity",
    "InvalidToken",
    "NoAuthenticationInformation",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// Explains the last exchange of an operation that did not end well.
pub(super) fn explain(
    config: &CloudConfig,
    from: &str,
    operation: Operation,
    exchange: &Exchange,
) -> Trouble {
    match exchange {
        Exchange::Silent { host, text } => silent(config, from, host, text),
        Exchange::Answered(answer) if is_for_credentials(config, &answer.host) => Trouble {
            kind: if answer.status >= 500 { TroubleKind::Busy } else { TroubleKind::Credentials },
            text: format!("{} gave no credentials ({}); they come from {from}", answer.host, said(answer)),
        },
        Exchange::Answered(answer) => answered(config, from, operation, answer),
    }
}

fn silent(config: &CloudConfig, from: &str, host: &str, text: &str) -> Trouble {
    if is_for_credentials(config, host) {
        return Trouble {
            kind: TroubleKind::Credentials,
            text: format!("{host} gave no credentials ({text}); they come from {from}"),
        };
    }
    Trouble {
        kind: TroubleKind::Unreachable,
        text: format!("{host} does not answer ({text}): check objectStorage.endpoint and the network"),
    }
}

fn answered(config: &CloudConfig, from: &str, operation: Operation, answer: &Answer) -> Trouble {
    let said = said(answer);
    let code = answer.code.as_deref().unwrap_or_default();
    let (kind, text) = if is_place_missing(answer) {
        let text = format!(
            "there is no {} ({said}): create it, or correct {}",
            config.bucket(),
            config.bucket_key()
        );
        (TroubleKind::NoSuchBucket, text)
    } else if code == "AuthorizationHeaderMalformed" || (answer.is_redirect() && answer.code.is_some()) {
        (TroubleKind::WrongRegion, wrong_region(config, answer, &said))
    } else if code == "RequestTimeTooSkewed" {
        (TroubleKind::Credentials, format!("the clock of this machine is wrong ({said}): set it"))
    } else if is_expired(answer) {
        (
            TroubleKind::Credentials,
            format!("the credentials have expired ({said}): renew them; they come from {from}"),
        )
    } else if answer.status == 401 || CREDENTIAL_CODES.contains(&code) {
        (
            TroubleKind::Credentials,
            format!("the credentials are not accepted ({said}); they come from {from}"),
        )
    } else if answer.status == 403 && (answer.code.is_some() || answer.is_empty) {
        let text = format!(
            "access is denied ({said}): the credentials, which come from {from}, need the permissions of \
             docs/operator-guide.md on the {}",
            config.bucket()
        );
        (TroubleKind::Denied, text)
    } else if answer.status == 501 {
        (TroubleKind::NotSupported, format!("it does not support this request ({said}): use another store"))
    } else if answer.status == 429 || answer.status >= 500 || answer.status == 408 {
        (TroubleKind::Busy, format!("it answered {said}"))
    } else if answer.code.is_none()
        && !(answer.status == 404 && operation == Operation::Write && answer.is_empty)
    {
        let text = format!(
            "what answers at {} is not an object store of kind {} ({said}): correct objectStorage.endpoint or \
             objectStorage.kind",
            answer.host,
            config.kind()
        );
        (TroubleKind::NotAStore, text)
    } else {
        (TroubleKind::Refused, format!("it answered {said}"))
    };
    Trouble { kind, text }
}

fn wrong_region(config: &CloudConfig, answer: &Answer, said: &str) -> String {
    let used = match &config.provider {
        Provider::S3 { region: Some(region), .. } => format!("region {region}"),
        Provider::S3 { region: None, .. } => "the region that AWS_REGION or the default names".to_owned(),
        Provider::Azure { .. } | Provider::Gcs { .. } => "this endpoint".to_owned(),
    };
    let right = match &answer.region {
        Some(region) => format!("set objectStorage.region to {region}"),
        None => "correct objectStorage.region or objectStorage.endpoint".to_owned(),
    };
    format!("the {} is not in {used} ({said}): {right}", config.bucket())
}

/// Status, code and the store's own words.
fn said(answer: &Answer) -> String {
    let mut said = answer.status.to_string();
    match (&answer.code, &answer.content_type) {
        (Some(code), _) => {
            said.push(' ');
            said.push_str(code);
        }
        (None, Some(content_type)) if !answer.is_empty => {
            said.push_str(" with ");
            said.push_str(content_type);
        }
        (None, _) => {}
    }
    if let Some(message) = &answer.message {
        said.push_str(": ");
        said.push_str(message.trim_end_matches('.'));
    }
    said
}

/// Whether this host is not the store but one that gives credentials for it.
pub(super) fn is_for_credentials(config: &CloudConfig, host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    match &config.endpoint {
        Some(endpoint) => !endpoint.contains(name),
        None => !["amazonaws.com", "core.windows.net", "storage.googleapis.com"]
            .iter()
            .any(|suffix| name.ends_with(suffix) && !name.starts_with("sts.")),
    }
}

impl Answer {
    const fn is_redirect(&self) -> bool {
        matches!(self.status, 300..=399) && self.status != 304
    }
}

impl CloudConfig {
    const fn kind(&self) -> &'static str {
        match self.provider {
            Provider::S3 { .. } => "s3",
            Provider::Azure { .. } => "azure",
            Provider::Gcs { .. } => "gcs",
        }
    }
}

#[cfg(test)]
#[path = "trouble_tests.rs"]
mod tests;
