//! The client's side of `dexcli admin`: what is asked in which order, what a failure means, and what is
//! printed (HA-112, HA-116 to HA-130, D-20).
//!
//! The most dangerous moment of a step down is the retry: a caller that lost the answer and names the
//! epoch that it sees *now* steps down the process that has just taken over. So the epoch of a call is
//! fixed before the call, printed with every outcome, and never looked up anew.

mod epoch;
mod io;
mod machine;

pub use epoch::{EpochText, parse_epoch};
pub use io::{
    AdminTimer, CallFailure, Code, Command, Described, Ending, Failure, FailureKind, Input, LeaseHolder,
    Output, StepDownFlags, StepDownReport,
};
pub use machine::{AdminCommand, DESCRIBE_TIMEOUT, STEP_DOWN_TIMEOUT};

#[cfg(test)]
mod machine_tests;
