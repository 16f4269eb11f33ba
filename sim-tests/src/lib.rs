//! What every simulated run is checked against, and how runs are made, repeated and reported.
//!
//! The suites themselves are in `tests/`. `docs/simulator.md` says how to read a failure.

#![forbid(unsafe_code)]

pub mod invariants;
pub mod runner;
