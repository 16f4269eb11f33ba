//! The gate of one epoch: the one value that control plane, data plane and transport share (D-47).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dexzd_core::time::Instant;

use crate::clock::Clock;

/// Open until a deadline that only moves forward; closing is final. An epoch has one, which is never
/// used for another epoch.
///
/// Whoever hands bytes to a transport asks [`is_open`](Self::is_open) right before: it reads a clock
/// then, whatever an input's time was (HA-69, HA-71). A cloned gate is the same gate.
#[derive(Clone)]
pub struct Gate {
    shared: Arc<Shared>,
    clock: Arc<Clock>,
}

struct Shared {
    /// In microseconds of the holder's clock; 0 before the first opening, [`CLOSED`] for ever.
    deadline: AtomicU64,
    in_doubt: AtomicBool,
}

const CLOSED: u64 = u64::MAX;

impl Gate {
    /// A gate that was never open.
    #[must_use]
    pub fn new(clock: Arc<Clock>) -> Self {
        Self {
            shared: Arc::new(Shared { deadline: AtomicU64::new(0), in_doubt: AtomicBool::new(false) }),
            clock,
        }
    }

    /// Opens the gate, or keeps it open, until `deadline`. Does nothing once it is closed, and never
    /// moves the deadline back.
    pub fn open_until(&self, deadline: Instant) {
        let micros = deadline.as_micros().min(CLOSED - 1);
        let _ = self.shared.deadline.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            (old != CLOSED && old < micros).then_some(micros)
        });
    }

    /// Shuts the gate while the lease is in doubt, and ends the doubt (D-1).
    pub fn set_doubt(&self, in_doubt: bool) {
        self.shared.in_doubt.store(in_doubt, Ordering::Release);
    }

    /// Closes the gate for ever.
    pub fn close(&self) {
        self.shared.deadline.store(CLOSED, Ordering::Release);
    }

    /// Whether bytes may leave now. Also false for ever once the deadline was seen to be over.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let deadline = self.shared.deadline.load(Ordering::Acquire);
        if deadline == CLOSED || deadline == 0 || self.shared.in_doubt.load(Ordering::Acquire) {
            return false;
        }
        self.clock.now().instant < Instant::from_micros(deadline)
    }

    /// Whether it was closed for ever.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.deadline.load(Ordering::Acquire) == CLOSED
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
