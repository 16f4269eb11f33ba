//! The public gRPC API of dex-server-zd: package `dex`, services `FlowService`, `WorkerTaskService` and
//! `AdminService`.
//!
//! Generated from `proto/dex/*.proto`, which carry the documentation.

#![allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]

tonic::include_proto!("dex");

/// The encoded file descriptors, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dex.descriptors"));

/// The protocol versions that this crate speaks: an inclusive interval.
pub const PROTOCOL_VERSIONS: (u32, u32) = (1, 1);

/// The largest gRPC message either side accepts, in bytes: 16 MiB.
pub const MESSAGE_BYTES: usize = 16 << 20;
