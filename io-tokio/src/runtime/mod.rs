//! One process of a node: the threads that drive the core, and the handle that the server talks to.
//!
//! ```text
//!  server (tokio) ──calls, frames──▶ data plane ──entries──▶ log ───▶ disk
//!        ▲                            │  ▲   │                 │
//!        └──answers, frames───────────┘  │   └──changes──▶ apply ──▶ local store ◀── upkeep
//!                                        └────durable──────────┘
//!
//!  standing by: log ──entries──▶ data plane (follower) ──changes──▶ apply ──▶ local store
//!  taking over: the same store, handed over open; stepping down: let go of by all, closed, node told
//!
//!  control plane ──orders──▶ data plane        control plane ──requests──▶ one thread each ──▶ lease
//! ```
//!
//! The control plane drives `core::node` and never waits for anything but its own messages, so nothing
//! that the data plane, the log or the local store does can delay a renewal (lesson 10).

mod admin;
mod apply;
mod config;
mod control;
mod crew;
mod data;
mod data_engine;
mod data_exits;
mod data_follow;
mod data_local;
mod data_start;
mod devices;
mod event;
mod handle;
mod local_opener;
mod log_thread;
mod messages;
mod place;
mod recorder;
mod start;
mod stream;
mod survey;
mod teardown;
mod threads;
mod tracked;
mod upkeep;
mod view;
mod watchdog;

pub use config::{NodeConfig, SharedStores, StartError, Storage};
pub use event::{EventSink, ShellEvent};
pub use handle::{NodeHandle, OPEN_CALLS, Stopped};
pub use start::start;
pub use stream::{WorkerReceiver, WorkerSender};
pub use view::NodeView;

#[cfg(test)]
mod tests;
