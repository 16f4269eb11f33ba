//! Invariant 6: the applied state is exactly what the log says up to its position, whatever crashed in
//! between; nothing applied is ever taken back.
//!
//! Not checked: standbys that follow the log, which come later.

use std::collections::BTreeMap;

use dexzd_core::engine::Change;
use dexzd_core::ids::Position;
use dexzd_core::log::{Entry, EntryBody, LogEnd};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::local_store::{Records, apply_to};
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct StateIsTheLog {
    log: BTreeMap<Position, (LogEnd, Vec<Change>)>,
}

impl StateIsTheLog {
    fn replay(&self, up_to: Position) -> Records {
        let mut records = Records::new();
        for (_, changes) in self.log.range(..=up_to).map(|(_, entry)| entry) {
            apply_to(&mut records, changes);
        }
        records
    }

    fn must_be_in_the_log(&self, process: ProcessNumber, end: LogEnd) -> Result<(), String> {
        if end.position == Position(0) || self.log.get(&end.position).is_some_and(|(found, _)| *found == end)
        {
            return Ok(());
        }
        Err(format!("p{process} applied an entry at {} that is not in the log", end.position))
    }
}

impl Watcher for StateIsTheLog {
    fn rule(&self) -> &'static str {
        "invariant 6 (state)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EntryDurable { position, entry } => {
                if let Ok((entry, chain)) = Entry::decode(entry, NODE) {
                    let changes = match entry.body {
                        EntryBody::Changes(changes) => changes,
                        EntryBody::Fence { .. } => Vec::new(),
                    };
                    self.log.insert(*position, (LogEnd { position: *position, chain }, changes));
                }
            }
            Seen::Applied { process, end, .. } => self.must_be_in_the_log(*process, *end)?,
            Seen::LocalState { process, end, records } => {
                self.must_be_in_the_log(*process, *end)?;
                let expected = self.replay(end.position);
                if expected != **records {
                    let differs = expected
                        .iter()
                        .find(|(key, value)| records.get(*key) != Some(*value))
                        .map(|(key, _)| key)
                        .or_else(|| records.keys().find(|key| !expected.contains_key(*key)));
                    return Err(format!(
                        "p{process} at {}: the key {:?} is not what the log says",
                        end.position,
                        differs.map(|key| String::from_utf8_lossy(key).into_owned())
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::StateIsTheLog;
    use crate::invariants::made_up::{Log, tell};
    use dexzd_core::engine::Change;
    use dexzd_io_sim::local_store::Records;
    use dexzd_io_sim::watch::Seen;

    fn log() -> Log {
        let mut log = Log::default();
        log.fence(1, 1);
        log.changes(1, 1, &[Change { key: b"k".to_vec(), value: Some(b"v".to_vec()) }]);
        log
    }

    fn story<'a>(log: &'a Log, records: &'a Records, at: usize) -> Vec<(u64, Seen<'a>)> {
        let mut story: Vec<_> = log
            .entries
            .iter()
            .map(|(position, entry)| (0, Seen::EntryDurable { position: *position, entry }))
            .collect();
        story.push((1, Seen::LocalState { process: 0, end: log.ends[at], records }));
        story
    }

    #[test]
    fn the_replayed_state_is_fine() {
        let log = log();
        let records = Records::from([(b"k".to_vec(), b"v".to_vec())]);
        assert_eq!(tell(StateIsTheLog::default(), &story(&log, &records, 1)), Ok(()));
        assert_eq!(tell(StateIsTheLog::default(), &story(&log, &Records::new(), 0)), Ok(()));
    }

    #[test]
    fn another_state_and_another_log_are_seen() {
        let log = log();
        let lost = Err("p0 at 2: the key Some(\"k\") is not what the log says".to_owned());
        assert_eq!(tell(StateIsTheLog::default(), &story(&log, &Records::new(), 1)), lost);
        let mut end = log.ends[1];
        end.chain.0[0] ^= 1;
        let applied = Seen::Applied { process: 0, end, changes: &[] };
        let foreign = Err("p0 applied an entry at 2 that is not in the log".to_owned());
        assert_eq!(tell(StateIsTheLog::default(), &[(0, applied)]), foreign);
    }
}
