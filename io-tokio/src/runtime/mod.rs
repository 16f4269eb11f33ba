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

mod config;
mod event;
mod handle;
mod messages;
mod stream;

pub use config::{NodeConfig, StartError};
pub use event::{EventSink, ShellEvent};
pub use handle::{NodeHandle, Stopped};
pub use stream::{WorkerReceiver, WorkerSender};
