//! Invariant 7, its second half: once faults have stopped, every Flow comes to its end, and no open Step
//! is anything but queued, running, waiting or backing off (lesson G10).
//!
//! Not checked: how fast. The simulated Flows all end within the run's own bound.

use dexzd_core::engine::{FlowStatus, Phase, StepState};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct NothingIsStranded;

impl Watcher for NothingIsStranded {
    fn rule(&self) -> &'static str {
        "invariant 7 (nothing stranded)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Audit(audit) = seen else {
            return Ok(());
        };
        let Some(state) = &audit.state else {
            return Err(format!("{} cannot be found", audit.flow_id));
        };
        if state.summary.status == FlowStatus::Running {
            let open: Vec<String> = state.steps.iter().map(describe).collect();
            return Err(format!("{} is still open; its Steps: {}", audit.flow_id, open.join(", ")));
        }
        if let Some(step) = state.steps.first() {
            return Err(format!("{} is closed, and {} is still open", audit.flow_id, describe(step)));
        }
        Ok(())
    }
}

fn describe(step: &StepState) -> String {
    let phase = match step.phase {
        Phase::Queued => "queued",
        Phase::Running => "running",
        Phase::BackingOff => "backing off",
        Phase::Waiting => "waiting",
        Phase::Delayed => "delayed",
    };
    format!("{} {phase} (attempt {})", step.step, step.attempt)
}

#[cfg(test)]
mod tests {
    use super::NothingIsStranded;
    use crate::invariants::made_up::tell;
    use dexzd_io_sim::watch::{Audit, Seen};

    #[test]
    fn a_flow_that_cannot_be_found_is_seen() {
        let audit = Audit { flow_id: "f".to_owned(), ..Audit::default() };
        let sentence = "f cannot be found".to_owned();
        assert_eq!(tell(NothingIsStranded, &[(0, Seen::Audit(&audit))]), Err(sentence));
    }
}
