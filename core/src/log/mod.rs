//! The log: the truth. Everything else is a cache of it (architecture.md 3).

mod appender;
pub(crate) mod ask;
mod entry;
#[cfg(test)]
pub(crate) mod hand_made;
mod outbox;
pub(crate) mod reader;
mod startup;
mod write;

pub use appender::{Appender, AppenderInput, AppenderOutput, DECISION_BYTES, SHARED_ENTRY_BYTES, TooLarge};
pub use entry::{Chain, Entry, EntryBody, EntryError, EntryKind, FORMAT_VERSION, LogEnd, Origin};
pub use outbox::Outbox;
pub use reader::{DiscardReason, ListOutcome, ReadEnd};
pub use startup::{Startup, StartupInput, StartupOptions, StartupOutput};
pub use write::WRITE_LIMIT;
