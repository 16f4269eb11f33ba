//! The gate of one epoch, where both planes and the transport can see it (D-47).

use std::sync::{Arc, Mutex, PoisonError};

use dexzd_core::gate::{Gate as CoreGate, GateOrder, GateView};
use dexzd_core::time::Instant;
use tokio::sync::Notify;

use crate::clock::Clock;

/// Whether bytes may leave, asked with a clock read at that moment. A clone is the same gate.
#[derive(Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

struct Shared {
    gate: Mutex<CoreGate>,
    clock: Arc<Clock>,
    /// An order came.
    ordered: Notify,
    /// A look found doubt before `node` did: it must look too.
    on_doubt: Box<dyn Fn(Instant) + Send + Sync>,
}

impl Gate {
    /// A gate that was never open. Looks that find it in a doubt of its own call `on_doubt` with the instant of
    /// the look that found the jump.
    #[must_use]
    pub fn new(clock: Arc<Clock>, on_doubt: impl Fn(Instant) + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                gate: Mutex::new(CoreGate::default()),
                clock,
                ordered: Notify::new(),
                on_doubt: Box::new(on_doubt),
            }),
        }
    }

    /// `node` orders.
    pub fn order(&self, order: GateOrder) {
        self.lock().order(order);
        self.shared.ordered.notify_waiters();
    }

    /// Whether something may leave now, by a clock read now.
    #[must_use]
    pub fn look(&self) -> GateView {
        let (view, jumped_at) = {
            let mut gate = self.lock();
            // Read under the lock: looks reach the gate in the order of their clock readings.
            (gate.look(self.shared.clock.now()), gate.jumped_at())
        };
        if let (GateView::Doubt, Some(jumped_at)) = (view, jumped_at) {
            (self.shared.on_doubt)(jumped_at);
        }
        view
    }

    /// Waits while the lease is in doubt (D-1), then says whether the answer may leave.
    pub async fn pass(&self) -> bool {
        loop {
            // Registered before the look, so that no order between the two is missed.
            let ordered = self.shared.ordered.notified();
            match self.look() {
                GateView::Open => return true,
                GateView::Shut => return false,
                GateView::Doubt => ordered.await,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CoreGate> {
        self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
