//! One process of a node: the threads that drive the core, and the handle that the server talks to.
//!
//! ```text
//!  server (tokio) ──calls, frames──▶ data plane ──entries──▶ log ───▶ disk
//!        ▲                            │  ▲   │                 │
//!        └──answers, frames───────────┘  │   └──applied──▶ apply ──▶ local store
//!                                        └────durable──────────┘
//!  control plane ──orders──▶ data plane        control plane ──requests──▶ one thread each ──▶ lease
//! ```
//!
//! The control plane drives `core::node` and never waits for anything but its own messages, so nothing
//! that the data plane, the log or the local store does can delay a renewal (lesson 10).

mod apply;
mod config;
mod control;
mod data;
mod data_exits;
mod data_start;
mod event;
mod handle;
mod local_opener;
mod log_thread;
mod messages;
mod recorder;
mod start;
mod stream;
mod survey;
mod upkeep;
mod watchdog;

pub use config::{NodeConfig, StartError};
pub use event::{EventSink, ShellEvent};
pub use handle::{NodeHandle, OPEN_CALLS, Stopped};
pub use start::start;
pub use stream::{WorkerReceiver, WorkerSender};

#[cfg(test)]
mod tests;
