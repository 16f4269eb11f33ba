//! Which faults exist in a run. Most are absent in most runs, and those that exist differ wildly in
//! rate, so that seeds explore corners and not the same average over and over.

use crate::dice::{Dice, MILLION, Stream};

/// Rates of store faults, relative to one million calm requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreFaults {
    /// A leg of 20 to 800 ms.
    pub slow: u32,
    /// A leg of 0.8 to 12 s.
    pub very_slow: u32,
    /// 5xx without effect.
    pub transient: u32,
    /// 429 or 503 with Retry-After.
    pub throttled: u32,
    /// No effect and never an answer.
    pub lost_request: u32,
    /// It lands, but the caller hears an error or nothing.
    pub lost_answer: u32,
    /// The caller hears an error or nothing, and it lands much later.
    pub late_landing: u32,
    /// 409 without effect.
    pub conflict: u32,
    /// It lands, and the caller hears 412: a retry below had come second.
    pub own_retry: u32,
    /// It lands and is answered, and much later it is applied once more.
    pub repeated: u32,
    /// 403 without effect: the caller gives up.
    pub denied: u32,
    /// A read is answered with an object that lost its end on the way.
    pub damaged: u32,
}

impl StoreFaults {
    /// Fine weather.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            slow: 0,
            very_slow: 0,
            transient: 0,
            throttled: 0,
            lost_request: 0,
            lost_answer: 0,
            late_landing: 0,
            conflict: 0,
            own_retry: 0,
            repeated: 0,
            denied: 0,
            damaged: 0,
        }
    }

    /// Everything that may pass, each in one request of ten or so.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            slow: 100_000,
            very_slow: 50_000,
            transient: 100_000,
            throttled: 100_000,
            lost_request: 50_000,
            lost_answer: 100_000,
            late_landing: 100_000,
            conflict: 100_000,
            own_retry: 100_000,
            repeated: 100_000,
            denied: 0,
            damaged: 0,
        }
    }

    /// Draws which of them exist, and how often they strike.
    pub fn draw(dice: &mut Dice) -> Self {
        Self {
            slow: rate(dice, "slow"),
            very_slow: rate(dice, "very_slow"),
            transient: rate(dice, "transient"),
            throttled: rate(dice, "throttled"),
            lost_request: rate(dice, "lost_request"),
            lost_answer: rate(dice, "lost_answer"),
            late_landing: rate(dice, "late_landing"),
            conflict: rate(dice, "conflict"),
            own_retry: rate(dice, "own_retry"),
            repeated: rate(dice, "repeated"),
            // Each of them ends a process: more would leave nothing else to see.
            denied: rate(dice, "denied").min(10_000),
            damaged: rate(dice, "damaged").min(10_000),
        }
    }
}

/// Absent in half of the runs; else one of five magnitudes.
pub fn rate(dice: &mut Dice, kind: &'static str) -> u32 {
    const MAGNITUDES: [u32; 6] = [0, 1_000, 10_000, 50_000, 200_000, MILLION];
    let weights = [50, 10, 15, 12, 10, 3];
    MAGNITUDES[dice.weighted(Stream::Swarm, kind, &weights)]
}

#[cfg(test)]
mod tests {
    use super::StoreFaults;
    use crate::dice::Dice;

    #[test]
    fn every_fault_is_absent_in_about_half_of_the_runs() {
        let absent = (0..1_000)
            .filter(|seed| StoreFaults::draw(&mut Dice::from_seed(*seed)).late_landing == 0)
            .count();
        assert!((400..600).contains(&absent), "absent in {absent} of 1,000");
    }
}
