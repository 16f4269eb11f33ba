//! The gate: whether a public answer or a task may still leave (D-47).
//!
//! `node` orders, the shell keeps one [`Gate`] per epoch where both planes can see it, and compares it
//! with a clock read at the moment when bytes are handed to the transport.
//!
//! ```text
//! let now = clocks.read();                 // at the hand-over, never the `now` of an input
//! match gate.look(now) {
//!     GateView::Open => hand over,
//!     GateView::Doubt => hold it back, and tell node `Input::GateJumped(gate.jumped_at())`, if there is one,
//!     GateView::Shut => answer UNAVAILABLE,
//! }
//! ```

use core::time::Duration;

use minicbor::{Decode, Encode};

use crate::mutant::{self, Mutant};
use crate::time::{Instant, Now};

/// A forward jump of the wall clock that is larger than this was a pause that no monotonic clock
/// counted, or a correction: only the store can tell (D-1).
pub const LARGEST_JUMP: Duration = Duration::from_millis(500);

/// Wall time minus monotonic time, in microseconds: it moves when one of the two jumps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct WallOffset(#[n(0)] i64);

impl WallOffset {
    /// At this look.
    #[must_use]
    pub fn at(now: Now) -> Self {
        let difference = i128::from(now.wall.as_micros()) - i128::from(now.instant.as_micros());
        let clamped = difference.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        Self(i64::try_from(clamped).expect("clamped to the range of an i64"))
    }

    /// Whether the wall clock jumped forward between `earlier` and this look (D-1). Backward jumps
    /// mean nothing.
    #[must_use]
    pub fn jumped_since(self, earlier: Self) -> bool {
        i128::from(self.0) - i128::from(earlier.0)
            > i128::try_from(LARGEST_JUMP.as_micros()).expect("half a second fits")
    }
}

/// What `node` tells the gate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum GateOrder {
    /// Open until a deadline that only moves forward, as long as the wall clock does not jump.
    #[n(0)]
    Open {
        /// The end of the lease period.
        #[n(0)]
        until: Instant,
        /// The clocks' offset when the lease was proven.
        #[n(1)]
        offset: WallOffset,
        /// The instant before the write that proves it was sent: a jump that was seen later is not proven to
        /// be harmless by it (D-1).
        #[n(2)]
        since: Instant,
    },
    /// The lease is in doubt: hold everything back until the next `Open` (D-1).
    #[n(1)]
    Doubt,
    /// For good.
    #[n(2)]
    Close,
}

/// What a look at the gate shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateView {
    /// It may leave.
    Open,
    /// It waits: a later `Open` or `Close` decides.
    Doubt,
    /// It never leaves.
    Shut,
}

/// One gate, of one epoch: it begins shut, though not closed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gate {
    until: Instant,
    offset: WallOffset,
    /// `node` ordered doubt.
    held: bool,
    /// When a look of the gate's own found a jump. `node` may not have seen it: the wall clock can have gone back
    /// and forth between two looks of its own.
    jumped_at: Option<Instant>,
    closed: bool,
}

impl Gate {
    /// Takes an order. After `Close` none has an effect; a deadline never moves back.
    pub fn order(&mut self, order: GateOrder) {
        let reopens = mutant::is(Mutant::ReopenAfterRelease) || mutant::is(Mutant::LateRenewalReopens);
        if self.closed && !reopens {
            return;
        }
        match order {
            GateOrder::Open { until, offset, since } => self.open(until, offset, since),
            GateOrder::Doubt => self.held = true,
            GateOrder::Close => self.closed = true,
        }
    }

    fn open(&mut self, until: Instant, offset: WallOffset, since: Instant) {
        let is_first = self.until == Instant::ZERO;
        self.until = self.until.max(until);
        self.closed = false;
        let was_held = core::mem::take(&mut self.held);
        if self.jumped_at.is_some_and(|at| since < at) && !mutant::is(Mutant::DoubtEndedByOlder) {
            return;
        }
        let had_jumped = self.jumped_at.take().is_some();
        let ends_doubt = was_held || had_jumped;
        // Without a doubt that it ends, an order says nothing about a jump that no look has found yet: the next one
        // finds it.
        if is_first || ends_doubt || !offset.jumped_since(self.offset) {
            self.offset = offset;
        }
    }

    /// Whether it was shut for good.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// When a look found the jump that it is in doubt about. None: it is in no doubt, or in `node`'s.
    #[must_use]
    pub const fn jumped_at(&self) -> Option<Instant> {
        self.jumped_at
    }

    /// Whether something may leave now. A look: it notices a jump of the wall clock before `node` does.
    pub fn look(&mut self, now: Now) -> GateView {
        let ended = now.instant >= self.until && !mutant::is(Mutant::NoLastCheck);
        if self.closed || ended {
            return GateView::Shut;
        }
        let offset = WallOffset::at(now);
        if offset.jumped_since(self.offset) && !mutant::is(Mutant::NoDoubt) {
            self.jumped_at.get_or_insert(now.instant);
        }
        if self.held || self.jumped_at.is_some() {
            return GateView::Doubt;
        }
        self.offset = self.offset.min(offset);
        GateView::Open
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
