//! What the log and the snapshots say when the lease is missing beside them (D-49).

use dexzd_core::ids::{Epoch, Position};
use dexzd_core::lease::Survey;
use dexzd_core::log::{Entry, EntryBody, EntryError, ListOutcome, ReadEnd};

use crate::log::LogStore;
use crate::snapshot::look_for_snapshots;
use crate::store::ObjectStore;

const RANGE_ENTRIES: u32 = 1_024;
const RANGE_BYTES: u64 = 4 << 20;

/// Why the log tells nothing.
pub(super) enum Blind {
    /// It cannot be read now: asking again may help.
    Now,
    /// It cannot be read by this node or this version, however often it is asked.
    ForGood {
        /// Where.
        position: Position,
        /// Why.
        error: EntryError,
    },
}

/// Reads the whole log, and lists the snapshots where there are any.
pub(super) fn look(
    log: &mut dyn LogStore,
    snapshots: Option<&dyn ObjectStore>,
    node_id: &str,
) -> Result<Survey, Blind> {
    let mut survey = Survey::default();
    if let Some(snapshots) = snapshots {
        let found = look_for_snapshots(snapshots, node_id).ok_or(Blind::Now)?;
        survey.anything = found.highest_epoch.is_some();
        survey.highest_epoch = found.highest_epoch.unwrap_or_default();
        survey.newest_manifest = found.newest_manifest.unwrap_or_default();
    }
    let mut from = first_after(log, Position(0))?;
    while let Some(position) = from {
        survey.anything = true;
        let (entries, then) = log.read(position, RANGE_ENTRIES, RANGE_BYTES);
        let mut next = position;
        for bytes in &entries {
            let (entry, _) =
                Entry::decode(bytes, node_id).map_err(|error| Blind::ForGood { position: next, error })?;
            survey.highest_epoch = Epoch(survey.highest_epoch.0.max(entry.origin.epoch.0));
            if let EntryBody::Fence { lease_duration_ms } = entry.body {
                survey.fence_duration_ms = Some(lease_duration_ms);
            }
            next = entry.position.next();
        }
        from = match then {
            ReadEnd::Full => Some(next),
            // Fences of trimmed epochs stand alone: there may be more behind a gap.
            ReadEnd::Missing => first_after(log, Position(next.0.saturating_sub(1)))?,
            ReadEnd::Transient { .. } | ReadEnd::Permanent | ReadEnd::LocalFailure => {
                return Err(Blind::Now);
            }
        };
    }
    Ok(survey)
}

fn first_after(log: &mut dyn LogStore, position: Position) -> Result<Option<Position>, Blind> {
    match log.first_after(position) {
        ListOutcome::First(found) => Ok(found),
        ListOutcome::Transient { .. } | ListOutcome::Permanent | ListOutcome::LocalFailure => Err(Blind::Now),
    }
}
