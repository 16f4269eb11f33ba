//! The class of every answer (D-9), as one table.

use super::answer::Answer;

/// What was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    /// Reading one object.
    Read,
    /// A conditional write.
    Write,
    /// Deleting one object.
    Delete,
    /// Listing keys.
    List,
}

/// What an answer other than success means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// There is no such object.
    Missing,
    /// The condition did not hold, or the store says so: only a read can tell.
    Refused,
    /// Worth another try; a write may have landed.
    Transient,
    /// Repeating it would change nothing.
    Permanent,
}

/// Codes that heal by themselves or with fresh credentials, whatever their status: S3 and Azure give them as
/// 400, 401 or 403.
const HEALING_CODES: [&str; 11] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteBody",
    "OperationAborted",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "RequestTimeout",
    "ServerBusy",
    "SlowDown",
    "Throttling",
    "TokenRefreshRequired",
];

/// Codes that say that the place itself is not there.
const PLACE_CODES: [&str; 6] = [
    "AccountIsDisabled",
    "AllAccessDisabled",
    "ContainerDisabled",
    "ContainerNotFound",
    "InvalidBucketName",
    "NoSuchBucket",
];

/// Codes with which fresh credentials may help.
pub(super) fn is_expired(answer: &Answer) -> bool {
    let code = answer.code.as_deref().unwrap_or_default();
    let says = |text: &Option<String>| {
        text.as_deref().is_some_and(|text| text.to_ascii_lowercase().contains("expired"))
    };
    matches!(code, "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" | "TokenRefreshRequired")
        || matches!(answer.status, 400 | 401 | 403) && (says(&answer.code) || says(&answer.message))
}

/// Whether the bucket, container or account does not exist or is shut.
pub(super) fn is_place_missing(answer: &Answer) -> bool {
    answer.code.as_deref().is_some_and(|code| PLACE_CODES.contains(&code))
}

/// The class of an answer whose status is not a success. An unknown one counts as transient.
pub(super) fn class_of(operation: Operation, answer: &Answer) -> Class {
    if is_place_missing(answer) {
        return Class::Permanent;
    }
    let heals = answer.code.as_deref().is_some_and(|code| HEALING_CODES.contains(&code));
    match (answer.status, operation) {
        // What a conditional write may mean by it, a read finds out.
        (304 | 404 | 409 | 412, Operation::Write) => Class::Refused,
        (404, Operation::Read) if is_of_a_store(answer) => Class::Missing,
        (404, Operation::Delete) => Class::Missing,
        // A listing of a bucket that exists is never "not found", and a page of a proxy is no object.
        (404, Operation::Read | Operation::List) => Class::Transient,
        (304 | 409 | 412, Operation::Read | Operation::Delete | Operation::List) => Class::Transient,
        _ if heals || is_expired(answer) => Class::Transient,
        // Malformed, denied, another region or address, not supported.
        (301..=303 | 308 | 400 | 401 | 403 | 405 | 411 | 413..=416 | 501, _) => Class::Permanent,
        _ => Class::Transient,
    }
}

/// Stores say why an object is missing, or nothing at all; web servers and ingresses send a page.
fn is_of_a_store(answer: &Answer) -> bool {
    answer.code.is_some() || answer.is_empty
}

#[cfg(test)]
#[path = "class_tests.rs"]
mod tests;
