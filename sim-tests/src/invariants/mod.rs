//! The invariants of requirements.md, section 3: one file each, which says what it does not check.

mod epochs_rise;
mod invariant_03_gates;
mod invariant_07_liveness;
mod invariant_08_release;
mod invariant_10_traffic;

pub use epochs_rise::EpochsRise;
pub use invariant_03_gates::Gates;
pub use invariant_07_liveness::SomebodyServes;
pub use invariant_08_release::ReleasedIsOver;
pub use invariant_10_traffic::LeaseTraffic;

#[cfg(test)]
mod made_up;
