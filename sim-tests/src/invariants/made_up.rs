//! Made-up states for the tests of the checks themselves.

use dexzd_core::ids::{Epoch, Name, Position, ProcessId};
use dexzd_core::lease::{LeaseDuration, LeaseRecord, LeaseState, Nonce};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{Seen, Watcher};

/// Shows a story; the sentence of the first broken rule.
pub(super) fn tell(mut watcher: impl Watcher, story: &[(TrueTime, Seen<'_>)]) -> Result<(), String> {
    let mut last = 0;
    for (at, seen) in story {
        watcher.observe(*at, seen)?;
        last = *at;
    }
    watcher.finish(last)
}

/// A lease of 10 s.
pub(super) fn lease(process: u8, epoch: u64, state: LeaseState) -> LeaseRecord {
    let process_id = ProcessId(u128::from(process) + 1);
    LeaseRecord {
        node_id: Name::from("node"),
        epoch: Epoch(epoch),
        holder: process_id,
        state,
        duration: LeaseDuration::DEFAULT,
        nonce: Nonce { process_id, counter: 1, entropy: 0 },
        trimmed_below: Position(0),
        log_end: Position(0),
    }
}

/// A gate opening.
pub(super) fn open(process: u8, epoch: u64, until: TrueTime) -> Seen<'static> {
    Seen::GateOpen { process, epoch: Epoch(epoch), until }
}
