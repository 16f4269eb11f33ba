//! The data plane: Flows, Steps, attempts, waits, timers, Channels, Attributes, the task queue and the
//! log appender. One engine lives for one epoch: its construction is the recovery (HA-20).

mod call;
mod frame;
mod history;
mod io;
pub mod limits;
mod model;
pub mod retry;
pub mod search;
mod state;
pub mod validate;
pub mod wait;

pub use call::*;
pub use frame::*;
pub use history::*;
pub use io::*;
pub use model::*;
pub use state::StateRead;
