use core::time::Duration;
use std::vec::Vec;

use proptest::prelude::*;

use super::{EffectiveRetry, RetryVerdict};
use crate::engine::RetryPolicy;
use crate::time::Timestamp;

const START: Timestamp = Timestamp::from_millis(1_000_000);

fn after_seconds(seconds: u64) -> Timestamp {
    START.saturating_add(Duration::from_secs(seconds))
}

fn policy() -> RetryPolicy {
    RetryPolicy::default()
}

#[test]
fn concepts_1_3_zero_means_the_default() {
    let expected = EffectiveRetry {
        initial_interval: Duration::from_secs(1),
        backoff_coefficient: 2.0,
        maximum_interval: Duration::from_secs(100),
        maximum_attempts: None,
        total_duration: Duration::from_secs(14_400),
    };
    assert_eq!(EffectiveRetry::from(None), expected);
    assert_eq!(EffectiveRetry::from(Some(&policy())), expected);
}

#[test]
fn concepts_1_3_only_given_fields_differ_from_the_default() {
    let given = RetryPolicy {
        initial_interval_seconds: 5,
        backoff_coefficient: 1.5,
        maximum_interval_seconds: 7,
        maximum_attempts: 3,
        total_duration_seconds: 60,
    };
    assert_eq!(
        EffectiveRetry::from(Some(&given)),
        EffectiveRetry {
            initial_interval: Duration::from_secs(5),
            backoff_coefficient: 1.5,
            maximum_interval: Duration::from_secs(7),
            maximum_attempts: Some(3),
            total_duration: Duration::from_secs(60),
        }
    );
}

#[test]
fn concepts_1_3_default_delays_double_from_one_second_to_one_hundred() {
    let retry = EffectiveRetry::default();
    let delays: Vec<u64> = (1..=10).map(|k| retry.delay(k).as_secs()).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 100, 100, 100]);
    assert_eq!(retry.delay(u32::MAX), Duration::from_secs(100));
}

#[test]
fn concepts_1_3_the_first_delay_never_exceeds_the_maximum_interval() {
    let given = RetryPolicy { initial_interval_seconds: 30, maximum_interval_seconds: 10, ..policy() };
    let retry = EffectiveRetry::from(Some(&given));
    assert_eq!(retry.delay(1), Duration::from_secs(10));
}

#[test]
fn concepts_1_3_a_coefficient_of_one_keeps_the_delay() {
    let given = RetryPolicy { initial_interval_seconds: 3, backoff_coefficient: 1.0, ..policy() };
    let retry = EffectiveRetry::from(Some(&given));
    for k in [1, 2, 1_000, u32::MAX] {
        assert_eq!(retry.delay(k), Duration::from_secs(3));
    }
}

#[test]
fn concepts_1_3_fractional_coefficients_keep_fractions_of_a_second() {
    let given = RetryPolicy { backoff_coefficient: 1.5, ..policy() };
    let retry = EffectiveRetry::from(Some(&given));
    assert_eq!(retry.delay(3), Duration::from_millis(2_250));
}

#[test]
fn concepts_1_3_maximum_attempts_count_the_first_attempt() {
    let retry = EffectiveRetry { maximum_attempts: Some(3), ..EffectiveRetry::default() };
    let next = |attempt| retry.next(attempt, Some(START), START, None, false);
    assert_eq!(next(1), RetryVerdict::RetryAt(after_seconds(1)));
    assert_eq!(next(2), RetryVerdict::RetryAt(after_seconds(2)));
    assert_eq!(next(3), RetryVerdict::Exhausted);
    assert_eq!(next(4), RetryVerdict::Exhausted);
}

#[test]
fn concepts_1_3_one_attempt_disables_retries() {
    let retry = EffectiveRetry { maximum_attempts: Some(1), ..EffectiveRetry::default() };
    let verdict = retry.next(1, Some(START), START, Some(10), false);
    assert_eq!(verdict, RetryVerdict::Exhausted);
}

#[test]
fn concepts_1_3_the_total_duration_is_judged_at_the_failure_and_a_retry_may_start_after_it() {
    let retry = EffectiveRetry { total_duration: Duration::from_secs(10), ..EffectiveRetry::default() };
    // One microsecond before the budget ends a retry is scheduled, though it starts 8 s after it.
    let just_in_time = Timestamp::from_micros(after_seconds(10).as_micros() - 1);
    assert_eq!(
        retry.next(4, Some(START), just_in_time, None, false),
        RetryVerdict::RetryAt(just_in_time.saturating_add(Duration::from_secs(8)))
    );
    assert_eq!(retry.next(4, Some(START), after_seconds(10), None, false), RetryVerdict::Exhausted);
}

#[test]
fn concepts_1_3_the_budget_does_not_run_before_the_first_hand_out() {
    let retry = EffectiveRetry::default();
    assert_eq!(
        retry.next(1, None, after_seconds(1_000_000), None, false),
        RetryVerdict::RetryAt(after_seconds(1_000_001))
    );
}

#[test]
fn concepts_1_3_retry_after_replaces_the_delay_once_and_changes_no_limit() {
    let retry = EffectiveRetry {
        maximum_attempts: Some(4),
        total_duration: Duration::from_secs(3_600),
        ..EffectiveRetry::default()
    };
    // It may be longer than the maximum interval, or shorter than the computed delay.
    assert_eq!(
        retry.next(2, Some(START), START, Some(500_000), false),
        RetryVerdict::RetryAt(after_seconds(500))
    );
    assert_eq!(retry.next(2, Some(START), START, Some(0), false), RetryVerdict::RetryAt(START));
    // The next delay is computed as if nothing had been asked for.
    assert_eq!(retry.next(3, Some(START), START, None, false), RetryVerdict::RetryAt(after_seconds(4)));
    assert_eq!(retry.next(4, Some(START), START, Some(1), false), RetryVerdict::Exhausted);
    assert_eq!(retry.next(2, Some(START), after_seconds(3_600), Some(1), false), RetryVerdict::Exhausted);
}

#[test]
fn concepts_1_3_a_non_retryable_failure_exhausts_at_once() {
    let retry = EffectiveRetry::default();
    assert_eq!(retry.next(1, Some(START), START, Some(1), true), RetryVerdict::Exhausted);
}

fn any_policy() -> impl Strategy<Value = RetryPolicy> {
    let number = || prop_oneof![Just(0), 1..100_i32, Just(i32::MAX), 1..=i32::MAX];
    let coefficient = prop_oneof![Just(0.0), Just(1.0), 1.0..10.0_f64, Just(f64::MAX)];
    (number(), coefficient, number(), number(), number()).prop_map(
        |(initial, coefficient, maximum, attempts, total)| RetryPolicy {
            initial_interval_seconds: initial,
            backoff_coefficient: coefficient,
            maximum_interval_seconds: maximum,
            maximum_attempts: attempts,
            total_duration_seconds: total,
        },
    )
}

/// The delay as the document defines it: multiplied out, step by step.
fn reference_delay_seconds(policy: &RetryPolicy, retry: u32) -> f64 {
    let or_default = |given: i32, default: f64| {
        if given == 0 { default } else { f64::from(given) }
    };
    let coefficient = if policy.backoff_coefficient == 0.0 { 2.0 } else { policy.backoff_coefficient };
    let mut delay = or_default(policy.initial_interval_seconds, 1.0);
    for _ in 1..retry {
        delay *= coefficient;
    }
    delay.min(or_default(policy.maximum_interval_seconds, 100.0))
}

proptest! {
    #[test]
    fn concepts_1_3_delays_follow_the_formula(policy in any_policy(), retry in 1..200_u32) {
        let expected = reference_delay_seconds(&policy, retry);
        let actual = EffectiveRetry::from(Some(&policy)).delay(retry).as_secs_f64();
        prop_assert!((actual - expected).abs() <= expected * 1e-9, "{actual} against {expected}");
    }

    #[test]
    fn concepts_1_3_delays_never_shrink_and_never_exceed_the_maximum(
        policy in any_policy(),
        retry in 1..u32::MAX,
    ) {
        let effective = EffectiveRetry::from(Some(&policy));
        let (this, next) = (effective.delay(retry), effective.delay(retry + 1));
        prop_assert!(this <= next);
        prop_assert!(next <= effective.maximum_interval);
    }

    #[test]
    fn concepts_1_3_limits_hold_whatever_delay_a_handler_asks_for(
        policy in any_policy(),
        attempt in 1..=u32::MAX,
        first in 0..=u64::MAX,
        later in 0..=u64::MAX,
        retry_after_ms in proptest::option::of(0..=u64::MAX),
    ) {
        let effective = EffectiveRetry::from(Some(&policy));
        let first = Timestamp::from_micros(first);
        let now = first.saturating_add(Duration::from_micros(later));
        let exhausted = effective.maximum_attempts.is_some_and(|most| attempt >= most)
            || now.saturating_since(first) >= effective.total_duration;
        match effective.next(attempt, Some(first), now, retry_after_ms, false) {
            RetryVerdict::Exhausted => prop_assert!(exhausted),
            RetryVerdict::RetryAt(at) => {
                prop_assert!(!exhausted);
                let delay = retry_after_ms
                    .map_or(effective.delay(attempt), Duration::from_millis);
                prop_assert_eq!(at, now.saturating_add(delay));
            }
        }
    }
}
