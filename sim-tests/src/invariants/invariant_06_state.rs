//! Invariant 6: at every position that a process applies, active or standby, its keys and values are exactly
//! what the log says up to there, whatever crashed in between; nothing applied is ever taken back, but by a
//! crash or with the whole local store.
//!
//! Every application is compared by a digest of all records; a whole store, key by key, when an epoch begins
//! to serve, after a bootstrap, and at the end of the run.
//!
//! Not checked: local-only records, which the simulated store does not have.

use std::collections::BTreeMap;

use dexzd_core::ids::Position;
use dexzd_core::log::{Entry, EntryBody, LogEnd};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::local_store::{Records, apply_to};
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Default, Debug)]
pub struct StateIsTheLog {
    /// Where the log stands after each entry, and the digest of everything up to there.
    ends: BTreeMap<Position, (LogEnd, u64)>,
    /// What each entry changes.
    changes: BTreeMap<Position, Vec<dexzd_core::engine::Change>>,
    /// Everything, at the end of the log.
    records: Records,
    digest: u64,
    /// What each process has applied.
    applied: BTreeMap<ProcessNumber, Position>,
}

impl StateIsTheLog {
    fn replay(&self, up_to: Position) -> Records {
        let mut records = Records::new();
        for (_, changes) in self.changes.range(..=up_to) {
            apply_to(&mut records, &mut 0, changes);
        }
        records
    }

    fn durable(&mut self, position: Position, entry: &[u8]) {
        if let Ok((entry, chain)) = Entry::decode(entry, NODE) {
            let changes = match entry.body {
                EntryBody::Changes(changes) => changes,
                EntryBody::Fence { .. } => Vec::new(),
            };
            apply_to(&mut self.records, &mut self.digest, &changes);
            self.ends.insert(position, (LogEnd { position, chain }, self.digest));
            self.changes.insert(position, changes);
        }
    }

    fn must_be_in_the_log(
        &self,
        process: ProcessNumber,
        end: LogEnd,
        digest: Option<u64>,
    ) -> Result<(), String> {
        let expected = match end.position {
            Position(0) => Some((LogEnd::default(), 0)),
            position => self.ends.get(&position).copied(),
        };
        match expected {
            Some((found, _)) if found != end => {}
            Some((_, expected)) if digest.is_some_and(|digest| digest != expected) => {
                return Err(format!(
                    "p{process} has other keys and values at {} than the log says",
                    end.position
                ));
            }
            Some(_) => return Ok(()),
            None => {}
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
            Seen::EntryDurable { position, entry } => self.durable(*position, entry),
            Seen::Applied { process, end, digest, .. } => {
                self.must_be_in_the_log(*process, *end, Some(*digest))?;
                let before = self.applied.insert(*process, end.position);
                if before.is_some_and(|before| before >= end.position) {
                    return Err(format!("p{process} applied {} a second time", end.position));
                }
            }
            Seen::LocalEnd { process, end } => {
                self.must_be_in_the_log(*process, *end, None)?;
                self.applied.insert(*process, end.position);
            }
            Seen::Died { process, .. } | Seen::Discarded { process } => {
                self.applied.remove(process);
            }
            Seen::LocalState { process, end, records } => {
                self.must_be_in_the_log(*process, *end, None)?;
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
                self.applied.insert(*process, end.position);
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
        let applied = Seen::Applied { process: 0, end, changes: &[], digest: 0 };
        let foreign = Err("p0 applied an entry at 2 that is not in the log".to_owned());
        assert_eq!(tell(StateIsTheLog::default(), &[(0, applied)]), foreign);
    }
    #[test]
    fn other_records_and_a_second_application_are_seen() {
        let log = log();
        let mut story: Vec<_> = log
            .entries
            .iter()
            .map(|(position, entry)| (0, Seen::EntryDurable { position: *position, entry }))
            .collect();
        let applied =
            |at: usize, digest| Seen::Applied { process: 0, end: log.ends[at], changes: &[], digest };
        story.push((1, applied(0, 0)));
        story.push((2, applied(0, 0)));
        let twice = Err("p0 applied 1 a second time".to_owned());
        assert_eq!(tell(StateIsTheLog::default(), &story), twice);
        story.pop();
        story.push((2, applied(1, 7)));
        let other = Err("p0 has other keys and values at 2 than the log says".to_owned());
        assert_eq!(tell(StateIsTheLog::default(), &story), other);
    }
}
