//! Snapshots on a real store: the threads that drive [`core::snapshot`](dexzd_core::snapshot).
//!
//! ```text
//! apply thread ──Applied──▶ keeper thread ──▶ one thread per request ──▶ object store
//! control ─TrimmedBelow──▶       │  ▲                 │
//!         ─LeaseWritten──▶       │  └────answers──────┘
//! control ◀────TrimBelow─────────┘
//!
//! discarded local store ──▶ restore thread ──▶ one thread per download ──▶ local.restoring/ ──▶ local/
//! ```
//!
//! Nothing here is in the way of a lease write, a log write or the engine: the connection to the store is
//! their own, so are the threads, and a file passes through memory in pieces.

mod keeper;
mod questions;
mod restore;
mod transfer;
mod workers;

#[cfg(test)]
mod tests;

pub use keeper::{KeeperHandle, KeeperParts, KeeperReport};
pub use questions::{FoundSnapshots, look_for_snapshots};
pub use restore::{RestoreHandle, RestoreParts, Restored};
