//! The two kinds of time, which cannot be mixed up.
//!
//! All of them are integers. The shell reads the clocks and hands the readings in as [`Now`].

use core::fmt;
use core::time::Duration;

use minicbor::{Decode, Encode};

/// A reading of the holder's monotonic clock, in microseconds since an arbitrary origin.
///
/// It counts suspended time and runs at least as fast as the faster of `CLOCK_BOOTTIME` and
/// `CLOCK_MONOTONIC_RAW` (D-1): whatever it says has ended, has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Instant(#[n(0)] u64);

/// A reading of the candidate's monotonic clock, in microseconds since an arbitrary origin.
///
/// It runs at most as fast as the slower of `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW` (D-2): a
/// candidate that waits by it never concludes too early.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct SlowInstant(#[n(0)] u64);

/// A reading of the wall clock, in microseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Timestamp(#[n(0)] u64);

/// The clock readings that come with every input. All were taken at the same look.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
pub struct Now {
    /// What a lease holder believes (D-1).
    #[n(0)]
    pub instant: Instant,
    /// What a lease candidate believes (D-2).
    #[n(1)]
    pub slow: SlowInstant,
    /// The wall clock: for what people see, and for durable due times.
    #[n(2)]
    pub wall: Timestamp,
}

macro_rules! point_in_time {
    ($name:ident) => {
        impl $name {
            /// The origin of this clock.
            pub const ZERO: Self = Self(0);
            /// Later than every reading.
            pub const MAX: Self = Self(u64::MAX);

            /// From microseconds since the clock's origin.
            #[must_use]
            pub const fn from_micros(micros: u64) -> Self {
                Self(micros)
            }

            /// From milliseconds since the clock's origin; the largest value if that overflows.
            #[must_use]
            pub const fn from_millis(millis: u64) -> Self {
                Self(millis.saturating_mul(1_000))
            }

            /// Microseconds since the clock's origin.
            #[must_use]
            pub const fn as_micros(self) -> u64 {
                self.0
            }

            /// Whole milliseconds since the clock's origin.
            #[must_use]
            pub const fn as_millis(self) -> u64 {
                self.0 / 1_000
            }

            /// This point moved later, stopping at the largest value.
            #[must_use]
            pub fn saturating_add(self, duration: Duration) -> Self {
                Self(self.0.saturating_add(micros(duration)))
            }

            /// This point moved earlier, stopping at the origin.
            #[must_use]
            pub fn saturating_sub(self, duration: Duration) -> Self {
                Self(self.0.saturating_sub(micros(duration)))
            }

            /// Time from `earlier` to here; zero if `earlier` is later.
            #[must_use]
            pub const fn saturating_since(self, earlier: Self) -> Duration {
                Duration::from_micros(self.0.saturating_sub(earlier.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
            }
        }
    };
}

point_in_time!(Instant);
point_in_time!(SlowInstant);
point_in_time!(Timestamp);

/// A duration in whole microseconds, stopping at the largest value.
#[must_use]
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
