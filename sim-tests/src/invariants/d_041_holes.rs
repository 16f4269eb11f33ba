//! D-41 and D-30 (review 4.1, 4.8, 4.9): whoever finds a hole in the log writes nothing; and a hole is found only where an entry
//! is missing that nobody was allowed to delete. What was trimmed is no hole, and one snapshot that cannot be
//! read leaves everything that the one before it needs.
//!
//! Not checked: what a frozen writer sends into a hole that was made meanwhile (no rule covers that); why a
//! process finds a hole where reads are damaged on their way, for then no snapshot may be readable.

use std::collections::BTreeMap;

use dexzd_core::ids::{Blob, Position};
use dexzd_core::log::EntryKind;
use dexzd_core::stop::StopReason;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{Seen, Watcher};

use super::NODE;

/// See the module.
#[derive(Debug)]
pub struct HolesAreLeftAlone {
    /// Nothing that is read is damaged on its way.
    reads_are_whole: bool,
    /// What somebody's hand deleted, and when.
    lost: BTreeMap<Position, (TrueTime, Blob)>,
    lease_was_lost: bool,
}

impl HolesAreLeftAlone {
    /// For a store whose reads are whole, or are not.
    #[must_use]
    pub const fn new(reads_are_whole: bool) -> Self {
        Self { reads_are_whole, lost: BTreeMap::new(), lease_was_lost: false }
    }
}

impl Watcher for HolesAreLeftAlone {
    fn rule(&self) -> &'static str {
        "D-41 (holes)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::EntryLost { position, entry } => {
                self.lost.insert(*position, (at, (*entry).clone()));
            }
            Seen::HoleFilled { process, position, entry, sent_at } => {
                if let Some((lost_at, before)) = self.lost.get(position)
                    && sent_at > lost_at
                    && before != *entry
                    && EntryKind::of(entry, NODE) == EntryKind::Fence
                {
                    return Err(format!("p{process} wrote its fence into the hole at {position}"));
                }
            }
            // Its bound may be gone with it (D-49).
            Seen::LeaseLost => self.lease_was_lost = true,
            Seen::Died { process, reason: Some(StopReason::LogHole) }
                if self.reads_are_whole && self.lost.is_empty() && !self.lease_was_lost =>
            {
                return Err(format!("p{process} stops because of a hole, and nobody made one"));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::HolesAreLeftAlone;
    use crate::invariants::made_up::{Log, tell};
    use dexzd_core::ids::{Blob, Position};
    use dexzd_core::stop::StopReason;
    use dexzd_io_sim::watch::Seen;

    const STOPS: Seen<'static> = Seen::Died { process: 0, reason: Some(StopReason::LogHole) };

    fn log() -> Log {
        let mut log = Log::default();
        log.fence(1, 1);
        log.changes(1, 1, &[]);
        log.fence(2, 2);
        log
    }

    fn lost(log: &Log) -> Seen<'_> {
        Seen::EntryLost { position: Position(2), entry: &log.entries[1].1 }
    }

    fn filled(entry: &Blob, sent_at: u64) -> Seen<'_> {
        Seen::HoleFilled { process: 0, position: Position(2), entry, sent_at }
    }

    #[test]
    fn d_041_a_hole_stops_a_start_and_takes_back_what_stood_there() {
        let log = log();
        let again = filled(&log.entries[1].1, 9);
        assert_eq!(tell(HolesAreLeftAlone::new(true), &[(5, lost(&log)), (8, STOPS), (10, again)]), Ok(()));
    }

    #[test]
    fn d_041_a_hole_that_nobody_made_is_seen() {
        let sentence = "p0 stops because of a hole, and nobody made one".to_owned();
        assert_eq!(tell(HolesAreLeftAlone::new(true), &[(8, STOPS)]), Err(sentence));
    }

    #[test]
    fn d_041_a_fence_in_a_hole_is_seen() {
        let log = log();
        let story = |sent_at| {
            let fence = filled(&log.entries[2].1, sent_at);
            tell(HolesAreLeftAlone::new(true), &[(5, lost(&log)), (10, fence)])
        };
        assert_eq!(story(5), Ok(()), "it was under way when the hole was made");
        assert_eq!(story(6), Err("p0 wrote its fence into the hole at 2".to_owned()));
    }
}
