//! What the simulated Flows must come to: a small reference, written from concepts.md and the shapes, not
//! from the engine. Each message, timer and decision counts exactly once.
//!
//! Not checked: Flows that a client stopped, beyond that they are closed in a way that the stop allows.

use std::collections::BTreeMap;

use dexzd_core::engine::{EventKind, FlowStatus, StopKind};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::product::Shape;
use dexzd_io_sim::product::flows::{FAN_WIDTH, REMINDERS, TAKERS, number_in};
use dexzd_io_sim::watch::{Audit, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct FlowResults;

impl Watcher for FlowResults {
    fn rule(&self) -> &'static str {
        "the Flows' results"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Audit(audit) => check(audit),
            _ => Ok(()),
        }
    }
}

fn check(audit: &Audit) -> Result<(), String> {
    let Some(state) = &audit.state else {
        return Ok(());
    };
    let flow_id = &audit.flow_id;
    let stop = audit.history.iter().find_map(|event| match &event.kind {
        EventKind::StopRequested { kind, .. } => Some(*kind),
        _ => None,
    });
    let status = state.summary.status;
    let allowed = match stop {
        None => vec![FlowStatus::Completed],
        Some(StopKind::Cancel) => vec![FlowStatus::Canceled],
        Some(StopKind::Fail) => vec![FlowStatus::Failed],
        Some(StopKind::Terminate) => vec![FlowStatus::Terminated],
    };
    if status != FlowStatus::Running && !allowed.contains(&status) {
        return Err(format!("{flow_id} closed {status:?}; a stop of kind {stop:?} allows {allowed:?}"));
    }
    if status != FlowStatus::Completed {
        return Ok(());
    }
    let outputs: Vec<u32> = state.outputs.iter().map(|output| number_in(output.value.as_ref())).collect();
    let shape =
        Shape::of(&state.summary.flow_type).ok_or_else(|| format!("{flow_id} has an unknown type"))?;
    let mut executed: BTreeMap<String, u32> = BTreeMap::new();
    for event in &audit.history {
        if let EventKind::ExecuteCompleted { context, .. } = &event.kind {
            *executed.entry(context.step.step_type.to_string()).or_default() += 1;
        }
    }
    let count = |step: &str| executed.get(step).copied().unwrap_or(0);
    let right = match shape {
        Shape::ChainSync | Shape::ChainAsync | Shape::ChainMixed => {
            outputs.len() == 1 && ["first", "second", "third"].iter().all(|step| count(step) == 1)
        }
        Shape::Fan => {
            outputs == [FAN_WIDTH * (FAN_WIDTH + 1) / 2]
                && count("split") == 1
                && count("leaf") == FAN_WIDTH
                && count("gather") == 1
        }
        Shape::Order => outputs.len() == 1 && outputs[0] <= 1 && count("order") == 1,
        Shape::Reminder => outputs.len() == 1 && count("remind") == REMINDERS,
        Shape::Takers => {
            let mut sorted = outputs.clone();
            sorted.sort_unstable();
            sorted == (1..=TAKERS).collect::<Vec<_>>() && count("taker") == TAKERS
        }
        Shape::Flaky => outputs.len() == 1 && count("flaky") + count("repair") == 1,
        Shape::Single => outputs.len() == 1 && count("single") + count("repair") == 1,
        Shape::Long => outputs.len() == 1 && count("long") == 1,
    };
    if right { Ok(()) } else { Err(format!("{flow_id} completed with {outputs:?} after {executed:?}")) }
}
