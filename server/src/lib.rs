//! `dex-server-zd`: configuration, gRPC services, health, metrics and process life around the shell.
//!
//! A message becomes a core command here and back, nothing else (architecture.md 4). What must happen
//! is decided in `dexzd-core`; what does happen, by `dexzd-io-tokio`.

#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
#[cfg(any(test, feature = "fuzzed"))]
pub mod fuzzed;
pub mod life;

mod announce;
mod auth;
mod connections;
mod convert;
mod grpc;
mod logging;
mod page;
mod refusal;
mod shell;
mod storage;
mod telemetry;
mod tls;
