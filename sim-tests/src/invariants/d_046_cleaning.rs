//! D-46, iii (review 4.10): an object of a snapshot is deleted only after a lease write of the same process has landed that
//! was sent after the list which doomed the object: only that proves that no later epoch had begun to use what the
//! list shows.
//!
//! Judged when the deletion is ordered: then the newest list of that keeper is the one that doomed the objects. What the shell
//! still sends of it may come later.
//!
//! Not checked: what a list shows.

use std::collections::BTreeMap;

use dexzd_core::lease::Nonce;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct CleansWithProof {
    processes: BTreeMap<ProcessNumber, Keeps>,
}

#[derive(Default, Debug)]
struct Keeps {
    /// Lease writes under way, and when each left.
    sent: BTreeMap<Nonce, TrueTime>,
    /// When the newest of those left that have landed.
    proven_at: Option<TrueTime>,
    /// When it asked for its newest list.
    listed_at: Option<TrueTime>,
}

impl Watcher for CleansWithProof {
    fn rule(&self) -> &'static str {
        "D-46 (cleaning)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::LeaseSent { process, nonce } => {
                self.processes.entry(*process).or_default().sent.insert(*nonce, at);
            }
            Seen::LeaseLanded { process, record } => {
                let it = self.processes.entry(*process).or_default();
                let sent_at = it.sent.remove(&record.nonce);
                it.proven_at = it.proven_at.max(sent_at);
            }
            Seen::SnapshotsAsked { process } => {
                self.processes.entry(*process).or_default().listed_at = Some(at);
            }
            Seen::SnapshotDeletion { process, objects } => {
                let it = self.processes.entry(*process).or_default();
                if it.proven_at < it.listed_at {
                    return Err(format!(
                        "p{process} deletes {objects} objects, and no lease write that it sent after its list has landed"
                    ));
                }
            }
            Seen::Died { process, .. } => {
                self.processes.remove(process);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::CleansWithProof;
    use crate::invariants::made_up::{lease, tell};
    use dexzd_core::lease::LeaseState;
    use dexzd_io_sim::watch::Seen;

    fn deleted_after(sent_at: u64, landed: bool) -> Result<(), String> {
        let record = lease(0, 7, LeaseState::Held);
        let mut story = vec![
            (5, Seen::SnapshotsAsked { process: 0 }),
            (sent_at, Seen::LeaseSent { process: 0, nonce: record.nonce }),
        ];
        if landed {
            story.push((7, Seen::LeaseLanded { process: 0, record: &record }));
        }
        story.push((8, Seen::SnapshotDeletion { process: 0, objects: 3 }));
        story.sort_by_key(|(at, _)| *at);
        tell(CleansWithProof::default(), &story)
    }

    #[test]
    fn d_046_a_lease_write_sent_after_the_list_and_landed_is_proof() {
        assert_eq!(deleted_after(6, true), Ok(()));
    }

    #[test]
    fn d_046_an_older_one_and_one_that_has_not_landed_are_none() {
        let sentence =
            "p0 deletes 3 objects, and no lease write that it sent after its list has landed".to_owned();
        assert_eq!(deleted_after(4, true), Err(sentence.clone()));
        assert_eq!(deleted_after(6, false), Err(sentence));
    }
}
