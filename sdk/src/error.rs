//! How a handler says that it failed.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::time::Duration;

use dexzd_proto as proto;

/// Error details longer than this are cut: 16 KiB.
const TEXT_BYTES: usize = 16 << 10;

/// The failure of one attempt of a Step method.
///
/// Any error becomes one with `?`; its type name becomes the error type. The attempt is repeated under the
/// Step's retry policy unless the error says otherwise.
///
/// ```
/// use std::time::Duration;
/// use dexzd_sdk::StepError;
///
/// fn charge(card: &str) -> Result<u64, StepError> {
///     if card.is_empty() {
///         return Err(StepError::new("NoCard", "the order has no card").non_retryable());
///     }
///     let cents: u64 = card.parse()?;
///     if cents == 0 {
///         return Err(StepError::new("Busy", "the bank asks for patience").retry_after(Duration::from_secs(30)));
///     }
///     Ok(cents)
/// }
/// # assert!(charge("").is_err());
/// ```
pub struct StepError {
    error_type: String,
    detail: String,
    stack: Option<String>,
    non_retryable: bool,
    retry_after: Option<Duration>,
}

impl StepError {
    /// An error with a type that recovery Steps and people can tell apart, and a detail for people.
    pub fn new(error_type: impl Into<String>, detail: impl fmt::Display) -> Self {
        let backtrace = Backtrace::capture();
        Self {
            error_type: error_type.into(),
            detail: detail.to_string(),
            stack: (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string()),
            non_retryable: false,
            retry_after: None,
        }
    }

    /// No further attempt: the method has failed for good.
    #[must_use]
    pub fn non_retryable(mut self) -> Self {
        self.non_retryable = true;
        self
    }

    /// The next attempt comes after this delay, once, instead of the retry policy's. It changes no limit.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// The error type.
    pub fn error_type(&self) -> &str {
        &self.error_type
    }

    /// The detail.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether no further attempt is wanted.
    pub fn is_non_retryable(&self) -> bool {
        self.non_retryable
    }

    pub(crate) fn from_panic(payload: &(dyn std::any::Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        Self::new("Panic", format_args!("the handler panicked: {message}"))
    }

    pub(crate) fn into_frame(self, handout: Option<proto::HandoutId>) -> proto::worker_frame::Failed {
        proto::worker_frame::Failed {
            handout,
            failure: Some(proto::Failure {
                error_type: cut(self.error_type, 255),
                detail: cut(self.detail, TEXT_BYTES),
                stack: self.stack.map(|stack| cut(stack, TEXT_BYTES)),
            }),
            non_retryable: self.non_retryable,
            retry_after_ms: self.retry_after.map(crate::options::milliseconds),
        }
    }
}

/// At most so many bytes, cut between characters.
fn cut(mut text: String, bytes: usize) -> String {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

impl<E: std::error::Error> From<E> for StepError {
    fn from(error: E) -> Self {
        let full = std::any::type_name::<E>();
        let path = full.split('<').next().unwrap_or(full);
        let name = path.rsplit("::").next().unwrap_or(path);
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail.push_str(": ");
            detail.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::new(name, detail)
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepError")
            .field("error_type", &self.error_type)
            .field("detail", &self.detail)
            .field("non_retryable", &self.non_retryable)
            .field("retry_after", &self.retry_after)
            .finish()
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type, self.detail)
    }
}
