//! The log: the truth. Everything else is a cache of it (architecture.md 3).

mod appender;
mod entry;

pub use appender::{AppenderInput, AppenderOutput};
pub use entry::{Chain, Entry, EntryBody, EntryError, FORMAT_VERSION, LogEnd, Origin};
