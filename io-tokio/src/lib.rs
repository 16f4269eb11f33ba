//! The production shell: runs the core on threads, disks and real clocks, and decides nothing.

#![cfg_attr(
    test,
    allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects; all else fails it")
)]

mod clock;
mod devlock;
mod durability;
mod exit;
mod files;
mod gate;
pub mod local;
pub mod log;
pub mod runtime;
pub mod snapshot;
pub mod store;

pub use clock::{Clock, entropy, entropy_u128};
pub use devlock::{DevLock, LOCK_FILE, LockError, LockOutcome, VOLUME_LOCK_FILE};
pub use durability::{CleanRun, DurabilityMode, UncleanError, UnknownDurabilityMode};
pub use exit::exit_at_once;
pub use gate::Gate;
