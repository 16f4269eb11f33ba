//! D-48: a SYNC result whose Worker heard that it counted is in every later state: whatever crashes, no other
//! hand-out completes that method call.
//!
//! Not checked: results of ASYNC calls, which count in memory first; failures.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::engine::{AttributeValue, Durability, Input, Method, WorkerFrame};
use dexzd_core::ids::{HandoutId, Name, RunId, StepExecutionId};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::product::flows;
use dexzd_io_sim::watch::{Audit, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct AcceptedResultsStay {
    calls: BTreeMap<HandoutId, (RunId, StepExecutionId, Method)>,
    finished: BTreeSet<HandoutId>,
    accepted: BTreeSet<HandoutId>,
}

impl Watcher for AcceptedResultsStay {
    fn rule(&self) -> &'static str {
        "D-48 (accepted results stay)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::TaskMade { task, .. } if task.durability == Durability::Sync => {
                self.calls.insert(task.handout, (task.run_id, task.step.clone(), task.method));
            }
            Seen::EngineTold {
                input:
                    Input::Frame {
                        frame:
                            WorkerFrame::WaitForDone { handout, .. } | WorkerFrame::ExecuteDone { handout, .. },
                        ..
                    },
                ..
            } => {
                self.finished.insert(*handout);
            }
            Seen::Settled { handout, accepted: true, .. } if self.finished.contains(handout) => {
                self.accepted.insert(*handout);
            }
            Seen::Audit(audit) => self.audit(audit)?,
            _ => {}
        }
        Ok(())
    }
}

impl AcceptedResultsStay {
    fn audit(&self, audit: &Audit) -> Result<(), String> {
        let Some(state) = &audit.state else {
            return Ok(());
        };
        for handout in &self.accepted {
            let Some((run_id, step, method)) = self.calls.get(handout) else {
                continue;
            };
            if *run_id != state.summary.run_id {
                continue;
            }
            let key = flows::mark_of(step, *method);
            let mark = state.attributes.iter().find(|attribute| attribute.key == key).map(|mark| &mark.value);
            let expected = AttributeValue::String(Name::new(&flows::handout_text(*handout)));
            if mark != Some(&expected) {
                return Err(format!(
                    "a Worker heard that {expected:?} completed {method:?} of {} {step}, and it was {mark:?}",
                    audit.flow_id
                ));
            }
        }
        Ok(())
    }
}
