//! The control plane of one process: the lease, the roles, recovery's order, shutdown.
//!
//! It has its own thread and its own connection to the store: nothing that the data plane does can delay
//! a renewal. The two talk by messages only; the gate is the one thing that both can see (D-47).

mod admin;
mod calls;
mod connections;
mod event;
mod follow;
mod health;
mod io;
mod machine;
mod role;
mod step_down;
mod tenure;

pub use crate::lease::UnknownHolder;
pub use admin::{
    ActiveProcess, AdminAnswer, AdminCode, AdminError, AdminReason, AdminRequest, StepDownOutcome,
};
pub use connections::{Connection, Period, RolePeriod};
pub use event::{NodeEvent, NodeTimer};
pub use health::{HOT_STANDBY_NAME, Health, READINESS_NAMES, StandbyGauges, Standing};
pub use io::{FollowOrder, Input, NodeConfig, OpenLog, Output};
pub use machine::Node;
pub use role::{Role, TRANSITIONS, Trigger};

#[cfg(test)]
mod calls_tests;
#[cfg(test)]
mod connections_tests;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod follow_tests;
#[cfg(test)]
mod health_tests;
#[cfg(test)]
mod machine_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod role_tests;
#[cfg(test)]
mod signal_tests;
#[cfg(test)]
mod step_down_tests;
