//! Writes down what watchers see of each process, for time lines and pages. It checks nothing.

use std::cell::RefCell;
use std::rc::Rc;

use dexzd_core::lease::LeaseState;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::story::Sight;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// What was seen, when, and of whom.
pub type Sights = Vec<(TrueTime, ProcessNumber, Sight)>;

/// See the module. Clones write into one list: one of them watches, the other is asked in the end.
#[derive(Clone, Default, Debug)]
pub struct Recorder {
    sights: Rc<RefCell<Sights>>,
}

impl Recorder {
    /// Everything seen so far.
    #[must_use]
    pub fn take(&self) -> Sights {
        self.sights.take()
    }
}

impl Watcher for Recorder {
    fn rule(&self) -> &'static str {
        "none: this only writes down"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        let sight = match seen {
            Seen::Started { process, .. } => Some((*process, Sight::Started)),
            Seen::Died { process, reason } => {
                Some((*process, Sight::Died(reason.as_ref().map(ToString::to_string))))
            }
            Seen::LeaseLanded { process, record } => {
                let held = record.state == LeaseState::Held;
                Some((*process, Sight::Lease { epoch: record.epoch.0, held }))
            }
            Seen::GateOpen { process, epoch, until } => {
                Some((*process, Sight::GateOpen { epoch: epoch.0, until: *until }))
            }
            Seen::GateShut { process, .. } => Some((*process, Sight::GateShut)),
            Seen::Fenced { process, epoch } => Some((*process, Sight::Fenced { epoch: epoch.0 })),
            _ => None,
        };
        if let Some((process, sight)) = sight {
            self.sights.borrow_mut().push((at, process, sight));
        }
        Ok(())
    }
}
