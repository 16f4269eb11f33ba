//! What came back on the wire for one request, noted beside the client library.
//!
//! The library turns statuses into errors of its own and drops what it does not need. Classes (D-9) rest on
//! the status and on the code that the store wrote into its answer, so both are noted where they arrive.

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, StatusCode};

/// Longer Retry-After is taken as this: the core has limits of its own, and an hour ends every one of them.
const LONGEST_RETRY_AFTER_SECS: u64 = 3_600;

/// The last exchange of one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Exchange {
    /// An answer came.
    Answered(Answer),
    /// None came.
    Silent {
        /// Who was asked.
        host: String,
        /// What the network said.
        text: String,
    },
}

/// The head of an answer, and the code in its body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Answer {
    /// Who answered.
    pub(super) host: String,
    pub(super) status: u16,
    /// The store's own code, `NoSuchBucket` for example.
    pub(super) code: Option<String>,
    /// The store's own words.
    pub(super) message: Option<String>,
    pub(super) retry_after_ms: Option<u64>,
    /// The region that S3 says the bucket is in.
    pub(super) region: Option<String>,
    pub(super) content_type: Option<String>,
    /// Whether there was a body.
    pub(super) is_empty: bool,
}

impl Answer {
    pub(super) fn new(host: String, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body_text = String::from_utf8_lossy(body);
        Self {
            host,
            status: status.as_u16(),
            code: header("x-ms-error-code").or_else(|| element(&body_text, "Code")),
            message: element(&body_text, "Message"),
            retry_after_ms: header("retry-after").as_deref().and_then(retry_after_ms),
            region: header("x-amz-bucket-region").or_else(|| element(&body_text, "Region")),
            content_type: header("content-type"),
            is_empty: body.is_empty(),
        }
    }

    pub(super) const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }
}

/// The text of the first XML element of this name, cut to what fits into a log line. Enough for the error
/// bodies of all three providers.
fn element(body: &str, name: &str) -> Option<String> {
    const LONGEST: usize = 300;
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once("</")?;
    let text: String = text.lines().next().unwrap_or_default().chars().take(LONGEST).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Seconds; a date is left to the core's own back-off.
fn retry_after_ms(text: &str) -> Option<u64> {
    let seconds: u64 = text.trim().parse().ok()?;
    Some(seconds.min(LONGEST_RETRY_AFTER_SECS) * 1_000)
}

/// Where the exchanges of one operation are noted; the last one counts.
#[derive(Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Option<Exchange>>>);

tokio::task_local! {
    static NOTES: Notes;
}

impl Notes {
    /// Runs an operation whose exchanges are noted here.
    pub(super) async fn taken<T>(&self, operation: impl Future<Output = T>) -> T {
        NOTES.scope(self.clone(), operation).await
    }

    /// Notes an exchange of the operation that runs.
    pub(super) fn note(exchange: Exchange) {
        // A request outside of an operation interests nobody.
        let _ = NOTES.try_with(|notes| {
            *notes.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(exchange);
        });
    }

    pub(super) fn last(&self) -> Option<Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
