//! Made-up states for the tests of the checks themselves.

use dexzd_core::engine::{Change, Durability, Lineage, Method, Snapshot, Task};
use dexzd_core::ids::{Blob, Epoch, HandoutId, Name, Position, ProcessId, RequestId, RunId, StepExecutionId};
use dexzd_core::lease::{LeaseDuration, LeaseRecord, LeaseState, Nonce};
use dexzd_core::log::{Entry, EntryBody, LogEnd, Origin};
use dexzd_core::store::Version;
use dexzd_core::time::Timestamp;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{Seen, Watcher};

/// Shows a story; the sentence of the first broken rule.
pub(crate) fn tell(mut watcher: impl Watcher, story: &[(TrueTime, Seen<'_>)]) -> Result<(), String> {
    let mut last = 0;
    for (at, seen) in story {
        watcher.observe(*at, seen)?;
        last = *at;
    }
    watcher.finish(last)
}

/// A lease of 10 s.
pub(crate) fn lease(process: u8, epoch: u64, state: LeaseState) -> LeaseRecord {
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
pub(crate) fn open(process: u8, epoch: u64, until: TrueTime) -> Seen<'static> {
    Seen::GateOpen { process, epoch: Epoch(epoch), until }
}

/// Process 0 counts on epoch 7.
pub(crate) fn prolonged(nonce: u64, instant_us: u64, until_us: u64) -> Seen<'static> {
    Seen::Prolonged { process: 0, epoch: Epoch(7), nonce, instant_us, until_us }
}

/// Process 0, a hot standby that is not hot, takes the lease.
pub(crate) fn takeover(epoch: u64, request: u64, base: Option<&Version>, instant_us: u64) -> Seen<'_> {
    Seen::TakeoverSent {
        process: 0,
        epoch: Epoch(epoch),
        request: RequestId(request),
        base,
        is_hot_mode: true,
        is_hot: false,
        instant_us,
    }
}

/// A log, entry by entry.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) entries: Vec<(Position, Blob)>,
    pub(crate) ends: Vec<LogEnd>,
}

impl Log {
    pub(crate) fn fence(&mut self, process: u8, epoch: u64) {
        self.push(process, epoch, EntryBody::Fence { lease_duration_ms: 10_000 });
    }

    pub(crate) fn changes(&mut self, process: u8, epoch: u64, changes: &[Change]) {
        self.push(process, epoch, EntryBody::Changes(changes.to_vec()));
    }

    fn push(&mut self, process: u8, epoch: u64, body: EntryBody) {
        let end = self.ends.last().copied().unwrap_or_default();
        let entry = Entry {
            origin: Origin {
                node_id: Name::from("node"),
                process_id: ProcessId(u128::from(process)),
                epoch: Epoch(epoch),
            },
            position: end.position.next(),
            nonce: 7,
            time: Timestamp::ZERO,
            previous: end.chain,
            body,
        };
        let (bytes, chain) = entry.encode();
        self.entries.push((entry.position, bytes));
        self.ends.push(LogEnd { position: entry.position, chain });
    }
}

/// A SYNC task of the only Step of one Flow.
pub(crate) fn task(attempt: u32, epoch: u64, counter: u64) -> Task {
    Task {
        handout: HandoutId { epoch: Epoch(epoch), counter },
        flow_type: Name::from("t"),
        flow_id: Name::from("f"),
        run_id: RunId(1),
        step: StepExecutionId { step_type: Name::from("only"), number: 1 },
        method: Method::Execute,
        attempt,
        deadline: Timestamp::ZERO,
        heartbeat_timeout_ms: None,
        input: None,
        snapshot: Snapshot::default(),
        locals: Vec::new(),
        conditions: Vec::new(),
        recovery: None,
        checkpoint: None,
        durability: Durability::Sync,
        lineage: Lineage::FlowStart,
        wait_for_failed: false,
        flow_start_time: Timestamp::ZERO,
    }
}
