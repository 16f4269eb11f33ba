//! Invariant 1: the log is contiguous and chained, epochs never go down, all entries of an epoch are by
//! one process, the first of them its fence. Of what stands in the log only entries below the bound that a
//! lease write carried are ever deleted, and never a fence (D-30).
//!
//! Not checked: what somebody deletes by hand.

use dexzd_core::ids::{Blob, Epoch, Position, ProcessId};
use dexzd_core::log::{Entry, EntryBody, EntryKind, LogEnd};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct LogIsWhole {
    end: LogEnd,
    writer: Option<(Epoch, ProcessId)>,
    /// The highest bound that ever stood in the lease.
    trimmed_below: Position,
}

impl LogIsWhole {
    fn must_be_trimmed(&self, process: u8, position: Position, entry: &Blob) -> Result<(), String> {
        if position >= self.trimmed_below {
            return Err(format!(
                "p{process} deleted the entry at {position}; the lease says {}",
                self.trimmed_below
            ));
        }
        match EntryKind::of(entry, NODE) {
            EntryKind::Fence => Err(format!("p{process} deleted the fence at {position}")),
            EntryKind::Changes => Ok(()),
            EntryKind::Unreadable => Err(format!("p{process} deleted what it could not read at {position}")),
        }
    }
}

impl Watcher for LogIsWhole {
    fn rule(&self) -> &'static str {
        "invariant 1 (log)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        let (position, entry) = match seen {
            Seen::EntryDurable { position, entry } => (position, entry),
            Seen::LeaseLanded { record, .. } => {
                self.trimmed_below = self.trimmed_below.max(record.trimmed_below);
                return Ok(());
            }
            Seen::EntryDeleted { process, position, entry } => {
                return self.must_be_trimmed(*process, *position, entry);
            }
            _ => return Ok(()),
        };
        let (entry, chain) = Entry::decode(entry, NODE)
            .map_err(|error| format!("the entry at {position} cannot be read: {error:?}"))?;
        if entry.position != *position || entry.follows(&self.end).is_err() {
            return Err(format!("the entry at {position} does not follow {}", self.end.position));
        }
        let writer = (entry.origin.epoch, entry.origin.process_id);
        let is_fence = matches!(entry.body, EntryBody::Fence { .. });
        match self.writer {
            Some(last) if last.0 > writer.0 => {
                return Err(format!("epoch {} at {position} follows epoch {}", writer.0, last.0));
            }
            Some(last) if last.0 == writer.0 && last.1 != writer.1 => {
                return Err(format!("two processes wrote epoch {}, the second at {position}", writer.0));
            }
            Some(last) if last.0 == writer.0 && is_fence => {
                return Err(format!("epoch {} has a second fence at {position}", writer.0));
            }
            Some(last) if last.0 == writer.0 => {}
            Some(_) | None if !is_fence => {
                return Err(format!("epoch {} begins at {position} without a fence", writer.0));
            }
            Some(_) | None => {}
        }
        self.writer = Some(writer);
        self.end = LogEnd { position: Position(position.0), chain };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::LogIsWhole;
    use crate::invariants::made_up::{Log, lease, tell};
    use dexzd_core::ids::Position;
    use dexzd_core::lease::LeaseState;
    use dexzd_io_sim::watch::Seen;

    fn durable(log: &Log) -> Vec<(u64, Seen<'_>)> {
        log.entries
            .iter()
            .map(|(position, entry)| (0, Seen::EntryDurable { position: *position, entry }))
            .collect()
    }

    #[test]
    fn a_chain_of_epochs_is_fine() {
        let mut log = Log::default();
        log.fence(1, 1);
        log.changes(1, 1, &[]);
        log.fence(2, 4);
        assert_eq!(tell(LogIsWhole::default(), &durable(&log)), Ok(()));
    }

    #[test]
    fn a_missing_fence_a_second_writer_and_an_older_epoch_are_seen() {
        let mut log = Log::default();
        log.changes(1, 1, &[]);
        let missing = "epoch 1 begins at 1 without a fence".to_owned();
        assert_eq!(tell(LogIsWhole::default(), &durable(&log)), Err(missing));
        let mut log = Log::default();
        log.fence(1, 2);
        log.changes(2, 2, &[]);
        let second = "two processes wrote epoch 2, the second at 2".to_owned();
        assert_eq!(tell(LogIsWhole::default(), &durable(&log)), Err(second));
        let mut log = Log::default();
        log.fence(1, 2);
        log.fence(1, 1);
        let older = "epoch 1 at 2 follows epoch 2".to_owned();
        assert_eq!(tell(LogIsWhole::default(), &durable(&log)), Err(older));
    }

    #[test]
    fn a_gap_is_seen() {
        let mut log = Log::default();
        log.fence(1, 1);
        log.changes(1, 1, &[]);
        log.changes(1, 1, &[]);
        let mut story = durable(&log);
        story.remove(1);
        let gap = "the entry at 3 does not follow 1".to_owned();
        assert_eq!(tell(LogIsWhole::default(), &story), Err(gap));
    }
    #[test]
    fn d_030_only_what_lies_below_the_bound_goes_and_no_fence() {
        let mut log = Log::default();
        log.fence(1, 1);
        log.changes(1, 1, &[]);
        log.changes(1, 1, &[]);
        let mut record = lease(1, 1, LeaseState::Held);
        record.trimmed_below = Position(3);
        let landed = Seen::LeaseLanded { process: 1, record: &record };
        let deleted = |at: usize| {
            let (position, entry) = &log.entries[at];
            (2, Seen::EntryDeleted { process: 1, position: *position, entry })
        };
        let mut story = durable(&log);
        story.push((1, landed));
        story.push(deleted(1));
        assert_eq!(tell(LogIsWhole::default(), &story), Ok(()));
        story.pop();
        story.push(deleted(0));
        assert_eq!(tell(LogIsWhole::default(), &story), Err("p1 deleted the fence at 1".to_owned()));
        story.pop();
        story.push(deleted(2));
        let early = "p1 deleted the entry at 3; the lease says 3".to_owned();
        assert_eq!(tell(LogIsWhole::default(), &story), Err(early));
    }
}
