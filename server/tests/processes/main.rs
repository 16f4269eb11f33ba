//! Tests with real processes: the binary, its files, its signals, its last words.
//!
//! They know nothing of features: whatever local store the binary was built with is the one under test.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test may sleep on a thread of its own and print what it found"
)]

mod clocks;
mod cloud;
mod damage;
mod disk;
mod drain;
mod epochs;
mod flows;
mod frozen;
mod harness;
mod input;
mod kill;
mod lease_object;
mod load;
mod log_objects;
mod one_name;
mod pair;
mod refusals;
mod release;
mod security;
mod standby;
mod start;
mod step_down;
mod store_faults;
mod store_refusals;
mod stores;
mod takeover;
mod volume;
