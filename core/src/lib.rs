//! Every decision of dex-server-zd, as pure state machines.
//!
//! This crate decides and never acts. It does no I/O, reads no clock, rolls no dice, starts no
//! thread: time, replies and random seeds are arguments, and what must be done is returned as data.
//! The same code therefore runs in production (`dexzd-io-tokio`), in the simulator (`dexzd-io-sim`),
//! under a fuzzer, and again from a recording.
//!
//! Every machine here has the same three verbs:
//!
//! ```text
//! fn handle(&mut self, now: Now, input: Input)             something happened: one mutation
//! fn poll_output(&mut self) -> Option<Output>              what the shell must do: drain until None
//! fn poll_timeout(&self) -> Option<(Instant, TimerKind)>   when to call again at the latest, and why
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects; all else fails it")
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod admin;
pub mod backoff;
pub mod engine;
pub mod gate;
pub mod ids;
pub mod lease;
pub mod log;
pub mod mutant;
#[cfg(feature = "exhaustive")]
pub mod names;
pub mod node;
pub mod rng;
pub mod snapshot;
pub mod standby;
pub mod stop;
pub mod store;
pub mod time;
