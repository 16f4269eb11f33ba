//! Retry arithmetic: when the next attempt comes, or that there is none (concepts.md 1.3).

use core::time::Duration;

use super::model::RetryPolicy;
use crate::time::Timestamp;

/// Delay before the first retry.
pub const DEFAULT_INITIAL_INTERVAL: Duration = Duration::from_secs(1);
/// Factor from one delay to the next.
pub const DEFAULT_BACKOFF_COEFFICIENT: f64 = 2.0;
/// The largest computed delay.
pub const DEFAULT_MAXIMUM_INTERVAL: Duration = Duration::from_secs(100);
/// From the first hand-out to the last failure that is still followed by a retry.
pub const DEFAULT_TOTAL_DURATION: Duration = Duration::from_secs(4 * 3_600);

/// A retry policy with its defaults filled in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EffectiveRetry {
    /// Delay before the first retry.
    pub initial_interval: Duration,
    /// Finite and at least 1.
    pub backoff_coefficient: f64,
    /// The largest computed delay.
    pub maximum_interval: Duration,
    /// Counts the first attempt; None is unlimited.
    pub maximum_attempts: Option<u32>,
    /// From the first hand-out; judged only when an attempt has failed.
    pub total_duration: Duration,
}

/// What follows a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryVerdict {
    /// The next attempt is queued then.
    RetryAt(Timestamp),
    /// No attempt is left: the method has failed for good.
    Exhausted,
}

impl Default for EffectiveRetry {
    fn default() -> Self {
        Self {
            initial_interval: DEFAULT_INITIAL_INTERVAL,
            backoff_coefficient: DEFAULT_BACKOFF_COEFFICIENT,
            maximum_interval: DEFAULT_MAXIMUM_INTERVAL,
            maximum_attempts: None,
            total_duration: DEFAULT_TOTAL_DURATION,
        }
    }
}

impl From<Option<&RetryPolicy>> for EffectiveRetry {
    /// Zero means "the default". So does what [`validate`](super::validate) refuses, which no stored
    /// policy holds.
    fn from(policy: Option<&RetryPolicy>) -> Self {
        let default = Self::default();
        let Some(policy) = policy else {
            return default;
        };
        let coefficient = policy.backoff_coefficient;
        Self {
            initial_interval: seconds(policy.initial_interval_seconds).unwrap_or(default.initial_interval),
            backoff_coefficient: if coefficient.is_finite() && coefficient >= 1.0 {
                coefficient
            } else {
                default.backoff_coefficient
            },
            maximum_interval: seconds(policy.maximum_interval_seconds).unwrap_or(default.maximum_interval),
            maximum_attempts: positive(policy.maximum_attempts),
            total_duration: seconds(policy.total_duration_seconds).unwrap_or(default.total_duration),
        }
    }
}

impl EffectiveRetry {
    /// What follows the failure, at `now`, of the attempt with this number (from 1).
    ///
    /// `first_handout` is when the budget of this method call began; None if no attempt of it counts
    /// as handed out. `retry_after_ms` replaces the computed delay once and changes no limit.
    #[must_use]
    pub fn next(
        &self,
        failed_attempt: u32,
        first_handout: Option<Timestamp>,
        now: Timestamp,
        retry_after_ms: Option<u64>,
        non_retryable: bool,
    ) -> RetryVerdict {
        let no_attempt_left = self.maximum_attempts.is_some_and(|maximum| failed_attempt >= maximum);
        let no_time_left =
            first_handout.is_some_and(|first| now.saturating_since(first) >= self.total_duration);
        if non_retryable || no_attempt_left || no_time_left {
            return RetryVerdict::Exhausted;
        }
        let delay = retry_after_ms.map_or_else(|| self.delay(failed_attempt), Duration::from_millis);
        RetryVerdict::RetryAt(now.saturating_add(delay))
    }

    /// The computed delay before retry `retry` (from 1):
    /// `min(maximum interval, initial interval * coefficient^(retry - 1))`.
    #[must_use]
    pub fn delay(&self, retry: u32) -> Duration {
        let factor = power(self.backoff_coefficient, retry.saturating_sub(1));
        let delay_seconds = self.initial_interval.as_secs_f64() * factor;
        if delay_seconds >= self.maximum_interval.as_secs_f64() {
            return self.maximum_interval;
        }
        // Below the maximum interval, so it fits.
        Duration::from_secs_f64(delay_seconds)
    }
}

/// By squaring: at most 32 rounds for any exponent, and the same result on every machine, because
/// only multiplications are used. Infinity is the honest answer to an overflow.
fn power(base: f64, mut exponent: u32) -> f64 {
    let (mut result, mut square) = (1.0, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

fn positive(number: i32) -> Option<u32> {
    u32::try_from(number).ok().filter(|number| *number > 0)
}

fn seconds(number: i32) -> Option<Duration> {
    positive(number).map(|number| Duration::from_secs(number.into()))
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
