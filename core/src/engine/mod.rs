//! The data plane: Flows, Steps, attempts, waits, timers, Channels, Attributes, the task queue and the
//! log appender. One engine lives for one epoch: its construction is the recovery (HA-20).
//!
//! | file | what it decides |
//! | --- | --- |
//! | `machine` | the three verbs, and the road that every input takes |
//! | `calls`, `start`, `mutate`, `queries`, `polling` | what clients ask |
//! | `frames`, `attempt`, `queue` | what Workers get and say |
//! | `turn`, `decision`, `close` | how a run moves |
//! | `wait`, `retry`, `validate`, `search` | pure rules |
//! | `timers`, `deadlines`, `due` | what time brings, and recovery |
//! | `model`, `call`, `frame`, `history`, `io` | the vocabulary |
//! | `keys`, `record`, `run`, `runs`, `state`, `tracked` | durable state and how it is held in memory |

mod attempt;
mod call;
mod calls;
mod close;
mod context;
mod deadlines;
mod decision;
mod due;
mod frame;
mod frames;
mod history;
mod io;
mod keys;
pub mod limits;
mod machine;
mod model;
mod mutate;
mod polling;
mod polls;
mod queries;
mod queue;
mod record;
pub mod retry;
mod run;
mod runs;
pub mod search;
mod start;
mod state;
#[cfg(feature = "exhaustive")]
mod stored;
mod timers;
mod tracked;
mod turn;
pub mod validate;
pub mod wait;
mod workload;

pub use call::*;
pub use frame::*;
pub use history::*;
pub use io::*;
pub use machine::{Engine, EngineConfig, EngineTimer, stop_reason};
pub use model::*;
pub use state::StateRead;
#[cfg(feature = "exhaustive")]
pub use stored::{STORED_RECORDS, check_stored_record};
pub use workload::Workload;

#[cfg(test)]
mod tests;
