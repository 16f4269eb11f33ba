//! The deterministic shell: runs the machines of `dexzd-core` in simulated time, on a simulated store,
//! disk and network. It never reads a real clock, file or socket, and everything it decides by chance
//! is an entry of a decision log.
//!
//! ```text
//! dice         named random streams from one root seed; the decision log
//! heap         events in virtual time, ties broken by insertion number
//! clock        what each process believes the time to be
//! trace        a rolling hash of everything that happened
//! story        lines, messages and clocks for people
//! marks        interesting states that seeds must reach
//! store        objects with versions and conditional writes
//! weather      what happens to a request on its way to a store and back
//! disk         files that lose what was not synced
//! log_store    the log of one node on a disk or in a store
//! local_store  the applied state, which may lose its newest batches in a crash
//! swarm        which faults exist in this run, and how often
//! watch        what a world shows to those who check it
//! lease_world  processes that compete for one lease
//! product      the whole product, with Workers and clients
//! ```

#![forbid(unsafe_code)]

pub mod clock;
pub mod dice;
pub mod disk;
pub mod heap;
pub mod lease_world;
pub mod local_store;
pub mod log_store;
pub mod marks;
pub mod product;
pub mod store;
pub mod story;
pub mod swarm;
pub mod trace;
pub mod watch;
pub mod weather;

/// Virtual time: microseconds since the beginning of the run. Nobody inside the simulation sees it.
pub type TrueTime = u64;

/// One millisecond of virtual time.
pub const MILLISECOND: TrueTime = 1_000;
/// One second of virtual time.
pub const SECOND: TrueTime = 1_000_000;
