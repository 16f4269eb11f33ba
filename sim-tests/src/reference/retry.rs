//! Retries: how long to wait before the next attempt, and when there is none.

use dexzd_core::engine::RetryPolicy;

const SECOND_US: u64 = 1_000_000;

fn or_default(seconds: i32, default: u64) -> u64 {
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).unwrap_or(default)
}

/// The least time from a failed attempt to the hand-out of the next, in microseconds:
/// `min(maximum interval, initial * coefficient^(k - 1))` before retry `k`, from 1.
#[must_use]
pub fn delay_before(policy: &RetryPolicy, retry: u32) -> u64 {
    let coefficient = if policy.backoff_coefficient >= 1.0 { policy.backoff_coefficient } else { 2.0 };
    let maximum = or_default(policy.maximum_interval_seconds, 100) as f64;
    let mut delay = or_default(policy.initial_interval_seconds, 1) as f64;
    for _ in 1..retry {
        delay = (delay * coefficient).min(maximum);
    }
    (delay.min(maximum) * SECOND_US as f64) as u64
}

/// Whether a failure of this attempt leaves no further one: the attempts are used up, or the total duration
/// since the first hand-out is.
#[must_use]
pub fn is_exhausted(policy: &RetryPolicy, attempt: u32, since_first_handout_us: u64) -> bool {
    let attempts = u32::try_from(policy.maximum_attempts).ok().filter(|most| *most > 0);
    let total_us = or_default(policy.total_duration_seconds, 4 * 3_600) * SECOND_US;
    attempts.is_some_and(|most| attempt >= most) || since_first_handout_us >= total_us
}

#[cfg(test)]
mod tests {
    use super::{delay_before, is_exhausted};
    use dexzd_core::engine::RetryPolicy;

    #[test]
    fn the_defaults_are_1_s_doubling_to_100_s_for_4_h() {
        let seconds: Vec<u64> =
            (1..=9).map(|retry| delay_before(&RetryPolicy::default(), retry) / 1_000_000).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        assert!(!is_exhausted(&RetryPolicy::default(), 1_000_000, 4 * 3_600 * 1_000_000 - 1));
        assert!(is_exhausted(&RetryPolicy::default(), 1, 4 * 3_600 * 1_000_000));
    }

    #[test]
    fn maximum_attempts_count_the_first_one() {
        let policy = RetryPolicy { maximum_attempts: 3, ..RetryPolicy::default() };
        assert!(!is_exhausted(&policy, 2, 0));
        assert!(is_exhausted(&policy, 3, 0));
    }
}
