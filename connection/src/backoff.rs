//! Delays between tries: doubled each time, capped, and spread so that many who lost the same server do
//! not come back at the same instant.

use std::time::Duration;

/// Capped at 1 s (D-21).
pub const BACKOFF_CAP: Duration = Duration::from_secs(1);
/// The first delay.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);

/// The delays of one sequence of tries.
#[derive(Debug, Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next delay: between half of the doubled delay and all of it.
    pub fn next_delay(&mut self) -> Duration {
        let full = BACKOFF_FIRST.saturating_mul(1 << self.tries.min(10)).min(BACKOFF_CAP);
        self.tries += 1;
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Starts over: the last try worked.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
