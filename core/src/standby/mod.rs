//! Standing by: how a process waits for the lease, and how close to the active a hot one is.
//!
//! A cold standby waits idle (HA-41). A hot one follows the log all the while, so that little is left to
//! replay when it takes over (HA-42). `node` decides when to follow; the data plane follows.

mod config;
mod follower;
mod follower_io;
mod state;

pub use config::{HoldOffTooShort, StandbyConfig, StandbyMode, StandbyTimes};
pub use follower::{Follower, FollowerInput, FollowerOptions, FollowerOutput, HOLE_PATIENCE, RestartReason};
pub use state::{FollowerReport, FollowerState};

#[cfg(test)]
mod config_tests;
