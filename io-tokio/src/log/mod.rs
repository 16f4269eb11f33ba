//! The log's place on disk, behind one trait (architecture.md 3).
//!
//! - [`SegmentLog`]: where `dev.lock` makes the process the only writer. Preallocated files, one write and
//!   one sync per commit.
//! - [`ObjectLog`]: one object per entry, over any object store. Create-if-absent is what fences (HA-14).
//!
//! The calls block: they are made on the log's own thread. What follows from an answer, the core decides.

mod object;
mod segment;

#[cfg(test)]
mod conformance;

use dexzd_core::ids::{Blob, Position};
use dexzd_core::log::{AppenderInput, AppenderOutput, ListOutcome, ReadEnd, StartupInput, StartupOutput};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

pub use object::ObjectLog;
pub(crate) use object::{entry_key, log_prefix, position_of};
pub use segment::{Disk, RealDisk, SEGMENT_BYTES, SegmentLog, SegmentLogError, StillLocked};

/// Entries by position, each created once and never changed.
pub trait LogStore: Send {
    /// The entries from `from` on, until one is missing or there are so many of them: at most so many
    /// bytes too, but always one entry. A damaged entry is given as it is: its own checksum tells.
    fn read(&mut self, from: Position, at_most: u32, at_most_bytes: u64) -> (Vec<Blob>, ReadEnd);

    /// Creates the entry if there is none at its position. When this says `Done`, the entry survives
    /// whatever the durability mode promises (HA-8 to HA-10).
    fn append(&mut self, position: Position, entry: &[u8]) -> WriteOutcome;

    /// The same log for one more thread, where requests need not wait for one another. `None`: one at a time.
    fn fork(&self) -> Option<Box<dyn LogStore>> {
        None
    }

    /// A tenure begins. Where several entries share a file, what it writes begins a new one (D-45).
    fn begin_epoch(&mut self) {}

    /// The lowest position above this one that has an entry.
    fn first_after(&mut self, position: Position) -> ListOutcome;

    /// Forgets entries below `position`, as far as is convenient; never a fence that still fences (D-30).
    /// Only for positions that the lease's `trimmedBelow` has passed.
    fn trim_below(&mut self, position: Position) -> TrimOutcome;

    /// Brings everything appended to the disk, whatever the mode. Called at an orderly end, and in the
    /// modes without fsync before the local store is flushed, so that it is never ahead of the log.
    fn sync(&mut self) -> WriteOutcome;

    /// For people: where the log is.
    fn name(&self) -> String;
}

/// How a trim ended. It is repeated with the next one, so only a failed disk matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrimOutcome {
    /// Done, with so many files or objects deleted.
    Done {
        /// How many.
        deleted: u64,
    },
    /// Some may be left; the next trim sees to them.
    Transient,
    /// The store refuses for good.
    Permanent,
    /// This machine's own disk failed (D-33).
    LocalFailure,
}

/// Does what the appender asks of the log's store. None: it asks something else.
pub fn answer_appender(log: &mut dyn LogStore, output: &AppenderOutput) -> Option<AppenderInput> {
    match output {
        AppenderOutput::Write { request, position, entry } => {
            Some(AppenderInput::Written { request: *request, outcome: log.append(*position, entry) })
        }
        AppenderOutput::Read { request, position } => {
            Some(AppenderInput::Read { request: *request, outcome: read_one(log, *position) })
        }
        AppenderOutput::Apply { .. } | AppenderOutput::Failed(_) => None,
    }
}

/// Does what the start of an epoch asks of the log's store. None: it asks something else.
pub fn answer_startup(log: &mut dyn LogStore, output: &StartupOutput) -> Option<StartupInput> {
    match output {
        StartupOutput::Read { request, from, at_most, at_most_bytes } => {
            let (entries, then) = log.read(*from, *at_most, *at_most_bytes);
            Some(StartupInput::Read { request: *request, entries, then })
        }
        StartupOutput::List { request, after } => {
            Some(StartupInput::Listed { request: *request, outcome: log.first_after(*after) })
        }
        StartupOutput::Write { request, position, entry } => {
            Some(StartupInput::Written { request: *request, outcome: log.append(*position, entry) })
        }
        StartupOutput::Apply { .. }
        | StartupOutput::DiscardLocalStore(_)
        | StartupOutput::FenceAccepted { .. }
        | StartupOutput::LogShorter { .. }
        | StartupOutput::EpochBehind { .. }
        | StartupOutput::Ready { .. }
        | StartupOutput::Failed { .. } => None,
    }
}

fn read_one(log: &mut dyn LogStore, position: Position) -> ReadOutcome {
    let (entries, then) = log.read(position, 1, 0);
    match (entries.into_iter().next(), then) {
        (Some(body), _) => ReadOutcome::Found { version: no_version(), body, stamp_ms: None },
        (None, ReadEnd::Missing) => ReadOutcome::Missing,
        (None, ReadEnd::Full) => ReadOutcome::Transient { retry_after_ms: None },
        (None, ReadEnd::Transient { retry_after_ms }) => ReadOutcome::Transient { retry_after_ms },
        (None, ReadEnd::Permanent) => ReadOutcome::Permanent,
        (None, ReadEnd::LocalFailure) => ReadOutcome::LocalFailure,
    }
}

/// Entries are never replaced, so nobody asks for their version.
fn no_version() -> Version {
    Version(Blob::default())
}
