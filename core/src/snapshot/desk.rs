//! What the parts of a keeper have in common: numbers for requests, chance, and the way out.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::io::{KeeperEvent, KeeperOutput, KeeperTask};
use crate::backoff::Backoff;
use crate::ids::RequestId;
use crate::log::ask::Ask;
use crate::rng::Rng;
use crate::time::Instant;

/// Between tries: nothing about snapshots is urgent, and whatever is in trouble is not helped by haste.
pub(super) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// A short request without an answer is sent anew after this.
const CUT_OFF: Duration = Duration::from_secs(30);
/// So much is added for each byte of a file: a transfer slower than 100 kB/s is taken for dead.
const SLOWEST_BYTES_PER_SECOND: u64 = 100_000;

/// A short request, to be sent at that time.
pub(super) const fn short_ask(at: Instant) -> Ask {
    Ask::with(at, CUT_OFF, BACKOFF)
}

/// The transfer of a file of that size. There is no fixed limit (D-11): it grows with the size.
pub(super) fn transfer_ask(at: Instant, size_bytes: u64) -> Ask {
    let transfer = Duration::from_secs(size_bytes / SLOWEST_BYTES_PER_SECOND);
    Ask::with(at, CUT_OFF.saturating_add(transfer), BACKOFF)
}

/// Shared by the parts of a keeper.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) next_request: RequestId,
    pub(super) rng: Rng,
    pub(super) outputs: VecDeque<KeeperOutput>,
}

impl Desk {
    pub(super) fn new(seed: u64) -> Self {
        Self { next_request: RequestId(1), rng: Rng::new(seed), outputs: VecDeque::new() }
    }

    pub(super) fn request(&mut self) -> RequestId {
        let request = self.next_request;
        self.next_request.0 += 1;
        request
    }

    pub(super) fn push(&mut self, output: KeeperOutput) {
        self.outputs.push_back(output);
    }

    pub(super) fn tell(&mut self, event: KeeperEvent) {
        self.push(KeeperOutput::Event(event));
    }

    /// It failed, and is asked again after a back-off.
    pub(super) fn again(
        &mut self,
        now: Instant,
        ask: &mut Ask,
        task: KeeperTask,
        retry_after_ms: Option<u64>,
    ) {
        ask.retry(now, retry_after_ms, &mut self.rng);
        self.tell(KeeperEvent::Retrying { task, denied: false });
    }

    /// The store denies it: somebody has to look, and then it goes on.
    pub(super) fn denied(&mut self, now: Instant, ask: &mut Ask, task: KeeperTask) {
        ask.retry(now, None, &mut self.rng);
        self.tell(KeeperEvent::Retrying { task, denied: true });
    }
}
