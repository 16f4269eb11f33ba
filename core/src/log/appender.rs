//! The appender: what was gathered becomes the next entry as soon as the previous write is done.
//!
//! Group commit by nature: no timer, no poll. While one entry is on its way to the store, everything
//! that is decided gathers into the next one.

#[cfg(feature = "exhaustive")]
mod names;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use minicbor::{Decode, Encode};

use super::entry::{Entry, EntryBody, LogEnd, Origin, changes_bytes};
use super::write::{EntryWrite, Progress, Request};
use crate::engine::Change;
use crate::ids::{Blob, Position, RequestId};
use crate::rng::Rng;
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};
use crate::time::{Instant, Timestamp};

/// An entry that several decisions share grows to this: 8 MiB (D-56).
pub const SHARED_ENTRY_BYTES: usize = 8 << 20;
/// A decision that is larger than a shared entry has one of its own, up to this: 32 MiB (D-56).
pub const DECISION_BYTES: usize = 32 << 20;

/// What the log's store answered.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum AppenderInput {
    /// To a write.
    #[n(0)]
    Written {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// How it ended.
        #[n(1)]
        outcome: WriteOutcome,
    },
    /// To a read-back.
    #[n(1)]
    Read {
        /// The request.
        #[n(0)]
        request: RequestId,
        /// What stands there.
        #[n(1)]
        outcome: ReadOutcome,
    },
}

/// What the appender wants.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum AppenderOutput {
    /// Create the entry at this position if it is absent, durably. One is in flight at a time (D-10).
    #[n(0)]
    Write {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Where.
        #[n(1)]
        position: Position,
        /// The encoded entry.
        #[n(2)]
        entry: Blob,
    },
    /// Read the entry at this position.
    #[n(1)]
    Read {
        /// Named by the answer.
        #[n(0)]
        request: RequestId,
        /// Where.
        #[n(1)]
        position: Position,
    },
    /// The entry is in the log: apply it to the local store, then report `Input::Applied`.
    #[n(2)]
    Apply {
        /// The position and checksum reached.
        #[n(0)]
        end: LogEnd,
        /// Its changes.
        #[n(1)]
        changes: Vec<Change>,
    },
    /// The process must stop.
    #[n(3)]
    Failed(#[n(0)] StopReason),
}

/// A decision is too large for any entry; nothing was gathered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// What it would take, in bytes. At most [`DECISION_BYTES`] are allowed.
    pub bytes: usize,
}

/// Writes one epoch's entries, one at a time (D-10).
///
/// ```text
/// gather(time, changes)          any number of times
/// while let Some(output) = poll_output(now) { … }
/// handle(now, input)             the store answered
/// handle_timeout(now)            poll_timeout() is reached
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Appender {
    origin: Origin,
    /// The last accepted entry.
    end: LogEnd,
    writing: Option<Writing>,
    /// What becomes the next entries, in order. Only the last one still grows.
    gathered: VecDeque<Gathered>,
    outputs: VecDeque<AppenderOutput>,
    next_request: RequestId,
    rng: Rng,
    failed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Writing {
    write: EntryWrite,
    /// The end of the log once it is accepted.
    end: LogEnd,
    changes: Vec<Change>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Gathered {
    time: Timestamp,
    changes: Vec<Change>,
    bytes: usize,
}

impl Appender {
    /// Continues the log behind `end`, which is this epoch's fence. The seed decides nonces and back-off.
    #[must_use]
    pub fn new(origin: Origin, end: LogEnd, seed: u64) -> Self {
        Self {
            origin,
            end,
            writing: None,
            gathered: VecDeque::new(),
            outputs: VecDeque::new(),
            next_request: RequestId(1),
            rng: Rng::new(seed),
            failed: false,
        }
    }

    /// Takes one decision's changes in and says at which position they will be durable. They are
    /// never divided between entries. No changes: the position of everything gathered before.
    ///
    /// # Errors
    ///
    /// [`TooLarge`], above 32 MiB (D-56).
    pub fn gather(&mut self, time: Timestamp, changes: Vec<Change>) -> Result<Position, TooLarge> {
        if changes.is_empty() {
            return Ok(self.gathered());
        }
        let bytes = changes_bytes(&changes);
        if bytes > DECISION_BYTES {
            return Err(TooLarge { bytes });
        }
        match self.gathered.back_mut() {
            Some(last) if last.bytes + bytes <= SHARED_ENTRY_BYTES => {
                last.time = last.time.max(time);
                last.bytes += bytes;
                last.changes.extend(changes);
            }
            Some(_) | None => self.gathered.push_back(Gathered { time, changes, bytes }),
        }
        Ok(self.gathered())
    }

    /// Everything up to here is in the log.
    #[must_use]
    pub const fn durable(&self) -> Position {
        self.end.position
    }

    /// The last accepted entry and its checksum.
    #[must_use]
    pub const fn end(&self) -> LogEnd {
        self.end
    }

    /// The highest position that anything gathered so far will have.
    #[must_use]
    pub fn gathered(&self) -> Position {
        let ahead = self.gathered.len() + usize::from(self.writing.is_some());
        Position(self.end.position.0 + u64::try_from(ahead).expect("a queue in memory is countable"))
    }

    /// What waits for the entry on its way, in bytes: a measure for back-pressure.
    #[must_use]
    pub fn gathered_bytes(&self) -> usize {
        self.gathered.iter().map(|gathered| gathered.bytes).sum()
    }

    /// Whether everything gathered is durable.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.writing.is_none() && self.gathered.is_empty()
    }

    /// The store answered. An answer to a request that was given up counts if it accepts the entry
    /// on its way; otherwise it is dropped.
    pub fn handle(&mut self, now: Instant, input: AppenderInput) {
        if self.failed {
            return;
        }
        let Some(writing) = &mut self.writing else {
            // Late. Only news of this machine matters, and the next write brings them as well.
            return;
        };
        let progress = match input {
            AppenderInput::Written { request, outcome } => {
                writing.write.written(now, request, outcome, &mut self.rng)
            }
            AppenderInput::Read { request, outcome } => {
                writing.write.read(now, request, outcome, &mut self.rng)
            }
        };
        self.went(progress);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.failed {
            return;
        }
        if let Some(writing) = &mut self.writing {
            let progress = writing.write.time_passed(now, &mut self.rng);
            self.went(progress);
        }
    }

    /// What the shell must do. `now`: when it will be done, for the 10 s count from the first send.
    pub fn poll_output(&mut self, now: Instant) -> Option<AppenderOutput> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if self.failed {
            return None;
        }
        if self.writing.is_none() {
            let gathered = self.gathered.pop_front()?;
            self.writing = Some(self.seal(now, gathered));
        }
        let write = &mut self.writing.as_mut()?.write;
        let position = write.position();
        Some(match write.poll_request(now, &mut self.next_request)? {
            Request::Write { request, entry } => AppenderOutput::Write { request, position, entry },
            Request::Read { request } => AppenderOutput::Read { request, position },
        })
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), and then to poll.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.failed {
            return None;
        }
        self.writing.as_ref().map(|writing| writing.write.due())
    }

    fn seal(&mut self, now: Instant, gathered: Gathered) -> Writing {
        let position = self.end.position.next();
        let entry = Entry {
            origin: self.origin.clone(),
            position,
            nonce: self.rng.next_u64(),
            time: gathered.time,
            previous: self.end.chain,
            body: EntryBody::Changes(gathered.changes),
        };
        let (bytes, chain) = entry.encode();
        let EntryBody::Changes(changes) = entry.body else {
            unreachable!("the body was made of changes above")
        };
        Writing { write: EntryWrite::new(now, position, bytes), end: LogEnd { position, chain }, changes }
    }

    fn went(&mut self, progress: Progress) {
        match progress {
            Progress::Going => {}
            Progress::Accepted => {
                let writing = self.writing.take().expect("an entry was on its way");
                self.end = writing.end;
                self.outputs.push_back(AppenderOutput::Apply { end: writing.end, changes: writing.changes });
            }
            // A whole entry that is not ours: somebody else writes this log (D-10). What is damaged is nobody's:
            // whose it was cannot be told.
            Progress::Occupied(bytes) => match Entry::decode(&bytes, &self.origin.node_id) {
                Ok(_) => self.fail(StopReason::LeaseTaken),
                Err(_) => self.fail(StopReason::LogUnreadable),
            },
            Progress::Failed(reason) => self.fail(reason),
        }
    }

    fn fail(&mut self, reason: StopReason) {
        // What was gathered stays: positions given out must never become durable by vanishing.
        self.failed = true;
        self.outputs.push_back(AppenderOutput::Failed(reason));
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the decision takes {} bytes in the log, at most {DECISION_BYTES} are allowed",
            self.bytes
        )
    }
}

impl core::error::Error for TooLarge {}

#[cfg(test)]
#[path = "appender_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "appender_model_tests.rs"]
mod model_tests;
