//! Waiting longer after each failure.

use core::time::Duration;

use crate::rng::Rng;
use crate::time::micros;

/// Doubles from a first to a longest wait; each wait is drawn uniformly from the upper half.
#[derive(Clone, Hash, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Between lease write tries (D-4): 100 ms doubling to 1 s.
    #[must_use]
    pub const fn lease() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(1))
    }

    /// A sequence that starts at `first` and doubles up to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The wait after the next failure, in [½, 1] of its nominal value; the one after it is twice as long.
    pub fn draw(&mut self, rng: &mut Rng) -> Duration {
        let half = self.next / 2;
        let wait = half + Duration::from_micros(rng.up_to(micros(self.next - half)));
        self.next = (self.next * 2).min(self.longest);
        wait
    }

    /// A success: the next wait is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
