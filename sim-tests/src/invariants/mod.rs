//! The invariants of requirements.md, section 3: one file each, which says what it does not check.

mod checkpoints;
mod d_001_doubt;
mod d_001_period;
mod d_008_adoption;
mod d_017_drain;
mod d_023_unsent;
mod d_029_leaving;
mod d_039_time;
mod d_041_holes;
mod d_042_fence;
mod d_046_cleaning;
mod d_048_results;
mod epochs_rise;
mod ha_025_cut_off;
mod ha_058_turns;
mod ha_099_hold_off;
mod invariant_01_log;
mod invariant_02_durability;
mod invariant_03_gates;
mod invariant_04_calls;
mod invariant_04_flow;
mod invariant_04_linearizable;
mod invariant_04_search;
mod invariant_05_work;
mod invariant_06_state;
mod invariant_07_gap;
mod invariant_07_liveness;
mod invariant_07_stranded;
mod invariant_08_calls;
mod invariant_08_release;
mod invariant_09_health;
mod invariant_09_instants;
mod invariant_10_traffic;
mod reasons;
mod reference_flow;

pub use checkpoints::CheckpointsStay;
pub use d_001_doubt::DoubtEndsByARenewal;
pub use d_001_period::PeriodCountsFromTheSend;
pub use d_008_adoption::AdoptsWhatLanded;
pub use d_017_drain::DrainHandsNothingOut;
pub use d_023_unsent::UnsentIsFree;
pub use d_029_leaving::LeavesNothingBehind;
pub use d_039_time::TimeGoesOn;
pub use d_041_holes::HolesAreLeftAlone;
pub use d_042_fence::FenceIsConfirmed;
pub use d_046_cleaning::CleansWithProof;
pub use d_048_results::AcceptedResultsStay;
pub use epochs_rise::EpochsRise;
pub use ha_025_cut_off::CutOffIsFinal;
pub use ha_058_turns::TakesInTurn;
pub use ha_099_hold_off::HoldsOff;
pub use invariant_01_log::LogIsWhole;
pub use invariant_02_durability::AcknowledgedStays;
pub use invariant_03_gates::Gates;
pub use invariant_04_linearizable::Linearizable;
pub use invariant_05_work::WorkIsCounted;
pub use invariant_06_state::StateIsTheLog;
pub use invariant_07_gap::GapIsBounded;
pub use invariant_07_liveness::SomebodyServes;
pub use invariant_07_stranded::NothingIsStranded;
pub use invariant_08_calls::StepDowns;
pub use invariant_08_release::ReleasedIsOver;
pub use invariant_09_health::HealthIsRight;
pub use invariant_09_instants::HealthAgrees;
pub use invariant_10_traffic::LeaseTraffic;
pub use reasons::LostForAReason;
pub use reference_flow::AsTheConceptsSay;

/// The node of every simulated world.
const NODE: &str = "node";

#[cfg(test)]
pub(crate) mod made_up;
