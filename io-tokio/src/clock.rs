//! The clocks and the dice of the operating system. No other file of the shell reads either.
//!
//! ```text
//! holder    (D-1)   instant   advances by the larger step of BOOTTIME and MONOTONIC_RAW
//! candidate (D-2)   slow      advances by the smaller step of MONOTONIC and MONOTONIC_RAW
//! people            wall      REALTIME
//! ```
//!
//! `BOOTTIME` counts the time that a machine was suspended, `MONOTONIC_RAW` is not bent by time
//! synchronisation. A holder believes the one that says that more time has passed, a candidate the one
//! that says that less has.

#![allow(clippy::disallowed_methods, reason = "this is the one file that may")]

use std::sync::{Mutex, PoisonError};

use dexzd_core::time::{Instant, Now, SlowInstant, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// The steps of two clocks are compared and added up this often, so that the few nanoseconds between
/// the readings of one look do not add up over many looks. Within one such span the composite follows
/// the clock that is ahead; rates that differ by 500 ppm make that at most 25 µs of doubt, which the
/// 100 ms between renewal cut-off and expiry cover many times (HA-25).
const FOLD_AFTER_MICROS: u64 = 50_000;
/// The readings begin above zero, so that arithmetic around the start does not meet the origin.
const ORIGIN_MICROS: u64 = 1_000_000_000;

/// The composite clocks of one process. Looks from several threads are consistent with one another.
pub struct Clock {
    state: Mutex<State>,
}

struct State {
    fast: Composite,
    slow: Composite,
}

/// Readings of the operating system's clocks in microseconds, all from the same look.
#[derive(Clone, Copy)]
struct Readings {
    boot: u64,
    monotonic: u64,
    raw: u64,
    wall: u64,
}

impl Clock {
    /// A clock that begins to count now. A process has one.
    #[must_use]
    pub fn new() -> Self {
        let first = read();
        Self {
            state: Mutex::new(State {
                fast: Composite::new(first.boot, first.raw),
                slow: Composite::new(first.monotonic, first.raw),
            }),
        }
    }

    /// Reads all clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: readings must reach the state in the order in which they were taken.
        let readings = read();
        Now {
            instant: Instant::from_micros(state.fast.advance(readings.boot, readings.raw, u64::max)),
            slow: SlowInstant::from_micros(state.slow.advance(readings.monotonic, readings.raw, u64::min)),
            wall: Timestamp::from_micros(readings.wall),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Two clocks made into one by choosing between their steps.
struct Composite {
    /// What this clock said at the last fold.
    base: u64,
    first_base: u64,
    second_base: u64,
}

impl Composite {
    const fn new(first: u64, second: u64) -> Self {
        Self { base: ORIGIN_MICROS, first_base: first, second_base: second }
    }

    fn advance(&mut self, first: u64, second: u64, choose: fn(u64, u64) -> u64) -> u64 {
        let first_step = first.saturating_sub(self.first_base);
        let second_step = second.saturating_sub(self.second_base);
        let reading = self.base + choose(first_step, second_step);
        if first_step.max(second_step) >= FOLD_AFTER_MICROS {
            *self = Self { base: reading, first_base: first, second_base: second };
        }
        reading
    }
}

fn read() -> Readings {
    Readings {
        boot: micros(ClockId::Boottime),
        monotonic: micros(ClockId::Monotonic),
        raw: micros(ClockId::MonotonicRaw),
        wall: micros(ClockId::Realtime),
    }
}

fn micros(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // A wall clock before 1970 reads as 1970: it only makes timers late until it is set.
    u64::try_from(time.tv_sec)
        .map_or(0, |seconds| seconds * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000)
}

/// 64 bits from the operating system.
///
/// # Panics
///
/// If the operating system has none, which Linux excludes once it has booted.
#[must_use]
pub fn entropy() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u64::from_le_bytes(bytes)
}

/// 128 bits from the operating system.
///
/// # Panics
///
/// As [`entropy`].
#[must_use]
pub fn entropy_u128() -> u128 {
    (u128::from(entropy()) << 64) | u128::from(entropy())
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
