//! Client connections and the role periods they were opened in (HA-68, HA-109, D-16).
//!
//! ```text
//! standby                                     | active
//!        opened ......... 2.5 to 3.4 s ............ closed: the promotion changes nothing
//!                                             |     opened ............. stays
//!
//! active                        | standby (stepped down)
//!   opened .....................|.. 2.5 to 3.4 s .. closed; one that carries the step down: at its answer
//! ```
//!
//! A client that reached the wrong process thus looks for another one soon; a call on a connection of an
//! earlier period never takes effect.

use core::time::Duration;

use minicbor::{Decode, Encode};

use crate::rng::Rng;
use crate::time::Instant;

/// A connection lives at least so long among the connections of a standby (HA-68).
const SHORTEST_STAY: Duration = Duration::from_millis(2_500);
/// Spreads the reconnects of clients that came together. It leaves 100 ms of the 3.5 s for what a shell does from
/// the GOAWAY to the close (HA-68).
const LONGEST_EXTRA: Duration = Duration::from_millis(900);

/// The number of a role period: a stretch in which a process stands by, or one in which it holds the
/// lease. It grows with each (D-16).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Period(#[n(0)] pub u64);

/// The present period, as connections are judged by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RolePeriod {
    /// Its number.
    pub number: Period,
    /// Whether the process stands by: it neither holds the lease nor is it about to give it back.
    pub is_standby: bool,
    /// When it began to stand by: in this period, or in the last one of that kind.
    pub standby_since: Instant,
}

/// One client connection, as the shell keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    opened_at: Instant,
    opened_in: Period,
    stay: Duration,
    carries_step_down: bool,
}

impl Connection {
    /// A connection that was accepted just now.
    #[must_use]
    pub fn opened(now: Instant, period: Period, rng: &mut Rng) -> Self {
        let extra = Duration::from_micros(rng.up_to(crate::time::micros(LONGEST_EXTRA)));
        Self { opened_at: now, opened_in: period, stay: SHORTEST_STAY + extra, carries_step_down: false }
    }

    /// The period it belongs to: `Input::Admin` carries it.
    #[must_use]
    pub const fn opened_in(&self) -> Period {
        self.opened_in
    }

    /// A step down runs on it (`true`), or was answered: it is closed after its answer, not before.
    pub const fn set_carries_step_down(&mut self, carries: bool) {
        self.carries_step_down = carries;
    }

    /// Whether a call of the public API may be tried on it: on one of an earlier period it gets
    /// UNAVAILABLE (D-16).
    #[must_use]
    pub fn belongs_to(&self, period: &RolePeriod) -> bool {
        self.opened_in == period.number
    }

    /// When it is to be closed (GOAWAY, and the close at most 100 ms later); `None`: it stays.
    #[must_use]
    pub fn close_at(&self, period: &RolePeriod) -> Option<Instant> {
        if self.carries_step_down || (self.belongs_to(period) && !period.is_standby) {
            return None;
        }
        Some(self.opened_at.max(period.standby_since).saturating_add(self.stay))
    }
}
